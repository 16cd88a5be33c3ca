/**
 * E1: durable pushes, each forwarded to one receiver, on one, two and three hub nodes on a PostgreSQL server, of which one is the owner. Each
 * node has a small part of a core, so that the machine has room for all of them, and a closed loop of its own.
 *
 * By turns each push comes to the owner, and to every node alike: what a standby's hop costs.
 */
import { availableParallelism } from 'node:os';
import { type PostgresServer, postgresHere, startPostgres } from '../support/postgres.ts';
import { type Around, aroundRow, startAround, watchAround } from './around.ts';
import { capsHere } from './caps.ts';
import { type Cluster, pairsOfAll, processesOf, serverS, startCluster } from './cluster.ts';
import type { ClosedLoad, LoadOutcome } from './load.ts';
import { cpuS, machineS, undoAtExit } from './processes.ts';
import type { Arrivals } from './receiver.ts';
import type { Bench, Figures } from './run.ts';
import { ratios, rounded, spread } from './statistics.ts';
import { arrival, sessionPush } from './systems.ts';
import { type Column, inTurns, rowsOf } from './turns.ts';

const counts = [1, 2, 3] as const;
/** Of one core, for each node: with three of them the whole machine is to be less than 70 % busy. */
const share = 0.2;
const objects = 1000;
/** What is written late belongs to the round. */
const settleMs = 200;

const own = 'the owner';
const any = 'any';

interface System {
  readonly name: string;
  readonly cluster: Cluster;
  /** The node that a push comes to. */
  readonly comesTo: typeof own | typeof any;
}

interface Round {
  readonly perS: number;
  readonly cpuMicros: number;
  readonly databaseMicros: number;
  /** Of what the caps allow, and of the whole machine, 0…1. */
  readonly ofCaps: number;
  readonly ofMachine: number;
  readonly aroundShare: number;
  readonly refused: number;
  readonly forwardedAtOnce: number;
  readonly forwarded: number;
  readonly repeated: number;
  readonly answeredP95Ms: number;
  readonly arrivedP95Ms: number;
}

const columns: readonly Column<Round>[] = [
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
  goal: 'E1',
  says: `durable pushes on one to three nodes, of which one is the owner, each with ${share} of a core and ${pairsOfAll} connections`,
  async run(progress, { isShort }) {
    if (postgresHere === null) return { 'left out': 'no PostgreSQL server is installed here' };
    const caps = capsHere();
    if (caps === null) return { 'left out': 'no control group can be made here, so nodes cannot be capped' };
    const [turns, seconds, warmUp] = isShort ? [2, 1.5, 2000] : [5, 4, 12_000];
    const undone: (() => unknown)[] = [];
    const server = await startPostgres({ teardown: (undo) => void undone.push(undo) }, 'max_connections = 200');
    const settled = undoAtExit(() => process.kill(processesOf(server)[0] ?? 0, 'SIGKILL'));
    const around = await startAround(pairsOfAll);
    const stage: Stage = { around, server };
    const systems: System[] = [];
    for (const count of counts) {
      const cluster = await startCluster(server, count, around.receiver.ready.urls);
      const ways = count === 1 ? ([own] as const) : ([own, any] as const);
      for (const comesTo of ways) {
        const system = { name: `${count} of them, pushes to ${comesTo}`, cluster, comesTo };
        systems.push(system);
        await roundOf(system, stage, { seconds: 60, requests: (warmUp * count) / ways.length });
      }
      progress(`warmed up: ${count} of them`);
      cluster.freeze();
      for (const pid of cluster.pids) caps.add(pid);
    }
    const measured = await inTurns(systems, turns, async (system, turn) => {
      await system.cluster.thaw();
      // What stood still has much to catch up with, which is of no push.
      await roundOf(system, stage, { seconds: seconds / 2 });
      caps.set(share);
      const round = await roundOf(system, stage, { seconds });
      caps.set(null);
      system.cluster.freeze();
      const said = `${rounded(round.perS, 0)} pushes/s, ${rounded(round.cpuMicros, 0)} µs of CPU each`;
      progress(`round ${turn} of ${turns}, ${system.name}: ${said}`);
      return round;
    });
    for (const cluster of new Set(systems.map((system) => system.cluster))) await cluster.end();
    caps.end();
    settled();
    for (const undo of undone) await undo();
    await around.end();
    return { 'capped by': caps.how, ...figures(measured) };
  },
};

