/**
 * Bytes that arrive in pieces, copied into one buffer: a `Buffer` for each piece of a byte would hold a hundred times as much.
 */
const empty = Buffer.alloc(0);

export class Growing {
  #buffer = empty;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Valid until the next `add`. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  add(bytes: Buffer): void {
    const length = this.#length + bytes.length;
    if (length > this.#buffer.length) {
      // Twice as much each time, so that many pieces are not copied for each of them.
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#length));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    bytes.copy(this.#buffer, this.#length);
    this.#length = length;
  }
}
