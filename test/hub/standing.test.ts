/**
 * By how much forwarding is behind for reasons of the hub's own.
 */
import t from 'tap';
import { initialTransition, transition } from 'xstate';
import { type CourierEvent, courierMachine } from '../../machines/courier.ts';
import { emptyQueue, type Queue } from '../../src/hub/intake.ts';
import { lagOf } from '../../src/hub/standing.ts';

const now = 1_000_000;

function courier(...events: CourierEvent[]) {
  let [snapshot] = initialTransition(courierMachine, { slotsMax: 8 });
  for (const event of events) [snapshot] = transition(courierMachine, snapshot, event);
  return snapshot;
}

/** Of a receiver whose oldest delivery may go since so many milliseconds. */
function queue(id: string, sinceMs: number | null, attemptMs = 5): Queue {
  const made = emptyQueue(id);
  made.attemptMs = attemptMs;
  if (sinceMs !== null)
    made.lanes.add({
      ...{ receiver: id, shard: 0, seq: 1, stream: 'sessions/NL-CPO/1', module: 'sessions', size: 10 },
      ...{ since: now - sinceMs, loadedAt: now - sinceMs, behind: null, correlationId: null, event: null },
      ...{ isRedriven: false, tries: 0, attempts: [] },
    });
  return made;
}

const lag = (queues: Queue[], couriers: Record<string, ReturnType<typeof courier>> = {}) =>
  lagOf(queues, ({ partnerId }) => couriers[partnerId] ?? courier(), now);

t.test('the middle one of the receivers for whom something could go', async (t) => {
  t.equal(lag([]), 0);
  t.equal(lag([queue('A', null)]), 0);
  t.equal(lag([queue('A', 300)]), 300);
  t.equal(lag([queue('A', 100), queue('B', 300), queue('C', 900), queue('D', null)]), 300);
  t.equal(lag([queue('A', 0), queue('B', 90_000)]), 0, 'of two the one that is better off');
});

t.test('what is in flight waits for its receiver', async (t) => {
  const busy = queue('A', 300);
  busy.lanes.take(8);
  t.equal(lag([busy]), 0);
});

t.test('a receiver that is slow, ill or kept back is its own reason', async (t) => {
  t.equal(lag([queue('A', 90_000, 2_000)]), 0, 'slow');
  t.equal(lag([queue('A', 90_000)], { A: courier({ type: 'circuit.opened' }) }), 0, 'its circuit is open');
  t.equal(lag([queue('A', 90_000)], { A: courier({ type: 'circuit.opened' }, { type: 'circuit.halfOpened' }) }), 0);
  t.equal(lag([queue('A', 90_000)], { A: courier({ type: 'pause' }) }), 0, 'paused');
});
