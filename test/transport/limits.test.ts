/** Rate limits hold to the request. */

import { HubError } from '../../src/domain/errors.ts';
import { type Budget, type RateLimiter, rateLimiter } from '../../src/ocpi/limits.ts';
import { fc } from '../support/property.ts';
import { partOf } from '../support/share.ts';
import { t } from '../support/tap.ts';

const rates = { listsPerMin: 3, commandsPerMin: 2, exchangesPerMin: 1, otherPerMin: 5 };

function setUp() {
  let now = 1_000_000;
  const limiter = rateLimiter(rates, () => now);
  const granted = (party: string, budget: Budget, tries: number) => {
    let count = 0;
    for (let at = 0; at < tries; at++) {
      try {
        limiter.spend(party, budget);
        count++;
      } catch (error) {
        if (!(error instanceof HubError) || error.code !== 'rateLimited') throw error;
      }
    }
    return count;
  };
  return { limiter, granted, pass: (ms: number) => (now += ms) };
}

t.test('a minute grants exactly its number, per party and per list endpoint [D35]', async (t) => {
  const { granted } = setUp();
  t.equal(granted('NL-EMS', 'list:locations', 10), 3);
  t.equal(granted('NL-EMS', 'list:sessions', 10), 3);
  t.equal(granted('NL-EMS', 'commands', 10), 2);
  t.equal(granted('NL-EMS', 'exchanges', 10), 1);
  t.equal(granted('NL-EMS', 'other', 10), 5);
  t.equal(granted('DE-EMS', 'list:locations', 10), 3);
});

t.test('refused requests cost nothing, and the next minute grants the full number again [D35]', async (t) => {
  const { granted, pass } = setUp();
  t.equal(granted('NL-EMS', 'commands', 100), 2);
  pass(59_999);
  t.equal(granted('NL-EMS', 'commands', 1), 0);
  pass(1);
  t.equal(granted('NL-EMS', 'commands', 100), 2);
});

t.test('a refusal says when the minute ends [D2]', async (t) => {
  const { limiter, granted, pass } = setUp();
  granted('NL-EMS', 'commands', 2);
  pass(10_500);
  t.throws(() => limiter.spend('NL-EMS', 'commands'), { code: 'rateLimited', detail: { retryAfterS: 50 } });
});

t.test(
  'the bytes that a request touches count as further requests, one for each 64 KiB, and never refuse that request itself',
  (t) => {
    const { limiter, granted, pass } = setUp();
    const touch = limiter.spend('NL-CPO', 'other');
    touch(65_535);
    t.equal(granted('NL-CPO', 'other', 2), 2, 'less counts as nothing');
    const other = limiter.spend('NL-CPO', 'other');
    touch(65_536);
    t.equal(granted('NL-CPO', 'other', 1), 0, 'the budget of 5 is used up');
    touch(65_536);
    touch(65_536);
    t.throws(() => other(65_536), { code: 'rateLimited' }, 'by what another request touches');
    pass(60_000);
    touch(100 * 65_536);
    touch(65_536);
    t.equal(granted('NL-CPO', 'other', 1), 0, 'a request may touch more than a minute grants');
    t.throws(() => other(65_536), { code: 'rateLimited' }, 'which leaves nothing for others');
    pass(60_000);
    t.equal(granted('NL-CPO', 'other', 10), 5);
    t.end();
  },
);

t.test('removing ended windows leaves running ones in place', async (t) => {
  const { granted, pass } = setUp();
  for (let at = 0; at < 9_999; at++) granted(`NL-${at}`, 'other', 1);
  pass(60_000);
  t.equal(granted('NL-EMS', 'commands', 2), 2);
  granted('NL-NEW', 'other', 1);
  t.equal(granted('NL-EMS', 'commands', 1), 0, 'the sweep left the running window');
});

/** Tries a party makes at nodes: which one, how many, and how long before the next ones, ms. */
const tries = fc.array(
  fc.record({
    node: fc.nat(4),
    count: fc.integer({ min: 1, max: 30 }),
    afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 20_000 })),
  }),
  { maxLength: 120 },
);

t.test('[LIMITS-1, LIMITS-2] nodes together grant a budget, never less, and at most a fifth more', async (t) => {
  let refused = 0;
  const property = fc.property(
    fc.integer({ min: 1, max: 5 }),
    fc.integer({ min: 20, max: 90 }),
    tries,
    (nodes, limit, asked) => {
      let now = 0;
      const limiters: RateLimiter[] = [];
      for (let one = 0; one < nodes; one++) {
        const others = {
          count: () => nodes - 1,
          tell: (spent: Parameters<RateLimiter['spentElsewhere']>[0]) => {
            for (const [other, limiter] of limiters.entries()) if (other !== one) limiter.spentElsewhere(spent);
          },
        };
        limiters.push(rateLimiter({ ...rates, otherPerMin: limit }, () => now, others));
      }
      const grantedAt: number[] = [];
      for (const { node, count, afterMs } of asked) {
        for (let one = 0; one < count; one++) {
          try {
            limiters[node % nodes]?.spend('NL-CPO', 'other');
            grantedAt.push(now);
          } catch {
            refused += 1;
            const within = grantedAt.filter((at) => at > now - 60_000).length;
            if (within < limit) throw new Error(`refused after ${within} of ${limit} within a minute`);
          }
        }
        now += afterMs;
      }
      const first = grantedAt.filter((at) => at < 60_000).length;
      if (grantedAt[0] === 0 && first > 1.2 * limit) throw new Error(`${first} of ${limit} in the first minute`);
    },
  );
  fc.assert(property, { numRuns: partOf(3000) });
  t.ok(refused > 0, `${refused} refusals`);
});
