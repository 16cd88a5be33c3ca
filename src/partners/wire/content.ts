/**
 * Decodes compressed answers, and those that are not in UTF-8. The hub requests no compression, but some servers
 * compress anyway. [D57]
 */
import { isUtf8 } from 'node:buffer';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';

const decoders: Readonly<Record<string, typeof gunzipSync>> = {
  gzip: gunzipSync,
  'x-gzip': gunzipSync,
  deflate: inflateSync,
  br: brotliDecompressSync,
};

/**
 * The decoded bytes; null when they exceed `maxBytes`. Bytes with an unknown encoding, or not in the stated one, are
 * returned unchanged: some servers put a character set into Content-Encoding, and parsing the text decides whether it
 * is usable.
 */
export function decoded(bytes: Buffer, encoding: string, maxBytes: number): Buffer | null {
  const decode = decoders[encoding.trim().toLowerCase()];
  if (decode === undefined || bytes.length === 0) return bytes;
  try {
    return decode(bytes, { maxOutputLength: maxBytes });
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? null : bytes;
  }
}

/**
 * The text of a body; null when it is in UTF-8, as JSON is. Otherwise the character set counts that its `Content-Type`
 * names. Without one, a body that has letters in UTF-8 is in UTF-8, but for the bytes that are wrong, and any other is in
 * Windows-1252, which has the letters of Latin-1 where Latin-1 has them. `asUtf8`: how it reads in UTF-8.
 */
export function foreignText(bytes: Buffer, asUtf8: string, contentType: string): string | null {
  if (isUtf8(bytes)) return null;
  const charset = /charset="?([\w.:-]{1,40})/i.exec(contentType)?.[1] ?? '';
  const named = isUtf.test(charset) ? null : inCharset(charset, bytes);
  return named ?? (lettersBeyondAscii.test(asUtf8) ? asUtf8 : inWindows1252(bytes));
}

const isUtf = /^utf-?8$/i;
/** Any but the character that stands for bytes that are wrong. */
const lettersBeyondAscii = /[^\0-\x7f\ufffd]/;

/** Null when nobody knows the character set. */
function inCharset(charset: string, bytes: Buffer): string | null {
  try {
    const decoder = new TextDecoder(charset);
    return decoder.encoding === 'windows-1252' ? inWindows1252(bytes) : decoder.decode(bytes);
  } catch {
    return null;
  }
}

const latin1 = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString('latin1');
/** What 0x80 to 0x9f are in Windows-1252: Node 20 reads them as Latin-1 has them, which is as control characters. */
const beyondLatin1 = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';
/** The character of each byte, in two bytes of UTF-16. */
const windows1252 = Buffer.from(latin1.slice(0, 0x80) + beyondLatin1 + latin1.slice(0xa0), 'utf16le');

/** By a table: an expression that calls a function for each byte takes 0.3 s a MiB. */
function inWindows1252(bytes: Buffer): string {
  const text = Buffer.allocUnsafe(2 * bytes.length);
  for (let at = 0; at < bytes.length; at++) {
    const from = 2 * (bytes[at] as number);
    text[2 * at] = windows1252[from] as number;
    text[2 * at + 1] = windows1252[from + 1] as number;
  }
  return text.toString('utf16le');
}
