/**
 * `ocpi-hub demo --cluster`: runs two nodes on a temporary PostgreSQL server, one as owner and one as standby, walks
 * the session path through both, and kills the owner in the middle of it.
 *
 * DEMO-CLUSTER-1  The demo observes which node did what and infers nothing: the balancer reports the node that takes a
 *     request, and each node puts its name on the requests that it sends.
 * DEMO-CLUSTER-2  The owner is the node that sent the last request other than an authorization or a command, which any
 *     node sends.
 */
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline';
import type { ClusterView } from '../api/hub.ts';
import { ConfigError } from '../config/config.ts';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { startBalancer } from '../sandbox/balancer.ts';
import { ended, runs, startChild } from '../sandbox/child.ts';
import { freePort } from '../sandbox/free-port.ts';
import type { HubOf, Narrator } from '../sandbox/narrate.ts';
import { startTemporaryPostgres } from '../sandbox/postgres.ts';
import { openPath, type Step, sessionPath } from '../sandbox/session-path.ts';
import { type Entry, nodeHeader } from '../sandbox/transcript.ts';
import { HubClient } from './client.ts';
import type { CleanUps, DemoFlags, Stage } from './demo-stage.ts';

/**
 * How many steps before the end of the path the owner is killed: the session is then active and its meter not yet read.
 * Another number moves the kill to another step.
 */
const stepsAfter = 6;

export async function openCluster(flags: DemoFlags, narrator: Narrator, cleanUps: CleanUps): Promise<Stage> {
  if (flags.dataDir !== undefined || flags.port !== '0') {
    throw new ConfigError('--cluster takes neither --port nor --data-dir: the nodes and their data are temporary');
  }
  const database = await startTemporaryPostgres();
  cleanUps.unshift(() => database.close());
  const ports = [await freePort(), await freePort()];
  const adminToken = randomBytes(24).toString('hex');
  const nodes = new DemoNodes(ports, adminToken, narrator);
  const balancer = await startBalancer(ports, nodes.took);
  cleanUps.unshift(async () => balancer.close());
  cleanUps.unshift(() => nodes.close());
  await nodes.start(settingsOf(balancer.url, database.port, adminToken));
  const context = await openPath({
    hubUrl: balancer.url,
    adminToken,
    retryUntilAnswered: true,
    onAdminCall: (call) => narrator.operatorCall(call, nodes.hubOf(call.headers)),
  });
  cleanUps.unshift(() => context.close());
  // Registered before the narrator, so that `nodes` knows the owner when the narrator prints a line.
  for (const partner of [context.cpo, context.emsp]) partner.transcript.follow(nodes.sees);
  const kill: Step = { name: 'The owner is killed in the middle of the session', run: () => nodes.killOwner() };
  return {
    context,
    path: [...sessionPath.slice(0, -stepsAfter), kill, ...sessionPath.slice(-stepsAfter)],
    opening: [
      'ocpi-hub demo: two nodes on a temporary PostgreSQL server, asked by turns',
      ...nodes.lines().map((line) => `  ${line}`),
      '  * is the owner, which alone sends deliveries. Each answers pushes, reads,',
      '  authorizations and commands, and passes the rest on to the owner.',
    ],
    hubOf: nodes.hubOf,
    moral: ' The kill lost nothing.',
    restore: nodes.restore,
    consoles: nodes.consoles,
    toTry: () => [...nodes.lines(), ...nodes.toTry()],
  };
}

function settingsOf(publicUrl: string, databasePort: number, adminToken: string): Record<string, string> {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('HUB_'));
  return {
    ...Object.fromEntries(own.map(([name, value]) => [name, value ?? ''])),
    HUB_STORE: `postgres://hub@127.0.0.1:${databasePort}/postgres?single=1`,
    HUB_PUBLIC_URL: publicUrl,
    HUB_HOST: '127.0.0.1',
    HUB_LOG_LEVEL: 'silent',
    HUB_ADMIN_TOKEN: adminToken,
    HUB_CLUSTER_SECRET: randomBytes(24).toString('hex'),
    HUB_SECRET_KEY: randomBytes(32).toString('hex'),
  };
}

const patienceMs = 60_000;

interface Node {
  readonly name: string;
  readonly port: number;
  readonly url: string;
  child: ChildProcess | null;
}

/** A killed owner, and the kinds of request that have not succeeded since. */
interface Death {
  readonly node: Node;
  readonly at: number;
  readonly awaited: Set<'push' | 'delivery'>;
}

/** Starts, kills and restarts the nodes, and attributes each request to one of them. */
class DemoNodes {
  readonly #all: readonly Node[];
  readonly #adminToken: string;
  readonly #narrator: Narrator;
  /** The node that took each request, by request id. */
  readonly #takers = new Map<string, Node>();
  #env: Record<string, string> = {};
  #owner: Node | null = null;
  #death: Death | null = null;

