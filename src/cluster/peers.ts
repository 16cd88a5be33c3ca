/**
 * The hubs of other nodes, as a hub with a share of the shards asks them: over the same connections as requests that are passed on.
 *
 * E1  What is asked is sent once. While the node that has the shard is not known, it is waited for a while.
 */
import type { DeliveryRow, FollowQuery, Seq, Shard, StoredEvent } from '../../storage/contract.ts';
import type { Passing, Target } from './passing.ts';

/** More than the slowest call to a partner. */
const askedMs = 60_000;
const ownerMs = 5_000;
const lookMs = 50;
const tellMs = 1_000;

/** Paths of what nodes say to each other. */
export const peersPath = '/cluster/v1/';

export interface PeerParts {
  readonly store: {
    /** How many there are. */
    readonly shards: number;
    heads(): Promise<ReadonlyMap<Shard, Seq>>;
    follow(query: FollowQuery): Promise<readonly StoredEvent[]>;
    openRows(receivers: readonly string[]): Promise<readonly DeliveryRow[]>;
  };
  readonly passing: Passing | null;
  /** Where the owner of a shard is reached, when it is known and another node. */
  readonly ownerOf: (shard: Shard) => Target | null;
  readonly others: () => readonly Target[];
}

export function peersOf({ store, passing, ownerOf, others }: PeerParts, shards: ReadonlySet<Shard>) {
  async function owner(shard: Shard): Promise<Target> {
    const until = performance.now() + ownerMs;
    for (;;) {
      const found = ownerOf(shard);
      if (found !== null) return found;
      if (performance.now() > until) throw new Error(`nobody has shard ${shard}`);
      await new Promise((resolve) => setTimeout(resolve, lookMs));
    }
  }
  return {
    shards,
    heads: () => store.heads(),
    follow: (query: FollowQuery) => store.follow(query),
    openRows: (receivers: readonly string[]) => store.openRows(receivers),
    others(): readonly Shard[] {
      const found = new Map<string, Shard>();
      for (let shard = 0; shard < store.shards; shard += 1) {
        const id = ownerOf(shard)?.id;
        if (id !== undefined && !found.has(id)) found.set(id, shard);
      }
      return [...found.values()];
    },
    async ask(shard: Shard, verb: string, data: unknown): Promise<unknown> {
      if (passing === null) throw new Error('this node has no peers');
      const path = `${peersPath}ask/${shard}/${encodeURIComponent(verb)}`;
      const { status, text } = await passing.post(await owner(shard), path, JSON.stringify(data), askedMs);
      if (status !== 200) throw new Error(`the owner of shard ${shard} answered ${status}`);
      return JSON.parse(text);
    },
    async tell(): Promise<void> {
      await Promise.all(others().map((peer) => passing?.ask(peer, 'POST', `${peersPath}read`, tellMs)));
    },
  };
}
