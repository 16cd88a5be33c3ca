/**
 * Marks what a door has admitted by a token, and what came in by the operators' listener (`HUB_ADMIN_PORT`). When
 * connections run short, trusted ones are evicted last; requests that no door admitted are limited by address (`visitors.ts`).
 *
 * TRUSTED-1  A door asks in a hook of its own by which listener a request came in, so no form of a path leads around it.
 */
import type { IncomingMessage } from 'node:http';

/** Connections, each with the partner whose token was accepted last; empty: of an operator, or at another node. */
const trusted = new WeakMap<object, string>();
/** A field of the request: what a WeakSet holds is promoted by the collector and costs it time, for each request. */
const admitted = Symbol('admitted');
interface Request extends IncomingMessage {
  [admitted]?: true;
}

/** A token was accepted on the connection: that of `partner`, if it is one of a partner at this node. */
export const trust = (connection: object, partner = ''): void => void trusted.set(connection, partner);

export const distrust = (connection: object): void => void trusted.delete(connection);

export const isTrusted = (connection: object): boolean => trusted.has(connection);

/** The partner whose token was accepted last on a trusted connection; empty: none is known. */
export const partnerOn = (connection: object): string => trusted.get(connection) ?? '';

/** Doors call this when they accept the token of a request. */
export function markAdmitted(request: Request, partner?: string): void {
  request[admitted] = true;
  trust(request.socket, partner);
}

export const isAdmitted = (request: Request): boolean => request[admitted] === true;

const ofOperators = new WeakSet<IncomingMessage>();

/** The request came in by the operators' listener, here or at the node that passed it on. */
export const enterAsOperator = (request: IncomingMessage): void => void ofOperators.add(request);

/** [TRUSTED-1] */
export const isAtOperators = (request: IncomingMessage): boolean => ofOperators.has(request);
