/**
 * What is known of a client's connection: its address, whether a door admitted it, how long it may be silent, and which key exchanges
 * of TLS it may choose.
 *
 * A door marks what it has admitted by a token, and a listener what came in by the operators' port (`HUB_ADMIN_PORT`). When
 * connections run short, trusted ones are evicted last; requests that no door admitted are limited by address (`visitors.ts`).
 *
 * CLIENT-CONNECTION-1  A door asks in a hook of its own by which listener a request came in, so no form of a path leads around it.
 * CLIENT-CONNECTION-2  `X-Forwarded-For` counts only from a trusted proxy, and of its entries the last one that is not a
 *     trusted proxy itself: the entries before it are whatever the caller wrote.
 * CLIENT-CONNECTION-3  IPv6 addresses count by their first 64 bits, which is what one subscriber has.
 * CLIENT-CONNECTION-4  The silence limit cuts an answer on which the hub works for longer than that only when its client takes nothing of it, or has ended its side.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { BlockList, isIP, isIPv6, type Socket } from 'node:net';
import { memoized } from '../kit/memo.ts';

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

/** [CLIENT-CONNECTION-1] */
export const isAtOperators = (request: IncomingMessage): boolean => ofOperators.has(request);

// The network address that a request came from, by which callers without a token are counted; and whether an address lies
// within a network.

export interface ClientAddresses {
  /** By which callers are counted. [CLIENT-CONNECTION-3] */
  of(request: IncomingMessage): string;
  /** The whole address. */
  exact(request: IncomingMessage): string;
  /** The address of a connection; null for that of a trusted proxy, which many callers share. */
  ofConnection(socket: Socket): string | null;
}

/** Requests that another node passed on, with the address that their caller has there. */
const passedOn = new WeakMap<IncomingMessage, string>();

/** Another node passed the request on for a caller at this address. */
export const setPassedOn = (request: IncomingMessage, address: string): void => void passedOn.set(request, address);

export const isPassedOn = (request: IncomingMessage): boolean => passedOn.has(request);

/** `proxies`: networks in CIDR form. */
export function clientAddresses(proxies: readonly string[]): ClientAddresses {
  const isProxy = memoized((address) => isWithin(proxies, address));
  const forwarded = (request: IncomingMessage, peer: string): string => {
    const entries = [request.headers['x-forwarded-for'] ?? ''].flat().join(',').split(',');
    for (const entry of entries.reverse()) {
      const address = plain(entry.trim());
      // What is no address was not written by a proxy.
      if (isIP(address) === 0) return peer;
      if (!isProxy(address)) return address;
    }
    return peer;
  };
  const exact = (request: IncomingMessage): string => {
    const peer = plain(request.socket.remoteAddress ?? '');
    return passedOn.get(request) ?? (proxies.length > 0 && isProxy(peer) ? forwarded(request, peer) : peer);
  };
  return {
    of: (request) => counted(exact(request)),
    exact,
    ofConnection({ remoteAddress = '' }) {
      const peer = plain(remoteAddress);
      return isProxy(peer) ? null : counted(peer);
    },
  };
}

/** Without port, brackets, zone and the prefix by which IPv6 sockets show IPv4 addresses. */
const plain = memoized((written) =>
  written
    .replace(/^\[(.*)\](?::\d+)?$/, '$1')
    .replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1')
    .replace(/%.*$/, '')
    .replace(/^::ffff:(?=\d+\.)/i, ''),
);

/** [CLIENT-CONNECTION-3] */
const counted = memoized((address) => {
  if (!isIPv6(address)) return address;
  const [head = '', tail = ''] = address.split('::');
  const [before, after] = [head, tail].map((part) => part.split(':').filter((group) => group !== ''));
  const ends = after?.flatMap((group) => (group.includes('.') ? [group, group] : [group])) ?? [];
  const missing = 8 - (before?.length ?? 0) - ends.length;
  const groups = [...(before ?? []), ...Array<string>(missing).fill('0'), ...ends];
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(':')}::/64`;
});

const listOf = new WeakMap<readonly string[], BlockList>();

/** Whether an address lies within one of several networks. `networks`: CIDR ranges or single addresses, which must be valid; a list is parsed once. */
export function isWithin(networks: readonly string[], address: string): boolean {
  const family = isIP(address);
  const list = listOf.get(networks) ?? parsed(networks);
  listOf.set(networks, list);
  // Also knows an IPv4 address that is written as IPv6 (`::ffff:192.0.2.1`).
  return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4');
}

function parsed(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', bits] = network.split('/');
    const isSix = isIP(address) === 6;
    list.addSubnet(address, Number(bits ?? (isSix ? 128 : 32)), isSix ? 'ipv6' : 'ipv4');
  }
  return list;
}

// The silence limit of connections, for answers on which the hub may work for longer than that.

/** Call it before the answer begins. Node leaves a silent connection open when its response listens for the time-out. [CLIENT-CONNECTION-4] */
export function outlastSilence(response: ServerResponse): void {
  response.on('timeout', (socket: Socket) => {
    if (response.writableLength > 0 || socket.readableEnded) socket.destroy();
  });
}

// Key exchanges of TLS that the hub accepts as a server and offers as a client. A handshake runs on the only thread, and the other side chooses
// among them: one with a curve takes 5 ms at most, one with a prime of 8,192 bits 100 ms (ffdhe8192, also in TLS 1.3), with a prime of
// the server's own 200 ms.

/** Groups of TLS, best first. OpenSSL would add groups of primes. */
export const curves = 'X25519:P-256:P-384:P-521';

/** A list of ciphers without those of TLS 1.2 that exchange keys with a prime. */
export const withoutPrimes = (ciphers: string): string => `${ciphers}:!DHE`;
