/**
 * The channel between two nodes: a connection on which one signed HTTP request is followed by TLS with a pre-shared key
 * derived from the cluster secret. HTTP requests between nodes run inside it.
 *
 * CHANNEL-1  The secret never crosses the wire. A tap on the connection sees the request that opens the channel and
 *     ciphertext; both ends know that the other one has the secret, and a recording opens nothing later, even with the
 *     secret (ECDHE).
 * CHANNEL-2  The opening request has no body; it is signed over method, path, time and nonce (HMAC-SHA256). A wrong
 *     signature, a time more than `windowMs` away, or a nonce that was used before is answered 401.
 * CHANNEL-3  During a change of the secret a node accepts both secrets, and a peer that refuses the newer one is asked
 *     with the former one.
 * CHANNEL-4  Nothing that arrives on a connection throws beyond it, nor does a URL of a peer that cannot be read: it leads nowhere.
 */
import { createHash, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import * as http from 'node:http';
import * as https from 'node:https';
import { isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls, TLSSocket } from 'node:tls';
import { systemClock } from '../kit/system-clock.ts';
import { bareHost, parsedHttpUrl, portOf } from '../kit/url.ts';

/** How far the clocks of two nodes may differ; nonces are kept for as long on either side of it. */
const windowMs = 5 * 60_000;
/** Limit of opening a channel. */
const openMs = 5000;

export const channelPath = '/cluster/v1/channel';
export const channelProtocol = 'ocpi-hub-node';
const signatureHeader = 'x-ocpi-hub-node';

/** TLS 1.2, because Node offers pre-shared keys of its own only there; forward secrecy, authenticated encryption. */
const tlsRules = {
  ciphers: 'ECDHE-PSK-CHACHA20-POLY1305',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
} as const;

interface Keys {
  /** Names the secret and does not reveal it. */
  readonly id: string;
  readonly signing: Buffer;
  readonly psk: Buffer;
}

function keysOf(secret: string): Keys {
  const derived = (use: string) => Buffer.from(hkdfSync('sha256', secret, '', `ocpi-hub node ${use}`, 32));
  return { id: derived('id').toString('hex', 0, 8), signing: derived('signing'), psk: derived('channel') };
}

const signatureOf = ({ signing }: Keys, method: string, path: string, time: string, nonce: string): Buffer =>
  createHmac('sha256', signing).update([method, path, time, nonce].join('\n')).digest();

/** The peer answered the opening request with this status instead of opening the channel. */
export class ChannelRefused extends Error {
  override readonly name = 'ChannelRefused';
  readonly status: number;

  constructor(status: number) {
    super(`the peer refused the channel with ${status}`);
    this.status = status;
  }
}

type Opened = (error: Error | null, socket?: TLSSocket) => void;

interface Channelled {
  readonly channelTo: string;
}

/** Opens channels to peers, with the newest secret first. [CHANNEL-3] */
export class ChannelClient {
  readonly #keys: readonly Keys[];

  /** `secrets`: the present one, then the former one, if any. */
  constructor(secrets: readonly string[]) {
    this.#keys = secrets.map(keysOf);
  }

  /** Calls `opened` once. The returned function gives up. */
  open(url: string, opened: Opened): () => void {
    let isEnded = false;
    let stop = () => {};
    const end: Opened = (error, socket) => {
      if (isEnded) return void socket?.destroy();
      isEnded = true;
      systemClock.clearTimeout(timer);
      if (error) stop();
      opened(error, socket);
    };
    const timer = systemClock.setTimeout(() => end(new Error('the channel did not open in time')), openMs);
    const [first, ...others] = this.#keys;
    const attempt = (keys: Keys | undefined, next: readonly Keys[]): void => {
      if (keys === undefined) return end(new Error('this node has no secret'));
      stop = ask(url, keys, (error, socket) => {
        const [other, ...rest] = next;
        if (error instanceof ChannelRefused && error.status === 401 && other && !isEnded) attempt(other, rest);
        else end(error, socket);
      });
    };
    attempt(first, others);
    return () => end(new Error('given up'));
  }

  /** An agent whose connections to the peer at `channelTo`, an option of each request, are channels; by it they are kept apart. */
  agent(options: http.AgentOptions = {}): http.Agent {
    const agent = new http.Agent(options);
    const createConnection = ({ channelTo }: Channelled, done: Opened) => void this.open(channelTo, done);
    const getName = ({ channelTo }: Channelled) => channelTo;
    return Object.assign(agent, { createConnection, getName });
  }
}

/** Asks for a channel with one secret. The returned function destroys the connection. */
function ask(text: string, keys: Keys, opened: Opened): () => void {
  const url = parsedHttpUrl(text);
  if (url === null) {
    // Another node's URL is what the database has. [CHANNEL-4]
    queueMicrotask(() => opened(new Error(`${JSON.stringify(text)} is no URL of a node`)));
    return () => {};
  }
  const { isTls, address } = addressOf(url);
  const [time, nonce] = [String(Math.round(systemClock.wall())), randomBytes(16).toString('base64url')];
  const mac = signatureOf(keys, 'GET', channelPath, time, nonce).toString('base64url');
  const headers = {
    Connection: 'Upgrade',
    Upgrade: channelProtocol,
    [signatureHeader]: `${keys.id} ${time} ${nonce} ${mac}`,
  };
  const request = (isTls ? https : http).request({ ...address, path: channelPath, headers, agent: false });
  let secured: TLSSocket | null = null;
  request.on('upgrade', (_answer, socket) => {
    secured = connectTls({
      socket,
      ...tlsRules,
      pskCallback: () => ({ psk: keys.psk, identity: keys.id }),
      // The key authenticates the peer; it shows no certificate.
      checkServerIdentity: () => undefined,
    });
    socket.on('error', (error) => secured?.destroy(error));
    secured.once('secureConnect', () => opened(null, secured ?? undefined));
    secured.on('error', opened);
    secured.once('close', () => opened(new Error('the peer closed the channel')));
  });
  request.on('response', (answer) => {
    opened(new ChannelRefused(answer.statusCode ?? 502));
    request.destroy();
  });
  request.on('error', opened);
  request.end();
  return () => {
    secured?.destroy();
    request.destroy();
  };
}

/** Accepts channels of peers and hands their connections to a server of HTTP requests. */
export class ChannelDoor {
  readonly #keys: ReadonlyMap<string, Keys>;
  readonly #server: http.Server;
  readonly #refused: (request: http.IncomingMessage) => void;
  /** Nonces that were used, with the wall time until which each is kept, oldest first. */
  readonly #nonces = new Map<string, number>();
  /** Open channels, with their requests in flight. */
  readonly #open = new Map<Duplex, number>();
  #isClosing = false;

  /** `server` does not listen itself. `refused` is called for each 401. */
  constructor(secrets: readonly string[], server: http.Server, refused: (request: http.IncomingMessage) => void) {
    this.#keys = new Map(secrets.map(keysOf).map((keys) => [keys.id, keys]));
    this.#server = server;
    this.#refused = refused;
    server.prependListener('request', (request, response) => {
      const { socket } = request;
      this.#open.set(socket, (this.#open.get(socket) ?? 0) + 1);
      response.once('close', () => {
        const left = (this.#open.get(socket) ?? 1) - 1;
        if (this.#open.has(socket)) this.#open.set(socket, left);
        if (left === 0 && this.#isClosing) socket.end();
      });
    });
  }

  /** Whether the request came through a channel, so that a node sent it. */
  readonly isNode = ({ socket }: http.IncomingMessage): boolean => this.#open.has(socket);

  /** Answers a request that asks for a channel. */
  accept(request: http.IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const keys = this.#signer(request);
    if (keys === null) {
      this.#refused(request);
      return refuseChannel(socket);
    }
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${channelProtocol}\r\n\r\n`);
    // The server that accepted the connection would end it when it sees no HTTP for a while.
    (socket as Socket).setTimeout(0);
    if (head.length > 0) socket.unshift(head);
    const pskCallback = (_socket: TLSSocket, id: string) => (id === keys.id ? keys.psk : null);
    // The types leave `pskCallback` to servers, but a socket of a server takes it as well.
    const options = { isServer: true, ...tlsRules, pskCallback };
    const secured = new TLSSocket(socket as Socket, options);
    const timer = systemClock.setTimeout(() => secured.destroy(), openMs);
    secured.on('error', () => secured.destroy());
    secured.once('close', () => {
      systemClock.clearTimeout(timer);
      this.#open.delete(secured);
      socket.destroy();
    });
    secured.once('secure', () => {
      systemClock.clearTimeout(timer);
      if (this.#isClosing) return void secured.destroy();
      this.#open.set(secured, 0);
      this.#server.emit('connection', secured);
    });
  }

  /** Closes idle channels now, and each other one when its requests are answered. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, underWay] of this.#open) if (underWay === 0) socket.destroy();
  }

  /** Cuts all channels. */
  destroy(): void {
    this.#isClosing = true;
    for (const socket of this.#open.keys()) socket.destroy();
  }

  /** The keys with which the request is signed; null: it is refused. [CHANNEL-2] */
  #signer({ method = '', url = '', headers }: http.IncomingMessage): Keys | null {
    const [id = '', time = '', nonce = '', mac = ''] = String(headers[signatureHeader] ?? '').split(' ');
    const keys = this.#keys.get(id);
    if (keys === undefined || !/^\d{1,16}$/.test(time) || url !== channelPath) return null;
    if (!areEqual(signatureOf(keys, method, url, time, nonce), Buffer.from(mac, 'base64url'))) return null;
    const now = systemClock.wall();
    if (Math.abs(now - Number(time)) > windowMs) return null;
    for (const [used, until] of this.#nonces) {
      if (until > now) break;
      this.#nonces.delete(used);
    }
    if (this.#nonces.has(nonce)) return null;
    this.#nonces.set(nonce, now + 2 * windowMs);
    return keys;
  }
}

/** Compares digests, so that neither content nor length shows in the time that it takes. */
const areEqual = (a: Buffer, b: Buffer): boolean => timingSafeEqual(digest(a), digest(b));
const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest();

const refusalBody = JSON.stringify({
  type: 'urn:ocpi-hub:problem:unauthorized',
  title: 'Unauthorized',
  status: 401,
  detail: 'only nodes with the cluster secret are served here',
});
const refusalHead = [
  ...['Content-Type: application/problem+json; charset=utf-8', `Content-Length: ${refusalBody.length}`],
  'Connection: close',
];

function refuseChannel(socket: Duplex): void {
  socket.once('finish', () => socket.destroy());
  socket.end(`HTTP/1.1 401 Unauthorized\r\n${refusalHead.join('\r\n')}\r\n\r\n${refusalBody}`);
}

/** The answer to everything that a listener of nodes gets outside a channel. */
export function refuseOutside(_request: http.IncomingMessage, response: http.ServerResponse): void {
  response.writeHead(401, { 'Content-Type': 'application/problem+json; charset=utf-8', Connection: 'close' });
  response.end(refusalBody);
}

interface Address {
  readonly isTls: boolean;
  readonly address: { readonly host: string; readonly port: number; readonly servername?: string };
}

function addressOf(url: URL): Address {
  const isTls = url.protocol === 'https:';
  const host = bareHost(url);
  const servername = isTls && isIP(host) === 0 ? { servername: host } : {};
  return { isTls, address: { host, port: portOf(url), ...servername } };
}
