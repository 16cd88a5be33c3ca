/**
 * Calls that somebody waits for: authorize, commands, callbacks. One try each, through the partner's `sync` circuit. An OFFLINE
 * partner is called all the same; an open circuit answers at once. [interface, Errors]
 */
import { partnerMachine } from '../../machines/partner.ts';
import { circuitSign, type Outcome } from '../domain/errors.ts';
import type { Partner } from '../domain/party.ts';
import type { Core } from './core.ts';
import type { Trace } from './hub.ts';
import { partnerStream } from './partners.ts';
import type { OutboundCall } from './ports.ts';

export type SyncCall = Pick<OutboundCall, 'method' | 'url' | 'from' | 'to' | 'body' | 'timeoutMs' | 'emptyOk'>;

const heldBack = (message: string): Outcome => ({
  class: 'circuit_open',
  httpStatus: null,
  ocpiStatus: null,
  message,
  excerpt: '',
  durationMs: 0,
});

const signEvents = { failure: 'sync.failed', reachable: 'sync.reached', neutral: 'sync.neutral' } as const;

/** Makes the call as the hub's registration with this partner; the outcome also feeds its circuit. */
export async function callPartner(core: Core, partner: Partner, call: SyncCall, trace: Trace): Promise<Outcome> {
  const { supervisor, ports } = core;
  if (partner.partnerToken === null || partner.status === 'SUSPENDED') return heldBack('the partner is not registered');
  const actor = partnerStream(partner.id);
  const circuit = supervisor.snapshot(partnerMachine, actor)?.value.sync;
  if (circuit === 'open' || (typeof circuit === 'object' && circuit.halfOpen === 'trying')) {
    return heldBack('the circuit is open after repeated failures');
  }
  if (typeof circuit === 'object') supervisor.send(actor, { type: 'sync.trying', at: ports.clock.now() });
  const outcome = await ports.client.call({
    ...call,
    token: ports.secrets.open(partner.partnerToken),
    encoding: partner.settings.token_encoding,
    requestId: ports.secrets.newId(),
    correlationId: trace.correlationId,
    resend: false,
  });
  supervisor.send(actor, { type: signEvents[circuitSign(outcome)], at: ports.clock.now() });
  ports.log.info(
    {
      partyId: partner.id,
      url: call.url,
      method: call.method,
      outcome: outcome.class,
      httpStatus: outcome.httpStatus,
      ocpiStatus: outcome.ocpiStatus,
      durationMs: Math.round(outcome.durationMs),
      correlationId: trace.correlationId,
    },
    'forward',
  );
  return outcome;
}

/** A module URL with segments below it, percent-encoded; a query of the registered URL is kept. */
export function below(moduleUrl: string, segments: readonly string[], query = ''): string {
  const [path = '', ownQuery] = moduleUrl.split('?');
  const tail = segments.map((segment) => `/${encodeURIComponent(segment)}`).join('');
  const queries = [ownQuery, query].filter(Boolean).join('&');
  return `${path.replace(/\/+$/, '')}${tail}${queries ? `?${queries}` : ''}`;
}
