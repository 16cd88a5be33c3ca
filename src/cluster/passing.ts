/**
 * Passes requests on to another node as they are: method, path, fields and bytes, both ways, over connections that are kept.
 *
 * P1  A request is sent once. When no answer comes it is refused with 503, and whether it was done is not known.
 * P2  What is under way to a node is known: a node that leaves is told when there is nothing more.
 * P3  A node that answers nothing for a while is asked, on a new connection, whether it is there. When no answer comes, everything under
 *     way to it is refused: a link that swallows packets ends no connection.
 */
import * as http from 'node:http';
import * as https from 'node:https';
import { connect as connectPlain, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { hopHeader } from './hop.ts';
import { refuse, refuseUpgrade } from './refusal.ts';

/** More wait for one that is free. */
const socketsMax = 256;
/** Under the time after which a node closes an idle connection. */
const idleMs = 60_000;
/** More than the slowest forward to a partner. */
const silenceMs = 90_000;

const doubtMs = 3000;

/** Of one connection alone. [RFC 9110, 7.6.1] */
const ofConnection: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'upgrade', 'expect', hopHeader],
]);

/** A node as it is reached. */
export interface Target {
  readonly id: string;
  readonly url: string;
}

export interface PassingOptions {
  readonly secret: string;
  readonly passed: (end: 'answered' | 'failed') => void;
  readonly log: { warn(fields: object, message: string): void };
}

