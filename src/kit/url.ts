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

/** The host of a URL without the brackets of an IPv6 address. */
export const bareHost = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '');

/** The port of a URL, also where it is the default of the scheme. */
export const portOf = ({ port, protocol }: URL): number => Number(port) || (protocol === 'https:' ? 443 : 80);
