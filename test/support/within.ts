/** Waits that end: when what they wait for can come no more, and at a limit, so that a broken test says what it waited for. */

/** A condition variable: `tell` resolves all that wait for the next change. */
export class Changes {
  #waiting: (() => void)[] = [];

  tell(): void {
    for (const told of this.#waiting.splice(0)) told();
  }

  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/** Those that wait now, to be told that it is in vain. */
const waiting = new Set<(why: Error) => void>();

/** Ends all waits of this process: what they wait for has gone. */
export function endWaits(why: Error): void {
  for (const end of waiting) end(why);
}

export async function within<T>(limitMs: number, work: Promise<T>, late: () => string): Promise<T> {
  let end: (why: Error) => void = () => {};
  const failed = new Promise<never>((_, reject) => {
    end = reject;
  });
  const timer = setTimeout(() => end(new Error(late())), limitMs);
  waiting.add(end);
  try {
    return await Promise.race([work, failed]);
  } finally {
    waiting.delete(end);
    clearTimeout(timer);
  }
}
