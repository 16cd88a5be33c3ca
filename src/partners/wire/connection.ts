/**
 * One connection to a partner's server, which carries one exchange at a time. It writes a request in one piece and reads plain answers
 * itself (`answer-reader.ts`); any other is handed over (`hand-over.ts`).
 *
 * CONNECTION-1  Whatever the other side sends ends this connection and its exchange at worst.
 * CONNECTION-2  Bytes that no exchange asked for close it. On a re-used connection a request is written only after the sockets were looked at
 *     once more: such bytes, or the end of the connection, are no answer to it if they have arrived.
 * CONNECTION-3  A request with a header field that could not stand in a line is never sent (`isWritable`).
 */
import type { Socket } from 'node:net';
import { errors } from 'undici';
import { afterPoll } from '../../kit/system-clock.ts';
import { AnswerReader, type PlainAnswer } from './answer-reader.ts';
import type { Exchange, Sent } from './exchange.ts';
import { type HandOver, handOver } from './hand-over.ts';

/** What has connections. */
export interface Owner {
  /** It can carry another exchange. */
  free(connection: Connection): void;
  /** It is closed; what it should have carried and has not written is carried by another. */
  closed(connection: Connection, unwritten: readonly [Sent, Exchange] | null): void;
}

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

export class Connection {
  readonly #socket: Socket;
  readonly #owner: Owner;
  readonly #keepAliveMs: number;
  #keptMs: number;
  #exchange: Exchange | null = null;
  #sent: Sent | null = null;
  #isWritten = false;
  /** Whether it has carried an exchange before the present one. */
  #isReused = false;
  #reader: AnswerReader | null = null;
  #handedOver: HandOver | null = null;
  /** Bytes of the present answer. */
  #received = 0;
  #error: NodeJS.ErrnoException | null = null;

  /** `keepAliveMs`: how long it is kept without an exchange when the server does not say. */
  constructor(socket: Socket, owner: Owner, keepAliveMs: number) {
    this.#socket = socket;
    this.#owner = owner;
    this.#keepAliveMs = keepAliveMs;
    this.#keptMs = keepAliveMs;
    connections.set(socket, this);
    socket.setTimeout(keepAliveMs);
    socket.on('timeout', () => this.#exchange === null && socket.destroy());
    socket.on('end', () => socket.destroy());
    socket.on('error', (error) => {
      this.#error = error;
    });
    socket.on('close', () => this.#closed());
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed;
  }

  destroy(): void {
    this.#socket.destroy();
  }

  carry(sent: Sent, exchange: Exchange): void {
    this.#sent = sent;
    this.#exchange = exchange;
    this.#received = 0;
    this.#isWritten = false;
    exchange.cutBy(() => this.destroy());
    if (!this.#isReused) return this.#write(sent, exchange);
    afterPoll(() => {
      if (this.#exchange === exchange && this.isOpen) this.#write(sent, exchange);
    });
  }

  #write(sent: Sent, exchange: Exchange): void {
    this.#isWritten = true;
    this.#reader = new AnswerReader(exchange.bodyMax);
    write(this.#socket, headOf(sent), sent.body);
  }

  read(bytes: Buffer): void {
    const exchange = this.#exchange;
    if (exchange === null || !this.#isWritten) return this.destroy();
    this.#received += bytes.length;
    exchange.received(this.#received);
    if (exchange.isOver) return;
    if (this.#handedOver) return this.#handedOver.read(Buffer.from(bytes));
    const reading = this.#reader?.take(bytes) ?? 'unusual';
    if (reading === 'unusual') return this.#handOver(exchange);
    const status = this.#reader?.status ?? null;
    if (status !== null) exchange.headRead(status);
    if (reading === 'too large') exchange.tooLarge();
    else if (reading !== 'more') this.#answered(exchange, reading);
  }

  #answered(exchange: Exchange, { status, fields, body, keptMs, isLast }: PlainAnswer): void {
    const isKept = !isLast && this.#sent?.reset !== true && this.#keeps(keptMs);
    if (isKept) this.#release();
    else this.#drop();
    exchange.answered(status, fields, body);
  }

  /** Whether the server keeps it long enough for another exchange. */
  #keeps(saidMs: number | null): boolean {
    const keptMs = saidMs === null ? this.#keepAliveMs : Math.min(saidMs - marginMs, keptMaxMs);
    if (keptMs === this.#keptMs) return true;
    this.#keptMs = keptMs;
    if (keptMs > 0) this.#socket.setTimeout(keptMs);
    return keptMs > 0;
  }

  #release(): void {
    this.#exchange = null;
    this.#sent = null;
    this.#reader = null;
    this.#isReused ||= this.#isWritten;
    this.#owner.free(this);
  }

  #drop(): void {
    this.#exchange = null;
    this.destroy();
  }

  #handOver(exchange: Exchange): void {
    const [sent, wire] = [this.#sent, this.#reader?.wire];
    if (sent === null || wire === undefined) return this.destroy();
    this.#handedOver = handOver(sent, exchange, () => this.destroy());
    this.#handedOver.read(wire);
  }

  #closed(): void {
    const [sent, exchange] = [this.#sent, this.#exchange];
    this.#exchange = null;
    if (sent === null || exchange === null || exchange.isOver) return this.#owner.closed(this, null);
    this.#owner.closed(this, this.#isWritten ? null : [sent, exchange]);
    if (!this.#isWritten) return;
    // An answer that was begun: what its end means is for the parser to say.
    if (this.#received > 0 && !this.#handedOver) this.#handOver(exchange);
    if (this.#handedOver) return this.#handedOver.end(this.#error);
    exchange.failed(this.#error ?? new errors.SocketError('other side closed'), this.#isReused);
  }
}

const invalid = /[^\t\x20-\x7e\x80-\xff]/;
const hasBody = new Set(['PUT', 'POST', 'PATCH']);

/** Whether the fields can stand in a head, each in its line. [CONNECTION-3] */
export function isWritable({ headers }: Sent): boolean {
  for (const name in headers) if (invalid.test(headers[name] ?? '')) return false;
  return true;
}

/** Request line and fields. */
function headOf({ method, origin, path, headers, body, reset }: Sent): string {
  const host = origin.slice(origin.indexOf('//') + 2);
  let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: ${reset === true ? 'close' : 'keep-alive'}\r\n`;
  for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
  if (body !== null || hasBody.has(method))
    head += `content-length: ${body === null ? 0 : Buffer.byteLength(body)}\r\n`;
  return `${head}\r\n`;
}

/** In one piece, but for bodies so large that a copy costs more than a second piece. */
function write(socket: Socket, head: string, body: string | Uint8Array | null): void {
  if (body === null) return void socket.write(head, 'latin1');
  const length = Buffer.byteLength(body);
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
