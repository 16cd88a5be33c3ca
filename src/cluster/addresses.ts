/**
 * Checks that each node's `HUB_NODE_URL` leads to that node: every `everyMs` this node asks at addresses of live nodes, its
 * own included, which node answers there.
 *
 * ADDRESSES-1  This node's own address is right when the node that answers there has its id, or when another node asked
 *     there for that id within the last `heardMs`, or two turns of all nodes: some networks do not lead a machine back to itself.
 * ADDRESSES-2  A node whose own address failed the check, or whose secret no other node accepts, shows a warning. It
 *     leaves a free log to the others for one lease, because they could not pass requests on to it; when none takes it,
 *     this node does. (LEASES-7)
 * ADDRESSES-3  A failed check counts only when the one before had the same result: a node may be starting, or its
 *     machine busy.
 * ADDRESSES-4  A node that was found at its address twice in a row is asked in turn with the others of which that holds, one of
 *     them each time; any other node is asked each time. So n nodes ask each other n times per `everyMs`, not n².
 * ADDRESSES-5  A question names the key for which the asking node seals backups: each node may be the owner, which writes them. A node
 *     that heard of another key than its own within the time of ADDRESSES-1 shows a warning.
 */
import { type Clock, every } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { messageMs, peersPath, type Target } from './node-auth.ts';
import type { SharedStore } from './node-parts.ts';
import type { Passing } from './passing.ts';

const everyMs = 2000;
const heardMs = 10_000;

/** What answers at a node's address; `stranger`: a process that does not accept this node's secret. */
export type Reached = 'itself' | 'another' | 'stranger' | 'nobody';

export class Addresses {
  #passing: Passing | null = null;
  #store: SharedStore | null = null;
  /** Last two results by node id, the later one first. */
  readonly #found = new Map<string, readonly Reached[]>();
  /** A node has accepted this node's secret once. So when the last other node refuses it, that node's is wrong. */
  #isKnown = false;
  readonly #clock: Clock;
  /** Fingerprint of the key for which this node seals backups; empty: it does not seal them. */
  readonly #sealing: string;
  /** What another node named last that differs. [ADDRESSES-5] */
  #otherSealing: { readonly sealing: string; readonly at: number } | null = null;
  #turn = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  #stop = () => {};
  #isLooking = false;

  constructor(sealing = '', clock: Clock = systemClock) {
    this.#sealing = sealing;
    this.#clock = clock;
  }

  /** Call once this node listens. */
  start(store: SharedStore, passing: Passing): void {
    this.#store = store;
    this.#passing = passing;
    this.#stop = every(this.#clock, everyMs, () => void this.#look());
    void this.#look();
  }

  close(): void {
    this.#stop();
  }

  isThis(id: string): boolean {
    return id === this.#store?.id;
  }

