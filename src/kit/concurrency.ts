/** Concurrent work: bounded over many items or callers, and work in progress whose end somebody must await; and work that ends with a close. */

/**
 * Starts the work on the items in order, at most `most` at a time. Rejects with the first failure, and then starts no
 * more work.
 */
export async function mapLimit<T>(
  items: Iterable<T>,
  most: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  let hasFailed = false;
  const worker = async () => {
    for (let next = rest.next(); !next.done && !hasFailed; next = rest.next()) {
      await work(next.value).catch((error: unknown) => {
        hasFailed = true;
        throw error;
      });
    }
  };
  await Promise.all(Array.from({ length: most }, worker));
}

/** Lets at most so many works go on at the same time; the others wait in order. */
export class Limit {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(most: number) {
    this.#free = most;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((go) => this.#waiting.push(go));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }
}

/** Begins the work unless the signal is aborted, and rejects with its reason as soon as it is; the work itself goes on. */
export async function unlessAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
  });
  signal.addEventListener('abort', abort);
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Work in progress that no caller awaits; closing its owner does. */
export class Running {
  readonly #works = new Set<Promise<void>>();

  /** `work` must not reject. */
  add(work: Promise<void>): void {
    const running = work.finally(() => this.#works.delete(running));
    this.#works.add(running);
  }

  /** Resolves when no work is in progress; work that is added meanwhile counts. */
  async ended(): Promise<void> {
    while (this.#works.size > 0) await Promise.all(this.#works);
  }
}

/** Something that must be closed: a file, a database, a snapshot, an iterator. */
interface Closable {
  close(): unknown;
}

/** Does the work with what was opened, and closes it whatever comes of the work. */
export async function closing<Opened extends Closable, T>(
  opened: Opened,
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}
