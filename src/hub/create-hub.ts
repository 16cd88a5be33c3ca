/**
 * Makes a hub on an open store: loads what is recorded, brings every actor, timer and owed delivery back, and gives out the verbs.
 *
 * H1  Nothing is accepted before everything recorded is back.
 * H2  A row that is damaged or missing is made again from the log before it is used.
 * H3  On a damaged log the hub comes up all the same: reads and operators are served, writes refused, nothing delivered.
 */
import { Supervisor } from '../../machines/supervisor.ts';
import type { Store } from '../../storage/contract.ts';
import type { Partner, PartyId } from '../domain/party.ts';
import type { Route } from '../domain/routing.ts';
import type { Trace } from '../domain/trace.ts';
import { answering } from './asked.ts';
import { atOnce } from './at-once.ts';
import { authorize } from './authorize.ts';
import { Backups } from './backups.ts';
import { callFor } from './calls.ts';
import { clientInfo } from './client-info.ts';
import { Commands } from './commands.ts';
import type { Core } from './core.ts';
import { Deliveries } from './deliveries.ts';
import type { DeliveryName } from './delivery-id.ts';
import { Elsewhere, sayingOf } from './elsewhere.ts';
import { Follower } from './follower.ts';
import { type Homes, homes } from './homes.ts';
import type { Hub } from './hub.ts';
import { Jobs } from './jobs.ts';
import { objects } from './objects.ts';
import { operations } from './operations.ts';
import { askForEnd } from './orphan-pulls.ts';
import { Orphans, type Watched } from './orphans.ts';
import { overview } from './overview.ts';
import { PartnerActors } from './partners.ts';
import type { Peers } from './peers.ts';
import type { HubPorts, HubSettings } from './ports.ts';
import { Probes } from './probes.ts';
import { Pulls } from './pulls.ts';
import { pushes } from './pushes.ts';
import { readableStore } from './readable-store.ts';
import { Recorder } from './recorder.ts';
import { Redrive } from './redrive.ts';
import { Registration } from './registration.ts';
import { repairRows } from './repair.ts';
import { Retention } from './retention.ts';
import { SenderLists } from './sender-lists.ts';
import { Signs } from './signs.ts';
import { State } from './state.ts';
import { Timers } from './timers.ts';
import { explain, traceOf } from './trace.ts';
import { views } from './views.ts';
import { watching } from './watching.ts';
import { Telling, WatchingAll, type WatchingAsked } from './watching-all.ts';

/** Actors whose facts are read at the same time. */
const revivedAtOnce = 64;

export interface CreatedHub {
  readonly hub: Hub;
  /** Parts for tests that make an actor throw or read what is under way. */
  readonly core: Core;
  /** How long deliveries wait that nothing but the hub itself keeps back, milliseconds. */
  forwardingLagMs(): number;
  /** Where requests belong. */
  readonly homes: Homes;
  /** Does what a peer asks for. */
  readonly answer: ReturnType<typeof answering>;
  /** To be awaited before the first verb. */
  recover(): Promise<void>;
  /** Lets what is in flight end and remembers it; the store stays open. */
  close(): Promise<void>;
}

