/**
 * Makes a hub on an open store: loads what is recorded, brings every actor, timer and owed delivery back, and gives out the verbs.
 *
 * H1  Nothing is accepted of a party before everything recorded of it is back.
 * H2  A row that is damaged or missing is made again from the log before it is used.
 * H3  On a damaged log the hub comes up all the same: reads and operators are served, writes refused, nothing delivered.
 */
import { Supervisor } from '../../machines/supervisor.ts';
import type { Seq, Store } from '../../storage/contract.ts';
import { Deliveries } from './delivery/dispatcher.ts';
import { authorize } from './exchange/authorize.ts';
import { clientInfo } from './exchange/client-info.ts';
import { Commands } from './exchange/commands.ts';
import { pushes } from './exchange/ingest.ts';
import { Orphans } from './exchange/orphan-cases.ts';
import { objects } from './exchange/read-objects.ts';
import { Signs } from './kernel/breaker-feed.ts';
import type { Core } from './kernel/context.ts';
import { State } from './kernel/directory.ts';
import { Recorder } from './kernel/recorder.ts';
import { readableStore } from './kernel/store-errors.ts';
import { Timers } from './kernel/timers.ts';
import { Notes } from './kernel/write-coalescer.ts';
import { Backups } from './maintain/backups.ts';
import { Jobs } from './maintain/jobs.ts';
import { Redrive } from './maintain/redrive.ts';
import { Resends } from './maintain/resends.ts';
import { Retention } from './maintain/retention.ts';
import { Registration } from './onboarding/registration.ts';
import { operations } from './operations.ts';
import { Probes } from './partners/health-probes.ts';
import { noteCircuit, PartnerActors } from './partners/partner-actors.ts';
import type { Hub } from './ports/hub.ts';
import type { HubKind, HubPorts, HubSettings } from './ports/ports.ts';
import { askForEnd } from './pull/orphan-lookup.ts';
import { Pulls } from './pull/pulls.ts';
import { SenderLists } from './pull/sender-lists.ts';
import { openDoor, recover } from './recovery.ts';
import { watching } from './views/actor-feed.ts';
import { overview } from './views/overview.ts';
import { explain, traceOf } from './views/trace.ts';
import { views } from './views/views.ts';

export interface CreatedHub {
  readonly hub: Hub;
  /** Parts for tests that make an actor throw or read what is under way. */
  readonly core: Core;
  /** How long deliveries wait that nothing but the hub itself keeps back, milliseconds. */
  forwardingLagMs(): number;
  /** Resolves when verbs may be called. */
  recover(): Promise<void>;
  /** Other nodes have written up to this sequence; `followed` resolves when what they wrote counts here. */
  follow(seq: Seq): void;
  followed(seq: Seq): Promise<void>;
  /** Before it is closed: nothing more is delivered, and what is in flight ends, for `graceMs` at most. */
  calm(graceMs: number): Promise<void>;
  /** Lets what is in flight end and remembers it; the store stays open. */
  close(): Promise<void>;
}

/** The owner watches, by what it reads of the log. */
const noWatches = { sessionStored: () => {}, cdrStored: () => {}, arm: async () => {} };

export function createHub(
  store: Store,
  ports: HubPorts,
  settings: HubSettings,
  version: string,
  kind: HubKind = 'alone',
): CreatedHub {
  const isDoor = kind === 'door';
  const core = coreOf(store, ports, settings, isDoor);
  const deliveries = new Deliveries(core);
  const probes = new Probes(core);
  const actors = new PartnerActors(core, {
    pump: (partnerId) => deliveries.pump(partnerId),
    circuit: isDoor ? () => {} : noteCircuit(core),
    reachable: (partnerId, isReachable) => {
      if (isDoor) return;
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
  const { accept, acceptPulled } = pushes(core, isDoor ? noWatches : orphans);
  const lists = new SenderLists(core, acceptPulled);
  const pulls = new Pulls(core, lists, acceptPulled);
  const commands = new Commands(core, isDoor ? noWatches : orphans, kind);
  const retention = new Retention(core, deliveries);
  const backups = new Backups(core);
  const { deliveryView, ...reading } = views(core, deliveries);
  const redrive = new Redrive(core, deliveries, jobs, deliveryView);
  const notes = new Notes(core.recorder, ports.clock);
  const running = { deliveries, actors, registration, commands, pulls, orphans, resends, probes, retention };
  let ready = false;
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
      ...operations({ core, ...running, version, ready: () => ready }),
      ...reading,
      ...overview(core, deliveries, retention),
      ...watching(core),
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
    forwardingLagMs: () => deliveries.lagMs(),
    async recover() {
      await (isDoor ? openDoor(core, actors) : recover(core, running));
      ready = true;
    },
    follow: (seq) => core.recorder.dispatch.follow(seq),
    followed: (seq) => core.recorder.dispatch.reached(seq),
    calm: (graceMs) => deliveries.calm(graceMs),
    async close() {
      ready = false;
      // What runs of pulls and cases ends at the page it waits for.
      const asked = orphans.close();
      lists.close();
      await Promise.all([asked, pulls.ended()]);
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

function coreOf(opened: Store, ports: HubPorts, settings: HubSettings, isDoor: boolean): Core {
  const { clock, log, secrets, meter } = ports;
  const state = new State(settings);
  const store = readableStore(opened);
  const recorder = new Recorder(store, clock, log, secrets.newId, meter, isDoor);
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
      recorder.note({ facts, trace: null, at: recorder.instant() });
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
  };
}
