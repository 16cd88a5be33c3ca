/**
 * Marks trusted connections, on which a door has accepted a token. When connections run short, they are evicted last.
 */
const trusted = new WeakSet<object>();

/** Doors call this when they accept the token of a request on the connection. */
export const trust = (connection: object): void => void trusted.add(connection);

export const distrust = (connection: object): void => void trusted.delete(connection);

export const isTrusted = (connection: object): boolean => trusted.has(connection);
