/**
 * Calls that somebody waits for: authorize, commands, callbacks. One try each, through the partner's `sync` circuit. An OFFLINE
 * partner is called all the same; an open circuit answers at once. [interface, Errors]
 */
import { partnerMachine } from '../../machines/partner.ts';
import { circuitSign, type Outcome, type OutcomeClass } from '../domain/errors.ts';
import type { Partner } from '../domain/party.ts';
import type { Trace } from '../domain/trace.ts';
import type { Core } from './core.ts';
import { partnerStream } from './partners.ts';
import type { OutboundCall } from './ports.ts';

export interface SyncCall
  extends Pick<OutboundCall, 'method' | 'url' | 'from' | 'to' | 'body' | 'timeoutMs' | 'emptyOk'> {
  /** What it is, for log lines; urls hold card numbers and secrets of partners. */
  readonly what: string;
}

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
  const token = ports.secrets.open(partner.partnerToken);
  if (typeof circuit === 'object') supervisor.send(actor, { type: 'sync.trying', at: ports.clock.now() });
  const { what, ...request } = call;
  const outcome = await tried(core, {
    ...request,
    token,
    encoding: partner.settings.token_encoding,
    requestId: ports.secrets.newId(),
    correlationId: trace.correlationId,
    resend: false,
  });
  supervisor.send(actor, { type: signEvents[circuitSign(outcome)], at: ports.clock.now() });
  ports.log.info(
    {
      partyId: partner.id,
      what,
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

/** A call never throws; if it does all the same, the partner's circuit must not wait for its end for ever. */
async function tried({ ports }: Core, call: OutboundCall): Promise<Outcome> {
  try {
    return await ports.client.call(call);
  } catch (error) {
    ports.log.error({ err: error }, 'a call threw');
    return { ...heldBack('a fault of the hub'), class: 'unavailable' };
  }
}

/** What a failed call is in the words of the error table. [D44] */
export type Failure = 'timeout' | 'unavailable' | 'unauthorized' | 'notFound' | 'rejected' | 'unusable';

const failures: Readonly<Record<Exclude<OutcomeClass, 'delivered'>, Failure>> = {
  timeout: 'timeout',
  unavailable: 'unavailable',
  throttled: 'unavailable',
  circuit_open: 'unavailable',
  expired: 'unavailable',
  auth_error: 'unauthorized',
  not_found: 'notFound',
  client_error: 'rejected',
  invalid_response: 'unusable',
};

/**
 * Null when the call succeeded. Whether trying again makes sense, which the classes also tell apart, is of no interest to
 * those who wait: every other 4xx is a rejection, and a redirect is a partner that is not where it should be.
 */
export function failureOf({ class: met, httpStatus, ocpiStatus }: Outcome): Failure | null {
  if (met === 'delivered') return null;
  if (ocpiStatus === 2004) return 'notFound';
  const hundred = Math.floor((httpStatus ?? 0) / 100);
  if (met !== 'timeout' && hundred === 3) return 'unavailable';
  if (hundred === 4 && (met === 'throttled' || met === 'unavailable')) return 'rejected';
  return failures[met];
}

/** A module URL with segments below it, percent-encoded; a query of the registered URL is kept. */
export function below(moduleUrl: string, segments: readonly string[], query = ''): string {
  const [path = '', ownQuery] = moduleUrl.split('?');
  const tail = segments.map((segment) => `/${encodeURIComponent(segment)}`).join('');
  const queries = [ownQuery, query].filter(Boolean).join('&');
  return `${path.replace(/\/+$/, '')}${tail}${queries ? `?${queries}` : ''}`;
}
