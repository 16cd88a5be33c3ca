/**
 * By how much forwarding is behind for reasons of the hub's own.
 */
import { initialTransition, transition } from 'xstate';
import { type CourierEvent, courierMachine, isPaused } from '../../machines/courier.ts';
import { LagTurns, lagOf, type Measured } from '../../src/hub/delivery/backpressure.ts';
import type { Item } from '../../src/hub/delivery/delivery-row.ts';
import { Lanes } from '../../src/hub/delivery/lanes.ts';
import { t } from '../support/tap.ts';

const now = 1_000_000;

const turn = 5_000;

function courier(...events: CourierEvent[]) {
  let [snapshot] = initialTransition(courierMachine, { slotsMax: 8 });
  for (const event of events) [snapshot] = transition(courierMachine, snapshot, event);
  return snapshot;
}

const item: Item = {
  ...{ receiver: 'A', seq: 1, stream: 'sessions/NL-CPO/1', module: 'sessions', size: 10 },
  ...{ sender: 'NL-CPO', id: '1' },
  ...{ since: now, owedAt: 1, asOf: 1, dueAt: null, loadedAt: now, behind: null, correlationId: null, event: null },
  ...{ form: 'whole', asWhole: false, isRedriven: false, tries: 0, attempts: [] },
};

interface Queue extends Omit<Measured, 'isPaused' | 'ready'> {
  readonly id: string;
  readonly lanes: Lanes;
  quickAt: number;
}

/** Of a receiver whose oldest delivery may go since so many milliseconds. */
function queue(id: string, sinceMs: number | null, attemptMs = 5): Queue {
  const lanes = new Lanes();
  if (sinceMs !== null) lanes.add({ ...item, since: now - sinceMs, loadedAt: now - sinceMs });
  return { id, lanes, attemptMs, quickAt: Number.NEGATIVE_INFINITY };
}

const slots = (all: number) => ({ all, of: () => 8, sizeMax: Number.POSITIVE_INFINITY });

/** `open`: receivers whose circuit is open. */
const lag = (
  queues: Queue[],
  couriers: Record<string, ReturnType<typeof courier>> = {},
  all = 8,
  open: readonly string[] = [],
) =>
  lagOf(
    queues.map((one) => ({
      ...one,
      isPaused: isPaused(couriers[one.id] ?? courier()),
      ready: one.lanes.waiting(
        slots(all),
        now,
        () => !open.includes(one.id),
        () => 0,
      ),
    })),
    turn,
    now,
  );

t.test('the lag is the median over receivers with a ready delivery', async (t) => {
  t.equal(lag([]), 0);
  t.equal(lag([queue('A', null)]), 0);
  t.equal(lag([queue('A', 300)]), 300);
  t.equal(lag([queue('A', 100), queue('B', 300), queue('C', 900), queue('D', null)]), 300);
  t.equal(lag([queue('A', 0), queue('B', 90_000)]), 0, 'of two the one that is better off');
});

t.test('a delivery in flight waits for its receiver', async (t) => {
  const busy = queue('A', 300);
  busy.lanes.take(slots(8), now);
  t.equal(lag([busy]), 0);
});

t.test('a slow, failing or paused receiver does not count', async (t) => {
  t.equal(lag([queue('A', 90_000, 2_000)]), 0, 'slow');
  t.equal(lag([queue('A', 90_000)], {}, 8, ['A']), 0, 'its circuit is open');
  t.equal(lag([queue('A', 90_000)], { A: courier({ type: 'pause' }) }), 0, 'paused');
});

t.test('a receiver whose window is full does not count, and decides for nobody else', async (t) => {
  const full = queue('A', 90_000);
  t.equal(lag([full], {}, 1), 90_000, 'a slot is free');
  t.equal(lag([full], {}, 0), 0, 'none is');
  const half = queue('B', 400);
  full.lanes.add({ ...item, stream: 'sessions/NL-CPO/2' });
  full.lanes.take(slots(8), now);
  t.equal(lag([full], {}, 1), 0, 'what it may have is in flight');
  t.equal(lag([full, half], {}, 1), 400, 'the other one has a free slot');
});

t.test('a module with all the slots it may have hides no delivery of another module', async (t) => {
  const { lanes, ...one } = queue('A', 90_000);
  lanes.add({ ...item, module: 'tariffs', stream: 'tariffs/NL-CPO/1', loadedAt: now - 500 });
  const of = (module: string) => (module === 'sessions' ? 0 : 8);
  const ready = lanes.waiting(
    { ...slots(8), of },
    now,
    () => true,
    () => 0,
  );
  t.same(ready, { since: now - 500, mayGo: true });
  t.equal(lagOf([{ ...one, isPaused: false, ready }], turn, now), 500);
});

