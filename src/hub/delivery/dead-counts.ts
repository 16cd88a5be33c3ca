/**
 * Counts the dead letters of one partner by group: receiving party, module and outcome class.
 *
 * DEAD-COUNTS-1  A dead letter counts once, however often it is added or removed: a trim and an operator may end the same one.
 * DEAD-COUNTS-2  What operators see of all groups reads no row: a page of the console asks for it every ten seconds.
 */
import type { DeliveryRow, Seq } from '../../../storage/contract.ts';
import { type DeadGroupName, nameOfGroup } from '../../domain/triage.ts';
import type { DeliveryMemory } from './delivery-row.ts';

/** The group of a dead letter. */
export function groupOf({ dest: receiver, data }: Pick<DeliveryRow, 'dest' | 'data'>): DeadGroupName {
  const { module, class: ended } = data as DeliveryMemory;
  return { receiver, module, class: ended ?? 'unknown' };
}

export interface DeadGroupCount extends DeadGroupName {
  readonly count: number;
  /** The first of them in the log. */
  readonly first: Seq;
  /** The earliest and the latest begin of their retry windows, epoch ms. */
  readonly oldest: number;
  readonly newest: number;
}

interface Group {
  readonly name: DeadGroupName;
  /** By sequence, when the retry window began, epoch ms. */
  readonly since: Map<Seq, number>;
}

export class DeadCounts {
  readonly #groups = new Map<string, Group>();
  #size = 0;

  /** Of all groups. */
  get size(): number {
    return this.#size;
  }

  of(group: DeadGroupName): number {
    return this.#groups.get(nameOfGroup(group))?.since.size ?? 0;
  }

  *groups(): Iterable<DeadGroupCount> {
    for (const { name, since } of this.#groups.values()) {
      let [first, oldest, newest] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
      for (const [seq, at] of since) {
        first = Math.min(first, seq);
        oldest = Math.min(oldest, at);
        newest = Math.max(newest, at);
      }
      yield { ...name, count: since.size, first, oldest, newest };
    }
  }

  add(row: DeliveryRow): void {
    const name = groupOf(row);
    const id = nameOfGroup(name);
    const { since } = this.#groups.get(id) ?? { since: new Map<Seq, number>() };
    if (since.has(row.seq)) return;
    this.#groups.set(id, { name, since: since.set(row.seq, Date.parse((row.data as DeliveryMemory).since)) });
    this.#size++;
  }

  /** Whether it was the last of its group. */
  remove(row: DeliveryRow): boolean {
    const name = nameOfGroup(groupOf(row));
    const known = this.#groups.get(name)?.since;
    if (!known?.delete(row.seq)) return false;
    this.#size--;
    if (known.size > 0) return false;
    this.#groups.delete(name);
    return true;
  }
}
