/**
 * Fold of object events. Ingest and rebuild share this one function, so a lost or damaged projection can be rebuilt
 * from the log byte for byte. [OBJECT-4]
 */
import type { ObjectEventData } from './events.ts';
import { isOwned } from './modules.ts';
import { changedBody, type HubObject, laterDate, objectKey } from './object.ts';
import type { PartyId } from './party.ts';

/**
 * The object after a push that was owed to the receivers `to`; null when the push deletes it, or changes something that
 * does not exist.
 */
export function applyToObject(
  before: HubObject | null,
  data: ObjectEventData,
  body: string,
  to: readonly PartyId[] = [],
): HubObject | null {
  if (data.method === 'DELETE') return null;
  const isWhole = data.method !== 'PATCH' && data.within.length === 0;
  const text = isWhole ? body : changedBody(before?.body ?? null, { ...data, body });
  if (text === null) return null;
  const sent = sentAfter(before, data, to);
  return {
    module: data.module,
    owner: data.owner,
    key: before?.key ?? objectKey(data.module, data.id, data.facts),
    id: before?.id ?? data.id,
    lastUpdated:
      (data.within.length > 0 ? laterDate(before?.lastUpdated ?? null, data.lastUpdated) : data.lastUpdated) ??
      before?.lastUpdated ??
      '',
    facts: isWhole ? data.facts : { ...before?.facts, ...data.facts },
    body: text,
    viewer: data.viewer,
    reason: data.reason,
    forwarded: (before?.forwarded ?? false) || data.owed !== null || data.forwarded === true,
    ...(sent && { sent }),
  };
}

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
 * Compaction: one push that recreates the object and replaces all events that made it, when these are too old to be
 * kept.
 */
export function baseOf(object: HubObject): { data: ObjectEventData; body: string } {
  // One literal: a copy by rest and spread costs more than the rest of the compaction's decision.
  const { module, owner, id, lastUpdated, facts, viewer, reason, forwarded, sent, body } = object;
  const data: ObjectEventData = {
    module,
    method: 'PUT',
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
  };
  return { data, body };
}
