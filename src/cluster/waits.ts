/** What a node waits for, and for how long. */
import { sleep, withTimeout } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import type { NodeParts } from './node-parts.ts';

export const lookMs = 50;
export const handOverMs = 10_000;

/** Resolves when it is so, or after a while. */
export async function soon(isSo: () => boolean, timeoutMs: number): Promise<void> {
  const until = systemClock.monotonic() + timeoutMs;
  while (!isSo() && systemClock.monotonic() < until) await sleep(systemClock, lookMs);
}

export const since = (begun: number): number => Math.round(systemClock.monotonic() - begun);

/** False when the database is away: then the lease runs out by itself. */
export async function leaseGone({ store, log }: Pick<NodeParts, 'store' | 'log'>): Promise<boolean> {
  try {
    if (await withTimeout(systemClock, handOverMs, store.leave())) return true;
    throw new Error('the database does not answer');
  } catch (error) {
    log.warn({ err: error }, 'the lease could not be handed over');
    return false;
  }
}
