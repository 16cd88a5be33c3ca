/** When a delivery is tried again and when it is given up, as tables of instants. */

import type { OutcomeClass } from '../../src/domain/errors.ts';
import { isExpired, type RetryRules, type Tried, verdict } from '../../src/domain/retry.ts';
import { fc } from '../support/property.ts';
import { t } from '../support/tap.ts';

const hourMs = 3_600_000;
const scheduleS = [1, 2, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600];
const rules: RetryRules = { scheduleS, jitter: 0.2, windowMs: 24 * hourMs, windowCdrMs: 72 * hourMs };
const steady: RetryRules = { ...rules, jitter: 0 };
const tried = (fields: Partial<Tried> = {}): Tried => ({
  ...{ module: 'sessions', outcome: { class: 'timeout' }, attempts: 1, since: 0, at: 0, random: 0.5 },
  ...fields,
});

t.test('the delay follows the schedule, and its last step repeats [D39]', async (t) => {
  const waits = [...scheduleS, 3600, 3600].map((s, index) => [index + 1, s * 1000] as const);
  for (const [attempts, waitMs] of waits) {
    const found = verdict(steady, tried({ attempts, at: 7 }));
    t.strictSame(found, { kind: 'retry', dueAt: 7 + waitMs }, `after attempt ${attempts}`);
  }
  const one = verdict({ ...steady, scheduleS: [0.25] }, tried({ attempts: 9 }));
  t.strictSame(one, { kind: 'retry', dueAt: 250 }, 'a schedule of one step, in fractions of a second');
});

t.test('only transient failures are retried; others are dead at once, under their own class [RETRY-1]', async (t) => {
  const table: Record<OutcomeClass, 'delivered' | 'retry' | 'dead'> = {
    delivered: 'delivered',
    timeout: 'retry',
    unavailable: 'retry',
    throttled: 'retry',
    circuit_open: 'retry',
    auth_error: 'dead',
    not_found: 'dead',
    client_error: 'dead',
    invalid_response: 'dead',
    expired: 'dead',
  };
  for (const [name, kind] of Object.entries(table)) {
    const found = verdict(steady, tried({ outcome: { class: name as OutcomeClass } }));
    t.equal(found.kind, kind, name);
    if (found.kind === 'dead') t.equal(found.class, name);
    const late = verdict(steady, tried({ outcome: { class: name as OutcomeClass }, at: 1000 * hourMs }));
    const lateClass = late.kind === 'dead' ? late.class : late.kind;
    t.equal(lateClass, kind === 'retry' ? 'expired' : kind === 'dead' ? name : 'delivered', `${name}, too late`);
  }
});

t.test('a delay varies by the jitter in both directions and no more [D39]', async (t) => {
  const table: [number, number][] = [
    [0, 24_000],
    [0.25, 27_000],
    [0.5, 30_000],
    [0.75, 33_000],
    [1, 36_000],
  ];
  for (const [random, dueAt] of table) {
    t.strictSame(verdict(rules, tried({ attempts: 5, random })), { kind: 'retry', dueAt }, `at ${random}`);
  }
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.double({ min: 0, max: 1, noNaN: true }), (attempts, random) => {
      const found = verdict(rules, tried({ attempts, random }));
      const base = (scheduleS[attempts - 1] ?? 3600) * 1000;
      return found.kind === 'retry' && Number.isInteger(found.dueAt) && Math.abs(found.dueAt - base) <= base * 0.2;
    }),
  );
});

t.test('Retry-After moves the next attempt later, never earlier [RETRY-3]', async (t) => {
  const table: [number | undefined, number][] = [
    [undefined, 30_000],
    [0, 30_000],
    [29_999, 30_000],
    [30_001, 30_001],
    [900_000, 900_000],
  ];
  for (const [retryAfterMs, dueAt] of table) {
    const outcome = { class: 'throttled' as const, ...(retryAfterMs !== undefined && { retryAfterMs }) };
    const found = verdict(steady, tried({ attempts: 5, outcome, at: 11 }));
    t.strictSame(found, { kind: 'retry', dueAt: 11 + dueAt }, `${retryAfterMs} ms`);
  }
  const outcome = { class: 'throttled' as const, retryAfterMs: 900_000 };
  const beyond = verdict(steady, tried({ outcome, at: 24 * hourMs - 1000 }));
  t.strictSame(beyond, { kind: 'dead', class: 'expired' }, 'nor beyond the window');
});

t.test('retries end by age: 24 h, CDRs 72 h, from the start of the window [RETRY-2]', async (t) => {
  const since = 1_000_000;
  const windows = { locations: 24, tariffs: 24, sessions: 24, tokens: 24, cdrs: 72 };
  for (const [module, hours] of Object.entries(windows)) {
    const last = since + hours * hourMs;
    const at = (ms: number) => verdict(steady, tried({ module, since, at: ms, attempts: 12 }));
    t.strictSame(at(last - hourMs), { kind: 'retry', dueAt: last }, `${module}: due when the window ends`);
    t.strictSame(at(last - hourMs + 1), { kind: 'dead', class: 'expired' }, `${module}: due a moment later`);
    t.equal(isExpired(steady, { module, since, at: last }), false, `${module}: the window is not over`);
    t.equal(isExpired(steady, { module, since, at: last + 1 }), true, `${module}: the window is over`);
  }
  const many = verdict(steady, tried({ attempts: 10_000 }));
  t.equal(many.kind, 'retry', 'never by count');
});
