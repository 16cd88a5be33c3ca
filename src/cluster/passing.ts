/**
 * A reverse proxy between nodes: passes requests and answers unchanged (method, path, header fields, bytes) to a peer
 * over keep-alive channels (`channel.ts`), and sends cluster messages.
 *
 * PASSING-1  A request is sent once, never retried. Without an answer the caller gets 503, and whether the peer
 *     executed the request is unknown.
 * PASSING-2  When a request to a peer has waited for `doubtMs`, the peer's health is checked on a new connection. If
 *     that check gets no answer, every request in flight to the peer is refused: a link that drops packets closes no
 *     connection.
 */
import * as http from 'node:http';
import { type Duplex, pipeline } from 'node:stream';
import { every } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import {
  type ClientAddresses,
  isAtOperators,
  isTrusted,
  outlastSilence,
  trust,
} from '../transport/client-connection.ts';
import { ChannelClient, ChannelRefused } from './channel.ts';
import { clientHeader, entranceHeader, hopHeaders, peersPath, type Target } from './node-auth.ts';
import { PingLine } from './ping-line.ts';
import { pathOf, refuse, refuseUpgrade } from './refusal.ts';

/** Sockets per peer; requests beyond that queue for a free one. */
const socketsMax = 256;
/**
 * Must stay below a node's keep-alive timeout (72 s), else a request may be sent on a connection that the peer just
 * closed.
 */
const idleMs = 60_000;
/** How long a request waits before its peer's health is checked, and the timeout of that check. [PASSING-2] */
const doubtMs = 3000;

/** Hop-by-hop header fields, which are not passed on. [RFC 9110, 7.6.1] */
const ofConnection: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'upgrade', 'expect', ...hopHeaders],
]);

/** A request in flight to a peer. */
interface Passed {
  readonly target: Target;
  /** Monotonic time of its start, ms. */
  readonly begun: number;
  /** Aborts the request and answers its caller 503. */
  cut(error: Error): void;
}

/** Paths that need no token. */
const isOpen =
  /^\/(?:$|console(?:\/|$)|portal(?:$|\/(?!v1\/)|\/v1\/session$)|admin\/docs|admin\/v1\/openapi\.json|healthz$|readyz$)/;
/** Paths whose answers the peer may take long for. */
const mayTakeLong = /^\/(?:admin|portal)\/v1\//;
/** Statuses that a hub may answer before it has accepted a token. */
const unlooked: ReadonlySet<number> = new Set([401, 404, 429, 502, 503]);

/** Marks the caller's connection as trusted when the peer's answer shows that it accepted the token. */
function heardFrom(request: http.IncomingMessage, status: number): void {
  if (isTrusted(request.socket) || unlooked.has(status)) return;
  if (!isOpen.test(pathOf(request))) trust(request.socket);
}

type End = (how: 'answered' | 'failed', error?: Error) => void;

export interface PassingOptions {
  /** The present secret, then the former one while it is changed. */
  readonly secrets: readonly string[];
  /** Source of the caller's full IP address, which the peer checks against `allow_from` and the networks of tokens. */
  readonly visitors: Pick<ClientAddresses, 'exact'>;
  readonly passed: (end: 'answered' | 'failed') => void;
  readonly log: { warn(fields: object, message: string): void };
}

export class Passing {
  readonly #options: PassingOptions;
  readonly #channels: ChannelClient;
  readonly #agent: http.Agent;
  readonly #line: PingLine;
  /** Requests in flight by node, oldest first. */
  readonly #underWay = new Map<string, Set<Passed>>();
  /** Nodes whose health check is in flight. */
  readonly #doubted = new Set<string>();
  readonly #stopWatch = every(systemClock, doubtMs / 3, () => this.#doubt());
  /** Functions that end passed WebSockets, with the node that each leads to. */
  readonly #upgraded = new Map<() => void, string>();