export class Passing {
  readonly #options: PassingOptions;
  readonly #agents = {
    http: new http.Agent({ keepAlive: true, maxSockets: socketsMax, timeout: idleMs }),
    https: new https.Agent({ keepAlive: true, maxSockets: socketsMax, timeout: idleMs }),
  };
  /** By node; the oldest is the first. */
  readonly #underWay = new Map<string, Map<http.ClientRequest, { target: Target; begun: number }>>();
  readonly #doubted = new Set<string>();
  readonly #watch = setInterval(() => this.#doubt(), doubtMs / 3).unref();
  readonly #upgraded = new Map<Socket, string>();
  readonly #landed: (() => void)[] = [];

  constructor(options: PassingOptions) {
    this.#options = options;
  }

  pass(request: http.IncomingMessage, response: http.ServerResponse, target: Target): void {
    const { secret, passed, log } = this.#options;
    const sent = this.#open(target, {
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: [...fieldsOf(request.rawHeaders), hopHeader, secret],
    });
    let isEnded = false;
    const end = (how: 'answered' | 'failed', error?: Error) => {
      if (isEnded) return;
      isEnded = true;
      this.#land(target, sent);
      passed(how);
      if (how === 'answered') return;
      log.warn({ err: error, peer: target.url, method: request.method }, 'a request could not be passed on');
      sent.destroy();
      refuse(request, response);
    };
    sent.setTimeout(silenceMs, () => sent.destroy(new Error('the peer is silent')));
    sent.on('error', (error) => end('failed', error));
    sent.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.statusMessage, fieldsOf(answer.rawHeaders));
      pipeline(answer, response, (error) => end(error ? 'failed' : 'answered', error ?? undefined));
    });
    // Who asked went away.
    response.once('close', () => {
      if (!response.writableFinished) sent.destroy(new Error('the caller went away'));
    });
    request.on('error', (error) => sent.destroy(error));
    request.pipe(sent);
  }

  /** A WebSocket: the bytes of both sides, whatever they are. */
  upgrade(request: http.IncomingMessage, socket: Duplex, head: Buffer, target: Target): void {
    const { hostname, port, protocol } = new URL(target.url);
    const isTls = protocol === 'https:';
    const address = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (isTls ? 443 : 80)) };
    const other = isTls ? connectTls({ ...address, servername: hostname }) : connectPlain(address);
    let isOpen = false;
    this.#upgraded.set(other, target.id);
    const end = () => {
      this.#upgraded.delete(other);
      other.destroy();
      if (isOpen) socket.destroy();
      else refuseUpgrade(request, socket);
    };
    other.once(isTls ? 'secureConnect' : 'connect', () => {
      isOpen = true;
      const fields = fieldsOf(request.rawHeaders, upgradeFields);
      const lines = [`${request.method} ${request.url} HTTP/1.1`];
      for (let i = 0; i < fields.length; i += 2) lines.push(`${fields[i]}: ${fields[i + 1]}`);
      other.write(`${lines.join('\r\n')}\r\n${hopHeader}: ${this.#options.secret}\r\n\r\n`, 'latin1');
      other.write(head);
      pipeline(socket, other, socket, end);
    });
    other.on('error', end);
    socket.on('error', end);
  }

  /** Asks a node as a node; null when it does not answer in time. */
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
      const timer = setTimeout(() => sent.destroy(new Error('no answer in time')), timeoutMs);
      sent.on('response', (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? null);
      });
      sent.on('error', () => resolve(null));
      sent.on('close', () => clearTimeout(timer));
      sent.end();
    });
  }

  /** Asks a node as a node, with a JSON body. Rejects when no answer comes in time; then whether it was done is not known. */
  post(target: Target, path: string, body: string, timeoutMs: number): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const length = String(Buffer.byteLength(body));
      const fields = ['Host', 'node', 'Content-Type', 'application/json', 'Content-Length', length];
      const sent = this.#start(target, { method: 'POST', path, headers: [hopHeader, this.#options.secret, ...fields] });
      const timer = setTimeout(() => sent.destroy(new Error('no answer in time')), timeoutMs);
      sent.on('response', (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () =>
          resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }),
        );
      });
      sent.on('error', reject);
      sent.on('close', () => clearTimeout(timer));
      sent.end(body);
    });
  }

  /** Resolves when nothing is under way to a node. */
  async landed(nodeId: string): Promise<void> {
    while ((this.#underWay.get(nodeId)?.size ?? 0) > 0) {
      await new Promise<void>((resolve) => this.#landed.push(resolve));
    }
  }

  /** Cuts what is under way to every node but these: whoever waits is refused, and comes again. */
  keepOnly(nodeIds: ReadonlySet<string>): void {
    for (const id of this.#underWay.keys()) if (!nodeIds.has(id)) this.#cut(id, 'it is not the owner any more');
    for (const [socket, id] of this.#upgraded) if (!nodeIds.has(id)) socket.destroy();
  }

  endUpgrades(): void {
    for (const socket of this.#upgraded.keys()) socket.destroy();
  }

  close(): void {
    clearInterval(this.#watch);
    this.keepOnly(new Set());
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  #start(target: Target, options: http.RequestOptions): http.ClientRequest {
    const url = new URL(target.url);
    const isTls = url.protocol === 'https:';
    const { hostname, port } = url;
    const address = { host: hostname.replace(/^\[|\]$/g, ''), port: port || (isTls ? 443 : 80) };
    return isTls
      ? https.request({ ...address, agent: this.#agents.https, ...options })
      : http.request({ ...address, agent: this.#agents.http, ...options });
  }

  #open(target: Target, options: http.RequestOptions): http.ClientRequest {
    const sent = this.#start(target, options);
    const requests = this.#underWay.get(target.id) ?? new Map();
    this.#underWay.set(target.id, requests.set(sent, { target, begun: performance.now() }));
    return sent;
  }

  /** P3. */
  #doubt(): void {
    for (const [id, requests] of this.#underWay) {
      const [oldest] = requests.values();
      if (oldest === undefined || performance.now() < oldest.begun + doubtMs || this.#doubted.has(id)) continue;
      this.#doubted.add(id);
      void this.ask(oldest.target, 'GET', '/healthz', doubtMs, { agent: false }).then((status) => {
        this.#doubted.delete(id);
        if (status === null) this.#cut(id, 'the peer cannot be reached');
      });
    }
  }

  #cut(nodeId: string, why: string): void {
    for (const sent of this.#underWay.get(nodeId)?.keys() ?? []) sent.destroy(new Error(why));
  }

  #land({ id }: Target, sent: http.ClientRequest): void {
    const requests = this.#underWay.get(id);
    requests?.delete(sent);
    if (requests?.size !== 0) return;
    this.#underWay.delete(id);
    for (const wake of this.#landed.splice(0)) wake();
  }
}

const upgradeFields: ReadonlySet<string> = new Set(['connection', 'upgrade']);

/** Names and values in turn, as they came, without those of the connection but for the `kept` ones. */
function fieldsOf(raw: readonly string[], kept: ReadonlySet<string> = new Set()): string[] {
  const fields: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const [name = '', value = ''] = [raw[i], raw[i + 1]];
    const lower = name.toLowerCase();
    if (!ofConnection.has(lower) || kept.has(lower)) fields.push(name, value);
  }
  return fields;
}
