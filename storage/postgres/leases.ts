/**
 * The leases of the nodes and the ownership of the log: each node renews its lease in the database, and one live node
 * holds the log. How long a node's way to the database takes decides between nodes that could.
 *
 * LEASES-1  The fencing token of the log, not the lease, keeps a former owner from writing (WRITE-PARAMETERS-2). Leases
 *     only decide which node should try.
 * LEASES-2  The log counts as held until 0.8 of the lease after the start of the last renewal that a standby has
 *     confirmed, by the monotonic clock: a node that was paused, or whose database server a failover left behind, stops
 *     acting before another one begins.
 * LEASES-3  A live owner keeps the lease when nodes join. A free lease goes to the node whose claim commits first.
 * LEASES-4  A node judges others dead only after it has itself reached the database for a whole lease: after an outage
 *     of the database all leases have expired, and the first node to come back would take the log.
 * LEASES-5  A leaving owner hands the log over once every pending write has ended.
 * LEASES-6  A node that gave the log up, or lost it, holds it again only under a greater token: by then every write that
 *     was sent under the old one is committed or refused. So it does where the database has lost the claim of the old one.
 * LEASES-7  A node that others may be unable to reach, or whose writes the server refuses, leaves a free log to them for
 *     a lease, while another node lives.
 * LEASES-8  A node is dead when its row has not changed for a lease, by the monotonic clock of the judging node. The
 *     database's clock may be moved, so it decides only about rows not seen before. A row that was seen with more of
 *     its lease left counts for that longer time, unless no lease is so long: then that clock was put back.
 * LEASES-9  Each node tells the others how long its way to the database takes. One whose way is slow beside another's
 *     leaves a free log to that one, as a node does that others may be unable to reach (LEASES-7). Only a
 *     node that could take the log well tells it.
 * LEASES-10  A way is as long as the shortest of the last `counted` beats: a busy machine makes some of them long, a slow
 *     link all.
 * LEASES-11  It is slow when it takes more than `slowMs`, and `slowTimes` that of another live node: never of two nodes
 *     at once.
 */
import type { Client } from 'pg';
import { type Clock, sleep } from '../../src/kit/clock.ts';
import { type Fence, type Seq, StoreUnavailable } from '../contract.ts';
import { ask } from './connect.ts';
import { LOG } from './write-sql.ts';

const HELD_PART = 0.8;
/** Interval of looks for other nodes at the start, ms. */
const LOOK_MS = 100;
/** The longest lease that can be set (`HUB_LEASE_S`). */
const LEASE_MAX = "interval '300 seconds'";
/** How long after its lease expired a node's row is kept; a leaving node deletes older ones. */
const FORGET = "interval '1 hour'";

export interface ClusterNode {
  readonly id: string;
  readonly name: string;
  /** URL at which peers reach the node; null when it has none. */
  readonly url: string | null;
  readonly alive: boolean;
  /** The node reads the writes of other nodes; one of an earlier version does not. */
  readonly follows: boolean;
  /** How long its way to the database takes, ms; null while unknown. [LEASES-9] */
  readonly tripMs: number | null;
  /** Time from the last beat until the node is dead unless it renews, ms. */
  readonly left: number;
}

interface NodeRow extends ClusterNode {
  readonly expires: string;
  /** Its lease ends later than any may: a clock was put back. */
  readonly isAhead: boolean;
}

export interface LeaseOptions {
  readonly clock: Clock;
  /** Unique to this start of this process. */
  readonly id: string;
  readonly name: string;
  readonly url: string | null;
  readonly ttlMs: number;
  /** This node now holds the log; head and horizon are those of the claimed row. */
  readonly gained: (fence: Fence, head: Seq, horizon: Seq) => void;
  /** This node holds the log no longer; another node owns it, or may claim it. */
  readonly lost: () => void;
  /** Resolves when every pending write is committed or refused. */
  readonly drained: () => Promise<void>;
  /** Whether other nodes may be unable to reach this one. [LEASES-7] */
  readonly isDoubtful: () => boolean;
  /** Called at each beat with the present head and horizon of the log. */
  readonly seen: (head: Seq, horizon: Seq) => void;
  /** Runs a change and resolves once it is durable. */
  readonly durably: <T>(work: (client: Client) => Promise<T>) => Promise<T>;
}

interface LogRow {
  readonly token: number;
  readonly owner: string | null;
  readonly head: Seq;
  readonly horizon: Seq;
}

const RENEW = `insert into nodes (id, name, url, expires, follows, trip_ms)
  values ($1, $2, $3, clock_timestamp() + $4 * interval '1 ms', true, $5)
  on conflict (id) do update set expires = excluded.expires, trip_ms = excluded.trip_ms`;
const NODES = `select id, name, url, follows, trip_ms as "tripMs", alive, "isAhead", extract(epoch from expires)::text as expires,
    case when alive then (extract(epoch from expires - now) * 1000)::int else 0 end as left
  from nodes, clock_timestamp() now, lateral (select expires > now and expires <= now + ${LEASE_MAX} as alive,
    expires > now + ${LEASE_MAX} as "isAhead") a`;
