/**
 * The simulated network between the hub and its partners. A request arrives at once or not at all; what is slow, lost or broken
 * is the answer. What comes back is read by the hub's own table of outcomes.
 *
 * TEST-NETWORK-1  A dead hub's calls change nothing any more, and nobody hears their ends.
 */
import { HubError, type Outcome } from '../../src/domain/errors.ts';
import type { CommandName } from '../../src/domain/events.ts';
import type {
  OutboundCall,
  PartnerClient,
  PartnerLists,
  PartnerPage,
  PartnerVersions,
} from '../../src/hub/ports/ports.ts';
import { outcomeOf } from '../../src/partners/outcome.ts';
import type { Met } from '../../src/partners/wire/exchange.ts';
import type { Agenda, Life } from './agenda.ts';
import type { Sometimes } from './counters.ts';
import type { Random } from './random.ts';
import type { Fate, SimulatedPartner } from './simulated-partner.ts';

/** What a call is, read from its url. */
export interface Passage {
  readonly kind: 'probe' | 'delivery' | 'authorize' | 'command' | 'result';
  readonly partner: SimulatedPartner;
  readonly call: OutboundCall;
  /** Below the module, decoded. */
  readonly segments: readonly string[];
  readonly module: string;
}

/** Whoever watches the network. */
export interface Watcher {
  /** The call is about to be made: throws when it may not be. The value that comes back goes to `taken` and `ends`. */
  begins(passage: Passage): unknown;
  /** Its partner takes it; resolves with the `data` of the answer. */
  taken(passage: Passage, flight: unknown): unknown;
  ends(passage: Passage, flight: unknown, outcome: Outcome): void;
  point(name: 'call.before' | 'call.after'): void;
}

interface Reaction {
  readonly takesEffect: boolean;
  readonly hit: Sometimes | null;
  /** Null: the call's own limit. */
  readonly ms: readonly [number, number] | null;
  readonly met: (data: unknown) => Met;
}

/** Of the URLs of simulated partners, which are all of one form. */
const hostAndPath = /^http:\/\/([^/]+)([^?]*)/;
const quick = [2, 120] as const;
const answer = (status: number, body: unknown, headers: Record<string, string> = {}): Met => {
  return { kind: 'answer', status, headers, text: typeof body === 'string' ? body : JSON.stringify(body), quirks: [] };
};
const envelope = (status_code: number, data: unknown) => ({ status_code, data, timestamp: '2026-01-01T00:00:00Z' });
const timeout: Met = { kind: 'timeout', status: null, error: null };
const reset = (code: string): Met => ({
  kind: 'failed',
  status: null,
  error: Object.assign(new Error(code), { code }),
});
const lost = 'an answer was lost after the request took effect';
const forGood = 'a partner refused for good';
const never = () => new Promise<never>(() => {});

const reactions: Readonly<Record<Fate, Reaction>> = {
  ok: { takesEffect: true, hit: null, ms: quick, met: (data) => answer(200, envelope(1000, data)) },
  slow: {
    takesEffect: true,
    hit: 'a slow answer came',
    ms: [1_000, 9_000],
    met: (data) => answer(200, envelope(1000, data)),
  },
  timeout: { takesEffect: false, hit: 'a call timed out', ms: null, met: () => timeout },
  timeoutLost: { takesEffect: true, hit: lost, ms: null, met: () => timeout },
  refused: { takesEffect: false, hit: 'a connection was reset', ms: [1, 5], met: () => reset('ECONNREFUSED') },
  resetLost: { takesEffect: true, hit: lost, ms: quick, met: () => reset('ECONNRESET') },
  http500: { takesEffect: false, hit: 'a partner answered 5xx', ms: quick, met: () => answer(500, 'oops') },
  http500Lost: { takesEffect: true, hit: lost, ms: quick, met: () => answer(502, '<html>') },
  http503: {
    takesEffect: false,
    hit: 'a partner answered 503 with Retry-After',
    ms: quick,
    met: () => answer(503, '', { 'retry-after': '20' }),
  },
  http429: {
    takesEffect: false,
    hit: 'a partner answered 429 with Retry-After',
    ms: quick,
    met: () => answer(429, '', { 'retry-after': '45' }),
  },
  http404: { takesEffect: false, hit: forGood, ms: quick, met: () => answer(404, envelope(2003, null)) },
  http401: { takesEffect: false, hit: forGood, ms: quick, met: () => answer(401, envelope(2002, null)) },
  http400: { takesEffect: false, hit: forGood, ms: quick, met: () => answer(400, envelope(2001, null)) },
  notJson: { takesEffect: false, hit: forGood, ms: quick, met: () => answer(200, 'fine') },
  ocpi2001: { takesEffect: false, hit: forGood, ms: quick, met: () => answer(200, envelope(2001, null)) },
  ocpi3000: {
    takesEffect: false,
    hit: 'a partner answered 5xx',
    ms: quick,
    met: () => answer(200, envelope(3000, null)),
  },
};

