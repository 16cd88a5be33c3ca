/**
 * One HTTP request and its result as a value. Every call of the hub goes through here, so it has no stream, no AbortSignal and one timer.
 *
 * EXCHANGE-1  An exchange ends exactly once, and nothing is thrown.
 * EXCHANGE-2  It ends within `timeoutMs` of its start, whether it waits for a connection, for the head or for the body. What has come in
 *     full is in time, though a large answer then waits for its turn.
 * EXCHANGE-3  It holds at most `answerMax` bytes, counted before and after decoding; the socket of a larger answer is
 *     closed.
 * EXCHANGE-4  It reads at most `wireMax(answerMax)` bytes from the socket, whatever they are: a status line without an end, interim
 *     answers and chunk extensions are no part of an answer, but reading them takes as much CPU time.
 * EXCHANGE-5  A request is resent at most once, on a fresh connection, and only if the first attempt used a re-used
 *     connection that was closed before any byte of the answer.
 * EXCHANGE-6  An answer larger than `smallMax` is read in a turn of the event loop that is far from those of other large texts (TURNS-2): a
 *     partner may let many come at once, and others would wait until all are decoded and parsed. Partners take turns.
 * EXCHANGE-7  With a room for large answers, no more than `smallMax` and one read of an answer comes into memory until its partner has room
 *     for it (`answer-room.ts`). What waits counts against the time of the exchange.
 */

import { isUtf8 } from 'node:buffer';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import type { Dispatcher } from 'undici';
import type { Quirk } from '../../domain/quirks.ts';
import type { Clock } from '../../kit/clock.ts';
import { largeTurn } from '../../kit/turns.ts';
import { trimmed } from './answer-reader.ts';
import type { AnswerRoom, Place } from './answer-room.ts';

/** A request as it is sent. */
export interface Sent {
  readonly method: Dispatcher.HttpMethod;
  readonly origin: string;
  /** Without brackets. */
  readonly hostname: string;
  /** With its query. */
  readonly path: string;
  /** Header fields, each in its line (`fieldLines`); null: one of them cannot be. */
  readonly fields: string | null;
  readonly body: string | Uint8Array | null;
  /** The connection is closed after the answer. */
  reset?: boolean;
  /** Partner whose server it is. Absent: no partner that is registered. */
  readonly partner?: string | undefined;
  /** On whose behalf it is asked. Absent: the hub's own, or a delivery. */
  readonly source?: string | undefined;
}

export interface Limits {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Timeout until the head of the answer. */
  readonly headMs: number;
  readonly answerMax: number;
  /** Absent: a large answer needs no room. [EXCHANGE-7] */
  readonly room?: AnswerRoom | undefined;
}

/** What the bytes of an answer come from; it goes on when it was resumed as often as paused. */
export interface Source {
  pause(): void;
  resume(): void;
}

/** What carries exchanges. */
export interface Carrier {
  dispatch(sent: Sent, exchange: Exchange): void;
}

/** A complete answer. */
export interface Answer {
  readonly kind: 'answer';
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** What was made up for so far, each once. */
  readonly quirks: Quirk[];
  /** The request was resent: it may have arrived before, too. */
  readonly isResent?: boolean;
}

/** An exchange that ended without a complete answer. */
export interface NoAnswer {
  readonly kind: 'timeout' | 'failed';
  /** The HTTP status, if the head of the answer had arrived. */
  readonly status: number | null;
  /** For `failed`: the error of the socket, the resolver or TLS. */
  readonly error: NodeJS.ErrnoException | null;
  /** It was sent on a re-used connection, which ended before any byte of the answer, and not again. */
  readonly isStale?: boolean;
  /** Bytes of the request may have left the hub. */
  readonly isSent?: boolean;
}

/** An answer that was cut off, because it is larger than the client allows. */
export interface TooLarge {
  readonly kind: 'tooLarge';
  readonly status: number | null;
  /** Limit of the client, bytes. */
  readonly answerMax: number;
}

export type Met = Answer | NoAnswer | TooLarge;

/** Header fields by lower-case name. */
export type Fields = Answer['headers'];

/**
 * Bytes on the wire of an answer whose body may have so many. In chunks of one byte each byte takes six: a small answer may
 * come so, a large one would cost the thread a third of a second.
 */
const wireMax = (answerMax: number): number => 2 * answerMax + 6 * Math.min(answerMax, smallMax);

const smallMax = 64 * 1024;

/** Whose large answers share a room. */
const roomOf = ({ partner, origin }: Sent): string => partner ?? origin;

/** Error codes of a connection that the other side has closed. */
const staleCodes = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

/** The byte order mark that some servers send, which JSON.parse refuses. */
const mark = 0xfeff;

/** An answer whose fields are read on first use; most successes never need them. */
class Whole implements Answer {
  readonly kind = 'answer';
  readonly status: number;
  readonly text: string;
  readonly quirks: Quirk[] = [];
  readonly isResent: boolean;
  #fields: Fields | string;

