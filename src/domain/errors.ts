/**
 * Refusals and ends of calls. A refused request throws `HubError(code)`; the end of an outbound call is an `Outcome`
 * value; anything else that is thrown is a bug. What a code means on the wire stands in `transport/status-codes.ts`.
 */

export type ErrorCode =
  | 'invalidToken'
  | 'pathNotFound'
  | 'methodNotAllowed'
  | 'notRegistered'
  | 'alreadyRegistered'
  | 'notJson'
  | 'tooDeep'
  | 'tooLarge'
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
  | 'partnerUnusable'
  | 'versionUnsupported'
  | 'endpointsMissing'
  | 'internal'
  | 'unavailable'
  | 'conflict';

export interface HubErrorDetail {
  /** Replaces the message of the table, or fills it in. */
  readonly message?: string;
  /** `data` of the envelope. */
  readonly data?: unknown;
  /** Seconds after which trying again makes sense. */
  readonly retryAfterS?: number;
  /** Which side failed, for messages that name it. [D25] */
  readonly side?: 'CPO' | 'eMSP';
}

export class HubError extends Error {
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
 * How an outbound call ended. `delivered` = a 2xx with an OCPI 1xxx envelope; everything else says what was met, so that
 * deliveries, authorize and commands can each read their own meaning from it. [D44]
 */
export interface Outcome {
  readonly class: OutcomeClass;
  readonly httpStatus: number | null;
  readonly ocpiStatus: number | null;
  /** `data` of the envelope, parsed; undefined when there was none. */
  readonly data?: unknown;
  /** The text of `data`, when the call asked for one object. [D72] */
  readonly dataText?: string | undefined;
  /** One sentence for people: what was met. Never holds a token. */
  readonly message: string;
  /** First 512 characters of the answer, for people. */
  readonly excerpt: string;
  /** From `Retry-After`, clamped to 15 minutes. */
  readonly retryAfterMs?: number;
  readonly durationMs: number;
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

export function circuitSign(outcome: Pick<Outcome, 'class'>): CircuitSign {
  return signs[outcome.class];
}

/** How a call ends that a fault of ours kept from being made: tried again like one that nobody answered. */
export function faultOf(error: unknown): Outcome {
  const message = `a fault of the hub: ${error instanceof Error ? error.message : String(error)}`;
  return { class: 'unavailable', httpStatus: null, ocpiStatus: null, message, excerpt: '', durationMs: 0 };
}
