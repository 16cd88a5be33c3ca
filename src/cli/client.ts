/**
 * Client of the admin API of a running hub. Every failure becomes one line that says what the user can do about it.
 *
 * CLI-CLIENT-1  The token travels in the Authorization header only: no message and no output shows it.
 * CLI-CLIENT-2  A request waits as long as the hub answers `/healthz`: an erasure or a plan may read millions of events. It fails when that
 *     gets no answer either.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import * as http from 'node:http';
import * as https from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Page } from '../api/common.ts';
import { every } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { parsedHttpUrl, parsedUrl } from '../kit/url.ts';

/** A refusal or failure, as one line for the user. Exit code 2 for wrong usage, else 1. */
export class Failure extends Error {
  override readonly name = 'Failure';
  readonly exitCode: 1 | 2;
  /** HTTP status of the hub's answer; null when there was none. */
  readonly status: number | null;
  /** Nobody who could answer was reached: the same request may succeed later. */
  readonly isAway: boolean;

  constructor(
    message: string,
    {
      exitCode = 1,
      status = null,
      isAway = status === 503,
    }: Partial<Pick<Failure, 'exitCode' | 'status' | 'isAway'>> = {},
  ) {
    super(message);
    this.exitCode = exitCode;
    this.status = status;
    this.isAway = isAway;
  }
}

export interface Connection {
  readonly url?: string;
  readonly token?: string;
  readonly dataDir?: string;
  /** Why, for the audit log. */
  readonly reason?: string;
}

export type Query = Readonly<Record<string, string | number | undefined>>;

type Method = 'HEAD' | 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

const defaultUrl = 'http://127.0.0.1:8080';
/** The largest page that the admin API serves, in items; it refuses a larger `limit`. */
const pageMax = 1000;
/** How long a request, and then one for `/healthz` beside it, may be without an answer, ms. [CLI-CLIENT-2] */
const silenceMaxMs = 10_000;

export class HubClient {
  readonly url: string;
  readonly #token: string | null;
  readonly #dataDir: string;
  readonly #reason: string | undefined;
  readonly #protocol: typeof http | typeof https;
  readonly #agent: http.Agent;
  readonly #silenceMs: number;

  constructor(flags: Connection, env: Readonly<Record<string, string | undefined>>, silenceMs = silenceMaxMs) {
    this.#silenceMs = silenceMs;
    this.url = baseOf(flags.url ?? (env.HUB_URL || defaultUrl));
    this.#reason = flags.reason;
    this.#protocol = parsedHttpUrl(this.url)?.protocol === 'https:' ? https : http;
    this.#agent = new this.#protocol.Agent({ keepAlive: true });
    this.#dataDir = flags.dataDir ?? (env.HUB_DATA_DIR || './data');
    this.#token = flags.token ?? (env.HUB_ADMIN_TOKEN || keptToken(this.#dataDir));
  }