  constructor(status: number, fields: Fields | string, text: string, isResent: boolean) {
    this.status = status;
    this.isResent = isResent;
    this.#fields = fields;
    const isMarked = text.charCodeAt(0) === mark;
    this.text = isMarked ? text.slice(1) : text;
    if (isMarked) this.quirks.push('byte-order-mark');
  }

  get headers(): Fields {
    this.#fields = fieldsOf(this.#fields);
    return this.#fields;
  }
}

/** Fields of a text in which each ends in CR LF. */
function fieldsOf(fields: Fields | string): Fields {
  if (typeof fields !== 'string') return fields;
  const read: Record<string, string | string[]> = {};
  for (const line of fields.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon < 0) continue;
    const [name, value] = [line.slice(0, colon).toLowerCase(), trimmed(line.slice(colon + 1))];
    const before = Object.hasOwn(read, name) ? read[name] : undefined;
    if (Array.isArray(before)) before.push(value);
    else read[name] = before === undefined ? value : [before, value];
  }
  return read;
}

/** Replaces bytes that are not UTF-8 in a text. */
const replacement = '\ufffd';

const encodingIn = /^content-encoding:/im;

/** The first value of Content-Encoding; null when absent. */
const encodingOf = (fields: Fields): string | null => [fields['content-encoding'] ?? []].flat()[0] ?? null;

export class Exchange {
  readonly #sent: Sent;
  readonly #limits: Limits;
  /** For the resend; null when it was used or the call must not be resent. */
  #again: Carrier | null;
  #settle: ((met: Met) => void) | null;
  #timer: unknown;
  /** Closes the connection that carries it. */
  #cut: (() => void) | null = null;
  #status: number | null = null;
  #isContinued = false;
  #isResent = false;
  #isSent = false;
  /** In the room for large answers. */
  #place: Place | null = null;

