/**
 * The HTTP client of a simulated partner: sends OCPI requests to the hub, records each in the transcript, and repeats
 * them while the hub is unavailable if the caller asks for that.
 */
import { randomUUID } from 'node:crypto';
import { Agent, request } from 'undici';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { moduleOf } from './reply.ts';
import type { Transcript } from './transcript.ts';

export interface PartyName {
  readonly country_code: string;
  readonly party_id: string;
}

export interface HubCall {
  readonly method: 'GET' | 'PUT' | 'PATCH' | 'POST' | 'DELETE';
  readonly url: string;
  /** A string is sent byte for byte; anything else as JSON. */
  readonly body?: unknown;
  /** In `OCPI-from-*` in place of the partner's own party. */
  readonly from?: PartyName;
  /** The other party, for `OCPI-to-*`. */
  readonly to?: PartyName | undefined;
  /** Omits `OCPI-from-*`: versions, credentials and hub client info are not routed. */
  readonly unrouted?: boolean;
  /** Overrides the line's token. */
  readonly token?: string;
  /** Overrides the line's `repeat`. */
  readonly repeat?: Repeat;
}

/**
 * When a request is repeated. `no`: never. `refused`: only when it cannot have had an effect (connection refused, 429).
 * `untilAnswered`: also after any 5xx and broken connections.
 */
export type Repeat = 'no' | 'refused' | 'untilAnswered';

export interface HubAnswer {
  readonly httpStatus: number;
  /** OCPI status; null when the body is not an envelope. */
  readonly statusCode: number | null;
  readonly statusMessage: string;
  readonly data: unknown;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The body as received. */
  readonly text: string;
}

export interface LineOptions {
  readonly party: PartyName;
  readonly transcript: Transcript;
  readonly tokenEncoding: 'base64' | 'plain';
  /** The request as this partner makes it. */
  readonly changed: (call: HubCall) => HubCall;
  readonly repeat: Repeat;
  /** How long it repeats a request, milliseconds. */
  readonly repeatForMs: number;
  readonly timeoutMs: number;
}

/** The hub refused the request. */
export class Refused extends Error {
  override readonly name = 'Refused';
  readonly answer: HubAnswer;
  /**
   * Whether the request may have had its effect all the same. No part of the interface says that nothing was done when
   * a 5xx is answered: a commit may be in the log whose outcome the node did not learn, and a node that passed a
   * request on and got no answer says 503.
   */
  readonly isInDoubt: boolean;

  constructor(call: HubCall, answer: HubAnswer) {
    const { httpStatus, statusCode, statusMessage } = answer;
    const isInDoubt = httpStatus >= 500;
    const said = `was answered HTTP ${httpStatus}, OCPI ${statusCode ?? 'none'}: ${statusMessage}`;
    super(`${call.method} ${call.url} ${said}${isInDoubt ? '; whether it took effect is unknown' : ''}`);
    this.answer = answer;
    this.isInDoubt = isInDoubt;
  }
}

export class HubLine {
  /** The token that the hub issued. */
  token = '';
  readonly #options: LineOptions;
  readonly #agent: Agent;

  constructor(options: LineOptions) {
    this.#options = options;
    this.#agent = new Agent({ headersTimeout: options.timeoutMs, bodyTimeout: options.timeoutMs, connections: 16 });
  }

  /** Resolves to the answer, whatever its status. Rejects when there is none, or none within `repeatForMs`. */
  async call(plain: HubCall): Promise<HubAnswer> {
    const call = this.#options.changed(plain);
    const repeat = call.repeat ?? this.#options.repeat;
    const until = systemClock.monotonic() + this.#options.repeatForMs;
    for (;;) {
      const attempt = await this.#try(call).catch((error: NodeJS.ErrnoException) => error);
      if (!mayRepeat(attempt, repeat) || systemClock.monotonic() > until) {
        if (attempt instanceof Error) throw attempt;
        return attempt;
      }
      await sleep(systemClock, 100);
    }
  }

  /** Resolves to a successful answer; rejects with `Refused` otherwise. */
  async ask(call: HubCall): Promise<HubAnswer> {
    const answer = await this.call(call);
    const { httpStatus, statusCode } = answer;
    if (httpStatus >= 300 || statusCode === null || statusCode >= 2000) throw new Refused(call, answer);
    return answer;
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #try(call: HubCall): Promise<HubAnswer> {
    const { transcript } = this.#options;
    const { pathname, search } = new URL(call.url);
    const body = call.body === undefined ? '' : typeof call.body === 'string' ? call.body : JSON.stringify(call.body);
    const headers = this.#headers(call);
    const path = pathname + search;
    const entry = transcript.begin({
      direction: 'sent',
      module: moduleOf(path),
      method: call.method,
      path,
      headers,
      body,
    });
    try {
      const response = await request(call.url, {
        method: call.method,
        headers,
        body: call.body === undefined ? null : body,
        dispatcher: this.#agent,
      });
      const text = await response.body.text();
      transcript.end(entry, { answer: { status: response.statusCode, body: text } });
      return readAnswer(response.statusCode, response.headers, text);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      transcript.end(entry, { fault: code ?? message });
      throw new Error(`${call.method} ${call.url} had no answer: ${message || code}`, { cause: error });
    }
  }

  #headers(call: HubCall): Record<string, string> {
    const { party, tokenEncoding } = this.#options;
    const token = call.token ?? this.token;
    const headers: Record<string, string> = {
      authorization: `Token ${tokenEncoding === 'plain' ? token : Buffer.from(token).toString('base64')}`,
      'x-request-id': randomUUID(),
      'x-correlation-id': randomUUID(),
    };
    if (call.body !== undefined) headers['content-type'] = 'application/json';
    if (!call.unrouted) {
      const { country_code, party_id } = call.from ?? party;
      headers['ocpi-from-country-code'] = country_code;
      headers['ocpi-from-party-id'] = party_id;
    }
    if (call.to) {
      headers['ocpi-to-country-code'] = call.to.country_code;
      headers['ocpi-to-party-id'] = call.to.party_id;
    }
    return headers;
  }
}

function mayRepeat(attempt: HubAnswer | Error, repeat: Repeat): boolean {
  if (repeat === 'no') return false;
  if (attempt instanceof Error) return repeat === 'untilAnswered' || causeCode(attempt) === 'ECONNREFUSED';
  if (attempt.httpStatus === 429) return true;
  return repeat === 'untilAnswered' && attempt.httpStatus >= 500;
}

const causeCode = (error: Error) => (error.cause as NodeJS.ErrnoException | undefined)?.code;

function readAnswer(httpStatus: number, headers: HubAnswer['headers'], text: string): HubAnswer {
  let fields: { status_code?: unknown; status_message?: unknown; data?: unknown } = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null) fields = parsed;
  } catch {
    // The body is not an envelope; the caller sees its text.
  }
  const { status_code: code, status_message: message, data } = fields;
  return {
    httpStatus,
    headers,
    text,
    data,
    statusCode: Number.isInteger(code) ? (code as number) : null,
    statusMessage: typeof message === 'string' ? message : '',
  };
}
