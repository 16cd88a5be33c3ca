/**
 * Ids of the actors of partners. The id of a partner's actor is also the name of its stream in the log.
 */
import type { PartyId } from '../../domain/party.ts';

/**
 * Memoizes actor ids, because a map lookup by the same string object is faster than by a new one. It needs no eviction:
 * partners are never removed.
 */
function named(kind: string): (id: PartyId) => string {
  const names = new Map<PartyId, string>();
  return (id) => {
    let name = names.get(id);
    if (name === undefined) {
      name = `${kind}:${id}`;
      names.set(id, name);
    }
    return name;
  };
}

export const partnerStream = named('partner');
export const courierActor = named('courier');

/** The partner of a partner or courier actor. */
export const partnerOf = (actor: string): PartyId => actor.slice(actor.indexOf(':') + 1);
