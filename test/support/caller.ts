/**
 * HTTP client of tests for a hub. Each caller has its own connection pool: a kept connection of a closed hub would fail the next request to
 * the same port. It trusts the certificate of tests, and no other. An error names the request that failed.
 */
import { Agent, request } from 'undici';
import { testCert } from './tls.ts';

export interface HubAddress {
  readonly url: string;
  readonly adminToken: string;
  /** Its last lines, where they are known. */
  readonly log?: () => string;
}

export interface Said {
  /** `METHOD url` of what was asked. */
  readonly asked: string;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** The connection failed before an answer was whole. */
export class Unanswered extends Error {}

export class Caller {
  readonly #agent = new Agent({ connect: { ca: testCert } });

  /** Text is sent as it is. Rejects with `Unanswered`. */
  async send(
    method: string,
    url: string,
    body?: string | object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Said> {
    const asked = `${method} ${url}`;
    try {
      const answer = await request(url, {
        method: method as 'GET',
        dispatcher: this.#agent,
        headers: { ...(body !== undefined && !isTyped(headers) && { 'Content-Type': 'application/json' }), ...headers },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await answer.body.text();
      const lines = Object.entries(answer.headers).flatMap(([name, value = []]) =>
        [value].flat().map((one): [string, string] => [name, one]),
      );
      return { asked, status: answer.statusCode, headers: new Headers(lines), text };
    } catch (error) {
      throw new Unanswered(`${asked}: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Cuts what is under way. */
  close(): void {
    void this.#agent.destroy();
  }
}

/** In whatever letters: both names would be sent. */
const isTyped = (headers: Readonly<Record<string, string>>) => new Headers(headers).has('content-type');

/** One call on a connection of its own, which is not kept. */
export async function callOnce(...call: Parameters<Caller['send']>): Promise<Said> {
  const caller = new Caller();
  return caller.send(...call).finally(() => caller.close());
}
