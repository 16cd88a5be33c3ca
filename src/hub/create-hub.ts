/**
 * Makes a hub on an open store: loads what is recorded, brings every actor, timer and owed delivery back, and gives out the verbs.
 *
 * H1  Nothing is accepted before everything recorded is back.
 * H2  A row that is damaged or missing is made again from the log before it is used.
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
import { objects } from './objects.ts';
import { operations } from './operations.ts';
import { Orphans } from './orphans.ts';
import { PartnerActors } from './partners.ts';
import type { HubPorts, HubSettings } from './ports.ts';
import { Probes } from './probes.ts';
import { pushes } from './pushes.ts';
import { Recorder } from './recorder.ts';
import { Registration } from './registration.ts';
import { repairRows } from './repair.ts';
import { State } from './state.ts';
import { Timers } from './timers.ts';
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
  const orphans = new Orphans(core);
  const commands = new Commands(core, orphans);
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
    ...pushes(core, orphans),
    ...objects(core),
    ...authorize(core),
    command: (caller, request) => commands.command(caller, request),
    callback: (...result) => commands.callback(...result),
    operations: {
      ...operations({ core, registration, actors, deliveries, probes, version, ready: () => ready }),
      ...views(core, deliveries),
    },
  };
  return {
    hub,
    core,
    async recover() {
      await recover(core, actors, deliveries, orphans, commands);
      for (const partner of core.state.partners()) probes.watch(partner.id);
      ready = true;
    },
    async close() {
      ready = false;
      await probes.close();
      await deliveries.close();
      core.supervisor.close();
      core.timers.close();
    },
  };
}

function coreOf(store: Store, ports: HubPorts, settings: HubSettings): Core {
  const { clock, log, secrets } = ports;
  const recorder = new Recorder(store, clock, log, secrets.newId);
  const supervisor = new Supervisor(clock, {
    failed: ({ id, restarts }, error) =>
      log.error({ err: error, actor: id, restarts }, 'an actor failed; restarting it'),
    quarantined: ({ id }, error) => {
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
  orphans: Orphans,
  commands: Commands,
): Promise<void> {
  const { store, state, recorder, ports } = core;
  await repairRows(core);
  const heads = Object.entries(store.health().heads).map(([shard, head]) => [Number(shard), head] as const);
  for (const [shard, head] of heads) recorder.startAt(shard, head);
  recorder.onCommitted((event) => deliveries.owed(event));
  for await (const row of store.scan('partners')) state.applyPartner(row.data as Partner);
  for await (const row of store.scan('routes')) state.applyRoute(row.data as Route);
  await deliveries.recover(heads.map(([shard]) => shard));
  for (const partner of state.partners()) await actors.revive(partner);
  const open: string[] = [];
  for (const [shard] of heads) for (const { key } of await store.due(shard)) open.push(key);
  await commands.recover(open.flatMap((key) => (key.startsWith('command:') ? [key.slice('command:'.length)] : [])));
  await orphans.recover();
  ports.log.info({ sequence: heads, partners: [...state.partners()].length, commands: open.length }, 'recovered');
}
