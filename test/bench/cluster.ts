/**
 * Hub nodes on one schema, of which the first is the owner, and partners: of each pair a CPO that pushes to its eMSP; and rounds of pushes
 * to them.
 */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../src/sandbox/free-port.ts';
import { adminToken, settingsOf, untilJoined } from '../cluster/nodes.ts';
import type { ChildHub } from '../support/child-hub.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { type Around, watchAround } from './around.ts';
import type { ClosedLoad, LoadOutcome, OpenLoad } from './load.ts';
import { cpuS, endedS, machineS, undoAtExit } from './processes.ts';
import type { Arrivals } from './receiver.ts';
import { ownDirectory, register, startMeasuredHub } from './scene.ts';
import { median } from './statistics.ts';
import { arrival, sessionPush } from './systems.ts';

/** CPOs, and as many eMSPs. */
export const pairsOfAll = 36;

const registeredAtOnce = 4;
const forgottenMs = 1200;

export interface Pair {
  readonly cpo: string;
  readonly emsp: string;
  /** Value of the CPO's `Authorization` header. */
  readonly authorization: string;
}

export interface Cluster {
  /** Where its tables are; null when the store is embedded. */
  readonly server: PostgresServer | null;
  readonly schema: string;
  /** The first is the owner, as long as no lease runs out. */
  readonly urls: readonly string[];
  readonly pids: readonly number[];
  readonly pairs: readonly Pair[];
  /** All nodes stand still, or go on. */
  freeze(): void;
  thaw(): Promise<void>;
  end(): Promise<void>;
}

/** Probes that became due while all stood still would be made in the first seconds of a round. */
const env = { HUB_RATE_OTHER_PER_MIN: '100000000', HUB_RATE_LISTS_PER_MIN: '1000000', HUB_PROBE_INTERVAL_S: '3600' };

/** `receivers`: where eMSPs listen, and CPOs too, one for each pair. Nodes that are to stand still need a long lease. */
export async function startCluster(
  server: PostgresServer,
  count: number,
  receivers: readonly string[],
  leaseS = 3,
): Promise<Cluster> {
  const schema = `nodes${count}`;
  const ports = await Promise.all(Array.from({ length: count }, freePort));
  const [first = 0] = ports;
  const hubs: Started[] = [];
  for (const port of ports) {
    const settings = settingsOf(`http://127.0.0.1:${first}`, port, server.url(schema), {
      ...env,
      HUB_LEASE_S: `${leaseS}`,
    });
    hubs.push(await started(port, '/nowhere', settings));
  }
  await untilJoined(hubs.map(({ hub }) => hub));
  return clusterOf(server, schema, hubs, receivers);
}

/** A hub with the embedded store, as if it were a node. */
export async function startEmbedded(receivers: readonly string[]): Promise<Cluster> {
  const { directory, remove } = ownDirectory();
  const hub = await started(0, directory, { ...env, HUB_ADMIN_TOKEN: adminToken });
  const cluster = await clusterOf(null, '', [hub], receivers);
  const end = async () => {
    await cluster.end();
    remove();
  };
  return { ...cluster, end };
}

interface Started {
  readonly hub: ChildHub;
  readonly settled: () => void;
}

async function started(port: number, dataDir: string, settings: Record<string, string>): Promise<Started> {
  const hub = await startMeasuredHub({ dataDir, port, env: settings });
  return { hub, settled: undoAtExit(() => process.kill(hub.pid, 'SIGKILL')) };
}

async function clusterOf(
  server: PostgresServer | null,
  schema: string,
  hubs: readonly Started[],
  receivers: readonly string[],
): Promise<Cluster> {
  const urls = hubs.map(({ hub }) => hub.url);
  const pids = hubs.map(({ hub }) => hub.pid);
  return {
    ...{ server, schema, urls, pids },
    pairs: await pairsOf(urls[0] ?? '', receivers),
    freeze: () => signal(pids, 'SIGSTOP'),
    async thaw() {
      signal(pids, 'SIGCONT');
      // Its event loop was late by as long as it stood still: it refuses what comes until that is forgotten.
      await new Promise((resolve) => setTimeout(resolve, forgottenMs));
      await eventually('every node answers', async () => {
        const answers = await Promise.all(urls.map((url) => fetch(`${url}/readyz`)));
        return answers.every(({ status }) => status === 200);
      });
    },
    async end() {
      for (const { hub, settled } of hubs) {
        settled();
        await hub.kill();
      }
    },
  };
}

async function pairsOf(url: string, receivers: readonly string[]): Promise<Pair[]> {
  const hub = { url, adminToken };
  const wanted = receivers.map((receiver, i) => {
    const place = i.toString(36).padStart(2, '0').toUpperCase();
    return { receiver, cpo: `C${place}`, emsp: `E${place}` };
  });
  const pairs: Pair[] = [];
  while (wanted.length > 0) {
    const some = wanted.splice(0, registeredAtOnce);
    const registered = some.map(async ({ receiver, cpo, emsp }): Promise<Pair> => {
      const authorization = await register(hub, { role: 'CPO', partyId: cpo, url: receiver });
      await register(hub, { role: 'EMSP', partyId: emsp, url: receiver });
      await admin(hub, 'PUT', `/routes/NL-${emsp}/NL-${cpo}`, { active: true });
      return { cpo, emsp, authorization };
    });
    pairs.push(...(await Promise.all(registered)));
  }
  return pairs;
}

