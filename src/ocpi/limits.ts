/**
 * Rate limits per minute and party (credentials exchanges: per partner). [D35] A window opens with the first request
 * after the previous window ended and grants exactly its number of requests, so "200 per minute" is exact. A request
 * that touches much counts as several, because its cost grows with the bytes that it sends, reads or changes.
 *
 * Memory is bounded by parties × budgets: only authenticated parties have windows, and ended windows are removed.
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
}

/**
 * Counts bytes that the request touches: `touchedPerRequest` of them as one more request. Refuses with `rateLimited`
 * when the party's other requests have used up the budget.
 */
export type Touch = (bytes: number) => void;

/** Bytes that a request touches at the price of one; nearly all objects are smaller. */
const touchedPerRequest = 64 * 1024;

const windowMs = 60_000;
/** When this many windows are kept, the next new one first removes those that have ended. */
const windowsMax = 10_000;

interface Window {
  /** Epoch ms. */
  readonly endsAt: number;
  spent: number;
}

/** `now` returns epoch ms. */
export function rateLimiter(rates: Rates, now: () => number): RateLimiter {
  const windows = new Map<string, Window>();
  const openWindow = (key: string, at: number): Window => {
    if (windows.size >= windowsMax) sweep(windows, at);
    const window = { endsAt: at + windowMs, spent: 0 };
    windows.set(key, window);
    return window;
  };
  /** `own`: what this request has spent of that window. */
  const take = (party: PartyId, budget: Budget, count: number, own: (window: Window) => number): Window => {
    const at = now();
    const key = `${party} ${budget}`;
    let window = windows.get(key);
    if (!window || at >= window.endsAt) window = openWindow(key, at);
    if (window.spent - own(window) >= granted(rates, budget)) {
      throw new HubError('rateLimited', { retryAfterS: Math.ceil((window.endsAt - at) / 1000) });
    }
    window.spent += count;
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
  };
}

function granted(rates: Rates, budget: Budget): number {
  if (budget === 'commands') return rates.commandsPerMin;
  if (budget === 'exchanges') return rates.exchangesPerMin;
  return budget === 'other' ? rates.otherPerMin : rates.listsPerMin;
}

function sweep(windows: Map<string, Window>, at: number): void {
  for (const [key, window] of windows) if (at >= window.endsAt) windows.delete(key);
}
