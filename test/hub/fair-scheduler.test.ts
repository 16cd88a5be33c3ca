/**
 * How much of what all partners together may have in flight one of them gets. [FAIR-SCHEDULER-2, FAIR-SCHEDULER-3]
 */
import { FairScheduler, type Flight, type Sender } from '../../src/hub/delivery/fair-scheduler.ts';
import { Lanes } from '../../src/hub/delivery/lanes.ts';
import { descriptorsOf, inFlightMax } from '../../src/process-load.ts';
import { t } from '../support/tap.ts';

const at = {
  since: 0,
  owedAt: 1,
  asOf: 1,
  dueAt: null,
  loadedAt: 0,
  behind: null,
  correlationId: null,
  event: null,
} as const;
let made = 0;

/** A receiver that only counts its calls. */
class Queue implements Sender {
  readonly partnerId: string;
  readonly lanes = new Lanes();
  quickAt: number | null = null;
  #calls = 0;

  constructor(partnerId: string) {
    this.partnerId = partnerId;
  }

  begun(): boolean {
    return this.#calls++ === 0;
  }

  ended(quickAt: number | null): void {
    this.#calls--;
    this.quickAt = quickAt;
  }
}

type Room = FairScheduler<Queue>;

/** Begins as many calls as a queue may have; what they are. */
function fill(room: Room, queue: Queue, allowed: number, size = 10): Flight<Queue>[] {
  const begun: Flight<Queue>[] = [];
  while (!room.isFull && queue.lanes.busy < room.slots(queue, allowed)) {
    const stream = `sessions/NL-CPO/${++made}`;
    const item = { receiver: queue.partnerId, seq: made, stream, module: 'sessions' as const, size };
    queue.lanes.add({
      ...item,
      ...at,
      sender: 'NL-CPO',
      id: '1',
      form: 'whole',
      asWhole: false,
      isRedriven: false,
      tries: 0,
      attempts: [],
    });
    queue.lanes.take({ all: allowed, of: () => allowed, sizeMax: room.sizeMax }, 0);
    begun.push(room.begin(queue, size));
  }
  return begun;
}

const roomOf = (inFlightMax: number, bodiesMax = 1 << 20, turn = () => 0) =>
  new FairScheduler<Queue>({ inFlightMax, bodiesMax, turn });

t.test('a single partner gets as many slots as it may have while there is room', async (t) => {
  t.equal(fill(roomOf(256), new Queue('A'), 64).length, 64);
  t.equal(fill(roomOf(4096), new Queue('A'), 256).length, 256);
  t.equal(fill(roomOf(256), new Queue('A'), 0).length, 0, 'what its courier forbids stays forbidden');
});

t.test('many receivers that hang, one after the other, leave room for healthy ones [FAIR-SCHEDULER-3]', async (t) => {
  for (const [partners, max] of [
    [10, 1024],
    [100, 1024],
    [500, 1024],
    [2000, 4096],
  ] as const) {
    const room = roomOf(max);
    const hanging = Array.from({ length: partners }, (_, n) => fill(room, new Queue(`P${n}`), 64).length);
    const sum = hanging.reduce((all, one) => all + one, 0);
    t.ok(Math.min(...hanging) >= 1, `${partners} of ${max}: one always`);
    t.ok(sum < max, `${partners} that hang have ${sum} of ${max}`);
    t.ok(fill(room, new Queue('WELL'), 64).length >= 1, 'and one that is well has its turn');
  }
});

t.test(
  'bytes of bodies are bounded in the same way, and one body always fits [FAIR-SCHEDULER-2, FAIR-SCHEDULER-3]',
  async (t) => {
    const room = roomOf(4096, 30_000);
    const large = new Queue('LARGE');
    const begun = fill(room, large, 64, 1_000);
    t.equal(begun.length, 9, 'a quarter of the room, as much as it leaves of half, and one more');
    t.equal(fill(room, new Queue('HUGE'), 64, 15_000).length, 1);
    t.equal(fill(room, new Queue('SMALL'), 64, 10).length, 64, 'small ones find room beside them');
    for (const flight of begun) room.end(flight);
    t.notOk(room.isFull);
  },
);

t.test('slots are free again when calls end, also when they end at once', async (t) => {
  let turn = 10;
  const room = roomOf(4, 1 << 20, () => turn);
  const queues = ['A', 'B', 'C', 'D'].map((id) => new Queue(id));
  const begun = queues.flatMap((queue) => [room.begin(queue, 10)]);
  t.ok(room.isFull);
  const [first, second] = begun;
  turn += 2;
  if (first) room.end(first);
  t.notOk(room.isFull);
  turn += 1;
  if (second) room.end(second);
  t.same(queues.map(({ quickAt }) => quickAt).slice(0, 2), [12, null]);
});

t.test(
  'a whole object sent in place of a part counts with its own size until it ends [FAIR-SCHEDULER-2]',
  async (t) => {
    const room = roomOf(4096, 30_000);
    const queue = new Queue('HEALED');
    const lane = queue.lanes.add({
      ...{ receiver: 'HEALED', seq: 1, stream: 'sessions/NL-CPO/1', module: 'sessions', size: 10, ...at },
      ...{ sender: 'NL-CPO', id: '1', form: 'part', asWhole: false, isRedriven: false, tries: 0, attempts: [] },
    });
    queue.lanes.take({ all: 64, of: () => 64, sizeMax: room.sizeMax }, 0);
    const flight = room.begin(queue, 10);
    const [item] = lane.items;
    if (!item) throw new Error('a lane has a head');
    queue.lanes.replace(lane, { ...item, asWhole: true, size: 30_000 });
    room.resize(flight, 30_000);
    t.ok(room.isFull);
    t.equal(queue.lanes.busySize, 30_000);
    queue.lanes.hold(lane, 0);
    room.end(flight);
    t.notOk(room.isFull);
    t.equal(queue.lanes.busySize, 0);
    t.equal(room.slots(queue, 64), 64, 'and nothing of it is left');
  },
);

t.test('the number of descriptors is read from the system', async (t) => {
  const line = (soft: string) =>
    `Max processes             1000   1000   processes\nMax open files            ${soft}   4096   files`;
  t.equal(descriptorsOf(line('1024')), 1024);
  t.equal(descriptorsOf(line('unlimited')), Number.POSITIVE_INFINITY);
  t.ok(inFlightMax >= 64, `${inFlightMax} here`);
});
