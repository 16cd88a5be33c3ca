/**
 * Hands an answer that is not plain over to undici: its parser reads the bytes that have come and those that follow, as if it had sent the
 * request itself. What it makes of them counts. The connection carries nothing afterwards.
 *
 * HAND-OVER-1  The first `atOnceMax` bytes are parsed at once. Each further piece has a turn of the event loop that is far from those of
 *     other large texts (TURNS-2), and meanwhile the socket is not read: chunks of a byte, interim answers and fields take the parser up to
 *     a hundred times as long as a body of as many bytes, and a server may send as many answers of them as it gets requests.
 * HAND-OVER-2  Bytes that make no progress end the exchange: `headMax` before the head of the answer has ended, interim answers
 *     included, and a whole piece thereafter without a byte of the body, as extensions of chunks and trailers are. The parser finds no head too
 *     large itself: it would make an error, with its stack, of each further field that the same piece brings.
 */
import { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import errors from 'undici/lib/core/errors.js';
import util from 'undici/lib/core/util.js';
import Client from 'undici/lib/dispatcher/client.js';
import { Growing } from '../../kit/growing.ts';
import { largeTurn } from '../../kit/turns.ts';
import type { Exchange, Fields, Sent, Source } from './exchange.ts';

/** Bytes; more than an answer has that is small and only unusual. [HAND-OVER-1] */
const atOnceMax = 4 * 1024;
/** Bytes, of which a turn takes at most half. [HAND-OVER-2] */
const headMax = 32 * 1024;
/** Bytes of a body that are parsed in a turn: as many as a read brings. */
const pieceMax = 64 * 1024;

/** Stands for the socket: what undici writes was written before. It gives nothing until then, since bytes that precede a request are no answer. */
class Replay extends Duplex {
  #isAsked = false;
  #waiting: (() => void)[] = [];

  override _read(): void {}

  override _write(_chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#isAsked = true;
    for (const step of this.#waiting.splice(0)) step();
    done();
  }

  whenAsked(step: () => void): void {
    if (this.#isAsked) step();
    else this.#waiting.push(step);
  }
}

/** The connection that brings the bytes. */
export interface Carrying extends Source {
  /** Closes it. */
  destroy(): void;
}

/** `sent` is what was sent, and `exchange` gets the answer. */
export class HandOver {
  readonly #partner: string;
  readonly #exchange: Exchange;
  readonly #carrying: Carrying;
  readonly #replay = new Replay();
  readonly #answer: Unusual;
  /** What has come and was not given to the parser. */
  #left: Buffer = Buffer.alloc(0);
  #isGiving = false;
  /** Bytes that the parser was given. */
  #given = 0;
  #ended: { readonly error: Error | null } | null = null;

  constructor(sent: Sent, exchange: Exchange, carrying: Carrying) {
    this.#partner = sent.partner ?? '';
    this.#exchange = exchange;
    this.#carrying = carrying;
    this.#answer = new Unusual(exchange);
    const replay = this.#replay;
    replay.on('close', () => carrying.destroy());
    const client = new Client(sent.origin, {
      headersTimeout: 0,
      bodyTimeout: 0,
      // Never reached. [HAND-OVER-2]
      maxHeaderSize: headMax + pieceMax,
      // Not at once: undici goes on only when it is called back afterwards. It asks again when the first has ended.
      connect: (_target, tell) =>
        queueMicrotask(() => (replay.destroyed ? tell(new Error('it is closed'), null) : tell(null, replay as never))),
    });
    const { origin, path, method, body } = sent;
    client.dispatch({ origin, path, method, body, reset: true }, this.#answer);
  }

  /** Bytes that came from the socket. */
  read(bytes: Buffer): void {
    this.#left = this.#left.length === 0 ? bytes : Buffer.concat([this.#left, bytes]);
    if (this.#isGiving) return;
    if (this.#given < atOnceMax) this.#give(atOnceMax - this.#given);
    if (this.#left.length > 0) void this.#giveInTurns();
  }

  /** The socket was closed by the other side, or with an error. */
  end(error: Error | null): void {
    this.#ended = { error };
    if (!this.#isGiving) this.#giveEnd(error);
  }

  /** [HAND-OVER-1] */
  async #giveInTurns(): Promise<void> {
    const [answer, exchange] = [this.#answer, this.#exchange];
    this.#isGiving = true;
    this.#carrying.pause();
    while (this.#left.length > 0) {
      await largeTurn(this.#partner);
      if (exchange.isOver || this.#replay.destroyed) return;
      const isHead = answer.status === 0;
      if (answer.idle >= (isHead ? headMax : pieceMax)) return this.#refuse(isHead);
      this.#give(isHead ? headMax / 2 : pieceMax);
    }
    this.#isGiving = false;
    if (this.#ended === null) this.#carrying.resume();
    else this.#giveEnd(this.#ended.error);
  }

  #give(bytesMax: number): void {
    const piece = this.#left.subarray(0, bytesMax);
    this.#left = this.#left.subarray(piece.length);
    this.#given += piece.length;
    this.#answer.idle += piece.length;
    this.#replay.whenAsked(() => this.#replay.push(piece));
  }

  #giveEnd(error: Error | null): void {
    this.#replay.whenAsked(() => (error === null ? this.#replay.push(null) : this.#replay.destroy(error)));
  }

  /** [HAND-OVER-2] */
  #refuse(isHead: boolean): void {
    if (isHead) this.#exchange.failed(new errors.HeadersOverflowError(), false);
    else this.#exchange.tooLarge();
    this.#replay.destroy();
  }
}

/** undici's older handler interface: the newer one is a wrapper around it. */
class Unusual implements Dispatcher.DispatchHandler {
  readonly #exchange: Exchange;
  /** 0 until the head has been parsed. */
  status = 0;
  /** Bytes that the parser was given since its last progress. [HAND-OVER-2] */
  idle = 0;
  #fields: Fields = {};
  readonly #body = new Growing();

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  onConnect(abort: (reason?: Error) => void): void {
    this.#exchange.cutBy(() => abort(new Error('cut by the hub')));
  }

  onHeaders(status: number, fields: readonly Buffer[]): boolean {
    if (status < 200) return true;
    this.status = status;
    this.idle = 0;
    this.#fields = util.parseHeaders([...fields]);
    this.#exchange.headRead(status);
    if (Number(this.#fields['content-length']) > this.#exchange.bodyMax) this.#exchange.tooLarge();
    return true;
  }

  onData(chunk: Buffer): boolean {
    this.idle = 0;
    if (this.#body.length + chunk.length > this.#exchange.bodyMax) this.#exchange.tooLarge();
    else this.#body.add(chunk);
    return true;
  }

  onComplete(): void {
    this.#exchange.answered(this.status, this.#fields, this.#body.bytes);
  }

  onError(error: NodeJS.ErrnoException): void {
    this.#exchange.failed(error, false);
  }
}
