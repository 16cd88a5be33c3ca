/** Readers, some of which do not read, while up to a thousand state changes a second happen; the campaign has more and longer. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { directoryFor } from '../support/directory.ts';
import { eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { type Address, inspect, type Watching } from './inspected.ts';

const mib = 1024 * 1024;
const isWhole = atLength.skip === undefined;
const { reading, notReading, every } = isWhole
  ? { reading: 8, notReading: 2, every: 1_000 }
  : { reading: 1, notReading: 1, every: 100 };
/** Of collected heap, between two halves of a run. Without bounds two readers that do not read make several times as much. */
const noiseBytes = 2 * mib;

interface Outcome {
  /** Collected heap after every thousand changes. */
  readonly heap: readonly number[];
  /** Id and snapshot. */
  readonly actors: readonly (readonly [string, object])[];
}

async function told<T>(child: ChildProcess): Promise<T> {
  const [message] = await once(child, 'message');
  return message as T;
}

const snapshots = (reader: Watching) =>
  Object.fromEntries([...reader.actors].map(([id, { snapshot }]) => [id, snapshot] as const).sort());

const middle = (values: readonly number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

t.test(
  'memory stays flat and every reader that keeps reading has the newest state of every actor',
  atLength,
  async (t) => {
    const child = fork(join(import.meta.dirname, 'child.js'), [directoryFor(t), String(every)], {
      // A short run asserts nothing about the heap.
      execArgv: isWhole ? ['--expose-gc'] : [],
    });
    t.teardown(() => child.kill('SIGKILL'));
    const hub = await told<Address>(child);
    const readers = await Promise.all(Array.from({ length: reading }, () => inspect(t, hub)));
    const stuck = await Promise.all(Array.from({ length: notReading }, () => inspect(t, hub)));
    for (const { socket } of stuck) {
      socket.pause();
      // All actors again and again, so that what the kernel holds for them is full before anything is measured.
      for (let n = 0; n < 8; n++)
        for (const kinds of [[], null]) socket.send(JSON.stringify({ type: 'subscribe', kinds }));
    }
    child.send('go');
    const { heap, actors } = await told<Outcome>(child);

    const newest = JSON.stringify(Object.fromEntries([...actors].sort()));
    t.equal(actors.length, 400);
    for (const [n, reader] of readers.entries()) {
      await eventually(`reader ${n} has the newest of all`, () => JSON.stringify(snapshots(reader)) === newest);
      const commands = reader.messages.filter(({ name }) => name === 'command').length;
      t.ok(commands > every / 2, `and was told of ${commands} commands that came and went`);
    }
    const half = heap.length / 2;
    const growth = middle(heap.slice(half)) - middle(heap.slice(0, half));
    t.comment(`collected heap, MiB: ${heap.map((bytes) => (bytes / mib).toFixed(2)).join(' ')}`);
    // A short run makes less than this whatever is kept.
    if (isWhole) t.ok(growth < noiseBytes, `the heap grew by ${Math.round(growth / 1024)} KiB`);

    const [late] = stuck;
    t.ok(late && late.messages.length < (readers[0]?.messages.length ?? 0) / 2, 'who does not read was not served on');
    late?.socket.resume();
    await eventually(
      'the newest once it reads on',
      () => late !== undefined && JSON.stringify(snapshots(late)) === newest,
    );
    const missed = () => late?.messages.findLast(({ type }) => type === 'ocpi-hub.missed')?.total ?? 0;
    // What ends before a reader hears of it counts once there is more of it than the hub holds for one: not in a short run.
    if (isWhole) await eventually('and how much it missed', () => missed() > every);
    t.comment(`events that it missed: ${missed()}`);
    child.send('end');
    await once(child, 'exit');
  },
);
