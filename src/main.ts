/**
 * Composition root: the only file that creates the parts of a process, and closes them in reverse order.
 *
 * MAIN-1  The server listens at once, before the store is opened, and answers 503 until everything recorded is
 *     restored.
 * MAIN-2  When `close` resolves, everything acknowledged before is on disk.
 */
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { StoreHealth } from '../storage/contract.ts';
import { openLevelStore } from '../storage/level/store.ts';
import { isFull } from '../storage/level/unopened.ts';
import { answerOf } from './admin/own-answer.ts';
import {
  type Assembled,
  assemble,
  closeAll,
  limiterOf,
  type Replaceable,
  type Surroundings,
  serverOptions,
} from './assembly.ts';
import { removeUnsealed, sealingOf } from './backup-keys.ts';
import { type Machine, noMachine, thisMachine, watchClock } from './clock-watch.ts';
import { Addresses } from './cluster/addresses.ts';
import { ChannelDoor } from './cluster/channel.ts';
import { Front } from './cluster/front.ts';
import { GrantSharing } from './cluster/grant-sharing.ts';
import { HubNode } from './cluster/node.ts';
import { hopOf, peersPath } from './cluster/node-auth.ts';
import type { Served } from './cluster/node-parts.ts';
import { Passing } from './cluster/passing.ts';
import { pathOf } from './cluster/refusal.ts';
import { type Having, sharedBy, type Tenure } from './cluster/tenure.ts';
import { type Config, ConfigError, listenUrl, plainBeyondLoopback, type Tls } from './config/config.ts';
import { ownDirectory, refuseShared } from './data-directory.ts';
import { instantText } from './domain/instant.ts';
import type { CreatedHub } from './hub/create-hub.ts';
import { directoryKey } from './hub/kernel/directory.ts';
import type { Clock } from './kit/clock.ts';
import { nextTurn, systemClock } from './kit/system-clock.ts';
import { cut, ended, inFlightGraceMs, listen, listenForNodes, listenForOperators, placesOf } from './listeners.ts';
import { createLog, standardError } from './log.ts';
import { createMetrics, type Metrics } from './metrics/metrics.ts';
import { outOfDate } from './metrics/upkeep-metrics.ts';
import { endOfNode } from './node-release.ts';
import { createEarlyServer, createFrontServer, logFailedAccepts, renewCertificate } from './ocpi/http-server.ts';
import { isAtEveryNode } from './ocpi/server.ts';
import { operatorsIn } from './operators.ts';
import { derivedAhead } from './secrets.ts';
import { openSharedStore, viewOf } from './shared-store.ts';
import { FoundDamaged, reopenable, restored, Starting } from './starting.ts';
import { isAtOperators } from './transport/client-connection.ts';
import { createVisitors } from './transport/visitors.ts';
import { version } from './version.ts';

export interface ServingHub {
  /** The URL at which the hub listens, e.g. `http://127.0.0.1:8080`. */
  readonly url: string;
  /** The URL at which operators are served; the same, unless they have a listener of their own. */
  readonly adminUrl: string;
  /** Switches to a renewed certificate; only a hub that was started with TLS has one. */
  renewCertificate(tls: Tls): void;
  /** Reads HUB_OPERATORS_FILE again; returns how many operators there are. Throws with the reason, then nothing changes. */
  reloadOperators(): number;
  close(): Promise<void>;
}

export interface RunningHub extends ServingHub {
  readonly adminToken: string;
  /** For tests that inspect the hub. */
  readonly created: CreatedHub;
}

/** Parts that a test may replace. */
export interface Replaced extends Replaceable, Partial<Pick<Surroundings, 'clock' | 'random'>> {
  /** Receives the log lines. */
  readonly logTo?: Parameters<typeof createLog>[1];
  /** Called with the name of each point that the store passes, at which a test may inject a fault. */
  readonly onPoint?: (name: string) => void;
  /** Whose boot and monotonic clock tell of steps while no hub ran; by default this one, or none for another clock. */
  readonly machine?: Machine;
  /** Disk space that the embedded store reserves. */
  readonly ballastBytes?: number;
  /** Events at the end of the log that the embedded store reads at a start. */
  readonly recent?: number;
}

/** Longest wait until a node can answer requests; then it reports that it listens all the same. */
const settledMs = 10_000;

