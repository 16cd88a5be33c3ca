/**
 * Marks what a door has admitted by a token. When connections run short, trusted ones are evicted last; requests that
 * no door admitted are limited by address (`visitors.ts`).
 */
import type { IncomingMessage } from 'node:http';

const trusted = new WeakSet<object>();
/** A field of the request: what a WeakSet holds is promoted by the collector and costs it time, for each request. */
const admitted = Symbol('admitted');
interface Request extends IncomingMessage {
  [admitted]?: true;
}

/** A token was accepted on the connection. */
export const trust = (connection: object): void => void trusted.add(connection);

export const distrust = (connection: object): void => void trusted.delete(connection);

export const isTrusted = (connection: object): boolean => trusted.has(connection);

/** Doors call this when they accept the token of a request. */
export function markAdmitted(request: Request): void {
  request[admitted] = true;
  trust(request.socket);
}

export const isAdmitted = (request: Request): boolean => request[admitted] === true;