  /** Rejects with the signal's reason when the signal aborts. */
  get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return this.send<T>('GET', withQuery(path, query), undefined, signal);
  }

  /** Whether it is there; shows none of it, which is no entry of the audit log. */
  async has(path: string): Promise<boolean> {
    try {
      const response = await this.#ask('HEAD', path, { accept: 'application/json' });
      response.resume();
    } catch (error) {
      if (!(error instanceof Failure) || error.status === null) throw error;
      if (error.status === 404) return false;
      // A refusal of HEAD gives no reason; that of GET does.
      await this.get(path);
    }
    return true;
  }

  async send<T>(method: Method, path: string, body?: object, signal?: AbortSignal): Promise<T> {
    const reasoned = method === 'GET' ? path : withQuery(path, { reason: this.#reason });
    const response = await this.#ask(method, reasoned, { accept: 'application/json', body, signal });
    const answer = await text(response).catch((error: unknown) => {
      throw this.#unanswered(error, signal);
    });
    return (answer === '' ? {} : parsed(answer, this.url)) as T;
  }

  /** Up to `limit` items of a list, read page by page. The answer's other fields are those of the first page. */
  async list<T, P extends Page<T> = Page<T>>(path: string, query: Query, limit: number): Promise<P> {
    const ask = (room: number, cursor?: string) =>
      this.get<P>(path, { ...query, limit: Math.min(room, pageMax), cursor });
    const first = await ask(limit);
    const items = [...first.items];
    let { next_cursor } = first;
    while (next_cursor !== null && items.length < limit) {
      const page = await ask(limit - items.length, next_cursor);
      items.push(...page.items);
      ({ next_cursor } = page);
    }
    return { ...first, items, next_cursor };
  }

  /** Yields a list as a file of this media type, piece by piece, until the hub ends it. */
  async *file(path: string, query: Query, accept: string): AsyncGenerator<Uint8Array> {
    const response = await this.#ask('GET', withQuery(path, query), { accept });
    try {
      for await (const piece of response) yield piece as Uint8Array;
    } catch (error) {
      throw this.#unanswered(error);
    }
  }

  /** By `node:http`: a command is one or two requests, and the parser that `fetch` compiles for them takes longer than the rest of it. */
  async #ask(
    method: Method,
    path: string,
    { accept, body, signal }: { accept: string; body?: object | undefined; signal?: AbortSignal | undefined },
  ): Promise<http.IncomingMessage> {
    const asked = this.#request(`${this.url}/admin/v1${path}`, {
      method,
      auth: null,
      headers: {
        accept,
        ...(this.#token !== null && { authorization: `Bearer ${this.#token}` }),
        ...(body && { 'content-type': 'application/json' }),
      },
      signal,
    });
    this.#endWhenSilent(asked);
    asked.end(body && JSON.stringify(body));
    const [response] = (await once(asked, 'response').catch((error: unknown) => {
      throw this.#unanswered(error, signal);
    })) as [http.IncomingMessage];
    // Who reads the answer meets its errors, and may take as long as a person takes for a page.
    asked.on('error', () => {});
    const { statusCode: status = 0 } = response;
    if (status >= 200 && status < 300) return response;
    throw await this.#refused(status, response);
  }

  /** [CLI-CLIENT-2] */
  #endWhenSilent(asked: http.ClientRequest): void {
    let isAnswered = false;
    const stop = every(systemClock, this.#silenceMs, async () => {
      const isAlive = await this.#isAlive();
      if (!isAlive && !isAnswered) asked.destroy(new Error('no answer, and none to /healthz'));
    });
    asked.once('response', () => {
      isAnswered = true;
    });
    for (const end of ['response', 'close']) asked.once(end, stop);
  }

  /** Any answer counts, that of a proxy too. */
  async #isAlive(): Promise<boolean> {
    const asked = this.#request(`${this.url}/healthz`, {});
    asked.setTimeout(this.#silenceMs, () => asked.destroy(new Error('no answer')));
    asked.end();
    const [response] = (await once(asked, 'response').catch(() => [])) as [http.IncomingMessage?];
    response?.on('error', () => {}).resume();
    return response !== undefined;
  }

  #request(url: string, options: http.RequestOptions): http.ClientRequest {
    try {
      return this.#protocol.request(url, { ...options, agent: this.#agent });
    } catch (error) {
      // A token or reason that no header can have.
      throw new Failure(`the request cannot be made: ${(error as Error).message}`, { exitCode: 2 });
    }
  }

  /** The reason of the signal when it has ended the request, else that the hub cannot be reached. */
  #unanswered(error: unknown, signal?: AbortSignal): unknown {
    if (signal?.aborted) return signal.reason;
    const { code = '', message } = error as { code?: string; message: string };
    if (/CERT|UNABLE_TO_VERIFY/.test(code)) {
      const remedy = remedies[code] ?? 'NODE_EXTRA_CA_CERTS names a file with the CA that signed it';
      return new Failure(`the certificate of the hub at ${this.url} is not accepted (${code}): ${remedy}`);
    }
    const question = questions[`${this.#protocol === https ? 'https' : 'http'} ${code}`] ?? 'does it run there?';
    return new Failure(
      `the hub at ${this.url} cannot be reached (${code || message}): ${question} --url or HUB_URL names another`,
      { isAway: true },
    );
  }

  async #refused(status: number, response: http.IncomingMessage): Promise<Failure> {
    const detail = detailOf(await text(response).catch(() => ''));
    if (detail === null) {
      const elsewhere = parsedUrl(response.headers.location ?? '')?.href.replace(/\/admin\/v1\b.*$/s, '');
      const why = elsewhere ? `names ${elsewhere}: give that as --url or HUB_URL` : 'is not the admin API of a hub';
      return new Failure(`${this.url} answers HTTP ${status} and ${why}`, { status });
    }
    if (status === 401) return new Failure(this.#token === null ? withoutToken(this.#dataDir) : wrongToken, { status });
    return new Failure(`the hub refuses: ${detail}`, { status, exitCode: status === 422 ? 2 : 1 });
  }
}

/** What to do about a certificate, by the code of the error. */
const remedies: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'it has ended: renew that of the hub (HUB_TLS_CERT), or of its proxy',
  CERT_NOT_YET_VALID: 'it has not begun: compare the clocks',
  ERR_TLS_CERT_ALTNAME_INVALID: '--url or HUB_URL must have a name that it is for',
};

/** What to ask where one side speaks TLS and the other does not. */
const questions: Readonly<Record<string, string>> = {
  'https EPROTO': 'does it speak TLS there?',
  'http ECONNRESET': 'does it run there, without TLS?',
};

function withoutToken(dataDir: string): string {
  const path = tokenFile(dataDir);
  try {
    readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT')
      return `the hub wants a token, and ${path} cannot be read (${code}): run this as the user of the hub, or give --token or HUB_ADMIN_TOKEN`;
  }
  return 'the hub wants a token: give --token or HUB_ADMIN_TOKEN, or --data-dir with the data directory that holds admin-token';
}

const wrongToken =
  'the hub does not know this token: --token or HUB_ADMIN_TOKEN must be what its data directory has in admin-token, or the token of an operator';

function baseOf(url: string): string {
  if (parsedHttpUrl(url) === null) {
    throw new Failure(`--url is "${url}": expected an http or https URL such as ${defaultUrl}`, { exitCode: 2 });
  }
  return url.replace(/\/+$/, '').replace(/\/admin(\/v1)?$/, '');
}

const tokenFile = (dataDir: string): string => join(dataDir, 'admin-token');

/** The token that a hub on this machine stores in its data directory. */
export function keptToken(dataDir: string): string | null {
  try {
    return readFileSync(tokenFile(dataDir), 'utf8').trim() || null;
  } catch {
    return null;
  }
}

function withQuery(path: string, query: Query): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) given.set(name, String(value));
  return given.size === 0 ? path : `${path}?${given}`;
}

function parsed(answer: string, url: string): unknown {
  try {
    return JSON.parse(answer);
  } catch {
    throw new Failure(`${url} answers something that is not JSON: is it a hub?`);
  }
}

function detailOf(answer: string): string | null {
  try {
    const { detail } = JSON.parse(answer) as { detail?: unknown };
    return typeof detail === 'string' ? detail : null;
  } catch {
    return null;
  }
}
