/**
 * Parses URLs without `URL.canParse`: once V8 has compiled a call of it, Node 20.20 misreads text with a letter like ü
 * as UTF-8, and rejects a host that `new URL` accepts.
 */

/** Parses a URL; null when the text is not one. */
export function parsedUrl(text: string, base?: string | URL): URL | null {
  try {
    return new URL(text, base);
  } catch {
    return null;
  }
}
