/**
 * Encoding of stored values with checksums, so that damage is never served as data: LevelDB does not verify checksums
 * when it reads a table.
 *
 *     version '1' | CRC-32 of the key, 8 hex | CRC-32 of key and content, 8 hex | head JSON \n data JSON [\n body]
 *
 * STORAGE-RECORDS-1  The second checksum covers key AND content: it detects a flipped bit as well as a value that moved
 *     to another key.
 * STORAGE-RECORDS-2  The first checksum tells the two apart. When it matches the key, only the content is lost and can
 *     be rebuilt from other records; when it does not, nothing about the record is known.
 * STORAGE-RECORDS-3  The body follows raw, up to the end of the value. `JSON.stringify` writes no line feed, so the
 *     first two line feeds end head and data.
 * STORAGE-RECORDS-4  The head contains everything that a scan needs: scans parse neither data nor bodies.
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

/** `sound`, or what is damaged: the `content`, or the `key` (also when the value belongs to another key). */
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

/** Size of the shared scratch buffer, bytes. A longer record gets a buffer of its own, which is not kept. */
const SCRATCH_BYTES = 256 << 10;
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
/** A UTF-16 code unit takes at most 3 bytes of UTF-8. */
const BYTES_MAX = 3;
const LINE_FEED = 0x0a;

/**
 * Like `encode`, but as bytes in a shared buffer that is valid only until the next call: long text is neither
 * concatenated nor converted to bytes twice.
 */
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

/** Parses what `hex` writes; NaN for any other text. Takes no substring: opening a store inspects every record. */
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

/** Parses only the head. The caller has inspected the record. */
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
