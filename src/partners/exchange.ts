/**
 * One HTTP request and its result as a value. Every call of the hub goes through here, so for speed it uses undici's
 * dispatch interface directly, with no stream, no AbortSignal and one timer per call. It implements undici's older
 * handler interface: the newer one is a wrapper around it that parses every header of every answer.
 *
 * EXCHANGE-1  An exchange ends exactly once, and nothing is thrown.
 * EXCHANGE-2  It ends within `timeoutMs` of its start, whether it waits for a connection, for the head or for the body.
 * EXCHANGE-3  It holds at most `answerMax` bytes, counted before and after decoding; the socket of a larger answer is
 *     closed.
 * EXCHANGE-4  It reads at most `wireFactor` times as many bytes from the socket, whatever they are: a status line without an end, interim
 *     answers and chunk extensions are no part of an answer, but reading them takes as much CPU time.
 * EXCHANGE-5  A request is resent at most once, on a fresh connection, and only if the first attempt used a re-used
 *     connection that was closed before any byte of the answer.
 */
import type { Socket } from 'node:net';
import { Client, type Dispatcher, util } from 'undici';
import type { Quirk } from '../domain/quirks.ts';
import type { Clock } from '../kit/clock.ts';
import { decoded } from './content.ts';
import type { Answer, Met, NoAnswer, TooLarge } from './outcome.ts';

export interface Sent extends Dispatcher.DispatchOptions {
  readonly origin: string;
  /** Without brackets. */
  readonly hostname: string;
  /** Set by the connection that takes the request. */
  line?: Line;
}

export interface Limits {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Timeout until the head of the answer. */
  readonly headMs: number;
  readonly answerMax: number;
}

/**
 * A connection that exposes its socket, so that an exchange can tell whether it is re-used and whether an answer has
 * begun.
 */
export class Line extends Client {
  socket: Socket | null = null;
  /** The exchange that it carries. */
  exchange: Exchange | null = null;

