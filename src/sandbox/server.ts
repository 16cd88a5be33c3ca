/**
 * The HTTP server of a simulated partner: authentication, transcript, knobs and a route table. It is a real server on a
 * real socket, so that tests can inject every fault that a network can cause.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import type { Asked, Behaviour } from './habits.ts';
import type { Fault, Knobs } from './knobs.ts';
import { moduleOf, type Reply, refuse } from './reply.ts';
import type { Entry, Transcript } from './transcript.ts';

export interface Request {
  readonly method: string;
  /** As received, without the query. */
  readonly path: string;
  /** Values of the pattern's `:names`, decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface Route {
  readonly method: string;
  /** Below `/ocpi`, for example `/2.2.1/sessions/:cc/:pid/:id`. */
  readonly path: string;
  readonly handle: (request: Request) => Reply | Promise<Reply>;
}

export interface ServerParts {
  readonly routes: readonly Route[];
  readonly transcript: Transcript;
  readonly knobs: Knobs;
  /** Whether the hub may use this token, decoded or as received. */
  readonly knows: (token: string) => boolean;
  readonly behaviours: readonly Behaviour[];
}

const bodyMax = 8 * 1024 * 1024;

export class PartnerServer {
  readonly #parts: ServerParts;
  #server: Server | null = null;

  constructor(parts: ServerParts) {
    this.#parts = parts;
  }

  /** Listens and resolves to the port; 0 takes any free one. */
  async listen(host: string, port: number): Promise<number> {
    const server = createServer((request, response) => void this.#serve(request, response));
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, resolve);
    });
    this.#server = server;
    return (server.address() as AddressInfo).port;
  }

  /** Stops listening and destroys every connection, hung ones included. */
  async close(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (!server) return;
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { transcript, knobs } = this.#parts;
    const { method = 'GET', url: path = '/', headers } = request;
    const body = await read(request).catch(() => null);
    if (body === null) return void request.socket.destroy();
    const module = moduleOf(path);
    const entry = transcript.begin({ direction: 'received', module, method, path, headers, body });
    response.on('close', () => {
      if (!entry.ended) transcript.end(entry, { fault: 'the hub hung up' });
    });
    const fault = knobs.meet(module, method, path);
    if (fault?.kind === 'delay') await sleep(systemClock, fault.ms);
    if (fault && this.#misbehave(fault, entry, response)) return;
    const reply = this.#changed(await this.#reply(request, body), { method, path, headers });
    if (fault?.kind === 'drop') return this.#drop(entry, response);
    this.#send(entry, response, reply);
  }

  /** Applies the fault; returns whether that ends the handling of the request. */
  #misbehave(fault: Fault, entry: Entry, response: ServerResponse): boolean {
    if (fault.kind === 'answer') this.#send(entry, response, fault);
    else if (fault.kind === 'garble') {
      this.#parts.transcript.end(entry, { fault: 'answered garbage' });
      response.socket?.end('%%% this is not HTTP %%%\r\n\r\n');
    } else if (fault.kind === 'drop' && !fault.applied) this.#drop(entry, response);
    else return fault.kind === 'hang';
    return true;
  }

  #drop(entry: Entry, response: ServerResponse): void {
    this.#parts.transcript.end(entry, { fault: 'dropped' });
    response.socket?.destroy();
  }

  #changed(reply: Reply, asked: Asked): Reply {
    return this.#parts.behaviours.reduce((changed, { answer }) => answer?.(changed, asked) ?? changed, reply);
  }

  #send(entry: Entry, response: ServerResponse, reply: Reply): void {
    if (!entry.ended) this.#parts.transcript.end(entry, { answer: { status: reply.status, body: reply.body } });
    response.writeHead(reply.status, {
      'content-type': 'application/json',
      ...('x-request-id' in entry.headers ? { 'x-request-id': entry.headers['x-request-id'] } : {}),
      ...('x-correlation-id' in entry.headers ? { 'x-correlation-id': entry.headers['x-correlation-id'] } : {}),
      ...reply.headers,
    });
    response.end(reply.bytes ?? reply.body);
  }

  async #reply(request: IncomingMessage, body: string): Promise<Reply> {
    if (!this.#isAuthorized(request.headers.authorization)) return refuse(401, 2000, 'Invalid token');
    const url = new URL(request.url ?? '/', 'http://partner');
    const { method = 'GET', headers } = request;
    const { behaviours } = this.#parts;
    const asked = { method, path: request.url ?? '/', headers };
    for (const { instead } of behaviours) {
      const reply = instead?.(asked);
      if (reply) return reply;
    }
    const pathname = behaviours.reduce((known, { path }) => path?.(known) ?? known, url.pathname);
    let pathKnown = false;
    for (const route of this.#parts.routes) {
      const params = match(route.path, pathname);
      if (params === null) continue;
      pathKnown = true;
      if (route.method !== method) continue;
      try {
        return await route.handle({ method, path: pathname, params, query: url.searchParams, headers, body });
      } catch (error) {
        if (error instanceof SyntaxError) return refuse(400, 2001, 'The body is not JSON');
        return refuse(500, 3000, String(error));
      }
    }
    return pathKnown ? refuse(405, 2000, 'Method not allowed') : refuse(404, 2000, 'Not found');
  }

  #isAuthorized(header: string | undefined): boolean {
    const token = /^Token (\S+)$/i.exec(header ?? '')?.[1];
    if (token === undefined) return false;
    const { knows, behaviours } = this.#parts;
    if (behaviours.some(({ plainToken }) => plainToken)) return knows(token);
    return knows(token) || knows(Buffer.from(token, 'base64').toString('utf8').trim());
  }
}

function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = `/ocpi${pattern}`.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    const value = given[index] ?? '';
    if (!segment.startsWith(':')) {
      if (segment !== value) return null;
    } else if (value === '') return null;
    else params[segment.slice(1)] = decoded(value);
  }
  return params;
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > bodyMax) throw new Error('the body is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
