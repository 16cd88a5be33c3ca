/**
 * The only source of time for the hub's actors: one actor holds every deadline as an absolute instant, with one timer
 * for the earliest, and calls `passed` when an instant has passed.
 *
 * DEADLINE-1  A deadline is an instant, never a delay: one that is armed again after a restart fires when it would have
 *     fired without the restart.
 * DEADLINE-2  One deadline per id: arming it again moves it.
 * DEADLINE-3  Due deadlines fire in order of instant, also when the process was suspended past several.
 * DEADLINE-4  The queue holds at most twice as many entries as there are deadlines, or `goneMin` more.
 */
import TinyQueue from 'tinyqueue';
import { fromCallback } from 'xstate';

/** XState's clock, extended by the present hub time. */
export interface DeadlineClock {
  /** Epoch ms; must not step. */
  now(): number;
  setTimeout(fn: (...args: unknown[]) => void, timeoutMs: number): unknown;
  clearTimeout(id: unknown): void;
}

export type DeadlineEvent = { type: 'deadline.arm'; id: string; at: number } | { type: 'deadline.disarm'; id: string };

export interface DeadlineInput {
  readonly clock: DeadlineClock;
  /** Must not throw. */
  readonly passed: (id: string, at: number) => void;
}

/** Longest timer, ms: Node fires a timer of more than 2^31 - 1 ms at once, so a longer wait is checked once an hour. */
const longestTimerMs = 3_600_000;

const goneMin = 64;

interface Entry {
  readonly at: number;
  readonly id: string;
}

const queueOf = (entries: Entry[]) => new TinyQueue(entries, (a, b) => a.at - b.at);

export const deadline = fromCallback<DeadlineEvent, DeadlineInput>(({ input, receive }) => {
  const { clock, passed } = input;
  const armed = new Map<string, number>();
  // Lazy deletion: an entry that is not in `armed` was moved or disarmed, and is skipped at its instant.
  let queue = queueOf([]);
  let timer: { at: number; handle: unknown } | null = null;

  function fireDue(): void {
    timer = null;
    for (let next = queue.peek(); next && next.at <= clock.now(); next = queue.peek()) {
      queue.pop();
      if (armed.get(next.id) !== next.at) continue;
      armed.delete(next.id);
      passed(next.id, next.at);
    }
    sweep();
    schedule();
  }

  function schedule(): void {
    const next = queue.peek();
    if (timer && next && timer.at <= next.at) return;
    if (timer) clock.clearTimeout(timer.handle);
    timer = null;
    if (!next) return;
    const delayMs = Math.min(Math.max(0, next.at - clock.now()), longestTimerMs);
    timer = { at: next.at, handle: clock.setTimeout(fireDue, delayMs) };
  }

  /** [DEADLINE-4] */
  function sweep(): void {
    if (queue.length <= 2 * armed.size + goneMin) return;
    queue = queueOf([...armed].map(([id, at]) => ({ at, id })));
  }

  receive((event) => {
    if (event.type === 'deadline.disarm') {
      armed.delete(event.id);
      sweep();
      return;
    }
    if (armed.get(event.id) === event.at) return;
    armed.set(event.id, event.at);
    queue.push({ at: event.at, id: event.id });
    sweep();
    schedule();
  });

  return () => {
    if (timer) clock.clearTimeout(timer.handle);
  };
});
