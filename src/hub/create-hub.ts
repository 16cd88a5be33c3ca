/**
 * Makes a hub on an open store: loads what is recorded, brings every actor, timer and owed delivery back, and gives out the verbs.
 *
 * H1  Nothing is accepted before everything recorded is back.
 * H2  A row that is damaged or missing is made again from the log before it is used.
 * H3  On a damaged log the hub comes up all the same: reads and operators are served, writes refused, nothing delivered.
 */
import { Supervisor } from '../../machines/supervisor.ts';
import type { Store } from '../../storage/contract.ts';
import type { Partner } from '../domain/party.ts';
import type { Route } from '../domain/routing.ts';
import { authorize } from './authorize.ts';
import { clientInfo } from './client-info.ts';
import { Commands } from './commands.ts';
import type { Core } from './core.ts';
import { Deliveries } from './deliveries.ts';
import type { Hub } from './hub.ts';
import { Jobs } from './jobs.ts';
import { objects } from './objects.ts';
import { operations } from './operations.ts';
import { askForEnd } from './orphan-pulls.ts';
import { Orphans } from './orphans.ts';
import { PartnerActors } from './partners.ts';
import type { HubPorts, HubSettings } from './ports.ts';
import { Probes } from './probes.ts';
import { Pulls } from './pulls.ts';
import { pushes } from './pushes.ts';
import { Recorder } from './recorder.ts';
import { Redrive } from './redrive.ts';
import { Registration } from './registration.ts';
import { repairRows } from './repair.ts';
import { SenderLists } from './sender-lists.ts';
import { State } from './state.ts';
import { Timers } from './timers.ts';
import { explain, traceOf } from './trace.ts';
import { views } from './views.ts';

export interface CreatedHub {
  readonly hub: Hub;
  /** Parts for tests that make an actor throw or read what is under way. */
  readonly core: Core;
  /** To be awaited before the first verb. */
  recover(): Promise<void>;
  /** Lets what is in flight end and remembers it; the store stays open. */
  close(): Promise<void>;
}

export function createHub(store: Store, ports: HubPorts, settings: HubSettings, version: string): CreatedHub {
  const core = coreOf(store, ports, settings);
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
  const { deliveryView, ...reading } = views(core, deliveries);
  const redrive = new Redrive(core, deliveries, jobs, deliveryView);
  let ready = false;
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
      ...operations({ core, registration, actors, deliveries, probes, pulls, orphans, version, ready: () => ready }),
      ...reading,
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
  return {
    hub,
    core,
    async recover() {
      await recover(core, actors, deliveries, { orphans, commands, pulls });
      for (const partner of core.state.partners()) probes.watch(partner.id);
      ready = true;
    },
    async close() {
      ready = false;
      // What runs of pulls and cases ends at the page it waits for.
      const asked = orphans.close();
      lists.close();
      await Promise.all([asked, pulls.close()]);
      await probes.close();
      await jobs.close();
      await deliveries.close();
      core.supervisor.close();
      core.timers.close();
    },
  };
}

function coreOf(store: Store, ports: HubPorts, settings: HubSettings): Core {
  const { clock, log, secrets, meter } = ports;
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
  return { store, state: new State(settings), recorder, supervisor, timers, ports, settings };
}

async function recover(
  core: Core,
  actors: PartnerActors,
  deliveries: Deliveries,
  { orphans, commands, pulls }: { orphans: Orphans; commands: Commands; pulls: Pulls },
): Promise<void> {
  const { store, state, recorder, ports } = core;
  // A damaged log is read and served, and nothing is written or sent until it was restored.
  const isWhole = store.health().state !== 'quarantined';
  if (isWhole) await repairRows(core);
  const heads = Object.entries(store.health().heads).map(([shard, head]) => [Number(shard), head] as const);
  for (const [shard, head] of heads) recorder.startAt(shard, head);
  recorder.onCommitted((event) => deliveries.owed(event));
  for await (const row of store.scan('partners')) state.applyPartner(row.data as Partner);
  for await (const row of store.scan('routes')) state.applyRoute(row.data as Route);
  if (isWhole) await deliveries.recover(heads.map(([shard]) => shard));
  for (const partner of state.partners()) await actors.revive(partner);
  const open: string[] = [];
  for (const [shard] of heads) for (const { key } of await store.due(shard)) open.push(key);
  await commands.recover(
    open.flatMap((key) => (key.startsWith('command:') ? [key.slice('command:'.length)] : [])),
    isWhole,
  );
  if (isWhole) await pulls.recover();
  await orphans.recover(isWhole);
  ports.log.info({ sequence: heads, partners: [...state.partners()].length, commands: open.length }, 'recovered');
}
