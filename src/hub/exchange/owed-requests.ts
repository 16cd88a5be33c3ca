/**
 * The requests that receivers of an object are owed: method, path below their module URL, and where it is not the event's
 * own, the body.
 */
import type { ObjectEventData, Owed } from '../../domain/events.ts';
import { modules } from '../../domain/modules.ts';
import {
  changedBody,
  followedSession,
  type HubObject,
  type ObjectChange,
  storedWithin,
  streamOf,
  typeOf,
} from '../../domain/object.ts';
import type { PartyId, PartyRole } from '../../domain/party.ts';
import { hasPseudonym } from '../../domain/person.ts';
import type { Audience } from '../../domain/routing.ts';

/**
 * The requests that are owed: the change as received for receivers that have the object, the whole object as of this
 * change for receivers that may never have had it.
 */
export function owedRequests(
  owner: PartyRole,
  change: ObjectChange,
  before: HubObject | null,
  { to, whole: toWhole }: Audience,
): Pick<ObjectEventData, 'owed' | 'whole'> {
  if (to.length === 0) return { owed: null };
  const id = before?.id ?? change.id;
  const within = storedWithin(before?.body ?? null, change);
  const session = followedSession(change);
  const asItCame: Owed = {
    method: change.method,
    ...address(owner, { ...change, id, within }),
    ...(session && { behind: streamOf('sessions', change.owner, session) }),
  };
  // Digests of an erased person must not take the place of what a receiver has.
  const isErased = () => before?.forwarded === true && hasPseudonym(before.body);
  if (toWhole.length === 0 || isErased()) return { owed: asItCame };
  const at = address(owner, { ...change, id, within: [] });
  const { after = changedBody(before?.body ?? null, change) } = change;
  const whole: Owed = { method: 'PUT', ...at, body: after ?? '' };
  return toWhole.length === to.length ? { owed: whole } : { owed: asItCame, whole: { ...whole, to: toWhole } };
}

/** The request that sends a stored object as a whole. */
export function owedWhole(owner: PartyRole, object: HubObject): Owed {
  const session = followedSession(object);
  return {
    method: modules[object.module].whole,
    ...address(owner, { ...object, within: [] }),
    ...(session && { behind: streamOf('sessions', object.owner, session) }),
  };
}

/**
 * The request, and the body of its event, that ends an object at a receiver that was sent it and not its end: DELETE, or of a
 * private location no more than that it is private. Null when there is nothing to end there. [RESENDS-5, D21]
 */
export function owedEnd(
  owner: PartyRole,
  object: HubObject,
  receiver: PartyId,
): { readonly owed: Owed; readonly body: string } | null {
  const { ended, facts, sent, outdated, lastUpdated } = object;
  const at = () => address(owner, { ...object, within: [] });
  if (ended) return sent?.includes(receiver) ? { owed: { method: 'DELETE', ...at() }, body: '' } : null;
  if (facts.publish !== false || !outdated?.includes(receiver)) return null;
  const body = JSON.stringify({ publish: false, last_updated: lastUpdated });
  return { owed: { method: 'PATCH', ...at() }, body };
}

/**
 * Path and query below the receiver's module URL: the identifiers of owner and object, in the case in which they were
 * first stored.
 */
function address(
  { country_code, party_id }: PartyRole,
  { module, id, within, facts }: Pick<ObjectChange, 'module' | 'id' | 'within' | 'facts'>,
): Pick<Owed, 'path' | 'query'> {
  const { hasPath, isKeyedByType } = modules[module];
  const segments = hasPath ? [country_code, party_id, id, ...within] : [];
  return {
    path: segments.map((segment) => `/${encodeURIComponent(segment)}`).join(''),
    query: isKeyedByType ? `?type=${encodeURIComponent(typeOf(facts))}` : '',
  };
}
