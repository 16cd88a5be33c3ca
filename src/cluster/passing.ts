/**
 * A reverse proxy between nodes: passes requests and answers unchanged (method, path, header fields, bytes) to a peer
 * over keep-alive connections, and sends cluster messages.
 *
 * PASSING-1  A request is sent once, never retried. Without an answer the caller gets 503, and whether the peer
 *     executed the request is unknown.
 * PASSING-2  When a request to a peer has waited for `doubtMs`, the peer's health is checked on a new connection. If
 *     that check gets no answer, every request in flight to the peer is refused: a link that drops packets closes no
 *     connection.
 */
import * as http from 'node:http';
import * as https from 'node:https';
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { every } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { bareHost, portOf } from '../kit/url.ts';
import { isAtOperators } from '../transport/entrance.ts';
import { isTrusted, markEnding, trust } from '../transport/trusted.ts';
import { clientHeader, entranceHeader, hopHeader, hopHeaders, peersPath, type Target } from './node-auth.ts';
import { pathOf, refuse, refuseUpgrade } from './refusal.ts';

/** Sockets per peer; requests beyond that queue for a free one. */
const socketsMax = 256;
/**
 * Must stay below a node's keep-alive timeout (72 s), else a request may be sent on a connection that the peer just
 * closed.
 */
const idleMs = 60_000;
/** Must stay above the slowest forward to a partner, else that forward is cut before its answer arrives. */
const silenceMs = 90_000;

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
const isOpen = /^\/(?:$|console(?:\/|$)|admin\/docs|admin\/v1\/openapi\.json|healthz$|readyz$)/;
/** Statuses that a hub may answer before it has accepted a token. */
const unlooked: ReadonlySet<number> = new Set([401, 404, 429, 502, 503]);

/** Marks the caller's connection as trusted when the peer's answer shows that it accepted the token. */
function heardFrom(request: http.IncomingMessage, status: number): void {
  if (isTrusted(request.socket) || unlooked.has(status)) return;
  if (!isOpen.test(pathOf(request))) trust(request.socket);
}

type End = (how: 'answered' | 'failed', error?: Error) => void;

export interface PassingOptions {
  readonly secret: string;
  /** The network address of a request's caller. */
  readonly addressOf: (request: http.IncomingMessage) => string;
  readonly passed: (end: 'answered' | 'failed') => void;
  readonly log: { warn(fields: object, message: string): void };
}

