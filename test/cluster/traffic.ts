/**
 * Partners that push, ask for authorizations and send commands with results, each request to a node that the test chooses, and what they
 * felt: what failed, how long each kind took, and how late deliveries and results came.
 */
import { Agent, request } from 'undici';
import { locationBody, sessionBody, tokenBody } from '../support/bodies.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { eventually, type PlainPartner } from '../support/plain-partner.ts';
import type { Test } from '../support/tap.ts';
import { isExcused, type Load, type Write } from './load.ts';
import type { Nodes } from './nodes.ts';

const kinds = ['push', 'authorize', 'command', 'callback'] as const;
type Kind = (typeof kinds)[number];

interface Asked {
  readonly kind: Kind;
  readonly url: string;
  /** Monotonic milliseconds; the second is 0 while it waits. */
  readonly begunAt: number;
  endedAt: number;
  /** OCPI status code of a success; else the HTTP status; 0 when no answer came. */
  status: number;
  /** The answer to what failed, or why none came. */
  said: string;
}

export interface Traffic {
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  readonly asked: readonly Asked[];
  /** Objects of which the eMSP got an update while it had not answered the one before. */
  readonly doubled: readonly string[];
  /** The pushes, as `mustAddUp` takes them. */
  readonly pushes: Pick<Load, 'writes' | 'acknowledged'>;
  /** Begun since, and failed, without those that a standstill of this machine may have cost. */
  failed(since?: number): Asked[];
  /** A line of each kind: how many, how many failed, median and longest wait, and how late deliveries and results were. */
  summary(since?: number, url?: string): string;
  /** Resolves when so many of each kind that begin from now on, all through one node when it is named, have ended well. */
  goesOn(count?: number, url?: string): Promise<void>;
  /** No more requests begin; resolves when those under way have ended, callbacks included. */
  stop(): Promise<void>;
}

export interface TrafficOptions {
  /** The node that the next request goes to. */
  readonly choose: (kind: Kind) => string;
  /** Milliseconds between two requests of a sender. */
  readonly pauseMs?: number;
  readonly workers?: number;
  readonly name?: string;
}

const limitMs = 60_000;
/** Two busy cores answer slowly. */
const patienceMs = 180_000;
/** For so long the eMSP has an update before it answers, ms. */
const answersMs = 20;

interface Made {
  readonly path: string;
  readonly method: string;
  readonly body: object | null;
  readonly to?: PlainPartner;
}

