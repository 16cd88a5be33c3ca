/**
 * The hub's way out: one OCPI request to a partner, and whatever comes back as an Outcome. [delivery]
 *
 * PARTNERS-CLIENT-1  A call never throws, and ends within its `timeoutMs`.
 * PARTNERS-CLIENT-2  Sockets are kept alive between calls, and opened only to addresses that the egress guard allows. Deliveries have sockets of their
 *     own, as many as are in flight, which their sender bounds; for all other calls they are bounded per partner address.
 * PARTNERS-CLIENT-3  TLS is always verified; no redirect is followed but one to the same URL with or without a slash at its end (`slash.ts`).
 * PARTNERS-CLIENT-4  A token appears in the request's own header and nowhere else: neither in a message nor in an excerpt.
 */
import { Agent, buildConnector, type Dispatcher, errors, Pool } from 'undici';
import type { Outcome } from '../domain/errors.ts';
import type { OutboundCall, PartnerClient } from '../hub/ports/ports.ts';
import { type Clock, sleep, withTimeout } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { writeHeaders } from '../transport/headers.ts';
import { type Egress, EgressRefused } from './egress.ts';
import { type Connector, Exchange, Line, type Sent } from './exchange.ts';
import { type Answer, type Met, outcomeOf } from './outcome.ts';
import { followingSlashes } from './slash.ts';
import { targetOf } from './target.ts';

export interface PartnerClientOptions {
  readonly egress: Egress;
  /** All limits go by it but that of a connection, which is its socket's. */
  readonly clock?: Clock;
  /** Says which program and version calls: firewalls of web applications refuse requests that do not. [D57] */
  readonly userAgent?: string;
  /** Limit for a connection with its TLS handshake, milliseconds. */
  readonly connectMs?: number;
  /**
   * Limit until the head of the answer has come, milliseconds. Only for calls that may be sent again: of a command the
   * partner may use the whole time, because to cut it off leaves its fate unknown. [interface, Commands 2]
   */
  readonly headMs?: number;
  /** Sockets to one origin at most, those of deliveries aside; more calls wait for one, within their own time. */
  readonly connectionsMax?: number;
  /** While more sockets of deliveries than this are open, none is kept after its answer. Default: all are. */
  readonly keptMax?: number;
  /** Milliseconds for which an idle socket is kept when the partner does not say. */
  readonly keepAliveMs?: number;
  /** Bytes of an answer at most. */
  readonly answerMax?: number;
  /** PEM certificates to trust instead of the system's. */
  readonly trusted?: string;
  /** How long `close` lets calls in flight go on, milliseconds. */
  readonly closeGraceMs?: number;
  /**
   * Asked before each call. What is not allowed and may be sent again waits for the end of its time or of the client, so that it does
   * not fail again and again; the rest ends as it does after `close`. Default: always.
   */
  readonly mayCall?: (call: OutboundCall) => boolean;
}

const defaults = {
  clock: systemClock,
  userAgent: 'ocpi-hub',
  connectMs: 3_000,
  headMs: 10_000,
  connectionsMax: 64,
  keptMax: Number.POSITIVE_INFINITY,
  // Under the 5 s after which Node's own servers close an idle socket; longer only when the partner says so.
  keepAliveMs: 4_000,
  answerMax: 1024 * 1024,
  closeGraceMs: 10_000,
  mayCall: (_call: OutboundCall): boolean => true,
};

/** An outcome with the answer as it came, for what must keep its bytes. [D17] */
export interface Read {
  readonly outcome: Outcome;
  readonly text: string;
  /** Names in lower case. */
  readonly headers: Answer['headers'];
}

export interface Client extends PartnerClient {
  /** Like `call`, for pulls: they need the text of the page and its `Link`. */
  read(call: OutboundCall): Promise<Read>;
  close(): Promise<void>;
}

