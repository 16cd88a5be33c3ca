/**
 * Answers in an encoding that the hub did not ask for: it asks for none, and some servers compress all the same. [D57]
 */
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';

const decoders: Readonly<Record<string, typeof gunzipSync>> = {
  gzip: gunzipSync,
  'x-gzip': gunzipSync,
  deflate: inflateSync,
  br: brotliDecompressSync,
};

/**
 * What the bytes say, `maxBytes` at most; null when that is more. An unknown name, and bytes that are not in the encoding that they are
 * said to be in, are left as they are: servers also put the name of a character set there, and the reader of the text judges it.
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
