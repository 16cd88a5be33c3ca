/**
 * Facts that nobody waits for, gathered.
 */

import type { Recording } from '../../src/hub/kernel/recorder.ts';
import { WriteCoalescer } from '../../src/hub/kernel/write-coalescer.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

function scene() {
  const clock = new SimulatedClock();
  const recorded: string[] = [];
  const coalescer = new WriteCoalescer({ note: ({ at }) => void recorded.push(at) }, clock);
  const add = (at: string) => coalescer.add({ facts: [], trace: null, at } satisfies Recording);
  return { clock, recorded, notes: coalescer, add };
}

t.test('they are handed over together, in order, with the instant at which they came (T1)', async (t) => {
  const { clock, recorded, add } = scene();
  add('one');
  clock.advance(19);
  add('two');
  t.strictSame(recorded, []);
  clock.advance(1);
  t.strictSame(recorded, ['one', 'two']);
  add('three');
  clock.advance(20);
  t.strictSame(recorded, ['one', 'two', 'three']);
});

t.test('what would be more than a batch goes at once', async (t) => {
  const { recorded, add } = scene();
  for (let n = 0; n < 300; n++) add(String(n));
  t.equal(recorded.length, 256);
});

t.test('closing hands over what was gathered, and nothing is kept back after it (T2)', async (t) => {
  const { recorded, notes: coalescer, add } = scene();
  add('one');
  coalescer.close();
  t.strictSame(recorded, ['one']);
  add('two');
  t.strictSame(recorded, ['one', 'two']);
});
