/**
 * Pipelining: a client may send requests on a connection before it has the answers to earlier ones. Only safe methods
 * could be handled in parallel, so the hub handles none so. [RFC 9112, 9.3.2]
 *
 * PIPELINE-1  Of the requests of one connection one is under way at a time, in order of arrival: the next begins when
 *     the answer before it has been sent. A request whose connection ends before its turn never begins.
 * PIPELINE-2  While `waitingMax` or more requests wait on a connection, it is not read.
 * PIPELINE-3  A refusal by the parser, of what is malformed, too large or late, follows the answers to the requests
 *     before it and never takes the place of one.
 * PIPELINE-4  A request whose time to arrive ran out behind unanswered ones has that time once more when its turn comes:
 *     the hub itself may have left it unread.
 * PIPELINE-5  At most `lineMax` requests wait on a connection, since one read of 64 KiB may bring thousands, of which each
 *     takes kilobytes, and the thread for microseconds in the same turn: the next one is refused behind the answers to those
 *     before it, what follows it is dropped unread, also of the same read, and the connection ends.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../kit/clock.ts';
import { afterPoll, systemClock } from '../kit/system-clock.ts';

/** Requests that wait on a connection until it is read no more. A higher number takes more memory per connection, and longer turns. */
const waitingMax = 4;
/** What a read brings while fewer than `waitingMax` wait may exceed that: a client that has ten under way is served. [PIPELINE-5] */
const lineMax = 3 * waitingMax;

/** The code of the error that the parser meets at a request beyond `lineMax`. */
export const beyondLine = 'HPE_CB_HEADERS_COMPLETE';

/** What Node keeps of a connection. */
interface Served extends Socket {
  readonly server: Server;
  /** The response that is sent next; others are queued behind it. */
  readonly _httpMessage?: Response | null;
  /** Gives `onIncoming` each request whose head has come; a negative result is an error of the parser. */
  readonly parser?: { onIncoming: (...request: readonly unknown[]) => number } | null;
}
type Response = ServerResponse<IncomingMessage>;

/** The first response of the connection that has not been sent. */
export const firstUnsent = (socket: Socket): Response | null => (socket as Served)._httpMessage ?? null;

/** The requests that wait on one connection; kept only while there are some. */
interface Line {
  waiting: number;
  newest: Response;
  /** Whether the connection is not read, or will not be from the end of this turn. [PIPELINE-2] */
  isHeld: boolean;
}

const lines = new WeakMap<Socket, Line>();

/** Connections on which a refusal by the parser waits for its turn. */
const refused = new WeakSet<Socket>();

/** Requests that have their time once more; null until the head has come. [PIPELINE-4] */
const granted = new Map<Socket, { request: IncomingMessage | null }>();

/** Begins a request; `waitedMs`: for how long it has waited for its turn. */
export type Begin = (request: IncomingMessage, response: Response, waitedMs: number) => void;

/** A listener that calls `begin` when it is a request's turn: at once, unless the client pipelines. [PIPELINE-1] */
export function inTurn(begin: Begin, clock: Clock): RequestListener {
  const wait: RequestListener = (request, response) => {
    const { socket } = request;
    const arrivedAt = clock.monotonic();
    const line = lines.get(socket) ?? { waiting: 0, newest: response, isHeld: false };
    lines.set(socket, line);
    line.newest = response;
    line.waiting += 1;
    if (line.waiting >= waitingMax) hold(socket, line);
    if (line.waiting === lineMax) refuseNext(socket, line);
    response.once('socket', () => {
      line.waiting -= 1;
      if (line.waiting === 0) lines.delete(socket);
      // The end of the connection may have arrived; and other connections have their turn.
      afterPoll(() => {
        if (line.isHeld && line.waiting < waitingMax) {
          line.isHeld = false;
          socket.resume();
        }
        begin(request, response, clock.monotonic() - arrivedAt);
      });
    });
  };
  return (request, response) => {
    if (granted.size > 0) noteHead(request);
    // Node assigns the socket to a response when those before it have been sent.
    if (response.socket === null) wait(request, response);
    else begin(request, response, 0);
  };
}

/** [PIPELINE-2] Node resumes the socket for each complete request, in a later tick, and whenever a door reads on in a body. */
function hold(socket: Socket, line: Line): void {
  if (line.isHeld) return;
  line.isHeld = true;
  const stop = () => {
    if (!line.isHeld) socket.off('resume', stop);
    // A resume that a pause has overtaken reads on, and only this event stops Node's parser.
    else if (socket.isPaused()) socket.emit('pause');
    else socket.pause();
  };
  socket.on('resume', stop);
  process.nextTick(() => process.nextTick(stop));
}

/** [PIPELINE-5] A pause of the parser, or the end of the socket, would take effect only behind what this read has brought. */
function refuseNext(socket: Socket, line: Line): void {
  const { parser } = socket as Served;
  if (!parser) return;
  const take = parser.onIncoming;
  parser.onIncoming = (...request) => {
    if (line.waiting >= lineMax) return -1;
    parser.onIncoming = take;
    return take(...request);
  };
}

/**
 * Runs `refuse` for the error of this code that the parser met, when the requests before it have been answered. [PIPELINE-3]
 */
export function refuseInTurn(code: string | undefined, socket: Socket, refuse: () => void): void {
  const newest = lines.get(socket)?.newest ?? firstUnsent(socket);
  // The error is of the newest request if its body has not arrived, else of what follows it.
  const isOfNewest = newest?.req.complete === false;
  if (newest === null || (isOfNewest && newest === firstUnsent(socket))) return refuse();
  const turn = isOfNewest ? 'socket' : 'close';
  // The parser meets an error again with each further read.
  if (refused.has(socket)) return void socket.pause();
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return void newest.once(turn, () => grant(socket, refuse));
  refused.add(socket);
  socket.pause();
  newest.once(turn, refuse);
}

/** [PIPELINE-4] */
function grant(socket: Socket, refuse: () => void): void {
  const late = { request: firstUnsent(socket)?.req ?? null };
  const end = () => {
    systemClock.clearTimeout(timer);
    if (granted.get(socket) === late) granted.delete(socket);
  };
  const timer = systemClock.setTimeout(
    () => {
      end();
      if (late.request?.complete !== true) refuse();
    },
    (socket as Served).server.requestTimeout,
  );
  granted.set(socket, late);
  socket.once('close', end);
}

function noteHead(request: IncomingMessage): void {
  const late = granted.get(request.socket);
  if (late !== undefined) late.request ??= request;
}
