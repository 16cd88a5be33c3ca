/**
 * Rate limits per party and minute, of exchanges of credentials per partner. [D35] A window begins with the first request after the
 * last window ended and grants exactly its number, so "200 per minute" holds to the request.
 *
 * Memory is bounded by parties × budgets: only authenticated parties have windows, and ended ones are swept out.
 */
import { HubError } from '../domain/errors.ts';
import type { PartyId } from '../domain/party.ts';

/** Each list endpoint has a budget of its own. */
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
  spend(party: PartyId, budget: Budget): void;
}

const windowMs = 60_000;
/** So many windows are kept before ended ones are swept out. */
const windowsMax = 10_000;

interface Window {
  /** Epoch ms. */
  readonly endsAt: number;
  spent: number;
}

/** `now` gives epoch ms. */
export function rateLimiter(rates: Rates, now: () => number): RateLimiter {
  const windows = new Map<string, Window>();
  const openWindow = (key: string, at: number): Window => {
    if (windows.size >= windowsMax) sweep(windows, at);
    const window = { endsAt: at + windowMs, spent: 0 };
    windows.set(key, window);
    return window;
  };
  return {
    spend(party, budget) {
      const at = now();
      const key = `${party} ${budget}`;
      let window = windows.get(key);
      if (!window || at >= window.endsAt) window = openWindow(key, at);
      if (window.spent >= granted(rates, budget)) {
        throw new HubError('rateLimited', { retryAfterS: Math.ceil((window.endsAt - at) / 1000) });
      }
      window.spent++;
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
