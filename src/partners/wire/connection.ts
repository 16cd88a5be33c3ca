/**
 * One connection to a partner's server, which carries one exchange at a time. It writes a request in one piece and reads plain answers
 * itself (`answer-reader.ts`); any other is handed over (`hand-over.ts`).
 *
 * CONNECTION-1  Whatever the other side sends ends this connection and its exchange at worst.
 * CONNECTION-2  Bytes that no exchange asked for close it. On a connection that is re-used for the first time, or was idle for `idleMs`, a request
 *     is written only after the sockets were looked at once more: such bytes, or the end of the connection, are no answer to it if they
 *     have arrived. Servers end an idle connection, or one behind its first answer; a look at each re-use costs a fan-out a fifth of its rate.
 * CONNECTION-3  A request with a header field that could not stand in a line is never sent (`fieldLines`).
 * CONNECTION-4  It carries another exchange only when the request before it has been written: a server that answers without reading
 *     would have its requests pile up in memory.
 */
import type { Socket } from 'node:net';
import errors from 'undici/lib/core/errors.js';
import { afterPoll, systemClock } from '../../kit/system-clock.ts';
import { AnswerReader, LastHead, type PlainAnswer } from './answer-reader.ts';
import type { Exchange, Sent, Source } from './exchange.ts';
import { HandOver } from './hand-over.ts';

/** What has connections. */
export interface Owner {
  /** It can carry another exchange. */
  free(connection: Connection): void;
  /** It is closed; what it should have carried and has not written is carried by another. */
  closed(connection: Connection, unwritten: Load | null): void;
}

/** What a connection carries. */
export type Load = readonly [sent: Sent, exchange: Exchange];

const connections = new WeakMap<Socket, Connection>();
const readMax = 64 * 1024;
/** Of all sockets: `answer-reader.ts` copies what it keeps. Windows reads ahead into it, so there each read has its own. */
const readBuffer = process.platform === 'win32' ? () => Buffer.allocUnsafe(readMax) : Buffer.allocUnsafeSlow(readMax);

/** Sockets of connections are opened with this. */
export const onread = {
  buffer: readBuffer,
  callback(this: Socket, length: number, bytes: Uint8Array): boolean {
    const connection = connections.get(this);
    if (connection) connection.read(Buffer.from(bytes.buffer, bytes.byteOffset, length));
    else this.destroy();
    return true;
  },
};

/** How much earlier than the server says a connection is given up, so that no request meets its end, ms. */
const marginMs = 2_000;
const keptMaxMs = 60_000;
/** A server ends no connection that it has kept open before within so short a time of its answer, ms. [CONNECTION-2] */
const idleMs = 1_000;

export class Connection implements Source {
  readonly #socket: Socket;
  readonly #owner: Owner;
  readonly #keepAliveMs: number;
  #keptMs: number;
  #load: Load | null = null;
  /** Exchanges that it has carried before the present one. */
  #carried = 0;
  /** When the last one was answered, monotonic ms. */
  #answeredAt = 0;
  /** Reads the present answer; null until the request is written. */
  #reader: AnswerReader | null = null;
  readonly #lastHead = new LastHead();
  #handedOver: HandOver | null = null;
  /** Bytes of the present answer. */
  #received = 0;
  /** Who does not want more of it now. */
  #pauses = 0;
  #error: NodeJS.ErrnoException | null = null;

