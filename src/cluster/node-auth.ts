/**
 * The hop header, by which a node authenticates to its peers, and the paths of cluster messages.
 *
 * NODE-AUTH-1  The hop header is valid only with the shared secret. It is always removed from the request, so no door
 *     sees it.
 * NODE-AUTH-2  A request makes at most one hop: a node answers a request with a valid hop header itself.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { setPassedOn } from '../transport/client-address.ts';
import { enterAsOperator } from '../transport/entrance.ts';

export const hopHeader = 'x-ocpi-hub-hop';

/** Present when the request came in by the operators' listener of the node that passes it on. */
export const entranceHeader = 'x-ocpi-hub-entrance';

/** The address of the caller whose request a node passes on; believed only with a valid hop header. */
export const clientHeader = 'x-ocpi-hub-client';

/** Header fields that nodes add, and nobody else may send. */
export const hopHeaders = [hopHeader, clientHeader, entranceHeader] as const;

/** Path prefix of cluster messages. */
export const peersPath = '/cluster/v1/';

/** A node that requests can be passed to. */
export interface Target {
  readonly id: string;
  readonly url: string;
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** Makes the check whether a peer sent a request. `secret` null: the hub has no peers, so no hop is valid. */
export function hopOf(secret: string | null): (request: IncomingMessage) => boolean {
  const expected = secret === null ? null : digest(secret);
  return (request) => {
    const { [hopHeader]: given, [clientHeader]: client, [entranceHeader]: entrance } = request.headers;
    for (const name of hopHeaders) delete request.headers[name];
    if (expected === null || typeof given !== 'string' || !timingSafeEqual(digest(given), expected)) return false;
    if (entrance !== undefined) enterAsOperator(request);
    setPassedOn(request, typeof client === 'string' ? client : 'a node');
    return true;
  };
}
