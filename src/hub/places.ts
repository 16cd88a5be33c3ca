/**
 * How far the deliveries to the receivers of one shard have come in all of the shards: where a recovery begins to look.
 *
 * L1  Everything owed to any receiver of the shard up to a place has ended or has a row of its own.
 * L2  They stand as one remembered delivery for each shard, to a receiver that no party is named like, under that shard's fence.
 */
import type { DeliveryRow, Seq, Shard, Store } from '../../storage/contract.ts';
import { atOnce } from './at-once.ts';

const readAtOnce = 32;
/** Together in a few statements. */
const writtenAtOnce = 64;
/** Behind every horizon. */
const placeSeq: Seq = Number.MAX_SAFE_INTEGER;
const destOf = (home: Shard) => `#${home}`;

/** Of one home shard, by the shard of the events. */
type Reached = Readonly<Record<Shard, Seq>>;

/** As they were remembered last, by home. */
type Known = ReadonlyMap<Shard, Reached>;

export class Places {
  readonly #reached = new Map<Shard, Reached>();

  static async read(store: Store, homes: Iterable<Shard>): Promise<Places> {
    const places = new Places();
    await atOnce(homes, readAtOnce, async (home) => {
      const row = await store.delivery(destOf(home), home, placeSeq);
      places.#reached.set(home, (row?.data as Reached | undefined) ?? {});
    });
    return places;
  }

  of(home: Shard, shard: Shard): Seq {
    return this.#reached.get(home)?.[shard] ?? 0;
  }

  /** The lowest of all homes that were read. */
  lowest(shard: Shard): Seq {
    let lowest = Number.POSITIVE_INFINITY;
    for (const reached of this.#reached.values()) lowest = Math.min(lowest, reached[shard] ?? 0);
    return lowest;
  }

  /** Homes that come, with what was read of those that anybody lives in. */
  add(homes: Iterable<Shard>, read: Places): void {
    for (const home of homes) this.#reached.set(home, read.#reached.get(home) ?? {});
  }

  remove(homes: Iterable<Shard>): void {
    for (const home of homes) this.#reached.delete(home);
  }

  /** Those of these homes that are here. */
  known(homes: ReadonlySet<Shard>): Known {
    return new Map([...this.#reached].filter(([home]) => homes.has(home)));
  }

  /**
   * `reached`: floors of receivers, by home and shard; where a home has none in a shard nothing is owed up to `heads`. Only homes that are
   * still held, and were not away since they stood in `known`, are written.
   */
  async write(
    store: Store,
    known: Known,
    reached: ReadonlyMap<Shard, ReadonlyMap<Shard, Seq>>,
    heads: ReadonlyMap<Shard, Seq>,
  ): Promise<void> {
    await atOnce(known, writtenAtOnce, async ([home, before]) => {
      const fence = this.#reached.get(home) === before ? store.held(home) : null;
      const now: Record<Shard, Seq> = {};
      for (const [shard, head] of heads) {
        const seq = Math.max(before[shard] ?? 0, reached.get(home)?.get(shard) ?? head);
        if (seq > 0) now[shard] = seq;
      }
      if (!fence || isSame(before, now)) return;
      const row: DeliveryRow = { dest: destOf(home), shard: home, seq: placeSeq, state: 'DELIVERED', data: now };
      await store.settle(fence, [row], []);
      if (this.#reached.get(home) === before) this.#reached.set(home, now);
    });
  }
}

function isSame(a: Reached, b: Reached): boolean {
  const shards = Object.keys(b).map(Number);
  return shards.length === Object.keys(a).length && shards.every((shard) => a[shard] === b[shard]);
}