  constructor(origin: string | URL, options: Client.Options & { readonly connect: Connector }) {
    const { connect } = options;
    super(origin, {
      ...options,
      connect: (target, callback) =>
        connect(target, (...result) => {
          const [, socket] = result;
          this.socket = socket;
          // Before the parser, which reads all there is in one turn.
          socket?.on('readable', () => this.exchange?.received());
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

/** An answer in chunks of one byte each takes six bytes for one. */
const wireFactor = 8;

/** Error codes of a connection that the other side has closed. */
const staleCodes = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

const cut = new Error('cut by the hub');

/** The byte order mark that some servers send, which JSON.parse refuses. */
const mark = 0xfeff;

/** Value of a header by its lower-case name; null when absent. */
function headerOf(rawHeaders: readonly Buffer[], wanted: string): string | null {
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === wanted.length && name.toString('latin1').toLowerCase() === wanted) {
      return rawHeaders[at + 1]?.toString('latin1') ?? null;
    }
  }
  return null;
}

/** An answer that parses its headers on first use; most successes never need them. */
class Whole implements Answer {
  readonly kind = 'answer';
  readonly status: number;
  readonly text: string;
  readonly quirks: Quirk[] = [];
  readonly #rawHeaders: readonly Buffer[];

  constructor(status: number, rawHeaders: readonly Buffer[], text: string) {
    this.status = status;
    this.#rawHeaders = rawHeaders;
    const isMarked = text.charCodeAt(0) === mark;
    this.text = isMarked ? text.slice(1) : text;
    if (isMarked) this.quirks.push('byte-order-mark');
  }

  get headers(): Answer['headers'] {
    return util.parseHeaders([...this.#rawHeaders]);
  }
}

export class Exchange implements Dispatcher.DispatchHandler {
  readonly #sent: Sent;
  readonly #limits: Limits;
  /** Pool for the resend; null when it was used or the call must not be resent. */
  #again: Dispatcher | null;
  #settle: ((met: Met) => void) | null;
  #timer: unknown;
  #abort: ((reason: Error) => void) | null = null;
  #socket: Socket | null = null;
  #bytesBefore = 0;
  #status: number | null = null;
  #rawHeaders: readonly Buffer[] = [];
  #chunks: Buffer[] = [];
  #length = 0;

  constructor(sent: Sent, limits: Limits, again: Dispatcher | null, settle: (met: Met) => void) {
    this.#sent = sent;
    this.#limits = limits;
    this.#again = again;
    this.#settle = settle;
    this.#timer = limits.clock.setTimeout(onLimit, Math.min(limits.headMs, limits.timeoutMs), this);
  }

  /** Runs at the first of the two timeouts, that of the head. */
  passLimit(): void {
    const { clock, headMs, timeoutMs } = this.#limits;
    const bodyMs = timeoutMs - headMs;
    if (this.#status === null || bodyMs <= 0) return this.#expire();
    this.#timer = clock.setTimeout(() => this.#expire(), bodyMs);
  }

  onConnect(abort: (reason?: Error) => void): void {
    // The exchange timed out while it waited for a connection, so nothing is sent (EXCHANGE-2). Throws instead of
    // aborting, since an abort would destroy a healthy connection.
    if (this.#settle === null) throw cut;
    this.#abort = abort;
    this.#socket = this.#sent.line?.socket ?? null;
    this.#bytesBefore = this.#socket?.bytesRead ?? 0;
    if (this.#sent.line) this.#sent.line.exchange = this;
  }

  /** More has come from the socket. [EXCHANGE-4] */
  received(): void {
    const read = (this.#socket?.bytesRead ?? 0) - this.#bytesBefore;
    if (read > wireFactor * this.#limits.answerMax) this.#cutShort(this.#tooLarge);
  }

  onHeaders(status: number, rawHeaders: readonly Buffer[]): boolean {
    if (status < 200) return true;
    this.#status = status;
    this.#rawHeaders = rawHeaders;
    if (Number(headerOf(rawHeaders, 'content-length')) > this.#limits.answerMax) this.#cutShort(this.#tooLarge);
    return true;
  }

  onData(chunk: Buffer): boolean {
    this.#length += chunk.length;
    if (this.#length > this.#limits.answerMax) this.#cutShort(this.#tooLarge);
    else this.#chunks.push(chunk);
    return true;
  }

  onComplete(): void {
    const [first] = this.#chunks;
    const sent = this.#chunks.length === 1 && first ? first : Buffer.concat(this.#chunks);
    const encoding = headerOf(this.#rawHeaders, 'content-encoding');
    const bytes = encoding === null ? sent : decoded(sent, encoding, this.#limits.answerMax);
    if (bytes === null) return this.#end(this.#tooLarge);
    const answer = new Whole(this.#status ?? 0, this.#rawHeaders, bytes.toString('utf8'));
    if (bytes !== sent) answer.quirks.push('gzip');
    this.#end(answer);
  }

  onError(error: NodeJS.ErrnoException): void {
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
    this.#abort = null;
    again?.dispatch({ ...this.#sent, reset: true }, this);
  }

  #expire(): void {
    this.#cutShort({ kind: 'timeout', status: this.#status, error: null });
  }

  get #tooLarge(): TooLarge {
    return { kind: 'tooLarge', status: this.#status, answerMax: this.#limits.answerMax };
  }

  #cutShort(met: NoAnswer | TooLarge): void {
    const abort = this.#abort;
    this.#end(met);
    abort?.(cut);
  }

  #end(met: Met): void {
    const settle = this.#settle;
    if (settle === null) return;
    this.#settle = null;
    this.#chunks = [];
    this.#limits.clock.clearTimeout(this.#timer);
    settle(met);
  }
}

function onLimit(exchange: Exchange): void {
  exchange.passLimit();
}
