/**
 * Repeats work until the store takes it: nobody waits for it, and only the next start would redo it. Each retry is a timer
 * of the hub, which its close drops.
 */
import { type Clock, withTimeout } from '../../kit/clock.ts';
import type { Context } from './context.ts';
import type { Timers } from './timers.ts';

/** What repeating takes of the hub. */
interface Repeating {
  readonly ports: { readonly clock: Pick<Clock, 'now'>; readonly secrets: Pick<Context['ports']['secrets'], 'newId'> };
  readonly timers: Pick<Timers, 'arm'>;
}

/** Pause before a retry, ms. */
const againMs = 1_000;
/** Longest wait for work without which its caller is answered all the same, ms. */
const waitMs = 1_000;

/**
 * Resolves when the first attempt has ended; never rejects. `failed` logs why an attempt failed: the first, second, fourth, eighth and so
 * on, since a store that takes no writes for an hour would fill the log.
 */
export async function untilDone(
  context: Repeating,
  work: () => Promise<unknown>,
  failed: (error: unknown) => void,
  attempt = 1,
): Promise<void> {
  const { ports, timers } = context;
  try {
    await work();
  } catch (error) {
    if (Number.isInteger(Math.log2(attempt))) failed(error);
    const at = ports.clock.now() + againMs;
    timers.arm(`again:${ports.secrets.newId()}`, at, () => void untilDone(context, work, failed, attempt + 1));
  }
}

/** Like `untilDone`, but resolves after `waitMs` at the latest: a store that hangs ends no attempt. The work goes on. */
export async function untilDoneOrLate(
  context: Context,
  work: () => Promise<unknown>,
  failed: (error: unknown) => void,
): Promise<void> {
  await withTimeout(context.ports.clock, waitMs, untilDone(context, work, failed));
}
