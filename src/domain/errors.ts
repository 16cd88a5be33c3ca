/**
 * Refusals of requests and outcomes of outbound calls. A refused request throws `HubError(code)`; an outbound call ends
 * with an `Outcome` value; any other thrown error is a bug. `transport/status-codes.ts` maps the codes to HTTP and
 * OCPI.
 */
import type { Quirk } from './quirks.ts';

export type ErrorCode =
  | 'invalidToken'
  | 'loop'
  | 'pathNotFound'
  | 'methodNotAllowed'
  | 'notRegistered'
  | 'alreadyRegistered'
  | 'notJson'
  | 'tooDeep'
  | 'tooLarge'
  | 'tooFragmented'
  | 'unsupportedMediaType'
  | 'invalid'
  | 'cpoOnly'
  | 'emspOnly'
  | 'notFound'
  | 'locationNotFound'
  | 'unknownCommand'
  | 'notRouted'
  | 'commandTimeout'
  | 'commandUnavailable'
  | 'commandUnauthorized'
  | 'commandNotFound'
  | 'commandRejected'
  | 'commandFailed'
  | 'authorizeTimeout'
  | 'authorizeUnavailable'
  | 'authorizeNoEndpoint'
  | 'authorizeUnauthorized'
  | 'authorizeNotFound'
  | 'authorizeRejected'
  | 'authorizeIncomplete'
  | 'callbackForwardFailed'
  | 'callbackForwardTimeout'
  | 'rateLimited'
  | 'quotaExceeded'
  | 'objectsExceeded'
  | 'partnerUnusable'
  | 'hostChangeWaits'
  | 'versionUnsupported'
  | 'endpointsMissing'
  | 'internal'
  | 'unavailable'
  /** Whether it was written is unknown: a partner gets no answer. [RECORDER-4] */
  | 'outcomeUnknown'
  | 'conflict';

export interface HubErrorDetail {
  /** Replaces or completes the message of the table. */
  readonly message?: string;
  /** The message for operators, where the caller must not learn as much. Never in an answer to a partner. */
  readonly inside?: string;
  /** `data` of the envelope. */
  readonly data?: unknown;
  /** Seconds after which the caller should retry. */
  readonly retryAfterS?: number;
  /** Which side failed, for messages that name it. [D25] */
  readonly side?: 'CPO' | 'eMSP';
}

/** An `Error` without a stack: a refusal is an answer, and capturing the stack takes a quarter of the time that one takes. */
const Stackless = function (this: Error, message: string) {
  this.message = message;
} as unknown as new (
  message: string,
) => Error;
Object.setPrototypeOf(Stackless.prototype, Error.prototype);

export class HubError extends Stackless {
  override readonly name = 'HubError';
  readonly code: ErrorCode;
  readonly detail: HubErrorDetail;

  constructor(code: ErrorCode, detail: HubErrorDetail = {}) {
    super(detail.message ?? code);
    this.code = code;
    this.detail = detail;
  }
}

export type OutcomeClass =
  | 'delivered'
  | 'timeout'
  | 'unavailable'
  | 'throttled'
  | 'auth_error'
  | 'not_found'
  | 'client_error'
  | 'invalid_response'
  | 'circuit_open'
  | 'expired';

/**
 * Result of an outbound call. `delivered` = a 2xx with an OCPI 1xxx envelope; every other class names what happened,
 * and deliveries, authorize and commands each interpret it in their own way. [D44]
 */
export interface Outcome {
  readonly class: OutcomeClass;
  readonly httpStatus: number | null;
  readonly ocpiStatus: number | null;
  /** `data` of the envelope, parsed; undefined when there was none. */
  readonly data?: unknown;
  /** The text of `data`, when the call asked for one object. [D72] */
  readonly dataText?: string | undefined;
  /** What happened, as one sentence for people. Never contains a token. */
  readonly message: string;
  /** First 512 characters of the answer, for people. */
  readonly excerpt: string;
  /** From `Retry-After`, clamped to 15 minutes. */
  readonly retryAfterMs?: number;
  readonly durationMs: number;
  /** What the client made up for, each once; absent: nothing. [D70] */
  readonly quirks?: readonly Quirk[];
  /** The server ended a re-used connection, perhaps as idle, just as the request was sent: no sign of its health. */
  readonly isStale?: boolean;
  /** Nothing of the request left the hub, as when the connection was refused: it cannot have arrived. */
  readonly isUnsent?: boolean;
  /** The answer is that to a resend, of which no attempt tells: what was sent may have arrived before. */
  readonly isResent?: boolean;
  /** The hub ended the call when it closed, after the request was sent: the partner may have done what it asked. */
  readonly isCutOff?: boolean;
}

