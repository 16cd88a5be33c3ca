/**
 * Turns of requests to the portal, whose answers are read from the log and from rows of 64 KiB: a few hundred at once, from
 * one partner, would take the thread and the memory that all partners share.
 *
 * PORTAL-TURNS-1  A partner has one request in progress, from the begin of its work until its answer has been taken; a reader
 *     that does not take it is cut. [PACE-1] Of all portals `readsMax` work at a time, partners taking turns.
 * PORTAL-TURNS-2  `waitingMax` further requests of the partner wait; any other one is refused with `rateLimited`. One whose
 *     caller has left begins no work.
 * PORTAL-TURNS-3  After work of w ms the partner's next one begins 3 w ms later, at most `pauseMaxMs`: a partner that asks
 *     without a pause has a quarter of the thread at most.
 */
import type { ServerResponse } from 'node:http';
import { HubError } from '../domain/errors.ts';
import type { PartyId } from '../domain/party.ts';
import { background, type Clock } from '../kit/clock.ts';
import { turnstile } from '../kit/turns.ts';
import type { Pace } from './pace.ts';

/** Of which one partner gets one. */
const readsMax = 2;
/** The page asks for five things at once, and may be open in several tabs. */
const waitingMax = 20;
const pauseMaxMs = 10_000;

/** Does the work of a request in its turn; rejects as the work does, or with `rateLimited`. */
type InTurn = <T>(partner: PartyId, response: ServerResponse, work: () => Promise<T>) => Promise<T>;

export function portalTurns(clock: Clock, pace: Pick<Pace, 'watch'>): InTurn {
  const readTurn = turnstile(readsMax);
  /** Of partners with a request in progress: what begins each that waits. */
  const waitingOf = new Map<PartyId, (() => void)[]>();

  /** False: the caller has left. */
  async function entered(partner: PartyId, response: ServerResponse): Promise<boolean> {
    const waiting = waitingOf.get(partner);
    if (!waiting) {
      waitingOf.set(partner, []);
      return true;
    }
    if (waiting.length >= waitingMax) throw new HubError('rateLimited', { retryAfterS: 1 });
    return new Promise((resolve) => {
      const begin = () => resolve(true);
      waiting.push(begin);
      response.once('close', () => {
        const at = waiting.indexOf(begin);
        if (at >= 0) waiting.splice(at, 1);
        resolve(false);
      });
    });
  }

  function next(partner: PartyId): void {
    const begin = waitingOf.get(partner)?.shift();
    if (begin) begin();
    else waitingOf.delete(partner);
  }

  const left = () => new HubError('rateLimited', { message: 'the caller has left' });

  return async (partner, response, work) => {
    if (!(await entered(partner, response))) throw left();
    let tookMs = 0;
    try {
      const end = await readTurn(partner);
      try {
        if (response.closed) throw left();
        pace.watch(response, partner);
        const begun = clock.monotonic();
        const done = await work();
        tookMs = clock.monotonic() - begun;
        return done;
      } finally {
        end();
      }
    } finally {
      const pauseMs = Math.min(3 * tookMs, pauseMaxMs);
      const leave = () => {
        if (pauseMs === 0) next(partner);
        else background(clock.setTimeout(next, pauseMs, partner));
      };
      if (response.closed) leave();
      else response.once('close', leave);
    }
  };
}
