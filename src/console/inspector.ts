/**
 * `GET /admin/v1/inspector`: streams the running actors over a WebSocket, in the wire protocol of `@statelyai/inspect`.
 * [contract, 4]
 *
 * INSPECTOR-1  An unauthorized request is refused in HTTP, before the upgrade. The token is never sent back.
 * INSPECTOR-2  No reader slows the hub or fills its memory, whatever the reader does; a reader without a sign of life
 *     is disconnected.
 * INSPECTOR-3  A page of another origin cannot open the WebSocket, even with a token.
 * INSPECTOR-4  A viewer gets messages with the names of persons hidden.
 * INSPECTOR-5  A reader whose token has ended or was revoked, or now has another role, is disconnected at the next beat.
 */
import { once } from 'node:events';
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Operations } from '../hub/ports/operator.ts';
import { type Clock, every, withTimeout } from '../kit/clock.ts';
import { parsedUrl } from '../kit/url.ts';
import { Feed } from './inspector-feed.ts';
import { BadSubscription, Reader, type Subscription, subscriptionIn } from './inspector-reader.ts';

/** A refusal over HTTP, as problem details. */
export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  toJson(instance: string): object;
}

/** Whether a reader sees names of cards as they are (`admin`) or masked. */
type Role = 'admin' | 'viewer';

export interface InspectorMeter {
  /** Sets the number of connected readers. */
  readers(count: number): void;
  sent(messages: number): void;
  /** Counts events that a reader did not get one by one. */
  missed(events: number): void;
}

export interface InspectorDoor {
  /** The role of the bearer token of the request, or of one of these forms of its header; throws a `Refusal`. */
  readonly allow: (request: IncomingMessage, authorizations?: readonly string[]) => Role;
  /** Hides the names of persons from viewers. [INSPECTOR-4] */
  readonly masked: (message: object) => unknown;
  /** Whether the request came in where operators are served. */
  readonly isHere: (request: IncomingMessage) => boolean;
  readonly refusal: (status: number, detail: string, parts?: { headers: Record<string, string> }) => Refusal;
  readonly isReady: () => boolean;
  readonly publicUrl: string;
  readonly clock: Clock;
  readonly meter: InspectorMeter;
  readonly log: { info(fields: object, message: string): void; error(fields: object, message: string): void };
  /** Interval of pings and of the checks whether a reader is alive and still admitted, milliseconds. */
  readonly beatMs?: number;
}

interface Admission {
  readonly subscription: Subscription;
  readonly role: Role;
}

export interface Inspector {
  /** Handler for the event `upgrade` of the HTTP server. */
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
  close(): Promise<void>;
}

const path = '/admin/v1/inspector';
const protocol = 'ocpi-hub.inspector';
const bearer = 'bearer.';
const messageBytesMax = 4096;
const readersMax = 64;
/** How long a stop waits for the peers' close frames before it terminates their connections, milliseconds. */
const closingMs = 1_000;