interface Stage {
  readonly around: Around;
  readonly server: PostgresServer;
}

async function roundOf(
  { cluster, comesTo }: System,
  { around, server }: Stage,
  { seconds, requests }: { readonly seconds: number; readonly requests?: number },
): Promise<Round> {
  const { load, receiver } = around;
  const { pairs, pids, urls } = cluster;
  await receiver.ask('reset');
  const taken = () => ({
    at: performance.now() / 1000,
    ...{ nodes: cpuS(...pids), database: serverS(server), machine: machineS() },
  });
  const before = taken();
  const ofAround = watchAround(around);
  const outcomes = await Promise.all(
    pairs.map(({ cpo, emsp, authorization }) =>
      load.ask<LoadOutcome>('closed', {
        ...{ url: comesTo === own ? (urls[0] ?? '') : urls, shape: sessionPush(authorization, cpo, emsp) },
        ...{ connections: urls.length, objects, seconds },
        ...(requests !== undefined && { requests: Math.ceil(requests / pairs.length) }),
      } satisfies ClosedLoad),
    ),
  );
  const stopped = taken();
  const aroundShare = ofAround();
  const atOnce = await receiver.ask<number>('arrived');
  const sum = (what: 'accepted' | 'refused') => outcomes.reduce((all, outcome) => all + outcome[what], 0);
  const accepted = sum('accepted');
  if (accepted === 0) throw new Error(`nothing was accepted: ${outcomes[0]?.refusal}`);
  await arrival(receiver, accepted);
  await new Promise((resolve) => setTimeout(resolve, settleMs));
  const after = taken();
  const { arrived, repeated, p95Ms } = await receiver.ask<Arrivals>('arrivals');
  const took = stopped.at - before.at;
  return {
    ...{ perS: accepted / Math.max(...outcomes.map((outcome) => outcome.seconds)), refused: sum('refused'), repeated },
    cpuMicros: ((after.nodes - before.nodes) * 1e6) / accepted,
    databaseMicros: ((after.database - before.database) * 1e6) / accepted,
    ofCaps: (stopped.nodes - before.nodes) / (took * share * pids.length),
    ofMachine: (stopped.machine - before.machine) / (took * availableParallelism()),
    ...{ aroundShare, forwardedAtOnce: atOnce / accepted, forwarded: arrived / accepted },
    answeredP95Ms: Math.max(...outcomes.map((outcome) => outcome.p95Ms)),
    arrivedP95Ms: p95Ms,
  };
}

function figures(measured: ReadonlyMap<System, readonly Round[]>): Figures {
  const all = [...measured];
  const of = (count: number, way: System['comesTo'], what: 'perS' | 'cpuMicros' | 'databaseMicros') =>
    all
      .filter(([{ cluster, comesTo }]) => cluster.pids.length === count && comesTo === way)
      .flatMap(([, rounds]) => rounds.map((round) => round[what]));
  const [first, ...others] = counts;
  const compared = others.map((count) => {
    /** What pushes cost more that come to any node, for the part of them that is passed on. */
    const hops = of(count, any, 'cpuMicros').map((cpu, round) => {
      const without = of(count, own, 'cpuMicros')[round] ?? Number.NaN;
      return ((cpu - without) * count) / (count - 1);
    });
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
      [`CPU of a hop on both nodes, ${count} of them, µs`]: spread(hops, 0),
    };
  });
  const rows = all.map(([{ name }, rounds]) => rowsOf(name, rounds, columns));
  return Object.assign({}, ...rows, ...compared, aroundRow(all.flatMap(([, rounds]) => rounds)));
}
