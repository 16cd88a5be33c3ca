/**
 * HTTP client for calls to partners: sends one OCPI request and classifies the answer or failure as an Outcome.
 *
 * PARTNERS-CLIENT-1  A call never throws, and ends within its `timeoutMs`.
 * PARTNERS-CLIENT-2  Sockets are kept alive between calls, and opened only to addresses that the egress guard allows.
 *     Deliveries have a separate pool with one socket per delivery in flight, which the sender bounds; other calls
 *     share a pool bounded per origin.
 * PARTNERS-CLIENT-3  TLS is always verified. The only redirect that is followed leads to the same URL with or without a
 *     trailing slash (`slash.ts`).
 * PARTNERS-CLIENT-4  A token appears only in the Authorization header of its request, never in a message or an excerpt.
 * PARTNERS-CLIENT-5  A server that ended a re-used connection instead of answering a call that may not be resent gets
 *     such calls on new connections for `freshForMs`.
 */
import { setMaxListeners } from 'node:events';
import { isIP, type Socket } from 'node:net';
import { DEFAULT_CIPHERS } from 'node:tls';
import buildConnector from 'undici/lib/core/connect.js';
import errors from 'undici/lib/core/errors.js';
import type { Outcome } from '../domain/errors.ts';
import type { HeaderParty, OutboundCall, PartnerClient } from '../hub/ports/ports.ts';
import { type Clock, sleep, withTimeout } from '../kit/clock.ts';
import { memoized } from '../kit/memo.ts';
import { systemClock } from '../kit/system-clock.ts';
import { bareHost, parsedUrl } from '../kit/url.ts';
import { curves, withoutPrimes } from '../transport/client-connection.ts';
import {
  correlationIdHeader,
  instanceHeader,
  requestIdHeader,
  writeAuthorization,
  writeRouting,
} from '../transport/headers.ts';
import { type Egress, EgressRefused } from './egress.ts';
import { outcomeOf } from './outcome.ts';
import { followingSlashes } from './slash.ts';
import { AnswerRoom } from './wire/answer-room.ts';
import { fieldLines, fitsLine, onread } from './wire/connection.ts';
import { Connections, type Connector } from './wire/connections.ts';
import { type Answer, Exchange, type Limits, type Met, type Sent } from './wire/exchange.ts';

export interface PartnerClientOptions {
  readonly egress: Egress;
  /** Clock of all timeouts except `connectMs`, which the socket keeps itself. */
  readonly clock?: Clock;
  /** Program and version. Web application firewalls refuse requests without a User-Agent. [D57] */
  readonly userAgent?: string;
  /** The hub's id in `X-Hub-Instance`, by which it knows its own calls; null: none is sent. [EGRESS-4] */
  readonly instance?: string | null;
  /** Timeout of connecting, TLS handshake included, ms. */
  readonly connectMs?: number;
  /**
   * Timeout until the head of the answer, ms. Only for calls that may be resent: a command may use its whole
   * `timeoutMs`, because cutting it off leaves its outcome unknown. [interface, Commands 2]
   */
  readonly headMs?: number;
  /** Sockets per partner and origin at most, except those of deliveries; further calls wait for one, within their own timeout. */
  readonly connectionsMax?: number;
  /** While more delivery sockets than this are open, none is kept alive after its answer. Default: no limit. */
  readonly keptMax?: number;
  /** Keep-alive of an idle socket when the partner does not state one, ms. */
  readonly keepAliveMs?: number;
  /** Size limit of an answer, bytes. */
  readonly answerMax?: number;
  /** PEM certificates to trust instead of the system's. */
  readonly trusted?: string;
  /**
   * Checked before each call. A refused call that may be resent is held until its timeout or `close` and then fails, so
   * that its retries do not spin; any other refused call fails at once, as after `close`. Default: every call is
   * allowed.
   */
  readonly mayCall?: (call: OutboundCall) => boolean;
}

/** Addresses of a name that are tried within `connectMs`. */
const addressesTried = 3;

