/**
 * B2: what a push costs while a transaction that only reads stays open in the database, as that of `pg_dump` does, and what without one.
 * In turns, minutes each, at a fixed rate on two nodes; between them what could not be removed is.
 */
import { openReader, type PostgresServer, postgresHere } from '../support/postgres.ts';
import { aroundRow, startAround } from './around.ts';
import { clusterRound, pairsOfAll, type Round, startCluster, startServer } from './cluster.ts';
import type { Bench, Figures } from './run.ts';
import { ratios, rounded } from './statistics.ts';
import { type Column, inTurns, rowsOf } from './turns.ts';

const perS = 150;
const objects = 101;

/** Of one part of a turn. */
interface Part extends Round {
  /** Mean of the database's function that writes, ms. */
  readonly appendMs: number;
}

const none = 'without';
const open = 'beside an open transaction';
const together = ({ cpuMicros, databaseMicros }: Round) => cpuMicros + databaseMicros;

const columns: readonly Column<Part>[] = [
  ['CPU of the nodes per push, ms', ({ cpuMicros }) => cpuMicros / 1000, 2],
  ['CPU of PostgreSQL per push, ms', ({ databaseMicros }) => databaseMicros / 1000, 2],
  ['together, ms', (part) => together(part) / 1000, 2],
  ['append in the database, mean, ms', ({ appendMs }) => appendMs, 2],
  ['answered p50, of the middle CPO, ms', ({ answeredP50Ms }) => answeredP50Ms, 1],
  ['pushes per second', (part) => part.perS, 0],
  ['refused', ({ refused }) => refused, 0],
  ['arrived, %', ({ forwarded }) => 100 * forwarded, 1],
];

export const openTransaction: Bench = {
  name: 'open-transaction',
  goal: 'B2',
  says: `${perS} pushes a second on two nodes, with and without a transaction that stays open`,
  async run(progress, { isShort }) {
    if (postgresHere === null) return { 'left out': 'no PostgreSQL server is installed here' };
    const [turns, parts, seconds, requests] = isShort ? [1, 2, 5, 4_000] : [2, 4, 30, 5_000];
    const { server, end } = await startServer('track_functions = pl');
    const around = await startAround(pairsOfAll);
    const cluster = await startCluster(server, 2, around.receiver.ready.urls);
    const pushed = { urls: cluster.urls, objects };
    await clusterRound(around, cluster, { ...pushed, connections: 1, seconds: 600, requests });
    const measured = await inTurns([none, open], turns, async (how, turn) => {
      const undone: (() => unknown)[] = [];
      await server.query('vacuum');
      if (how === open) await openReader({ teardown: (undo) => void undone.push(undo) }, server, 'bench');
      const done: Part[] = [];
      for (let part = 1; part <= parts; part++) {
        const appended = await watchAppends(server, cluster.schema);
        const round = await clusterRound(around, cluster, { ...pushed, perS, seconds });
        done.push({ ...round, appendMs: await appended() });
        const said = `${rounded(together(round), 0)} µs of CPU for a push, append ${rounded(done.at(-1)?.appendMs ?? 0)} ms`;
        progress(`turn ${turn} of ${turns}, ${how}, after ${part * seconds} s: ${said}`);
      }
      for (const undo of undone) await undo();
      return done;
    });
    await cluster.end();
    await around.end();
    await end();
    return figures(measured, parts * seconds);
  },
};

/** Starts a watch; what it gives is how long the database took for a write since, the mean, ms. */
async function watchAppends(server: PostgresServer, schema: string): Promise<() => Promise<number>> {
  const taken = async () => {
    // What a session has counted it tells once a second at most.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const rows = await server.query<{ calls: string; ms: number }>(
      `select calls, total_time as ms from pg_stat_user_functions where schemaname = $1 and funcname = 'append'`,
      [schema],
    );
    return { calls: Number(rows[0]?.calls), ms: rows[0]?.ms ?? Number.NaN };
  };
  const before = await taken();
  return async () => {
    const after = await taken();
    return (after.ms - before.ms) / (after.calls - before.calls);
  };
}

function figures(measured: ReadonlyMap<string, readonly (readonly Part[])[]>, seconds: number): Figures {
  const turnsOf = (how: string) => measured.get(how) ?? [];
  const of = (how: string, value: (part: Part) => number) => turnsOf(how).flat().map(value);
  const ends = (how: string, place: 0 | -1, value: (part: Part) => number) =>
    turnsOf(how)
      .flatMap((parts) => parts.at(place) ?? [])
      .map(value);
  const compared = (value: (part: Part) => number) => ratios(of(open, value), of(none, value));
  const grown = (how: string, value: (part: Part) => number) => ratios(ends(how, -1, value), ends(how, 0, value));
  return {
    ...rowsOf(none, turnsOf(none).flat(), columns),
    ...rowsOf(open, turnsOf(open).flat(), columns),
    [`ratio of all CPU per push, ${open} for ${seconds} s to ${none} (goal: at most 1.2)`]: compared(together),
    'ratio of CPU of PostgreSQL per push': compared(({ databaseMicros }) => databaseMicros),
    'ratio of the append': compared(({ appendMs }) => appendMs),
    [`${none}: the last part of the turn to the first, CPU of PostgreSQL`]: grown(
      none,
      ({ databaseMicros }) => databaseMicros,
    ),
    [`${open}: the last part of the turn to the first, CPU of PostgreSQL`]: grown(
      open,
      ({ databaseMicros }) => databaseMicros,
    ),
    ...aroundRow([...turnsOf(none), ...turnsOf(open)].flat()),
  };
}
