/** Outcomes of deliveries count as written once they are, and not while the hub may not write. */
import { OutboxWriter, openRows } from '../../src/hub/delivery/outbox-writer.ts';
import { Progress } from '../../src/hub/delivery/progress.ts';
import type { Log } from '../../src/hub/ports/ports.ts';
import type { DeliveryRow, Fence, Store } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { directoryFor } from '../support/directory.ts';
import { eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { storeWith } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

const progress = (receiver: string) => new Progress(receiver, 0);
const row = (dest: string, seq: number): DeliveryRow => ({ dest, seq, state: 'DEAD', data: {} });

/** A store whose fence is there or not, as the test says. `upTo`: up to which sequence events were offered. */
async function scene(t: Test, upTo = () => 7) {
  const level = await openLevelStore({ directory: directoryFor(t), node: 'test', ballastBytes: 0 });
  t.teardown(() => level.close());
  const fence = { isHeld: false, whenAsked: () => {} };
  const held = (): Fence | null => {
    fence.whenAsked();
    return fence.isHeld ? level.held() : null;
  };
  const settled: [rows: number, floors: number][] = [];
  const settle: Store['settle'] = (by, rows, floors) => {
    settled.push([rows.length, floors.length]);
    return level.settle(by, rows, floors);
  };
  const store = storeWith(level, { held, settle });
  const clock = new SimulatedClock('2026-01-02T03:04:05Z');
  let tries = 0;
  let again = () => {};
  const warned = new Promise<void>((resolve) => {
    again = resolve;
  });
  const log: Log = {
    ...{ debug() {}, info() {}, error() {} },
    warn() {
      tries++;
      again();
    },
  };
  let isFree = false;
  const hasRoom = () => {
    isFree = true;
  };
  const writer = new OutboxWriter({ store, clock, log, rowsMax: 3 }, upTo, hasRoom);
  return { level, writer, clock, fence, warned, settled, tries: () => tries, isFree: () => isFree };
}

t.test('rows that could not be written without the fence are written when it is back', async (t) => {
  const { level, writer, clock, fence, warned } = await scene(t);
  writer.remember(progress('A'), row('A', 3));
  let isWritten = false;
  const flushed = writer.flushed().then(() => {
    isWritten = true;
  });
  await warned;
  t.equal(isWritten, false);
  t.strictSame(await level.floors(), []);
  fence.isHeld = true;
  clock.advance(1_000);
  await flushed;
  t.match(await level.delivery('A', 3), { state: 'DEAD' });
  t.strictSame(await level.floors(), [{ dest: 'A', seq: 7 }]);
});

t.test('of a delivery with two unwritten rows, only the later one is listed', async (t) => {
  const { writer, fence, clock, warned } = await scene(t);
  const [dead, waiting] = [row('A', 3), { ...row('A', 3), state: 'PENDING' as const }];
  writer.remember(progress('A'), dead);
  writer.remember(progress('A'), row('A', 4));
  // The row of the first write is remembered again while that write is in progress.
  const inFlight = new Promise<void>((resolve) => {
    fence.whenAsked = () => {
      writer.remember(progress('A'), waiting);
      t.strictSame(writer.unwrittenRows(), [waiting, row('A', 4)]);
      resolve();
    };
  });
  await inFlight;
  fence.whenAsked = () => {};
  await warned;
  fence.isHeld = true;
  clock.advance(1_000);
  await writer.flushed();
  t.strictSame(writer.unwrittenRows(), []);
});

t.test('[OUTBOX-WRITER-4] it is full while its rows cannot be written', async (t) => {
  const { writer, fence, clock, warned, isFree } = await scene(t);
  const a = progress('A');
  for (const seq of [3, 4, 4]) writer.remember(a, row('A', seq));
  t.equal(writer.isFull, false);
  writer.remember(a, row('A', 5));
  t.equal(writer.isFull, true);
  await warned;
  t.strictSame([writer.isFull, writer.unwrittenRows().length, isFree()], [true, 3, false], 'the first write failed');
  writer.remember(a, { ...row('A', 4), state: 'PENDING' });
  fence.isHeld = true;
  clock.advance(1_000);
  await writer.flushed();
  t.strictSame([writer.isFull, writer.unwrittenRows().length, isFree()], [false, 0, true]);
});

t.test('[OUTBOX-WRITER-4] it signals room, also when a failed write made it', async (t) => {
  const { writer, fence, clock, warned, isFree } = await scene(t);
  const a = progress('A');
  const full: boolean[] = [];
  fence.whenAsked = () => {
    fence.whenAsked = () => {};
    // Until the write in progress fails, the delivery has two rows.
    for (const seq of [3, 4]) writer.remember(a, row('A', seq));
    full.push(writer.isFull);
  };
  writer.remember(a, { ...row('A', 3), state: 'PENDING' });
  await warned;
  full.push(writer.isFull);
  t.strictSame([full, isFree()], [[true, false], false]);
  fence.isHeld = true;
  clock.advance(1_000);
  await writer.flushed();
  t.equal(isFree(), true);
});

t.test('[OUTBOX-WRITER-1] after a write that failed, the floor of a party is that of its present holder', async (t) => {
  const { level, writer, clock, fence, warned } = await scene(t);
  const present = progress('A');
  fence.whenAsked = () => {
    fence.whenAsked = () => {};
    present.take({ module: 'sessions', sender: 'CPO', seq: 6 }, false);
    writer.touch(present);
  };
  writer.touch(progress('A'));
  await warned;
  fence.isHeld = true;
  clock.advance(1_000);
  await writer.flushed();
  t.strictSame(await level.floors(), [{ dest: 'A', seq: 5 }]);
});

t.test('[OUTBOX-WRITER-2] many rows are written in several settles, the floor with the last of them', async (t) => {
  const { level, writer, fence, settled } = await scene(t);
  fence.isHeld = true;
  const a = progress('A');
  for (let seq = 1; seq <= 2_300; seq++) writer.remember(a, row('A', seq));
  await writer.flushed();
  t.strictSame(settled, [
    [1_000, 0],
    [1_000, 0],
    [300, 1],
  ]);
  t.strictSame(await level.floors(), [{ dest: 'A', seq: 7 }]);
  t.match(await level.delivery('A', 2_300), { state: 'DEAD' });
});

t.test(
  '[OUTBOX-WRITER-5] floors are written every 200 ms at most, and the last ones when the hub closes',
  async (t) => {
    let upTo = 0;
    const { level, writer, fence, clock, settled } = await scene(t, () => upTo);
    fence.isHeld = true;
    const a = progress('A');
    const ends = async (seq: number) => {
      upTo = seq;
      writer.remember(a, row('A', seq));
      await writer.flushed();
    };
    for (let seq = 1; seq <= 4; seq++) await ends(seq);
    t.strictSame(settled.splice(0), [
      [1, 1],
      [1, 0],
      [1, 0],
      [1, 0],
    ]);
    t.strictSame(await level.floors(), [{ dest: 'A', seq: 1 }]);
    clock.advance(200);
    await eventually('the floor is written without a further row', () => settled.length > 0);
    t.strictSame(settled.splice(0), [[0, 1]]);
    await ends(5);
    await writer.close();
    t.strictSame(settled, [
      [1, 0],
      [0, 1],
    ]);
    t.strictSame(await level.floors(), [{ dest: 'A', seq: 5 }]);
  },
);

t.test('a caller that waits for it is refused when the hub closes without the fence [OUTBOX-WRITER-3]', async (t) => {
  const { writer, warned } = await scene(t);
  writer.remember(progress('A'), row('A', 3));
  const flushed = t.rejects(writer.flushed(), { name: 'HubError', code: 'unavailable' });
  await warned;
  await writer.close();
  await flushed;
});

t.test('open rows of many receivers are grouped by receiver, up to a limit', async (t) => {
  const { level } = await scene(t);
  const fence = level.held();
  if (fence === null) throw new Error('no fence');
  const names = Array.from({ length: 40 }, (_, n) => `R${n}`);
  const rows = names.flatMap((dest, n) => Array.from({ length: n === 5 ? 1_201 : 2 }, (_, i) => row(dest, i + 1)));
  await level.settle(fence, rows, []);
  const read = async (toSeq?: number) => {
    const found: string[] = [];
    for await (const { dest, seq } of openRows(level, names, toSeq)) found.push(`${dest} ${seq}`);
    return found;
  };
  t.strictSame(
    await read(),
    rows.map(({ dest, seq }) => `${dest} ${seq}`),
  );
  t.strictSame(
    await read(1),
    names.map((dest) => `${dest} 1`),
  );
});
