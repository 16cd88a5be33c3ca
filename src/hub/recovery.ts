/**
 * Brings back what is recorded into a hub that begins.
 *
 * V1  No verb is called before everything recorded is back.
 * V2  A log that is damaged is read and served; nothing is written or sent until it was restored.
 */
import type { PartnerMachineEvent } from '../../machines/partner.ts';
import type { Partner } from '../domain/party.ts';
import type { Route } from '../domain/routing.ts';
import { atOnce } from '../kit/map-limit.ts';
import type { Deliveries } from './delivery/dispatcher.ts';
import type { Commands } from './exchange/commands.ts';
import type { Orphans } from './exchange/orphan-cases.ts';
import { type Core, heard } from './kernel/context.ts';
import { directoryKey } from './kernel/directory-row.ts';
import { type Resends, releaseDue } from './maintain/resends.ts';
import type { Retention } from './maintain/retention.ts';
import { repairRows, repairWhatIsFound } from './maintain/row-rebuild.ts';
import type { Registration } from './onboarding/registration.ts';
import type { Probes } from './partners/health-probes.ts';
import { type PartnerActors, partnerOf } from './partners/partner-actors.ts';
import type { Pulls } from './pull/pulls.ts';

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

/** Partners and routes as they stand in rows. What was written behind the sequence at which dispatching begins may be among it. */
async function readDirectory({ store, state }: Core): Promise<void> {
  // A row that is damaged was not made again: nothing is written then. [V2]
  const last = store.health().state === 'quarantined' ? null : await store.get(directoryKey);
  state.isAsOf(last?.seq ?? null);
  for await (const row of store.scan('partners')) state.applyPartner(row.data as Partner, row.seq);
  for await (const row of store.scan('routes')) state.applyRoute(row.data as Route);
}

/** The same of a door, which follows partners and routes and owns nothing. */
export async function openDoor(core: Core, actors: PartnerActors): Promise<void> {
  const { store, state, recorder } = core;
  recorder.dispatch.startAt(store.head());
  await readDirectory(core);
  for (const { id } of state.partners()) actors.startAtDoor(id);
  recorder.dispatch.onCommitted((event) => {
    const isNew = event.type === 'partner.added';
    state.follow(event);
    if (!event.type.startsWith('partner.')) return;
    const id = partnerOf(event.stream);
    if (isNew) actors.startAtDoor(id);
    else actors.tell(id, heard(event) as PartnerMachineEvent);
    if (event.type === 'partner.registered' || event.type === 'partner.rotated') actors.renewed(id);
  });
  recorder.dispatch.begin();
  await recorder.dispatch.reached(state.seen.seq ?? 0);
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
  await readDirectory(core);
  if (isWhole) await deliveries.intake.recover();
  recorder.dispatch.begin();
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
  recorder.dispatch.onRead((event) => {
    const caller = event.party === null ? undefined : state.partnerOf(event.party);
    if (caller) state.touched(caller.id, Date.parse(event.at));
    commands.followUp(event);
    orphans.followUp(event);
  });
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
