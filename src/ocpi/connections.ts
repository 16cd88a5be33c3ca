/**
 * Room for connections, so that the process always has descriptors left for its store and its own calls.
 *
 * CONNECTIONS-1  There are never more than a server was given room for: what comes beyond is closed.
 * CONNECTIONS-2  From `crowdedShare` of it on, each that comes ends one on which nothing is under way: of strangers (no door took a token on them)
 *     the oldest, else the one that has been idle for longest. So idle connections can take nobody's room.
 * CONNECTIONS-3  Where the last place is taken and none is idle, the oldest of the strangers ends, whatever is under way on it: much can be asked
 *     for without a token, and be read slowly.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { distrust, isTrusted, trust } from '../transport/trusted.ts';

const crowdedShare = 0.75;
const unauthorized = 401;

/** Hears of each request of a server. */
export type RequestSeen = (request: IncomingMessage, response: ServerResponse) => void;

interface Connection {
  readonly socket: Socket;
  /** The one that its requests name: with TLS it is another. */
  http: Socket;
  underWay: number;
}

export function limitConnections(server: Server, most: number): RequestSeen {
  const crowdedFrom = most * crowdedShare;
  server.maxConnections = most;
  /** In order of arrival, by the caller's address and port: those of a connection with TLS are known by two sockets. */
  const open = new Map<string, Connection>();
  /** Both in the order in which they became idle. */
  const strangers = new Set<string>();
  const idle = new Set<string>();
  const isNoMoreIdle = (name: string) => {
    strangers.delete(name);
    idle.delete(name);
  };

  server.on('connection', (socket: Socket) => {
    const name = nameOf(socket);
    if (open.size >= crowdedFrom) endOne();
    open.set(name, { socket, http: socket, underWay: 0 });
    strangers.add(name);
    socket.once('close', () => {
      // The same port may be in use again by then.
      if (open.get(name)?.socket !== socket) return;
      open.delete(name);
      isNoMoreIdle(name);
    });
  });
  // Those that are open may have become idle only after the last one came.
  server.on('drop', endOne);
  // An upgraded connection is its new protocol's. A listener of ours alone would have Node take every upgrade out of HTTP.
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
    const [unused] = strangers.size > 0 ? strangers : idle;
    const name = unused ?? (open.size + 1 >= most ? strangerInUse() : undefined);
    if (name === undefined) return;
    const { socket } = open.get(name) ?? {};
    isNoMoreIdle(name);
    open.delete(name);
    socket?.destroy();
  }

  /** [CONNECTIONS-3] */
  function strangerInUse(): string | undefined {
    for (const [name, { http }] of open) if (!isTrusted(http)) return name;
    return undefined;
  }

  return ({ socket }, response) => {
    const name = nameOf(socket);
    const connection = open.get(name);
    // What another server has taken is none of ours.
    if (connection === undefined) return;
    connection.http = socket;
    connection.underWay += 1;
    isNoMoreIdle(name);
    response.once('close', () => {
      connection.underWay -= 1;
      if (response.statusCode === unauthorized) distrust(socket);
      if (connection.underWay > 0 || open.get(name) !== connection) return;
      (isTrusted(socket) ? idle : strangers).add(name);
    });
  };
}

const nameOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;
