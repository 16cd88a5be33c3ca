/**
 * Makes a hub on an open store: loads what is recorded, brings every actor, timer and owed delivery back, and gives out the verbs.
 *
 * H1  Nothing is accepted of a party before everything recorded of it is back.
 * H2  A row that is damaged or missing is made again from the log before it is used.
 * H3  On a damaged log the hub comes up all the same: reads and operators are served, writes refused, nothing delivered.
 */
import { Supervisor } from '../../machines/supervisor.ts';
import type { Shard, Store } from '../../storage/contract.ts';
import type { PartyId } from '../domain/party.ts';
import type { Trace } from '../domain/trace.ts';
import { answering } from './asked.ts';
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
import { Moves } from './moves.ts';
import { Notes } from './notes.ts';
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
import { Resends } from './resends.ts';
import { Retention } from './retention.ts';
import { SenderLists } from './sender-lists.ts';
import { Shards } from './shards.ts';
import { Signs } from './signs.ts';
import { State } from './state.ts';
import { Timers } from './timers.ts';
import { explain, traceOf } from './trace.ts';
import { views } from './views.ts';
import { watching } from './watching.ts';
import { Telling, WatchingAll, type WatchingAsked } from './watching-all.ts';

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
  /** To be awaited before it gains anything. */
  begin(): Promise<void>;
  /** Resolves when verbs of parties of these shards may be called. */
  gain(shards: ReadonlySet<Shard>): Promise<void>;
  /** Before shards are given: nothing more is sent to their parties, and what is in flight ends, for `graceMs` at most. */
  calm(shards: ReadonlySet<Shard>, graceMs: number): Promise<void>;
  /** They are not given after all. */
  wake(shards: ReadonlySet<Shard>): void;
  /** No verb of their parties may be under way. Resolves when another hub may gain them. */
  give(shards: ReadonlySet<Shard>): Promise<void>;
  /** They were lost: what runs of them is put away at once. */
  drop(shards: ReadonlySet<Shard>): void;
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
  const jobs = new Jobs(core);
  const resends = new Resends(core, jobs);
  const registration = new Registration(core, actors, (partner) => deliveries.suspend(partner), resends);
  const orphans = new Orphans(core, (record, trace) => askForEnd(core, lists, record, trace));
  const { accept, acceptPulled } = pushes(core, orphans);
  const lists = new SenderLists(core, acceptPulled);
  const pulls = new Pulls(core, lists, acceptPulled);
  const commands = new Commands(core, orphans);
  const retention = new Retention(core, deliveries);
  const backups = new Backups(core);
  const { deliveryView, ...reading } = views(core, deliveries);
  const redrive = new Redrive(core, deliveries, jobs, deliveryView);
  const notes = new Notes(core.recorder, ports.clock);
  const elsewhere = new Elsewhere(core);
  const parts = { core, elsewhere, registration, actors, deliveries, probes, pulls, orphans, resends, retention };
  const follower = peers && new Follower(core, peers);
  const here = watching(core);
  const self = peers === null ? '' : ports.secrets.newId();
  const telling = new Telling(self, here, ports.clock);
  const everywhere = peers && new WatchingAll(core, peers, here, self);
  const watched = everywhere ?? here;
  const running = { deliveries, actors, registration, commands, lists, pulls, orphans, resends, probes, retention };
  const moves = new Moves(core, { ...running, jobs, backups, notes, follower });
  let ready = false;
  const { recordAdded, ...operating } = operations({ ...parts, version, ready: () => ready });
  const hub: Hub = {
    get publicUrl() {
      return settings.publicUrl;
    },
    party: { country_code: settings.countryCode, party_id: settings.partyId },
    authenticate: (token) => registration.authenticate(token),
    suspendedAt: (partner) => core.state.partner(partner)?.suspendedAt ?? null,
    register: (...exchange) => registration.register(...exchange),
    rotate: (...exchange) => registration.rotate(...exchange),
    unregister: (...exchange) => registration.unregister(...exchange),
    credentialsOf: (credential) => registration.credentialsOf(credential),
    clientInfo: (request) => clientInfo(core.state, request),
    accept,
    ...objects(core),
    ...authorize(core, notes),
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
      resync: async (id, module, trace) => resends.resync(id, module, trace),
      job: (id) => jobs.view(id),
      cancelJob: (id) => jobs.cancel(id),
      trace: (key) => traceOf(core, key, deliveryView),
      explain: (from, to, module) => explain(core, from, to, module),
    },
  };
  return {
    hub,
    core,
    homes: homes(core, async () => follower?.caughtUp()),
    answer: answering(core, {
      call: (asked: Parameters<typeof callFor>[1]) => callFor(core, asked),
      watch: ({ session, emsp, at, trace }: WatchAsked) => orphans.armHere(session, emsp, at, trace),
      added: ({ data, trace }: { data: Parameters<typeof recordAdded>[0]; trace: Trace }) => recordAdded(data, trace),
      isPending: async ({ receiver, shard, seq }: DeliveryName) => deliveries.isPendingFor(receiver, shard, seq),
      again: (asked: Parameters<Redrive['againFor']>[0]) => redrive.againFor(asked),
      actors: async (asked: WatchingAsked) => telling.tell(asked),
      standing: async () => sayingOf(core, actors, deliveries),
      resend: (asked: Parameters<Resends['resend']>[0]) => resends.resend(asked),
      missed: (asked: Parameters<Deliveries['wholes']['recordMissed']>[0]) => deliveries.wholes.recordMissed(asked),
      release: (asked: Parameters<Resends['release']>[0]) => resends.release(asked),
    }),
    forwardingLagMs: () => deliveries.lagMs(),
    async begin() {
      await moves.begin();
      if (store.health().state !== 'quarantined') repairWhatIsFound(core);
      if (peers) elsewhere.start(peers);
    },
    async gain(shards) {
      await moves.gain(shards);
      ready = true;
    },
    calm: (...shards) => moves.calm(...shards),
    wake: (shards) => moves.wake(shards),
    give: (shards) => moves.give(shards),
    drop: (shards) => moves.drop(shards),
    async close() {
      ready = false;
      core.shards.close();
      await Promise.all([follower?.close(), elsewhere.close()]);
      everywhere?.close();
      telling.close();
      // What runs of pulls and cases ends at the page it waits for.
      const asked = orphans.close();
      lists.close();
      await Promise.all([asked, pulls.ended(() => true)]);
      await probes.close();
      await jobs.close();
      await resends.close();
      await retention.close();
      await backups.close();
      await deliveries.close();
      notes.close();
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
  const shards = new Shards();
  const recorder = new Recorder(store, clock, log, secrets.newId, meter);
  const supervisor = new Supervisor(clock, {
    failed: ({ id, kind, restarts }, error) => {
      meter.actorFailed(kind, 'restarted');
      log.error({ err: error, actor: id, restarts }, 'an actor failed; restarting it');
    },
    quarantined: ({ id, kind, parties }, error) => {
      meter.actorFailed(kind, 'quarantined');
      log.error({ err: error, actor: id }, 'an actor keeps failing and was quarantined');
      const data = { actor: id, error: error instanceof Error ? error.message : String(error), parties };
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