  constructor(ports: readonly number[], adminToken: string, narrator: Narrator) {
    this.#all = ports.map((port, i) => ({
      name: `node ${String.fromCharCode(65 + i)}`,
      port,
      url: `http://127.0.0.1:${port}`,
      child: null,
    }));
    this.#adminToken = adminToken;
    this.#narrator = narrator;
  }

  /** Resolves when the first node is the owner and sees every other node alive. */
  async start(env: Record<string, string>): Promise<void> {
    this.#env = env;
    for (const node of this.#all) await this.#start(node);
    const [first] = this.#all;
    if (first === undefined) throw new Error('the demo cluster has no nodes');
    const end = systemClock.monotonic() + patienceMs;
    while (!(await this.#leadsAll(first))) {
      if (systemClock.monotonic() > end)
        throw new Error(`the nodes did not see each other within ${patienceMs / 1000} s`);
      await sleep(systemClock, 50);
    }
    this.#owner = first;
  }

  /** Starts every node whose process has ended, killed by the demo or by the user. */
  readonly restore = async (): Promise<void> => {
    for (const node of this.#all) {
      if (node.child !== null && runs(node.child)) continue;
      await this.#start(node);
      this.#narrator.line(`${this.#marked(node)} is started again, pid ${node.child?.pid}`);
    }
  };

  async close(): Promise<void> {
    await Promise.all(this.#all.map(({ child }) => child && ended(child, 'SIGTERM')));
  }

  async killOwner(): Promise<void> {
    const node = this.#owner;
    if (node?.child == null) throw new Error('no node is the owner');
    this.#narrator.line(this.#narrator.paint('red', `     SIGKILL to ${this.#marked(node)}, pid ${node.child.pid}`));
    this.#death = { node, at: performance.now(), awaited: new Set(['push', 'delivery']) };
    this.#owner = null;
    await ended(node.child, 'SIGKILL');
  }

  readonly took = (headers: Readonly<Record<string, string | string[] | undefined>>, port: number): void => {
    const node = this.#all.find((one) => one.port === port);
    const id = headers['x-request-id'];
    if (node && typeof id === 'string') this.#takers.set(id, node);
  };

  readonly hubOf: HubOf = (headers) => {
    const id = headers['x-request-id'] ?? '';
    const node = this.#sender(headers) ?? this.#takers.get(id);
    this.#takers.delete(id);
    return node ? this.#marked(node) : 'hub';
  };

  /** Learns the owner from deliveries and notes the pause after a kill. Runs before the narrator prints the entry. */
  readonly sees = (entry: Entry): void => {
    const isDelivery = entry.direction === 'received' && !/\/authorize|\/commands\//.test(entry.path);
    if (isDelivery) this.#owner = this.#sender(entry.headers) ?? this.#owner;
    const death = this.#death;
    if (death === null || entry.answer === null || entry.answer.status >= 300) return;
    const sinceMs = performance.now() - death.at;
    if (isDelivery && this.#owner !== death.node && death.awaited.delete('delivery')) {
      this.#note(`Deliveries go on, after a pause of ${(sinceMs / 1000).toFixed(1)} s from the kill:`);
    } else if (entry.direction === 'sent' && entry.method !== 'GET' && death.awaited.delete('push')) {
      this.#note(`The next push is acknowledged ${sinceMs.toFixed(0)} ms after the kill:`);
    }
  };

  readonly consoles = (): Record<string, string> =>
    Object.fromEntries(this.#all.map(({ name, url }) => [name.replace('node', 'console'), url]));

  /** One line per node. */
  lines(): string[] {
    return this.#all.map((node) => {
      const url = this.#narrator.paint('cyan', node.url);
      return `${this.#marked(node).padEnd(11)} ${url}  pid ${node.child?.pid}`;
    });
  }

  toTry(): string[] {
    const [owner, other] = [this.#owner, this.#all.find((node) => node !== this.#owner)];
    if (owner === null) return [];
    return [`to try      kill -9 ${owner.child?.pid}: ${other?.name} takes over, ${owner.name} is started again`];
  }

  #note(text: string): void {
    this.#narrator.line(this.#narrator.paint('cyan', `     ${text}`));
  }

  #marked(node: Node): string {
    return node === this.#owner ? `${node.name}*` : node.name;
  }

  #sender(headers: Readonly<Record<string, string>>): Node | undefined {
    return this.#all.find(({ name }) => name === headers[nodeHeader]);
  }

  /** Resolves when the node listens. */
  async #start(node: Node): Promise<void> {
    const words = ['--import', badgeOf(node.name), process.argv[1] ?? '', 'serve', '--port', `${node.port}`];
    const child = startChild(process.execPath, words, {
      // `--import` starts the thread pool before the command could set this variable.
      env: { UV_THREADPOOL_SIZE: '64', ...this.#env, HUB_NODE_URL: node.url },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    node.child = child;
    if (this.#owner === node) this.#owner = null;
    if (child.stdout === null) throw new Error('a node has no output');
    for await (const line of createInterface(child.stdout)) {
      if (!line.startsWith('ocpi-hub listening')) continue;
      child.stdout.resume();
      return;
    }
    throw new Error(`${node.name} ended before it listened`);
  }

  /**
   * Whether this node is the owner and sees every node alive; only then does it announce each new partner to all of
   * them.
   */
  async #leadsAll({ url }: Node): Promise<boolean> {
    const hub = new HubClient({ url, token: this.#adminToken }, {});
    const { role, nodes } = await hub.get<ClusterView>('/cluster');
    return role === 'owner' && nodes.filter(({ alive }) => alive).length === this.#all.length;
  }
}

/** The URL of a module that a node imports first: it puts the node's name on every request to a partner. */
function badgeOf(name: string): string {
  const code = `import { subscribe } from 'node:diagnostics_channel';
    subscribe('undici:request:create', ({ request }) => request.addHeader('${nodeHeader}', '${name}'));`;
  return `data:text/javascript,${encodeURIComponent(code)}`;
}
