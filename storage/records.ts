/**
 * Encoding of stored values with checksums, so that damage is never served as data: LevelDB does not verify checksums
 * when it reads a table.
 *
 *     format | CRC-32 of the key, 8 hex | CRC-32 of key and content, 8 hex | head JSON \n data JSON [\n body]
 *
 * STORAGE-RECORDS-1  The second checksum covers key AND content: it detects a flipped bit as well as a value that moved
 *     to another key.
 * STORAGE-RECORDS-2  The first checksum tells the two apart. When it matches the key, only the content is lost and can
 *     be rebuilt from other records; when it does not, nothing about the record is known.
 * STORAGE-RECORDS-3  The body follows raw, up to the end of the value. `JSON.stringify` writes no line feed, so the
 *     first two line feeds end head and data.
 * STORAGE-RECORDS-4  The head contains everything that a scan needs: scans parse neither data nor bodies.
 * STORAGE-RECORDS-5  The format is one digit in base 36. From format 2 on, the second checksum covers the format as well,
 *     before key and content: a record of a newer format is distinguished from a flipped bit, and is refused, not repaired.
 */
import { crc32 } from 'node:zlib';
import { Damaged, StoreUnavailable } from './contract.ts';

/**
 * Format of the stored data: of records and marks, and of what events and rows mean. A build reads every format up to
 * its own. Raise it with any change that an older build would misread.
 */
export const FORMAT = 1;
const FORMAT_RADIX = 36;
const FORMAT_DIGIT = FORMAT.toString(FORMAT_RADIX);
const CRC_DIGITS = 8;
const OF_KEY_AT = FORMAT_DIGIT.length;
const OF_BOTH_AT = OF_KEY_AT + CRC_DIGITS;
/** Where the head begins. */
export const CONTENT_AT = OF_BOTH_AT + CRC_DIGITS;

export interface Content {
  readonly head: unknown;
  readonly data: unknown;
  readonly body: string | null;
}

/**
 * `sound`, `newer` (sound, in a format that this build does not know), or what is damaged: the `content`, or the `key`
 * (also when the value belongs to another key).
 */
export type Condition = 'sound' | 'newer' | 'content' | 'key';

/** The refusal of data in a format that this build does not know. `what` names the data. */
export const newerFormat = (what: string, format: number | string, known: number = FORMAT): StoreUnavailable =>
  new StoreUnavailable(`${what} has format ${format}, made by a newer ocpi-hub; this one knows ${known}`);

const pairs = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
const pair = (byte: number): string => pairs[byte] as string;
const hex = (crc: number): string =>
  pair(crc >>> 24) + pair((crc >>> 16) & 255) + pair((crc >>> 8) & 255) + pair(crc & 255);

/** `head` and `data` are JSON texts. */
export function encode(key: string, head: string, data = '', body: string | null = null): string {
  const content = body === null ? `${head}\n${data}` : `${head}\n${data}\n${body}`;
  const ofKey = crc32(key);
  return FORMAT_DIGIT + hex(ofKey) + hex(crc32(content, ofKey)) + content;
}

/**
 * Size of the shared scratch buffer, bytes: at first, and at most, which is above that of the largest record of an object. It grows to what is needed and stays: the
 * system would clear each page of a new one, which takes longer than all else about a large record. A still longer record gets a
 * buffer of its own.
 */
const SCRATCH_BYTES = 256 << 10;
const SCRATCH_BYTES_MAX = 5 << 20;
let scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
/** A UTF-16 code unit takes at most 3 bytes of UTF-8. */
const BYTES_MAX = 3;
const LINE_FEED = 0x0a;

/** Bytes of a record of these parts. */
const lengthOf = (head: string, data: string, body: string) =>
  CONTENT_AT + Buffer.byteLength(head) + Buffer.byteLength(data) + Buffer.byteLength(body) + 2;

function roomFor(length: number): Buffer {
  if (length <= scratch.length) return scratch;
  const room = Buffer.allocUnsafeSlow(length);
  if (length <= SCRATCH_BYTES_MAX) scratch = room;
  return room;
}

/**
 * Like `encode`, but as bytes in a shared buffer that is valid only until the next call: long text is neither
 * concatenated nor converted to bytes twice.
 */
