/**
 * Room for large answers, of each partner: it decides how large its answers are and how long they take, and may have hundreds of them under way.
 *
 * ANSWER-ROOM-1  Large answers of one partner reserve `bytesMax` at most, and one is in whatever it reserves. Further ones wait, first in, first out.
 * ANSWER-ROOM-2  An answer that is in can be read to its end, so none waits for another that waits. Nothing is kept of a partner without large answers.
 */

/** A large answer, as long as it has room or waits for it. */
export interface Place {
  /** Bytes that it reserves. */
  readonly bytes: number;
  readonly enter: () => void;
  isIn: boolean;
}

interface Share {
  bytes: number;
  readonly waiting: Set<Place>;
}

export class AnswerRoom {
  readonly #bytesMax: number;
  readonly #shares = new Map<string, Share>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Its place is in at once, or waits and `enter` is called when it is. */
  take(partner: string, bytes: number, enter: () => void): Place {
    const share = this.#shares.get(partner) ?? { bytes: 0, waiting: new Set() };
    this.#shares.set(partner, share);
    const place = { bytes, enter, isIn: false };
    if (share.waiting.size === 0 && this.#fits(share, place)) admit(share, place);
    else share.waiting.add(place);
    return place;
  }

  /** The answer has ended, in or not. */
  leave(partner: string, place: Place): void {
    const share = this.#shares.get(partner);
    if (share === undefined) return;
    if (place.isIn) share.bytes -= place.bytes;
    else share.waiting.delete(place);
    for (const next of share.waiting) {
      if (!this.#fits(share, next)) break;
      share.waiting.delete(next);
      admit(share, next);
      next.enter();
    }
    if (share.bytes === 0) this.#shares.delete(partner);
  }

  #fits(share: Share, { bytes }: Place): boolean {
    return share.bytes === 0 || share.bytes + bytes <= this.#bytesMax;
  }
}

function admit(share: Share, place: Place): void {
  place.isIn = true;
  share.bytes += place.bytes;
}
