/**
 * E1: what a push costs when the load is the same and there are more nodes: sessions at a fixed rate, spread over all nodes and each owed to
 * one eMSP, on a hub with the embedded store and on one to ten nodes on a PostgreSQL server of their own. In turns, while the others have
 * nothing to do. Then what each costs when nothing comes.
 */
import { postgresHere } from '../support/postgres.ts';
import { type Around, aroundRow, startAround } from './around.ts';
import {
  type Cluster,
  clusterRound,
  pairsOfAll,
  type Round,
  serverS,
  startCluster,
  startEmbedded,
  startServer,
} from './cluster.ts';
import { cpuS } from './processes.ts';
import type { Bench, Figures } from './run.ts';
import { ratios, rounded } from './statistics.ts';
import { type Column, inTurns, rowsOf } from './turns.ts';

const perS = 150;
/** Nothing moves because a busy machine stands still; what beats cost, three in a lease, is seen when nothing comes. */
const leaseS = 60;
/** Of each CPO; prime, so that each comes through another node than the last time. */
const objects = 101;

interface System {
  readonly name: string;
  /** 0: embedded. */
  readonly nodes: number;
  readonly cluster: Cluster;
}

interface Counted extends Round {
  /** Accepted, and not in the log. */
  readonly missing: number;
}

const sum = ({ cpuMicros, databaseMicros }: Round) => cpuMicros + databaseMicros;
const columns: readonly Column<Counted>[] = [
  ['CPU of all nodes per push, ms', ({ cpuMicros }) => cpuMicros / 1000, 2],
  ['CPU of the owner per push, ms', ({ ownerMicros }) => ownerMicros / 1000, 2],
  ['CPU of PostgreSQL per push, ms', ({ databaseMicros }) => databaseMicros / 1000, 2],
  ['together, ms', (round) => sum(round) / 1000, 2],
  ['pushes per second', (round) => round.perS, 0],
  ['refused', ({ refused }) => refused, 0],
  ['accepted and not in the log', ({ missing }) => missing, 0],
  ['arrived, %', ({ forwarded }) => 100 * forwarded, 1],
  ['arrived more than once', ({ repeated }) => repeated, 0],
  ['answered p50, of the middle CPO, ms', ({ answeredP50Ms }) => answeredP50Ms, 1],
  ['accept to receiver p95, ms', ({ arrivedP95Ms }) => arrivedP95Ms, 0],
  ['the whole machine was busy, %', ({ ofMachine }) => 100 * ofMachine, 0],
];

const forms = {
  short: { counts: [1, 3], turns: 1, seconds: 4, warmUp: { least: 2_000, each: 1_000 }, idleS: 2 },
  full: { counts: [1, 2, 3, 6, 10], turns: 4, seconds: 10, warmUp: { least: 12_000, each: 6_000 }, idleS: 30 },
};

export const nodes: Bench = {
  name: 'nodes',
  goal: 'E1',
  says: `${perS} pushes a second, whatever the number of nodes`,
  async run(progress, { isShort }) {
    if (postgresHere === null) return { 'left out': 'no PostgreSQL server is installed here' };
    const { counts, turns, seconds, warmUp, idleS } = forms[isShort ? 'short' : 'full'];
    const around = await startAround(pairsOfAll);
    const { urls } = around.receiver.ready;
    const systems: System[] = [];
    const ends: (() => Promise<void>)[] = [around.end];
    for (const count of [0, ...counts]) {
      let cluster: Cluster;
      if (count === 0) cluster = await startEmbedded(urls);
      else {
        const { server, end } = await startServer('max_connections = 200');
        ends.push(end);
        cluster = await startCluster(server, count, urls, leaseS);
      }
      const system = { name: count === 0 ? 'embedded' : `${count} of them`, nodes: count, cluster };
      systems.push(system);
      const requests = Math.max(warmUp.least, count * warmUp.each);
      const warming = { urls: cluster.urls, connections: 1, objects, seconds: 600, requests };
      const { cpuMicros, refused } = await clusterRound(around, cluster, warming);
      progress(`warmed up: ${system.name}, ${rounded(cpuMicros, 0)} µs of CPU for a push, ${refused} refused`);
    }
    const measured = await inTurns(systems, turns, async ({ name, cluster }, turn) => {
      const round = await countedRound(around, cluster, seconds);
      const said = `${rounded(round.cpuMicros, 0)} µs of the nodes, ${rounded(round.databaseMicros, 0)} of PostgreSQL, ${round.refused} refused`;
      progress(`round ${turn} of ${turns}, ${name}: ${said}`);
      return round;
    });
    for (const { cluster } of systems) await cluster.end();
    const idle = await idleRows([1, counts.at(-1) ?? 1], urls, idleS);
    for (const end of ends) await end();
    return { ...figures(measured), ...idle };
  },
};

