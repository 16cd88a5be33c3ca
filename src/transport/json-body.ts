/**
 * From bytes to a JSON value, with the limits that must hold before `JSON.parse` sees the text. [D38, D49]
 *
 * B1  Bytes that are not UTF-8, and text that is not JSON, are refused: 400/2001.
 * B2  Nesting is measured by a scan of the text: `JSON.parse` takes a million levels and what comes after it does not.
 * B3  The text is kept beside the value, since it is what will be stored and forwarded. [D17]
 */
import { isUtf8 } from 'node:buffer';
import { HubError } from '../domain/errors.ts';

export interface JsonBody {
  readonly text: string;
  readonly value: unknown;
}

/** Levels of objects and arrays in one body. [D38] */
export const depthMax = 64;

export function readJson(bytes: Uint8Array): JsonBody {
  if (!isUtf8(bytes)) throw new HubError('notJson', { message: 'Body is not valid UTF-8' });
  return parseJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
}

function parseJson(text: string): JsonBody {
  if (isDeeperThan(text, depthMax)) {
    throw new HubError('tooDeep', { message: `Body is nested more than ${depthMax} levels deep` });
  }
  try {
    return { text, value: JSON.parse(text) };
  } catch {
    // The parser's own message would quote the body.
    throw new HubError('notJson');
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Whether objects and arrays are nested deeper than `max`. Of text that is not JSON the answer may be either. */
export function isDeeperThan(text: string, max: number): boolean {
  if (text.length <= max) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = closingQuote(text, at);
    // `{` and `[` differ from `}` and `]` by two, and from each other by 0x20.
    else if ((code | 0x20) === 0x7b) {
      if (++depth > max) return true;
    } else if ((code | 0x20) === 0x7d) depth--;
  }
  return false;
}

function closingQuote(text: string, open: number): number {
  let at = open + 1;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at;
    at += code === BACKSLASH ? 2 : 1;
  }
  return at;
}
