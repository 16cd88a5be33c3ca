/**
 * Rate limits per minute and party (credentials exchanges: per partner). [D35] A window opens with the first request
 * after the previous window ended and grants exactly its number of requests, so "200 per minute" is exact. A request
 * that touches much counts as several, because its cost grows with the bytes that it sends, reads or changes. What a
 * command looks up in others' objects does not count.
 *
 * Memory is bounded by parties × budgets: only authenticated parties have windows, and ended windows are removed.
 *
 * LIMITS-1  Several nodes share a budget: each tells the others what it granted, a fifth of the budget divided by their number at a
 *     time, so all of them grant 1.2 times the budget at most. What is on its way meanwhile comes on top.
 * LIMITS-2  They never grant less: a window counts only what was granted in the minute before its end. A window ends when that of a
 *     node ends which began earlier.
 */
import { HubError } from '../domain/errors.ts';
import type { PartyId } from '../domain/party.ts';

/** What a request counts against; each list endpoint has its own budget. */
export type Budget = `list:${string}` | 'commands' | 'exchanges' | 'other';

/** Requests per minute and party. */
export interface Rates {
  readonly listsPerMin: number;
  readonly commandsPerMin: number;
  readonly exchangesPerMin: number;
  readonly otherPerMin: number;
}

export interface RateLimiter {
  /** Takes one request out of the party's budget; refuses with `rateLimited`. */
  spend(party: PartyId, budget: Budget): Touch;
  /** Counts what another node granted. */
  spentElsewhere(spent: Spent): void;
}

/** What a node granted of a budget since its last message. */
export interface Spent {
  readonly party: string;
  readonly budget: string;
  /** Requests. */
  readonly count: number;
  /** Since the window began there. */
  readonly ageMs: number;
}

/** The other nodes that grant requests. */
export interface OtherNodes {
  count(): number;
  tell(spent: Spent): void;
}

/**
 * Counts bytes that the request touches: `touchedPerRequest` of them as one more request. Refuses with `rateLimited`
 * when the party's other requests have used up the budget.
 */
export type Touch = (bytes: number) => void;

/** Bytes that a request touches at the price of one; nearly all objects are smaller. */
const touchedPerRequest = 64 * 1024;

const windowMs = 60_000;
/** Part of a budget that all nodes together may have granted without telling each other. [LIMITS-1] */
const unreportedPart = 0.2;
/** When this many windows are kept, the next new one first removes those that have ended. */
const windowsMax = 10_000;

interface Window {
  /** Epoch ms. */
  endsAt: number;
  spent: number;
  /** Of that, what was granted here and no other node knows. */
  unreported: number;
}

/** `now` returns epoch ms. */
export function rateLimiter(rates: Rates, now: () => number, others?: OtherNodes): RateLimiter {
  const windows = new Map<string, Window>();
  /** The present window, or a new one. */
  const windowOf = (key: string, at: number, endsAt: number): Window => {
    const present = windows.get(key);
    if (present && at < present.endsAt) return present;
    if (windows.size >= windowsMax) sweep(windows, at);
    const window = { endsAt, spent: 0, unreported: 0 };
    windows.set(key, window);
    return window;
  };
  /** [LIMITS-1] */
  const tell = (party: PartyId, budget: Budget, window: Window, at: number) => {
    if (!others || window.unreported < (unreportedPart * granted(rates, budget)) / (others.count() + 1)) return;
    others.tell({ party, budget, count: window.unreported, ageMs: windowMs - (window.endsAt - at) });
    window.unreported = 0;
  };
  /** `own`: what this request has spent of that window. */
  const take = (party: PartyId, budget: Budget, count: number, own: (window: Window) => number): Window => {
    const at = now();
    const window = windowOf(keyOf(party, budget), at, at + windowMs);
    if (window.spent - own(window) >= granted(rates, budget)) {
      throw new HubError('rateLimited', { retryAfterS: Math.ceil((window.endsAt - at) / 1000) });
    }
    window.spent += count;
    window.unreported += count;
    tell(party, budget, window, at);
    return window;
  };
  return {
    spend(party, budget) {
      let latest = take(party, budget, 1, () => 0);
      let own = 1;
      return (bytes) => {
        const count = Math.floor(bytes / touchedPerRequest);
        if (count === 0) return;
        const window = take(party, budget, count, (one) => (one === latest ? own : 0));
        own = (window === latest ? own : 0) + count;
        latest = window;
      };
    },
    spentElsewhere({ party, budget, count, ageMs }) {
      const at = now();
      const endsAt = at + windowMs - Math.max(0, ageMs);
      if (endsAt <= at) return;
      const window = windowOf(keyOf(party, budget), at, endsAt);
      window.endsAt = Math.min(window.endsAt, endsAt);
      window.spent += count;
    },
  };
}

const keyOf = (party: string, budget: string): string => `${party} ${budget}`;

function granted(rates: Rates, budget: Budget): number {
  if (budget === 'commands') return rates.commandsPerMin;
  if (budget === 'exchanges') return rates.exchangesPerMin;
  return budget === 'other' ? rates.otherPerMin : rates.listsPerMin;
}

function sweep(windows: Map<string, Window>, at: number): void {
  for (const [key, window] of windows) if (at >= window.endsAt) windows.delete(key);
}
