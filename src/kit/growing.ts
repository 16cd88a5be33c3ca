/**
 * Bytes that arrive in pieces, copied into one buffer: a `Buffer` for each piece of a byte would hold a hundred times as much.
 */
const empty = Buffer.alloc(0);

export class Growing {
  readonly #expected: number;
  #buffer = empty;
  #length = 0;

  /** `expected`: bytes in all, as far as known. There is room for all of them once an eighth has come: less is copied, and thrown away. */
  constructor(expected = 0) {
    this.#expected = expected;
  }

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
      // Else twice as much each time, so that many pieces are not copied for each of them.
      const whole = 8 * length >= this.#expected ? this.#expected : 0;
      const larger = Buffer.allocUnsafe(Math.max(length, whole, 2 * this.#length));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    bytes.copy(this.#buffer, this.#length);
    this.#length = length;
  }
}