const READ = `select token, owner, head, horizon from ${LOG} l`;
/** Claims the log only while its owner is the one last read ($1) and has not renewed since ($3). [LEASES-6, LEASES-8] */
const CLAIM = `update log set token = greatest(token, $4) + 1, owner = $2, turn = 0
  where owner is not distinct from $1
    and not exists (select from nodes n where n.id = log.owner and extract(epoch from n.expires)::text is distinct from $3)
  returning token, owner, head, horizon`;
/** Of this claim alone: a statement that the network delivers late must not release a later one. */
const RELEASE = 'update log set owner = null where owner = $1 and token = $2';

export class Leases {
  readonly #options: LeaseOptions;
  #held: Fence | null = null;
  #owner: string | null = null;
  #nodes: readonly ClusterNode[] = [];
  /** By node id: the `expires` last read, and until when the node counts as alive; monotonic, ms. [LEASES-8] */
  #rows = new Map<string, { readonly expires: string; readonly until: number }>();
  /** Start of the last successful renewal; monotonic, ms. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** Start of the last renewal that a standby has confirmed; monotonic, ms. [LEASES-2] */
  #confirmedAt = Number.NEGATIVE_INFINITY;
  /** Start of the present unbroken series of successful renewals; monotonic, ms. [LEASES-4] */
  #steadySince: number | null = null;
  /** Since when this node has seen the log free; monotonic, ms. [LEASES-7] */
  #freeSince: number | null = null;
  #changing: Promise<void> = Promise.resolve();
  #isChanging = false;
  #leaving = false;
  readonly #trips = new Trips();
  #isOffered = false;
  /** The last fencing token that this node gave up or lost. [LEASES-6] */
  #given = 0;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  held(): Fence | null {
    return this.isFresh() ? this.#held : null;
  }

  /** The fence that this node has neither lost nor given up, even when its lease has expired. */
  kept(): Fence | null {
    return this.#held;
  }

  /** Whether this node's lease is still valid by its own clock. [LEASES-2] */
  isFresh(): boolean {
    return this.#options.clock.monotonic() < this.#confirmedAt + HELD_PART * this.#options.ttlMs;
  }

  mustBeFresh(): void {
    if (!this.isFresh()) throw new StoreUnavailable('the lease of this node has run out and is being renewed');
  }

  /** Read this before a confirming commit, and pass it to `confirmed` once that commit is durable. */
  lastRenewal(): number {
    return this.#renewedAt;
  }

  confirmed(renewal: number): void {
    this.#confirmedAt = Math.max(this.#confirmedAt, renewal);
  }

  owner(): ClusterNode | null {
    return this.#nodes.find(({ id, alive }) => id === this.#owner && alive) ?? null;
  }

  /** Time from the last beat until the first other node is dead unless it renews, ms; Infinity without others. */
  firstEnd(): number {
    const others = this.#nodes.filter((node) => node.alive && node.id !== this.#options.id);
    return Math.min(...others.map(({ left }) => left));
  }

  nodes(): readonly ClusterNode[] {
    return this.#nodes;
  }

  /** Whether this node could serve if it had the log. [LEASES-9] */
  offer(isAble: boolean): void {
    this.#isOffered = isAble;
  }

  /** How slow this node's way to the database is beside another's; null when it is not. [LEASES-9] */
  slowness(): Slowness | null {
    const others = this.#nodes.filter(({ id, alive, follows }) => alive && follows && id !== this.#options.id);
    return this.#trips.slowness(others.map(({ tripMs }) => tripMs));
  }

  /** Resolves when no other node is alive by the database's clock, for which it waits as long as a killed node can appear alive. */
  async beAlone(database: string): Promise<void> {
    const { clock, ttlMs, id, durably } = this.#options;
    for (const mayWait = patience(clock, ttlMs); ; await sleep(clock, LOOK_MS)) {
      const nodes = await durably((client) => ask<ClusterNode>(client, 'nodes', NODES));
      const other = nodes.find((node) => node.alive && node.id !== id);
      if (other === undefined) return;
      const where = other.url === null ? other.name : `${other.name} at ${other.url}`;
      if (!mayWait()) throw new StoreUnavailable(`${database} is in use by another hub: ${where}`);
    }
  }

  /** Call when the connection was lost: this node then judges no other node dead for a lease. [LEASES-4] */
  interrupted(): void {
    this.#steadySince = null;
  }

  /** Stops holding the log; the next beat releases it, and only a greater token can be held again. [LEASES-6] */
  giveUp(): void {
    this.#lose();
  }

  /**
   * One beat: renews the lease, reads nodes and log, and starts to claim or release the log, which may go on after this
   * resolves. A leaving node only reads.
   */
  async beat(client: Client): Promise<void> {
    const { id, name, url, ttlMs, seen } = this.#options;
    const begun = this.#options.clock.monotonic();
    if (!this.#leaving) {
      const isAble = this.#isOffered && !this.#options.isDoubtful();
      await ask(client, 'renew', RENEW, [id, name, url, ttlMs, isAble ? this.#trips.ms() : null]);
      this.#trips.add(this.#options.clock.monotonic() - begun);
    }
    this.#judge(await ask<NodeRow>(client, 'nodes', NODES));
    const [log] = (await ask<LogRow>(client, 'log', READ)) as [LogRow];
    this.#owner = log.owner;
    seen(log.head, log.horizon);
    if (this.#leaving) return;
    const now = this.#options.clock.monotonic();
    // Without a renewal for a whole lease the series of successful renewals starts again. [LEASES-4]
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
    // The log names this start of this process, but none is held: the answer to its claim was lost, or it gave up.
    if (log.token > this.#given) this.#gain(log);
    else this.#changing = this.#change(() => this.#hand(log.token));
  }

  /** LEASES-8. */
  #judge(nodes: readonly NodeRow[]): void {
    const { clock, ttlMs } = this.#options;
    const now = clock.monotonic();
    const known = this.#rows;
    this.#rows = new Map();
    this.#nodes = nodes.map(({ expires, isAhead, ...node }) => {
      const before = known.get(node.id);
      const isNew = before?.expires !== expires;
      const until =
        isNew && (before || node.alive || isAhead) ? now + Math.max(ttlMs, node.left) : (before?.until ?? now);
      this.#rows.set(node.id, { expires, until });
      return { ...node, alive: until > now, left: Math.max(0, until - now) };
    });
  }

  /** LEASES-7, LEASES-9. */
  #yields(now: number): boolean {
    const { id, ttlMs, isDoubtful } = this.#options;
    const areOthers = this.#nodes.some((node) => node.alive && node.id !== id);
    return areOthers && now - (this.#freeSince ?? now) < ttlMs && (isDoubtful() || this.slowness() !== null);
  }

  /** Releases the log and deletes this node's row. Rejects when the database is unreachable: the lease then expires. */
  async leave(): Promise<void> {
    if (this.#leaving) return;
    this.#leaving = true;
    await this.#changing;
    if (this.#held !== null) await this.#hand(this.#held.token);
    await this.#options.durably(async (client) => {
      await client.query(`delete from nodes where id = $1 or expires < clock_timestamp() - ${FORGET}`, [
        this.#options.id,
      ]);
    });
  }

  /** Rejects only on a bug: while the store is unavailable the change fails silently, and a later beat retries it. */
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
    const [taken] = await durably((client) => ask<LogRow>(client, 'claim', CLAIM, [from, id, seen, this.#given]));
    if (taken !== undefined) this.#gain(taken);
  }

  #gain({ token, head, horizon }: LogRow): void {
    const fence: Fence = { token, node: this.#options.id };
    this.#held = fence;
    this.#owner = fence.node;
    this.#options.gained(fence, head, horizon);
  }

  /** LEASES-5. */
  async #hand(token: number): Promise<void> {
    this.#lose();
    await this.#options.drained();
    await this.#options.durably((client) => client.query(RELEASE, [this.#options.id, token]));
  }

  #lose(): void {
    if (this.#held === null) return;
    this.#given = this.#held.token;
    this.#held = null;
    this.#options.lost();
  }
}

/** How long opening waits for a killed node to lose its lease, in leases. */
const LEASES_WAITED = 3;

/**
 * Whether to wait on for the lease of another node, asked whenever it was found alive: for `LEASES_WAITED` leases from the first
 * question. Of the time between two questions a third of a lease counts at most: a process that stood still looks on before it gives up.
 */
export function patience(clock: Clock, ttlMs: number): () => boolean {
  let leftMs = LEASES_WAITED * ttlMs;
  let askedAt: number | null = null;
  return () => {
    const now = clock.monotonic();
    leftMs -= Math.min(now - (askedAt ?? now), ttlMs / 3);
    askedAt = now;
    return leftMs >= 0;
  };
}

// How long a node's way to the database takes, beside that of other nodes.

const counted = 10;
const [slowMs, slowTimes] = [50, 4];

/** Round trips to the database, ms. */
export interface Slowness {
  readonly ms: number;
  /** The shortest of the other live nodes. */
  readonly otherMs: number;
}

class Trips {
  readonly #last: number[] = [];

  add(ms: number): void {
    this.#last.push(ms);
    if (this.#last.length > counted) this.#last.shift();
  }

  /** Whole ms; null until there were enough beats. [LEASES-10] */
  ms(): number | null {
    return this.#last.length < counted ? null : Math.ceil(Math.min(...this.#last));
  }

  /** Null unless this node's way is slow. [LEASES-11] */
  slowness(others: readonly (number | null)[]): Slowness | null {
    const ms = this.ms();
    const otherMs = Math.min(...others.map((each) => each ?? Number.POSITIVE_INFINITY));
    return ms !== null && ms > slowMs && ms > slowTimes * otherMs ? { ms, otherMs } : null;
  }
}
