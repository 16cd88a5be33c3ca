/** Actions on a partner as a whole; irreversible ones ask for confirmation. */
import { useState } from 'preact/hooks';
import type { PartyView, PortalLink, ProbeView } from '../../../api/parties.ts';
import { say, useAction } from '../data/action.ts';
import { call } from '../data/api.ts';
import { many, spanMs } from '../data/format.ts';
import { mayAdminister, mayOperate } from '../data/session.ts';
import type { DialogOfPartner, PartnerProps } from '../parts/card.tsx';
import { Copied } from '../parts/copy.tsx';
import { Answers, Dialog } from '../parts/dialog.tsx';
import { Form } from '../parts/fields.tsx';
import { useReason } from '../parts/reason.tsx';
import { Instant } from '../parts/time.tsx';

type Asking = 'suspend' | 'token' | 'host' | 'portal' | null;

export function PartnerActions({ party, reload }: PartnerProps) {
  const { id, status, settings } = party;
  const [asking, setAsking] = useState<Asking>(null);
  const isRegistered = status === 'CONNECTED' || status === 'OFFLINE';
  const isMove = party.host_change !== null && party.host_change.state !== 'confirmed';
  const probe = useAction(async () => {
    const { status: found, latency_ms, error } = await call<ProbeView>('POST', `/parties/${id}/probe`);
    reload();
    const took = spanMs(Math.round(latency_ms));
    if (found === 'reachable') return `${id} answered in ${took}.`;
    say('failed', `${id} cannot be reached (${took}): ${error}`);
    return null;
  });
  const pause = useAction(async (paused: boolean) => {
    await call('PATCH', `/parties/${id}`, { paused });
    reload();
    return paused ? `Deliveries to ${id} wait until you resume.` : `Deliveries to ${id} go out again.`;
  });
  return (
    <div class="row actions">
      {isRegistered && (
        <button type="button" disabled={probe.isRunning} onClick={() => probe.run()}>
          {probe.isRunning ? 'Asking …' : 'Probe'}
        </button>
      )}
      {mayOperate.value && (
        <button type="button" disabled={pause.isRunning} onClick={() => pause.run(!settings.paused)}>
          {settings.paused ? 'Resume deliveries' : 'Pause deliveries'}
        </button>
      )}
      {mayAdminister.value && (
        <button type="button" onClick={() => setAsking('token')}>
          New initial token
        </button>
      )}
      {mayAdminister.value && status !== 'SUSPENDED' && (
        <button type="button" onClick={() => setAsking('portal')}>
          Portal link
        </button>
      )}
      {mayAdminister.value && party.url !== null && (
        <button type="button" class={isMove ? 'main' : ''} onClick={() => setAsking('host')}>
          Confirm host
        </button>
      )}
      {mayOperate.value && status !== 'SUSPENDED' && (
        <button type="button" class="danger" onClick={() => setAsking('suspend')}>
          Suspend
        </button>
      )}
      {asking === 'suspend' && <Suspend party={party} reload={reload} onClose={() => setAsking(null)} />}
      {asking === 'host' && <ConfirmHost party={party} reload={reload} onClose={() => setAsking(null)} />}
      {asking === 'portal' && <NewPortalLink id={id} onClose={() => setAsking(null)} />}
      {asking === 'token' && <NewToken party={party} isRegistered={isRegistered} onClose={() => setAsking(null)} />}
    </div>
  );
}

function Suspend({ party: { id, queue }, reload, onClose }: DialogOfPartner) {
  const reason = useReason();
  const { isRunning, run } = useAction(async () => {
    await call('POST', reason.given(`/parties/${id}/suspend`));
    reload();
    onClose();
    return `${id} is suspended.`;
  });
  return (
    <Dialog title={`Suspend ${id}?`} onClose={onClose}>
      <div class="stack">
        <p>
          Its token stops working at once. What waits for it now
          {queue.depth > 0 ? ` (${many(queue.depth, 'delivery', 'deliveries')})` : ''} is not sent any more and ends as
          dead letters.
        </p>
        <p>To bring it back, issue a new initial token; it then exchanges credentials again.</p>
        {reason.field}
        <Answers label={`Suspend ${id}`} isDisabled={isRunning} isDangerous onYes={() => run()} onNo={onClose} />
      </div>
    </Dialog>
  );
}

