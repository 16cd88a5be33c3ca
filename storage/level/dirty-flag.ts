/**
 * Dirty flag: the file `opening` exists from before the database is opened until it was open for 10 s or is closed, so
 * that the next start knows when the last use ended early.
 *
 * DIRTY-FLAG-1  The flag is on the disk before the engine touches the database, so that a process that the engine
 *     aborts leaves a trace, whether it dies while reading or soon after, while compacting. The flag is removed when
 *     the store closes or has been open for a while, but not while there is damage, which the engine may hit at any
 *     time. An error that this process can catch is not such an end.
 * DIRTY-FLAG-2  A kill leaves the flag, too, so it proves nothing: a start that finds it inspects the store more
 *     closely, where that can find something.
 * DIRTY-FLAG-3  The flag stays while the log was opened and its loss is not repaired yet, because a second opening does
 *     not see the loss.
 */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { absent, syncDirectory } from './side-files.ts';

export interface Begun {
  readonly directory: string;
  /** When the first of the uses that ended early began, RFC 3339. */
  readonly since: string;
  readonly attempts: number;
  /** The last of these uses ended before it had read every record. */
  readonly isReading: boolean;
  /** The log may have lost records in one of these uses, and that loss is not repaired yet. */
  readonly lost: boolean;
  /** One of these uses found damage. */
  readonly damaged: boolean;
}

/** This many early ends in a row are no coincidence: the next start inspects the store first. */
const ATTEMPTS_MAX = 2;

/** Whether compaction may be what ended the process. */
export const mustCompact = ({ damaged, attempts }: Begun): boolean => damaged || attempts >= ATTEMPTS_MAX;

/** Whether the engine may abort the next process that opens the database. [DIRTY-FLAG-2] */
export const isSuspect = (begun: Begun): boolean => begun.isReading || mustCompact(begun);

export class DirtyFlag {
  readonly #directory: string;
  readonly #path: string;

  constructor(store: string) {
    this.#directory = resolve(store);
    this.#path = join(this.#directory, 'opening');
  }

  /** Null when the last use did not end early. */
  async read(): Promise<Begun | null> {
    const text = await readFile(this.#path, 'utf8').catch(absent);
    if (text === null) return null;
    const doubtful = { ...this.#none('an instant that cannot be read'), attempts: 1, lost: true };
    try {
      const begun = JSON.parse(text) as Partial<Begun>;
      return typeof begun.since === 'string' && Number.isInteger(begun.attempts) ? { ...doubtful, ...begun } : doubtful;
    } catch {
      // The write was cut short; that the file exists says enough.
      return doubtful;
    }
  }

  /** Records one more attempt to open the database. */
  async begin(lost = false): Promise<Begun> {
    const before = (await this.read()) ?? this.#none();
    const begun = { ...before, attempts: before.attempts + 1, isReading: true, lost: before.lost || lost };
    await this.#write(begun);
    return begun;
  }

  /** Records findings for the next start. */
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
    await writeFile(this.#path, `${JSON.stringify(begun)}\n`, { flush: true });
    await syncDirectory(dirname(this.#path));
  }
}
