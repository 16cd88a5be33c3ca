/**
 * The response envelope, written and read. [interface, Response envelope; D2]
 *
 * V1  Every envelope has `status_code` and `timestamp`.
 * V2  Stored objects enter an envelope as the text they are: nothing is parsed or written anew. [D17]
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

/** A success around JSON text. */
export function dataText(text: string): string {
  return `{"data":${text},${tail()}`;
}

/** Characters of stored text up to which a list's envelope is made in one piece. */
const pieceChars = 256 * 1024;

/** A success around a list of JSON texts: one text, or for a large page its pieces, to be sent one after the other. */
export function listText(texts: readonly string[]): string | Iterable<string> {
  const chars = texts.reduce((sum, text) => sum + text.length, 0);
  return chars > pieceChars ? listPieces(texts) : `{"data":[${texts.join(',')}],${tail()}`;
}

function* listPieces(texts: readonly string[]): Generator<string, void, undefined> {
  let piece = '{"data":[';
  let glue = '';
  for (const text of texts) {
    piece += glue + text;
    glue = ',';
    if (piece.length < pieceChars) continue;
    yield piece;
    piece = '';
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

/** Texts of the items in `data` of an envelope that `readEnvelope` took; empty when `data` is not an array. [V2] */
export function envelopeItems(text: string): string[] {
  const data = members(text).get('data');
  if (!data || text[data.start] !== '[') return [];
  return items(text, data).map((span) => slice(text, span));
}