  constructor(sent: Sent, limits: Limits, again: Carrier | null, settle: (met: Met) => void) {
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

  /** Its time has passed, also while it waited for a connection; it is not sent any more. [EXCHANGE-2] */
  get isOver(): boolean {
    return this.#settle === null;
  }

  /** Of the body, bytes. */
  get bodyMax(): number {
    return this.#limits.answerMax;
  }

  /** By what its connection is closed when it ends early. */
  cutBy(cut: () => void): void {
    this.#cut = cut;
  }

  /** Its request is being written. */
  written(): void {
    this.#isSent = true;
  }

  /** So many bytes of its answer have come from the socket. [EXCHANGE-4] */
  received(bytes: number): void {
    if (bytes > wireMax(this.#limits.answerMax)) this.tooLarge();
  }

  /** So many bytes have come, and the answer goes on. [EXCHANGE-7] */
  awaitsMore(bytes: number, source: Source): void {
    const { room, answerMax } = this.#limits;
    if (room === undefined || bytes <= smallMax || this.#place !== null || this.isOver) return;
    this.#place = room.take(roomOf(this.#sent), answerMax, () => source.resume());
    if (!this.#place.isIn) source.pause();
  }

  /** A `100 Continue` that it did not ask for came before its answer. */
  continued(): void {
    this.#isContinued = true;
  }

  headRead(status: number): void {
    this.#status = status;
  }

  tooLarge(): void {
    this.#cutShort(this.#tooLarge);
  }

  /** `fields`: read already, or a text in which each ends in CR LF. */
  answered(status: number, fields: Fields | string, body: Buffer): void {
    this.#status = status;
    const read = typeof fields === 'string' && !encodingIn.test(fields) ? fields : fieldsOf(fields);
    const encoding = typeof read === 'string' ? null : encodingOf(read);
    const max = this.#limits.answerMax;
    const small = encoding === null ? body : decoded(body, encoding, Math.min(max, smallMax));
    const isLarge = small === null ? max > smallMax : small.length > smallMax;
    if (!isLarge) return this.#decoded(status, read, body, small);
    // Its connection may carry another exchange by then.
    this.#cut = null;
    const go = () => this.#decoded(status, read, body, encoding === null ? body : decoded(body, encoding, max));
    const inTurn = largeTurn(this.#sent.partner ?? '');
    if (inTurn === null) return go();
    // It is in time, whenever it is read.
    this.#limits.clock.clearTimeout(this.#timer);
    void inTurn.then(() => (this.isOver ? undefined : go()));
  }

  #decoded(status: number, read: Fields | string, body: Buffer, bytes: Buffer | null): void {
    if (bytes === null) return this.#end(this.#tooLarge);
    const text = bytes.toString('utf8');
    const isForeign = text.includes(replacement);
    const foreign = isForeign ? foreignText(bytes, text, [fieldsOf(read)['content-type'] ?? ''].flat()[0] ?? '') : null;
    const answer = new Whole(status, read, foreign ?? text, this.#isResent);
    if (bytes !== body) answer.quirks.push('gzip');
    if (foreign !== null) answer.quirks.push('not-utf8');
    if (this.#isContinued) answer.quirks.push('unasked-continue');
    this.#end(answer);
  }

  /** `isStale`: its connection had been used before, and closed before any byte of the answer. */
  failed(error: NodeJS.ErrnoException, isStale: boolean): void {
    if (this.#settle === null) return;
    const isUnanswered = isStale && staleCodes.has(error.code ?? '');
    const again = isUnanswered ? this.#again : null;
    if (again === null) return this.#end(this.#unanswered('failed', error, isUnanswered));
    this.#again = null;
    this.#isResent = true;
    this.#cut = null;
    again.dispatch({ ...this.#sent, reset: true }, this);
  }

  #expire(): void {
    this.#cutShort(this.#unanswered('timeout', null, false));
  }

  #unanswered(kind: NoAnswer['kind'], error: NoAnswer['error'], isStale: boolean): NoAnswer {
    return { kind, status: this.#status, error, isStale, isSent: this.#isSent };
  }

  get #tooLarge(): TooLarge {
    return { kind: 'tooLarge', status: this.#status, answerMax: this.#limits.answerMax };
  }

  #cutShort(met: NoAnswer | TooLarge): void {
    const cut = this.#cut;
    this.#end(met);
    cut?.();
  }

  #end(met: Met): void {
    const settle = this.#settle;
    if (settle === null) return;
    this.#settle = null;
    this.#cut = null;
    this.#limits.clock.clearTimeout(this.#timer);
    if (this.#place !== null) this.#limits.room?.leave(roomOf(this.#sent), this.#place);
    settle(met);
  }
}

function onLimit(exchange: Exchange): void {
  exchange.passLimit();
}

// Decodes compressed answers, and those that are not in UTF-8. The hub requests no compression, but some servers
// compress anyway. [D57]

const decoders: Readonly<Record<string, typeof gunzipSync>> = {
  gzip: gunzipSync,
  'x-gzip': gunzipSync,
  deflate: inflateSync,
  br: brotliDecompressSync,
};

/**
 * The decoded bytes; null when they exceed `maxBytes`. Bytes with an unknown encoding, or not in the stated one, are
 * returned unchanged: some servers put a character set into Content-Encoding, and parsing the text decides whether it
 * is usable.
 */
function decoded(bytes: Buffer, encoding: string, maxBytes: number): Buffer | null {
  const decode = decoders[encoding.trim().toLowerCase()];
  if (decode === undefined || bytes.length === 0) return bytes;
  try {
    return decode(bytes, { maxOutputLength: maxBytes });
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? null : bytes;
  }
}

/**
 * The text of a body; null when it is in UTF-8, as JSON is. Otherwise the character set counts that its `Content-Type`
 * names. Without one, a body that has letters in UTF-8 is in UTF-8, but for the bytes that are wrong, and any other is in
 * Windows-1252, which has the letters of Latin-1 where Latin-1 has them. `asUtf8`: how it reads in UTF-8.
 */
export function foreignText(bytes: Buffer, asUtf8: string, contentType: string): string | null {
  if (isUtf8(bytes)) return null;
  const charset = /charset="?([\w.:-]{1,40})/i.exec(contentType)?.[1] ?? '';
  const named = isUtf.test(charset) ? null : inCharset(charset, bytes);
  return named ?? (lettersBeyondAscii.test(asUtf8) ? asUtf8 : inWindows1252(bytes));
}

const isUtf = /^utf-?8$/i;
/** Any but the character that stands for bytes that are wrong. */
const lettersBeyondAscii = /[^\0-\x7f\ufffd]/;

/** Null when nobody knows the character set. */
function inCharset(charset: string, bytes: Buffer): string | null {
  try {
    const decoder = new TextDecoder(charset);
    return decoder.encoding === 'windows-1252' ? inWindows1252(bytes) : decoder.decode(bytes);
  } catch {
    return null;
  }
}

const latin1 = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString('latin1');
/** What 0x80 to 0x9f are in Windows-1252: Node 20 reads them as Latin-1 has them, which is as control characters. */
const beyondLatin1 = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';
/** The character of each byte, in two bytes of UTF-16. */
const windows1252 = Buffer.from(latin1.slice(0, 0x80) + beyondLatin1 + latin1.slice(0xa0), 'utf16le');

/** By a table: an expression that calls a function for each byte takes 0.3 s a MiB. */
function inWindows1252(bytes: Buffer): string {
  const text = Buffer.allocUnsafe(2 * bytes.length);
  for (let at = 0; at < bytes.length; at++) {
    const from = 2 * (bytes[at] as number);
    text[2 * at] = windows1252[from] as number;
    text[2 * at + 1] = windows1252[from + 1] as number;
  }
  return text.toString('utf16le');
}
