/**
 * Finds stale requests after a process pause: a signal stopped the process, its machine was suspended, a garbage collection took long.
 * A request that was unread meanwhile may be older than what its caller has sent since, on another connection or to another node.
 *
 * STALE-1  The process paused when it did not look at the time for `pauseMs`. It does every `lookEveryMs`, and with each request.
 * STALE-2  What arrived before a pause, or within `afterMs` behind its end, is stale when its connection has ended. The end of a connection is
 *     read in a later turn of the event loop than the last bytes before it, so the answer takes a few turns then, and none otherwise.
 * STALE-3  What is not decided within `decisionMs` since its head arrived is stale, too: a proxy in front may keep the connection of a caller
 *     that has gone.
 */
import { type Clock, every } from './clock.ts';
import { nextTurn } from './system-clock.ts';

const lookEveryMs = 250;
/** A process that is only busy comes back sooner. */
const pauseMs = 1000;
/** In which all is read that came during a pause. */
const afterMs = 5000;
/** Twice the time in which a request must have arrived. */
const decisionMs = 30_000;
/** As many as it takes to read the end of a connection, and one more. */
const turns = 3;

/** Whether nobody waits for a request any more; to be asked just before what it asks for is decided. */
export type IsStale = () => boolean | Promise<boolean>;

export interface ProcessPauses {
  /** The head of a request has arrived on this connection. */
  arrived(connection: { readonly destroyed: boolean; readonly readableEnded: boolean }): IsStale;
  close(): void;
}

export function processPauses(clock: Clock): ProcessPauses {
  let seenAt = clock.monotonic();
  /** The end of the last pause. */
  let pausedAt = Number.NEGATIVE_INFINITY;
  const look = () => {
    const now = clock.monotonic();
    if (now - seenAt > pauseMs) pausedAt = now;
    seenAt = now;
    return now;
  };
  const close = every(clock, lookEveryMs, () => void look());

  return {
    arrived(connection) {
      const arrivedAt = look();
      /** Up to when every pause is taken care of. */
      let safeTo = arrivedAt - pausedAt < afterMs ? Number.NEGATIVE_INFINITY : arrivedAt;
      const hasEnded = async () => {
        for (let turn = 0; turn < turns; turn++) await nextTurn();
        return connection.destroyed || connection.readableEnded;
      };
      return () => {
        const now = look();
        if (now - arrivedAt > decisionMs) return true;
        if (pausedAt <= safeTo) return false;
        safeTo = now;
        return hasEnded();
      };
    },
    close,
  };
}
