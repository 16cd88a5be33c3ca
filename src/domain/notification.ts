/**
 * Notifications: what the hub sends to operators by webhook and by mail. Pure.
 *
 * DOMAIN-NOTIFICATION-1  One table names every kind. A kind is notified when it begins, once; when it is over only where `over`
 *     says how, and not where the hub no longer looks: a partner that is suspended while it is offline does not answer again.
 */
import type { PartyId } from './party.ts';

interface Kind {
  /** What has happened, for documents and lists. */
  readonly means: string;
  /** Type and sentence of the notification that it is over; null: there is none. */
  readonly over: { readonly name: string; readonly says: (subject: string) => string } | null;
}

/** [DOMAIN-NOTIFICATION-1] */
export const notificationKinds = {
  'partner.offline': {
    means: 'a partner that the hub calls does not answer: its parties are OFFLINE',
    over: { name: 'partner.online', says: (partner) => `${partner} answers again` },
  },
  'partner.dead_letter': {
    means: 'a partner has a dead letter, and had none before; or 1,000, 10,000, 100,000, 1,000,000 of them',
    over: null,
  },
  'partner.host_change': {
    means: "a rotation changed the host of a partner's url, or waits for an operator",
    over: null,
  },
  'partner.silent': { means: 'a connected CPO has pushed nothing for HUB_SILENT_AFTER_H', over: null },
  'partner.backlog_old': {
    means: 'the oldest undelivered delivery of a partner is older than HUB_NOTIFY_BACKLOG_S',
    over: { name: 'partner.backlog_ok', says: (partner) => `${partner} has no old backlog any more` },
  },
  'orphan.opened': { means: 'a session did not end as it should, and is a case now', over: null },
  'disk.low': {
    means: 'the file system of the data directory has less than HUB_NOTIFY_DISK_PERCENT left',
    over: { name: 'disk.ok', says: () => 'the file system of the data directory has room again' },
  },
} as const satisfies Readonly<Record<string, Kind>>;

export type NotificationKind = keyof typeof notificationKinds;

export const kindNames = Object.keys(notificationKinds) as NotificationKind[];

const overOf = (kind: NotificationKind): Kind['over'] => notificationKinds[kind].over;

/** What holds now, and operators are notified of: known by its kind and subject. */
export interface Condition {
  readonly kind: NotificationKind;
  /** A partner, a case, or `hub`. */
  readonly subject: string;
  readonly parties: readonly PartyId[];
  /** Time of day since when it holds, RFC 3339. */
  readonly since: string;
  /** One sentence for people. */
  readonly what: string;
  /** Path of the page of the console that shows it. */
  readonly page: string;
  /** Another one says more: nobody is notified of this one. */
  readonly untold?: true;
}

/** Data of `notification.raised` and `notification.ended`. */
export interface Notice extends Condition {
  /** The same at every attempt, at every receiver. */
  readonly id: string;
  /** Its kind, or the type of the notification that it is over; null: nobody is notified. */
  readonly type: string | null;
}

export const nameOf = ({ kind, subject }: Pick<Condition, 'kind' | 'subject'>): string => `${kind} ${subject}`;

export const begun = (condition: Condition, id: string): Notice => ({
  ...condition,
  id,
  type: condition.untold ? null : condition.kind,
});

export function ended(condition: Condition, id: string, isNotified: boolean): Notice {
  const over = isNotified ? overOf(condition.kind) : null;
  return over === null
    ? { ...condition, id, type: null }
    : { ...condition, id, type: over.name, what: over.says(condition.subject) };
}

/** A webhook as it is stored. */
export interface Webhook {
  readonly id: string;
  readonly url: string;
  /** Kinds that it is notified of; null: all. */
  readonly kinds: readonly NotificationKind[] | null;
  /** Notified only of this party; null: of all, and of the hub itself. */
  readonly party: PartyId | null;
  /** One that is not active gets nothing; what it is owed waits. */
  readonly active: boolean;
  /** Sealed for `sealedFor(id)`. */
  readonly sealedSecret: string;
  /** Under which the store remembers what it is owed: another one for each webhook that is made, whatever its id. */
  readonly dest: string;
  readonly createdAt: string;
}

/** The name for which the secret of a webhook is sealed, in the place of a partner. */
export const sealedFor = (id: string): string => `webhook:${id}`;

export type WebhookEvent =
  | { type: 'webhook.set'; data: Webhook }
  | { type: 'webhook.removed'; data: { readonly id: string } }
  | { type: 'notification.raised' | 'notification.ended'; data: Notice };

/** Whether a receiver with these filters gets it. */
export function isWanted({ kinds, party }: Pick<Webhook, 'kinds' | 'party'>, notice: Notice): boolean {
  if (notice.type === null) return false;
  return (kinds === null || kinds.includes(notice.kind)) && (party === null || notice.parties.includes(party));
}