/** CPO NL-CPO and eMSP NL-EMS. Every body and every command is sent once. */
export async function startTraffic(t: Test, nodes: Nodes, options: TrafficOptions): Promise<Traffic> {
  const { choose, pauseMs = 40, workers = 2, name = 'V' } = options;
  const agent = new Agent({ headersTimeout: limitMs, bodyTimeout: limitMs });
  t.teardown(() => agent.destroy());
  const asked: Asked[] = [];
  const writes: (Write & { readonly url: string })[] = [];
  const arrivedAt = new Map<string, number>();
  const commandedAt = new Map<string, { readonly at: number; readonly url: string }>();
  const resultAt = new Map<string, number>();
  const doubled: string[] = [];
  const held = new Set<string>();
  let running = true;
  let number = 0;
  const callbacks = new Set<Promise<unknown>>();

  const { cpo, emsp } = await routedPair(t, nodes, {
    cpo({ path, body }) {
      if (!path.includes('/commands/')) return {};
      const { response_url } = JSON.parse(body) as { response_url: string };
      const calling = callBack(new URL(response_url).pathname);
      callbacks.add(calling);
      void calling.finally(() => callbacks.delete(calling));
      return { body: { result: 'ACCEPTED', timeout: 30 } };
    },
    async emsp({ path, body }) {
      if (path.includes('/authorize')) return { body: { allowed: 'ALLOWED' } };
      const id = /\/results\/(\w+)$/.exec(path)?.[1];
      if (id !== undefined) resultAt.set(id, resultAt.get(id) ?? performance.now());
      else if (!arrivedAt.has(body)) arrivedAt.set(body, performance.now());
      if (held.has(path)) doubled.push(path);
      held.add(path);
      await new Promise((resolve) => setTimeout(resolve, answersMs));
      held.delete(path);
      return {};
    },
  });

  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));

  async function callBack(path: string): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 20));
    await send('callback', choose('callback'), cpo, { path, method: 'POST', body: { result: 'ACCEPTED' } });
  }

  async function send(kind: Kind, url: string, from: PlainPartner, { path, method, body, to }: Made): Promise<Asked> {
    const one: Asked = { kind, url, begunAt: performance.now(), endedAt: 0, status: 0, said: '' };
    asked.push(one);
    const [country = '', party = ''] = to?.id.split('-') ?? [];
    try {
      const answer = await request(`${url}${path}`, {
        ...{ method: method as 'PUT', dispatcher: agent, body: body === null ? null : JSON.stringify(body) },
        headers: {
          authorization: `Token ${Buffer.from(from.hubToken).toString('base64')}`,
          ...(body !== null && { 'content-type': 'application/json' }),
          ...(to && { 'ocpi-to-country-code': country, 'ocpi-to-party-id': party }),
        },
      });
      const text = await answer.body.text();
      const { status_code, data } = JSON.parse(text) as { status_code: number; data?: { result?: string } };
      const isDone = status_code === 1000 && (data?.result ?? 'ACCEPTED') === 'ACCEPTED';
      one.status = isDone ? status_code : answer.statusCode;
      if (!isDone) one.said = text;
    } catch (error) {
      one.said = `${error}: ${(error as Error).cause ?? ''}`;
    }
    one.endedAt = performance.now();
    return one;
  }

  async function push(worker: number, n: number): Promise<void> {
    const id = `${name}-${worker}-${n % 3}`;
    const at = new Date(Date.UTC(2026, 0, 1) + n * 1000).toISOString();
    const body = sessionBody(id, { kwh: n, last_updated: at });
    const url = choose('push');
    const write = {
      object: `sessions/NL-CPO/${id}`,
      body: JSON.stringify(body),
      url,
      begunAt: 0,
      endedAt: 0,
      status: 0,
    };
    writes.push(write);
    const { status, endedAt } = await send('push', url, cpo, {
      ...{ path: `/ocpi/2.2.1/sessions/NL/CPO/${id}`, method: 'PUT', body },
    });
    Object.assign(write, { status: status === 1000 ? 200 : status, endedAt });
  }

  async function authorize(): Promise<void> {
    const path = '/ocpi/2.2.1/tokens/CARD1/authorize?type=RFID';
    await send('authorize', choose('authorize'), cpo, { path, method: 'POST', body: { location_id: 'L1' }, to: emsp });
  }

  async function command(_worker: number, n: number): Promise<void> {
    const id = `${name}${n}`;
    const url = choose('command');
    const body = { response_url: `${emsp.url}/ocpi/2.2.1/results/${id}`, token: tokenBody('CARD1'), location_id: 'L1' };
    const { status, begunAt } = await send('command', url, emsp, {
      ...{ path: '/ocpi/2.2.1/commands/START_SESSION', method: 'POST', body, to: cpo },
    });
    if (status === 1000) commandedAt.set(id, { at: begunAt, url });
  }

  const sender = async (work: (worker: number, n: number) => Promise<void>, worker: number) => {
    while (running) {
      number += 1;
      await work(worker, number);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  };
  const all = Promise.all(
    [push, authorize, command].flatMap((work) => Array.from({ length: workers }, (_, worker) => sender(work, worker))),
  );

  const of = (since: number, url?: string) => (one: { begunAt?: number; endedAt: number; url: string }) =>
    one.endedAt !== 0 && (one.begunAt || one.endedAt) >= since && (url === undefined || one.url === url);
  const failed = (since = 0) => asked.filter((one) => of(since)(one) && one.status !== 1000 && !isExcused(one));
  const isAcknowledged = ({ status }: Write) => status === 200;
  return {
    ...{ cpo, emsp, asked, doubled, failed },
    pushes: { writes, acknowledged: (behind = 0) => writes.slice(behind).filter(isAcknowledged) },
    async goesOn(count = 20, url) {
      const since = performance.now();
      const done = (kind: Kind) =>
        asked.filter((one) => one.kind === kind && of(since, url)(one) && one.status === 1000).length >= count;
      await eventually(`${count} more of each kind end well`, () => kinds.every(done), patienceMs);
    },
    summary(since = 0, url) {
      const waits = kinds.map((kind) => {
        const some = asked.filter((one) => one.kind === kind && of(since, url)(one));
        const bad = some.filter(({ status }) => status !== 1000).length;
        return `${kind} ${some.length} (${bad} failed) ${spread(some.map(({ begunAt, endedAt }) => endedAt - begunAt))}`;
      });
      const deliveries = writes
        .filter((write) => isAcknowledged(write) && of(since, url)(write))
        .flatMap(({ body, endedAt }) => (arrivedAt.has(body) ? [(arrivedAt.get(body) ?? 0) - endedAt] : []));
      const results = [...commandedAt]
        .filter(([, { at, url: through }]) => at >= since && (url === undefined || url === through))
        .flatMap(([id, { at }]) => (resultAt.has(id) ? [(resultAt.get(id) ?? 0) - at] : []));
      return [
        ...waits,
        `delivered ${deliveries.length} ${spread(deliveries)}`,
        `results ${results.length} ${spread(results)}`,
      ].join('; ');
    },
    async stop() {
      running = false;
      await all;
      while (callbacks.size > 0) await Promise.all(callbacks);
    },
  };
}

/** Median, 95th percentile and the longest, in milliseconds. */
function spread(values: readonly number[]): string {
  if (values.length === 0) return '-';
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0);
  return `${at(0.5)}/${at(0.95)}/${at(1)} ms`;
}

interface Chooser {
  readonly choose: () => string;
  /** Asks all of them now. */
  look(): Promise<void>;
}

/** Chooses the next node that says it is ready, asked once a second; nothing is tried again elsewhere. */
export function chooser(t: Pick<Test, 'teardown'>, urls: () => readonly string[]): Chooser {
  let ready: readonly string[] = urls();
  let turn = 0;
  const look = async () => {
    const all = urls();
    const states = await Promise.all(all.map(isReady));
    ready = all.filter((_, i) => states[i]);
  };
  const looking = setInterval(() => void look(), 1000);
  t.teardown(() => clearInterval(looking));
  return {
    look,
    choose() {
      turn += 1;
      return ready[turn % ready.length] ?? urls()[0] ?? '';
    },
  };
}

const isReady = (url: string): Promise<boolean> =>
  fetch(`${url}/readyz`, { signal: AbortSignal.timeout(1000) }).then(
    ({ status }) => status === 200,
    () => false,
  );