const defaults = {
  clock: systemClock,
  userAgent: 'ocpi-hub',
  instance: null as string | null,
  connectMs: 3_000,
  headMs: 10_000,
  connectionsMax: 64,
  keptMax: Number.POSITIVE_INFINITY,
  // Must stay below 5 s, when Node's servers close an idle socket, else a request may meet a closing socket. A
  // partner's keep-alive header overrides it.
  keepAliveMs: 4_000,
  answerMax: 1024 * 1024,
  mayCall: (_call: OutboundCall): boolean => true,
};

/** An outcome with the unchanged text of the answer, for callers that must keep its bytes. [D17] */
export interface Read {
  readonly outcome: Outcome;
  readonly text: string;
  /** Names in lower case. */
  readonly headers: Answer['headers'];
}

export interface Client extends PartnerClient {
  /** Like `call`, for pulls, which need the text of the page and its `Link` header. */
  read(call: OutboundCall): Promise<Read>;
  close(): Promise<void>;
}

export const settingsOf = (options: PartnerClientOptions) => ({ ...defaults, ...options });

/** What an envelope takes beside its data, bytes. */
const envelopeMax = 64 * 1024;

/** Bytes that large answers of one partner to deliveries may have at a time: eight of the usual limit. [ANSWER-ROOM-1] */
const largeAnswersMax = 8 * 1024 * 1024;

/**
 * Some partners answer a push with the object that they got, or with the whole one after a PATCH: an answer may be as
 * large as what was sent. An authorization, and the acceptance of a command, are small.
 */
function answerMaxOf({ body, oneObject, answerMax }: OutboundCall, usual: number): number {
  if (answerMax !== undefined) return Math.min(usual, answerMax);
  if (oneObject === 'allowed' || oneObject === 'result') return Math.min(usual, envelopeMax);
  // A character of the body takes three bytes at most.
  if (body === null || 3 * body.length <= usual) return usual;
  return Math.max(usual, Buffer.byteLength(body) + envelopeMax);
}

/** A new connection takes a round trip, with TLS two; a kept one that ends fails a driver's call. [PARTNERS-CLIENT-5] */
const freshForMs = 10 * 60_000;
/** Beyond so many origins all are forgotten; each is known again from its next such end. */
const originsMax = 1000;