/** `peers`: other hubs on the store; null when this one has all of its shards. */
export function createHub(
  store: Store,
  ports: HubPorts,
  settings: HubSettings,
  version: string,
  peers: Peers | null = null,
): CreatedHub {
  const core = coreOf(store, ports, settings, peers);
  const deliveries = new Deliveries(core);
  const probes = new Probes(core);
  const actors = new PartnerActors(core, {
    pump: (partnerId) => deliveries.pump(partnerId),
    reachable: (partnerId, isReachable) => {
      registration
        .recordReachable(partnerId, isReachable)
        .catch((error: unknown) =>
          ports.log.error({ err: error, partyId: partnerId }, 'could not record a connection'),
        );
    },
  });
  const registration = new Registration(core, actors, (partner) => deliveries.suspend(partner));
  const orphans = new Orphans(core, (record, trace) => askForEnd(core, lists, record, trace));
  const { accept, acceptPulled } = pushes(core, orphans);
  const lists = new SenderLists(core, acceptPulled);
  const pulls = new Pulls(core, lists, acceptPulled);
  const commands = new Commands(core, orphans);
  const jobs = new Jobs(core);
  const retention = new Retention(core, deliveries);
  const backups = new Backups(core);
  const { deliveryView, ...reading } = views(core, deliveries);
  const redrive = new Redrive(core, deliveries, jobs, deliveryView);
  const elsewhere = new Elsewhere(core);
  const parts = { core, elsewhere, registration, actors, deliveries, probes, pulls, orphans, retention };
  const follower = peers && new Follower(core, peers);
  const here = watching(core);
  const self = peers === null ? '' : ports.secrets.newId();
  const telling = new Telling(self, here);
  const everywhere = peers && new WatchingAll(core, peers, here, self);
  const watched = everywhere ?? here;
  let ready = false;
  const { recordAdded, ...operating } = operations({ ...parts, version, ready: () => ready });
  const hub: Hub = {
    get publicUrl() {
      return settings.publicUrl;
    },
    authenticate: (token) => registration.authenticate(token),
    register: (...exchange) => registration.register(...exchange),
    rotate: (...exchange) => registration.rotate(...exchange),
    unregister: (...exchange) => registration.unregister(...exchange),
    credentialsOf: (credential) => registration.credentialsOf(credential),
    clientInfo: (request) => clientInfo(core.state, request),
    accept,
    ...objects(core),
    ...authorize(core),
    command: (caller, request) => commands.command(caller, request),
    callback: (...result) => commands.callback(...result),
    operations: {
      ...operating,
      ...reading,
      ...overview(core, deliveries, retention, elsewhere),
      actors: () => watched.actors(),
      actor: (id) => watched.actor(id),
      watch: (watcher) => watched.watch(watcher),
      startBackup: (directory, trace) => backups.startBackup(directory, trace),
      backup: (id) => backups.backup(id),
      redriveOne: (id, force, trace) => redrive.one(id, force, trace),
      planRedrive: (filter, options) => redrive.plan(filter, options),
      redrive: (filter, options, trace) => redrive.start(filter, options, trace),
      resync: async (id, module, trace) => redrive.resync(id, module, trace),
      job: (id) => jobs.view(id),
      cancelJob: (id) => jobs.cancel(id),
      trace: (key) => traceOf(core, key, deliveryView),
      explain: (from, to, module) => explain(core, from, to, module),
    },
  };
  /** A store that cannot write now is no reason not to start: the previous keys still open what they sealed. */
  const resealed = () =>
    registration.reseal().catch((error: unknown) => ports.log.error({ err: error }, 'could not seal all tokens anew'));
  return {
    hub,
    core,
    homes: homes(core, async () => follower?.caughtUp()),
    answer: answering(core, {
      call: (asked: Parameters<typeof callFor>[1]) => callFor(core, asked),
      watch: ({ session, emsp, at, trace }: WatchAsked) => orphans.arm(session, emsp, at, trace),
      added: ({ data, trace }: { data: Parameters<typeof recordAdded>[0]; trace: Trace }) => recordAdded(data, trace),
      isPending: async ({ receiver, shard, seq }: DeliveryName) => deliveries.isPending(receiver, shard, seq),
      again: (asked: Parameters<Redrive['againFor']>[0]) => redrive.againFor(asked),
      actors: async (asked: WatchingAsked) => telling.tell(asked),
      standing: async () => sayingOf(core, actors, deliveries),
      resend: (asked: Parameters<Redrive['resend']>[0]) => redrive.resend(asked),
    }),
    forwardingLagMs: () => deliveries.lagMs(),
    async recover() {
      await recover(core, actors, deliveries, { orphans, commands, pulls });
      if (store.health().state === 'open') await resealed();
      for (const { id } of core.state.partners()) if (core.isOurs(id)) probes.watch(id);
      retention.schedule();
      follower?.start();
      if (peers) elsewhere.start(peers);
      ready = true;
    },
    async close() {
      ready = false;
      await Promise.all([follower?.close(), elsewhere.close()]);
      everywhere?.close();
      telling.close();
      // What runs of pulls and cases ends at the page it waits for.
      const asked = orphans.close();
      lists.close();
      await Promise.all([asked, pulls.close()]);
      await probes.close();
      await jobs.close();
      await retention.close();
      await backups.close();
      await deliveries.close();
      core.supervisor.close();
      core.timers.close();
    },
  };
}

