/**
 * Connections on which a door took a token. Where room for connections is short, those go last.
 */
const trusted = new WeakSet<object>();

/** For doors: the token of a request on it is good. */
export const trust = (connection: object): void => void trusted.add(connection);

export const distrust = (connection: object): void => void trusted.delete(connection);

export const isTrusted = (connection: object): boolean => trusted.has(connection);
