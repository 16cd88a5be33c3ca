/**
 * By which listener a request came in, for a hub whose operators have one of their own (`HUB_ADMIN_PORT`).
 *
 * ENTRANCE-1  A door asks this in a hook of its own, so no form of a path leads around it.
 */
import type { IncomingMessage } from 'node:http';

const ofOperators = new WeakSet<IncomingMessage>();

/** The request came in by the operators' listener, here or at the node that passed it on. */
export const enterAsOperator = (request: IncomingMessage): void => void ofOperators.add(request);

export const isAtOperators = (request: IncomingMessage): boolean => ofOperators.has(request);
