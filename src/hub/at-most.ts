/** Waits that have an end. */
import type { Clock } from './ports.ts';

/** Resolves when the work has ended, or after so long; rejects when the work does before that. */
export async function atMost(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  let timer: unknown;
  const late = new Promise<void>((resolve) => {
    timer = clock.setTimeout(() => resolve(), ms);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clock.clearTimeout(timer);
  }
}