/** What an outcome says about the partner's health. */
export type CircuitSign = 'failure' | 'reachable' | 'neutral';

const signs: Record<OutcomeClass, CircuitSign> = {
  delivered: 'reachable',
  timeout: 'failure',
  unavailable: 'failure',
  throttled: 'neutral',
  auth_error: 'reachable',
  not_found: 'reachable',
  client_error: 'reachable',
  invalid_response: 'reachable',
  circuit_open: 'neutral',
  expired: 'neutral',
};

export const outcomeClasses = Object.keys(signs) as OutcomeClass[];

export function circuitSign(outcome: Pick<Outcome, 'class' | 'isStale' | 'isCutOff'>): CircuitSign {
  return outcome.isStale || outcome.isCutOff ? 'neutral' : signs[outcome.class];
}

/** Whether the partner refused a call for good: with a 4xx that is no matter of time, or an OCPI 2xxx. */
export const isRefusal = ({ class: met }: Pick<Outcome, 'class'>): boolean =>
  met === 'client_error' || met === 'not_found' || met === 'auth_error';

/**
 * OCPI statuses of client errors with which some partners refuse an unknown token, or a part of an object that they lack or check as if it
 * were the whole. Null: HTTP alone refuses, as frameworks do whose own checks come before OCPI.
 */
const vague: ReadonlySet<number | null> = new Set([2000, 2001, 2002, null]);

/** Whether the partner refused a call without a status that says why. */
const isVagueRefusal = ({ class: met, ocpiStatus }: Pick<Outcome, 'class' | 'ocpiStatus'>): boolean =>
  met === 'client_error' && vague.has(ocpiStatus);

/** HTTP statuses of a partner that lacks the object of a part, or has no method for parts. */
const lacking: ReadonlySet<number | null> = new Set([404, 405, 501]);

/** Whether the partner refused a part of an object, maybe because it lacks the object: it may take the whole. [D59] */
export function isPartRefusal(module: string, outcome: Pick<Outcome, 'class' | 'httpStatus' | 'ocpiStatus'>): boolean {
  const { class: met, httpStatus, ocpiStatus } = outcome;
  const isUnknownToken = module === 'tokens' && met === 'client_error' && ocpiStatus === 2004;
  // A server that says so of every error says so of an object that it lacks, too.
  const mayLack = httpStatus === 400 && (ocpiStatus ?? 0) >= 3000;
  return lacking.has(httpStatus) || ocpiStatus === 2003 || isUnknownToken || mayLack || isVagueRefusal(outcome);
}

/** Whether the partner answered that it failed, as servers do that use an object before they look whether it is there. */
export const isOwnFault = ({ class: met, httpStatus }: Pick<Outcome, 'class' | 'httpStatus'>): boolean =>
  met === 'unavailable' && (httpStatus === 500 || (httpStatus !== null && httpStatus < 300));

/** Whether the partner refused the token of a call, or may have. */
export const mayRefuseToken = (outcome: Pick<Outcome, 'class' | 'ocpiStatus'>): boolean =>
  outcome.class === 'auth_error' || isVagueRefusal(outcome);

/** Outcome of a call that an error of the hub prevented: it is retried, like a call to an unavailable partner. */
export function faultOf(error: unknown): Outcome {
  const message = `a fault of the hub: ${error instanceof Error ? error.message : String(error)}`;
  return { class: 'unavailable', httpStatus: null, ocpiStatus: null, message, excerpt: '', durationMs: 0 };
}
