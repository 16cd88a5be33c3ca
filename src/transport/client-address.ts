/**
 * The network address that a request came from, by which callers without a token are counted; and whether an address lies
 * within a network.
 *
 * CLIENT-ADDRESS-1  `X-Forwarded-For` counts only from a trusted proxy, and of its entries the last one that is not a
 *     trusted proxy itself: the entries before it are whatever the caller wrote.
 * CLIENT-ADDRESS-2  IPv6 addresses count by their first 64 bits, which is what one subscriber has.
 */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6, type Socket } from 'node:net';
import { memoized } from '../kit/memo.ts';

export interface ClientAddresses {
  /** By which callers are counted. [CLIENT-ADDRESS-2] */
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

/** [CLIENT-ADDRESS-2] */
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
