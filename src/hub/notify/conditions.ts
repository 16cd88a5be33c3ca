/**
 * Finds the conditions that hold now and of which operators are notified: one line of a table for each kind.
 *
 * CONDITIONS-1  A condition is read from what the hub knows at this moment, never from an event that has passed: after a restart it
 *     is found again, and what ended meanwhile is not.
 */
import { instantText } from '../../domain/instant.ts';
import type { Condition, NotificationKind } from '../../domain/notification.ts';
import { keyOf, type Partner, type PartyId } from '../../domain/party.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { OrphanCases } from '../exchange/orphan-cases.ts';
import type { Context } from '../kernel/context.ts';

/** Percentage points of free disk above the limit at which `disk.low` is over, so that it does not flicker. */
const diskMargin = 2;

/** Dead letters of a partner of which operators are notified: nothing bounds their number but the age of their events, and each takes memory. */
const deadNotified = [1, 1_000, 10_000, 100_000, 1_000_000];

export interface Seen {
  readonly context: Context;
  readonly dispatcher: Pick<Dispatcher, 'backlog'>;
  readonly orphans: Pick<OrphanCases, 'openCases'>;
  /** Hub time, epoch ms. */
  readonly now: number;
  /** Free share of the disk, percent; null when it is not known. */
  readonly diskPercent: number | null;
}

type Found = Omit<Condition, 'kind'>;

interface Source {
  /** What holds now. */
  find(seen: Seen): Iterable<Found>;
  /** Of one that `find` does not give any more: whether it is over. Absent: it is. */
  isOver?(before: Condition, seen: Seen): boolean;
  /**
   * Of one that is over: whether receivers are notified, where its kind has a message for it; not where it only is no longer
   * looked for. Absent: they are.
   */
  isEndNotified?(before: Condition, seen: Seen): boolean;
}

type OfPartner = Omit<Found, 'parties' | 'page'>;

/** What a look finds of one partner; null: nothing. */
const ofPartners = (read: (partner: Partner, seen: Seen) => OfPartner | readonly OfPartner[] | null) =>
  function* (seen: Seen): Iterable<Found> {
    for (const partner of seen.context.directory.partners()) {
      const found = [read(partner, seen) ?? []].flat();
      if (found.length === 0) continue;
      const parties: readonly PartyId[] = [...new Set(partner.roles.map(keyOf))];
      for (const one of found) yield { ...one, parties, page: `/partners/${partner.id}` };
    }
  };

const shown = ({ context }: Seen, at: number): string => instantText(context.ports.clock.stamp(at));

const hourS = 3600;
const ageText = (ms: number): string =>
  ms >= 2 * hourS * 1000 ? `${Math.floor(ms / hourS / 1000)} h` : `${Math.floor(ms / 60_000)} min`;

const sources: Readonly<Record<NotificationKind, Source>> = {
  'partner.offline': {
    // One that is pull only is never called: it is OFFLINE whenever it polls more rarely than the hub probes. [D89]
    find: ofPartners(({ id, status, settings, lastUpdated: since }) =>
      status === 'OFFLINE' && !settings.pull_only ? { subject: id, since, what: `${id} does not answer` } : null,
    ),
    // A partner that was suspended is no longer called: it did not answer again.
    isEndNotified: ({ subject }, { context }) => context.directory.partner(subject)?.status === 'CONNECTED',
  },
  'partner.dead_letter': {
    find: ofPartners(({ id }, seen) => {
      const { dead } = seen.dispatcher.backlog(id);
      const reached = deadNotified.filter((count) => dead >= count);
      return reached.map((count): OfPartner => {
        const since = shown(seen, seen.now);
        // Of several that begin at once the highest is notified.
        const rest = { since, ...(count !== reached.at(-1) && { untold: true as const }) };
        if (count === 1) return { subject: id, what: `a delivery to ${id} is a dead letter`, ...rest };
        return { subject: `${id} ${count}`, what: `${count} deliveries to ${id} are dead letters`, ...rest };
      });
    }),
    // One dead letter that ends and one that comes, about a thousand, are no news.
    isOver({ subject }, { dispatcher }) {
      const [id = '', count = 1] = subject.split(' ');
      return dispatcher.backlog(id).dead < Number(count) / 2;
    },
  },
  'partner.host_change': {
    find: ofPartners(({ id, hostChange }) => {
      if (!hostChange || hostChange.state === 'confirmed') return null;
      const { from, to, at: since, state } = hostChange;
      const waits = state === 'waiting' ? ' waits for an operator' : '';
      return { subject: `${id} ${to}`, since, what: `${id} changes its host from ${from} to ${to}${waits}` };
    }),
  },
  'partner.silent': {
    find: ofPartners((partner, seen) => {
      const since = seen.context.contacts.silentSince(partner, seen.now);
      const { id } = partner;
      return since === null ? null : { subject: id, since: shown(seen, since), what: `${id} has pushed nothing since` };
    }),
    // A start knows no push that lies far back, and counts from itself. [CONTACTS-2]
    isOver({ subject, since }, { context: { directory, contacts, ports } }) {
      if (directory.partner(subject)?.status !== 'CONNECTED') return true;
      return (contacts.lastPush(subject) ?? 0) > ports.clock.steady(Date.parse(since));
    },
  },
  'partner.backlog_old': {
    find: ofPartners(({ id }, seen) => {
      const { oldestAt } = seen.dispatcher.backlog(id);
      const limitS = seen.context.settings.notifyBacklogS;
      if (limitS === 0 || oldestAt === null || seen.now - oldestAt < limitS * 1000) return null;
      const what = `the oldest undelivered delivery to ${id} is ${ageText(seen.now - oldestAt)} old`;
      return { subject: id, since: shown(seen, oldestAt), what };
    }),
    isEndNotified: (_before, { context: { settings } }) => settings.notifyBacklogS > 0,
  },
  'orphan.opened': {
    *find({ orphans }) {
      for (const { id, kind, cpo, emsp, session, openedAt } of orphans.openCases()) {
        const lacks =
          kind === 'stop_without_complete' ? 'was stopped and is not COMPLETED' : 'is COMPLETED without a CDR';
        const what = `the session ${cpo}/${session} ${lacks}`;
        yield { subject: id, parties: [cpo, emsp], since: openedAt ?? '', what, page: '/orphans' };
      }
    },
  },
  'disk.low': {
    *find(seen) {
      const { diskPercent } = seen;
      if (diskPercent === null || diskPercent >= seen.context.settings.notifyDiskPercent) return;
      const what = `the file system of the data directory has ${diskPercent.toFixed(1)} % left`;
      yield { subject: 'hub', parties: [], since: shown(seen, seen.now), what, page: '/' };
    },
    isOver: (_before, { diskPercent, context: { settings } }) =>
      settings.notifyDiskPercent === 0 ||
      (diskPercent !== null && diskPercent >= settings.notifyDiskPercent + diskMargin),
    isEndNotified: (_before, { context: { settings } }) => settings.notifyDiskPercent > 0,
  },
};

export function* conditions(seen: Seen): Iterable<Condition> {
  for (const [kind, { find }] of Object.entries(sources) as [NotificationKind, Source][]) {
    for (const found of find(seen)) yield { kind, ...found };
  }
}

/** Whether a condition that is not found any more is over. */
export const isOver = (before: Condition, seen: Seen): boolean => sources[before.kind].isOver?.(before, seen) ?? true;

/** Whether receivers are notified that a condition is over. */
export const isEndNotified = (before: Condition, seen: Seen): boolean =>
  sources[before.kind].isEndNotified?.(before, seen) ?? true;
