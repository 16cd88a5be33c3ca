/**
 * Writes and reads the OCPI response envelope. [interface, Response envelope; D2]
 *
 * ENVELOPE-1  Every envelope has `status_code` and `timestamp`.
 * ENVELOPE-2  Stored objects are copied into an envelope as text, never parsed and serialized again. [D17]
 * ENVELOPE-3  Of an answer whose data nobody reads, at most `statusMax` characters are parsed: its status decides, whatever else it has.
 */

import { instantText } from '../domain/instant.ts';
import { items, member, members, slice, splice } from '../domain/json-text.ts';
import { systemClock } from '../kit/system-clock.ts';
import { excessOf } from './body.ts';
import type { Refusal } from './status-codes.ts';
import { success } from './status-codes.ts';

const timestamp = () => instantText(systemClock.wall());

const tail = () => `"status_code":${success},"status_message":"Success","timestamp":"${timestamp()}"}`;

/** A success without data, the answer to a push. */
export function doneText(): string {
  return `{${tail()}`;
}

/** A success with JSON text as data: one text, or for a large one its pieces and their total length in bytes. */
export function dataText(text: string): string | { readonly pieces: Iterable<string>; readonly bytes: number } {
  const [head, end] = ['{"data":', `,${tail()}`];
  if (text.length <= pieceChars) return head + text + end;
  return { pieces: inPieces([head, text, end]), bytes: Buffer.byteLength(text) + head.length + end.length };
}

/** Splits long texts into pieces, never between the halves of a surrogate pair. */
function* inPieces(texts: Iterable<string>): Generator<string, void, undefined> {
  for (const text of texts) {
    for (let at = 0; at < text.length; ) {
      let end = Math.min(text.length, at + pieceChars);
      if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end -= 1;
      yield text.slice(at, end);
      at = end;
    }
  }
}

const isHighSurrogate = (unit: number) => (unit & 0xfc00) === 0xd800;

/**
 * Characters sent at once. A larger answer is sent in pieces of about this size, each when the previous one was taken.
 */
const pieceChars = 64 * 1024;

/** A success with a list of JSON texts as data: one text, or for a large page its pieces in order. */
export function listText(texts: readonly string[]): string | Iterable<string> {
  const chars = texts.reduce((sum, text) => sum + text.length, 0);
  return chars > pieceChars ? inPieces(listPieces(texts)) : `{"data":[${texts.join(',')}],${tail()}`;
}

function* listPieces(texts: readonly string[]): Generator<string, void, undefined> {
  let piece = '{"data":[';
  let glue = '';
  for (const text of texts) {
    if (piece.length + text.length >= pieceChars) {
      yield piece;
      piece = '';
    }
    piece += glue + text;
    glue = ',';
  }
  yield `${piece}],${tail()}`;
}

export function refusalText(refused: Pick<Refusal, 'ocpi' | 'message' | 'data'>): string {
  return JSON.stringify({
    data: refused.data,
    status_code: refused.ocpi,
    status_message: refused.message,
    timestamp: timestamp(),
  });
}

export interface Envelope {
  readonly statusCode: number;
  readonly statusMessage: string | null;
  /** Undefined when the envelope has no `data`. */
  readonly data: unknown;
  /** `status_code` is a text of four digits, which counts as the number. */
  readonly isTextCode?: true;
}

export type EnvelopeRead =
  | { readonly ok: true; readonly envelope: Envelope }
  /** `reason` is text for people. */
  | { readonly ok: false; readonly reason: string };

/** Parses a partner's answer: the envelope, or the reason why it is not one. Never throws. */
export function readEnvelope(text: string): EnvelopeRead {
  const failed = (reason: string): EnvelopeRead => ({ ok: false, reason });
  const excess = excessOf(text);
  if (excess !== null) return failed(`answer ${excess}`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return failed(text.trim() === '' ? 'answer is empty' : 'answer is not JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return failed('answer is not an envelope');
  const { status_code: code, status_message: message, data } = value as Record<string, unknown>;
  const isTextCode = typeof code === 'string' && /^\d{4}$/.test(code.trim());
  const statusCode = isTextCode ? Number(code) : code;
  if (typeof statusCode !== 'number' || !Number.isInteger(statusCode)) return failed(noStatusCode);
  const statusMessage = typeof message === 'string' ? message : null;
  return { ok: true, envelope: { statusCode, statusMessage, data, ...(isTextCode && { isTextCode }) } };
}

/** Characters of an answer that are parsed for its status. */
const statusMax = 64 * 1024;

/**
 * As `readEnvelope` reads it, but of a long answer the status alone: `data` is null. Some partners answer a push with the object that they
 * got, as `data` or beside it. [ENVELOPE-3]
 */
export function readStatus(text: string): EnvelopeRead {
  if (text.length <= statusMax) return readEnvelope(text);
  const excess = excessOf(text);
  const rest = excess === null ? statusOf(text) : text;
  if (rest.length <= statusMax) return readEnvelope(rest);
  return { ok: false, reason: `answer ${excess ?? 'is long and no envelope'}` };
}

const ofStatus: ReadonlySet<string> = new Set(['status_code', 'status_message']);

/** The text with null for all members but those of the status. */
function statusOf(text: string): string {
  try {
    const others = [...members(text)].filter(([name]) => !ofStatus.has(name));
    return splice(
      text,
      others.map(([, span]) => ({ span, value: 'null' })),
    );
  } catch {
    // A name that is not JSON.
    return text;
  }
}

/**
 * An answer without an envelope: the object itself, recognized by the member that it must have, in capitals as enumerations
 * are. Null when the text is anything else. Never throws.
 */
export function readRaw(text: string, member: string): Readonly<Record<string, unknown>> | null {
  const read = readEnvelope(text);
  if (read.ok || read.reason !== noStatusCode) return null;
  const value = JSON.parse(text) as Readonly<Record<string, unknown>>;
  const named = Object.hasOwn(value, 'status_code') ? null : value[member];
  return typeof named === 'string' && /^[A-Z_]+$/.test(named) ? value : null;
}

const noStatusCode = 'answer has no status_code';

/** `data` where one object is expected: an array of exactly one object counts as that object. [D56] */
export function soleObject(data: unknown): unknown {
  const [only] = Array.isArray(data) && data.length === 1 ? data : [];
  return typeof only === 'object' && only !== null && !Array.isArray(only) ? only : data;
}

/**
 * The text of `soleObject(data)` in an envelope that `readEnvelope` accepted; undefined without `data`. [ENVELOPE-2,
 * D72]
 */
export function soleObjectText(text: string, data: unknown): string | undefined {
  const span = member(text, 0, 'data');
  if (!span) return undefined;
  const [only] = soleObject(data) === data ? [span] : items(text, span);
  return only && slice(text, only);
}

/** `timestamp` of an envelope that `readEnvelope` accepted, as it is written there; null when it has none, or no text. */
export function envelopeTime(text: string): string | null {
  const span = member(text, 0, 'timestamp');
  const value: unknown = span && JSON.parse(slice(text, span));
  return typeof value === 'string' ? value : null;
}

/**
 * Texts of the items of `data` in an envelope that `readEnvelope` accepted; empty when `data` is no array. [ENVELOPE-2]
 */
export function envelopeItems(text: string): string[] {
  const data = member(text, 0, 'data');
  if (!data || text[data.start] !== '[') return [];
  return items(text, data).map((span) => slice(text, span));
}