async function countedRound(around: Around, cluster: Cluster, seconds: number): Promise<Counted> {
  const { server, schema } = cluster;
  const stored = async () => {
    if (server === null) return 0;
    const found = await server.query<{ n: number }>(
      `select count(*)::int as n from ${schema}.events where type in ('object.put', 'object.patched')`,
    );
    return found[0]?.n ?? Number.NaN;
  };
  const before = await stored();
  const round = await clusterRound(around, cluster, { urls: cluster.urls, objects, perS, seconds });
  return { ...round, missing: server === null ? 0 : Math.max(0, round.accepted - ((await stored()) - before)) };
}

/** Of new nodes with the lease that users have, all at the same time. */
async function idleRows(counts: readonly number[], receivers: readonly string[], seconds: number): Promise<Figures> {
  const idle = await Promise.all(
    counts.map(async (count) => {
      const { server, end } = await startServer('max_connections = 200');
      return { count, server, end, cluster: await startCluster(server, count, receivers) };
    }),
  );
  // What the start has left to clean up is no cost of being idle.
  for (const { server } of idle) await server.query('vacuum');
  for (const { server } of idle) await server.query('checkpoint');
  await new Promise((resolve) => setTimeout(resolve, seconds * 200));
  const taken = () => idle.map(({ cluster, server }) => [cpuS(...cluster.pids), serverS(server)] as const);
  const before = taken();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const after = taken();
  const rows = idle.map(({ count }, i) => {
    const [ofNodes, ofServer] = ([0, 1] as const).map((what) =>
      rounded((100 * ((after[i]?.[what] ?? 0) - (before[i]?.[what] ?? 0))) / seconds),
    );
    return {
      [`idle, ${count} of them: nodes, % of a core`]: ofNodes,
      [`idle, ${count} of them: PostgreSQL, % of a core${count === 10 ? ' (goal: at most 1)' : ''}`]: ofServer,
    };
  });
  for (const { cluster, end } of idle) {
    await cluster.end();
    await end();
  }
  return Object.assign({}, ...rows);
}

const goals: Readonly<Record<number, string>> = { 3: ' (goal: at most 1.3)', 10: ' (goal: at most 1.8)' };

function figures(measured: ReadonlyMap<System, readonly Counted[]>): Figures {
  const all = [...measured];
  const of = (nodes: number, value: (round: Counted) => number) =>
    all.filter(([system]) => system.nodes === nodes).flatMap(([, rounds]) => rounds.map(value));
  const compared = all
    .filter(([system]) => system.nodes > 1)
    .map(([system]) => ({
      [`ratio of all CPU per push, ${system.nodes} to 1${goals[system.nodes] ?? ''}`]: ratios(
        of(system.nodes, sum),
        of(1, sum),
      ),
    }));
  const embedded = {
    'ratio of CPU of the node per push, 1 to embedded (goal: at most 2)': ratios(
      of(1, ({ cpuMicros }) => cpuMicros),
      of(0, ({ cpuMicros }) => cpuMicros),
    ),
  };
  const rows = all.map(([{ name }, rounds]) => rowsOf(name, rounds, columns));
  return Object.assign({}, ...rows, ...compared, embedded, aroundRow(all.flatMap(([, rounds]) => rounds)));
}
