/**
 * When a failed delivery is tried again, and when it is given up. [interface, Delivery rules 3 and 4; D39]
 *
 * RETRY-1  Only `timeout`, `unavailable`, `throttled` (and a call that the circuit held back) are tried again.
 * RETRY-2  The end is by age, not by count: 24 h, CDRs 72 h from acceptance or from the last re-drive.
 * RETRY-3  `Retry-After` moves the next attempt later, never earlier than the schedule says.
 */
import type { OutcomeClass } from './errors.ts';

export interface RetryRules {
  /** Seconds before attempt 2, 3, …; the last one repeats. */
  readonly scheduleS: readonly number[];
  /** Share of each delay by which it varies both ways, 0…1. */
  readonly jitter: number;
  readonly windowMs: number;
  readonly windowCdrMs: number;
}

const transient: ReadonlySet<OutcomeClass> = new Set(['timeout', 'unavailable', 'throttled', 'circuit_open']);

export type Verdict =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly dueAt: number }
  | { readonly kind: 'dead'; readonly class: OutcomeClass };

export interface Tried {
  readonly module: string;
  readonly outcome: { readonly class: OutcomeClass; readonly retryAfterMs?: number };
  /** Attempts made in this window, this one included. */
  readonly attempts: number;
  /** Start of the window, epoch ms. */
  readonly since: number;
  /** Now, epoch ms. */
  readonly at: number;
  /** Uniform in 0…1; given from outside so that the rule stays pure. */
  readonly random: number;
}

export function verdict(rules: RetryRules, tried: Tried): Verdict {
  const outcomeClass = tried.outcome.class;
  if (outcomeClass === 'delivered') return { kind: 'delivered' };
  if (!transient.has(outcomeClass)) return { kind: 'dead', class: outcomeClass };
  const schedule = rules.scheduleS;
  const base = schedule[Math.min(tried.attempts, schedule.length) - 1] ?? 1;
  const delayMs = base * 1000 * (1 + rules.jitter * (2 * tried.random - 1));
  const dueAt = tried.at + Math.max(delayMs, tried.outcome.retryAfterMs ?? 0);
  return isExpired(rules, { ...tried, at: dueAt })
    ? { kind: 'dead', class: 'expired' }
    : { kind: 'retry', dueAt: Math.round(dueAt) };
}

/** Whether the retry window, by age, is over. [RETRY-2] */
export function isExpired(rules: RetryRules, { module, since, at }: Pick<Tried, 'module' | 'since' | 'at'>): boolean {
  return at > since + (module === 'cdrs' ? rules.windowCdrMs : rules.windowMs);
}
