/** The listeners of a process: for partners, operators and other nodes; how each begins and ends. */
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serverOptions } from './assembly.ts';
import { type ChannelDoor, refuseOutside } from './cluster/channel.ts';
import type { Front } from './cluster/front.ts';
import { type Config, type Listener, listenUrl, settingIs } from './config/config.ts';
import { type Clock, sleep, withTimeout } from './kit/clock.ts';
import { closed, createFrontServer } from './ocpi/http-server.ts';
import type { Place } from './partners/egress.ts';
import { enterAsOperator } from './transport/client-connection.ts';
import type { Visitors } from './transport/visitors.ts';

/** Longest wait for requests in flight when the process ends. */
export const inFlightGraceMs = 10_000;
/** Where the server listens, if it does. */
export const placesOf = (server: Server): Place[] => (server.listening ? [server.address() as AddressInfo] : []);

/** The operators' listener, if they have one of their own. [ASSEMBLY-3] */
export async function listenForOperators(
  config: Config,
  visitors: Visitors,
  clock: Clock,
  answer: RequestListener,
): Promise<{ readonly server: Server; readonly url: string } | null> {
  if (config.operators === null) return null;
  const server = createFrontServer(serverOptions(config, visitors, clock), (request, response) => {
    enterAsOperator(request);
    answer(request, response);
  });
  server.on('upgrade', enterAsOperator);
  await listen(server, config.operators, 'HUB_ADMIN');
  const { port } = server.address() as AddressInfo;
  return { server, url: listenUrl({ ...config, host: config.operators.host }, port) };
}

/** The listener of other nodes, if they have one of their own: outside a channel everything is refused. */
export async function listenForNodes(
  config: Config,
  visitors: Visitors,
  clock: Clock,
  channels: ChannelDoor,
): Promise<Server | null> {
  const { nodes, nodeUrl } = config;
  if (nodes === null) return null;
  const tls = nodeUrl?.startsWith('https:') ? config.tls : null;
  const server = createFrontServer(serverOptions({ ...config, tls }, visitors, clock), refuseOutside);
  server.on('upgrade', (request, socket, head) => channels.accept(request, socket, head));
  await listen(server, nodes, 'HUB_NODE');
  return server;
}

/** By the code of the error with which a server cannot listen: which of its settings that is about, and what is expected of it. */
const unusable: Readonly<Record<string, readonly ['HOST' | 'PORT', string]>> = {
  EADDRINUSE: ['PORT', 'a port on which no other process listens'],
  EACCES: ['PORT', 'a port that the user of the hub may take; those below 1024 are for root'],
  EADDRNOTAVAIL: ['HOST', 'an address of this machine'],
  ENOTFOUND: ['HOST', 'an address of this machine'],
};

/** `settings`: how the names of the settings begin that have the address. */
export const listen = (server: Server, { host, port }: Listener, settings: 'HUB' | 'HUB_ADMIN' | 'HUB_NODE') =>
  new Promise<void>((resolve, reject) => {
    const refused = (error: NodeJS.ErrnoException) => {
      const [part, expected] = unusable[error.code ?? ''] ?? [];
      if (part === undefined) return reject(error);
      const was = part === 'PORT' ? `${port} on ${host}` : JSON.stringify(host);
      reject(new Error(settingIs(`${settings}_${part}`, was, `${expected} (${error.code})`), { cause: error }));
    };
    server.once('error', refused);
    server.listen({ host, port }, () => {
      server.off('error', refused);
      resolve();
    });
  });

/** Ends a server whose hub, if there was one, has answered everything. */
export const cut = async (server: Server) => {
  server.close();
  server.closeAllConnections();
};

/** Time for a load balancer to see that a leaving node is not ready; meanwhile each answer closes its connection. */
const lastAnswersMs = 2000;

/** Answers open connections for `lastAnswersMs` more, then closes the servers; requests in flight get a grace. */
export async function ended(
  servers: readonly Server[],
  { front, channels }: { readonly front: Front; readonly channels: ChannelDoor },
  clock: Clock,
): Promise<void> {
  await sleep(clock, lastAnswersMs);
  front.close();
  channels.close();
  const allClosed = Promise.all(servers.map(closed));
  if (await withTimeout(clock, inFlightGraceMs, allClosed)) return;
  for (const server of servers) server.closeAllConnections();
  channels.destroy();
  await allClosed;
}
