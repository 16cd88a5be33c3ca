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
 * The text of a body; null when it is in UTF-8, as JSON is. Otherwise the character set of its `Content-Type` counts,
 * and without one that is known Windows-1252, which has the letters of Latin-1 where Latin-1 has them.
 */
export function foreignText(bytes: Buffer, contentType: string): string | null {
  if (isUtf8(bytes)) return null;
  const charset = /charset="?([\w.:-]{1,40})/i.exec(contentType)?.[1] ?? '';
  return (isUtf.test(charset) ? null : inCharset(charset, bytes)) ?? new TextDecoder('windows-1252').decode(bytes);
}

const isUtf = /^utf-?8$/i;

/** Null when nobody knows the character set. */
function inCharset(charset: string, bytes: Buffer): string | null {
  try {
    return new TextDecoder(charset).decode(bytes);
  } catch {
    return null;
  }
}
