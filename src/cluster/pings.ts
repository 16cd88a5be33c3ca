/**
 * Tells the owner how far the log goes, when this node has written there.
 *
 * PINGS-1  One message at a time: what is written meanwhile goes with the next. What is lost there the owner sees at its next look at the database.
 */
import type { Seq } from '../../storage/contract.ts';

export class Pings {
  readonly #tell: (head: Seq) => Promise<void>;
  #head: Seq = 0;
  #told: Seq = 0;
  #telling = false;

  /** `tell` never rejects. */
  constructor(tell: (head: Seq) => Promise<void>) {
    this.#tell = tell;
  }

  written(head: Seq): void {
    this.#head = Math.max(this.#head, head);
    if (!this.#telling) void this.#run();
  }

  async #run(): Promise<void> {
    this.#telling = true;
    while (this.#told < this.#head) {
      this.#told = this.#head;
      await this.#tell(this.#told);
    }
    this.#telling = false;
  }
}
