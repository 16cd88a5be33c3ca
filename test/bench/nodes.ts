/**
 * E1: what a push costs when the load is the same and there are more nodes: sessions at a fixed rate, spread over all nodes and each owed to
 * one eMSP, on a hub with the embedded store and on one to ten nodes on a PostgreSQL server. In turns; those whose turn it is not stand still.
 * Then what they cost when nothing comes.
 */
import { postgresHere } from '../support/postgres.ts';
import { aroundRow } from './around.ts';
import {
  type Cluster,
  clusterRound,
  type Round,
  type Stage,
  serverS,
  startCluster,
  startEmbedded,
  startStage,
} from './cluster.ts';
import { cpuS } from './processes.ts';
import type { Bench, Figures } from './run.ts';
import { ratios, rounded } from './statistics.ts';
import { type Column, inTurns, rowsOf } from './turns.ts';

const perS = 150;
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
  full: { counts: [1, 2, 3, 6, 10], turns: 4, seconds: 12, warmUp: { least: 12_000, each: 5_000 }, idleS: 45 },
};

export const nodes: Bench = {
  name: 'nodes',
  goal: 'E1',
  says: `${perS} pushes a second, whatever the number of nodes`,
  async run(progress, { isShort }) {
    if (postgresHere === null) return { 'left out': 'no PostgreSQL server is installed here' };
    const { counts, turns, seconds, warmUp, idleS } = forms[isShort ? 'short' : 'full'];
    const stage = await startStage('max_connections = 400');
    const { urls } = stage.around.receiver.ready;
    const systems: System[] = [];
    for (const count of [0, ...counts]) {
      const cluster = await (count === 0 ? startEmbedded(urls) : startCluster(stage.server, count, urls));
      const system = { name: count === 0 ? 'embedded' : `${count} of them`, nodes: count, cluster };
      systems.push(system);
      const requests = Math.max(warmUp.least, count * warmUp.each);
      const warming = { urls: cluster.urls, connections: 2, objects, seconds: 600, requests };
      const { cpuMicros, refused } = await clusterRound(stage, cluster, warming);
      progress(`warmed up: ${system.name}, ${rounded(cpuMicros, 0)} µs of CPU for a push, ${refused} refused`);
      cluster.freeze();
    }
    const measured = await inTurns(systems, turns, async ({ name, cluster }, turn) => {
      await cluster.thaw();
      // What stood still has something to catch up with, which is of no push.
      await clusterRound(stage, cluster, { urls: cluster.urls, objects, perS, seconds: seconds / 4 });
      const round = await countedRound(stage, cluster, seconds);
      cluster.freeze();
      const said = `${rounded(round.cpuMicros, 0)} µs of the nodes, ${rounded(round.databaseMicros, 0)} of PostgreSQL`;
      progress(`round ${turn} of ${turns}, ${name}: ${said}`);
      return round;
    });
    const idle = await idleRows(stage, systems, idleS);
    for (const { cluster } of systems) await cluster.end();
    await stage.end();
    return { ...figures(measured), ...idle };
  },
};

async function countedRound(stage: Stage, cluster: Cluster, seconds: number): Promise<Counted> {
  const { schema } = cluster;
  const stored = async () => {
    if (schema === null) return 0;
    const found = await stage.server.query<{ n: number }>(
      `select count(*)::int as n from ${schema}.events where type in ('object.put', 'object.patched')`,
    );
    return found[0]?.n ?? Number.NaN;
  };
  const before = await stored();
  const round = await clusterRound(stage, cluster, { urls: cluster.urls, objects, perS, seconds });
  return { ...round, missing: schema === null ? 0 : Math.max(0, round.accepted - ((await stored()) - before)) };
}

/** With nothing to do: the server by itself, the embedded hub, the fewest nodes and the most. */
async function idleRows(stage: Stage, systems: readonly System[], seconds: number): Promise<Figures> {
  const rows: Record<string, number> = {};
  const measured = [undefined, systems[0], systems[1], systems.at(-1)];
  for (const system of measured) {
    await system?.cluster.thaw();
    // What the load has left to clean up is no cost of being idle.
    await stage.server.query('vacuum');
    await stage.server.query('checkpoint');
    await new Promise((resolve) => setTimeout(resolve, seconds * 100));
    const taken = () => [cpuS(...(system?.cluster.pids ?? [])), serverS(stage.server)] as const;
    const before = taken();
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    const after = taken();
    const [ofNodes, ofDatabase] = after.map((s, i) => rounded((100 * (s - (before[i] ?? 0))) / seconds));
    const name = `idle, ${system?.name ?? 'no node'}`;
    if (system) rows[`${name}: nodes, % of a core`] = ofNodes ?? Number.NaN;
    if (system?.nodes !== 0)
      rows[`${name}: PostgreSQL, % of a core${system ? ' (goal: at most 1)' : ''}`] = ofDatabase ?? Number.NaN;
    system?.cluster.freeze();
  }
  return rows;
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
