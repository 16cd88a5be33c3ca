/**
 * The HTTP server that all doors share, with the limits that apply before a request reaches a door. [D38]
 *
 * HTTP-SERVER-1  A request that has not arrived completely within the request timeout is answered 408, and its
 *     connection is closed.
 * HTTP-SERVER-2  Refusals by Node or the router are OCPI envelopes, too. [D2]
 * HTTP-SERVER-3  A request that offers a protocol upgrade is answered over HTTP; only a WebSocket and the channel of
 *     another node leave HTTP.
 * HTTP-SERVER-4  A path that the router cannot parse is rewritten to an unknown path below its door, so that the door
 *     refuses it in its own format. [D2]
 * HTTP-SERVER-5  The first two segments of a path lead to a door only unencoded, never percent-encoded, so that
 *     whatever compares paths, here or in a reverse proxy, sees the same path as the router.
 * HTTP-SERVER-6  A request whose turn on its connection comes later than `decisionMs` after its arrival is not begun: it
 *     is answered 503, and its connection ends. [STALE-3]
 * HTTP-SERVER-7  A client may end its side of the connection behind its requests: they are answered, then the connection
 *     ends. One without an unanswered request ends at once.
 * HTTP-SERVER-8  Below `/ocpi`, slashes in a row count as one, and one at the end as none: clients join a URL of the
 *     version details and a path so.
 * HTTP-SERVER-9  While requests of several clients came within `aloneMs`, at most `beginsMax` begin in one turn of the event loop, of
 *     one client at most `beginsOfOneMax`; clients take turns. The head of a request takes microseconds, and what follows it, a refusal
 *     included, takes several times as long: hundreds that come at once are spread over turns, between which what another client
 *     waits for goes on. A client is the partner whose token was accepted last on the connection, else the address
 *     (CLIENT-CONNECTION-3).
 */

