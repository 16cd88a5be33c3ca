/**
 * Who has the log: nodes renew a lease each in the database, and the log goes to one that lives.
 *
 * LEASES-1  The token of the log, not the lease, keeps a former owner from writing (WRITE-PARAMETERS-2). Leases say only who should try.
 * LEASES-2  The log counts as held until 0.8 of the lease after the start of the last renewal that a standby has confirmed, by the monotonic
 *     clock: a node that was paused, or whose database server a failover left behind, stops acting before another one begins.
 * LEASES-3  A live owner keeps the lease when nodes join. A free lease goes to the node whose claim commits first.
 * LEASES-4  A node judges others dead only after it has itself reached the database for a whole lease: when the database was away, all
 *     leases have run out, and the first to come back would take the log.
 * LEASES-5  An owner that leaves hands the log over when all that waits to be written is written.
 * LEASES-6  A log that was given up is held again under a greater token alone: what was sent under the old one is written or refused by then.
 * LEASES-7  A node that others might not reach leaves a free log to them, as long as another one lives, for a lease.
 * LEASES-8  A node is dead when its row has not changed for a lease, by the monotonic clock of the node that judges: the database's clock may be
 *     moved, and decides that alone of rows that were not seen before. Longer, when the row was seen with more of its lease left.
 */
import type { Client } from 'pg';
import type { Clock } from '../../src/kit/clock.ts';
import type { Fence, Seq } from '../contract.ts';
import { StoreUnavailable } from '../contract.ts';
import { ask } from './connect.ts';

const HELD_PART = 0.8;
/** Rows of nodes that are gone are removed after an hour. */
const FORGET = "interval '1 hour'";

export interface ClusterNode {
  readonly id: string;
  readonly name: string;
  /** How peers reach it; null when it said nothing. */
  readonly url: string | null;
  readonly alive: boolean;
  /** It reads what others write. */
  readonly follows: boolean;
  /** Until it is dead when it does not renew, from when it was looked at, ms. */
  readonly left: number;
}

interface NodeRow extends ClusterNode {
  readonly expires: string;
}

export interface LeaseOptions {
  readonly clock: Clock;
  /** Of this start of this process alone. */
  readonly id: string;
  readonly name: string;
  readonly url: string | null;
  readonly ttlMs: number;
  /** The lease was acquired; head and horizon are those of the row that was claimed. */
  readonly gained: (fence: Fence, head: Seq, horizon: Seq) => void;
  /** It is another's, or will be. */
  readonly lost: () => void;
  /** Resolves when all that waits to be written under a fence was written or refused. */
  readonly drained: (fence: Fence) => Promise<void>;
  /** Whether other nodes might not reach this one. [LEASES-7] */
  readonly isDoubtful: () => boolean;
  /** Where the log ends and begins. */
  readonly seen: (head: Seq, horizon: Seq) => void;
  /** Runs a change that must be durable before it is relied on. */
  readonly durably: <T>(work: (client: Client) => Promise<T>) => Promise<T>;
}

interface LogRow {
  readonly token: number;
  readonly owner: string | null;
  readonly head: Seq;
  readonly horizon: Seq;
}

const RENEW = `insert into nodes (id, name, url, expires, follows)
  values ($1, $2, $3, clock_timestamp() + $4 * interval '1 ms', true)
  on conflict (id) do update set expires = excluded.expires`;
const NODES = `select id, name, url, follows, expires > now as alive, extract(epoch from expires)::text as expires, greatest(0, extract(epoch from expires - now) * 1000)::int as left
  from nodes, clock_timestamp() now`;
const LOG = 'select token, owner, head, horizon from log';
/** When its owner is still who it was seen to be, and has not renewed since. [LEASES-8] */
const CLAIM = `update log set token = token + 1, owner = $2, turn = 0
  where owner is not distinct from $1
    and not exists (select from nodes n where n.id = log.owner and extract(epoch from n.expires)::text is distinct from $3)
  returning token, owner, head, horizon`;
const RELEASE = 'update log set owner = null where owner = $1';

