/**
 * How a node knows the requests of its peers, and what a node tells its peer about the caller of a request that it
 * passes on.
 *
 * NODE-AUTH-1  A request is a peer's when it came through a channel (`channel.ts`). Fields by which nodes tell of a
 *     caller are removed from every request, so no door sees them, and nobody but a peer is believed.
 * NODE-AUTH-2  A request makes at most one hop: a node answers a request of a peer itself.
 */
import type { IncomingMessage } from 'node:http';
import { enterAsOperator, setPassedOn } from '../transport/client-connection.ts';

/** Present when the request came in by the operators' listener of the node that passes it on. */
export const entranceHeader = 'x-ocpi-hub-entrance';

/** The address of the caller whose request a node passes on. */
export const clientHeader = 'x-ocpi-hub-client';

/** Header fields that nodes add, and nobody else may send. */
export const hopHeaders = [clientHeader, entranceHeader] as const;

/** Path prefix of cluster messages. */
export const peersPath = '/cluster/v1/';

/** Timeout of a message to a node, ms, where something waits for its answer. */
export const messageMs = 1000;

/** A node that requests can be passed to. */
export interface Target {
  readonly id: string;
  readonly url: string;
}

/** Makes the check whether a peer sent a request. */
export function hopOf(isNode: (request: IncomingMessage) => boolean): (request: IncomingMessage) => boolean {
  return (request) => {
    const { [clientHeader]: client, [entranceHeader]: entrance } = request.headers;
    for (const name of hopHeaders) delete request.headers[name];
    if (!isNode(request)) return false;
    if (entrance !== undefined) enterAsOperator(request);
    setPassedOn(request, typeof client === 'string' ? client : 'a node');
    return true;
  };
}
