/**
 * Synchronous calls to partners (authorize, commands, callbacks): one attempt each, through a circuit breaker of the
 * partner, and what their answers say. An OFFLINE partner is still called; an open circuit fails the call at once. [interface, Errors]
 *
 * A call is never sent twice, not even when a re-used connection ends without an answer. Such an end is neutral for the circuit.
 *
 * SYNC-CALLS-1  While a circuit that is not closed holds back one caller alone, the calls of others are made. [BREAKER-FEED-5]
 * SYNC-CALLS-2  Of the calls on behalf of one partner at most `endsMax` are followed up in a turn of the event loop, in the order
 *     in which they ended: hundreds that time out at once would take it for a tenth of a second, and those of others would
 *     wait behind them.
 */
import type { Outcome, OutcomeClass } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import { ambiguousName, setMembers } from '../../domain/json-text.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import { enumValue, isDigits } from '../../domain/quirks.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import { perTurn } from '../../kit/turns.ts';
import type { Context } from '../kernel/context.ts';
import { openToken } from '../kernel/directory.ts';
import type { CommandAnswer } from '../ports/hub.ts';
import type { OutboundCall } from '../ports/ports.ts';

export interface SyncCall
  extends Pick<
    OutboundCall,
    | ('method' | 'url' | 'endpoint' | 'from' | 'to' | 'body' | 'timeoutMs' | 'answerMax')
    | ('emptyOk' | 'unwritten' | 'oneObject')
  > {
  readonly module: 'tokens' | 'commands';
  readonly circuit: 'sync' | 'results';
  /** The partner on whose behalf the call is made. */
  readonly source: PartyId;
  /** Name of the call for log lines, which must not contain URLs: these hold card numbers and secrets of partners. */
  readonly what: string;
}

/** More take longer than an authorize of another partner should wait. [SYNC-CALLS-2] */
const endsMax = 32;
const endsInTurns = perTurn({ ofOne: endsMax }, nextTurn);

/** The outcome of a call that was not made. */
const unmade = (outcomeClass: OutcomeClass, message: string): Outcome => ({
  class: outcomeClass,
  httpStatus: null,
  ocpiStatus: null,
  message,
  excerpt: '',
  durationMs: 0,
});

/** Makes the call with the partner's token; the outcome also feeds the circuit of the call. */
export async function callPartner(context: Context, partner: Partner, call: SyncCall, trace: Trace): Promise<Outcome> {
  const { circuits, breakerFeed, contacts, ports } = context;
  if (partner.partnerToken === null || partner.status === 'SUSPENDED')
    return unmade('unavailable', 'the partner is not registered');
  const token = openToken(ports, partner);
  if (token === null) return unmade('unavailable', 'the hub cannot open the token of the partner');
  const circuitNow = () => circuits.snapshot(partner.id, call.circuit)?.value;
  const circuit = circuitNow();
  const isOpen = circuit === 'open' || (typeof circuit === 'object' && circuit.halfOpen === 'trying');
  if (isOpen && !breakerFeed.beginPass(partner.id, call.circuit, ports.clock.now(), call.source)) {
    return unmade('circuit_open', 'the circuit is open after repeated failures');
  }
  const isTrial = typeof circuit === 'object' && !isOpen;
  if (isTrial) circuits.tell(partner.id, call.circuit, { type: 'call.began', at: ports.clock.now() });
  let outcome: Outcome;
  try {
    outcome = await ports.client.call({
      token,
      encoding: partner.settings.token_encoding,
      requestId: ports.secrets.newId(),
      correlationId: trace.correlationId,
      resend: false,
      about: { partner: partner.id, module: call.module, object: null },
      ...call,
    });
  } catch (error) {
    // The port must not throw; if it does, the half-open circuit must still get an outcome, or it waits for ever.
    ports.log.error({ err: error }, 'a call to a partner threw');
    outcome = unmade('unavailable', 'a fault of the hub');
  }
  const turn = endsInTurns(true, call.source);
  if (turn !== null) await turn;
  if (isOpen) breakerFeed.endPass(partner.id, call.circuit);
  // While a trial of a half-open circuit is in flight, calls from before the opening do not count.
  if (isOpen || isTrial || typeof circuitNow() !== 'object') {
    breakerFeed.report(partner.id, call.circuit, outcome, ports.clock.now(), call.source);
  }
  contacts.called(partner.id, outcome, { what: 'sync' });
  ports.log.info(
    {
      partyId: partner.id,
      what: call.what,
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

/** Kinds of failure in the error table. [D44] */
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
 * The kind of failure of a call; null when it succeeded. A caller that waits does not retry, so the transient 4xx
 * classes count as a rejection, like every other 4xx; a redirect means that the partner is not at its URL.
 */
export function failureOf({ class: met, httpStatus, ocpiStatus }: Outcome): Failure | null {
  if (met === 'delivered') return null;
  if (ocpiStatus === 2004) return 'notFound';
  const hundred = Math.floor((httpStatus ?? 0) / 100);
  if (met !== 'timeout' && hundred === 3) return 'unavailable';
  if (hundred === 4 && (met === 'throttled' || met === 'unavailable')) return 'rejected';
  return failures[met];
}

/**
 * The object of a call with `oneObject`, as received text; null when another reader of the text could read a different
 * value of the member `decisive`, which the hub decides by. A node of an earlier version passes on the parsed value
 * without the text.
 */
export function unambiguousText({ dataText, data }: Outcome, decisive: string): string | null {
  const text = dataText ?? JSON.stringify(data) ?? '';
  return ambiguousName(text, new Set([decisive])) === null ? text : null;
}

/** Upper bound of the wait for a result, seconds. */
const timeoutMaxS = 86_400;

/**
 * The CPO's CommandResponse, with the default for an unusable `timeout`; null when unusable itself. A refusal has no result to wait for:
 * its `timeout` of 0 passes. With ACCEPTED 0 is unusable: the eMSP would take a command that goes on for failed. [D28, D72]
 */
export function readAnswer(outcome: Outcome, defaultTimeoutS: number): CommandAnswer | null {
  const { result: said, timeout } = (outcome.data ?? {}) as { result?: unknown; timeout?: unknown };
  const result = enumValue(said);
  const text = unambiguousText(outcome, 'result');
  if (typeof result !== 'string' || result === '' || text === null) return null;
  const seconds = isDigits(timeout) ? Number(timeout) : timeout;
  const isEnough = (of: number) => of > 0 || (of === 0 && result !== 'ACCEPTED');
  const isUsable = typeof seconds === 'number' && Number.isFinite(seconds) && isEnough(seconds);
  const used = isUsable && seconds > 0 ? Math.min(seconds, timeoutMaxS) : defaultTimeoutS;
  const isPlain = isUsable && seconds === timeout;
  return { result, timeout: used, text: isPlain ? text : setMembers(text, new Map([['timeout', String(used)]])) };
}
