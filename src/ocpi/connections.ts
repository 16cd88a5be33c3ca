/**
 * Connection limit of the server, so that the process keeps file descriptors for its store and its outbound calls.
 *
 * CONNECTIONS-1  The server never has more than `most` connections: it closes new ones beyond that.
 * CONNECTIONS-2  From `crowdedShare` of `most` on, each new connection evicts one without a request in flight: that of a
 *     partner with too many [CONNECTIONS-5], else the untrusted one (no door has accepted a token on it) that has been
 *     idle longest, else the trusted one idle longest. So idle connections cannot keep new callers out.
 * CONNECTIONS-3  When the last place is taken and no connection is idle, the oldest untrusted connection is evicted
 *     even with a request in flight: without a token one can request large answers and read them slowly.
 * CONNECTIONS-4  An address has at most `ofAddressMax` untrusted connections: a new one evicts its oldest. Addresses of
 *     trusted proxies, which many callers share, are exempt.
 * CONNECTIONS-5  A partner that leaves more than `partnerShare` of `most` idle loses its own first, those idle longest: its
 *     new connections end none of others, which may be in their handshake. Trusted proxies are exempt.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { addTo } from '../kit/memo.ts';
import { distrust, isTrusted, partnerOn, trust } from '../transport/client-connection.ts';

const crowdedShare = 0.75;
/** A smaller one would end kept connections of a busy partner before those of strangers. [CONNECTIONS-5] */
const partnerShare = 0.25;
const unauthorized = 401;

/** Must be called for each request of the server. */
export type RequestSeen = (request: IncomingMessage, response: ServerResponse) => void;

interface Connection {
  readonly socket: Socket;
  /** The socket that requests carry; with TLS it differs from `socket`. */
  http: Socket;
  underWay: number;
}

/** Limit of the untrusted connections of one address. [CONNECTIONS-4] */
export interface AddressShare {
  readonly ofAddressMax: number;
  /** Null for an address that is exempt. */
  readonly addressOf: (socket: Socket) => string | null;
}

export function limitConnections(server: Server, most: number, share: AddressShare | null = null): RequestSeen {
  const crowdedFrom = most * crowdedShare;
  server.maxConnections = most;
  /** In order of arrival. The key is remote address and port, since a TLS connection has two socket objects. */
  const open = new Map<string, Connection>();
  /** Idle connections, untrusted and trusted, each in the order in which they became idle; the trusted ones with their partner. */
  const strangers = new Set<string>();
  const idle = new Map<string, string>();
  /** How many of them each partner has. */
  const idleOf = new Map<string, number>();
  /** By address, in order of arrival: connections that were untrusted when last looked at. */
  const ofAddresses = new Map<string, Set<string>>();
  const isNoMoreIdle = (name: string) => {
    strangers.delete(name);
    const partner = idle.get(name);
    if (partner === undefined) return;
    idle.delete(name);
    addTo(idleOf, partner, -1);
  };
  const becomesIdle = (name: string, socket: Socket) => {
    if (!isTrusted(socket)) return void strangers.add(name);
    const partner = share?.addressOf(socket) === null ? '' : partnerOn(socket);
    idle.set(name, partner);
    addTo(idleOf, partner, 1);
  };

  server.on('connection', (socket: Socket) => {
    const name = nameOf(socket);
    if (open.size >= crowdedFrom) endOne();
    open.set(name, { socket, http: socket, underWay: 0 });
    strangers.add(name);
    const leave = share && join(share, name, socket);
    socket.once('close', () => {
      // A new connection may already use the same address and port.
      if (open.get(name)?.socket !== socket) return;
      open.delete(name);
      isNoMoreIdle(name);
      leave?.();
    });
  });
  // Open connections may have become idle since the last one was accepted.
  server.on('drop', endOne);
  // An upgraded connection belongs to its new protocol. The `upgrade` listener is added only after somebody else has
  // added one: with any listener Node takes every upgrade out of HTTP.
  server.on('newListener', function own(event: string) {
    if (event !== 'upgrade') return;
    server.off('newListener', own);
    server.on('upgrade', ({ socket }: IncomingMessage) => {
      const name = nameOf(socket);
      isNoMoreIdle(name);
      const connection = open.get(name);
      if (connection !== undefined) trust(connection.http);
    });
  });

  function endOne(): void {
    const [unused] = strangers.size > 0 ? strangers : idle.keys();
    const name = ofTooMany() ?? unused ?? (open.size + 1 >= most ? strangerInUse() : undefined);
    if (name === undefined) return;
    evict(name);
  }

  /** [CONNECTIONS-5] */
  function ofTooMany(): string | undefined {
    for (const [partner, count] of idleOf) {
      if (partner === '' || count <= most * partnerShare) continue;
      for (const [name, of] of idle) if (of === partner) return name;
    }
    return undefined;
  }

  function evict(name: string): void {
    open.get(name)?.socket.destroy();
    isNoMoreIdle(name);
  }

  /** Counts a connection for its address; the returned function ends that. [CONNECTIONS-4] */
  function join({ ofAddressMax, addressOf }: AddressShare, name: string, socket: Socket): (() => void) | null {
    const address = addressOf(socket);
    if (address === null) return null;
    const names = ofAddresses.get(address) ?? new Set();
    ofAddresses.set(address, names.add(name));
    while (names.size > ofAddressMax) {
      const [oldest = name] = names;
      names.delete(oldest);
      const connection = open.get(oldest);
      if (connection && !isTrusted(connection.http)) evict(oldest);
    }
    return () => {
      names.delete(name);
      if (names.size === 0 && ofAddresses.get(address) === names) ofAddresses.delete(address);
    };
  }

  /** [CONNECTIONS-3] */
  function strangerInUse(): string | undefined {
    for (const [name, { http }] of open) if (!isTrusted(http)) return name;
    return undefined;
  }

  return ({ socket }, response) => {
    const name = nameOf(socket);
    const connection = open.get(name);
    // Another server accepted this connection.
    if (connection === undefined) return;
    connection.http = socket;
    connection.underWay += 1;
    isNoMoreIdle(name);
    response.once('close', () => {
      connection.underWay -= 1;
      if (response.statusCode === unauthorized) distrust(socket);
      if (connection.underWay > 0 || open.get(name) !== connection) return;
      becomesIdle(name, socket);
    });
  };
}

/** The same for both socket objects of a TLS connection. */
export const nameOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;
