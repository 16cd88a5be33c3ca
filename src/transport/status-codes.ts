/**
 * The error table: HTTP status, OCPI status and message of each refusal. [interface, Errors; D1–D7, D25, D44, D49]
 *
 * Where the interface defines no HTTP status, the answer is 200 with the OCPI code. [D1] `{side}` is replaced by the
 * side that failed.
 */
import type { ErrorCode, HubError } from '../domain/errors.ts';

export interface StatusRow {
  readonly http: number;
  readonly ocpi: number;
  readonly message: string;
  /** `data` of the envelope, unless the error has its own. */
  readonly data?: unknown;
}

export const success = 1000;

const unknown = { allowed: 'UNKNOWN' };

export const statusTable: Readonly<Record<ErrorCode, StatusRow>> = {
  invalidToken: { http: 401, ocpi: 2000, message: 'Invalid token' },
  loop: { http: 508, ocpi: 3000, message: 'The request comes from this hub' },
  pathNotFound: { http: 404, ocpi: 2000, message: 'Not found' },
  methodNotAllowed: { http: 405, ocpi: 2000, message: 'Method not allowed' },
  notRegistered: { http: 405, ocpi: 2000, message: 'Not registered' },
  alreadyRegistered: { http: 405, ocpi: 2000, message: 'Already registered' },

  notJson: { http: 400, ocpi: 2001, message: 'Body is not valid JSON' },
  tooDeep: { http: 400, ocpi: 2001, message: 'Body is nested too deeply' },
  tooLarge: { http: 413, ocpi: 2000, message: 'Body is too large' },
  tooFragmented: { http: 413, ocpi: 2000, message: 'Body is in too many pieces' },
  unsupportedMediaType: { http: 415, ocpi: 2000, message: 'Content-Type must be application/json' },
  invalid: { http: 200, ocpi: 2001, message: 'Invalid or missing parameters' },

  cpoOnly: { http: 403, ocpi: 2000, message: 'CPO-only endpoint' },
  emspOnly: { http: 403, ocpi: 2000, message: 'eMSP-only endpoint' },
  notFound: { http: 404, ocpi: 2003, message: 'Not found' },

  locationNotFound: { http: 404, ocpi: 2003, message: 'Location not found' },
  unknownCommand: { http: 404, ocpi: 2000, message: 'Unknown command' },
  notRouted: { http: 403, ocpi: 2000, message: 'Not routed' },
  commandTimeout: { http: 502, ocpi: 2000, message: 'CPO command forward timed out' },
  commandUnavailable: { http: 502, ocpi: 2000, message: 'CPO command forward unavailable' },
  commandUnauthorized: { http: 502, ocpi: 2000, message: 'CPO command forward unauthorized' },
  commandNotFound: { http: 502, ocpi: 2000, message: 'CPO command forward not found' },
  commandRejected: { http: 502, ocpi: 2000, message: 'CPO command rejected' },
  commandFailed: { http: 502, ocpi: 2000, message: 'CPO command forward failed' },

  authorizeTimeout: { http: 504, ocpi: 4002, message: '{side} authorize timeout', data: unknown },
  authorizeUnavailable: { http: 502, ocpi: 4003, message: '{side} authorize unavailable', data: unknown },
  authorizeNoEndpoint: { http: 502, ocpi: 4003, message: '{side} tokens endpoint not configured', data: unknown },
  authorizeUnauthorized: { http: 502, ocpi: 4003, message: '{side} authorize unauthorized', data: unknown },
  authorizeNotFound: { http: 502, ocpi: 4003, message: '{side} authorize not found', data: unknown },
  authorizeRejected: { http: 502, ocpi: 4003, message: '{side} authorize rejected', data: unknown },
  authorizeIncomplete: { http: 502, ocpi: 4003, message: '{side} authorize response incomplete', data: unknown },

  callbackForwardFailed: { http: 502, ocpi: 2000, message: 'Failed to forward command callback to eMSP' },
  callbackForwardTimeout: { http: 502, ocpi: 2000, message: 'Failed to forward command callback to eMSP: timed out' },

  rateLimited: { http: 429, ocpi: 2901, message: 'Rate limited' },
  quotaExceeded: { http: 429, ocpi: 2901, message: 'Quota of the day is used up' },
  objectsExceeded: { http: 429, ocpi: 2901, message: 'Quota of objects is used up' },

  partnerUnusable: { http: 200, ocpi: 3001, message: "Unable to use the client's API" },
  hostChangeWaits: { http: 200, ocpi: 3001, message: 'change of host waits for the hub operator' },
  versionUnsupported: { http: 200, ocpi: 3002, message: 'No mutual version' },
  endpointsMissing: { http: 200, ocpi: 3003, message: 'Credentials module missing in the version details' },
  internal: { http: 500, ocpi: 3000, message: 'Internal error' },
  unavailable: { http: 503, ocpi: 3000, message: 'Temporarily unavailable' },
  outcomeUnknown: { http: 503, ocpi: 3000, message: 'Whether it was stored is unknown' },
  conflict: { http: 409, ocpi: 2000, message: 'Conflict' },
};

export interface Refusal extends StatusRow {
  /** Seconds for `Retry-After`; 429 and 503 always have it. [D2] */
  readonly retryAfterS?: number;
}

/** The answer to an error; its own message and data take precedence over the table's. */
export function refusal(error: Pick<HubError, 'code' | 'detail'>): Refusal {
  const row = statusTable[error.code];
  const { message = row.message, data = row.data, side = 'CPO', retryAfterS } = error.detail;
  const wait = retryAfterS ?? (row.http === 429 || row.http === 503 ? 1 : undefined);
  return {
    http: row.http,
    ocpi: row.ocpi,
    message: message.replace('{side}', side),
    ...(data === undefined ? {} : { data }),
    ...(wait === undefined ? {} : { retryAfterS: Math.max(1, Math.ceil(wait)) }),
  };
}
