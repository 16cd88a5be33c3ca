/**
 * Calls of the admin API, or of the portal's. A refusal becomes an `ApiError` with the hub's text; a 401 for the present token signs out.
 */

import { signal } from '@preact/signals';
import { api, isPortal, signOut, token } from './session.ts';

export class ApiError extends Error {
  /** HTTP status; 0 when the hub is unreachable. */
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
  }
}

export type { Page } from '../../../api/common.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
/** Absent, null and empty values are left out of the query. */
export type Query = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** A path below that of the API, with what is added to its query. */
export function pathWith(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${text}`;
}

/**
 * Resolves to the JSON of a 2xx, undefined for an empty body; rejects with an `ApiError` otherwise. An act that needs a reason
 * is repeated with the one that the operator gives. [D91]
 */
export async function call<T>(method: Method, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const bearer = token.value ?? '';
  try {
    return await callAs<T>(bearer, method, path, body, signal);
  } catch (error) {
    const reason = needsReason(error) ? await askReason() : null;
    if (reason === null) throw error;
    return callAs<T>(bearer, method, pathWith(path, { reason }), body, signal);
  }
}

/** The hub's refusal of an act without a reason names the setting that demands it. */
const needsReason = (error: unknown) =>
  error instanceof ApiError && error.status === 422 && error.message.includes('HUB_REQUIRE_REASON');

export async function callAs<T>(
  bearer: string,
  method: Method,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const response = await answered(bearer, path, {
    method,
    ...jsonOf(body),
    ...(signal && { signal }),
  });
  return (await textOf(response)) as T;
}

/** A door outside the admin API, which needs no token; rejects with an `ApiError`. */
export async function askPlain<T>(method: 'GET' | 'POST', path: string, body?: unknown): Promise<T> {
  const response = await reached(path, { method, cache: 'no-store', ...jsonOf(body) });
  if (!response.ok) throw new ApiError(response.status, await problemIn(response));
  return (await textOf(response)) as T;
}

const jsonOf = (body: unknown) =>
  body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };

/** A list, all of it, as a CSV file; rejects with an `ApiError`, also when it breaks off. */
export async function csvOf(path: string): Promise<Blob> {
  const response = await answered(token.value ?? '', path, { headers: { accept: 'text/csv' } });
  return response.blob().catch(() => {
    throw new ApiError(0, 'The file broke off. Try again.');
  });
}

async function answered(bearer: string, path: string, { headers, ...init }: RequestInit): Promise<Response> {
  const response = await reached(`${api}${path}`, {
    ...init,
    headers: { authorization: `Bearer ${bearer}`, ...headers },
    cache: 'no-store',
  });
  if (response.ok) return response;
  if (response.status === 401 && bearer === token.value) {
    signOut(isPortal ? 'Your session has ended.' : 'The hub no longer accepts this token. Sign in again.');
  }
  throw new ApiError(response.status, await problemIn(response));
}

async function reached(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, 'The hub cannot be reached.');
  }
}

async function textOf(response: Response): Promise<unknown> {
  try {
    const text = await response.text();
    return text === '' ? undefined : JSON.parse(text);
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiError(0, 'The answer of the hub broke off.');
  }
}

/** Text of the problem details, when there are any. [RFC 9457] */
async function problemIn(response: Response): Promise<string> {
  try {
    const { title, detail } = (await response.json()) as { title?: string; detail?: string };
    return detail ?? title ?? `HTTP ${response.status}`;
  } catch {
    return `The hub answered HTTP ${response.status}.`;
  }
}

// The question why an operator acts, put when the hub refuses an act for want of a reason (`HUB_REQUIRE_REASON`). [D91]

/** Takes the answer, null for none; null while nothing is asked. */
export const asked = signal<((reason: string | null) => void) | null>(null);
let answer: Promise<string | null> | null = null;

/** Resolves to the operator's answer, null for none. Acts that need a reason at the same time share one question. */
function askReason(): Promise<string | null> {
  answer ??= new Promise((resolve) => {
    asked.value = (reason) => {
      asked.value = null;
      answer = null;
      resolve(reason);
    };
  });
  return answer;
}
