/**
 * One HTTP request and whatever comes of it, as a value. It speaks undici's dispatch interface directly: no stream, no
 * AbortSignal and one plain timer per call, because every forward of the hub goes through here.
 *
 * X1  It ends exactly once, and nothing is thrown.
 * X2  It ends within `timeoutMs` of its start, whether it waits for a connection, for the head or for the body.
 * X3  It holds at most `answerMax` bytes; what is larger loses its socket.
 * X4  It is sent a second time only when the first went over a re-used connection that was closed before any byte of the
 *     answer, and then over a fresh one.
 */
import type { Socket } from 'node:net';
import { Client, type Dispatcher } from 'undici';
import type { Met } from './outcome.ts';

export interface Sent extends Dispatcher.DispatchOptions {
  readonly origin: string;
  /** Filled in by the connection that takes the request. */
  line?: Line;
}

export interface Limits {
  readonly timeoutMs: number;
  /** Until the head of the answer has come. */
  readonly headMs: number;
  readonly answerMax: number;
}

/** A connection that knows its socket, so that an exchange can tell a re-used one and whether an answer had begun. */
export class Line extends Client {
  socket: Socket | null = null;

  constructor(origin: string | URL, options: Client.Options & { readonly connect: Connector }) {
    const { connect } = options;
    super(origin, {
      ...options,
      connect: (target, callback) =>
        connect(target, (...result) => {
          this.socket = result[1];
          callback(...result);
        }),
    });
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    (options as Sent).line = this;
    return super.dispatch(options, handler);
  }
}

export type Connector = Extract<Client.Options['connect'], (...args: never[]) => unknown>;

/** Errors of a connection that the other side had given up. */
const staleCodes = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

const cut = new Error('cut by the hub');

/** Some servers begin JSON with a byte order mark, which JSON.parse refuses. */
function textOf(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}

export class Exchange implements Dispatcher.DispatchHandler {
  readonly #sent: Sent;
  readonly #limits: Limits;
  /** Where a second try goes; null once it was used, or when there is none. */
  #again: Dispatcher | null;
  #settle: ((met: Met) => void) | null;
  #timer: NodeJS.Timeout;
  #controller: Dispatcher.DispatchController | null = null;
  #socket: Socket | null = null;
  #bytesBefore = 0;
  #status: number | null = null;
  #headers: Record<string, string | string[] | undefined> = {};
  #chunks: Buffer[] = [];
  #length = 0;

  constructor(sent: Sent, limits: Limits, again: Dispatcher | null, settle: (met: Met) => void) {
    this.#sent = sent;
    this.#limits = limits;
    this.#again = again;
    this.#settle = settle;
    this.#timer = setTimeout(onLimit, Math.min(limits.headMs, limits.timeoutMs), this);
  }

  /** The first of the two limits has passed. */
  passLimit(): void {
    const { headMs, timeoutMs } = this.#limits;
    const bodyMs = timeoutMs - headMs;
    if (this.#status === null || bodyMs <= 0) return this.#expire();
    this.#timer = setTimeout(() => this.#expire(), bodyMs);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // It waited for a connection longer than it may take: nothing is sent (X2). Thrown, because to abort would cost the
    // connection, which is a good one.
    if (this.#settle === null) throw cut;
    this.#controller = controller;
    this.#socket = this.#sent.line?.socket ?? null;
    this.#bytesBefore = this.#socket?.bytesRead ?? 0;
  }

  onResponseStart(
    _: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
    if (Number(headers['content-length']) > this.#limits.answerMax) this.#cutShort('tooLarge');
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#length += chunk.length;
    if (this.#length > this.#limits.answerMax) return this.#cutShort('tooLarge');
    this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    const [first] = this.#chunks;
    const bytes = this.#chunks.length === 1 && first ? first : Buffer.concat(this.#chunks);
    this.#end({ kind: 'answer', status: this.#status ?? 0, headers: this.#headers, text: textOf(bytes) });
  }

  onResponseError(_: unknown, error: NodeJS.ErrnoException): void {
    if (this.#settle === null) return;
    if (this.#isStale(error)) return this.#sendAgain();
    this.#end({ kind: 'failed', status: this.#status, error });
  }

  #isStale(error: NodeJS.ErrnoException): boolean {
    return (
      this.#again !== null &&
      staleCodes.has(error.code ?? '') &&
      this.#bytesBefore > 0 &&
      this.#socket?.bytesRead === this.#bytesBefore
    );
  }

  #sendAgain(): void {
    const again = this.#again;
    this.#again = null;
    this.#controller = null;
    again?.dispatch({ ...this.#sent, reset: true }, this);
  }

  #expire(): void {
    this.#cutShort('timeout');
  }

  #cutShort(kind: 'timeout' | 'tooLarge'): void {
    const controller = this.#controller;
    this.#end({ kind, status: this.#status, error: null });
    controller?.abort(cut);
  }

  #end(met: Met): void {
    const settle = this.#settle;
    if (settle === null) return;
    this.#settle = null;
    this.#chunks = [];
    clearTimeout(this.#timer);
    settle(met);
  }
}

function onLimit(exchange: Exchange): void {
  exchange.passLimit();
}
