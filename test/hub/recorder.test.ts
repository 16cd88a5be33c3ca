import { Recorder } from '../../src/hub/kernel/recorder.ts';
import { rowSeen } from '../../src/hub/kernel/row-codecs.ts';
import type { Log } from '../../src/hub/ports/ports.ts';
import { type Commit, OutcomeUnknown, StoreUnavailable } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { append } from '../storage/support.ts';
import { directoryFor } from '../support/directory.ts';
import { noMeter } from '../support/no-meter.ts';
import { eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { storeWith } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** A recorder on a real store whose appends can be made to end in doubt or be refused. */
async function recording(t: Test) {
  const level = await openLevelStore({ directory: directoryFor(t), node: 'test', ballastBytes: 0 });
  t.teardown(() => level.close());
  let before: (commit: Commit) => Promise<void> = async () => {};
  let after: (commit: Commit) => Promise<void> = async () => {};
  const store = storeWith(level, {
    append: async (commit) => {
      await before(commit);
      const appended = await level.append(commit);
      await after(commit);
      return appended;
    },
  });
  const clock = new SimulatedClock('2026-01-02T03:04:05Z');
  let ids = 0;
  const unrecorded: string[] = [];
  const meter = { ...noMeter, unrecorded: (type: string) => void unrecorded.push(type) };
  const refusals: string[] = [];
  const counts: number[] = [];
  const error: Log['error'] = (fields) => {
    const { err, count } = fields as { err: Error; count: number };
    refusals.push(err.message);
    counts.push(count);
  };
  const log: Log = { ...silent, error };
  const recorder = new Recorder(store, { clock, log, meter, secrets: { newId: () => `id-${++ids}` } });
  const dispatched: number[] = [];
  recorder.feed.startAt(0);
  recorder.feed.onCommitted((event) => dispatched.push(event.seq));
  recorder.feed.begin();
  const recordingOf = (name: string) => ({
    facts: [
      {
        stream: name,
        event: { type: 'quota.warned', data: { party: name, mb: 8, mb_per_day: 10 } },
        party: null,
      } as const,
    ],
    trace: null,
    at: recorder.instant(),
  });
  const record = (name: string) => recorder.record(recordingOf(name));
  const note = (name: string) => recorder.note(recordingOf(name));
  return {
    ...{ clock, recorder, dispatched, record, recordingOf, note, unrecorded, level, refusals, counts },
    fault: (faults: { before?: typeof before; after?: typeof after }) => {
      before = faults.before ?? (async () => {});
      after = faults.after ?? (async () => {});
    },
  };
}

t.test('failed writes for which nobody waits are counted, and no others', async (t) => {
  const { note, unrecorded, dispatched, fault } = await recording(t);
  note('kept');
  await eventually('it is written', async () => dispatched.length === 1);
  fault({ before: () => Promise.reject(new StoreUnavailable('it is away')) });
  note('gone');
  await eventually('it is counted', async () => unrecorded.length > 0);
  t.strictSame([unrecorded, dispatched], [['quota.warned'], [1]]);
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

t.test(
  'a write in doubt is looked up until its outcome is known, nothing else is written, and it is dispatched once, in order [RECORDER-1, RECORDER-3, RECORDER-4]',
  async (t) => {
    const { clock, dispatched, record, level, fault, refusals } = await recording(t);
    await record('first');
    let asked = 0;
    fault({
      before: async () => {
        if (++asked > 1 && asked < 4) throw new StoreUnavailable('mending');
      },
      after: async () => {
        if (asked === 1) throw new OutcomeUnknown('connection lost');
      },
    });
    const doubtful = record('second');
    await eventually('it is in doubt', () => level.head() === 2);
    await turn();
    await t.rejects(record('beside'), { name: 'HubError', code: 'unavailable' });
    await eventually('it was asked for often enough', () => {
      clock.advance(200);
      return asked === 4;
    });
    t.equal(await doubtful, 2);
    t.strictSame(refusals, ['connection lost', 'mending'], 'each reason is logged once');
    fault({});
    t.equal(await record('third'), 3);
    t.same(dispatched, [1, 2, 3]);
    t.equal(level.head(), 3, 'and stands once in the log');
  },
);

t.test('a caller that waits behind a write in doubt is refused at once, and never starts [RECORDER-4]', async (t) => {
  const { recorder, record, fault, clock } = await recording(t);
  let isAway = true;
  fault({
    after: async () => {
      if (isAway) throw new OutcomeUnknown('the disk is away');
    },
  });
  const begun: string[] = [];
  const work = (name: string) =>
    recorder.inTurnUnlessInDoubt('S1', async () => {
      begun.push(name);
      return record(name);
    });
  const doubtful = work('first');
  const refused = { name: 'HubError', code: 'unavailable' };
  await t.rejects(work('was there before the doubt'), refused);
  await t.rejects(work('came later'), refused);
  isAway = false;
  clock.advance(200);
  t.equal(await doubtful, 1);
  t.equal(await work('next'), 2);
  t.strictSame(begun, ['first', 'next']);
});

t.test('a closing hub does not wait for a write in doubt, and writes nothing else [RECORDER-4]', async (t) => {
  const { recorder, record, fault } = await recording(t);
  fault({
    after: async () => {
      throw new OutcomeUnknown('the disk is away');
    },
  });
  const doubtful = record('in doubt');
  await turn();
  recorder.giveUp();
  await t.rejects(doubtful, { name: 'HubError', code: 'outcomeUnknown' });
  fault({});
  await t.rejects(record('beside'), { name: 'HubError', code: 'unavailable' });
});

t.test('a closing hub goes on writing after the outcome of a write in doubt is known', async (t) => {
  const { recorder, record, fault } = await recording(t);
  let asked = 0;
  fault({
    after: async () => {
      if (++asked === 1) throw new OutcomeUnknown('connection lost');
    },
  });
  const doubtful = record('in doubt');
  await eventually('it is in doubt', () => asked === 1);
  recorder.giveUp();
  t.equal(await doubtful, 1);
  t.equal(await record('beside'), 2);
});

t.test('a write that the store refuses is refused at once, and nothing is dispatched', async (t) => {
  const { dispatched, record, fault } = await recording(t);
  fault({
    before: async () => {
      throw new StoreUnavailable('disk full');
    },
  });
  await t.rejects(record('refused'), { name: 'HubError', code: 'unavailable' });
  fault({});
  t.equal(await record('next'), 1);
  t.same(dispatched, [1]);
});

t.test(
  'a store that refuses every write is logged once for each reason, then with a number at intervals',
  async (t) => {
    const { clock, record, note, unrecorded, fault, refusals, counts } = await recording(t);
    const told = () => refusals.splice(0).map((text) => `${counts.shift()} ${text}`);
    let reason = 'disk full';
    fault({
      before: async () => {
        throw new StoreUnavailable(reason);
      },
    });
    const refuses = async (times: number) => {
      for (let n = 0; n < times; n++) await t.rejects(record('refused'), { code: 'unavailable' });
    };
    await refuses(50);
    t.strictSame(told(), ['1 disk full'], 'the first at once');
    reason = 'disk gone';
    await refuses(2);
    t.strictSame(told(), ['1 disk gone'], 'and the first of another reason');
    clock.advance(9_999);
    t.strictSame(told(), []);
    clock.advance(1);
    t.strictSame(told(), ['49 disk full', '1 disk gone']);
    clock.advance(10_000);
    t.strictSame(told(), [], 'what ends is not said again');
    await refuses(1);
    t.strictSame(told(), ['1 disk gone'], 'and after that it is new');
    clock.advance(10_000);
    for (let n = 0; n < 5; n++) note('noted');
    await eventually('each is counted', async () => unrecorded.length === 5);
    const numbers = () => told().map((line) => line.split(' ')[0]);
    t.strictSame(numbers(), ['1', '1'], 'what nobody waits for: that it was refused, and that it is not recorded');
    clock.advance(10_000);
    t.strictSame(numbers(), ['4', '4']);
  },
);

t.test('work on the same key runs in turn, also after a failure [RECORDER-2]', async (t) => {
  const { recorder } = await recording(t);
  const order: string[] = [];
  const work = (name: string, fails = false) =>
    recorder.inTurn('thing', async () => {
      order.push(`${name} begins`);
      await turn();
      order.push(`${name} ends`);
      if (fails) throw new Error(name);
    });
  const [first, second] = [work('first', true), work('second')];
  await t.rejects(first, { message: 'first' });
  await second;
  t.same(order, ['first begins', 'first ends', 'second begins', 'second ends']);
});

t.test(
  'a decision on a row that another writer has changed since is made again, at most twenty times [RECORDER-6]',
  async (t) => {
    const { recorder, recordingOf, level } = await recording(t);
    const key = { kind: 'counts', owner: 'o', id: '1' };
    const put = (data: number) => ({ ...key, shelf: null, upd: '', data, body: null });
    let decisions = 0;
    const addOne = (meanwhile: () => Promise<unknown>) =>
      recorder.inTurn('count', async (seen) => {
        const row = await rowSeen(level, key, seen);
        decisions++;
        await meanwhile();
        await recorder.record({ ...recordingOf('count'), puts: [put(Number(row?.data ?? 0) + 1)], seen });
      });
    const count = async () => (await level.get(key))?.data;
    await addOne(async () => {});
    t.same([decisions, await count()], [1, 1]);
    await addOne(async () => decisions === 2 && append(level, { puts: [put(10)] }));
    t.same([decisions, await count()], [3, 11], 'on what stands there by now');
    const refused = addOne(() => append(level, { puts: [put(20)] }));
    await t.rejects(refused, { name: 'HubError', code: 'unavailable' });
    t.same([decisions, await count()], [23, 20]);
    await addOne(async () => {});
    t.equal(await count(), 21, 'the next one has its turn');
  },
);