/** A change of host that waits or was made is confirmed, or one that no PUT of credentials has asked for yet. [D87] */
function ConfirmHost({ party: { id, host_change: change }, reload, onClose }: DialogOfPartner) {
  const reason = useReason();
  const { isRunning, run } = useAction(async (form: FormData) => {
    const host = String(form.get('host') ?? '').trim();
    const path = reason.given(`/parties/${id}/confirm-host`);
    const { host_change: left } = await call<PartyView>('POST', path, host === '' ? {} : { host });
    reload();
    onClose();
    return left ? `The next PUT of ${id} may change its host to ${left.to}.` : `The host of ${id} is confirmed.`;
  });
  return (
    <Dialog title={`Confirm the host of ${id}`} onClose={onClose}>
      <Form class="stack" onSubmit={run}>
        <p>
          {change ? (
            <>
              {hostChangeWords[change.state]}: from <code>{change.from}</code> to <code>{change.to}</code>. Ask the
              partner whether it moved: anyone with its token can do this.
            </>
          ) : (
            'No change of host is known. Confirm one beforehand, and the next PUT of its credentials may make it.'
          )}
        </p>
        <label>
          Host and port
          <input
            name="host"
            maxLength={255}
            required
            defaultValue={change?.to ?? ''}
            autocomplete="off"
            spellcheck={false}
          />
        </label>
        {reason.field}
        <Answers label="It was the partner: confirm" isDisabled={isRunning} onNo={onClose} />
      </Form>
    </Dialog>
  );
}

export const hostChangeWords = {
  waiting: 'A change of its host waits for an operator',
  confirmed: 'Its next PUT of credentials may change its host',
  made: 'It changed its host',
} as const;

interface NewTokenProps {
  readonly party: PartyView;
  readonly isRegistered: boolean;
  readonly onClose: () => void;
}

export function NewToken({ party: { id }, isRegistered, onClose }: NewTokenProps) {
  const [token, setToken] = useState<string | null>(null);
  const reason = useReason();
  const { isRunning, run } = useAction(async () => {
    const path = reason.given(`/parties/${id}/initial-token`);
    const { initial_token } = await call<{ initial_token: string }>('POST', path);
    setToken(initial_token);
    return null;
  });
  return (
    <Dialog title={`Initial token of ${id}`} onClose={onClose}>
      <div class="stack">
        {token === null ? (
          <>
            <p>
              A new initial token takes the place of the one before, which stops working at once. It is shown once.
              {isRegistered ? ` ${id} goes on as it is until it has registered with it; its hub token then ends.` : ''}
            </p>
            {reason.field}
            <div class="row">
              <button type="button" class="main" disabled={isRunning} onClick={() => run()}>
                Issue a new token
              </button>
            </div>
          </>
        ) : (
          <>
            <p>Copy it now: the hub keeps only its digest, and nobody can show it again.</p>
            <Copied label="initial token" text={token} />
          </>
        )}
      </div>
    </Dialog>
  );
}

function NewPortalLink({ id, onClose }: { id: string; onClose: () => void }) {
  const [link, setLink] = useState<PortalLink | null>(null);
  const reason = useReason();
  const { isRunning, run } = useAction(async () => {
    setLink(await call<PortalLink>('POST', reason.given(`/parties/${id}/portal-link`)));
    return null;
  });
  return (
    <Dialog title={`Portal of ${id}`} onClose={onClose}>
      <div class="stack">
        {link === null ? (
          <>
            <p>
              With a link {id} sees its own queue, dead letters and refused pushes, re-drives its own dead letters,
              checks its endpoints and rotates its token.
            </p>
            {reason.field}
            <div class="row">
              <button type="button" class="main" disabled={isRunning} onClick={() => run()}>
                Make a link
              </button>
            </div>
          </>
        ) : (
          <>
            <p>
              Send it to {id} over a secure channel: anyone who has it can sign in until{' '}
              <Instant value={link.expires_at} />.
            </p>
            <Copied label="portal link" text={link.url} />
          </>
        )}
      </div>
    </Dialog>
  );
}
