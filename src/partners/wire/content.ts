/**
 * Decodes compressed answers. The hub requests no compression, but some servers compress anyway. [D57]
 */
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
