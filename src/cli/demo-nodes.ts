/** The nodes of `ocpi-hub demo --cluster`: processes that are started, killed and started again, and which of them did what. */
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { ended, runs, startChild } from '../sandbox/child.ts';
import type { HubOf, Narrator } from '../sandbox/narrate.ts';
import { type Entry, nodeHeader } from '../sandbox/transcript.ts';
import type { Cluster } from './answers.ts';

const patienceMs = 60_000;

interface Node {
  readonly name: string;
  readonly port: number;
  readonly url: string;
  child: ChildProcess | null;
}

/** The death of an owner, and what has not followed it yet. */
interface Death {
  readonly node: Node;
  readonly at: number;
  readonly awaited: Set<'push' | 'delivery'>;
}

export class DemoNodes {
  readonly #all: readonly Node[];
  readonly #adminToken: string;
  readonly #narrator: Narrator;
  /** Which node takes a request, by its id. */
  readonly #takers = new Map<string, Node>();
  #env: Record<string, string> = {};
  #owner: Node | null = null;
  #death: Death | null = null;

  constructor(ports: readonly number[], adminToken: string, narrator: Narrator) {
    this.#all = ports.map((port, i) => ({
      ...{ name: `node ${String.fromCharCode(65 + i)}`, port, url: `http://127.0.0.1:${port}`, child: null },
    }));
    this.#adminToken = adminToken;
    this.#narrator = narrator;
  }

  /** Resolves when the first is the owner and knows the others. */
  async start(env: Record<string, string>): Promise<void> {
    this.#env = env;
    for (const node of this.#all) await this.#start(node);
    const [first] = this.#all;
    if (first === undefined) throw new Error('a cluster without nodes');
    const end = systemClock.monotonic() + patienceMs;
    while (!(await this.#leadsAll(first))) {
      if (systemClock.monotonic() > end) throw new Error('the nodes never knew each other');
      await sleep(systemClock, 50);
    }
    this.#owner = first;
  }

  /** Starts those again that have ended, whoever ended them. */
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

  /** What a partner said or heard, before it is told. */
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

  /** One for each node. */
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

  /** Resolves when it listens. */
  async #start(node: Node): Promise<void> {
    const words = ['--import', badgeOf(node.name), process.argv[1] ?? '', 'serve', '--port', `${node.port}`];
    const child = startChild(process.execPath, words, {
      // Where something is imported ahead the command comes too late to set it.
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

  /** An owner that knows a node tells it of every partner that comes. */
  async #leadsAll({ url }: Node): Promise<boolean> {
    const headers = { authorization: `Bearer ${this.#adminToken}` };
    const answer = await fetch(`${url}/admin/v1/cluster`, { headers });
    if (!answer.ok) throw new Error(`GET ${url}/admin/v1/cluster was answered HTTP ${answer.status}`);
    const { role, nodes } = (await answer.json()) as Cluster;
    return role === 'owner' && nodes.filter(({ alive }) => alive).length === this.#all.length;
  }
}

/** Code that a node runs first, as a URL: it puts the name of the node on each request to a partner. */
function badgeOf(name: string): string {
  const code = `import { subscribe } from 'node:diagnostics_channel';
    subscribe('undici:request:create', ({ request }) => request.addHeader('${nodeHeader}', '${name}'));`;
  return `data:text/javascript,${encodeURIComponent(code)}`;
}
