/**
 * Restores a starting hub from the store: directory, actors, timers, owed deliveries and open work.
 *
 * RECOVERY-1  No verb is called before the recovery is complete.
 * RECOVERY-2  A damaged log is read and served; the hub writes and sends nothing until the log is restored.
 * RECOVERY-3  Events of doors that are read during the recovery are followed at its end, when what they follow is restored.
 * RECOVERY-4  A store that cannot write (a full disk) stops no start: reads are served, and what a restart cut off is recorded
 *     as soon as the store takes it.
 */
import type { StoredEvent } from '../../storage/contract.ts';
import type { Partner } from '../domain/party.ts';
import type { Route } from '../domain/routing.ts';
import { mapLimit } from '../kit/concurrency.ts';
import type { Dispatcher } from './delivery/dispatcher.ts';
import type { Commands } from './exchange/commands.ts';
import type { OrphanCases } from './exchange/orphan-cases.ts';
import type { Context } from './kernel/context.ts';
import { directoryKey } from './kernel/directory.ts';
import { partnerHistory } from './kernel/log-reads.ts';
import type { Audit } from './maintain/audit.ts';
import type { DeadGroups } from './maintain/dead-groups.ts';
import type { Expiry } from './maintain/expiry.ts';
import type { History } from './maintain/history.ts';
import { type Resends, releaseDue } from './maintain/resends.ts';
import type { Retention } from './maintain/retention.ts';
import { rebuildRows, rebuildWhenFound } from './maintain/row-rebuild.ts';
import type { Notifier } from './notify/notifier.ts';
import type { Registration } from './onboarding/registration.ts';
import { reseal } from './onboarding/sealed-tokens.ts';
import type { HealthProbes } from './partners/health-probes.ts';
import type { PartnerActors } from './partners/partner-actors.ts';
import type { Pulls } from './pull/pulls.ts';

/** Actors whose history is read at the same time. */
const revivedAtOnce = 64;
const commandDue = 'command:';

export interface Recovered {
  readonly dispatcher: Dispatcher;
  readonly actors: PartnerActors;
  readonly registration: Registration;
  readonly commands: Commands;
  readonly pulls: Pulls;
  readonly orphans: OrphanCases;
  readonly resends: Resends;
  readonly probes: HealthProbes;
  readonly retention: Retention;
  readonly expiry: Expiry;
  readonly groups: Pick<DeadGroups, 'recover'>;
  readonly audit: Pick<Audit, 'schedule'>;
  readonly notifier: Notifier;
  readonly history: History;
}

/**
 * Loads partners and routes from their rows. The rows may already contain changes after the sequence at which
 * dispatching begins.
 */
async function readDirectory({ store, directory }: Context): Promise<void> {
  // On a damaged log the row is not rebuilt and may be damaged, too. Without it nothing is lost, since nothing is
  // written. [RECOVERY-2]
  const last = store.health().state === 'quarantined' ? null : await store.get(directoryKey);
  directory.isAsOf(last?.seq ?? null);
  for await (const row of store.scan('partners')) directory.applyPartner(row.data as Partner, row.seq);
  for await (const row of store.scan('routes')) directory.applyRoute(row.data as Route);
}

/** The sequences of the last suspensions, which decide what is no longer owed. */
async function readSuspensions({ store, directory }: Context): Promise<void> {
  for (const { id, suspendedAt } of directory.partners()) {
    if (suspendedAt === null) continue;
    const history = await partnerHistory(store, id);
    const last = history.findLast(({ type }) => type === 'partner.suspended');
    if (last) directory.suspendedBy(id, last.seq);
  }
}

/** Opens a door: it follows partners and routes, and restores nothing else. */
export async function openDoor(context: Context): Promise<void> {
  const { store, directory, recorder } = context;
  recorder.feed.startAt(store.head());
  await readDirectory(context);
  recorder.feed.begin();
  await recorder.feed.reached(directory.seen.seq ?? 0);
}

/** Restores a hub that is no door; resolves when verbs may be called. */
export async function recover(context: Context, parts: Recovered): Promise<void> {
  const { store, directory, recorder, contacts, ports } = context;
  const { dispatcher, actors, registration, commands, pulls, orphans, resends, probes } = parts;
  const { retention, expiry, audit, notifier, history } = parts;
  const isWhole = store.health().state !== 'quarantined';
  recorder.feed.startAt(store.head());
  if (isWhole) {
    await rebuildRows(context);
    rebuildWhenFound(context);
  }
  await readDirectory(context);
  if (isWhole) {
    await readSuspensions(context);
    await dispatcher.recover();
  }
  // [RECOVERY-3]
  const early: StoredEvent[] = [];
  recorder.feed.onRead((event) => void early.push({ ...event, body: null }));
  recorder.feed.begin();
  const partners = [...directory.partners()];
  await mapLimit(partners, revivedAtOnce, (partner) => actors.revive(partner));
  const open: string[] = [];
  const releases: string[] = [];
  for (const { key } of await store.due()) {
    if (key.startsWith(commandDue)) open.push(key.slice(commandDue.length));
    if (key.startsWith(releaseDue)) releases.push(key.slice(releaseDue.length));
  }
  await commands.recover(open, isWhole);
  if (isWhole) await pulls.recover();
  await orphans.recover(isWhole);
  if (isWhole) await parts.groups.recover();
  const follow = (event: StoredEvent) => {
    const caller = event.party === null ? undefined : directory.partnerOf(event.party);
    if (caller) directory.touched(caller.id, ports.clock.steady(Date.parse(event.at)));
    commands.followUp(event);
    orphans.followUp(event);
  };
  recorder.feed.onRead(follow);
  for (const event of early) follow(event);
  // A store that cannot write must not stop the start: the previous keys still open the tokens that they sealed.
  if (store.health().state === 'open') {
    await reseal(context, registration, partners).catch((error: unknown) =>
      ports.log.error({ err: error }, 'could not re-seal all partner tokens'),
    );
  }
  // Spread over the interval, or all silent partners would be probed at the same instant, each time. Of one that is only
  // listened to, a whole interval tells.
  for (const { id, settings } of partners) probes.watch(id, settings.pull_only ? 1 : ports.random());
  retention.schedule();
  expiry.schedule();
  audit.schedule();
  if (isWhole) {
    resends.recover(releases);
    dispatcher.keepIdleFloors();
    dispatcher.wholes.notes.start();
    orphans.startSweeps();
    await history
      .recover()
      .catch((error: unknown) => ports.log.error({ err: error }, 'no history is recorded until the next start'));
    await notifier
      .recover()
      .catch((error: unknown) => ports.log.error({ err: error }, 'no notifications until the next start'));
  }
  ports.log.info({ partners: partners.length, commands: open.length }, 'recovered');
  // Nothing waits for it: the hub serves meanwhile.
  contacts
    .recall(store)
    .catch((error: unknown) =>
      ports.log.warn({ err: error }, 'could not read when CPOs pushed last; counting from now'),
    );
}
