/**
 * Detects stale requests after a process pause: a signal stopped the process, the machine was suspended, or a garbage
 * collection took long. A request that lay unread during a pause may be older than a later one that its caller has sent
 * meanwhile, on another connection or to another node.
 *
 * STALE-1  The process paused when it did not read the clock for `pauseMs`. It reads the clock every `lookEveryMs` and
 *     with each request.
 * STALE-2  A request that arrived before a pause, or within `afterMs` after it, is stale if its connection has ended.
 *     Node reads the end of a connection in a later turn of the event loop than the last bytes before it, so the check
 *     then takes `turns` turns; without a pause it takes none, but for STALE-4.
 * STALE-3  A request that is not decided within `decisionMs` of the arrival of its head is stale, too: a reverse proxy
 *     may keep the connection open after its caller has disconnected.
 * STALE-4  `isStale(checkAfterMs)` also checks the connection of a request whose head arrived longer ago: no pause of the process
 *     shows that a store hangs. It takes a client that has ended only its own side for one that has disconnected.
 */
import { type Clock, every } from './clock.ts';
import { nextTurn } from './system-clock.ts';

const lookEveryMs = 200;
/** Must exceed the turns of a merely busy event loop, else load would count as a pause. */
const pauseMs = 1000;
/** Must cover the time in which everything that arrived during a pause is read. */
const afterMs = 5000;
/** Twice the request timeout of the HTTP server. */
export const decisionMs = 30_000;
/** Turns of the event loop that it takes to read the end of a connection, plus one. */
const turns = 3;

/** Whether the caller no longer waits for its request. Call it immediately before the request is decided. [STALE-4] */
export type IsStale = (checkAfterMs?: number) => boolean | Promise<boolean>;

export interface ProcessPauses {
  /** Call when the head of a request has arrived on this connection. */
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
      /** Pauses up to this time need no check: none affects the request, or the connection was checked after them. */
      let safeTo = arrivedAt - pausedAt < afterMs ? Number.NEGATIVE_INFINITY : arrivedAt;
      const hasEnded = async () => {
        for (let turn = 0; turn < turns; turn++) await nextTurn();
        return connection.destroyed || connection.readableEnded;
      };
      return (checkAfterMs = Number.POSITIVE_INFINITY) => {
        const now = look();
        if (now - arrivedAt > decisionMs) return true;
        if (pausedAt <= safeTo && now - arrivedAt <= checkAfterMs) return false;
        safeTo = now;
        return hasEnded();
      };
    },
    close,
  };
}