function signal(pids: readonly number[], name: NodeJS.Signals): void {
  for (const pid of pids) process.kill(pid, name);
}

export interface RunningServer {
  readonly server: PostgresServer;
  end(): Promise<void>;
}

/** A PostgreSQL server with these lines of configuration. */
export async function startServer(settings = ''): Promise<RunningServer> {
  const undone: (() => unknown)[] = [];
  const server = await startPostgres({ teardown: (undo) => void undone.push(undo) }, settings);
  const settled = undoAtExit(() => process.kill(processesOf(server)[0] ?? 0, 'SIGKILL'));
  const end = async () => {
    settled();
    for (const undo of undone) await undo();
  };
  return { server, end };
}

export interface Round {
  readonly accepted: number;
  readonly perS: number;
  /** Of all nodes, of the owner alone, and of PostgreSQL. */
  readonly cpuMicros: number;
  readonly ownerMicros: number;
  readonly databaseMicros: number;
  /** Of one core, and of the whole machine, while the load ran, 0…1 and more. */
  readonly nodesShare: number;
  readonly ofMachine: number;
  readonly aroundShare: number;
  readonly refused: number;
  readonly forwardedAtOnce: number;
  readonly forwarded: number;
  readonly repeated: number;
  /** Of the middle and of the slowest CPO. */
  readonly answeredP50Ms: number;
  readonly answeredP95Ms: number;
  readonly arrivedP95Ms: number;
}

export interface Pushed {
  /** Where pushes come, by turns. */
  readonly urls: readonly string[];
  /** Of each CPO. */
  readonly objects: number;
  readonly seconds: number;
  /** Of each CPO; as many as there are URLs when absent. */
  readonly connections?: number;
  /** Of all CPOs together, open loop; closed loop when absent. */
  readonly perS?: number;
  /** A closed loop ends after so many. */
  readonly requests?: number;
}

/** What is written late belongs to the round. */
const settleMs = 200;

export async function clusterRound(around: Around, cluster: Cluster, pushed: Pushed): Promise<Round> {
  const { receiver } = around;
  const { pids, server } = cluster;
  const owner = await ownerOf(cluster);
  await receiver.ask('reset');
  const taken = () => ({
    at: performance.now() / 1000,
    ...{ nodes: cpuS(...pids), owner: cpuS(owner), machine: machineS() },
    database: server === null ? 0 : serverS(server),
  });
  const before = taken();
  const ofAround = watchAround(around);
  const outcomes = await Promise.all(cluster.pairs.map((pair, i) => loadOf(around, pair, i, pushed)));
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
  const micros = (what: 'nodes' | 'owner' | 'database') => ((after[what] - before[what]) * 1e6) / accepted;
  return {
    accepted,
    ...{ perS: accepted / Math.max(...outcomes.map((outcome) => outcome.seconds)), refused: sum('refused'), repeated },
    ...{ cpuMicros: micros('nodes'), ownerMicros: micros('owner'), databaseMicros: micros('database') },
    nodesShare: (stopped.nodes - before.nodes) / took,
    ofMachine: (stopped.machine - before.machine) / (took * availableParallelism()),
    ...{ aroundShare, forwardedAtOnce: atOnce / accepted, forwarded: arrived / accepted },
    answeredP50Ms: median(outcomes.map((outcome) => outcome.p50Ms)),
    answeredP95Ms: Math.max(...outcomes.map((outcome) => outcome.p95Ms)),
    arrivedP95Ms: p95Ms,
  };
}

/** The process that is the owner. */
async function ownerOf({ server, schema, pids }: Cluster): Promise<number> {
  const [row] = (await server?.query<{ name: string }>(
    `select n.name from ${schema}.log l join ${schema}.nodes n on n.id = l.owner`,
  )) ?? [{ name: `:${pids[0]}` }];
  const found = pids.find((pid) => row?.name.endsWith(`:${pid}`));
  if (found === undefined) throw new Error('there is no owner');
  return found;
}

async function loadOf({ load }: Around, pair: Pair, place: number, pushed: Pushed): Promise<LoadOutcome> {
  const { urls, connections = urls.length, objects, seconds, perS, requests } = pushed;
  const { authorization, cpo, emsp } = pair;
  const shape = sessionPush(authorization, cpo, emsp);
  // With fewer connections than URLs each pair has others.
  const url = urls.map((_, i) => urls[(place + i) % urls.length] ?? '');
  const options = { url, shape, connections, objects, seconds };
  if (perS === undefined) {
    const own = requests !== undefined && { requests: Math.ceil(requests / pairsOfAll) };
    return load.ask('closed', { ...options, ...own } satisfies ClosedLoad);
  }
  // Not all at one instant, again and again.
  await new Promise((resolve) => setTimeout(resolve, (1000 * place) / perS));
  return load.ask('open', { ...options, perS: perS / pairsOfAll } satisfies OpenLoad);
}

/** Seconds of CPU that a server has taken, also by what has ended. One of its workers may end between the list of them and the look at it. */
export function serverS(server: PostgresServer): number {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const pids = processesOf(server);
      return cpuS(...pids) + endedS(pids[0] ?? 0);
    } catch (error) {
      if (attempt === 10) throw error;
    }
  }
}

/** Of a server: its first process, and those that it has started. */
function processesOf(server: PostgresServer): number[] {
  const [pid = ''] = readFileSync(join(server.directory, 'postmaster.pid'), 'utf8').split('\n');
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return [pid, ...children.split(' ')].filter(Boolean).map(Number);
}
