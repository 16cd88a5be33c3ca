/**
 * Keeps the names of erased persons out of what is written of deliveries that were in memory at the erasure.
 *
 * ERASURES-1  From the begin of an erasure on, no attempt, row or event of a delivery that was owed before its end names
 *     the person, and the request is read from the log again.
 * ERASURES-2  An erasure is forgotten when the next one begins after the log was trimmed up to its end: nothing before is owed.
 */
import type { Seq } from '../../../storage/contract.ts';
import type { Replacer } from '../../domain/person.ts';
import type { Item } from './delivery-row.ts';

export class Erasures {
  readonly #horizon: () => Seq;
  #all: { readonly replacer: Replacer; upTo: Seq }[] = [];
  /** The highest `upTo`: nearly every delivery came after it, and is compared with nothing else. */
  #upTo: Seq = 0;

  constructor(horizon: () => Seq) {
    this.#horizon = horizon;
  }

  /** Returns what ends the erasure; `upTo`: the last event that it rewrote. */
  begin(replacer: Replacer): (upTo: Seq) => void {
    const erasure = { replacer, upTo: Number.POSITIVE_INFINITY };
    this.#all = [...this.#all.filter(({ upTo }) => upTo > this.#horizon()), erasure];
    this.#upTo = erasure.upTo;
    return (upTo) => {
      erasure.upTo = upTo;
      this.#upTo = this.#all.reduce((highest, other) => Math.max(highest, other.upTo), 0);
    };
  }

  /** Whether the event may differ in the log from what was read of it before. */
  mayDiffer(seq: Seq): boolean {
    return seq <= this.#upTo;
  }

  text(seq: Seq, text: string): string {
    if (!this.mayDiffer(seq)) return text;
    return this.#all.reduce((left, { replacer, upTo }) => (seq <= upTo ? replacer.inName(left) : left), text);
  }

  item(item: Item): Item {
    const { seq, id, attempts } = item;
    if (!this.mayDiffer(seq)) return item;
    const excerpts = attempts.map((attempt) => ({ ...attempt, excerpt: this.text(seq, attempt.excerpt) }));
    return { ...item, id: this.text(seq, id), attempts: excerpts };
  }
}