export interface NetworkParts {
  readonly agenda: Agenda;
  readonly random: Random;
  readonly partners: ReadonlyMap<string, SimulatedPartner>;
  readonly hit: (name: Sometimes) => void;
  readonly trace: (line: string) => void;
  readonly serve: (text: string) => void;
  /** Runs what may break a rule. */
  readonly guarded: (work: () => void) => void;
}

export class Network {
  readonly #parts: NetworkParts;

  constructor(parts: NetworkParts) {
    this.#parts = parts;
  }

  client(life: Life, watcher: Watcher): PartnerClient {
    return { refusal: () => null, call: (call) => (life.isAlive ? this.#call(life, watcher, call) : never()) };
  }

  versions(life: Life): PartnerVersions {
    return {
      discover: async ({ url, encoding }) => {
        const partner = this.#at(url);
        const isGood = reactions[partner.fate()].met(null).kind === 'answer';
        await this.#pass(life, 20);
        if (isGood) return { endpoints: partner.endpoints(), encoding, quirks: [] };
        this.#parts.hit('an exchange failed at the versions of the partner');
        throw new HubError('partnerUnusable');
      },
    };
  }

  lists(life: Life): PartnerLists {
    return {
      pages: ({ url }) => {
        const partner = this.#at(url);
        const module = /\/cpo\/(\w+)/.exec(url)?.[1] ?? '';
        const isGood = partner.fate() === 'ok';
        const texts = [...(partner.own.get(module)?.values() ?? [])];
        const pages: PartnerPage[] = [];
        for (let from = 0; from < texts.length || from === 0; from += 3) {
          const page = {
            texts: texts.slice(from, from + 3),
            total: texts.length,
            madeAt: null,
            behind: 'nothing' as const,
            quirks: [],
          };
          pages.push({ kind: 'page', ...page });
        }
        if (!isGood) pages.push({ kind: 'failed', reason: 'the list broke off' });
        return {
          next: async () => {
            await this.#pass(life, this.#parts.random.between(5, 400));
            const page = pages.shift();
            if (page?.kind === 'page') for (const text of page.texts) this.#parts.serve(text);
            return page ? { done: false, value: page } : { done: true, value: undefined };
          },
        };
      },
    };
  }

  async #call(life: Life, watcher: Watcher, call: OutboundCall): Promise<Outcome> {
    const { agenda, random, hit, trace, guarded } = this.#parts;
    const passage = this.#read(call);
    const { partner, kind } = passage;
    watcher.point('call.before');
    if (!life.isAlive) return never();
    let flight: unknown;
    let data: unknown;
    guarded(() => {
      flight = watcher.begins(passage);
    });
    const { module, segments } = passage;
    const object = [module, ...segments.slice(0, 3)].join('/');
    const broken = kind === 'delivery' ? (partner.broken.get(module) ?? partner.broken.get(object)) : undefined;
    const fate = partner.accepts(call.token) ? (broken ?? partner.fate()) : 'http401';
    const reaction = reactions[fate];
    if (reaction.hit) hit(reaction.hit);
    if (reaction.takesEffect) guarded(() => (data = watcher.taken(passage, flight)));
    trace(`call ${kind} ${call.method} ${call.url} ${call.correlationId} ${fate}`);
    watcher.point('call.after');
    if (!life.isAlive) return never();
    const ms = reaction.ms === null ? call.timeoutMs : random.between(...reaction.ms);
    await this.#pass(life, Math.min(ms, call.timeoutMs));
    const outcome = outcomeOf(reaction.met(data), call, ms, agenda.now);
    guarded(() => watcher.ends(passage, flight, outcome));
    return outcome;
  }

  /** Resolves after so long, unless the hub is dead by then. [TEST-NETWORK-1] */
  #pass(life: Life, ms: number): Promise<void> {
    const { agenda } = this.#parts;
    return new Promise((resolve) => {
      agenda.at(agenda.now + ms, () => life.isAlive && resolve());
    });
  }

  #at(url: string): SimulatedPartner {
    const partner = this.#parts.partners.get(hostAndPath.exec(url)?.[1] ?? '');
    if (!partner) throw new Error(`nobody is at ${url}`);
    return partner;
  }

  #read(call: OutboundCall): Passage {
    const pathname = hostAndPath.exec(call.url)?.[2] ?? '';
    const [, side = '', module = '', ...segments] = pathname.split('/').map(decodeURIComponent);
    const base = { partner: this.#at(call.url), call, module, segments };
    if (side === 'versions') return { ...base, kind: 'probe' };
    if (side === 'results') return { ...base, kind: 'result' };
    if (segments.at(-1) === 'authorize') return { ...base, kind: 'authorize' };
    return { ...base, kind: module === 'commands' ? 'command' : 'delivery' };
  }
}

/** Name and response url of a forwarded command, and the hub's id of it. */
export function readCommand({ call, segments }: Passage): { id: string; name: CommandName; responseUrl: string } {
  const { response_url: responseUrl } = JSON.parse(call.body ?? '{}') as { response_url: string };
  return { id: responseUrl.split('/').at(-1) ?? '', name: segments[0] as CommandName, responseUrl };
}