import {
  createServer,
  IncomingMessage,
  METHODS,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import fastify, { type FastifyInstance } from 'fastify';
import { type Clock, every } from '../kit/clock.ts';
import { sampled } from '../kit/sampled.ts';
import { decisionMs } from '../kit/stale.ts';
import { afterPoll, systemClock } from '../kit/system-clock.ts';
import { perTurn } from '../kit/turns.ts';
import { curves, partnerOn } from '../transport/client-connection.ts';
import { refusalText } from '../transport/envelope.ts';
import { readId } from '../transport/headers.ts';
import type { Visitors } from '../transport/visitors.ts';
import { limitConnections, nameOf, type RequestSeen } from './connections.ts';
import { isRefusedLater, type RefuseConnection, refuserOf } from './parser-refusals.ts';
import { type Begin, firstUnsent, inTurn } from './pipeline.ts';
import { limitUnadmitted } from './unadmitted.ts';

export interface HttpServerOptions {
  /** PEM texts. Present: the server speaks HTTPS. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Time in which a request, body included, must arrive; default 15 s. */
  readonly requestTimeoutMs?: number;
  /** A connection without traffic for this long is closed, but for answers that may take longer [CLIENT-CONNECTION-4]; default 90 s. */
  readonly silenceMaxMs?: number;
  /** Absent: no limit but the system's. */
  readonly connectionsMax?: number;
  /** Counts callers without a token by address. Absent: nobody is limited. */
  readonly visitors?: Visitors;
  /** Of the waits of answers; by default the system's. */
  readonly clock?: Clock;
  /** Clients are other nodes: one that ends its side of a connection has dropped its request. */
  readonly isAmongNodes?: boolean;
}

/** Share of the connections that one address may have without a token. */
const addressShare = 0.25;

/** Characters in one path segment. */
const segmentLengthMax = 4096;

/** Default time in which a request must arrive. [D38] */
const requestTimeoutMs = 15_000;
/** Default silence limit of a connection. Must exceed the slowest forward, else that forward gets no answer. */
const silenceMaxMs = 90_000;
/**
 * Must exceed the idle timeout of load balancers (usually 60 s), so that they close idle connections: otherwise the hub
 * closes one just as a request is sent on it.
 */
const keepAliveMs = 72_000;

/** Each takes some 200 µs of the thread: in all a few milliseconds of a turn. [HTTP-SERVER-9] */
const beginsMax = 32;
/** A lower one makes smaller group commits of a partner that pushes over many connections. */
const beginsOfOneMax = 16;
/** A client that no other one has followed for this long is alone: nobody else waits, and its group commits are as large as they can be. */
const aloneMs = 5_000;

/** TLS 1.3, or TLS 1.2 with forward secrecy and authenticated encryption only. */
const tlsRules = {
  minVersion: 'TLSv1.2',
  ecdhCurve: curves,
  ciphers: 'TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:ECDHE+AESGCM:ECDHE+CHACHA20',
} as const;

/** New connections get the new certificate; open connections stay. */
export function renewCertificate(server: Server, tls: { readonly cert: string; readonly key: string }): void {
  if ('setSecureContext' in server) (server as TlsServer).setSecureContext({ ...tlsRules, ...tls });
}

/** Failed accepts are logged at most once per this interval. */
const failuresEveryMs = 1000;

/**
 * Logs accepts that fail, for example when file descriptors run out. Without this listener such an error ends the
 * process.
 */
export function logFailedAccepts(
  server: Server,
  log: { error(fields: object, message: string): void },
  clock: Clock,
): void {
  const say = (err: Error, count: number) => log.error({ err, count }, 'connections could not be accepted');
  const failed = sampled(clock, failuresEveryMs, say);
  server.on('error', (error) => failed(error));
}

const methods: ReadonlySet<string> = new Set(METHODS);

/**
 * Listeners on one response: several modules each wait for its end, and Fastify adds its own. Above Node's default of
 * 10 Node would warn of a leak that is none.
 */
const listenersMax = 24;

/** How often idle connections are closed while the server closes. */
const idleSweepMs = 100;

/** A server with the limits; `answer` handles its requests. */
function limitedServer(options: HttpServerOptions, answer: RequestListener): Server {
  const limit = options.requestTimeoutMs ?? requestTimeoutMs;
  const serverOptions: ServerOptions = {
    requestTimeout: limit,
    headersTimeout: limit,
    // Node checks for late requests at this interval; its default of 30 s would triple the timeout.
    connectionsCheckingInterval: Math.min(1000, limit),
    keepAliveTimeout: keepAliveMs,
    // `isRequest` refuses a missing Host header: Node's own answer has no body. [HTTP-SERVER-2]
    requireHostHeader: false,
    IncomingMessage: Incoming,
  };
  let seen: RequestSeen = () => {};
  const handle: Begin = (request, response, waitedMs) => {
    if (!request.socket.writable) return;
    if (waitedMs > decisionMs) refuseWhole(response, 503, { ocpi: 3000, message: 'Service Unavailable' });
    else if (isRequest(request)) answer(request, response);
    else refuseWhole(response, 400, { ocpi: 2000, message: 'Bad Request' });
  };
  // A callback of this turn would run in addition to what the sockets have brought in it.
  const inTurns = perTurn({ ofAll: beginsMax, ofOne: beginsOfOneMax }, () => new Promise(afterPoll));
  const { clock = systemClock } = options;
  let latest = '';
  let changedAt = 0;
  const begin: Begin = (request, response, waitedMs) => {
    const { socket } = request;
    // The connection has ended, or ends with an answer before.
    if (!socket.writable) return;
    response.setMaxListeners(listenersMax);
    seen(request, response);
    const client = partnerOn(socket) || (options.visitors?.ofConnection(socket) ?? socket.remoteAddress ?? '');
    const now = clock.monotonic();
    if (client !== latest) changedAt = now;
    latest = client;
    const turn = inTurns(now - changedAt < aloneMs, client);
    if (turn === null) handle(request, response, waitedMs);
    else void turn.then(() => handle(request, response, waitedMs + clock.monotonic() - now));
  };
  const listener = inTurn(begin, clock);
  const server = options.tls
    ? createTlsServer({ ...serverOptions, ...tlsRules, handshakeTimeout: limit, ...options.tls }, listener)
    : createServer(serverOptions, listener);
  // Else Node ends its side with the client's, before an answer that is not ready at once. [HTTP-SERVER-7]
  Object.assign(server, { httpAllowHalfOpen: options.isAmongNodes !== true });
  // Not during the handshake: Node never hears of a client that leaves with its last message.
  server.prependListener('secureConnection', (socket: Socket) => {
    socket.allowHalfOpen = true;
  });
  const { connectionsMax: most, visitors } = options;
  const share =
    most !== undefined && visitors
      ? { ofAddressMax: Math.ceil(most * addressShare), addressOf: visitors.ofConnection }
      : null;
  if (most !== undefined) seen = limitConnections(server as Server, most, share);
  server.setTimeout(options.silenceMaxMs ?? silenceMaxMs);
  // An unknown `Expect` is ignored; Node would answer it with an empty 417. [HTTP-SERVER-2]
  server.on('checkExpectation', listener);
  closeIdleWhileClosing(server as Server);
  for (const event of socketEvents) server.on(event, withoutStacks);
  return server as Server;
}

/** A TLS connection has two socket objects; the first has read bytes of the handshake, the second none before a request. */
const socketEvents = ['connection', 'secureConnection'] as const;

/** As a connection closes, Node makes an error of each request on it that is not answered, and reads its stack, which nobody else does. */
function withoutStacks(socket: Socket): void {
  let { stackTraceLimit } = Error;
  socket.prependListener('close', () => {
    ({ stackTraceLimit } = Error);
    Error.stackTraceLimit = 0;
  });
  socket.on('close', () => {
    Error.stackTraceLimit = stackTraceLimit;
  });
}

/**
 * Closes idle connections every `idleSweepMs` while the server closes. Without it, a connection that was busy when
 * closing began would delay the close by its keep-alive time. So would a connection without any byte received, as
 * browsers open them in advance, because Node counts it as busy, one whose refusal waits for its turn, and one in its TLS
 * handshake, which Node does not count. The interval uses the system clock, since sockets do not follow a simulated one.
 */
function closeIdleWhileClosing(server: Server): void {
  const open = new Set<Socket>();
  const handshakes = new Map<string, Socket>();
  for (const event of socketEvents) {
    server.on(event, (socket: Socket) => {
      open.add(socket);
      socket.once('close', () => open.delete(socket));
    });
  }
  if ('setSecureContext' in server) {
    server.on('connection', (socket: Socket) => {
      const name = nameOf(socket);
      handshakes.set(name, socket);
      socket.once('close', () => handshakes.get(name) === socket && handshakes.delete(name));
    });
    server.on('secureConnection', (socket: Socket) => handshakes.delete(nameOf(socket)));
  }
  const sweep = () => {
    server.closeIdleConnections();
    for (const socket of open) if (socket.bytesRead === 0 || isRefusedLater(socket)) socket.destroy();
    for (const socket of handshakes.values()) socket.destroy();
  };
  const close = server.close.bind(server);
  server.close = (done) => {
    if (server.listening) server.once('close', every(systemClock, idleSweepMs, sweep));
    return close(done);
  };
}

/** A server that listens before there is an app to answer. */
export interface EarlyServer {
  readonly server: Server;
  /** Prepares the server for an app, which answers only after `handOver`. */
  readonly adopt: (handler: RequestListener) => Server;
  readonly handOver: () => void;
}

/** `answer` handles requests until the app takes over. */
export function createEarlyServer(options: HttpServerOptions, answer: RequestListener): EarlyServer {
  let [handle, next] = [answer, answer];
  const refuse = refuserOf(options);
  const server = frontServer(options, (request, response) => handle(request, response), refuse);
  return {
    server,
    adopt(handler) {
      // The app listens for these itself.
      server.off('clientError', refuse);
      next = handler;
      return server;
    },
    handOver() {
      handle = next;
    },
  };
}

/** A server for a front that passes requests to an app which does not listen itself; same limits, same refusals. */
export function createFrontServer(options: HttpServerOptions, answer: RequestListener): Server {
  return frontServer(options, answer, refuserOf(options));
}

const frontServer = (options: HttpServerOptions, answer: RequestListener, refuse: RefuseConnection): Server =>
  limitedServer(options, answer).on('clientError', refuse);

/** `early`: the server that already listens for this app. */
export function createHttpServer(options: HttpServerOptions = {}, early: EarlyServer | null = null): FastifyInstance {
  const serverFor = early?.adopt ?? ((handler: RequestListener) => limitedServer(options, handler));
  const app = fastify({
    serverFactory: (handler) => serverFor(handler as RequestListener),
    trustProxy: false,
    genReqId: (request) => readId(request.headers['x-request-id']),
    requestIdHeader: false,
    rewriteUrl: (request) => routableUrl(request.url ?? '/'),
    clientErrorHandler: refuserOf(options),
    // While the server closes, requests on open connections still reach their door.
    return503OnClosing: false,
    routerOptions: { maxParamLength: segmentLengthMax },
    exposeHeadRoutes: false,
    // The doors wait for nothing while they are added, and Fastify would set two timers for each route.
    pluginTimeout: 0,
    // No route has a schema of Fastify's: a start need not load its compilers.
    schemaController: { compilersFactory: { buildValidator: uncompiled, buildSerializer: uncompiled } },
  });
  const { visitors, clock = systemClock } = options;
  if (visitors) limitUnadmitted(app, visitors, clock);
  // Fastify closes only a server that it made listen itself.
  if (early) app.addHook('preClose', () => closed(early.server));
  return app;
}

function uncompiled(): never {
  throw new Error('the build has no compiler of schemas: bodies and answers are checked with zod');
}

/** Resolves when the server has closed; a server that does not listen is closed. */
export const closed = (server: Server) => new Promise<void>((resolve) => void server.close(() => resolve()));

/** Protocols that leave HTTP; the second is that of `src/cluster/channel.ts`. */
const upgrades: ReadonlySet<string> = new Set(['websocket', 'ocpi-hub-node']);

/**
 * A request whose `upgrade` is true only for `upgrades` and CONNECT. Once a server listens for upgrades, Node takes
 * every request that offers one out of HTTP, including the `Upgrade: h2c` that some clients send with their first
 * request. A server may ignore such an offer (RFC 9110, 7.8). [HTTP-SERVER-3]
 */
class Incoming extends IncomingMessage {
  /**
   * What the parser found. Declared without initializer: the base constructor sets it before field initializers run.
   */
  declare offersUpgrade: boolean | null;

  set upgrade(offered: boolean | null) {
    // The new protocol would take the connection from the answers to requests before this one.
    this.offersUpgrade = offered && firstUnsent(this.socket) === null;
  }

  get upgrade(): boolean {
    if (!this.offersUpgrade) return false;
    if (this.method === 'CONNECT') return true;
    // OCPI has no WebSockets, and every answer below `/ocpi` is an envelope. [D2]
    return (
      upgrades.has(this.headers.upgrade?.toLowerCase() ?? '') && !/^\/ocpi(?:[/?#]|$)/.test(pathFrom(this.url ?? ''))
    );
  }
}

/** A request target without the scheme and host that a client may send (absolute form). [RFC 9112, 3.2.2] */
const pathFrom = (target: string) => target.replace(/^https?:\/\/[^/?#]*/i, '') || '/';

/** The URL that the router gets: of an OCPI path with its slashes as they should be; an unroutable path is replaced. [HTTP-SERVER-8] */
function routableUrl(sent: string): string {
  const url = pathFrom(sent);
  const end = url.search(/[?#]/);
  const path = end === -1 ? url : url.slice(0, end);
  const door = doorOf(path);
  if (!isRoutable(path)) return `${door ?? doorOf(decoded(path)) ?? ''}/unroutable`;
  const isPlain = door !== '/ocpi' || !(path.endsWith('/') || path.includes('//'));
  return isPlain ? url : path.replaceAll(/\/+/g, '/').replace(/\/$/, '') + url.slice(path.length);
}

/** Whether the path of a request has slashes in a row. [HTTP-SERVER-8] */
export const hasDoubledSlash = (sent: string): boolean => sent.includes('//') && /^[^?#]*\/\//.test(pathFrom(sent));

const doorOf = (path: string) => /^\/(?:ocpi|(?:admin|portal)\/v1)(?=\/|$)/.exec(path)?.[0];

/** The path with its ASCII escapes decoded. Used only to choose the door whose format a refusal has. */
const decoded = (path: string) => path.replaceAll(/%[2-7][0-9a-f]/gi, decodeURIComponent);

/**
 * Whether the router can parse the path; else the router would answer in its own format. [HTTP-SERVER-4, HTTP-SERVER-5]
 */
function isRoutable(path: string): boolean {
  if (path.length > segmentLengthMax && path.split('/').some(({ length }) => length > segmentLengthMax)) return false;
  if (!path.includes('%')) return true;
  if (/^\/[^/]*(?:\/[^/]*)?%/.test(path)) return false;
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

/**
 * Refuses what Node's parser accepts: HTTP/1.1 without `Host`, and `PRI`, which only begins HTTP/2. [RFC 9112, 3.2; RFC
 * 9113, 3.4]
 */
function isRequest({ headers, httpVersion, method = '' }: IncomingMessage): boolean {
  return methods.has(method) && (headers.host !== undefined || httpVersion !== '1.1');
}

function refuseWhole(response: ServerResponse, status: number, refusal: Parameters<typeof refusalText>[0]): void {
  response.writeHead(status, { 'Content-Type': 'application/json', Connection: 'close' }).end(refusalText(refusal));
}
