/**
 * Follows trailing-slash redirects: some partners' servers know a path only with, or only without, a slash at its end,
 * and redirect from the other form. [D55]
 *
 * SLASH-1  A call is sent with its own URL, unless its endpoint is known to want the other form.
 * SLASH-2  A 307 or 308 is followed if it leads to the same host, query and path except for the trailing slash: once,
 *     with the same method, body and token, within the call's timeout. A server behind a proxy may know neither scheme
 *     nor port of its callers, so these may be missing in what it says. Servers may rewrite escapes, so decoded paths
 *     are compared, in which an encoded slash stays distinct. The new request goes to the call's own origin, and has
 *     its path with or without slash, never the redirect's.
 * SLASH-3  The form that was answered 2xx is remembered per endpoint and depth below it, because servers route by
 *     depth. It is kept only in memory: after a restart each endpoint and depth costs one extra round trip, once.
 * SLASH-4  A remembered form that the server no longer has fails no delivery: after a 404 that speaks of no object, a
 *     call that may be resent is resent with its own URL. A call that may not be resent ends with the 404, and the form
 *     is forgotten, so that the next call learns it again.
 */
import { withoutLastSlashes } from '../domain/party.ts';
import type { OutboundCall } from '../hub/ports/ports.ts';
import type { Clock } from '../kit/clock.ts';
import { parsedUrl } from '../kit/url.ts';
import { readStatus } from '../transport/envelope.ts';
import type { Answer, Met } from './wire/exchange.ts';

type Meet = (call: OutboundCall) => Promise<Met> | Met;

/**
 * Remembered forms: endpoints of all partners at a few depths each. At the limit all are forgotten and learned again.
 */
const knownMax = 10_000;

/** What a caller makes of the result of a call; `startedAt`: monotonic ms. */
type Judge<T> = (met: Met, startedAt: number) => T;

/** Sends each call in the form that its endpoint wants, and gives what `judge` makes of the result. One per client. */
export function followingSlashes(meet: Meet, clock: Clock): <T>(call: OutboundCall, judge: Judge<T>) => Promise<T> {
  /** Whether paths end with a slash, keyed by `placeOf`. */
  const known = new Map<string, boolean>();

  function inKnownForm(call: OutboundCall): OutboundCall {
    const place = known.size > 0 ? placeOf(call) : null;
    const wantsSlash = place === null ? undefined : known.get(place);
    if (wantsSlash === undefined) return call;
    const url = inForm(call.url, wantsSlash);
    return url === call.url ? call : { ...call, url };
  }

  async function again(call: OutboundCall, url: string, startedAt: number): Promise<Met> {
    const timeoutMs = call.timeoutMs - (clock.monotonic() - startedAt);
    if (timeoutMs <= 0) return { kind: 'timeout', status: null, error: null };
    const met = await meet({ ...call, url, timeoutMs });
    if (url !== call.url) noted(met);
    const place = placeOf(call);
    if (isServed(met) && place !== null) {
      if (known.size >= knownMax) known.clear();
      known.set(place, pathOf(url).endsWith('/'));
    }
    return met;
  }

  /** What follows from the first result: nearly always nothing. */
  function settled(call: OutboundCall, sent: OutboundCall, met: Met, startedAt: number): Promise<Met> | Met {
    if (met.kind !== 'answer') return met;
    const other = otherForm(sent.url, met);
    if (other !== null) return again(call, other, startedAt);
    if (sent !== call) noted(met);
    if (sent === call || met.status !== 404 || isOfObject(call, met)) return met;
    if (call.resend) return again(call, call.url, startedAt).then((asGiven) => (isServed(asGiven) ? asGiven : met));
    const place = placeOf(call);
    if (place !== null) known.delete(place);
    return met;
  }

  return (call, judge) => {
    const startedAt = clock.monotonic();
    const sent = inKnownForm(call);
    return Promise.resolve(meet(sent)).then((first) => {
      const met = settled(call, sent, first, startedAt);
      return met instanceof Promise ? met.then((last) => judge(last, startedAt)) : judge(met, startedAt);
    });
  };
}

/** Notes that a call was answered in another form than its own. */
function noted(met: Met): void {
  if (isServed(met)) met.quirks.push('slash-redirect');
}

/** Whether a 404 may mean an object below the endpoint; at the endpoint itself there is none. */
const isOfObject = ({ endpoint = '', url }: OutboundCall, { text }: Answer): boolean =>
  withoutLastSlashes(pathOf(url)) !== withoutLastSlashes(pathOf(endpoint)) && readStatus(text).ok;

const isServed = (met: Met): met is Answer => met.kind === 'answer' && met.status >= 200 && met.status < 300;

/** The URL with its trailing slash toggled, if the redirect asks for nothing else; else null. */
function otherForm(url: string, answer: Answer): string | null {
  // Nearly every answer ends here, before its fields are read and its URL is parsed.
  if (answer.status !== 307 && answer.status !== 308) return null;
  const { location } = answer.headers;
  const [own, next] = [new URL(url), typeof location === 'string' ? parsedUrl(location, url) : null];
  if (next === null || !isSameHost(own, next) || next.search !== own.search) return null;
  const [asked, wanted] = [decodedPath(own.pathname), decodedPath(next.pathname)];
  if (wanted === `${asked}/`) return `${own.origin}${own.pathname}/${own.search}`;
  return asked === `${wanted}/` ? `${own.origin}${own.pathname.slice(0, -1)}${own.search}` : null;
}

const isSameHost = (own: URL, next: URL): boolean =>
  next.hostname === own.hostname && (next.port === own.port || presetPorts.has(next.port));

/** Ports that a URL need not name, of either scheme. */
const presetPorts: ReadonlySet<string> = new Set(['', '80', '443']);

/**
 * A path with its escapes decoded, except those of `/` and `%`, so that paths with different segments stay different.
 */
function decodedPath(path: string): string {
  return path.replaceAll(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
    try {
      return decodeURIComponent(escapes).replaceAll(/[%/]/g, encodeURIComponent);
    } catch {
      return escapes;
    }
  });
}

/** A URL without query and fragment. */
const pathOf = (url: string): string => url.slice(0, endOfPath(url));

function endOfPath(url: string): number {
  const end = url.search(/[?#]/);
  return end < 0 ? url.length : end;
}

function inForm(url: string, wantsSlash: boolean): string {
  const end = endOfPath(url);
  return `${withoutLastSlashes(url.slice(0, end))}${wantsSlash ? '/' : ''}${url.slice(end)}`;
}

/**
 * Key of a remembered form: the endpoint and the URL's depth below it; null when nothing is remembered for the call.
 */
function placeOf({ endpoint, url }: OutboundCall): string | null {
  if (endpoint === undefined) return null;
  const [base, path] = [withoutLastSlashes(pathOf(endpoint)), withoutLastSlashes(pathOf(url))];
  if (path !== base && !path.startsWith(`${base}/`)) return null;
  return `${path.slice(base.length).split('/').length} ${base}`;
}
