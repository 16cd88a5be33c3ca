/**
 * Cuts answers whose reader has stalled, because the memory that they hold is not available to other requests.
 *
 * PACE-1  While an answer is being sent, its reader must take `leastBytes` within `looksMax` checks: 4 KiB/s. The limit
 *     counts checks, not time, so a pause of the hub's own process counts against no reader.
 * PACE-2  Requests in flight when their partner was suspended are cut at the second check; by then a partner that ended
 *     its own registration has its answer. Requests that a suspended partner begins later, to register again, go on.
 */
import type { ServerResponse } from 'node:http';
import type { PartyId } from '../domain/party.ts';
import { type Clock, every } from '../kit/clock.ts';

const lookEveryMs = 1000;
/**
 * Checks in which a reader must take `leastBytes`, else its answer is cut: 60 s. The system takes the next piece only when about a third of its
 * send buffer is free, up to 1.3 MiB, so a reader of 22 KiB/s or more is never cut. Fewer checks would raise that rate.
 */
const looksMax = 60;
/** Without it, a reader could keep an answer, and the memory that it holds, for days by taking a few bytes a minute. */
const leastBytes = looksMax * 4 * 1024;

interface UnderWay {
  /** Null once it is over. */
  response: ServerResponse | null;
  readonly partner: PartyId;
  /** When its partner had last been suspended at the begin of the request. */
  readonly suspendedAt: string | null;
  /** Bytes written to the connection when `waited` began; null before the answer is being sent. */
  from: number | null;
  /** Checks since then. */
  waited: number;
  /** Checks since the partner was suspended during the request. */
  suspended: number;
}

export interface Pace {
  watch(response: ServerResponse, partner: PartyId): void;
  /** Runs every second by itself. */
  look(): void;
  close(): void;
}

/** `suspendedAt` returns when a partner was last suspended, even if it has registered again since; null: never. */
export function paceKeeper(suspendedAt: (partner: PartyId) => string | null, clock: Clock): Pace {
  const underWay = new Set<UnderWay>();
  const look = () => {
    for (const one of underWay) if (isOver(one)) one.response?.destroy();
  };
  const stop = every(clock, lookEveryMs, look);

  function isOver(one: UnderWay): boolean {
    one.suspended = suspendedAt(one.partner) === one.suspendedAt ? 0 : one.suspended + 1;
    if (one.suspended > 1) return true;
    const written = one.response?.headersSent ? one.response.socket?.bytesWritten : undefined;
    if (written === undefined || one.from === null || written - one.from >= leastBytes) {
      one.from = written ?? null;
      one.waited = 0;
      return false;
    }
    one.waited += 1;
    return one.waited >= looksMax;
  }

  return {
    watch(response, partner) {
      const one: UnderWay = {
        response,
        partner,
        suspendedAt: suspendedAt(partner),
        from: null,
        waited: 0,
        suspended: 0,
      };
      underWay.add(one);
      response.once('close', () => {
        underWay.delete(one);
        // What was deleted from a set may be referred to by an earlier table of it, until the next full collection.
        one.response = null;
      });
    },
    look,
    close: stop,
  };
}
