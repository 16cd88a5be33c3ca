/**
 * The one queue of everything that will happen in a simulated world, and the turns between: nothing runs but what stands here.
 *
 * TEST-AGENDA-1  What stands at the same instant runs in the order in which it was entered.
 * TEST-AGENDA-2  Between two entries everything that can run does, to the last microtask and immediate, before time moves.
 * TEST-AGENDA-3  What a dead hub had asked for never happens.
 */
import TinyQueue from 'tinyqueue';
import { type Clock, facesOf } from '../../src/kit/clock.ts';
import type { WallClock } from './wall-clock.ts';

/** One life of a hub process, from its start to its end or crash. */
export interface Life {
  readonly number: number;
  isAlive: boolean;
}

interface Entry {
  readonly at: number;
  readonly order: number;
  run: (() => void) | null;
}

export class Agenda {
  now: number;
  steps = 0;
  #order = 0;
  readonly #queue = new TinyQueue<Entry>([], (a, b) => a.at - b.at || a.order - b.order);

  constructor(startedAt: number) {
    this.now = startedAt;
  }

  at(at: number, run: () => void): Entry {
    const entry = { at: Math.max(at, this.now), order: this.#order++, run };
    this.#queue.push(entry);
    return entry;
  }

  cancel(entry: Entry): void {
    entry.run = null;
  }

  /** Instant of the next entry; null when nothing stands here. */
  peek(): number | null {
    while (this.#queue.peek()?.run === null) this.#queue.pop();
    return this.#queue.peek()?.at ?? null;
  }

  /** Runs the next entry and whatever follows from it at once. */
  async step(): Promise<boolean> {
    if (this.peek() === null) return false;
    const entry = this.#queue.pop();
    if (!entry?.run) return false;
    this.now = entry.at;
    this.steps++;
    entry.run();
    await quiet();
    return true;
  }

  /** Runs everything up to an instant, which is then the present. */
  async until(at: number): Promise<void> {
    for (let next = this.peek(); next !== null && next <= at; next = this.peek()) await this.step();
    this.now = Math.max(this.now, at);
  }
}

/** The clock of one life, whose time of day anybody may set: its hub time begins as that, and goes on with the agenda. [TEST-AGENDA-3] */
export function clockOf(agenda: Agenda, life: Life, wall: WallClock): Clock {
  const begunAhead = wall.offMs;
  const faces = facesOf(
    () => agenda.now + begunAhead,
    () => agenda.now + wall.offMs,
  );
  const { steps } = faces;
  const keep = () => life.isAlive && wall.keep(steps.stretches, begunAhead);
  steps.recall(wall.kept(begunAhead));
  keep();
  steps.onStep(keep);
  return {
    ...faces,
    monotonic: () => agenda.now,
    setTimeout(fn, timeoutMs, ...args) {
      // As Node does it: whole milliseconds, at least one.
      const at = agenda.now + Math.max(1, Math.trunc(timeoutMs));
      return agenda.at(at, () => life.isAlive && fn(...args));
    },
    clearTimeout: (id) => id !== undefined && id !== null && agenda.cancel(id as Entry),
  };
}

const immediates: (() => void)[] = [];

/** Until `restore` is called, immediates wait for `quiet` instead of Node's loop, so that their order is ours. */
export function holdImmediates(): () => void {
  const before = globalThis.setImmediate;
  const held = (fn: (...args: unknown[]) => void, ...args: unknown[]) => immediates.push(() => fn(...args));
  globalThis.setImmediate = held as unknown as typeof setImmediate;
  return () => {
    globalThis.setImmediate = before;
  };
}

/** A tick of Node runs when no microtask is left. */
const microtasksDone = () => new Promise<void>((resolve) => process.nextTick(resolve));

/** Resolves when nothing can run any more before time moves. [TEST-AGENDA-2] */
export async function quiet(): Promise<void> {
  await microtasksDone();
  for (let turns = 0; immediates.length > 0; turns++) {
    if (turns > 100_000) throw new Error('the hub never comes to rest');
    for (const run of immediates.splice(0)) {
      run();
      await microtasksDone();
    }
  }
}
