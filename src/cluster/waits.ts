/** What a node waits for, and for how long. */
import type { NodeParts } from './node-parts.ts';

export const lookMs = 50;
export const handOverMs = 10_000;

/** Resolves when it is so, or after a while. */
export async function soon(isSo: () => boolean, timeoutMs: number): Promise<void> {
  const until = performance.now() + timeoutMs;
  while (!isSo() && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, lookMs));
}

export const since = (begun: number): number => Math.round(performance.now() - begun);

/** False when the database is away: then the lease runs out by itself. */
export async function leaseGone({ store, log }: Pick<NodeParts, 'store' | 'log'>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the database does not answer')), handOverMs);
  });
  try {
    await Promise.race([store.leave(), late]);
    return true;
  } catch (error) {
    log.warn({ err: error }, 'the lease could not be handed over');
    return false;
  } finally {
    clearTimeout(timer);
  }
}