t.test('a full window counts while answers arrive as soon as the hub looks', async (t) => {
  const full = queue('A', 700);
  for (const [quickAt, expected] of [
    [turn, 700],
    [turn - 2, 700],
    [turn - 3, 0],
  ] as const) {
    full.quickAt = quickAt;
    t.equal(lag([full], {}, 0), expected, `${turn - quickAt} turns ago`);
  }
});

t.test('of as many receivers that count as are asked for, the others are not looked at [ADMISSION-7]', async (t) => {
  const looked: number[] = [];
  function* receivers() {
    for (const sinceMs of [0, 900, 700, 5, 5]) {
      looked.push(sinceMs);
      const ready = sinceMs === 0 ? null : { since: now - sinceMs, mayGo: true };
      yield { ready, attemptMs: 10, isPaused: false, quickAt: 0 };
    }
  }
  t.equal(lagOf(receivers(), turn, now, 2), 700);
  t.strictSame(looked, [0, 900, 700]);
});

t.test('a look goes on where the last one ended, so that all receivers have their turn [ADMISSION-7]', async (t) => {
  const turns = new LagTurns<number>();
  const lagsMs = [900, 700, 500, 300, 100];
  const look = () => {
    const looked: number[] = [];
    function* measured(): Iterable<Measured> {
      for (const sinceMs of turns.of(lagsMs)) {
        looked.push(sinceMs);
        yield { ready: { since: now - sinceMs, mayGo: true }, attemptMs: 10, isPaused: false, quickAt: 0 };
      }
    }
    lagOf(measured(), turn, now, 2);
    return looked;
  };
  t.strictSame(
    [look(), look(), look()],
    [
      [900, 700],
      [500, 300],
      [100, 900],
    ],
  );
  t.strictSame([...turns.of([])], []);
});

t.test('a module that catches up is excluded until its held deliveries have gone', async (t) => {
  const lanes = new Lanes();
  const add = (seq: number, module: 'sessions' | 'tariffs', sinceMs: number, tries = 0) =>
    lanes.add({ ...item, seq, module, stream: `${module}/NL-CPO/${seq}`, loadedAt: now - sinceMs, tries });
  add(1, 'sessions', 90_000);
  add(4, 'sessions', 80_000);
  add(2, 'tariffs', 400);
  const since = (heldUpTo: number, at = now) =>
    lanes.waiting(
      slots(8),
      at,
      () => true,
      (module) => (module === 'sessions' ? heldUpTo : 0),
    )?.since;
  t.equal(since(0), now - 90_000);
  t.equal(since(3), now - 400, 'one was owed while it took none: the others of the module wait behind it');
  const first = lanes.take(slots(8), now);
  t.equal(first?.items[0]?.seq, 1);
  const [second] = [lanes.take(slots(8), now)];
  t.equal(second?.items[0]?.seq, 2);
  t.equal(since(3, now + 50), now, 'it is in flight: what stood behind it counts from when it was seen last');
  add(3, 'sessions', 70_000, 2);
  t.equal(since(3, now + 50), now, 'one that was tried waits for its retry, and hides nothing');
});

t.test('the oldest delivery counts, whichever partner has the turn', async (t) => {
  const lanes = new Lanes();
  for (const [seq, sender, sinceMs] of [
    [1, 'NL-NEW', 5],
    [2, 'NL-OLD', 900],
  ] as const)
    lanes.add({ ...item, seq, sender, stream: `sessions/${sender}/${seq}`, loadedAt: now - sinceMs });
  const waiting = lanes.waiting(
    slots(8),
    now,
    () => true,
    () => 0,
  );
  t.same(waiting, { since: now - 900, mayGo: true });
});

t.test(
  'waiting deliveries of one partner are no lag of another one that sends to the same receiver [ADMISSION-7]',
  async (t) => {
    const lanes = new Lanes();
    for (const [seq, sender, sinceMs] of [
      [1, 'NL-FAN', 20_000],
      [2, 'NL-FAN', 19_000],
      [3, 'NL-CPO', 5],
    ] as const)
      lanes.add({ ...item, seq, sender, stream: `sessions/${sender}/${seq}`, loadedAt: now - sinceMs });
    const since = (from: string) =>
      lanes.waiting(
        slots(8),
        now,
        () => true,
        () => 0,
        from,
      )?.since;
    t.equal(since('NL-FAN'), now - 20_000);
    t.equal(since('NL-CPO'), now - 5);
    t.equal(since('NL-EMS'), undefined);
    lanes.waiting(
      slots(8),
      now,
      () => true,
      () => 1,
    );
    t.equal(since('NL-FAN'), now, 'the receiver catches up, as the last look at all saw');
    t.strictSame(
      ['NL-CPO', 'NL-EMS'].map((from) => lanes.hasReady(from)),
      [true, false],
    );
  },
);