interface WatchAsked {
  readonly session: Watched;
  readonly emsp: PartyId;
  readonly at: number;
  readonly trace: Trace;
}

function coreOf(opened: Store, ports: HubPorts, settings: HubSettings, peers: Peers | null): Core {
  const { clock, log, secrets, meter } = ports;
  const state = new State(settings);
  const store = readableStore(opened, (party) => state.home(party));
  const shards = peers?.shards ?? new Set(Object.keys(store.health().heads).map(Number));
  const recorder = new Recorder(store, clock, log, secrets.newId, meter);
  const supervisor = new Supervisor(clock, {
    failed: ({ id, kind, restarts }, error) => {
      meter.actorFailed(kind, 'restarted');
      log.error({ err: error, actor: id, restarts }, 'an actor failed; restarting it');
    },
    quarantined: ({ id, kind }, error) => {
      meter.actorFailed(kind, 'quarantined');
      log.error({ err: error, actor: id }, 'an actor keeps failing and was quarantined');
      const data = { actor: id, error: error instanceof Error ? error.message : String(error) };
      const facts = [{ stream: `quarantine:${id}`, event: { type: 'actor.quarantined' as const, data }, party: null }];
      recorder.note({ shardOf: '', facts, trace: null, at: recorder.instant() });
    },
  });
  const timers = new Timers(clock, log);
  return {
    store,
    state,
    recorder,
    supervisor,
    signs: new Signs(supervisor),
    timers,
    ports,
    settings,
    shards,
    isOurs: (party) => shards.has(store.shardOf(party)),
    peers,
  };
}

/** Rows whose damage shows only when they are looked up are made again when it does. */
function repairWhatIsFound(core: Core): void {
  let repairing = Promise.resolve();
  core.store.onHealth(({ state, damagedRows }) => {
    if (state !== 'open' || damagedRows.length === 0) return;
    repairing = repairing
      .then(() => repairRows(core))
      .catch((error: unknown) => core.ports.log.error({ err: error }, 'damaged rows could not be made again'));
  });
}

async function recover(
  core: Core,
  actors: PartnerActors,
  deliveries: Deliveries,
  { orphans, commands, pulls }: { orphans: Orphans; commands: Commands; pulls: Pulls },
): Promise<void> {
  const { store, state, recorder, ports, shards } = core;
  // A damaged log is read and served, and nothing is written or sent until it was restored.
  const isWhole = store.health().state !== 'quarantined';
  if (isWhole) await repairRows(core);
  const known = Object.entries(store.health().heads).map(([shard, head]) => [Number(shard), head] as const);
  // Before anything is read: what comes later is followed.
  const heads = core.peers ? [...(await core.peers.heads())] : known;
  for (const [shard, head] of heads) recorder.startAt(shard, head);
  recorder.onCommitted((event) => deliveries.owed(event));
  for await (const row of store.scan('partners')) state.applyPartner(row.data as Partner);
  for await (const row of store.scan('routes')) state.applyRoute(row.data as Route);
  if (isWhole) await deliveries.recover();
  const ours = [...state.partners()].filter(({ id }) => core.isOurs(id));
  await atOnce(ours, revivedAtOnce, (partner) => actors.revive(partner));
  const open: string[] = [];
  for (const shard of shards) for (const { key } of await store.due(shard)) open.push(key);
  await commands.recover(
    open.flatMap((key) => (key.startsWith('command:') ? [key.slice('command:'.length)] : [])),
    isWhole,
  );
  if (isWhole) await pulls.recover();
  if (isWhole) repairWhatIsFound(core);
  await orphans.recover(isWhole);
  ports.log.info({ sequence: heads, partners: [...state.partners()].length, commands: open.length }, 'recovered');
}
