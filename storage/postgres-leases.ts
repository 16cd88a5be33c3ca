/**
 * Who owns which shard: nodes renew a lease each in the database, and shards go to the nodes that live.
 *
 * Q1  The token of a shard, not the lease, keeps a former owner from writing (W2). Leases say only who should try.
 * Q2  A shard counts as held until 0.8 of the lease after the start of the last renewal that ended well, by the monotonic clock: a
 *     node that stood still stops acting before another one begins.
 * Q3  Which node should own a shard is the same on all of them: the highest hash of node and shard among those that live.
 * Q4  A node judges others dead only after it has itself reached the database for a whole lease: when the database was away, all
 *     leases have run out, and the first to come back would take everything.
 * Q5  A shard that should go elsewhere is let go when all that waits to be written of it is written. The one that should have it
 *     takes it at its next beat.
 * Q6  The node that is to be the only one holds everything, and does not begin while another one renews its lease.
 * Q7  A shard that was given up is held again under a greater token alone: what was sent under the old one is written or refused by then.
 */
import { createHash } from 'node:crypto';
import type { Client } from 'pg';
import type { Clock } from '../src/kit/clock.ts';
import type { Fence, Seq, Shard } from './contract.ts';
import { StoreUnavailable } from './contract.ts';
import { ask } from './postgres-connect.ts';

const HELD_PART = 0.8;
/** Rows of nodes that are gone are removed after an hour. */
const FORGET = "interval '1 hour'";

export interface ClusterNode {
  readonly id: string;
  readonly name: string;
  /** How peers reach it; null when it said nothing. */
  readonly url: string | null;
  readonly alive: boolean;
  /** Of its lease, when it was looked at, ms. */
  readonly left: number;
  /** How many shards it should have. [Q3] */
  readonly share: number;
}

export interface LeaseOptions {
  readonly clock: Clock;
  /** Of this start of this process alone. */
  readonly id: string;
  readonly name: string;
  readonly url: string | null;
  readonly ttlMs: number;
  /** This node is the only one. [Q6] */
  readonly sole: boolean;
  /** A shard stays with the node that has it until that gives it away, whoever joins. */
  readonly sticky: boolean;
  /** Shards that are used. */
  readonly shards: number;
  /** A shard is ours from now on. */
  readonly gained: (fence: Fence) => void;
  /** It is another's, or will be. */
  readonly lost: (shard: Shard) => void;
  /** Resolves when all that waits to be written under a fence was written or refused. */
  readonly drained: (fence: Fence) => Promise<void>;
  /** Where the log of each shard ends and begins. */
  readonly seen: (shard: Shard, head: Seq, horizon: Seq) => void;
  /** Runs a change that must be durable before it is relied on. */
  readonly durably: <T>(work: (client: Client) => Promise<T>) => Promise<T>;
}

type NodeRow = Omit<ClusterNode, 'share'>;

interface ShardRow {
  readonly id: Shard;
  readonly token: number;
  readonly owner: string | null;
  readonly head: Seq;
  readonly horizon: Seq;
}

const RENEW = `insert into nodes (id, name, url, expires) values ($1, $2, $3, clock_timestamp() + $4 * interval '1 ms')
  on conflict (id) do update set expires = excluded.expires`;
const NODES = `select id, name, url, expires > now as alive, greatest(0, extract(epoch from expires - now) * 1000)::int as left
  from nodes, clock_timestamp() now`;
const SHARDS = 'select id, token, owner, head, horizon from shards where id < $1';
/** Of shards whose owner is still who it was seen to be, and is not alive. */
const CLAIM = `update shards s set token = s.token + 1, owner = $2, turn = 0
  from json_to_recordset($1) f(id int, owner text)
  where s.id = f.id and s.owner is not distinct from f.owner
    and not exists (select from nodes n where n.id = s.owner and n.expires > clock_timestamp())
  returning s.id, s.token, s.owner, s.head, s.horizon`;
const RELEASE = 'update shards set owner = null where owner = $1 and id = any($2)';

