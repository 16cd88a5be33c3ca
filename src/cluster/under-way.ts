/** Requests that are under way, by the shard that they are of. */
import type { Shard } from '../../storage/contract.ts';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';

export class UnderWay {
  readonly #counts = new Map<Shard, number>();
  #waiting: (() => void)[] = [];

  /** One begins; what it gives is to be called once, at its end. */
  begin(shard: Shard): () => void {
    this.#counts.set(shard, (this.#counts.get(shard) ?? 0) + 1);
    return () => {
      const left = (this.#counts.get(shard) ?? 1) - 1;
      if (left > 0) return void this.#counts.set(shard, left);
      this.#counts.delete(shard);
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const wake of waiting) wake();
    };
  }

  /** Resolves when none is of these shards (null: of any), or after a while. */
  async ended(shards: ReadonlySet<Shard> | null, limitMs: number): Promise<void> {
    const until = systemClock.monotonic() + limitMs;
    const isAny = () => [...this.#counts.keys()].some((shard) => shards?.has(shard) ?? true);
    while (isAny() && systemClock.monotonic() < until) {
      await sleep(systemClock, until - systemClock.monotonic(), (wake) => this.#waiting.push(wake));
    }
  }
}
