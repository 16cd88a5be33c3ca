/**
 * Hands an answer that is not plain over to undici: its parser reads the bytes that have come and those that follow, as if it had sent the
 * request itself. What it makes of them counts. The connection carries nothing afterwards.
 */
import { Duplex } from 'node:stream';
import { Client, type Dispatcher, util } from 'undici';
import { Growing } from '../../kit/growing.ts';
import type { Exchange, Fields, Sent } from './exchange.ts';

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

export interface HandOver {
  /** Bytes that came from the socket. */
  read(bytes: Buffer): void;
  /** The socket was closed by the other side, or with an error. */
  end(error: Error | null): void;
}

/** `cut` closes the socket. */
export function handOver(sent: Sent, exchange: Exchange, cut: () => void): HandOver {
  const replay = new Replay();
  replay.on('close', cut);
  const client = new Client(sent.origin, {
    headersTimeout: 0,
    bodyTimeout: 0,
    // Not at once: undici goes on only when it has been told afterwards. It asks again when the first has ended.
    connect: (_target, tell) =>
      queueMicrotask(() => (replay.destroyed ? tell(new Error('it is closed'), null) : tell(null, replay as never))),
  });
  const { origin, path, method, headers, body } = sent;
  client.dispatch({ origin, path, method, headers, body, reset: true }, new Unusual(exchange));
  return {
    read: (bytes) => replay.whenAsked(() => replay.push(bytes)),
    end: (error) => replay.whenAsked(() => (error === null ? replay.push(null) : replay.destroy(error))),
  };
}

/** undici's older handler interface: the newer one is a wrapper around it. */
class Unusual implements Dispatcher.DispatchHandler {
  readonly #exchange: Exchange;
  #status = 0;
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
    this.#status = status;
    this.#fields = util.parseHeaders([...fields]);
    this.#exchange.headRead(status);
    if (Number(this.#fields['content-length']) > this.#exchange.bodyMax) this.#exchange.tooLarge();
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#body.length + chunk.length > this.#exchange.bodyMax) this.#exchange.tooLarge();
    else this.#body.add(chunk);
    return true;
  }

  onComplete(): void {
    this.#exchange.answered(this.#status, this.#fields, this.#body.bytes);
  }

  onError(error: NodeJS.ErrnoException): void {
    this.#exchange.failed(error, false);
  }
}
