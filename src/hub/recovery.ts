/**
 * Brings back what is recorded into a hub that begins.
 *
 * V1  No verb is called before everything recorded is back.
 * V2  A log that is damaged is read and served; nothing is written or sent until it was restored.
 */
import type { Partner } from '../domain/party.ts';
import type { Route } from '../domain/routing.ts';
import { atOnce } from './at-once.ts';
import type { Commands } from './commands.ts';
import type { Core } from './core.ts';
import type { Deliveries } from './deliveries.ts';
import type { Orphans } from './orphans.ts';
import type { PartnerActors } from './partners.ts';
import type { Probes } from './probes.ts';
import type { Pulls } from './pulls.ts';
import type { Registration } from './registration.ts';
import { repairRows, repairWhatIsFound } from './repair.ts';
import { type Resends, releaseDue } from './resends.ts';
import type { Retention } from './retention.ts';
import { directoryKey } from './state.ts';

/** Actors whose facts are read at the same time. */
const revivedAtOnce = 64;
const commandDue = 'command:';

export interface Recovered {
  readonly deliveries: Deliveries;
  readonly actors: PartnerActors;
  readonly registration: Registration;
  readonly commands: Commands;
  readonly pulls: Pulls;
  readonly orphans: Orphans;
  readonly resends: Resends;
  readonly probes: Probes;
  readonly retention: Retention;
}

/** Resolves when verbs may be called. */
export async function recover(core: Core, parts: Recovered): Promise<void> {
  const { store, state, recorder, ports } = core;
  const { deliveries, actors, registration, commands, pulls, orphans, resends, probes, retention } = parts;
  const isWhole = store.health().state !== 'quarantined';
  recorder.dispatch.startAt(store.head());
  if (isWhole) {
    await repairRows(core);
    repairWhatIsFound(core);
  }
  recorder.dispatch.onCommitted((event) => {
    state.follow(event);
    deliveries.owed(event);
  });
  state.isAsOf((await store.get(directoryKey))?.seq ?? null);
  for await (const row of store.scan('partners')) state.applyPartner(row.data as Partner, row.seq);
  for await (const row of store.scan('routes')) state.applyRoute(row.data as Route);
  if (isWhole) await deliveries.intake.recover();
  const partners = [...state.partners()];
  await atOnce(partners, revivedAtOnce, (partner) => actors.revive(partner));
  const open: string[] = [];
  const releases: string[] = [];
  for (const { key } of await store.due()) {
    if (key.startsWith(commandDue)) open.push(key.slice(commandDue.length));
    if (key.startsWith(releaseDue)) releases.push(key.slice(releaseDue.length));
  }
  await commands.recover(open, isWhole);
  if (isWhole) await pulls.recover();
  await orphans.recover(isWhole);
  // A store that cannot write now is no reason not to begin: the previous keys still open what they sealed.
  if (store.health().state === 'open') {
    await registration
      .reseal(partners)
      .catch((error: unknown) => ports.log.error({ err: error }, 'could not seal all tokens anew'));
  }
  for (const { id } of partners) probes.watch(id);
  retention.schedule();
  if (isWhole) {
    resends.recover(releases);
    deliveries.intake.keepIdleFloors();
    orphans.scheduleSweep();
  }
  ports.log.info({ partners: partners.length, commands: open.length }, 'recovered');
}
