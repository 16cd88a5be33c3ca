/** The fold of one object by retention and repair leaves the event loop to others. */

import { foldObject } from '../../src/hub/maintain/row-rebuild.ts';
import type { StoredEvent } from '../../storage/contract.ts';
import { t } from '../support/tap.ts';

const past = (chars: number, patches: number): StoredEvent[] => {
  const data = { module: 'locations', owner: 'NL-CPO', id: 'L1', within: [], facts: {}, viewer: null, owed: null };
  const event = (seq: number, method: string, type: string, body: object) => ({
    ...{ seq, stream: 'locations:NL-CPO/L1', at: '2026-01-02T04:00:00Z', party: null, correlationId: null, to: [] },
    ...{ type, data: { ...data, method, lastUpdated: '2026-01-02T04:00:00Z', reason: null, warnings: [] } },
    body: JSON.stringify(body),
  });
  return [
    event(1, 'PUT', 'object.put', { id: 'L1', name: 'x'.repeat(chars) }),
    ...Array.from({ length: patches }, (_, n) => event(n + 2, 'PATCH', 'object.patched', { n })),
  ];
};

t.test('many changes of a large object are folded in as many turns as their bodies have mebibytes', async (t) => {
  for (const [chars, patches, expected] of [
    [1024 * 1024, 20, 21],
    [512 * 1024, 20, 10],
    [100, 20, 0],
  ] as const) {
    let turns = 0;
    let isOver = false;
    const turn = () => {
      if (isOver) return;
      turns += 1;
      setImmediate(turn);
    };
    const folding = foldObject(past(chars, patches));
    setImmediate(turn);
    const found = await folding;
    isOver = true;
    t.equal((JSON.parse(found?.body ?? '{}') as { n: number }).n, patches - 1);
    t.ok(Math.abs(turns - expected) <= 1, `${chars} characters, ${turns} turns`);
  }
});