export class Leases {
  readonly #options: LeaseOptions;
  readonly #held = new Map<Shard, Fence>();
  #owners = new Map<Shard, string>();
  #nodes: readonly ClusterNode[] = [];
  #surplus: Shard[] = [];
  /** Start of the last renewal that ended well; monotonic, ms. [Q2] */
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** Since when renewals have gone well without a break. [Q4] */
  #steadySince: number | null = null;
  #changing: Promise<void> = Promise.resolve();
  #isChanging = false;
  #leaving = false;
  /** Tokens that were given up. [Q7] */
  readonly #given = new Map<Shard, number>();

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  held(shard: Shard): Fence | null {
    return this.isFresh() ? (this.#held.get(shard) ?? null) : null;
  }

  /** The fence of a shard that nobody is known to have taken from us, whether or not the lease still stands. */
  kept(shard: Shard): Fence | null {
    return this.#held.get(shard) ?? null;
  }

  /** Whether the lease still stands by our own clock. */
  isFresh(): boolean {
    return this.#options.clock.monotonic() < this.#renewedAt + HELD_PART * this.#options.ttlMs;
  }

  count(): number {
    return this.#held.size;
  }

  fences(): Fence[] {
    return this.isFresh() ? [...this.#held.values()] : [];
  }

  /** Shards that stay here although another node should have them. */
  surplus(): Shard[] {
    return this.#surplus.filter((shard) => this.#held.has(shard));
  }

  /** Lets shards go. Rejects when the database is away. [Q5] */
  async release(shards: readonly Shard[]): Promise<void> {
    await this.#changing;
    const fences = shards.flatMap((shard) => this.#held.get(shard) ?? []);
    this.#changing = this.#change([], fences);
    await this.#changing;
  }

  owner(shard: Shard): ClusterNode | null {
    const id = this.#owners.get(shard);
    return this.#nodes.find((node) => node.id === id && node.alive) ?? null;
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
  async other(client: Client): Promise<NodeRow | null> {
    const nodes = await ask<NodeRow>(client, 'nodes', NODES);
    return nodes.find(({ id, alive }) => alive && id !== this.#options.id) ?? null;
  }

  /** The connection was lost: leases of others cannot be judged for a while. [Q4] */
  interrupted(): void {
    this.#steadySince = null;
  }

  /** Lets a shard go at the next beat, and holds it again only under a new token. [Q7] */
  giveUp(shard: Shard): void {
    const fence = this.#held.get(shard);
    if (fence === undefined) return;
    this.#given.set(shard, fence.token);
    this.#lose(shard);
  }

  /** One beat: renews, looks, takes and lets go; a node that leaves looks alone. Taking and letting go go on when it has resolved. */
  async beat(client: Client): Promise<void> {
    const { id, name, url, ttlMs, shards, sole, sticky } = this.#options;
    const begun = this.#options.clock.monotonic();
    if (!this.#leaving) await ask(client, 'renew', RENEW, [id, name, url, ttlMs]);
    const nodes = await ask<NodeRow>(client, 'nodes', NODES);
    const rows = await ask<ShardRow>(client, 'shards', SHARDS, [shards]);
    const alive = nodes.filter((node) => node.alive && node.id !== id).map((node) => node.id);
    const live = this.#leaving ? alive : [id, ...alive];
    const rightful = new Map(rows.map((row) => [row.id, this.#rightfulOwner(row, live)]));
    this.#nodes = withShares(nodes, [...rightful.values()]);
    this.#owners = new Map(rows.flatMap(({ id: shard, owner }) => (owner === null ? [] : [[shard, owner]])));
    if (this.#leaving) return;
    const now = this.#options.clock.monotonic();
    // Whoever did not reach the database for a whole lease begins to judge anew. [Q4]
    if (now - this.#renewedAt >= ttlMs) this.interrupted();
    this.#steadySince ??= now;
    const isSteady = now - this.#steadySince >= ttlMs;
    const known = new Set(nodes.map((node) => node.id));
    const takes: ShardRow[] = [];
    const leaves: Fence[] = [];
    const surplus: Shard[] = [];
    for (const row of rows) {
      this.#options.seen(row.id, row.head, row.horizon);
      const fence = this.#held.get(row.id);
      if (fence !== undefined && (row.owner !== id || row.token !== fence.token)) this.#lose(row.id);
      // Taken, and the answer was lost: this start of this process is its owner.
      const isGiven = row.token <= (this.#given.get(row.id) ?? 0);
      if (row.owner === id && !this.#held.has(row.id) && !this.#isChanging) {
        if (isGiven) leaves.push({ shard: row.id, token: row.token, node: id });
        else this.#gain(row);
      }
      const wanted = sole || rightful.get(row.id) === id;
      const isFree = row.owner === null || !known.has(row.owner) || (isSteady && !alive.includes(row.owner));
      if (wanted && row.owner !== id && isFree) takes.push(row);
      const ours = this.#held.get(row.id);
      if (!wanted && ours !== undefined) {
        if (sticky) surplus.push(row.id);
        else leaves.push(ours);
      }
    }
    this.#surplus = surplus;
    this.#renewedAt = begun;
    if (!this.#isChanging && takes.length + leaves.length > 0) this.#changing = this.#change(takes, leaves);
  }

  /** Hands everything over. Rejects when the database is away: then the lease runs out. */
  async leave(): Promise<void> {
    if (this.#leaving) return;
    this.#leaving = true;
    await this.#changing;
    await this.#hand([...this.#held.values()]);
    await this.#options.durably(async (client) => {
      await client.query(`delete from nodes where id = $1 or expires < clock_timestamp() - ${FORGET}`, [
        this.#options.id,
      ]);
    });
  }

  /** Q3. Null when none lives. The only shard goes to nobody else while its owner lives, where shards stay. */
  #rightfulOwner({ id, owner }: ShardRow, live: readonly string[]): string | null {
    const { sticky, shards } = this.#options;
    if (sticky && shards === 1 && owner !== null && live.includes(owner)) return owner;
    return live.reduce<string | null>((best, node) => {
      const lead = best === null ? 1 : weight(node, id) - weight(best, id);
      return lead > 0 || (lead === 0 && node < (best ?? '')) ? node : best;
    }, null);
  }

  /** Never rejects: what could not be changed is tried at a later beat. */
  async #change(takes: readonly ShardRow[], leaves: readonly Fence[]): Promise<void> {
    this.#isChanging = true;
    try {
      if (takes.length > 0) await this.#take(takes);
      if (leaves.length > 0) await this.#hand(leaves);
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
    } finally {
      this.#isChanging = false;
    }
  }

  async #take(rows: readonly ShardRow[]): Promise<void> {
    const { id, durably } = this.#options;
    const wanted = JSON.stringify(rows.map((row) => ({ id: row.id, owner: row.owner })));
    const taken = await durably((client) => ask<ShardRow>(client, 'claim', CLAIM, [wanted, id]));
    for (const row of taken) this.#gain(row);
  }

  #gain({ id: shard, token, head, horizon }: ShardRow): void {
    const fence: Fence = { shard, token, node: this.#options.id };
    this.#options.seen(shard, head, horizon);
    this.#held.set(shard, fence);
    this.#owners.set(shard, fence.node);
    this.#options.gained(fence);
  }

  /** Q5. */
  async #hand(fences: readonly Fence[]): Promise<void> {
    for (const { shard } of fences) this.#lose(shard);
    await Promise.all(fences.map((fence) => this.#options.drained(fence)));
    const shards = fences.map(({ shard }) => shard);
    await this.#options.durably((client) => client.query(RELEASE, [this.#options.id, shards]));
  }

  #lose(shard: Shard): void {
    if (this.#held.delete(shard)) this.#options.lost(shard);
  }
}

function withShares(nodes: readonly NodeRow[], owners: readonly (string | null)[]): ClusterNode[] {
  const shares = new Map<string | null, number>();
  for (const id of owners) shares.set(id, (shares.get(id) ?? 0) + 1);
  return nodes.map((node) => ({ ...node, share: shares.get(node.id) ?? 0 }));
}

const weights = new Map<string, number>();
/** Nodes come and go: what is remembered of them is bounded. */
const WEIGHTS_MAX = 100_000;

function weight(node: string, shard: Shard): number {
  const key = `${node}/${shard}`;
  let found = weights.get(key);
  if (found === undefined) {
    if (weights.size > WEIGHTS_MAX) weights.clear();
    found = createHash('sha256').update(key).digest().readUIntBE(0, 6);
    weights.set(key, found);
  }
  return found;
}
