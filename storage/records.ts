/**
 * The form of a stored value, so that no damage is ever served as data: the engine verifies no checksum of its own.
 *
 *     version '1' | CRC-32 of the key, 8 hex | CRC-32 of key and content, 8 hex | head JSON \n data JSON [\n body]
 *
 * R1  The second checksum covers key AND content: a flipped bit and a value that moved under another key are both seen.
 * R2  The first tells which of the two it was: when the key is the one that was written, the content is known to be lost
 *     and can be made anew; when it is not, nothing is known.
 * R3  The body follows raw to the end of the value. `JSON.stringify` writes no line feed, so the first two end the lines.
 * R4  What a scan needs stands in the head: scanning parses neither data nor bodies.
 */
import { crc32 } from 'node:zlib';
import { Damaged } from './contract.ts';

const VERSION = '1';
const CRC_DIGITS = 8;
const CONTENT_AT = VERSION.length + 2 * CRC_DIGITS;

export interface Content {
  readonly head: unknown;
  readonly data: unknown;
  readonly body: string | null;
}

/** `sound`, or where the damage is: in the `content`, or in the `key` (also: a value that belongs to another key). */
export type Condition = 'sound' | 'content' | 'key';

const hex = (crc: number): string => crc.toString(16).padStart(CRC_DIGITS, '0');

/** `head` and `data` are JSON texts. */
export function encode(key: string, head: string, data = '', body: string | null = null): string {
  const content = body === null ? `${head}\n${data}` : `${head}\n${data}\n${body}`;
  const ofKey = crc32(key);
  return VERSION + hex(ofKey) + hex(crc32(content, ofKey)) + content;
}

export function inspect(key: string, value: string): Condition {
  const ofKey = crc32(key);
  const stored = value.slice(VERSION.length + CRC_DIGITS, CONTENT_AT);
  if (value.startsWith(VERSION) && stored === hex(crc32(value.slice(CONTENT_AT), ofKey))) return 'sound';
  return value.slice(VERSION.length, VERSION.length + CRC_DIGITS) === hex(ofKey) ? 'content' : 'key';
}

/** The head alone, of a record that was inspected. */
export function headOf(value: string): unknown {
  return JSON.parse(value.slice(CONTENT_AT, value.indexOf('\n', CONTENT_AT)));
}

export function decode(key: string, value: string): Content {
  if (inspect(key, value) !== 'sound') throw new Damaged(key);
  const headEnd = value.indexOf('\n', CONTENT_AT);
  const dataEnd = value.indexOf('\n', headEnd + 1);
  const data = value.slice(headEnd + 1, dataEnd === -1 ? undefined : dataEnd);
  return {
    head: headOf(value),
    data: data === '' ? null : JSON.parse(data),
    body: dataEnd === -1 ? null : value.slice(dataEnd + 1),
  };
}
