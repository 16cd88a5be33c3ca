/**
 * Reads answers that are written in the one plain way nearly all servers use, and decides nothing about any other: HTTP/1.1, a status from
 * 200 that has a body of a stated length or in chunks, no field twice that says where the body ends. Whatever is not in that form is
 * `unusual`, and a full parser reads it from its first byte (`hand-over.ts`). [RFC 9112]
 *
 * ANSWER-READER-1  What it accepts a full parser would accept, with the same status, fields and body.
 * ANSWER-READER-2  What a full parser would refuse is `unusual` as soon as the bytes that are wrong have come.
 * ANSWER-READER-3  It copies what it keeps: the bytes it is given may be overwritten afterwards.
 * ANSWER-READER-4  One `100 Continue` before the answer is passed over, although nothing asked for it: some servers send it after every
 *     head, and undici ends the connection at it. [RFC 9110, 15.2]
 */
import { Growing } from '../../kit/growing.ts';

export interface PlainAnswer {
  readonly status: number;
  /** The fields as they came, each ending in CR LF. */
  readonly fields: string;
  readonly body: Buffer;
  /** What the server says about how long it keeps the connection, ms; null when it says nothing. */
  readonly keptMs: number | null;
  /** Whether the connection ends with it, or has brought more than it. */
  readonly isLast: boolean;
}

export type Reading = PlainAnswer | 'more' | 'unusual' | 'too large';

interface Head {
  readonly status: number;
  readonly fields: string;
  /** Where the body begins. */
  readonly end: number;
  /** Bytes of the body; null: it comes in chunks. */
  readonly length: number | null;
  readonly keptMs: number | null;
  readonly isLast: boolean;
}

/** A head is in one packet or a few; one in more comes from nobody who means well. */
const readsOfHeadMax = 8;
const headMax = 16 * 1024;
const blankLine = Buffer.from('\r\n\r\n');
/** An answer in more has tiny ones, which a parser in WebAssembly reads faster. */
const chunksMax = 4_096;

const continues = 100;
const continueHead = 'HTTP/1.1 100 Continue\r\n\r\n';
const statusLine = String.raw`HTTP/1\.1 (${continues}|[2-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?\r\n`;
const name = String.raw`[\w!#$%&'*+.^${'`'}|~-]`;
const value = String.raw`[\t\x20-\x7e\x80-\xff]*`;
const field = String.raw`${name}+:${value}\r\n`;
const wholeHead = new RegExp(`^${statusLine}((?:${field})*)$`);
/** A head whose last line has not ended; what there is of it is the third part. */
const begunHead = new RegExp(`^${statusLine}((?:${field})*)(${name}+(?::${value}\\r?)?)?$`);
/** The fields that say where the body ends, and whether the connection does. */
const framing = /^(content-length|transfer-encoding|connection|proxy-connection|keep-alive):([^\r\n]*)/im;
const eachFraming = new RegExp(framing, 'gim');
const edges = new Set([' ', '\t']);
const persists = /^(?:keep-alive|upgrade)(?:, ?(?:keep-alive|upgrade))*$/i;
const chunkSize = /^[\da-f]{1,7}$/i;
const chunkSizeBegun = /^(?:[\da-f]{1,7}\r?)?$/i;

/** The last head of a connection: a server repeats its own but for the date, and reading it takes longer than the rest of a small answer. */
export class LastHead {
  #text = '';
  #head: Head | null = null;

  /** `text`: status line and fields; `end`: where the body begins. */
  read(text: string, end: number): Head | null {
    if (text === this.#text) return this.#head;
    this.#text = text;
    this.#head = headOf(text, end);
    return this.#head;
  }
}

export class AnswerReader {
  /** Of the body, bytes. */
  readonly #bodyMax: number;
  readonly #last: LastHead;
  /** All that came so far, unless one read brought everything. */
  readonly #kept = new Growing();
  #reads = 0;
  /** Where the answer begins in what came: behind a `100 Continue`. */
  #start = 0;
  #head: Head | null = null;
  /** Where the next chunk begins, and how many bytes those before it have. */
  #at = 0;
  #length = 0;
  #chunks = 0;

  constructor(bodyMax: number, last = new LastHead()) {
    this.#bodyMax = bodyMax;
    this.#last = last;
  }

  /** Null until the head has come. */
  get status(): number | null {
    return this.#head?.status ?? null;
  }

  /** Whether a `100 Continue` came before the answer. [ANSWER-READER-4] */
  get isContinued(): boolean {
    return this.#start > 0;
  }

  /** What came of the answer so far, from its first byte. */
  get wire(): Buffer {
    return this.#kept.bytes.subarray(this.#start);
  }

  take(bytes: Buffer): Reading {
    this.#reads++;
    const isFirst = this.#kept.length === 0;
    if (!isFirst) this.#kept.add(bytes);
    const reading = this.#read(isFirst ? bytes : this.wire);
    if (isFirst && (reading === 'more' || reading === 'unusual')) this.#kept.add(bytes);
    return reading;
  }

  #read(wire: Buffer): Reading {
    const head = this.#head ?? this.#readHead(wire);
    if (typeof head === 'string') return head;
    if (head.status === continues) return this.#passOver(wire, head.end);
    this.#head = head;
    return head.length === null ? this.#readChunks(wire, head) : this.#readWhole(wire, head, head.length);
  }

