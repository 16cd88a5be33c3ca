/**
 * The form of a stored value, so that no damage is ever served as data: the engine verifies no checksum of its own.
 *
 *     version '1' | CRC-32 of the key, 8 hex | CRC-32 of key and content, 8 hex | head JSON \n data JSON [\n body]
 *
 * STORAGE-RECORDS-1  The second checksum covers key AND content: a flipped bit and a value that moved under another key are both seen.
 * STORAGE-RECORDS-2  The first tells which of the two it was: when the key is the one that was written, the content is known to be lost
 *     and can be made anew; when it is not, nothing is known.
 * STORAGE-RECORDS-3  The body follows raw to the end of the value. `JSON.stringify` writes no line feed, so the first two end the lines.
 * STORAGE-RECORDS-4  What a scan needs stands in the head: scanning parses neither data nor bodies.
 */
import { crc32 } from 'node:zlib';
import { Damaged } from './contract.ts';

const VERSION = '1';
const CRC_DIGITS = 8;
const OF_KEY_AT = VERSION.length;
const OF_BOTH_AT = OF_KEY_AT + CRC_DIGITS;
const CONTENT_AT = OF_BOTH_AT + CRC_DIGITS;

export interface Content {
  readonly head: unknown;
  readonly data: unknown;
  readonly body: string | null;
}

/** `sound`, or where the damage is: in the `content`, or in the `key` (also: a value that belongs to another key). */
export type Condition = 'sound' | 'content' | 'key';

const pairs = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
const pair = (byte: number): string => pairs[byte] as string;
const hex = (crc: number): string =>
  pair(crc >>> 24) + pair((crc >>> 16) & 255) + pair((crc >>> 8) & 255) + pair(crc & 255);

/** `head` and `data` are JSON texts. */
export function encode(key: string, head: string, data = '', body: string | null = null): string {
  const content = body === null ? `${head}\n${data}` : `${head}\n${data}\n${body}`;
  const ofKey = crc32(key);
  return VERSION + hex(ofKey) + hex(crc32(content, ofKey)) + content;
}

/** What is longer is not kept for the next record. */
const SCRATCH_BYTES = 256 << 10;
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
/** UTF-8 has at most so many of a unit of UTF-16. */
const BYTES_MAX = 3;
const LINE_FEED = 0x0a;

/** The same in bytes, and good only until the next call: long text is then neither joined nor made bytes of more than once. */
export function encodeBytes(key: string, head: string, data: string, body: string): Uint8Array {
  const most = CONTENT_AT + BYTES_MAX * (head.length + data.length + body.length) + 2;
  const bytes = most <= SCRATCH_BYTES ? scratch : Buffer.allocUnsafeSlow(most);
  let at = CONTENT_AT + bytes.write(head, CONTENT_AT);
  bytes[at++] = LINE_FEED;
  at += bytes.write(data, at);
  bytes[at++] = LINE_FEED;
  at += bytes.write(body, at);
  const ofKey = crc32(key);
  bytes.write(VERSION + hex(ofKey) + hex(crc32(bytes.subarray(CONTENT_AT, at), ofKey)), 0, 'latin1');
  return bytes.subarray(0, at);
}

export function inspect(key: string, value: string): Condition {
  const ofKey = crc32(key);
  const isSound = storedCrc(value, OF_BOTH_AT) === crc32(value.slice(CONTENT_AT), ofKey);
  if (isSound && value.startsWith(VERSION)) return 'sound';
  return storedCrc(value, OF_KEY_AT) === ofKey ? 'content' : 'key';
}

/** What `hex` wrote; NaN when it cannot have. Text is not cut out for it: every record of a store is inspected when it opens. */
function storedCrc(value: string, at: number): number {
  let crc = 0;
  for (let i = at; i < at + CRC_DIGITS; i++) {
    const code = value.charCodeAt(i);
    if (code >= 0x30 && code <= 0x39) crc = crc * 16 + code - 0x30;
    else if (code >= 0x61 && code <= 0x66) crc = crc * 16 + code - 0x57;
    else return Number.NaN;
  }
  return crc;
}

/** The head alone, of a record that was inspected. */
export function headOf(value: string): unknown {
  return JSON.parse(value.slice(CONTENT_AT, value.indexOf('\n', CONTENT_AT)));
}

/** Throws `Damaged`. Without `withData`, `data` is null. */
export function decode(key: string, value: string, withData = true): Content {
  if (inspect(key, value) !== 'sound') throw new Damaged(key);
  const headEnd = value.indexOf('\n', CONTENT_AT);
  const dataEnd = value.indexOf('\n', headEnd + 1);
  const data = withData ? value.slice(headEnd + 1, dataEnd === -1 ? undefined : dataEnd) : '';
  return {
    head: headOf(value),
    data: data === '' ? null : JSON.parse(data),
    body: dataEnd === -1 ? null : value.slice(dataEnd + 1),
  };
}
