/**
 * Counts the dead letters of one partner by group: receiving party, module and outcome class.
 */
import type { DeliveryRow } from '../../../storage/contract.ts';
import { type DeadGroupName, nameOfGroup } from '../../domain/triage.ts';
import type { DeliveryMemory } from './delivery-row.ts';

/** The group of a dead letter. */
export function groupOf({ dest: receiver, data }: Pick<DeliveryRow, 'dest' | 'data'>): DeadGroupName {
  const { module, class: ended } = data as DeliveryMemory;
  return { receiver, module, class: ended ?? 'unknown' };
}

export class DeadCounts {
  readonly #groups = new Map<string, number>();
  #size = 0;

  /** Of all groups. */
  get size(): number {
    return this.#size;
  }

  of(group: DeadGroupName): number {
    return this.#groups.get(nameOfGroup(group)) ?? 0;
  }

  add(row: DeliveryRow): void {
    this.#size++;
    const name = nameOfGroup(groupOf(row));
    this.#groups.set(name, (this.#groups.get(name) ?? 0) + 1);
  }

  /** Whether it was the last of its group. */
  remove(row: DeliveryRow): boolean {
    this.#size--;
    const group = groupOf(row);
    const left = this.of(group) - 1;
    if (left > 0) this.#groups.set(nameOfGroup(group), left);
    else this.#groups.delete(nameOfGroup(group));
    return left <= 0;
  }
}
