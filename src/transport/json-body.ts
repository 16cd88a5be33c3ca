/**
 * From bytes to a JSON value, with the limits that must hold before `JSON.parse` sees the text. [D38, D49]
 *
 * JSON-BODY-1  Bytes that are not UTF-8, and text that is not JSON, are refused: 400/2001.
 * JSON-BODY-2  Nesting is measured by a scan of the text: `JSON.parse` takes a million levels and what comes after it does not.
 * JSON-BODY-3  The text is kept beside the value, since it is what will be stored and forwarded. [D17]
 */
import { isUtf8 } from 'node:buffer';
import { HubError } from '../domain/errors.ts';

export interface JsonBody {
  readonly text: string;
  readonly value: unknown;
  /** Of an object, as it is written: what parsing makes one of, counts twice. */
  readonly names: number;
}

/** Levels of objects and arrays in one body. [D38] */
export const depthMax = 64;

export function readJson(bytes: Uint8Array): JsonBody {
  if (!isUtf8(bytes)) throw new HubError('notJson', { message: 'Body is not valid UTF-8' });
  const { isTooDeep, commas } = formOf(bytes, depthMax);
  if (isTooDeep) throw new HubError('tooDeep', { message: `Body is nested more than ${depthMax} levels deep` });
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  try {
    return { text, value: JSON.parse(text), names: commas + 1 };
  } catch {
    // The parser's own message would quote the body.
    throw new HubError('notJson');
  }
}

/** Whether objects and arrays are nested deeper than `max`. Of text that is not JSON the answer may be either. */
export function isDeeperThan(text: string, max: number): boolean {
  return text.length >= 2 * (max + 1) && formOf(Buffer.from(text), max).isTooDeep;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;

interface Form {
  readonly isTooDeep: boolean;
  /** Between what the outermost object or array holds. */
  readonly commas: number;
}

/** Of bytes that are not JSON it may be any. Bytes, because of a text every character is asked first how it is kept. */
function formOf(bytes: Uint8Array, max: number): Form {
  let depth = 0;
  let commas = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) at = closingQuote(bytes, at);
    // `{` and `[` differ from `}` and `]` by two, and from each other by 0x20.
    else if ((byte | 0x20) === 0x7b) {
      if (++depth > max) return { isTooDeep: true, commas };
    } else if ((byte | 0x20) === 0x7d) depth--;
    else if (byte === COMMA && depth === 1) commas++;
  }
  return { isTooDeep: false, commas };
}

function closingQuote(bytes: Uint8Array, open: number): number {
  let at = open + 1;
  for (; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) break;
    if (byte === BACKSLASH) at++;
  }
  return at;
}
