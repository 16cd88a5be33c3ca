/**
 * Facts that nobody waits for, gathered.
 */

import { type Noted, WriteCoalescer } from '../../src/hub/kernel/recorder.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const data = {
  direction: 'toEmsp' as const,
  uid: 'CARD1',
  from: 'NL-CPO',
  to: 'NL-EMS',
  allowed: 'ALLOWED',
  outcome: 'answered',
};
const fact = { stream: 'authorize:NL-EMS', event: { type: 'token.authorized', data }, party: 'NL-CPO' } as const;

function scene() {
  const clock = new SimulatedClock();
  /** The instants of the facts of each recording. */
  const recorded: string[][] = [];
  const note = ({ facts }: Noted) => void recorded.push(facts.map(({ at = 'none' }) => at));
  const coalescer = new WriteCoalescer({ note }, clock);
  const add = (at: string) => coalescer.add({ ...fact, at });
  return { clock, recorded, notes: coalescer, add };
}

t.test('facts are recorded together, in order, with the instant of their arrival [RECORDER-9]', async (t) => {
  const { clock, recorded, add } = scene();
  add('one');
  clock.advance(19);
  add('two');
  t.strictSame(recorded, []);
  clock.advance(1);
  t.strictSame(recorded, [['one', 'two']]);
  add('three');
  clock.advance(20);
  t.strictSame(recorded, [['one', 'two'], ['three']]);
});

t.test('facts beyond the size of a batch are recorded at once, and without facts nothing is', async (t) => {
  const { clock, recorded, add } = scene();
  for (let n = 0; n < 256; n++) add(String(n));
  t.strictSame(
    recorded.map(({ length }) => length),
    [256],
  );
  clock.advance(20);
  t.equal(recorded.length, 1);
});

t.test('closing flushes the pending facts, and a later fact is written at once [RECORDER-10]', async (t) => {
  const { recorded, notes: coalescer, add } = scene();
  add('one');
  coalescer.close();
  t.strictSame(recorded, [['one']]);
  add('two');
  t.strictSame(recorded, [['one'], ['two']]);
});
