/**
 * Splits a URL into origin and path, with a fast path. Every delivery has its own URL, and full URL parsing is the most
 * expensive step of making its request; nearly all URLs are so plain that parsing would not change them.
 */
import { memoized } from '../kit/memo.ts';
import { bareHost, parsedUrl } from '../kit/url.ts';

/** A URL that parsing would not change: an origin, and a path and query without anything to encode or resolve. */
const plainUrl = /^(https?:\/\/[a-z0-9.:[\]-]+)(\/[A-Za-z0-9\-._~!$&()*+,;=:@%/?]*)(?<!\?)$/;
const dotSegment = /\/(?:\.|%2e)/i;
/** Parsing is slow and origins are few, so of a plain URL only the origin is parsed, once. Null: parsing changes it. */
const originOf = memoized((origin) => {
  const url = parsedUrl(origin);
  return url?.origin === origin ? placeOf(url) : null;
});

/** What is known of an origin: the parts of a `URL` are computed at each look. */
interface Place {
  /** Input of the egress guard; for a plain URL only the origin. */
  readonly url: URL;
  readonly origin: string;
  /** Without brackets. */
  readonly hostname: string;
}

const placeOf = (url: URL): Place => ({ url, origin: url.origin, hostname: bareHost(url) });

export interface Target extends Place {
  readonly path: string;
}

/** Null when `text` is not a URL. */
export function targetOf(text: string): Target | null {
  const [, begin, path] = dotSegment.test(text) ? [] : (plainUrl.exec(text) ?? []);
  const known = begin === undefined ? null : originOf(begin);
  if (known && path !== undefined) {
    const { url, origin, hostname } = known;
    return { url, origin, hostname, path };
  }
  const url = parsedUrl(text);
  return url && { path: url.pathname + url.search, ...placeOf(url) };
}