export function encodeBytes(key: string, head: string, data: string, body: string): Uint8Array {
  const lengthMax = CONTENT_AT + BYTES_MAX * (head.length + data.length + body.length) + 2;
  const bytes = lengthMax <= scratch.length ? scratch : roomFor(lengthOf(head, data, body));
  let at = CONTENT_AT + bytes.write(head, CONTENT_AT);
  bytes[at++] = LINE_FEED;
  at += bytes.write(data, at);
  bytes[at++] = LINE_FEED;
  at += bytes.write(body, at);
  const ofKey = crc32(key);
  bytes.write(FORMAT_DIGIT + hex(ofKey) + hex(crc32(bytes.subarray(CONTENT_AT, at), ofKey)), 0, 'latin1');
  return bytes.subarray(0, at);
}

/** Characters of which the checksum is taken at once: of more, the copy in bytes would take fresh memory. */
const CRC_CHARACTERS = 64 << 10;

/** CRC-32 of a text in UTF-8 that goes on from another. */
function crcOf(text: string, before: number): number {
  let crc = before;
  for (let at = 0; at < text.length; ) {
    const end = at + CRC_CHARACTERS;
    // Never within a surrogate pair.
    const next = (text.charCodeAt(end - 1) & 0xfc00) === 0xd800 ? end + 1 : end;
    crc = crc32(text.slice(at, next), crc);
    at = next;
  }
  return crc;
}

export function inspect(key: string, value: string): Condition {
  const ofKey = crc32(key);
  const content = value.slice(CONTENT_AT);
  const ofBoth = storedCrc(value, OF_BOTH_AT);
  if (ofBoth === crcOf(content, ofKey) && value.startsWith(FORMAT_DIGIT)) return 'sound';
  if (storedCrc(value, OF_KEY_AT) !== ofKey) return 'key';
  const isNewer = formatOf(value) > FORMAT && ofBoth === crcOf(content, crc32(key, crc32(value.charAt(0))));
  return isNewer ? 'newer' : 'content';
}

/** STORAGE-RECORDS-5: the format that a record names; NaN for none. */
export const formatOf = (value: string): number => Number.parseInt(value.charAt(0), FORMAT_RADIX);

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

/** The parts of a record as they are stored. The caller has inspected the record. */
export function textsOf(value: string): { readonly head: string; readonly data: string; readonly body: string | null } {
  const headEnd = value.indexOf('\n', CONTENT_AT);
  const dataEnd = value.indexOf('\n', headEnd + 1);
  return {
    head: value.slice(CONTENT_AT, headEnd),
    data: value.slice(headEnd + 1, dataEnd === -1 ? undefined : dataEnd),
    body: dataEnd === -1 ? null : value.slice(dataEnd + 1),
  };
}

/** The same of a sound record as bytes: a long body becomes text once, and is not made bytes again for its checksum. Null: `inspect` says what it is. */
function soundTexts(key: string, bytes: Buffer): ReturnType<typeof textsOf> | null {
  const ofBoth = storedCrc(bytes.toString('latin1', 0, CONTENT_AT), OF_BOTH_AT);
  const headEnd = bytes.indexOf(LINE_FEED, CONTENT_AT);
  const dataEnd = bytes.indexOf(LINE_FEED, headEnd + 1);
  const isSound = bytes[0] === FORMAT_DIGIT.charCodeAt(0) && ofBoth === crc32(bytes.subarray(CONTENT_AT), crc32(key));
  if (!isSound || dataEnd === -1) return null;
  return {
    head: bytes.toString('utf8', CONTENT_AT, headEnd),
    data: bytes.toString('utf8', headEnd + 1, dataEnd),
    body: bytes.toString('utf8', dataEnd + 1),
  };
}

/** Throws `Damaged`, and `StoreUnavailable` for a newer format. Without `withData`, `data` is null. */
export function decode(key: string, value: string | Buffer, withData = true): Content {
  const texts = typeof value === 'string' ? null : soundTexts(key, value);
  const { head, data, body } = texts ?? inspectedTexts(key, value.toString());
  return { head: JSON.parse(head), data: data === '' || !withData ? null : JSON.parse(data), body };
}

function inspectedTexts(key: string, value: string): ReturnType<typeof textsOf> {
  const condition = inspect(key, value);
  if (condition === 'newer') throw newerFormat(`the record ${JSON.stringify(key)}`, formatOf(value));
  if (condition !== 'sound') throw new Damaged(key);
  return textsOf(value);
}