/** The client of one hub. `close` destroys every socket: calls in flight end as `unavailable`. */
export function partnerClient(options: PartnerClientOptions): Client {
  const settings = settingsOf(options);
  const { clock, connectionsMax, keepAliveMs, keptMax } = settings;
  const connect = guardedConnector(settings);
  const ofEach = fieldsOfEach(settings);
  const kept = new Connections({ connect, keepAliveMs, perOrigin: connectionsMax });
  const deliveries = new Connections({ connect, keepAliveMs, perOrigin: null });
  // Resends: a call comes here at most once, and its connection is not kept.
  const fresh = new Connections({ connect, keepAliveMs, perOrigin: null });
  // For PARTNERS-CLIENT-5: none of its connections is kept either.
  const unkept = new Connections({ connect, keepAliveMs, perOrigin: connectionsMax });
  /** Until when origins get calls on new connections, monotonic ms. [PARTNERS-CLIENT-5] */
  const freshUntil = new Map<string, number>();
  const room = new AnswerRoom(largeAnswersMax);
  const closing = new AbortController();
  // One for each held call, whose number the caller bounds: above 10 Node would warn of a leak that is none.
  setMaxListeners(0, closing.signal);
  const meet = followingSlashes(meetOnce, clock);

  function call(call: OutboundCall): Promise<Outcome> {
    return meet(call, (met, startedAt) => outcomeOf(met, call, clock.monotonic() - startedAt, clock.wall()));
  }

  function read(call: OutboundCall): Promise<Read> {
    return meet(call, (met, startedAt) => {
      const outcome = outcomeOf(met, call, clock.monotonic() - startedAt, clock.wall());
      return met.kind === 'answer'
        ? { outcome, text: met.text, headers: met.headers }
        : { outcome, text: '', headers: {} };
    });
  }

  function meetOnce(call: OutboundCall): Promise<Met> | Met {
    const { timeoutMs } = call;
    const isAllowed = !closing.signal.aborted && settings.mayCall(call);
    const sent = isAllowed ? requestOf(call, settings.egress, ofEach) : new errors.ClientClosedError();
    if (sent instanceof Error) {
      const failed: Met = { kind: 'failed', status: null, error: sent };
      return isAllowed || !call.resend ? failed : sleep(clock, timeoutMs, closing.signal).then(() => failed);
    }
    const headMs = call.resend ? Math.min(settings.headMs, timeoutMs) : timeoutMs;
    const answerMax = answerMaxOf(call, settings.answerMax);
    const limits: Limits = { clock, timeoutMs, headMs, answerMax, room: call.isDelivery ? room : undefined };
    const connections = call.isDelivery ? deliveries : !call.resend && isToBeFresh(sent.origin) ? unkept : kept;
    if (connections === unkept || (call.isDelivery && deliveries.open > keptMax)) sent.reset = true;
    const exchange = (within: typeof limits) =>
      new Promise<Met>((settle) => {
        const end = call.resend ? settle : (met: Met) => settle(noted(met, sent.origin));
        connections.dispatch(sent, new Exchange(sent, within, call.resend ? fresh : null, end));
      });
    const looking = lookUp(sent, call.token);
    return looking === null ? exchange(limits) : lookedUp(looking, limits, exchange);
  }

  function isToBeFresh(origin: string): boolean {
    const until = freshUntil.get(origin);
    if (until === undefined) return false;
    if (clock.monotonic() < until) return true;
    freshUntil.delete(origin);
    return false;
  }

  function noted(met: Met, origin: string): Met {
    if (met.kind !== 'failed' || !met.isStale) return met;
    if (freshUntil.size >= originsMax) freshUntil.clear();
    freshUntil.set(origin, clock.monotonic() + freshForMs);
    return met;
  }

  /** The look-up of a name that is not known yet, on the account of the partner; null when none is needed. [NAMES-4] */
  function lookUp({ hostname }: Sent, token: string): Promise<unknown> | null {
    const { names } = settings.egress;
    if (isIP(hostname) !== 0 || names.known(hostname) !== null) return null;
    return names.find(hostname, token);
  }

  async function lookedUp(
    looking: Promise<unknown>,
    limits: Limits,
    exchange: (within: Limits) => Promise<Met>,
  ): Promise<Met> {
    const startedAt = clock.monotonic();
    try {
      const isInTime = await withTimeout(clock, limits.timeoutMs, looking);
      const timeoutMs = limits.timeoutMs - (clock.monotonic() - startedAt);
      if (!isInTime || timeoutMs <= 0) return { kind: 'timeout', status: null, error: null };
      return exchange({ ...limits, timeoutMs, headMs: Math.min(limits.headMs, timeoutMs) });
    } catch (error) {
      return { kind: 'failed', status: null, error: error as NodeJS.ErrnoException };
    }
  }

  async function close(): Promise<void> {
    closing.abort();
    for (const connections of [kept, deliveries, fresh, unkept]) connections.destroy();
  }

  return { call, read, close, refusal: (url) => refusalOf(url, settings.egress) };
}

/**
 * Checks IP literals here, since they cause no look-up, and names in the look-up that the socket itself uses.
 * [EGRESS-2]
 */
export function guardedConnector(settings: typeof defaults & PartnerClientOptions): Connector {
  const { egress, trusted } = settings;
  const connect = buildConnector({
    timeout: settings.connectMs,
    // Node gives up on an address after 250 ms by default and never comes back to it: a name with a second address that cannot be
    // reached, as IPv6 often cannot, would fail whenever the first takes longer, or this process stands still for as long.
    autoSelectFamilyAttemptTimeout: Math.ceil(settings.connectMs / addressesTried),
    lookup: egress.lookup,
    rejectUnauthorized: true,
    ecdhCurve: curves,
    ciphers: withoutPrimes(DEFAULT_CIPHERS),
    onread,
    ...(trusted === undefined ? {} : { ca: trusted }),
  });
  return (target, callback) => {
    const refusal = egress.literalRefusal(target.hostname);
    if (refusal !== null) return callback(new EgressRefused(refusal), null);
    connect(target, (...result) => {
      const [, socket] = result;
      // After a failure there is none.
      const own = socket ? judged(egress, socket) : null;
      if (own === null) return callback(...result);
      socket?.destroy();
      callback(new EgressRefused(own), null);
    });
  };
}