export function createInspector(operations: Operations, door: InspectorDoor): Inspector {
  const { beatMs = 30_000, clock, log, meter } = door;
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: messageBytesMax,
    perMessageDeflate: false,
    handleProtocols: (offered) => offered.has(protocol) && protocol,
  });
  const feeds: Readonly<Record<Role, Feed>> = {
    admin: new Feed(operations, clock, (message) => message),
    viewer: new Feed(operations, clock, door.masked),
  };
  const readers = new Map<WebSocket, { readonly reader: Reader; readonly isAdmitted: () => boolean }>();
  let stopBeats: (() => void) | null = null;
  let isClosed = false;

  function admitted(request: IncomingMessage): Admission {
    const [at, query] = (request.url ?? '').split('?', 2);
    if (at !== path || !door.isHere(request)) throw door.refusal(404, `there is no WebSocket at ${at}`);
    if (isClosed || !door.isReady()) throw busy('the hub is starting or stopping');
    const role = authorize(request, door.allow);
    if (request.method !== 'GET') throw door.refusal(405, 'a WebSocket begins with GET', { headers: { allow: 'GET' } });
    if (!isOwnOrigin(request, door.publicUrl)) throw door.refusal(403, 'a page of another origin may not watch');
    if (readers.size >= readersMax) throw busy(`${readersMax} readers are connected, which is the most`);
    try {
      return { subscription: subscriptionIn(new URLSearchParams(query)), role };
    } catch (error) {
      throw error instanceof BadSubscription ? door.refusal(422, `query: ${error.message}`) : error;
    }
  }

  const busy = (detail: string) => door.refusal(503, detail, { headers: { 'retry-after': '1' } });

  function attach(request: IncomingMessage, ws: WebSocket, socket: Duplex, { subscription, role }: Admission): void {
    const feed = feeds[role];
    const failed = (error: unknown) => log.error({ err: error }, 'inspector: internal error while serving a reader');
    const parts = { ws, socket, clock, feed, subscription, sent: meter.sent, missed: meter.missed, failed };
    const reader = new Reader(parts);
    readers.set(ws, { reader, isAdmitted: () => hasRole(request, role) });
    feed.add(reader);
    stopBeats ??= every(clock, beatMs, beat);
    meter.readers(readers.size);
    // An error of the connection also emits `close`, which cleans up.
    ws.on('error', (error) => log.info({ err: error }, 'inspector: connection of a reader failed'));
    ws.once('close', () => detach(ws, reader, feed));
    log.info({ readers: readers.size }, 'inspector: reader connected');
  }

  function detach(ws: WebSocket, reader: Reader, feed: Feed): void {
    readers.delete(ws);
    feed.remove(reader);
    meter.readers(readers.size);
    log.info({ readers: readers.size }, 'inspector: reader disconnected');
    if (readers.size > 0) return;
    stopBeats?.();
    stopBeats = null;
  }

  function hasRole(request: IncomingMessage, role: Role): boolean {
    try {
      return authorize(request, door.allow) === role;
    } catch {
      return false;
    }
  }

  function beat(): void {
    for (const [ws, { reader, isAdmitted }] of readers) {
      if (!reader.beat()) ws.terminate();
      // [INSPECTOR-5]
      else if (ws.readyState === ws.OPEN && !isAdmitted()) ws.close(4001, 'the token has ended or has another role');
    }
  }

  return {
    upgrade(request, socket, head) {
      try {
        const admission = admitted(request);
        server.handleUpgrade(request, socket, head, (ws) => attach(request, ws, socket, admission));
      } catch (error) {
        refuse(socket, request.url ?? '', refusalOf(error, door));
      }
    },
    async close() {
      isClosed = true;
      const ends = [...readers.keys()].map((ws) => {
        ws.close(1001, 'the hub stops');
        return once(ws, 'close');
      });
      const ended = Promise.all(ends);
      if (!(await withTimeout(clock, closingMs, ended))) for (const ws of readers.keys()) ws.terminate();
      await ended;
    },
  };
}

/** Takes the token from the header, or from where a browser can put it: a sub-protocol, plain or percent-encoded. */
function authorize(request: IncomingMessage, allow: InspectorDoor['allow']): Role {
  const { headers } = request;
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((one) => one.trim());
  const token = offered.find((one) => one.startsWith(bearer))?.slice(bearer.length);
  if (headers.authorization !== undefined || token === undefined) return allow(request);
  return allow(request, [`Bearer ${token}`, `Bearer ${decodedOf(token)}`]);
}

function decodedOf(token: string): string {
  try {
    return decodeURIComponent(token);
  } catch {
    return token;
  }
}

/** Only browsers send an Origin; a request without one passes. [INSPECTOR-3] */
function isOwnOrigin({ headers: { origin, host } }: IncomingMessage, publicUrl: string): boolean {
  if (origin === undefined) return true;
  const given = parsedUrl(origin);
  if (given === null) return false;
  if (given.origin === new URL(publicUrl).origin) return true;
  return parsedUrl(`${given.protocol}//${host}`)?.host === given.host;
}

function refusalOf(error: unknown, { refusal, log }: InspectorDoor): Refusal {
  if (typeof (error as Refusal | null)?.toJson === 'function') return error as Refusal;
  log.error({ err: error }, 'inspector: internal error during an upgrade');
  return refusal(500, 'the hub met an error of its own; its log says more');
}

function refuse(socket: Duplex, url: string, refusal: Refusal): void {
  const { status, headers } = refusal;
  const body = JSON.stringify(refusal.toJson(url.split('?', 1)[0] ?? ''));
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/problem+json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  socket.on('error', () => socket.destroy());
  socket.once('finish', () => socket.destroy());
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