  /** `keepAliveMs`: how long it is kept without an exchange when the server does not say. */
  constructor(socket: Socket, owner: Owner, keepAliveMs: number) {
    this.#socket = socket;
    this.#owner = owner;
    this.#keepAliveMs = keepAliveMs;
    this.#keptMs = keepAliveMs;
    connections.set(socket, this);
    socket.setTimeout(keepAliveMs);
    socket.on('timeout', () => this.#load === null && socket.destroy());
    socket.on('end', () => socket.destroy());
    socket.on('error', (error) => {
      this.#error = error;
    });
    socket.on('close', () => this.#closed());
  }

  /** Whether it has an exchange on behalf of this source. */
  isFor(source: string | undefined): boolean {
    return this.#load !== null && this.#load[0].source === source;
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed;
  }

  /** `error`: with which its exchange fails; absent: the exchange has ended, or fails as if the other side had closed it. */
  destroy(error?: Error): void {
    this.#socket.destroy(error);
  }

  pause(): void {
    if (++this.#pauses === 1) this.#socket.pause();
  }

  resume(): void {
    if (--this.#pauses === 0) this.#socket.resume();
  }

  carry(load: Load): void {
    this.#load = load;
    this.#received = 0;
    load[1].cutBy(() => this.destroy());
    const isKeptOpen = this.#carried > 1 && systemClock.monotonic() - this.#answeredAt < idleMs;
    if (this.#carried === 0 || isKeptOpen) return this.#write(load);
    afterPoll(() => {
      if (this.#load === load && this.isOpen) this.#write(load);
    });
  }

  #write([sent, exchange]: Load): void {
    exchange.written();
    this.#reader = new AnswerReader(exchange.bodyMax, this.#lastHead);
    const { body } = sent;
    const length = body === null ? 0 : Buffer.byteLength(body);
    write(this.#socket, headOf(sent, length), body, length);
  }

  read(bytes: Buffer): void {
    const [load, reader] = [this.#load, this.#reader];
    if (load === null || reader === null) return this.destroy();
    const [, exchange] = load;
    this.#received += bytes.length;
    exchange.received(this.#received);
    if (exchange.isOver) return;
    this.#take(bytes, load, reader);
    if (this.#load === load) exchange.awaitsMore(this.#received, this);
  }

  #take(bytes: Buffer, load: Load, reader: AnswerReader): void {
    const [, exchange] = load;
    if (this.#handedOver) return this.#handedOver.read(Buffer.from(bytes));
    const reading = reader.take(bytes);
    if (reader.isContinued) exchange.continued();
    if (reading === 'unusual') return void this.#handOver(load, reader.wire);
    if (reader.status !== null) exchange.headRead(reader.status);
    if (reading === 'too large') exchange.tooLarge();
    else if (reading !== 'more') this.#answered(load, reading);
  }

  #answered([sent, exchange]: Load, { status, fields, body, keptMs, isLast }: PlainAnswer): void {
    this.#load = null;
    this.#reader = null;
    this.#carried++;
    this.#answeredAt = systemClock.monotonic();
    if (!isLast && sent.reset !== true && this.#keeps(keptMs)) this.#free();
    else this.destroy();
    exchange.answered(status, fields, body);
  }

  /** [CONNECTION-4] */
  #free(): void {
    if (this.#socket.writableLength === 0) return this.#owner.free(this);
    // With TLS the end of a write comes turns after it: the answer may be faster.
    afterPoll(() => {
      if (this.#socket.writableLength > 0) this.destroy();
      else if (this.isOpen) this.#owner.free(this);
    });
  }

  /** Whether the server keeps it long enough for another exchange. */
  #keeps(saidMs: number | null): boolean {
    const keptMs = saidMs === null ? this.#keepAliveMs : Math.min(saidMs - marginMs, keptMaxMs);
    if (keptMs === this.#keptMs) return true;
    this.#keptMs = keptMs;
    if (keptMs > 0) this.#socket.setTimeout(keptMs);
    return keptMs > 0;
  }

  /** `wire`: what has come of the answer. */
  #handOver([sent, exchange]: Load, wire: Buffer): HandOver {
    this.#handedOver = new HandOver(sent, exchange, this);
    this.#handedOver.read(wire);
    return this.#handedOver;
  }

  #closed(): void {
    const [load, reader] = [this.#load, this.#reader];
    this.#load = null;
    this.#owner.closed(this, reader === null ? load : null);
    if (load === null || reader === null || load[1].isOver) return;
    // An answer that was begun: what its end means is for the parser to say.
    if (this.#received > 0) return (this.#handedOver ?? this.#handOver(load, reader.wire)).end(this.#error);
    load[1].failed(this.#error ?? new errors.SocketError('other side closed'), this.#carried > 0);
  }
}

const invalid = /[^\t\x20-\x7e\x80-\xff]/;
const hasBody = new Set(['PUT', 'POST', 'PATCH']);

/** Whether a field may have this value. [CONNECTION-3] */
export const fitsLine = (value: string): boolean => !invalid.test(value);

/** Fields as they stand in a head, each in its line; null when a value has a character that cannot. [CONNECTION-3] */
export function fieldLines(fields: Readonly<Record<string, string>>): string | null {
  let lines = '';
  for (const name in fields) {
    const value = fields[name] ?? '';
    if (!fitsLine(value)) return null;
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** Request line and fields. `length`: of the body, bytes. */
function headOf({ method, origin, path, fields, body, reset }: Sent, length: number): string {
  const host = origin.slice(origin.indexOf('//') + 2);
  const line = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: ${reset === true ? 'close' : 'keep-alive'}\r\n`;
  const end = body !== null || hasBody.has(method) ? `content-length: ${length}\r\n\r\n` : '\r\n';
  return line + fields + end;
}

/** In one piece, but for bodies so large that a copy costs more than a second piece. */
function write(socket: Socket, head: string, body: string | Uint8Array | null, length: number): void {
  if (body === null) return void socket.write(head, 'latin1');
  if (length > readMax) {
    socket.cork();
    socket.write(head, 'latin1');
    socket.write(body);
    return socket.uncork();
  }
  const request = Buffer.allocUnsafe(head.length + length);
  request.write(head, 0, 'latin1');
  if (typeof body === 'string') request.write(body, head.length, 'utf8');
  else request.set(body, head.length);
  socket.write(request);
}
