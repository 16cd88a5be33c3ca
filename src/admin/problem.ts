/**
 * Errors of the admin API as RFC 9457 problem details: a table that maps the hub's error codes to HTTP, and a class for
 * refusals of the admin API itself. A readable request with invalid content is 422; 400 means that it cannot be parsed.
 */
import type { z } from 'zod';
import type { FieldError, ProblemDetails } from '../api/common.ts';
import { type ErrorCode, HubError } from '../domain/errors.ts';

interface ProblemParts {
  readonly headers?: Readonly<Record<string, string>>;
  readonly errors?: readonly FieldError[];
}

export class Problem extends Error {
  override readonly name = 'Problem';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly errors: readonly FieldError[] | undefined;

  constructor(status: number, detail: string, { headers = {}, errors }: ProblemParts = {}) {
    super(detail);
    this.status = status;
    this.headers = headers;
    this.errors = errors;
  }

  static validation(place: string, error: z.ZodError): Problem {
    const errors = error.issues.flatMap((issue) => fieldErrors(place, issue));
    const first = errors[0];
    return new Problem(422, first ? `${first.field}: ${first.message}` : 'invalid request', { errors });
  }

  /** The body of the answer. `instance` is the path of the request. */
  toJson(instance: string): ProblemDetails {
    const title = titles[this.status] ?? 'Internal error';
    return {
      type: `urn:ocpi-hub:problem:${title.toLowerCase().replaceAll(' ', '-')}`,
      title,
      status: this.status,
      detail: this.message,
      instance,
      ...(this.errors ? { errors: this.errors } : {}),
    };
  }
}

/** Titles by status; each also gives the last part of the type. */
const titles: Readonly<Record<number, string>> = {
  400: 'Unreadable request',
  401: 'Token required',
  403: 'Not permitted',
  404: 'Not found',
  405: 'Method not allowed',
  406: 'Not acceptable',
  409: 'Conflict',
  413: 'Body too large',
  415: 'JSON required',
  422: 'Invalid request',
  426: 'Upgrade required',
  429: 'Too many requests',
  500: 'Internal error',
  502: 'Partner failed',
  503: 'Unavailable',
};

/** HTTP status of each error code that operator verbs may throw; any other code is a bug and answers 500. */
const statuses: Partial<Record<ErrorCode, number>> = {
  notFound: 404,
  conflict: 409,
  alreadyRegistered: 409,
  notRegistered: 409,
  invalid: 422,
  notJson: 400,
  tooLarge: 413,
  tooFragmented: 413,
  partnerUnusable: 502,
  versionUnsupported: 502,
  endpointsMissing: 502,
  unavailable: 503,
  outcomeUnknown: 503,
  rateLimited: 503,
  quotaExceeded: 429,
};

const details: Partial<Record<ErrorCode, string>> = {
  notFound: 'there is no such thing under this id',
  conflict: 'it exists already',
  tooFragmented: 'the body is in too many pieces',
  unavailable: 'the hub cannot record changes now',
  outcomeUnknown: 'the store did not say whether it took the change: look before you repeat it',
  rateLimited: 'exchanges of this partner are in progress',
  quotaExceeded: 'the quota of the day is used up',
};

const retryAfterS = 5;

/**
 * The problem details of a refusal. Null when the error is a bug, which the caller logs with its stack and answers 500.
 */
export function problemOf(error: unknown): Problem | null {
  if (error instanceof Problem) return error;
  if (error instanceof HubError) return refused(error);
  const status = (error as { statusCode?: unknown } | null)?.statusCode;
  if (typeof status !== 'number' || status < 400 || status > 499) return null;
  return new Problem(status, (error as Error).message);
}

function refused({ code, message, detail }: HubError): Problem | null {
  const status = statuses[code];
  if (status === undefined) return null;
  const text = detail.inside ?? (message === code ? (details[code] ?? code) : message);
  const headers =
    status === 503 || status === 429 ? { 'retry-after': String(Math.ceil(detail.retryAfterS ?? retryAfterS)) } : {};
  return new Problem(status, text, { headers });
}

function fieldErrors(place: string, issue: z.core.$ZodIssue): FieldError[] {
  const at = issue.path.reduce<string>(
    (text, key) => text + (typeof key === 'number' ? `[${key}]` : `.${String(key)}`),
    place,
  );
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({ field: `${at}.${key}`, message: 'is not a known field' }));
  }
  return [{ field: at, message: issue.message }];
}
