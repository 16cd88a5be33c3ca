/**
 * Retry rule: when a failed delivery gets its next attempt, and when it becomes a dead letter.
 * [interface, Delivery rules 3 and 4; D39]
 *
 * RETRY-1  Only `timeout`, `unavailable`, `throttled` and a call that the circuit breaker held back are retried.
 * RETRY-2  Retries end by age, not by count: by default after 24 h, CDRs after 72 h, from acceptance or the last
 *     re-drive.
 * RETRY-3  `Retry-After` can delay the next attempt, but never move it before the time of the schedule.
 */
import type { OutcomeClass } from './errors.ts';
import { isModule, modules } from './modules.ts';

export interface RetryRules {
  /** Seconds before attempt 2, 3, …; the last one repeats. */
  readonly scheduleS: readonly number[];
  /** Jitter: the fraction of each delay by which it varies in both directions, 0…1. */
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
  /** Attempts in this retry window, this one included. */
  readonly attempts: number;
  /** Start of the retry window, epoch ms. */
  readonly since: number;
  /** Now, epoch ms. */
  readonly at: number;
  /** Uniform random number in 0…1; an argument, so that the rule stays pure. */
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

/** Whether the retry window has ended. [RETRY-2] */
export function isExpired(rules: RetryRules, { module, since, at }: Pick<Tried, 'module' | 'since' | 'at'>): boolean {
  return at > since + rules[isModule(module) ? modules[module].retryWindow : 'windowMs'];
}
