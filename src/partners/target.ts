/**
 * Where a URL leads. Every delivery has a URL of its own, and parsing one as browsers do costs more than anything else in making its
 * request; nearly all are so plain that parsing would change nothing.
 */
import { parsedUrl } from '../kit/url.ts';

/** Written as a parser would write it again: an origin, and a path and query without anything to be encoded or resolved. */
const plainUrl = /^(https?:\/\/[a-z0-9.:[\]-]+)(\/[A-Za-z0-9\-._~!$&()*+,;=:@%/?]*)(?<!\?)$/;
const dotSegment = /\/(?:\.|%2e)/i;
/** Origins are few and parsing is slow: of a plain URL only the origin is parsed, once. */
const origins = new Map<string, URL>();
const originsMax = 10_000;

export interface Target {
  /** For the guard: of a plain URL the origin alone. */
  readonly url: URL;
  readonly path: string;
}

/** Null when it is not a URL. */
export function targetOf(text: string): Target | null {
  const [, origin, path] = dotSegment.test(text) ? [] : (plainUrl.exec(text) ?? []);
  const known = origin === undefined ? undefined : origins.get(origin);
  if (known && path !== undefined) return { url: known, path };
  const url = parsedUrl(text);
  if (url && origin !== undefined && url.origin === origin) {
    if (origins.size >= originsMax) origins.clear();
    origins.set(origin, new URL(origin));
  }
  return url && { url, path: url.pathname + url.search };
}
