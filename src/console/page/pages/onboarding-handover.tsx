/** What the partner's engineer needs to connect, ready to copy. The token is shown once. */
import { useState } from 'preact/hooks';
import type { HandshakeView, PartyView } from '../../../api/parties.ts';
import { useAction } from '../data/action.ts';
import { call } from '../data/api.ts';
import { useQuery } from '../data/query.ts';
import { mayAdminister } from '../data/session.ts';
import { Copied } from '../parts/copy.tsx';
import { useReason } from '../parts/reason.tsx';

interface HandoverProps {
  readonly party: PartyView;
  /** Null when this page does not have it, for example after a reload. */
  readonly token: string | null;
}

export function Handover({ party, token: told }: HandoverProps) {
  const [issued, setIssued] = useState<string | null>(null);
  const { data } = useQuery<HandshakeView>(`/parties/${party.id}/handshake`);
  const token = issued ?? told;
  const isExpected = party.status === 'REGISTERED' || party.status === 'SUSPENDED';
  const header = token === null ? null : `Authorization: Token ${encoded(token, party)}`;
  const isBase64 = party.token_sent_as === 'base64';
  return (
    <div class="inside stack">
      <p class="quiet">OCPI 2.2.1. It fetches the versions with this token, then sends its credentials with POST.</p>
      {data && <Copied label="versions URL" text={data.versions_url} />}
      {token !== null && header !== null && (
        <>
          <p class="once" role="note">
            The token is shown only once: the hub keeps only its digest. Send it over a secure channel.
          </p>
          <Copied label={isBase64 ? 'initial token (before Base64)' : 'initial token'} text={token} />
          <Copied label={isBase64 ? 'header to use (token in Base64)' : 'header to use'} text={header} />
          {data && <Copied label="first call to try" text={`curl -H '${header}' ${data.versions_url}`} />}
        </>
      )}
      {token === null && <Issue party={party} isExpected={isExpected} onIssued={setIssued} />}
    </div>
  );
}

/** A partner that is pull only exchanges nothing: its hub token and the address are all it needs. [D89] */
export function PullOnly({ party: { id }, token }: HandoverProps) {
  const { data } = useQuery<HandshakeView>(`/parties/${id}/handshake`);
  return (
    <div class="inside stack">
      <p class="quiet">It calls the hub with a hub token, and exchanges no credentials. The hub never calls it.</p>
      {data && <Copied label="versions URL" text={data.versions_url} />}
      {token === null ? (
        <p>Its hub token was shown when it was issued and cannot be shown again.</p>
      ) : (
        <>
          <p class="once" role="note">
            The token is shown only once: the hub keeps only its digest. Send it over a secure channel.
          </p>
          <Copied label="hub token" text={token} />
        </>
      )}
    </div>
  );
}

interface IssueProps {
  readonly party: PartyView;
  readonly isExpected: boolean;
  readonly onIssued: (token: string) => void;
}

function Issue({ party, isExpected, onIssued }: IssueProps) {
  const reason = useReason();
  const { isRunning, run } = useAction(async () => {
    const path = reason.given(`/parties/${party.id}/initial-token`);
    const { initial_token } = await call<{ initial_token: string }>('POST', path);
    onIssued(initial_token);
    return null;
  });
  return (
    <>
      <p>
        {isExpected
          ? 'Its initial token was shown when it was added and cannot be shown again.'
          : 'It is connected: its initial token is spent.'}
      </p>
      {mayAdminister.value && (
        <>
          {reason.field}
          <div class="row">
            <button type="button" disabled={isRunning} onClick={() => run()}>
              Issue a new one
            </button>
            <span class="quiet">
              {isExpected ? 'The one before stops working.' : 'It goes on as it is until it has registered with it.'}
            </span>
          </div>
        </>
      )}
    </>
  );
}

function encoded(token: string, { token_sent_as }: PartyView): string {
  return token_sent_as === 'base64' ? btoa(token) : token;
}