export class Passing {
  readonly #options: PassingOptions;
  readonly #agents = {
    http: new http.Agent({ keepAlive: true, maxSockets: socketsMax, timeout: idleMs }),
    https: new https.Agent({ keepAlive: true, maxSockets: socketsMax, timeout: idleMs }),
  };
  /** Requests in flight by node, oldest first. */
  readonly #underWay = new Map<string, Set<Passed>>();
  /** Nodes whose health check is in flight. */
  readonly #doubted = new Set<string>();
  readonly #stopWatch = every(systemClock, doubtMs / 3, () => this.#doubt());
  /** Sockets of passed WebSockets, with the node that each leads to. */
  readonly #upgraded = new Map<Socket, string>();
  readonly #addresses = new Map<string, Address>();

  constructor(options: PassingOptions) {
    this.#options = options;
  }

  pass(request: http.IncomingMessage, response: http.ServerResponse, target: Target): void {
    // Cluster messages are not passed on: the hop header added here would authenticate their caller as a node.
    if (isAmongNodes(request)) return refuse(request, response);
    const sent = this.#start(target, {
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: [...fieldsOf(request.rawHeaders), ...this.#hopOf(request)],
    });
    const stop = (error: Error | undefined) => void sent.destroy(error);
    const end = this.#begin(request, response, target, stop);
    sent.setTimeout(silenceMs, () => sent.destroy(new Error('the peer is silent')));
    sent.on('error', (error) => end('failed', error));
    sent.on('response', (answer) => {
      heardFrom(request, answer.statusCode ?? 502);
      // As at the peer's own door. [UNADMITTED-2]
      if (answer.statusCode === 401) {
        response.setHeader('Connection', 'close');
        markEnding(request.socket);
      }
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
    const { isTls, address } = this.#addressOf(target);
    const other = isTls
      ? connectTls({ ...address, ...(isIP(address.host) === 0 && { servername: address.host }) })
      : connectPlain(address);
    let isOpen = false;
    this.#upgraded.set(other, target.id);
    const end = () => {
      if (!this.#upgraded.delete(other)) return;
      other.destroy();
      if (isOpen) socket.destroy();
      else refuseUpgrade(request, socket);
    };
    other.once(isTls ? 'secureConnect' : 'connect', () => {
      isOpen = true;
      const fields = [...fieldsOf(request.rawHeaders, upgradeFields), ...this.#hopOf(request)];
      const lines = [`${request.method} ${request.url} HTTP/1.1`];
      for (let i = 0; i < fields.length; i += 2) lines.push(`${fields[i]}: ${fields[i + 1]}`);
      other.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
      other.write(head);
      pipeline(socket, other, socket, end);
    });
    other.on('error', end);
    // A socket that is destroyed before it has connected emits `close` without `error`.
    other.on('close', end);
    socket.on('error', end);
  }

  /** Sends a cluster message and returns the status of the answer; null when none arrives in time. */
  async ask(
    target: Target,
    method: 'GET' | 'POST',
    path: string,
    timeoutMs: number,
    connection: http.RequestOptions = {},
  ): Promise<number | null> {
    return new Promise((resolve) => {
      const headers = [hopHeader, this.#options.secret, 'Host', 'node'];
      const sent = this.#start(target, { method, path, headers, ...connection });
      const timer = systemClock.setTimeout(() => sent.destroy(new Error('no answer in time')), timeoutMs);
      sent.on('response', (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? null);
      });
      sent.on('error', () => resolve(null));
      sent.on('close', () => systemClock.clearTimeout(timer));
      sent.end();
    });
  }

  /** Aborts the requests in flight to every other node; their callers get 503 and retry. */
  keepOnly(nodeId: string | null): void {
    for (const id of this.#underWay.keys()) if (id !== nodeId) this.#cut(id, 'the peer is no longer the owner');
    for (const [socket, id] of this.#upgraded) if (id !== nodeId) socket.destroy();
  }

  endUpgrades(): void {
    for (const socket of this.#upgraded.keys()) socket.destroy();
  }

  close(): void {
    this.#stopWatch();
    this.keepOnly(null);
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  /** Header fields by which the peer knows that a node passes this request on, and for whom. */
  #hopOf(request: http.IncomingMessage): string[] {
    const { secret, addressOf } = this.#options;
    const entrance = isAtOperators(request) ? [entranceHeader, 'operators'] : [];
    return [hopHeader, secret, clientHeader, addressOf(request), ...entrance];
  }

  #start(target: Target, options: http.RequestOptions): http.ClientRequest {
    const { isTls, address } = this.#addressOf(target);
    return isTls
      ? https.request({ ...address, agent: this.#agents.https, ...options })
      : http.request({ ...address, agent: this.#agents.http, ...options });
  }

  /** Cached, because every request needs it. */
  #addressOf({ url }: Target): Address {
    const found = this.#addresses.get(url) ?? addressOf(url);
    this.#addresses.set(url, found);
    return found;
  }

  /** Checks the health of peers with overdue requests. [PASSING-2] */
  #doubt(): void {
    const now = systemClock.monotonic();
    for (const [id, underWay] of this.#underWay) {
      const [oldest] = underWay;
      if (oldest === undefined || now < oldest.begun + doubtMs || this.#doubted.has(id)) continue;
      this.#doubted.add(id);
      void this.ask(oldest.target, 'GET', '/healthz', doubtMs, { agent: false }).then((status) => {
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

interface Address {
  readonly isTls: boolean;
  readonly address: { readonly host: string; readonly port: number };
}

function addressOf(text: string): Address {
  const url = new URL(text);
  return { isTls: url.protocol === 'https:', address: { host: bareHost(url), port: portOf(url) } };
}

/** Whether a request is a cluster message, which only nodes may send. */
const isAmongNodes = (request: http.IncomingMessage): boolean => pathOf(request).startsWith(peersPath);

const upgradeFields: ReadonlySet<string> = new Set(['connection', 'upgrade']);

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
