/**
 * As many durable pushes as there is room for, each forwarded to one receiver, on one, two and three hub nodes on a PostgreSQL server, of
 * which one is the owner. Each node has a small part of a core, so that the machine has room for all of them, and a closed loop of its own.
 *
 * By turns all pushes come to the owner, and to every node alike.
 */
import { postgresHere } from '../support/postgres.ts';
import { type Around, aroundRow, startAround } from './around.ts';
import { capsHere } from './caps.ts';
import { type Cluster, clusterRound, pairsOfAll, type Round, startCluster, startServer } from './cluster.ts';
import type { Bench, Figures } from './run.ts';
import { ratios, rounded } from './statistics.ts';
import { type Column, inTurns, rowsOf } from './turns.ts';

const counts = [1, 2, 3] as const;
/** Of one core, for each node: with three of them the whole machine is to be less than 70 % busy. */
const share = 0.2;
const objects = 1000;
/** The longest there is: what stands still while others are measured stays the owner. */
const leaseS = 300;

const own = 'the owner';
const any = 'any';

interface System {
  readonly name: string;
  readonly cluster: Cluster;
  /** The node that a push comes to. */
  readonly comesTo: typeof own | typeof any;
}

interface Capped extends Round {
  /** 0…1. */
  readonly ofCaps: number;
}

const columns: readonly Column<Capped>[] = [
  ['pushes accepted per second', ({ perS }) => perS, 0],
  ['CPU of the nodes per push, µs', ({ cpuMicros }) => cpuMicros, 0],
  ['CPU of PostgreSQL per push, µs', ({ databaseMicros }) => databaseMicros, 0],
  ['nodes had of their caps, %', ({ ofCaps }) => 100 * ofCaps, 0],
  ['the whole machine was busy, % (goal: < 70)', ({ ofMachine }) => 100 * ofMachine, 0],
  ['refused', ({ refused }) => refused, 0],
  ['forwarded when the load stopped, %', ({ forwardedAtOnce }) => 100 * forwardedAtOnce, 1],
  ['forwarded in the end, %', ({ forwarded }) => 100 * forwarded, 1],
  ['arrived more than once', ({ repeated }) => repeated, 0],
  ['answered p95, of the slowest CPO, ms', ({ answeredP95Ms }) => answeredP95Ms, 0],
  ['accept to receiver p95, ms', ({ arrivedP95Ms }) => arrivedP95Ms, 0],
];

export const scaling: Bench = {
  name: 'scaling',
  says: `durable pushes on one to three nodes, of which one is the owner, each with ${share} of a core and ${pairsOfAll} connections`,
  async run(progress, { isShort }) {
    if (postgresHere === null) return { 'left out': 'no PostgreSQL server is installed here' };
    const caps = capsHere();
    if (caps === null) return { 'left out': 'no control group can be made here, so nodes cannot be capped' };
    const [turns, seconds, warmUp] = isShort ? [2, 1.5, 2000] : [5, 4, 12_000];
    const [{ server, end }, around] = await Promise.all([
      startServer('max_connections = 200'),
      startAround(pairsOfAll),
    ]);
    const systems: System[] = [];
    for (const count of counts) {
      const cluster = await startCluster(server, count, around.receiver.ready.urls, leaseS);
      const ways = count === 1 ? ([own] as const) : ([own, any] as const);
      for (const comesTo of ways) {
        const system = { name: `${count} of them, pushes to ${comesTo}`, cluster, comesTo };
        systems.push(system);
        await roundOf(system, around, { seconds: 60, requests: (warmUp * count) / ways.length });
      }
      progress(`warmed up: ${count} of them`);
      cluster.freeze();
      for (const pid of cluster.pids) caps.add(pid);
    }
    const measured = await inTurns(systems, turns, async (system, turn) => {
      await system.cluster.thaw();
      // What stood still has much to catch up with, which is of no push.
      await roundOf(system, around, { seconds: seconds / 2 });
      caps.set(share);
      const round = await roundOf(system, around, { seconds });
      caps.set(null);
      system.cluster.freeze();
      const said = `${rounded(round.perS, 0)} pushes/s, ${rounded(round.cpuMicros, 0)} µs of CPU each`;
      progress(`round ${turn} of ${turns}, ${system.name}: ${said}`);
      return round;
    });
    for (const cluster of new Set(systems.map((system) => system.cluster))) await cluster.end();
    caps.end();
    await Promise.all([end(), around.end()]);
    return { 'capped by': caps.how, ...figures(measured) };
  },
};

async function roundOf(
  { cluster, comesTo }: System,
  around: Around,
  how: { readonly seconds: number; readonly requests?: number },
): Promise<Capped> {
  const urls = comesTo === own ? cluster.urls.slice(0, 1) : cluster.urls;
  const round = await clusterRound(around, cluster, { urls, connections: cluster.urls.length, objects, ...how });
  return { ...round, ofCaps: round.nodesShare / (share * cluster.pids.length) };
}

function figures(measured: ReadonlyMap<System, readonly Capped[]>): Figures {
  const all = [...measured];
  const of = (count: number, way: System['comesTo'], what: 'perS' | 'cpuMicros' | 'databaseMicros') =>
    all
      .filter(([{ cluster, comesTo }]) => cluster.pids.length === count && comesTo === way)
      .flatMap(([, rounds]) => rounds.map((round) => round[what]));
  const [first, ...others] = counts;
  const compared = others.map((count) => {
    return {
      [`ratio of pushes per second, ${count} to 1`]: ratios(of(count, own, 'perS'), of(first, own, 'perS')),
      [`ratio of CPU per push, ${count} to 1`]: ratios(of(count, own, 'cpuMicros'), of(first, own, 'cpuMicros')),
      [`ratio of CPU of PostgreSQL per push, ${count} to 1`]: ratios(
        of(count, own, 'databaseMicros'),
        of(first, own, 'databaseMicros'),
      ),
      [`ratio of pushes per second, ${count} with pushes to any to 1`]: ratios(
        of(count, any, 'perS'),
        of(first, own, 'perS'),
      ),
      [`ratio of CPU per push, ${count} with pushes to any to 1`]: ratios(
        of(count, any, 'cpuMicros'),
        of(first, own, 'cpuMicros'),
      ),
    };
  });
  const rows = all.map(([{ name }, rounds]) => rowsOf(name, rounds, columns));
  return Object.assign({}, ...rows, ...compared, aroundRow(all.flatMap(([, rounds]) => rounds)));
}
