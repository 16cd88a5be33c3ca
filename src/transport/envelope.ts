/**
 * The response envelope, written and read. [interface, Response envelope; D2]
 *
 * ENVELOPE-1  Every envelope has `status_code` and `timestamp`.
 * ENVELOPE-2  Stored objects enter an envelope as the text they are: nothing is parsed or written anew. [D17]
 */
import { instantText } from '../domain/instant.ts';
import { items, members, slice } from '../domain/json-text.ts';
import { depthMax, isDeeperThan } from './json-body.ts';
import type { Refusal } from './status-codes.ts';
import { success } from './status-codes.ts';

const timestamp = () => instantText(Date.now());

const tail = () => `"status_code":${success},"status_message":"Success","timestamp":"${timestamp()}"}`;

/** A success without data, as pushes get it. */
export function doneText(): string {
  return `{${tail()}`;
}

/** A success around JSON text: one text, or for a large one its pieces, with their length in bytes. */
export function dataText(text: string): string | { readonly pieces: Iterable<string>; readonly bytes: number } {
  const [head, end] = ['{"data":', `,${tail()}`];
  if (text.length <= pieceChars) return head + text + end;
  return { pieces: inPieces([head, text, end]), bytes: Buffer.byteLength(text) + head.length + end.length };
}

/** Texts that are long are cut, never between the halves of a character. */
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

/** Characters that are sent at once: a larger answer goes in pieces of about so many, the next when the last was taken. */
const pieceChars = 64 * 1024;

/** A success around a list of JSON texts: one text, or for a large page its pieces, to be sent one after the other. */
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
  /** Undefined when the envelope has none. */
  readonly data: unknown;
}

export type EnvelopeRead =
  | { readonly ok: true; readonly envelope: Envelope }
  /** One sentence for people. */
  | { readonly ok: false; readonly reason: string };

/** A partner's answer, in a checked shape or with the reason why it is none. Never throws. */
export function readEnvelope(text: string): EnvelopeRead {
  const failed = (reason: string): EnvelopeRead => ({ ok: false, reason });
  if (isDeeperThan(text, depthMax)) return failed(`answer is nested more than ${depthMax} levels deep`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return failed(text.trim() === '' ? 'answer is empty' : 'answer is not JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return failed('answer is not an envelope');
  const { status_code: statusCode, status_message: statusMessage, data } = value as Record<string, unknown>;
  if (typeof statusCode !== 'number' || !Number.isInteger(statusCode)) return failed('answer has no status_code');
  return {
    ok: true,
    envelope: { statusCode, statusMessage: typeof statusMessage === 'string' ? statusMessage : null, data },
  };
}

/** What `data` is where one object is expected: an array of exactly one object is that object. [D56] */
export function soleObject(data: unknown): unknown {
  const [only] = Array.isArray(data) && data.length === 1 ? data : [];
  return typeof only === 'object' && only !== null && !Array.isArray(only) ? only : data;
}

/** The text of `soleObject(data)` in an envelope that `readEnvelope` took; undefined when it has no `data`. [ENVELOPE-2, D72] */
export function soleObjectText(text: string, data: unknown): string | undefined {
  const span = members(text).get('data');
  if (!span) return undefined;
  const [only] = soleObject(data) === data ? [span] : items(text, span);
  return only && slice(text, only);
}

/** Texts of the items in `data` of an envelope that `readEnvelope` took; empty when `data` is not an array. [ENVELOPE-2] */
export function envelopeItems(text: string): string[] {
  const data = members(text).get('data');
  if (!data || text[data.start] !== '[') return [];
  return items(text, data).map((span) => slice(text, span));
}
