/**
 * Hub nodes as their users have them: the built command, several processes on one PostgreSQL, and a load balancer in front that gives
 * each request to another node than the one before.
 */
import type { Test } from 'tap';
import { startBalancer } from '../../src/sandbox/balancer.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { type ChildHub, spawnChildHub } from '../support/child-hub.ts';
import { eventually } from '../support/plain-partner.ts';
import { type PostgresServer, postgresHere } from '../support/postgres.ts';

/** Why tests of several nodes cannot run here. */
export const skip = postgresHere === null ? 'no PostgreSQL server is installed here' : false;
const isAsked = process.env.HUB_CLUSTER_TESTS === 'all';
/** Of scenarios that take minutes together. */
export const unlessAsked = skip || (isAsked ? false : 'takes long: npm run test:cluster');

export const adminToken = 'cluster-admin-token';
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
  /** Resolves when one of them is the owner and ready; gives it. */
  owner(): Promise<Node>;
  standbys(): Promise<Node[]>;
}

interface NodesOptions {
  readonly count?: number;
  readonly env?: Record<string, string>;
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
  const { count = 2, env = {}, more = '', of = () => ({}) } = options;
  const ports = await Promise.all(Array.from({ length: count }, freePort));
  const { url, close } = await startBalancer(ports);
  t.teardown(close);
  const all: Node[] = [];
  for (const [i, port] of ports.entries()) {
    const own = { ...env, ...(await of(port, i)) };
    all.push(await startNode(t, port, settings(url, port, server.url(schema, more), own)));
  }
  const nodes: Nodes = {
    ...{ url, adminToken, all },
    async owner() {
      let found: Node | undefined;
      await eventually('one node is the owner', async () => {
        const roles = await Promise.all(all.map((node) => roleOf(node)));
        found = all[roles.indexOf('owner')];
        return found !== undefined;
      });
      return found as Node;
    },
    async standbys() {
      const owner = await nodes.owner();
      return all.filter((node) => node !== owner);
    },
  };
  return nodes;
}

function settings(publicUrl: string, port: number, store: string, env: Record<string, string>): Record<string, string> {
  return {
    ...{ HUB_STORE: store, HUB_NODE_URL: `http://127.0.0.1:${port}`, HUB_PUBLIC_URL: publicUrl },
    ...{
      HUB_CLUSTER_SECRET: clusterSecret,
      HUB_ADMIN_TOKEN: adminToken,
      HUB_SECRET_KEY: 'the key of all nodes'.replaceAll(' ', '-'),
    },
    ...{ HUB_RETRY_SCHEDULE_S: '0.2,0.5,1', ...env },
  };
}

async function startNode(t: Test, port: number, env: Record<string, string>): Promise<Node> {
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

/** The role of a node, from its own measures; null when it says nothing. */
export async function roleOf({ url }: { url: string }): Promise<string | null> {
  try {
    const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${adminToken}` } });
    return /^ocpi_hub_node_role\{role="(\w+)"\} 1$/m.exec(await answer.text())?.[1] ?? null;
  } catch {
    return null;
  }
}