/** The client of one hub. `close` lets what is in flight end, for a while, and frees every socket. */
export function partnerClient(options: PartnerClientOptions): Client {
  const settings = { ...defaults, ...options };
  const { clock, connectionsMax, keptMax } = settings;
  const connect = guardedConnector(settings);
  const kept = agentOf(settings, connect, connectionsMax);
  let deliverySockets = 0;
  const counted: Connector = (target, callback) =>
    connect(target, (...result) => {
      if (result[1]) {
        deliverySockets++;
        result[1].once('close', () => deliverySockets--);
      }
      callback(...result);
    });
  const deliveries = agentOf(settings, counted, null);
  // Each call comes here once at most, and its socket is not kept.
  const fresh = agentOf(settings, connect, null);
  let inFlight = 0;
  let onIdle: (() => void) | null = null;
  let closing = false;
  const heldBack = new Set<() => void>();
  const meet = followingSlashes(meetOnce, clock);

  async function call(call: OutboundCall): Promise<Outcome> {
    const startedAt = clock.monotonic();
    return ended(call, startedAt, await begun(call));
  }

  async function read(call: OutboundCall): Promise<Read> {
    const startedAt = clock.monotonic();
    const met = await begun(call);
    const outcome = ended(call, startedAt, met);
    return met.kind === 'answer'
      ? { outcome, text: met.text, headers: met.headers }
      : { outcome, text: '', headers: {} };
  }

  function begun(call: OutboundCall): Promise<Met> | Met {
    inFlight++;
    return meet(call);
  }

  function ended(call: OutboundCall, startedAt: number, met: Met): Outcome {
    inFlight--;
    if (inFlight === 0) onIdle?.();
    return outcomeOf(met, call, clock.monotonic() - startedAt, clock.now());
  }

  function meetOnce(call: OutboundCall): Promise<Met> | Met {
    const { timeoutMs } = call;
    const isAllowed = !closing && settings.mayCall(call);
    const sent = isAllowed ? requestOf(call, settings) : new errors.ClientClosedError();
    if (sent instanceof Error) {
      const failed: Met = { kind: 'failed', status: null, error: sent };
      return isAllowed || closing || !call.resend ? failed : heldFor(timeoutMs).then(() => failed);
    }
    const headMs = call.resend ? Math.min(settings.headMs, timeoutMs) : timeoutMs;
    const limits = { clock, timeoutMs, headMs, answerMax: settings.answerMax };
    const agent = call.isDelivery ? deliveries : kept;
    if (call.isDelivery && deliverySockets > keptMax) sent.reset = true;
    return new Promise((settle) => {
      agent.dispatch(sent, new Exchange(sent, limits, call.resend ? fresh : null, settle));
    });
  }

  async function heldFor(timeoutMs: number): Promise<void> {
    let end = () => {};
    await sleep(clock, timeoutMs, (wake) => {
      end = wake;
      heldBack.add(end);
    });
    heldBack.delete(end);
  }

  async function close(): Promise<void> {
    closing = true;
    for (const end of heldBack) end();
    if (inFlight > 0) {
      const idle = new Promise<void>((resolve) => {
        onIdle = resolve;
      });
      await withTimeout(clock, settings.closeGraceMs, idle);
    }
    // Whatever is still in flight ends now, as `unavailable`.
    await Promise.all([kept, deliveries, fresh].map((agent) => agent.destroy()));
  }

  return { call, read, close };
}

/** `connections`: to one origin at most; null: as many as are asked for. */
function agentOf({ keepAliveMs }: { keepAliveMs: number }, connect: Connector, connections: number | null): Agent {
  return new Agent({
    connections,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: 60_000,
    // The exchange keeps time itself.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect,
    factory: (origin, pool: Pool.Options) =>
      new Pool(origin, { ...pool, factory: (target, line: object) => new Line(target, { ...line, connect }) }),
  });
}

/** Literal addresses are checked here, since no look-up sees them; names in the look-up that the socket itself uses. */
function guardedConnector(settings: typeof defaults & PartnerClientOptions): Connector {
  const { egress, trusted } = settings;
  const connect = buildConnector({
    timeout: settings.connectMs,
    lookup: egress.lookup,
    rejectUnauthorized: true,
    ...(trusted === undefined ? {} : { ca: trusted }),
  });
  return (target, callback) => {
    const refusal = egress.literalRefusal(target.hostname);
    if (refusal !== null) return callback(new EgressRefused(refusal), null);
    connect(target, callback);
  };
}

function requestOf(
  call: OutboundCall,
  { egress, userAgent }: { readonly egress: Egress; readonly userAgent: string },
): Sent | Error {
  const target = targetOf(call.url);
  const refusal = target === null ? `${call.url.slice(0, 200)} is not a URL` : egress.urlRefusal(target.url);
  if (target === null || refusal !== null) return new EgressRefused(refusal ?? '');
  const headers = writeHeaders(call);
  headers['User-Agent'] = userAgent;
  headers.Accept = 'application/json';
  headers['Accept-Encoding'] = 'identity';
  if (call.body !== null) headers['Content-Type'] = 'application/json';
  const method: Dispatcher.HttpMethod = call.method;
  return { origin: target.url.origin, path: target.path, method, headers, body: call.bytes ?? call.body };
}
