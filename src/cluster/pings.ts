/**
 * Sends the head of the log to the owner after this node's door has written, so that the owner delivers without waiting
 * for its next poll.
 *
 * PINGS-1  One message is in flight at a time; writes made meanwhile share the next one. A lost message only delays:
 *     the owner finds those writes at its next poll of the database.
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
