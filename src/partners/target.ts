/**
 * Splits a URL into origin and path, with a fast path. Every delivery has its own URL, and full URL parsing is the most
 * expensive step of making its request; nearly all URLs are so plain that parsing would not change them.
 */
import { memoized } from '../kit/memo.ts';
import { parsedUrl } from '../kit/url.ts';

/** A URL that parsing would not change: an origin, and a path and query without anything to encode or resolve. */
const plainUrl = /^(https?:\/\/[a-z0-9.:[\]-]+)(\/[A-Za-z0-9\-._~!$&()*+,;=:@%/?]*)(?<!\?)$/;
const dotSegment = /\/(?:\.|%2e)/i;
/** Parsing is slow and origins are few, so of a plain URL only the origin is parsed, once. Null: parsing changes it. */
const originOf = memoized((origin) => {
  const url = parsedUrl(origin);
  return url?.origin === origin ? url : null;
});

export interface Target {
  /** Input of the egress guard; for a plain URL only the origin. */
  readonly url: URL;
  readonly path: string;
}

/** Null when `text` is not a URL. */
export function targetOf(text: string): Target | null {
  const [, origin, path] = dotSegment.test(text) ? [] : (plainUrl.exec(text) ?? []);
  const known = origin === undefined ? null : originOf(origin);
  if (known && path !== undefined) return { url: known, path };
  const url = parsedUrl(text);
  return url && { url, path: url.pathname + url.search };
}