/** A connection that cannot be judged is refused: an error in an event of a socket ends the process. [PARTNERS-CLIENT-1] */
function judged(egress: Egress, socket: Socket): string | null {
  try {
    return egress.connectionRefusal(socket);
  } catch (error) {
    return `the connection cannot be judged (${error instanceof Error ? error.message : error})`;
  }
}

/** The checks that need no look-up. [D67] */
function refusalOf(url: string, egress: Egress): string | null {
  const target = targetOf(url);
  if (target === null) return 'it is not a URL';
  return egress.urlRefusal(target.url) ?? egress.literalRefusal(target.hostname);
}

/** Where a request to this URL goes; an error when it may not be called. */
export function sentTo(url: string, egress: Egress): Pick<Sent, 'origin' | 'hostname' | 'path'> | EgressRefused {
  const target = targetOf(url);
  if (target === null) return new EgressRefused(`${url.slice(0, 200)} is not a URL`);
  const { url: known, origin, hostname, path } = target;
  const refusal = egress.urlRefusal(known);
  return refusal === null ? { origin, hostname, path } : new EgressRefused(refusal);
}

function requestOf(call: OutboundCall, egress: Egress, ofEach: OfEach): Sent | Error {
  const target = sentTo(call.url, egress);
  if (target instanceof Error) return target;
  const { method, source, about } = call;
  const fields = fieldsOf(call, ofEach);
  return { method, fields, body: call.bytes ?? call.body, partner: about?.partner, source, ...target };
}

/** The fields of a request that name neither call nor partner. */
interface OfEach {
  readonly usual: string | null;
  readonly anonymous: string | null;
}

function fieldsOfEach({ userAgent, instance }: Pick<typeof defaults, 'userAgent' | 'instance'>): OfEach {
  const accepted = { Accept: 'application/json', 'Accept-Encoding': 'identity' };
  const own = instance === null ? accepted : { [instanceHeader]: instance, ...accepted };
  return { usual: fieldLines({ 'User-Agent': userAgent, ...own }), anonymous: fieldLines(own) };
}

const contentType = 'Content-Type: application/json\r\n';

const authorization = {
  base64: memoized((token) => fieldLines({ Authorization: writeAuthorization(token, 'base64') })),
  plain: memoized((token) => fieldLines({ Authorization: writeAuthorization(token, 'plain') })),
};

/** By party: those of the directory recur in every call. */
const routing = {
  from: new WeakMap<HeaderParty, string | null>(),
  to: new WeakMap<HeaderParty, string | null>(),
};

function routingLines(side: 'from' | 'to', party: HeaderParty | null): string | null {
  if (party === null) return '';
  const known = routing[side].get(party);
  if (known !== undefined) return known;
  const lines = fieldLines(side === 'from' ? writeRouting(party, null) : writeRouting(null, party));
  routing[side].set(party, lines);
  return lines;
}

/** Null: one of them cannot stand in a line. */
function fieldsOf(call: OutboundCall, ofEach: OfEach): string | null {
  const { token, encoding, requestId, correlationId, isAnonymous, body } = call;
  const fixed = isAnonymous ? ofEach.anonymous : ofEach.usual;
  const [authorized, from, to] = [
    authorization[encoding](token),
    routingLines('from', call.from),
    routingLines('to', call.to),
  ];
  if (fixed === null || authorized === null || from === null || to === null) return null;
  if (!fitsLine(requestId) || !fitsLine(correlationId)) return null;
  const ids = `${requestIdHeader}: ${requestId}\r\n${correlationIdHeader}: ${correlationId}\r\n`;
  return authorized + from + to + fixed + (body === null ? '' : contentType) + ids;
}

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

interface Target extends Place {
  readonly path: string;
}

/**
 * Splits a URL into origin and path; null when `text` is none. Every delivery has its own URL, and parsing it whole would be the most
 * expensive step of making its request; nearly all URLs are so plain that parsing would not change them.
 */
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
