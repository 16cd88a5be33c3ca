/**
 * P8: what ten readers of the inspector cost: durable pushes, each forwarded to one receiver, closed loop over 64 connections, on one hub
 * without readers and with ten, in turns.
 */
import { aroundRow, startAround } from './around.ts';
import { startPart } from './processes.ts';
import type { Reading } from './readers.ts';
import type { Bench } from './run.ts';
import { residentMiB } from './scene.ts';
import { ratios, rounded } from './statistics.ts';
import { hubSystem, pushRound, type Round, warmUp } from './systems.ts';
import { type Column, inTurns, rowsOf, shareOfCore } from './turns.ts';

const readers = 10;
const connections = 64;

const alone = 'without readers';
const watched = `with ${readers} readers`;
const kinds = [alone, watched];

const columns: readonly Column<Round>[] = [
  ['pushes per second', ({ perS }) => perS, 0],
  ['CPU of the hub per push, µs', ({ cpuMicros }) => cpuMicros, 0],
  shareOfCore,
  ['forwarded in the end, %', ({ forwarded }) => 100 * forwarded, 1],
];

export const inspectors: Bench = {
  name: 'inspectors',
  goal: 'P8',
  says: `durable pushes with forward, ${connections} connections, without readers of the inspector and with ${readers}`,
  async run(progress, { isShort }) {
    const [turns, seconds] = isShort ? [3, 1.5] : [7, 3];
    const around = await startAround(1);
    const hub = await hubSystem(around.receiver.ready.urls[0] ?? '');
    const watching = await startPart('readers', 'around');
    await warmUp([hub], around, { isShort, progress });
    let bytes = 0;
    const measured = await inTurns(kinds, turns, async (kind, turn) => {
      const reading: Reading = { url: hub.url, adminToken: hub.adminToken, readers };
      if (kind === watched) await watching.ask('open', reading);
      const round = await pushRound(hub, around, { connections, seconds });
      if (kind === watched) bytes += await watching.ask<number>('close');
      progress(`round ${turn} of ${turns}, ${kind}: ${rounded(round.perS, 0)} pushes/s`);
      return round;
    });
    const [pid = 0] = hub.pids;
    const resident = residentMiB(pid);
    await Promise.all([hub.end(), watching.end(), around.end()]);
    const [without = [], shared = []] = kinds.map((kind) => measured.get(kind) ?? []);
    const of = (rounds: readonly Round[], what: 'perS' | 'cpuMicros') => rounds.map((round) => round[what]);
    const pushes = shared.reduce((sum, { accepted }) => sum + accepted, 0);
    return {
      ...rowsOf(alone, without, columns),
      ...rowsOf(watched, shared, columns),
      'ratio of pushes per second, with to without (goal: ≥ 0.9)': ratios(of(shared, 'perS'), of(without, 'perS')),
      'ratio of CPU per push, without to with': ratios(of(without, 'cpuMicros'), of(shared, 'cpuMicros')),
      'sent to each reader per push, bytes': rounded(bytes / (readers * pushes), 0),
      'hub in the end, MiB resident': rounded(resident, 0),
      ...aroundRow([...without, ...shared]),
    };
  },
};
