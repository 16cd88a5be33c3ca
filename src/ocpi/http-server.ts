/**
 * The HTTP server that all doors share, with the limits that must hold before any door is asked. [D38]
 *
 * H1  A request that has not arrived in whole within its time is answered 408 and cut.
 * H2  What Node or the router refuse by themselves is an envelope as well. [D2]
 */
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import fastify, { type FastifyInstance } from 'fastify';
import { refusalText } from '../transport/envelope.ts';
import { readId } from '../transport/headers.ts';

export interface HttpServerOptions {
  /** PEM texts; then the server speaks HTTPS. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** In which a request, body included, must have arrived. */
  readonly requestTimeoutMs?: number;
}

/** A request must arrive within so long. [D38] */
const requestTimeoutMs = 15_000;
/** A silent connection is cut after so long: more than the slowest forward takes to answer. */
const silenceMaxMs = 90_000;
/** Longer than the usual 60 s of load balancers, so that it is they who close an idle connection. */
const keepAliveMs = 72_000;

/** How often connections that have become idle are closed while the server closes. */
const idleSweepMs = 100;

export function createHttpServer(options: HttpServerOptions = {}): FastifyInstance {
  const limit = options.requestTimeoutMs ?? requestTimeoutMs;
  const serverOptions: ServerOptions = {
    requestTimeout: limit,
    headersTimeout: limit,
    // Node looks for late requests only so often; its default of 30 s would triple the limit.
    connectionsCheckingInterval: Math.min(1000, limit),
    keepAliveTimeout: keepAliveMs,
  };
  const app = fastify({
    serverFactory: (handler) => {
      const server = options.tls
        ? createTlsServer({ ...serverOptions, ...options.tls }, handler as RequestListener)
        : createServer(serverOptions, handler as RequestListener);
      server.setTimeout(silenceMaxMs);
      return server as Server;
    },
    trustProxy: false,
    genReqId: (request) => readId(request.headers['x-request-id']),
    requestIdHeader: false,
    rewriteUrl: (request) => routableUrl(request.url ?? '/'),
    clientErrorHandler: refuseConnection,
    // While closing, what arrives on an open connection is still answered by its door.
    return503OnClosing: false,
    routerOptions: { maxParamLength: 4096 },
    exposeHeadRoutes: false,
  });
  closeIdleWhileClosing(app);
  return app;
}

/** A connection that was busy when closing began would otherwise idle out its keep-alive time before the server is closed. */
function closeIdleWhileClosing(app: FastifyInstance): void {
  app.addHook('preClose', async () => {
    const sweep = setInterval(() => app.server.closeIdleConnections(), idleSweepMs);
    app.server.once('close', () => clearInterval(sweep));
  });
}

/** A path that cannot be decoded leads nowhere; one slash at the end of an OCPI path is overlooked. */
function routableUrl(url: string): string {
  if (!/^\/ocpi(?:[/?#]|$)/.test(url)) return url;
  const end = url.search(/[?#]/);
  const path = end === -1 ? url : url.slice(0, end);
  if (!isDecodable(path)) return '/ocpi/undecodable';
  return path.endsWith('/') ? path.slice(0, -1) + url.slice(path.length) : url;
}

function isDecodable(path: string): boolean {
  if (!path.includes('%')) return true;
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
