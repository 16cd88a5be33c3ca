/**
 * Ends answers that nobody takes: what is held for them is kept from others.
 *
 * PACE-1  Of an answer that is being sent a piece must be taken within `looksMax` looks. While the process itself stands still nobody looks,
 *     so that its own delay counts against no reader.
 * PACE-2  What was under way for a partner when it was suspended ends at the second look: the answer to the one who ended the partnership
 *     is out by then. What a suspended partner begins, to register again, goes on.
 */
import type { ServerResponse } from 'node:http';
import type { PartyId } from '../domain/party.ts';
import { type Clock, every } from '../kit/clock.ts';

const lookEveryMs = 1000;
/**
 * The next piece is taken when the system has room for it again, which it says only once about a third of what it holds for a
 * connection is free: up to 1.3 MiB, so that a reader of 22 KiB/s and more is never cut.
 */
const looksMax = 60;

interface UnderWay {
  readonly response: ServerResponse;
  readonly partner: PartyId;
  /** When its partner was last suspended, as it was when the request began. */
  readonly suspendedAt: string | null;
  /** Bytes of the connection that had gone out at the last look, and looks since they became more. */
  written: number;
  waited: number;
  suspended: number;
}

export interface Pace {
  watch(response: ServerResponse, partner: PartyId): void;
  /** Comes by itself every second. */
  look(): void;
  close(): void;
}

/** `suspendedAt`: when a partner was last suspended, also when it has registered again since; null: never. */
export function paceKeeper(suspendedAt: (partner: PartyId) => string | null, clock: Clock): Pace {
  const underWay = new Set<UnderWay>();
  const look = () => {
    for (const one of underWay) if (isOver(one)) one.response.destroy();
  };
  const stop = every(clock, lookEveryMs, look);

  function isOver(one: UnderWay): boolean {
    one.suspended = suspendedAt(one.partner) === one.suspendedAt ? 0 : one.suspended + 1;
    if (one.suspended > 1) return true;
    // An answer that waits behind another on its connection has no socket yet.
    const written = one.response.headersSent ? one.response.socket?.bytesWritten : undefined;
    one.waited = written === undefined || written !== one.written ? 0 : one.waited + 1;
    one.written = written ?? 0;
    return one.waited >= looksMax;
  }

  return {
    watch(response, partner) {
      const one = { response, partner, suspendedAt: suspendedAt(partner), written: 0, waited: 0, suspended: 0 };
      underWay.add(one);
      response.once('close', () => underWay.delete(one));
    },
    look,
    close: stop,
  };
}
