/**
 * The HTTP server that all doors share, with the limits that must hold before any door is asked. [D38]
 *
 * HTTP-SERVER-1  A request that has not arrived in whole within its time is answered 408 and cut.
 * HTTP-SERVER-2  What Node or the router refuse by themselves is an envelope as well. [D2]
 * HTTP-SERVER-3  Whatever protocol a client offers to change to, its request is answered; a WebSocket alone leaves HTTP.
 * HTTP-SERVER-4  What the router cannot read leads nowhere below its door, so that the door says so in its own form. [D2]
 * HTTP-SERVER-5  The first two segments of a path lead to a door only as they are, never percent-encoded: what compares paths, here or in a
 *     proxy in front, sees what the router sees.
 * HTTP-SERVER-6  Every response emits `close`, also one that still waits behind another when its connection ends.
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
import { background, type Clock, every } from '../kit/clock.ts';
import { nextTurn, systemClock } from '../kit/system-clock.ts';
import { refusalText } from '../transport/envelope.ts';
import { readId } from '../transport/headers.ts';
import { limitConnections, type RequestSeen } from './connections.ts';

export interface HttpServerOptions {
  /** PEM texts; then the server speaks HTTPS. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** In which a request, body included, must have arrived. */
  readonly requestTimeoutMs?: number;
  /** Absent: as many as the system grants. */
  readonly connectionsMax?: number;
}

/** Characters of one segment of a path. */
const segmentLengthMax = 4096;

/** A request must arrive within so long. [D38] */
const requestTimeoutMs = 15_000;
/** A silent connection is cut after so long: more than the slowest forward takes to answer. */
const silenceMaxMs = 90_000;
/** Longer than the usual 60 s of load balancers, so that it is they who close an idle connection. */
const keepAliveMs = 72_000;

/** TLS 1.2 with forward secrecy and authenticated encryption alone, or TLS 1.3. */
const tlsRules = {
  minVersion: 'TLSv1.2',
  ciphers: 'TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:ECDHE+AESGCM:ECDHE+CHACHA20',
} as const;

/** Serves another certificate to connections from now on; those that are open stay. */
export function renewCertificate(server: Server, tls: { readonly cert: string; readonly key: string }): void {
  if ('setSecureContext' in server) (server as TlsServer).setSecureContext({ ...tlsRules, ...tls });
}

/** How often failed accepts are logged at most. */
const failuresEveryMs = 1000;

/** A connection that the system cannot give, as when descriptors run out, is no reason to end. */
export function logFailedAccepts(
  server: Server,
  log: { error(fields: object, message: string): void },
  clock: Clock,
): void {
  let count = 0;
  let isWaiting = false;
  const say = (err: Error) => {
    log.error({ err, count }, 'connections could not be accepted');
    count = 0;
    isWaiting = true;
    const waited = () => {
      isWaiting = false;
      if (count > 0) say(err);
    };
    background(clock.setTimeout(waited, failuresEveryMs));
  };
  server.on('error', (error) => {
    count += 1;
    if (!isWaiting) say(error);
  });
}

const methods: ReadonlySet<string> = new Set(METHODS);

/** Of the end of one response: rooms that count it, each once, and what Fastify itself adds. Above Node's 10 it is no leak. */
const listenersMax = 24;

/** How often connections that have become idle are closed while the server closes. */
const idleSweepMs = 100;

/** A server with the limits; `answer` answers its requests. */
function limitedServer(options: HttpServerOptions, answer: RequestListener): Server {
  const limit = options.requestTimeoutMs ?? requestTimeoutMs;
  const serverOptions: ServerOptions = {
    requestTimeout: limit,
    headersTimeout: limit,
    // Node looks for late requests only so often; its default of 30 s would triple the limit.
    connectionsCheckingInterval: Math.min(1000, limit),
    keepAliveTimeout: keepAliveMs,
    // We refuse it ourselves: Node's own answer has no body. [HTTP-SERVER-2]
    requireHostHeader: false,
    IncomingMessage: Incoming,
  };
  let seen: RequestSeen = () => {};
  const listener: RequestListener = (request, response) => {
    response.setMaxListeners(listenersMax);
    endWithConnection(request.socket, response);
    seen(request, response);
    if (isRequest(request)) answer(request, response);
    else refuseWhole(response);
  };
  const server = options.tls
    ? createTlsServer({ ...serverOptions, ...tlsRules, handshakeTimeout: limit, ...options.tls }, listener)
    : createServer(serverOptions, listener);
  if (options.connectionsMax !== undefined) seen = limitConnections(server as Server, options.connectionsMax);
  server.setTimeout(silenceMaxMs);
  // An expectation that we do not know changes nothing; left to Node it is answered with an empty 417. [HTTP-SERVER-2]
  server.on('checkExpectation', listener);
  closeIdleWhileClosing(server as Server);
  return server as Server;
}

/**
 * A connection that was busy when closing began would otherwise idle out its keep-alive time before the server is closed. So would one on
 * which nothing has come yet, as browsers open them ahead of need: Node counts it as busy. Sockets are swept, which no other clock than
 * the machine's moves.
 */