async function logFor(config: Config, clock: Clock, to?: Replaced['logTo']): Promise<ReturnType<typeof createLog>> {
  const { logLevel, egressAllow, objectsPerParty } = config;
  const log = createLog(logLevel, to ?? (await standardError()), () => instantText(clock.wall()));
  const open = egressAllow.length === 0 ? 'none' : egressAllow.join(', ');
  log.info({ networks: egressAllow }, `private networks that URLs of partners may lead to: ${open}`);
  log.info({ objectsPerParty }, 'objects that a party may have stored; 0 = no limit');
  const hosts = plainBeyondLoopback(config);
  if (hosts.length > 0) {
    log.warn(
      { hosts, publicUrl: config.publicUrl },
      'the hub speaks plain HTTP: the network up to the proxy or caller can read every token',
    );
  }
  const unfit = config.tls && outOfDate(config.tls.cert, clock);
  if (unfit !== null) log.warn({}, unfit);
  const ended = endOfNode(process.versions.node, clock);
  if (ended !== null) log.warn({ node: process.versions.node }, ended);
  return log;
}

/** Metrics that know the certificate and the data directory of the settings. */
function metricsFor({ tls, dataDir }: Config): Metrics {
  const metrics = createMetrics(version);
  metrics.upkeep.certificate(tls?.cert ?? null);
  metrics.upkeep.dataDir(dataDir);
  return metrics;
}

/** Watches the clock; the returned function ends that. */
function watchedClock(config: Config, replaced: Replaced, { log, metrics }: Pick<Surroundings, 'log' | 'metrics'>) {
  const { clock = systemClock, machine = replaced.clock ? noMachine : thisMachine() } = replaced;
  const unwatch = watchClock(clock, { path: join(config.dataDir, 'clock'), log, meter: metrics.clock, machine });
  return async () => unwatch();
}

interface ServingParts extends Pick<Surroundings, 'metrics'> {
  readonly config: Config;
  readonly port: number;
  readonly operators: { readonly url: string } | null;
  /** Those that get a renewed certificate. */
  readonly servers: readonly Server[];
  readonly named: ReturnType<typeof operatorsIn>;
  readonly closing: (() => Promise<void>)[];
}

function servingHub({ config, port, operators, servers, named, metrics, closing }: ServingParts): ServingHub {
  const url = listenUrl(config, port);
  return {
    url,
    adminUrl: operators?.url ?? url,
    close: () => closeAll(closing),
    reloadOperators: named.reload,
    renewCertificate(tls) {
      for (const server of servers) renewCertificate(server, tls);
      metrics.upkeep.certificate(tls.cert);
    },
  };
}

/** Starts a hub on the configured store. `ending` ends a start that waits: it rejects with `StartStopped`. [STARTING-4] */
export function startServing(config: Config, replaced: Replaced = {}, ending?: AbortSignal): Promise<ServingHub> {
  return config.store === 'level' ? startHub(config, replaced, ending) : startNode(config, replaced, ending);
}

/** Starts a hub on the embedded store. */
export async function startHub(
  config: Config,
  replaced: Replaced = {},
  ending?: AbortSignal,
  isAgain = false,
): Promise<RunningHub> {
  const { clock = systemClock, random = Math.random, onPoint, ballastBytes, recent, ...rest } = replaced;
  const { logTo, machine: _, ...others } = rest;
  const verified = recent ?? (config.verifyAtStart === 'all' ? Number.POSITIVE_INFINITY : undefined);
  const log = await logFor(config, clock, logTo);
  const named = operatorsIn(config.operatorsFile);
  const sealing = sealingOf(config);
  const metrics = metricsFor(config);
  const visitors = createVisitors(config, () => clock.monotonic());
  const directory = await ownDirectory(config.dataDir);
  const starting = new Starting(log, clock, ending);
  const early = createEarlyServer(serverOptions(config, visitors, clock), starting.answer);
  const closing: (() => Promise<void>)[] = [async () => starting.close()];
  let answer: RequestListener = starting.answer;
  try {
    const operators = await listenForOperators(config, visitors, clock, (...request) => answer(...request));
    if (operators) closing.unshift(() => cut(operators.server));
    await listen(early.server, config, 'HUB');
    closing.unshift(() => cut(early.server));
    const { port } = early.server.address() as AddressInfo;
    logFailedAccepts(early.server, log, clock);
    const open = () =>
      openLevelStore({
        directory,
        node: `${hostname()}:${process.pid}`,
        progress: starting.progress,
        verified: starting.verified,
        sealing,
        ...(onPoint && { onPoint }),
        ...(ballastBytes !== undefined && { ballastBytes }),
        ...(verified !== undefined && { recent: verified }),
      });
    const [store] = await Promise.all([starting.until(open, isFull), derivedAhead(config)]);
    starting.opened();
    await removeUnsealed(config.dataDir);
    closing.push(watchedClock(config, replaced, { log, metrics }));
    closing.push(() => store.close());
    metrics.cluster.role('owner');
    const reached = {
      listeners: () => [early.server, ...(operators ? [operators.server] : [])].flatMap(placesOf),
      nodes: () => [],
    };
    const ports = { log, clock, random, metrics, visitors, port, reached, early, named: named.now, ...others };
    const around = operators ? { ...ports, operators: operators.server } : ports;
    const hub = await reopenable(store, () => starting.until(() => assemble(store, config, around), isFull));
    closing.unshift(() => hub.close(inFlightGraceMs));
    const { app, inspector, created, adminToken } = hub;
    const servers = operators ? [app.server, operators.server] : [app.server];
    for (const server of servers) server.on('upgrade', inspector.upgrade);
    await app.ready();
    early.handOver();
    answer = (request, response) => app.routing(request, response);
    await restored(store, hub.recover);
    return { ...servingHub({ config, port, operators, servers, named, metrics, closing }), adminToken, created };
  } catch (error) {
    await closeAll(closing);
    if (error instanceof FoundDamaged && !isAgain) return startHub(config, replaced, ending, true);
    throw error;
  }
}

