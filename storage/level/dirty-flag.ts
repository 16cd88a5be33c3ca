/**
 * `opening` beside the database: a use of it has begun, and was not seen to last.
 *
 * DIRTY-FLAG-1  It is on the disk before the engine touches the database, so that a process that the engine ended leaves word of it: while it
 *     reads, or soon after, when it compacts. It goes when the store is closed or has been open for a while, but not while
 *     there is damage, which the engine may meet whenever it likes. An error that we see is no such end.
 * DIRTY-FLAG-2  A kill leaves it, too. It proves nothing: whoever finds it looks more closely, where a look can find something.
 * DIRTY-FLAG-3  It stays where the log was opened and what it had lost was not yet made good, because a second opening does not see the loss.
 */
import { open, readFile, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { absent, syncDirectory } from './side-files.ts';

export interface Begun {
  readonly directory: string;
  /** Start of the first of the uses that did not last, RFC 3339. */
  readonly since: string;
  readonly attempts: number;
  /** The last of them had not read everything yet. */
  readonly isReading: boolean;
  /** One of them may have met a log that had lost something. */
  readonly lost: boolean;
  /** One of them met damage. */
  readonly damaged: boolean;
}

/** So many uses that did not last are no accident. */
const ATTEMPTS_MAX = 2;

/** Compacting may be what the engine did not survive. */
export const mustCompact = ({ damaged, attempts }: Begun): boolean => damaged || attempts >= ATTEMPTS_MAX;

/** The next process that opens it may be ended by it. [DIRTY-FLAG-2] */
export const isSuspect = (begun: Begun): boolean => begun.isReading || mustCompact(begun);

export class DirtyFlag {
  readonly #directory: string;
  readonly #path: string;

  constructor(store: string) {
    this.#directory = resolve(store);
    this.#path = join(this.#directory, 'opening');
  }

  /** Null when the last use lasted. */
  async read(): Promise<Begun | null> {
    const text = await readFile(this.#path, 'utf8').catch(absent);
    if (text === null) return null;
    const doubtful = { ...this.#none('an instant that cannot be read'), attempts: 1, lost: true };
    try {
      const begun = JSON.parse(text) as Partial<Begun>;
      return typeof begun.since === 'string' && Number.isInteger(begun.attempts) ? { ...doubtful, ...begun } : doubtful;
    } catch {
      // Cut short as it was written: that it is there says enough.
      return doubtful;
    }
  }

  /** One attempt more. */
  async begin(lost = false): Promise<Begun> {
    const before = (await this.read()) ?? this.#none();
    const begun = { ...before, attempts: before.attempts + 1, isReading: true, lost: before.lost || lost };
    await this.#write(begun);
    return begun;
  }

  /** Notes what is known now, for the next one who opens it. */
  async note(known: Partial<Omit<Begun, 'directory' | 'since'>>): Promise<void> {
    await this.#write({ ...((await this.read()) ?? this.#none()), ...known });
  }

  async end(): Promise<void> {
    await rm(this.#path, { force: true });
  }

  #none(since = new Date().toISOString()): Begun {
    return { directory: this.#directory, since, attempts: 0, isReading: true, lost: false, damaged: false };
  }

  async #write(begun: Begun): Promise<void> {
    const file = await open(this.#path, 'w');
    try {
      await file.writeFile(`${JSON.stringify(begun)}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await syncDirectory(dirname(this.#path));
  }
}
