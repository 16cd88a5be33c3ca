/**
 * Counts what memory holds of one module of a receiver, by sending partner: the room of each follows from it. [WINDOW-2]
 */

/** What memory holds of a sending partner. */
export interface Source {
  /** Deliveries in memory. */
  readonly size: number;
  /** Deliveries that its lanes have left in the log. */
  readonly skipped: number;
  /** Lanes that are ready or in flight; the others wait, for another attempt or another lane. */
  readonly moving: number;
}

export const none: Source = { size: 0, skipped: 0, moving: 0 };

export class Sources {
  /** Only those of which there is something. */
  readonly #sources = new Map<string, { -readonly [K in keyof Source]: number }>();
  #size = 0;
  #skipped = 0;

  get size(): number {
    return this.#size;
  }

  get skipped(): number {
    return this.#skipped;
  }

  of(partner: string): Source {
    return this.#sources.get(partner) ?? none;
  }

  count(partner: string, { size = 0, skipped = 0, moving = 0 }: Partial<Source>): void {
    let source = this.#sources.get(partner);
    if (!source) {
      source = { size: 0, skipped: 0, moving: 0 };
      this.#sources.set(partner, source);
    }
    source.size += size;
    source.skipped += skipped;
    source.moving += moving;
    this.#size += size;
    this.#skipped += skipped;
    if (source.size + source.skipped + source.moving === 0) this.#sources.delete(partner);
  }
}
