/**
 * Hub nodes as their users have them: the built command, several processes on one PostgreSQL, and a load balancer in front that gives
 * each request to another node than the one before.
 */
import { crc32 } from 'node:zlib';
import { loadConfig } from '../../src/config.ts';
import { startServing } from '../../src/main.ts';
import { startBalancer } from '../../src/sandbox/balancer.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { type ChildHub, spawnChildHub } from '../support/child-hub.ts';
import { eventually } from '../support/plain-partner.ts';
import { type PostgresServer, postgresHere } from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import type { Test } from '../support/tap.ts';

/** Why tests of several nodes cannot run here. */
export const skip = postgresHere === null ? 'no PostgreSQL server is installed here' : false;
/** A file whose scenarios are all left to the campaign. */
export const longer = skip ? { skip } : atLength;
/** Of the address of the database: parties are shared. */
export const shared = '&shards=256';
/** Of the address of the database: one node at a time has all parties. */
export const oneOwner = '&shards=1';
/** Seconds. Longer than any machine stands still: nothing moves unless a test moves it. */
export const leaseS = 60;
/** Where a node dies, and others have its shards when its lease has run out. */
export const shortLease = { HUB_LEASE_S: '3' };

export const adminToken = 'admin-token-of-the-cluster';
export const clusterSecret = 'a secret of the nodes alone, 123456'.replaceAll(' ', '-');

export interface Node {
  readonly port: number;
  readonly url: string;
  /** The process that runs there now, or the last one. */
  hub: ChildHub;
  start(): Promise<void>;
}

export interface Nodes {
  /** Of the load balancer: every request goes to the next node. */
  readonly url: string;
  readonly adminToken: string;
  readonly all: readonly Node[];
  /** The one that has the shard of NL-CPO, whether it answers or not. */
  home(): Promise<Node | undefined>;
  /** Resolves when one of them has the shard of NL-CPO and says that it is an owner; gives it. */
  owner(): Promise<Node>;
  /** The others. */
  standbys(): Promise<Node[]>;
  /** Greater of each shard at each change of its owner. */
  tokens(): Promise<number[]>;
}

interface NodesOptions {
  readonly count?: number;
  readonly env?: Record<string, string>;
  /** In this process, for tests that end no node: a quarter of the work. */
  readonly here?: true;
  /** Added to the query of the database's address. */
  readonly more?: string;
  /** Settings of one node, which listens on a port. */
  readonly of?: (port: number, index: number) => Record<string, string> | Promise<Record<string, string>>;
}

export async function startNodes(
  t: Test,
  server: PostgresServer,
  schema: string,
  options: NodesOptions = {},
): Promise<Nodes> {
  const { count = 2, env = {}, here, more = shared, of = () => ({}) } = options;
  const start = here ? startHere : spawnNode;
  const ports = await Promise.all(Array.from({ length: count }, freePort));
  const { url, close } = await startBalancer(ports);
  t.teardown(close);
  const all: Node[] = [];
  for (const [i, port] of ports.entries()) {
    const own = { ...env, ...(await of(port, i)) };
    all.push(await start(t, port, settingsOf(url, port, server.url(schema, more), own)));
  }
  await nudge(all);
  const home = crc32('NL-CPO') % Number(new URLSearchParams(more).get('shards'));
  const nodes: Nodes = {
    ...{ url, adminToken, all },
    home: () => nodeOf(server, schema, all, home),
    async owner() {
      let found: Node | undefined;
      await eventually('one node is the owner', async () => {
        found = await nodes.home();
        return found !== undefined && (await roleOf(found)) === 'owner';
      });
      return found as Node;
    },
    async tokens() {
      const rows = await server.query<{ token: string }>(`select token from ${schema}.shards order by id`);
      return rows.map(({ token }) => Number(token));
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

async function startHere(t: Test, port: number, env: Record<string, string>): Promise<Node> {
  const config = loadConfig({ env: { HUB_PORT: `${port}`, HUB_LOG_LEVEL: 'silent', ...env }, flags: {} });
  const { url, close } = await startServing(config);
  t.teardown(close);
  const never = () => {
    throw new Error('it runs in the process of the test');
  };
  const hub = { url, adminToken, pid: process.pid, log: () => '', kill: never, stop: never };
  return { port, url, hub, start: never };
}

async function spawnNode(t: Test, port: number, env: Record<string, string>): Promise<Node> {
  const start = async () => {
    const starting = spawnChildHub({ dataDir: '/nowhere', port, env });
    t.teardown(() => starting.kill());
    return starting.listening;
  };
  const node: Node = {
    ...{ port, url: `http://127.0.0.1:${port}`, hub: await start() },
    async start() {
      node.hub = await start();
    },
  };
  return node;
}

/** Has nodes look at the database, and renew their leases, at once: as a peer does that has let shards go. */
export async function nudge(nodes: readonly { readonly url: string }[]): Promise<void> {
  const headers = { 'x-ocpi-hub-hop': clusterSecret };
  const tell = ({ url }: { readonly url: string }) =>
    fetch(`${url}/cluster/v1/back/none/0`, { method: 'POST', headers });
  await Promise.allSettled(nodes.map(tell));
}

/** The node that has a shard, if one has. */
export async function nodeOf(
  server: PostgresServer,
  schema: string,
  nodes: readonly Node[],
  shard: number,
): Promise<Node | undefined> {
  const [row] = await server.query<{ name: string; url: string }>(
    `select n.name, n.url from ${schema}.shards s join ${schema}.nodes n on n.id = s.owner where s.id = $1`,
    [shard],
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
