/**
 * How a node is reached by others, and the header by which it shows that a request comes from a node.
 *
 * NODE-AUTH-1  It counts with the shared secret alone, and is taken off whatever it says: no door sees it.
 * NODE-AUTH-2  A request has one hop at most: with a hop behind it, it is answered where it arrives.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export const hopHeader = 'x-ocpi-hub-hop';

/** Paths of what nodes say to each other. */
export const peersPath = '/cluster/v1/';

/** A node as it is reached. */
export interface Target {
  readonly id: string;
  readonly url: string;
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** Whether a request came over a node. Null: there are no other nodes. */
export function hopOf(secret: string | null): (request: IncomingMessage) => boolean {
  const expected = secret === null ? null : digest(secret);
  return ({ headers }) => {
    const given = headers[hopHeader];
    if (given === undefined) return false;
    delete headers[hopHeader];
    return expected !== null && typeof given === 'string' && timingSafeEqual(digest(given), expected);
  };
}