  /** The same for a question of another node, which proves that it reaches this one. [ADDRESSES-1, ADDRESSES-5] */
  isAskedFor(id: string, sealing: string | null = null): boolean {
    const at = this.#clock.monotonic();
    if (this.isThis(id)) this.#askedAt = at;
    if (sealing !== null && sealing !== this.#sealing) this.#otherSealing = { sealing, at };
    return this.isThis(id);
  }

  /** Result of the last check of this node id; null before the first. */
  reached(id: string): Reached | null {
    return this.#found.get(id)?.[0] ?? null;
  }

  /** [ADDRESSES-2] */
  warnings(): string[] {
    return [this.#ofAddress(), this.#ofSecret()].flatMap((warning) => warning ?? []);
  }

  /** What does not keep other nodes from reaching this one. [ADDRESSES-5] */
  notices(): string[] {
    const { sealing = '', at = Number.NEGATIVE_INFINITY } = this.#otherSealing ?? {};
    if (!this.#isRecent(at)) return [];
    const [here, there] = [this.#sealing, sealing].map((key) => (key === '' ? 'not sealed' : `sealed for ${key}`));
    return [
      `HUB_BACKUP_PUBLIC_KEY differs between nodes: backups of this node are ${here}, those of another are ${there}`,
    ];
  }

  /** Asks a node whether it is at its address, and ready to answer requests that are passed on to it. */
  async isReady(target: Target, withinMs: number): Promise<{ readonly by: Reached; readonly isReady: boolean }> {
    const path = `${peersPath}ready/${encodeURIComponent(target.id)}`;
    const answered = (await this.#passing?.ask(target, 'GET', path, withinMs)) ?? null;
    return { by: byOf(answered), isReady: answered === 200 };
  }

  #ofAddress(): string | null {
    const { id = '' } = this.#store ?? {};
    if (this.#isRecent(this.#askedAt) || !this.#isSure(id)) return null;
    const reached = this.reached(id);
    if (reached === 'itself' || reached === null) return null;
    return `HUB_NODE_URL of this node does not lead to it: ${whoAnswers[reached]}`;
  }

  #ofSecret(): string | null {
    const store = this.#store;
    const others = store?.nodes().filter(({ id, alive, url }) => alive && url !== null && id !== store.id) ?? [];
    const areStrangers = !this.#isKnown && others.some(({ id }) => this.reached(id) === 'stranger' && this.#isSure(id));
    return areStrangers
      ? 'no other node takes the HUB_CLUSTER_SECRET of this one, or their clocks differ by more than five minutes'
      : null;
  }

  /** [ADDRESSES-1] */
  #isRecent(at: number): boolean {
    return this.#clock.monotonic() - at < Math.max(heardMs, 2 * everyMs * this.#live().length);
  }

  /** [ADDRESSES-3] */
  #isSure(id: string): boolean {
    const [last, before] = this.#found.get(id) ?? [];
    return last !== undefined && last === before;
  }

  async #look(): Promise<void> {
    const store = this.#store;
    if (store === null || this.#isLooking) return;
    this.#isLooking = true;
    const live = this.#live();
    const asked = this.#due(live);
    const found = await Promise.all(asked.map((target) => this.#lookAt(target)));
    for (const id of this.#found.keys()) if (!live.some((target) => target.id === id)) this.#found.delete(id);
    for (const [i, { id }] of asked.entries()) {
      this.#found.set(id, [found[i] as Reached, ...(this.#found.get(id) ?? [])].slice(0, 2));
    }
    this.#isKnown ||= asked.some(({ id }, i) => found[i] === 'itself' && !this.isThis(id));
    this.#isLooking = false;
  }

  #live(): Target[] {
    const nodes = this.#store?.nodes() ?? [];
    return nodes.flatMap(({ id, url, alive }) => (alive && url !== null ? [{ id, url }] : []));
  }

  /** [ADDRESSES-4] */
  #due(live: readonly Target[]): Target[] {
    const isFound = ({ id }: Target) => this.#isSure(id) && this.reached(id) === 'itself';
    const found = live.filter(isFound);
    const next = found[this.#turn++ % Math.max(1, found.length)];
    return live.filter((target) => target === next || !isFound(target));
  }

  async #lookAt(target: Target): Promise<Reached> {
    const id = encodeURIComponent(target.id);
    const path = `${peersPath}${this.isThis(target.id) ? `self/${id}` : `is/${id}/${encodeURIComponent(this.#sealing)}`}`;
    return byOf((await this.#passing?.ask(target, 'GET', path, messageMs)) ?? null);
  }
}

const whoAnswers = {
  another: 'another node answers there',
  stranger: 'what answers there is no node with its secret',
  nobody: 'nobody answers there',
} as const;

/** HTTP status of the answer of a node with another id, and of the node itself while it is not ready. */
export const [isAnother, notReadyYet] = [409, 202];

/** Any other status is the refusal of a process that does not accept the secret. */
function byOf(status: number | null): Reached {
  if (status === null) return 'nobody';
  return status === 200 || status === notReadyYet ? 'itself' : status === isAnother ? 'another' : 'stranger';
}
