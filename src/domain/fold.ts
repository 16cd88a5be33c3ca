/**
 * What a recorded push makes of an object. Accepting and rebuilding use this one function, so a projection that was lost or
 * damaged can be made again from the log, to the byte. [object.ts O4]
 */
import type { ObjectEventData } from './events.ts';
import { changedBody, type HubObject, objectKey } from './object.ts';

/** The object after the push; null when it was deleted, or when the push needs something that is not there. */
export function applyToObject(before: HubObject | null, data: ObjectEventData, body: string): HubObject | null {
  if (data.method === 'DELETE') return null;
  const isWhole = data.method !== 'PATCH' && data.within.length === 0;
  const text = isWhole ? body : changedBody(before?.body ?? null, { ...data, body });
  if (text === null) return null;
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
  };
}

/** A push that makes the object at once, in place of all that made it: what stays when those are too old to be kept. */
export function baseOf({ body, key: _key, forwarded, ...object }: HubObject): { data: ObjectEventData; body: string } {
  const plain = { method: 'PUT', within: [], owed: null, warnings: [] } as const;
  return { data: { ...object, ...plain, ...(forwarded && { forwarded }) }, body };
}