  #readHead(wire: Buffer): Head | 'more' | 'unusual' {
    const end = wire.indexOf(blankLine);
    if (end > headMax || (end < 0 && wire.length > headMax)) return 'unusual';
    if (end < 0) return this.#reads < readsOfHeadMax && mayBegin(wire.toString('latin1')) ? 'more' : 'unusual';
    const head = this.#last.read(wire.toString('latin1', 0, end + 2), end + blankLine.length);
    this.#at = end + blankLine.length;
    return head ?? 'unusual';
  }

  /** [ANSWER-READER-4] */
  #passOver(wire: Buffer, end: number): Reading {
    if (this.#start > 0) return 'unusual';
    this.#start = end;
    return wire.length === end ? 'more' : this.#read(wire.subarray(end));
  }

  #readWhole(wire: Buffer, head: Head, length: number): Reading {
    if (length > this.#bodyMax) return 'too large';
    const end = head.end + length;
    if (wire.length < end) return 'more';
    return answerOf(head, Buffer.from(wire.subarray(head.end, end)), wire.length > end);
  }

  #readChunks(wire: Buffer, head: Head): Reading {
    for (;;) {
      const line = wire.toString('latin1', this.#at, this.#at + 9);
      const digits = line.indexOf('\r\n');
      if (digits < 0) return chunkSizeBegun.test(line) ? 'more' : 'unusual';
      const text = line.slice(0, digits);
      if (!chunkSize.test(text)) return 'unusual';
      const size = Number.parseInt(text, 16);
      const end = this.#at + digits + 2 + size;
      if (this.#length + size > this.#bodyMax) return 'too large';
      const after = wire.toString('latin1', end, end + 2);
      if (!'\r\n'.startsWith(after)) return 'unusual';
      if (after.length < 2) return 'more';
      if (size === 0) return answerOf(head, this.#joined(wire, head), wire.length > end + 2);
      if (++this.#chunks > chunksMax) return 'unusual';
      this.#at = end + 2;
      this.#length += size;
    }
  }

  /** The chunks, all of which have come and are well formed, without what is between them. */
  #joined(wire: Buffer, head: Head): Buffer {
    const body = Buffer.allocUnsafe(this.#length);
    let [from, to] = [head.end, 0];
    while (to < body.length) {
      const data = wire.indexOf('\n', from) + 1;
      const size = Number.parseInt(wire.toString('latin1', from, data - 2), 16);
      wire.copy(body, to, data, data + size);
      to += size;
      from = data + size + 2;
    }
    return body;
  }
}

const answerOf = ({ status, fields, keptMs, isLast }: Head, body: Buffer, hasMore: boolean): PlainAnswer => ({
  status,
  fields,
  body,
  keptMs,
  isLast: isLast || hasMore,
});

/** `text`: status line and fields; `end`: where the body begins. Null: not in the plain form. */
function headOf(text: string, end: number): Head | null {
  const [, code, fields = ''] = wholeHead.exec(text) ?? [];
  const framed = code === undefined ? null : framingOf(fields);
  if (framed === null) return null;
  const status = Number(code);
  const { length: stated, isChunked, isLast, keptMs } = framed;
  // These have no body, so a server that states one means something else.
  const isBare = status === continues || status === 204 || status === 304;
  if (isBare ? status === 304 || isChunked || (stated ?? 0) > 0 : !isChunked && stated === null) return null;
  return { status, fields, end, length: isChunked ? null : (stated ?? 0), isLast, keptMs };
}

/** Whether this may be the beginning of a head in the plain form, or of a `100 Continue`, wherever it is cut. */
const mayBegin = (text: string): boolean => isBegun(text) || continueHead.startsWith(text);

/** Whether a head may have begun with this: all that has come is in the plain form, and the last line does not say where the body ends. */
function isBegun(text: string): boolean {
  const match = begunHead.exec(text);
  if (match === null) return false;
  const [, , fields = '', last = ''] = match;
  return !framing.test(last) && framingOf(fields) !== null;
}

interface Framing {
  readonly length: number | null;
  readonly isChunked: boolean;
  readonly isLast: boolean;
  readonly keptMs: number | null;
}

/** What the fields say of body and connection; null when they do not say it in the plain way. */
function framingOf(fields: string): Framing | null {
  const said: Record<string, string> = {};
  // `matchAll` would copy the expression for each answer.
  eachFraming.lastIndex = 0;
  for (let found = eachFraming.exec(fields); found !== null; found = eachFraming.exec(fields)) {
    const [, name = '', value = ''] = found;
    const key = name.toLowerCase();
    if (key in said || edges.has(value.at(-1) ?? '')) return null;
    said[key] = trimmed(value);
  }
  const { 'content-length': length, 'transfer-encoding': coding, connection, 'keep-alive': kept } = said;
  const isLast = connection?.toLowerCase() === 'close';
  if ('proxy-connection' in said || (connection !== undefined && !isLast && !persists.test(connection))) return null;
  if (coding !== undefined && (length !== undefined || coding.toLowerCase() !== 'chunked')) return null;
  if (length !== undefined && !/^\d{1,9}$/.test(length)) return null;
  const seconds = /timeout=(\d{1,9})/.exec(kept ?? '')?.[1];
  return {
    length: length === undefined ? null : Number(length),
    isChunked: coding !== undefined,
    isLast,
    keptMs: seconds === undefined ? null : Number(seconds) * 1000,
  };
}

/** Without blanks at its ends; a regular expression would search a value of blanks once for each of them. */
export function trimmed(value: string): string {
  let [from, to] = [0, value.length];
  while (edges.has(value.charAt(from))) from++;
  while (to > from && edges.has(value.charAt(to - 1))) to--;
  return value.slice(from, to);
}
