/**
 * What a recorded push makes of an object. Accepting and rebuilding use this one function, so a projection that was lost or
 * damaged can be made again from the log, to the byte. [OBJECT-4]
 */
import type { ObjectEventData } from './events.ts';
import { changedBody, type HubObject, objectKey } from './object.ts';
import { isOwned } from './ownership.ts';
import type { PartyId } from './party.ts';

/** The object after a push that was owed to these; null when it was deleted, or when the push needs something that is not there. */
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
    lastUpdated: data.lastUpdated ?? before?.lastUpdated ?? '',
    facts: isWhole ? data.facts : { ...before?.facts, ...data.facts },
    body: text,
    viewer: data.viewer,
    reason: data.reason,
    forwarded: (before?.forwarded ?? false) || data.owed !== null || data.forwarded === true,
    ...(sent && { sent }),
  };
}

/** A receiver that is owed anything of an object is owed it whole first. A session is its eMSP's, so only one that missed it has such a list. */
function sentAfter(
  before: HubObject | null,
  { module, sent, forwarded }: ObjectEventData,
  to: readonly PartyId[],
): readonly PartyId[] | undefined {
  if (sent) return sent;
  // A base that an earlier version made does not say who has the object.
  if (isOwned(module) || forwarded) return before?.sent && withAll(before.sent, to);
  return withAll(before?.sent ?? [], to);
}

/** In order of id, without anybody twice. */
function withAll(sent: readonly PartyId[], to: readonly PartyId[]): readonly PartyId[] {
  const known = new Set(sent);
  return to.every((id) => known.has(id)) ? sent : [...new Set([...sent, ...to])].sort();
}

/** A push that makes the object at once, in place of all that made it: what stays when those are too old to be kept. */
export function baseOf({ body, key: _key, forwarded, ...object }: HubObject): { data: ObjectEventData; body: string } {
  const plain = { method: 'PUT', within: [], owed: null, warnings: [] } as const;
  return { data: { ...object, ...plain, ...(forwarded && { forwarded }) }, body };
}