  constructor(options: PassingOptions) {
    this.#options = options;
    this.#channels = new ChannelClient(options.secrets);
    this.#line = new PingLine(this.#channels);
    this.#agent = this.#channels.agent({ keepAlive: true, maxSockets: socketsMax, timeout: idleMs });
  }

  pass(request: http.IncomingMessage, response: http.ServerResponse, target: Target): void {
    // Cluster messages are not passed on: the hop header added here would authenticate their caller as a node.
    if (isAmongNodes(request)) return refuse(request, response);
    const sent = this.#start(target, {
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: [...fieldsOf(request.rawHeaders), ...emptiness(request), ...this.#hopOf(request)],
    });
    const stop = (error: Error | undefined) => void sent.destroy(error);
    const end = this.#begin(request, response, target, stop);
    if (mayTakeLong.test(pathOf(request))) outlastSilence(response);
    sent.on('error', (error) => end('failed', error));
    sent.on('response', (answer) => {
      heardFrom(request, answer.statusCode ?? 502);
      // As at the peer's own door. [UNADMITTED-2]
      if (answer.statusCode === 401) response.setHeader('Connection', 'close');
      response.writeHead(answer.statusCode ?? 502, answer.statusMessage, fieldsOf(answer.rawHeaders));
      pipeline(answer, response, (error) => {
        end(error ? 'failed' : 'answered', error ?? undefined);
        if (request.readableEnded) return;
        // The peer answered before it had the whole body. Drain the rest, else it blocks the next request of this connection.
        request.unpipe(sent).resume();
        sent.destroy();
      });
    });
    request.pipe(sent);
  }

  /**
   * Registers a request in flight. Call the returned function when the request ends; unless it was answered, that calls
   * `stop` and refuses the request.
   */
  #begin(
    request: http.IncomingMessage,
    response: http.ServerResponse,
    target: Target,
    stop: (error: Error | undefined) => void,
  ): End {
    const { passed, log } = this.#options;
    let isEnded = false;
    const end: End = (how, error) => {
      if (isEnded) return;
      isEnded = true;
      this.#land(entry);
      passed(how);
      if (how === 'answered') return;
      log.warn({ err: error, peer: target.url, method: request.method }, 'a request could not be passed on');
      stop(error);
      refuse(request, response);
    };
    const entry: Passed = { target, begun: systemClock.monotonic(), cut: (error) => end('failed', error) };
    const underWay = this.#underWay.get(target.id) ?? new Set();
    this.#underWay.set(target.id, underWay.add(entry));
    response.once('close', () => {
      if (!response.writableFinished) end('failed', new Error('the caller disconnected'));
    });
    request.on('error', (error) => end('failed', error));
    return end;
  }

  /** Tunnels a WebSocket: copies bytes in both directions without reading them. */
  upgrade(request: http.IncomingMessage, socket: Duplex, head: Buffer, target: Target): void {
    if (isAmongNodes(request)) return refuseUpgrade(request, socket);
    let other: Duplex | null = null;
    const end = () => {
      if (!this.#upgraded.delete(end)) return;
      giveUp();
      other?.destroy();
      if (other === null) refuseUpgrade(request, socket);
      else socket.destroy();
    };
    this.#upgraded.set(end, target.id);
    socket.on('error', end);
    const giveUp = this.#channels.open(target.url, (error, channel) => {
      if (error || channel === undefined) return end();
      other = channel;
      channel.on('error', end);
      channel.on('close', end);
      const fields = [...fieldsOf(request.rawHeaders, upgradeFields), ...this.#hopOf(request)];
      const lines = [`${request.method} ${request.url} HTTP/1.1`];
      for (let i = 0; i < fields.length; i += 2) lines.push(`${fields[i]}: ${fields[i + 1]}`);
      channel.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
      channel.write(head);
      pipeline(socket, channel, socket, end);
    });
  }

  /**
   * Sends a cluster message and returns the status of the answer, also of one that refuses the channel; null when none
   * arrives in time.
   */
  async ask(
    target: Target,
    method: 'GET' | 'POST',
    path: string,
    timeoutMs: number,
    agent = this.#agent,
  ): Promise<number | null> {
    return new Promise((resolve) => {
      const sent = this.#start(target, { method, path, headers: ['Host', 'node'], agent });
      const timer = systemClock.setTimeout(() => sent.destroy(new Error('no answer in time')), timeoutMs);
      sent.on('response', (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? null);
      });
      sent.on('error', (error) => resolve(error instanceof ChannelRefused ? error.status : null));
      sent.on('close', () => systemClock.clearTimeout(timer));
      sent.end();
    });
  }

  /** Sends a cluster message of which a lost one only delays; resolves when it is answered, or lost. One at a time. */
  ping({ url }: Target, path: string, timeoutMs: number): Promise<void> {
    return this.#line.ping(url, path, timeoutMs);
  }

  /** Aborts the requests in flight to every other node; their callers get 503 and retry. */
  keepOnly(nodeId: string | null): void {
    for (const id of this.#underWay.keys()) if (id !== nodeId) this.#cut(id, 'the peer is no longer the owner');
    for (const [end, id] of this.#upgraded) if (id !== nodeId) end();
  }

  endUpgrades(): void {
    for (const end of this.#upgraded.keys()) end();
  }

  close(): void {
    this.#stopWatch();
    this.keepOnly(null);
    this.#line.close();
    this.#agent.destroy();
  }

  /** Header fields by which the peer knows that a node passes this request on, and for whom. */
  #hopOf(request: http.IncomingMessage): string[] {
    const entrance = isAtOperators(request) ? [entranceHeader, 'operators'] : [];
    return [clientHeader, this.#options.visitors.exact(request), ...entrance];
  }

  #start({ url }: Target, options: http.RequestOptions): http.ClientRequest {
    const channel = { agent: this.#agent, ...options, channelTo: url };
    return http.request(channel);
  }

  /** Checks the health of peers with overdue requests. [PASSING-2] */
  #doubt(): void {
    const now = systemClock.monotonic();
    for (const [id, underWay] of this.#underWay) {
      const [oldest] = underWay;
      if (oldest === undefined || now < oldest.begun + doubtMs || this.#doubted.has(id)) continue;
      this.#doubted.add(id);
      const fresh = this.#channels.agent();
      void this.ask(oldest.target, 'GET', '/healthz', doubtMs, fresh).then((status) => {
        fresh.destroy();
        this.#doubted.delete(id);
        if (status === null) this.#cut(id, 'the peer cannot be reached');
      });
    }
  }

  #cut(nodeId: string, why: string): void {
    for (const { cut } of this.#underWay.get(nodeId) ?? []) cut(new Error(why));
  }

  #land(entry: Passed): void {
    const { id } = entry.target;
    const underWay = this.#underWay.get(id);
    underWay?.delete(entry);
    if (underWay?.size === 0) this.#underWay.delete(id);
  }
}

/** Whether a request is a cluster message, which only nodes may send. */
const isAmongNodes = (request: http.IncomingMessage): boolean => pathOf(request).startsWith(peersPath);

const upgradeFields: ReadonlySet<string> = new Set(['connection', 'upgrade']);

/** Says of a request without a body that it has none: Node would send an empty one in chunks, which the peer takes for a body of no type. */
function emptiness({ method, headers }: http.IncomingMessage): string[] {
  const mayHaveBody = method !== 'GET' && method !== 'HEAD';
  const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
  return mayHaveBody && !hasBody ? ['Content-Length', '0'] : [];
}

/**
 * Header names and values, alternating, in their order of arrival, without hop-by-hop fields except those in `kept`.
 */
function fieldsOf(raw: readonly string[], kept: ReadonlySet<string> = new Set()): string[] {
  const fields: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const [name = '', value = ''] = [raw[i], raw[i + 1]];
    const lower = name.toLowerCase();
    if (!ofConnection.has(lower) || kept.has(lower)) fields.push(name, value);
  }
  return fields;
}
