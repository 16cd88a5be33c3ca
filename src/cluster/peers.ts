/**
 * The hubs of other nodes, as a hub with a share of the shards asks them: over the connections on which requests are passed on singly.
 *
 * E1  What is asked is done once: it is sent again only when a node refused it, which had not begun then. While the node that has the shard
 *     is not known, it is waited for a while, or until the shard is here.
 */
import type { DeliveryRow, FollowQuery, Shard, StoredEvent } from '../../storage/contract.ts';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { peersPath, type Target } from './hop.ts';
import type { Passing } from './passing.ts';

/** More than the slowest call to a partner. */
const askedMs = 60_000;
const ownerMs = 5_000;
const lookMs = 50;
const tellMs = 1_000;

export interface PeerParts {
  readonly store: {
    /** How many there are. */
    readonly shards: number;
    follow(query: FollowQuery): Promise<readonly StoredEvent[]>;
    openRows(receivers: readonly string[]): Promise<readonly DeliveryRow[]>;
  };
  readonly passing: Passing | null;
  /** Where the owner of a shard is reached, when it is known and another node. */
  readonly ownerOf: (shard: Shard) => Target | null;
  /** Resolves when all other nodes that live have answered, or do not. */
  readonly tell: (what: string, withinMs: number) => Promise<void>;
}

export function peersOf({ store, passing, ownerOf, tell }: PeerParts) {
  async function owner(shard: Shard, until: number, isHere: () => boolean): Promise<Target | null> {
    for (;;) {
      if (isHere()) return null;
      const found = ownerOf(shard);
      if (found !== null) return found;
      if (systemClock.monotonic() > until) throw new Error(`nobody has shard ${shard}`);
      await sleep(systemClock, lookMs);
    }
  }
  return {
    shards: store.shards,
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
    async ask(shard: Shard, verb: string, data: unknown, isHere: () => boolean): Promise<unknown> {
      if (passing === null) throw new Error('this node has no peers');
      const path = `${peersPath}ask/${shard}/${encodeURIComponent(verb)}`;
      for (const until = systemClock.monotonic() + ownerMs; ; ) {
        const target = await owner(shard, until, isHere);
        if (target === null) return null;
        const { status, text } = await passing.post(target, path, JSON.stringify(data), askedMs);
        if (status === 200) return JSON.parse(text);
        if (status !== 503 || systemClock.monotonic() > until)
          throw new Error(`the owner of shard ${shard} answered ${status}`);
        await sleep(systemClock, lookMs);
      }
    },
    async tell(): Promise<void> {
      await tell('read', tellMs);
    },
  };
}
