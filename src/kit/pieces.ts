/**
 * Work on a large text that is done in pieces: a generator that yields behind each of them.
 *
 * PIECES-1  In one turn of the event loop pieces begin for `pieceMsMax` at most.
 */
import { systemClock } from './system-clock.ts';

/** Longer, and what a driver waits for meets it; shorter, and the turns of large texts, which are far apart, are too many. */
const pieceMsMax = 2;

/** Does the pieces in several turns; `turn` is called with the ms of those in this turn, and resolves when the next one may begin. [PIECES-1] */
export async function inTurns<T>(
  work: Generator<void, T>,
  turn: (tookMs: number) => Promise<void> | null,
  clock: Pick<typeof systemClock, 'monotonic'> = systemClock,
): Promise<T> {
  for (;;) {
    const begunAt = clock.monotonic();
    let tookMs: number;
    do {
      const piece = work.next();
      if (piece.done) return piece.value;
      tookMs = clock.monotonic() - begunAt;
    } while (tookMs < pieceMsMax);
    await turn(tookMs);
  }
}
