/** Page for onboarding a partner: add it, hand over what it needs, and watch it connect. */
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { OverviewView } from '../../../api/overview.ts';
import type { HandshakeView, PartyView } from '../../../api/parties.ts';
import { useAction } from '../data/action.ts';
import { call } from '../data/api.ts';
import { useQuery } from '../data/query.ts';
import { mayAdminister } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Card } from '../parts/card.tsx';
import { Copied } from '../parts/copy.tsx';
import { useFilters } from '../parts/fields.tsx';
import { useReason } from '../parts/reason.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { type Added, PartnerForm } from './onboarding-form.tsx';
import { Handshake } from './onboarding-handshake.tsx';
import { Check } from './partner-check.tsx';
import '../style/onboarding.css';

export function Onboarding() {
  const [{ partner }, change] = useFilters(['partner']);
  const [added, setAdded] = useState<Added | null>(null);
  return (
    <div class="onboarding stack">
      <div class="page-head">
        <h1>{partner ? `Onboarding ${partner}` : 'Onboarding'}</h1>
        {partner && (
          <button
            type="button"
            onClick={() => {
              setAdded(null);
              change({ partner: '' });
            }}
          >
            Another partner
          </button>
        )}
      </div>
      {partner ? (
        <Connecting key={partner} id={partner} added={added?.party.id === partner ? added : null} />
      ) : (
        <Beginning
          onAdded={(begun) => {
            setAdded(begun);
            change({ partner: begun.party.id });
          }}
        />
      )}
    </div>
  );
}

function Beginning({ onAdded }: { onAdded: (added: Added) => void }) {
  const query = useQuery<OverviewView>('/overview', 5_000);
  return (
    <Asked query={query} what="partners">
      {({ rows }) => {
        const waiting = rows.filter(({ status }) => status === 'REGISTERED');
        return (
          <div class="halves">
            {mayAdminister.value ? (
              <PartnerForm taken={new Set(rows.flatMap(({ parties }) => parties))} onAdded={onAdded} />
            ) : (
              <Empty title="Adding a partner needs the role admin" hint="Here you can watch those that are expected." />
            )}
            <Card title="Waiting to register" label="Expected" beside={<span class="quiet">{waiting.length}</span>}>
              {waiting.length === 0 ? (
                <Empty
                  title="No partners waiting"
                  hint="Partners that were added and have not connected yet are shown here."
                />
              ) : (
                <ul class="inside expected">
                  {waiting.slice(0, expectedMax).map(({ id, names }) => (
                    <li key={id}>
                      <Link class="mono" href={`/onboarding?partner=${id}`}>
                        {id}
                      </Link>{' '}
                      <span class="quiet">{names.join(', ')}</span>
                    </li>
                  ))}
                  {waiting.length > expectedMax && (
                    <li>
                      <Link href="/?show=registered">all {waiting.length}</Link>
                    </li>
                  )}
                </ul>
              )}
            </Card>
          </div>
        );
      }}
    </Asked>
  );
}

const expectedMax = 20;

function Connecting({ id, added }: { id: string; added: Added | null }) {
  const query = useQuery<PartyView>(`/parties/${encodeURIComponent(id)}`, 1_000);
  return (
    <Asked query={query} what={`partner ${id}`}>
      {(party) => (
        <div class="halves">
          <Card
            title="Send this to the partner's engineer"
            label="What the partner needs"
            beside={<Badge state={party.status} />}
          >
            {party.settings.pull_only ? (
              <PullOnly party={party} token={added?.hub_token ?? null} />
            ) : (
              <Handover party={party} token={added?.initial_token ?? null} />
            )}
          </Card>
          {!party.settings.pull_only && <Handshake party={party} reload={query.reload} />}
          {party.url !== null && <Check party={party} reload={query.reload} />}
        </div>
      )}
    </Asked>
  );
}

interface HandoverProps {
  readonly party: PartyView;
  /** Null when this page does not have it, for example after a reload. */
  readonly token: string | null;
}

/** What the partner's engineer needs to connect. The token is shown once. */
function Handover({ party, token: given }: HandoverProps) {
  const [issued, setIssued] = useState<string | null>(null);
  const { data } = useQuery<HandshakeView>(`/parties/${party.id}/handshake`);
  const token = issued ?? given;
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
function PullOnly({ party: { id }, token }: HandoverProps) {
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