function closeIdleWhileClosing(server: Server): void {
  const open = new Set<Socket>();
  // With TLS a connection is two sockets, and the handshake has come on the first.
  for (const event of ['connection', 'secureConnection']) {
    server.on(event, (socket: Socket) => {
      open.add(socket);
      socket.once('close', () => open.delete(socket));
    });
  }
  const sweep = () => {
    server.closeIdleConnections();
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
  };
  const close = server.close.bind(server);
  server.close = (done) => {
    if (server.listening) server.once('close', every(systemClock, idleSweepMs, sweep));
    return close(done);
  };
}

/** Responses that have not closed, by connection. */
const openOn = new WeakMap<Socket, Set<ServerResponse>>();

/** Node closes with a connection only the response that is being sent on it, and none that a pipelined request still has to get. [HTTP-SERVER-6] */
function endWithConnection(socket: Socket, response: ServerResponse): void {
  const open = openOn.get(socket) ?? watchEnd(socket);
  // A front may already have it.
  if (open.has(response)) return;
  open.add(response);
  response.once('close', () => open.delete(response));
}

/** Stands by itself: a closure made where a response is at hand would keep it, with all it holds, for as long as its connection lasts. */
function watchEnd(socket: Socket): Set<ServerResponse> {
  const open = new Set<ServerResponse>();
  openOn.set(socket, open);
  // By the next turn Node has closed those that it knows of.
  socket.once('close', () => void nextTurn().then(() => closeAll(open)));
  return open;
}

function closeAll(open: ReadonlySet<ServerResponse>): void {
  for (const response of open) {
    response.destroy();
    response.emit('close');
  }
}

/** What stands in front of an app that does not listen itself: the same limits, and the same refusals. */
export function createFrontServer(options: HttpServerOptions, answer: RequestListener): Server {
  return limitedServer(options, answer).on('clientError', refuseConnection);
}

export function createHttpServer(options: HttpServerOptions = {}): FastifyInstance {
  return fastify({
    serverFactory: (handler) => limitedServer(options, handler as RequestListener),
    trustProxy: false,
    genReqId: (request) => readId(request.headers['x-request-id']),
    requestIdHeader: false,
    rewriteUrl: (request) => routableUrl(request.url ?? '/'),
    clientErrorHandler: refuseConnection,
    // While closing, what arrives on an open connection is still answered by its door.
    return503OnClosing: false,
    routerOptions: { maxParamLength: segmentLengthMax },
    exposeHeadRoutes: false,
  });
}

/**
 * Once a server listens for upgrades, Node takes every request that offers one out of HTTP, also the `Upgrade: h2c` that some HTTP
 * clients send with each first request. Those offers are passed over, as RFC 9110 (7.8) has it. [HTTP-SERVER-3]
 */
class Incoming extends IncomingMessage {
  /** What the parser found; it is set before the fields of this class could be. */
  declare offersUpgrade: boolean | null;

  set upgrade(offered: boolean | null) {
    this.offersUpgrade = offered;
  }

  get upgrade(): boolean {
    if (!this.offersUpgrade) return false;
    if (this.method === 'CONNECT') return true;
    // Below `/ocpi` there is none, and every answer is an envelope. [D2]
    return this.headers.upgrade?.toLowerCase() === 'websocket' && !/^\/ocpi(?:[/?#]|$)/.test(pathFrom(this.url ?? ''));
  }
}

/** A target without the scheme and host that a client may send. [RFC 9112, 3.2.2] */
const pathFrom = (target: string) => target.replace(/^https?:\/\/[^/?#]*/i, '') || '/';

/** What the router is asked for; one slash at the end of an OCPI path is overlooked. */
function routableUrl(sent: string): string {
  const url = pathFrom(sent);
  const end = url.search(/[?#]/);
  const path = end === -1 ? url : url.slice(0, end);
  const door = doorOf(path);
  if (!isRoutable(path)) return `${door ?? doorOf(decoded(path)) ?? ''}/unroutable`;
  return door === '/ocpi' && path.endsWith('/') ? path.slice(0, -1) + url.slice(path.length) : url;
}

const doorOf = (path: string) => /^\/(?:ocpi|admin\/v1)(?=\/|$)/.exec(path)?.[0];

/** As far as it is ASCII: it says in which door's form a refusal is. */
const decoded = (path: string) => path.replaceAll(/%[2-7][0-9a-f]/gi, decodeURIComponent);

/** Whether the router can take it apart: otherwise it would answer by itself, in a form of its own. [HTTP-SERVER-4, HTTP-SERVER-5] */
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

const refusals: Readonly<Record<string, string>> = {
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
};

/** Answers what never became a request: late, oversized or malformed HTTP. */
function refuseConnection(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const status = refusals[error.code ?? ''] ?? '400 Bad Request';
  const body = refusalText({ ocpi: 2000, message: status.slice(4) });
  const head = [`HTTP/1.1 ${status}`, 'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`];
  socket.end(`${head.join('\r\n')}\r\nConnection: close\r\n\r\n${body}`);
}

/** Node's parser lets more through: HTTP/1.1 without `Host`, and `PRI`, which begins HTTP/2 alone. [RFC 9112, 3.2; RFC 9113, 3.4] */
function isRequest({ headers, httpVersion, method = '' }: IncomingMessage): boolean {
  return methods.has(method) && (headers.host !== undefined || httpVersion !== '1.1');
}

function refuseWhole(response: ServerResponse): void {
  const body = refusalText({ ocpi: 2000, message: 'Bad Request' });
  response.writeHead(400, { 'Content-Type': 'application/json', Connection: 'close' }).end(body);
}
