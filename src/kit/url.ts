/**
 * Parses URLs without `URL.canParse`: once V8 has compiled a call of it, Node 20.20 misreads text with a letter like ü
 * as UTF-8, and rejects a host that `new URL` accepts.
 */

/** Longest host, with user and port, of a URL that is parsed. DNS allows 253 characters. */
const authorityMax = 512;
/**
 * One with letters beyond ASCII: to write it in ASCII takes time by the square of its length, 0.2 ms for so many characters, 3 ms for 500.
 */
const foreignMax = 128;
const beyondAscii = /[^\0-\x7f]/;
/** What a parser may take for the authority, with and without a scheme. */
const authority = /^[^:/?#\\]*:?[\s/\\]*([^/?#\\]*)/;

/** Parses a URL; null when the text is not one, or its host is longer than any. */
export function parsedUrl(text: string, base?: string | URL): URL | null {
  if (text.length > foreignMax && isTooLong(authority.exec(text)?.[1] ?? '')) return null;
  try {
    return new URL(text, base);
  } catch {
    return null;
  }
}

/** Parses a URL of http or https; null for any other text, such as a host and port without a scheme. */
export function parsedHttpUrl(text: string): URL | null {
  const url = parsedUrl(text);
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : null;
}

const isTooLong = (host: string): boolean =>
  host.length > authorityMax || (host.length > foreignMax && beyondAscii.test(host));

const isDowngrade = (to: URL, from: URL): boolean => from.protocol === 'https:' && to.protocol === 'http:';

/**
 * A URL with http on the host and port of one with https, as https: partners behind a TLS-terminating proxy often take
 * their own scheme for http. Null for any other, which is used as it is.
 */
export function secured(url: string, from: string): string | null {
  const [own, before] = [parsedUrl(url), parsedUrl(from)];
  if (own === null || before === null || !isDowngrade(own, before) || own.host !== before.host) return null;
  own.protocol = 'https:';
  return own.href;
}

/**
 * Resolves a link, which may be relative. A link from https to http on the same host is read as https. Null when it is
 * no URL, or leads from https to http on another host. [PULL-3]
 */
export function resolvedLink(link: string, from: string): string | null {
  const [next, before] = [parsedUrl(link, from), new URL(from)];
  if (link === '' || next === null) return null;
  next.hash = '';
  return isDowngrade(next, before) ? secured(next.href, from) : next.href;
}

/** The host of a URL without the brackets of an IPv6 address. */
export const bareHost = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '');

/** The port of a URL, also where it is the default of the scheme. */
export const portOf = ({ port, protocol }: URL): number => Number(port) || (protocol === 'https:' ? 443 : 80);