/** Starts one node on a database; it may be the only one there. */
async function startNode(config: Config, replaced: Replaced, ending?: AbortSignal): Promise<ServingHub> {
  const { clock = systemClock, random = Math.random, onPoint: _, logTo, machine: _machine, ...others } = replaced;
  const log = await logFor(config, clock, logTo);
  const named = operatorsIn(config.operatorsFile);
  const metrics = metricsFor(config);
  const visitors = createVisitors(config, () => clock.monotonic());
  await refuseShared(config.dataDir);
  const { nodeUrl } = config;
  const secrets =
    nodeUrl === null ? [] : [config.clusterSecret, config.clusterSecretPrevious].flatMap((one) => one ?? []);
  let node: HubNode | null = null;
  const addresses = new Addresses(sealingOf(config)?.fingerprint);
  const changed = () => void nextTurn().then(() => node?.look());
  const doubts = () => [...addresses.warnings(), ...[node?.doorway.fault ?? []].flat()];
  const starting = new Starting(log, clock, ending);
  const closing: (() => Promise<void>)[] = [async () => starting.close()];
  let answer: RequestListener = beforeFront(starting);
  try {
    const options = serverOptions(config, visitors, clock);
    const server = createFrontServer(options, (...request) => answer(...request));
    const operators = await listenForOperators(config, visitors, clock, (...request) => answer(...request));
    if (operators) closing.unshift(() => cut(operators.server));
    await listen(server, config, 'HUB');
    closing.unshift(() => cut(server));
    logFailedAccepts(server, log, clock);
    const { port } = server.address() as AddressInfo;
    const opening = openSharedStore(config, clock, { changed, doubts, notices: () => addresses.notices(), starting });
    const [store] = await Promise.all([opening, derivedAhead(config)]);
    starting.opened();
    metrics.cluster.sees(() => store.sight());
    closing.push(watchedClock(config, replaced, { log, metrics }), () => store.close());
    const { passed } = metrics.cluster;
    const passing = secrets.length === 0 ? null : new Passing({ secrets, visitors, passed, log });
    const view = () => viewOf(store, config, { node, addresses });
    const listening: Server[] = [];
    const reached = {
      listeners: () => listening.flatMap(placesOf),
      nodes: () => store.nodes().flatMap(({ url }) => (url === null ? [] : [url])),
    };
    const peers = () => node?.neighbours.all() ?? [];
    const owner = () => node?.neighbours.owner() ?? null;
    const grants = passing === null ? undefined : new GrantSharing({ peers, owner, passing });
    const limiter = limiterOf(config, clock, grants);
    const shared = { log, clock, random, metrics, visitors, limiter, port, reached, named: named.now, ...others };
    const serve = async (tenure: Tenure) => {
      const mayCall = ({ unwritten = false }) =>
        tenure.isHeld() || (unwritten && node?.mayCallUnwritten(tenure) === true);
      return served(await assemble(tenure.store, config, { ...shared, cluster: view, mayCall, kind: 'owner' }));
    };
    // Listeners of the door that was made last.
    let doorListeners: ((health: StoreHealth) => void)[] = [];
    const makeDoor = async () => {
      const mayCall = () => store.isFresh();
      doorListeners = [];
      const having: Having = {
        held: () => null,
        onHealth: (listener) => void doorListeners.push(listener),
        appended: (...of) => running.writtenAtDoor(...of),
      };
      return served(
        await assemble(sharedBy(store, having), config, {
          ...shared,
          mayCall,
          unopened: () => running.doorway.unfit(),
          isSettling: async (digest) => (await running.neighbours.askOwner(`settling/${digest}`)) !== 404,
          tellUse: ({ digest: budget, ...use }) => grants?.tellOwner({ budget, ...use }),
          kind: 'door',
        }),
      );
    };
    const idle = () => front.idle();
    const landed = () => front.landed();
    const running: HubNode = new HubNode({
      store,
      passing,
      serve,
      makeDoor,
      idle,
      landed,
      log,
      meter: metrics.cluster,
      isOfSettings: (error) => error instanceof ConfigError,
      isForDoors: ({ puts = [] }) => puts.some(({ kind }) => kind === directoryKey.kind),
    });
    node = running;
    closing.unshift(() => running.close());
    store.onHealth((health) => {
      const { state, reason } = health;
      const level = state === 'closed' || reason === null ? 'info' : 'warn';
      if (running.role !== 'owner') log[level]({ state, reason }, 'the store changed its state');
      running.healthChanged(health);
      for (const listener of doorListeners) listener(health);
    });
    const ofSettings = { adminToken: config.adminToken ?? '', viewerToken: config.viewerToken };
    const tokens = { ...ofSettings, operators: named.now, visitors, now: () => clock.wall(), log };
    const own = answerOf(tokens, {
      '/metrics': () => metrics.exposition(null, {}),
      '/admin/v1/cluster': async () => ({
        contentType: 'application/json; charset=utf-8',
        text: JSON.stringify(view()),
      }),
    });
    const inChannels = createFrontServer({ clock, isAmongNodes: true }, (request, response) =>
      front.handle(request, response),
    );
    const channels = new ChannelDoor(secrets, inChannels, (request) => {
      const address = visitors.of(request);
      const count = visitors.refused(address);
      if (count > 0) log.warn({ address, count }, 'refused a channel of nodes: secret, clock or nonce is wrong');
    });
    const front: Front = new Front({
      node: running,
      passing,
      isAtEveryNode,
      isHop: hopOf(channels.isNode),
      channels: config.nodes === null && secrets.length > 0 ? channels : null,
      isForOperators: (request) => config.operators === null || isAtOperators(request),
      own,
      addresses,
      look: () => store.poke(),
      leaseMs: config.leaseS * 1000,
      granted: ({ address, ...grant }) => {
        const { budget: digest, ...use } = grant;
        if (address === undefined) limiter.spentElsewhere(grant);
        else running.serving?.tokenUsed({ digest, address, ...use });
      },
    });
    answer = front.handle;
    const ofNodes = await listenForNodes(config, visitors, clock, channels);
    for (const one of [inChannels, server, ...(operators ? [operators.server] : [])]) one.on('upgrade', front.upgrade);
    const servers = [server, operators?.server, ofNodes].flatMap((one) => one ?? []);
    listening.push(...servers);
    if (nodeUrl !== null && config.nodes === null) {
      log.warn({ nodeUrl }, 'other nodes come in where partners do: HUB_NODE_PORT gives them a listener of their own');
    }
    if (nodeUrl !== null && passing !== null) addresses.start(store, passing);
    closing.unshift(async () => addresses.close());
    closing.unshift(() => ended(servers, { front, channels }, clock));
    closing.unshift(() => running.leave().finally(() => front.last()));
    await running.settled(settledMs);
    if (running.doorway.fault !== null) throw new ConfigError(running.doorway.fault);
    return servingHub({ config, port, operators, servers, named, metrics, closing });
  } catch (error) {
    await closeAll(closing);
    throw error;
  }
}

/** To other nodes, one that opens its store answers as one that is down: they go elsewhere. */
const beforeFront =
  ({ answer }: Starting): RequestListener =>
  (request, response) =>
    pathOf(request).startsWith(peersPath) ? void request.destroy() : answer(request, response);

/** The interface of a hub to its node: the front hands it requests. */
const served = ({ app, created, inspector, recover, close }: Assembled): Served => ({
  async recover() {
    await app.ready();
    await recover();
  },
  follow: created.follow,
  followed: created.followed,
  tokenUsed: created.tokenUsed,
  isSettling: created.isSettling,
  drain: created.drain,
  // Not its server, which would have them wait for turns once more. [HTTP-SERVER-9]
  handle: (request, response) => app.routing(request, response),
  upgrade: inspector.upgrade,
  close,
});
