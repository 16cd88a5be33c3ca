/**
 * Counts the dead letters of one partner by group: receiving party, module and outcome class.
 *
 * DEAD-COUNTS-1  A dead letter counts once, however often it is added or removed: a trim and an operator may end the same one.
 */
import type { DeliveryRow, Seq } from '../../../storage/contract.ts';
import { type DeadGroupName, nameOfGroup } from '../../domain/triage.ts';
import type { DeliveryMemory } from './delivery-row.ts';

/** The group of a dead letter. */
export function groupOf({ dest: receiver, data }: Pick<DeliveryRow, 'dest' | 'data'>): DeadGroupName {
  const { module, class: ended } = data as DeliveryMemory;
  return { receiver, module, class: ended ?? 'unknown' };
}

export class DeadCounts {
  readonly #groups = new Map<string, Set<Seq>>();
  #size = 0;

  /** Of all groups. */
  get size(): number {
    return this.#size;
  }

  of(group: DeadGroupName): number {
    return this.#groups.get(nameOfGroup(group))?.size ?? 0;
  }

  add(row: DeliveryRow): void {
    const name = nameOfGroup(groupOf(row));
    const known = this.#groups.get(name) ?? new Set();
    if (known.has(row.seq)) return;
    this.#groups.set(name, known.add(row.seq));
    this.#size++;
  }

  /** Whether it was the last of its group. */
  remove(row: DeliveryRow): boolean {
    const name = nameOfGroup(groupOf(row));
    const known = this.#groups.get(name);
    if (!known?.delete(row.seq)) return false;
    this.#size--;
    if (known.size > 0) return false;
    this.#groups.delete(name);
    return true;
  }
}
