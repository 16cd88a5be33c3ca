/**
 * Hub nodes as their users have them: the built command, several processes on one PostgreSQL, and a load balancer in front that gives
 * each request to another node than the one before.
 */
import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { ChannelClient } from '../../src/cluster/channel.ts';
import { loadConfig } from '../../src/config/config.ts';
import type { Clock } from '../../src/kit/clock.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import { startServing } from '../../src/main.ts';
import { type Balancer, startBalancer } from '../../src/sandbox/balancer.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { type ChildHub, spawnChildHub } from '../support/child-hub.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { type PostgresServer, postgresHere } from '../support/postgres.ts';
import { atLength, isAtLength } from '../support/share.ts';
import type { Test } from '../support/tap.ts';

/** Why tests of several nodes cannot run here. */
export const skip = postgresHere === null ? 'no PostgreSQL server is installed here' : false;
/** A file whose scenarios are all left to the campaign. */
export const longer = skip ? { skip } : atLength;
/** Seconds. Longer than any machine stands still: nothing moves unless a test moves it. */
export const leaseS = 60;
/** Where a node dies, and another one is the owner when its lease has run out. */
export const shortLease = { HUB_LEASE_S: '3' };

export const adminToken = 'admin-token-of-the-cluster';
export const clusterSecret = 'a secret of the nodes alone, 123456'.replaceAll(' ', '-');

export interface Node {
  readonly port: number;
  readonly url: string;
  /** Where other nodes reach it. */
  readonly nodeUrl: string;
  /** The process that runs there now, or the last one. */
  hub: ChildHub;
  start(): Promise<void>;
}

export interface Nodes {
  /** Of the load balancer: every request goes to the next node. */
  readonly url: string;
  readonly adminToken: string;
  readonly all: readonly Node[];
  /** The one that has the lease, whether it answers or not. */
  holder(): Promise<Node | undefined>;
  /** Resolves when one of them has the lease and says that it is the owner; gives it. */
  owner(): Promise<Node>;
  /** The others. */
  standbys(): Promise<Node[]>;
  /** Greater at each change of the owner. */
  token(): Promise<number>;
}

interface NodesOptions {
  readonly count?: number;
  readonly env?: Record<string, string>;
  /** In this process, a quarter of the work: all, where a test ends no node; those behind the first, where it ends the owner alone. */
  readonly here?: true | 'others';
  /** What stands in front of these ports; `startBalancer` when absent. */
  readonly front?: (ports: readonly number[]) => Promise<Balancer>;
  /** Settings of one node, which listens on a port. */
  readonly of?: (port: number, index: number) => Record<string, string> | Promise<Record<string, string>>;
}

export async function startNodes(
  t: Test,
  server: PostgresServer,
  schema: string,
  options: NodesOptions = {},
): Promise<Nodes> {
  const { count = 2, env = {}, here, front = startBalancer, of = () => ({}) } = options;
  const isHere = (index: number) => here === true || (here === 'others' && !isAtLength && index > 0);
  const ports = await Promise.all(Array.from({ length: count }, freePort));
  const { url, close } = await front(ports);
  t.teardown(close);
  const all: Node[] = [];
  for (const [i, port] of ports.entries()) {
    const own = { ...env, ...(await of(port, i)) };
    const node = await (isHere(i) ? startHere : spawnNode)(t, port, settingsOf(url, port, server.url(schema), own));
    all.push(node);
    if (here === 'others' && i === 0)
      await eventually('the first node is the owner', async () => (await roleOf(node)) === 'owner');
  }
  await nudge(all);
  const nodes: Nodes = {
    ...{ url, adminToken, all },
    holder: () => holderOf(server, schema, all),
    async owner() {
      let found: Node | undefined;
      await eventually('one node is the owner', async () => {
        found = await nodes.holder();
        return found !== undefined && (await roleOf(found)) === 'owner';
      });
      return found as Node;
    },
    async token() {
      const [row] = await server.query<{ token: string }>(`select token from ${schema}.log`);
      return Number(row?.token);
    },
    async standbys() {
      const owner = await nodes.owner();
      return all.filter((node) => node !== owner);
    },
  };
  return nodes;
}

/** Of a node that listens on a port. */
export function settingsOf(
  publicUrl: string,
  port: number,
  store: string,
  env: Record<string, string>,
): Record<string, string> {
  return {
    ...{ HUB_STORE: store, HUB_NODE_URL: `http://127.0.0.1:${port}`, HUB_PUBLIC_URL: publicUrl },
    ...{
      HUB_CLUSTER_SECRET: clusterSecret,
      HUB_ADMIN_TOKEN: adminToken,
      HUB_SECRET_KEY: 'the key of all nodes'.replaceAll(' ', '-'),
    },
    ...{ HUB_RETRY_SCHEDULE_S: '0.2,0.5,1', HUB_LEASE_S: `${leaseS}`, ...env },
  };
}

/** A clock whose waits are short from `hurry` on: at the end of a test no load balancer has to see that a node leaves. */
export function hurried(of: Clock = systemClock): { readonly clock: Clock; hurry(): void } {
  let waitsMs = Infinity;
  return {
    clock: { ...of, setTimeout: (work, ms, ...args) => of.setTimeout(work, Math.min(ms, waitsMs), ...args) },
    hurry: () => {
      waitsMs = 10;
    },
  };
}

