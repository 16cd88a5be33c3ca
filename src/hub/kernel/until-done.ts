/**
 * Repeats work until the store takes it: nobody waits for it, and only the next start would redo it. Each retry is a timer
 * of the hub, which its close drops.
 */
import type { Context } from './context.ts';

/** Pause before a retry, ms. */
const againMs = 1_000;

/** Resolves when the first attempt has ended; never rejects. `failed` logs why an attempt failed. */
export async function untilDone(
  context: Context,
  work: () => Promise<unknown>,
  failed: (error: unknown) => void,
): Promise<void> {
  const { ports, timers } = context;
  try {
    await work();
  } catch (error) {
    failed(error);
    const at = ports.clock.now() + againMs;
    timers.arm(`again:${ports.secrets.newId()}`, at, () => void untilDone(context, work, failed));
  }
}
