/**
 * Fold of object events. Ingest and rebuild share this one function, so a lost or damaged projection can be rebuilt
 * from the log byte for byte. [OBJECT-4]
 */
import { formOf, type ObjectEventData } from './events.ts';
import { isOwned, modules } from './modules.ts';
import { changedBody, type HubObject, laterDate, objectKey } from './object.ts';
import type { PartyId } from './party.ts';

/** Of an event, what the fold reads: the body is empty where the event has none. */
export interface Change {
  readonly type: string;
  readonly data: ObjectEventData;
  readonly body: string;
  readonly to: readonly PartyId[];
  /** The text of the object after the change, where it is known already. */
  readonly after?: string | null | undefined;
}

/**
 * The object after a push that was owed to the receivers `to`; null when the push deletes it at all who have it, or changes
 * something that does not exist.
 */
export function applyToObject(before: HubObject | null, change: Change): HubObject | null {
  const { data, body, to } = change;
  if (data.method === 'DELETE') return endOf(before, change);
  // Of an object that comes again, who has what of the one before counts, and nothing else.
  const stored = before?.ended ? null : before;
  const { module, method, within, lastUpdated } = data;
  const isWhole = method !== 'PATCH' && within.length === 0;
  const { after = isWhole ? body : changedBody(stored?.body ?? null, { module, method, within, lastUpdated, body }) } =
    change;
  if (after === null) return null;
  const sent = sentAfter(before, data, to);
  const outdated = outdatedAfter(before, change);
  return {
    module,
    owner: data.owner,
    key: stored?.key ?? objectKey(module, data.id, data.facts),
    id: stored?.id ?? data.id,
    lastUpdated:
      (within.length > 0 ? laterDate(stored?.lastUpdated ?? null, lastUpdated) : lastUpdated) ??
      stored?.lastUpdated ??
      '',
    facts: isWhole ? data.facts : { ...stored?.facts, ...data.facts },
    body: after,
    viewer: data.viewer,
    reason: data.reason,
    forwarded: (stored?.forwarded ?? false) || data.owed !== null || data.forwarded === true,
    ...(sent && { sent }),
    ...(outdated.length > 0 && { outdated }),
  };
}

const none: readonly PartyId[] = [];

/** What is stored of a deleted object: which receivers were sent it and are not owed its end; null when there are none. */
function endOf(before: HubObject | null, { data, to }: Change): HubObject | null {
  const { module, owner, id, facts, lastUpdated, reason } = data;
  const sent = (data.sent ?? before?.sent ?? none).filter((receiver) => !to.includes(receiver));
  if (sent.length === 0 || !modules[module].isDeletable) return null;
  return {
    module,
    owner,
    key: before?.key ?? objectKey(module, id, facts),
    id,
    lastUpdated: before?.lastUpdated ?? lastUpdated ?? '',
    facts,
    body: '',
    viewer: null,
    reason,
    forwarded: true,
    sent,
    ended: true,
  };
}

/** Receivers that have an older version after the change: those that it passes by, until a whole is owed to them. */
function outdatedAfter(before: HubObject | null, { type, data, to }: Change): readonly PartyId[] {
  if (isOwned(data.module)) return none;
  if (data.sent) return data.outdated ?? none;
  const { sent = none, outdated = none } = before ?? {};
  const isResent = type === 'object.resent';
  // Nearly every change goes to all who have the object.
  if (outdated.length === 0 && (isResent || isSame(sent, to))) return none;
  const owed = new Set(to);
  const passed = isResent ? none : sent.filter((id) => !owed.has(id));
  // A private object is sent again as `publish: false` alone, which brings the receiver up to date.
  const isMade = (id: PartyId) => owed.has(id) && (isResent || formOf(data, id) === 'whole');
  return withAll(outdated, passed).filter((id) => !isMade(id));
}

const isSame = (one: readonly PartyId[], other: readonly PartyId[]): boolean =>
  one.length === other.length && one.every((id, at) => id === other[at]);

/**
 * Adds the receivers of a change to `sent`: a receiver gets the whole object before any part of it. Of sessions and
 * CDRs only those that their eMSP missed have such a list.
 */
function sentAfter(
  before: HubObject | null,
  { module, sent, forwarded }: ObjectEventData,
  to: readonly PartyId[],
): readonly PartyId[] | undefined {
  if (sent) return sent;
  // A base event of an earlier version does not say which receivers have the object.
  if (isOwned(module) || forwarded) return before?.sent && withAll(before.sent, to);
  return withAll(before?.sent ?? [], to);
}

/** Union of the two lists, in order of id. */
function withAll(sent: readonly PartyId[], to: readonly PartyId[]): readonly PartyId[] {
  const known = new Set(sent);
  return to.every((id) => known.has(id)) ? sent : [...new Set([...sent, ...to])].sort();
}

/**
 * Compaction: one push that recreates the object, or what is stored of a deleted one, and replaces all events that made
 * it, when these are too old to be kept.
 */
export function baseOf(object: HubObject): { data: ObjectEventData; body: string } {
  // One literal: a copy by rest and spread costs more than the rest of the compaction's decision.
  const { module, owner, id, lastUpdated, facts, viewer, reason, forwarded, sent, outdated, ended, body } = object;
  const data: ObjectEventData = {
    module,
    method: ended ? 'DELETE' : 'PUT',
    owner,
    id,
    within: [],
    lastUpdated,
    facts,
    viewer,
    owed: null,
    reason,
    warnings: [],
    ...(forwarded && { forwarded }),
    ...(sent && { sent }),
    ...(outdated && { outdated }),
  };
  return { data, body };
}