async function startHere(t: Test, port: number, env: Record<string, string>): Promise<Node> {
  const config = loadConfig({ env: { HUB_PORT: `${port}`, HUB_LOG_LEVEL: 'silent', ...env }, flags: {} });
  const never = () => {
    throw new Error('it runs in the process of the test');
  };
  const start = async (): Promise<Node['hub']> => {
    const { clock, hurry } = hurried();
    const { url, close } = await startServing(config, { clock });
    let closing: Promise<void> | null = null;
    const stop = async () => {
      closing ??= close();
      await closing;
      return 0;
    };
    t.teardown(() => {
      hurry();
      return stop();
    });
    return { url, adminToken, pid: process.pid, log: () => '', kill: never, stop };
  };
  const hub = await start();
  const node: Node = {
    ...{ port, url: hub.url, nodeUrl: nodeUrlOf(port, env), hub },
    async start() {
      node.hub = await start();
    },
  };
  return node;
}

const nodeUrlOf = (port: number, { HUB_NODE_PORT }: Record<string, string>) =>
  `http://127.0.0.1:${HUB_NODE_PORT ?? port}`;

async function spawnNode(t: Test, port: number, env: Record<string, string>): Promise<Node> {
  const start = async () => {
    const starting = spawnChildHub({ dataDir: '/nowhere', port, env });
    t.teardown(() => starting.kill());
    return starting.listening;
  };
  const node: Node = {
    ...{ port, url: `http://127.0.0.1:${port}`, nodeUrl: nodeUrlOf(port, env), hub: await start() },
    async start() {
      node.hub = await start();
    },
  };
  return node;
}

/** Asks a node as another node does, through a channel of its own. */
export async function askAsNode(
  url: string,
  path: string,
  { method = 'GET', headers = {}, secret = clusterSecret }: AskedAsNode = {},
): Promise<{ readonly status: number; readonly headers: IncomingHttpHeaders; readonly text: string }> {
  const agent = new ChannelClient([secret]).agent();
  try {
    const options = { method, path, headers: { host: 'node', ...headers }, agent, channelTo: url };
    const [answer] = (await once(request(options).end(), 'response')) as [IncomingMessage];
    const chunks: Buffer[] = [];
    for await (const chunk of answer) chunks.push(chunk as Buffer);
    return { status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(chunks).toString() };
  } finally {
    agent.destroy();
  }
}

interface AskedAsNode {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly secret?: string;
}

/** Where a node is reached: by everybody, and by other nodes, when that is another listener. */
type Reached = Pick<Node, 'url'> & Partial<Pick<Node, 'nodeUrl'>>;

/** Has nodes look at the database, and renew their leases: as a peer does that has handed over. */
async function nudge(nodes: readonly Reached[]): Promise<void> {
  const tell = ({ url, nodeUrl = url }: Reached) => askAsNode(nodeUrl, '/cluster/v1/look', { method: 'POST' });
  await Promise.allSettled(nodes.map(tell));
}

/** Resolves when each of these nodes knows all of them, one is the owner, and the others stand by and are ready. */
export async function untilJoined(nodes: readonly Reached[]): Promise<void> {
  await eventually('the nodes know each other, and all are ready', async () => {
    await nudge(nodes);
    const views = await Promise.all(nodes.map(({ url }) => viewOf(url)));
    const roles = views.map((view) => view?.role).sort();
    const areKnown = views.every((view) => view?.nodes.filter(({ alive }) => alive).length === nodes.length);
    return areKnown && roles.join() === ['owner', ...Array(nodes.length - 1).fill('standby')].join() && areReady(nodes);
  });
}

async function areReady(nodes: readonly { readonly url: string }[]): Promise<boolean> {
  const answers = await Promise.all(nodes.map(({ url }) => fetch(`${url}/readyz`)));
  return answers.every(({ status }) => status === 200);
}

interface View {
  readonly role: string;
  readonly nodes: readonly { readonly alive: boolean }[];
}

async function viewOf(url: string): Promise<View | null> {
  try {
    return (await admin({ url, adminToken }, 'GET', '/cluster')) as unknown as View;
  } catch {
    return null;
  }
}

async function holderOf(server: PostgresServer, schema: string, nodes: readonly Node[]): Promise<Node | undefined> {
  const [row] = await server.query<{ name: string; url: string }>(
    `select n.name, n.url from ${schema}.log l join ${schema}.nodes n on n.id = l.owner`,
  );
  const named = nodes.filter(({ hub }) => row?.name.endsWith(`:${hub.pid}`));
  // Nodes of one process differ by their addresses alone.
  return named.find(({ url }) => url === row?.url) ?? named[0];
}

/** The role of a node, from its own measures; null when it says nothing. */
export async function roleOf({ url }: { url: string }): Promise<string | null> {
  try {
    const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${adminToken}` } });
    return /^ocpi_hub_node_role\{role="(\w+)"\} 1$/m.exec(await answer.text())?.[1] ?? null;
  } catch {
    return null;
  }
}
