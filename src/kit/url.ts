/**
 * URLs as text. `URL.canParse` is not used: once V8 has compiled a call of it, Node 20.20 reads text with a letter like ü as if it were
 * UTF-8, and refuses a host that `new URL` takes.
 */

/** Null when it is not a URL. */
export function parsedUrl(text: string, base?: string | URL): URL | null {
  try {
    return new URL(text, base);
  } catch {
    return null;
  }
}