export class Leases {
  readonly #options: LeaseOptions;
  #held: Fence | null = null;
  #owner: string | null = null;
  #nodes: readonly ClusterNode[] = [];
  /** By node: its row as it last changed, and until when it counts. [LEASES-8] */
  #rows = new Map<string, { readonly expires: string; readonly until: number }>();
  /** Start of the last renewal that ended well; monotonic, ms. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** The same of the last one that is as durable as a commit. [LEASES-2] */
  #confirmedAt = Number.NEGATIVE_INFINITY;
  /** Since when renewals have gone well without a break. [LEASES-4] */
  #steadySince: number | null = null;
  /** Since when the log has been seen to be free. [LEASES-7] */
  #freeSince: number | null = null;
  #changing: Promise<void> = Promise.resolve();
  #isChanging = false;
  #leaving = false;
  /** The last token that was given up. [LEASES-6] */
  #given = 0;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  held(): Fence | null {
    return this.isFresh() ? this.#held : null;
  }

  /** The fence that nobody is known to have taken from us, whether or not the lease still stands. */
  kept(): Fence | null {
    return this.#held;
  }

  /** Whether the lease still stands by our own clock. */
  isFresh(): boolean {
    return this.#options.clock.monotonic() < this.#confirmedAt + HELD_PART * this.#options.ttlMs;
  }

  /** For `confirmed`, which is called when everything that was written until now is as durable as a commit. */
  lastRenewal(): number {
    return this.#renewedAt;
  }

  confirmed(renewal: number): void {
    this.#confirmedAt = Math.max(this.#confirmedAt, renewal);
  }

  owner(): ClusterNode | null {
    return this.#nodes.find(({ id, alive }) => id === this.#owner && alive) ?? null;
  }

  /** After how long the first of the others will be dead if it does not renew, from the last beat, ms. */
  firstEnd(): number {
    const others = this.#nodes.filter((node) => node.alive && node.id !== this.#options.id);
    return Math.min(...others.map(({ left }) => left));
  }

  nodes(): readonly ClusterNode[] {
    return this.#nodes;
  }

  /** Another node that renews its lease, as it stands in the database. */
  async other(client: Client): Promise<ClusterNode | null> {
    const nodes = await ask<ClusterNode>(client, 'nodes', NODES);
    return nodes.find(({ id, alive }) => alive && id !== this.#options.id) ?? null;
  }

  /** The connection was lost: leases of others cannot be judged for a while. [LEASES-4] */
  interrupted(): void {
    this.#steadySince = null;
  }

  /** Lets the log go at the next beat, and holds it again only under a new token. [LEASES-6] */
  giveUp(): void {
    if (this.#held === null) return;
    this.#given = this.#held.token;
    this.#lose();
  }

  /** One beat: renews, looks, takes and lets go; a node that leaves looks alone. Taking and letting go go on when it has resolved. */
  async beat(client: Client): Promise<void> {
    const { id, name, url, ttlMs, seen } = this.#options;
    const begun = this.#options.clock.monotonic();
    if (!this.#leaving) await ask(client, 'renew', RENEW, [id, name, url, ttlMs]);
    this.#judge(await ask<NodeRow>(client, 'nodes', NODES));
    const [log] = (await ask<LogRow>(client, 'log', LOG)) as [LogRow];
    this.#owner = log.owner;
    seen(log.head, log.horizon);
    if (this.#leaving) return;
    const now = this.#options.clock.monotonic();
    // Whoever did not reach the database for a whole lease begins to judge anew. [LEASES-4]
    if (now - this.#renewedAt >= ttlMs) this.interrupted();
    this.#steadySince ??= now;
    const isSteady = now - this.#steadySince >= ttlMs;
    this.#renewedAt = begun;
    const isOurs = log.owner === id;
    if (this.#held !== null && (!isOurs || log.token !== this.#held.token)) this.#lose();
    if (this.#isChanging) return;
    const owner = this.#nodes.find((node) => node.id === log.owner);
    const isFree = owner === undefined || (isSteady && !owner.alive);
    this.#freeSince = isFree ? (this.#freeSince ?? now) : null;
    if (!isOurs && isFree && !this.#yields(now)) this.#changing = this.#change(() => this.#take(log.owner));
    if (!isOurs || this.#held !== null) return;
    // Taken, and the answer was lost: this start of this process is its owner.
    if (log.token > this.#given) this.#gain(log);
    else this.#changing = this.#change(() => this.#hand({ token: log.token, node: id }));
  }

  /** LEASES-8. */
  #judge(nodes: readonly NodeRow[]): void {
    const { clock, ttlMs } = this.#options;
    const now = clock.monotonic();
    const known = this.#rows;
    this.#rows = new Map();
    this.#nodes = nodes.map(({ expires, ...node }) => {
      const before = known.get(node.id);
      const isNew = before?.expires !== expires;
      const until = isNew && (before || node.alive) ? now + Math.max(ttlMs, node.left) : (before?.until ?? now);
      this.#rows.set(node.id, { expires, until });
      return { ...node, alive: until > now, left: Math.max(0, until - now) };
    });
  }

  /** LEASES-7. */
  #yields(now: number): boolean {
    const { id, ttlMs, isDoubtful } = this.#options;
    const areOthers = this.#nodes.some((node) => node.alive && node.id !== id);
    return areOthers && now - (this.#freeSince ?? now) < ttlMs && isDoubtful();
  }

  /** Hands the log over. Rejects when the database is away: then the lease runs out. */
  async leave(): Promise<void> {
    if (this.#leaving) return;
    this.#leaving = true;
    await this.#changing;
    if (this.#held !== null) await this.#hand(this.#held);
    await this.#options.durably(async (client) => {
      await client.query(`delete from nodes where id = $1 or expires < clock_timestamp() - ${FORGET}`, [
        this.#options.id,
      ]);
    });
  }

  /** Never rejects: what could not be changed is tried at a later beat. */
  async #change(work: () => Promise<void>): Promise<void> {
    this.#isChanging = true;
    try {
      await work();
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
    } finally {
      this.#isChanging = false;
    }
  }

  async #take(from: string | null): Promise<void> {
    const { id, durably } = this.#options;
    const seen = from === null ? null : (this.#rows.get(from)?.expires ?? null);
    const [taken] = await durably((client) => ask<LogRow>(client, 'claim', CLAIM, [from, id, seen]));
    if (taken !== undefined) this.#gain(taken);
  }

  #gain({ token, head, horizon }: LogRow): void {
    const fence: Fence = { token, node: this.#options.id };
    this.#held = fence;
    this.#owner = fence.node;
    this.#options.gained(fence, head, horizon);
  }

  /** LEASES-5. */
  async #hand(fence: Fence): Promise<void> {
    this.#lose();
    await this.#options.drained(fence);
    await this.#options.durably((client) => client.query(RELEASE, [this.#options.id]));
  }

  #lose(): void {
    if (this.#held === null) return;
    this.#held = null;
    this.#options.lost();
  }
}
