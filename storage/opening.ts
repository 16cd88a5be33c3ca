/**
 * `opening` beside the database: an opening of it has begun, and was not seen to end.
 *
 * O1  It is on the disk before the engine touches the database and goes when verification has ended, so that a process that the
 *     engine ended leaves word of it. An error that we see is no such end.
 * O2  A kill leaves it, too. It proves nothing: whoever finds it looks more closely.
 * O3  It stays where the log was opened and what it had lost was not yet made good, because a second opening does not see the loss.
 */
import { open, readFile, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { absent, syncDirectory } from './side-files.ts';

export interface Begun {
  readonly directory: string;
  /** Start of the first of the openings that did not end, RFC 3339. */
  readonly since: string;
  readonly attempts: number;
  /** One of them may have met a log that had lost something. */
  readonly lost: boolean;
}

export class OpeningFile {
  readonly #directory: string;
  readonly #path: string;

  constructor(store: string) {
    this.#directory = resolve(store);
    this.#path = join(this.#directory, 'opening');
  }

  /** Null when the last opening ended. */
  async read(): Promise<Begun | null> {
    const text = await readFile(this.#path, 'utf8').catch(absent);
    if (text === null) return null;
    try {
      const { since, attempts, lost } = JSON.parse(text) as Begun;
      if (typeof since === 'string' && Number.isInteger(attempts)) {
        return { directory: this.#directory, since, attempts, lost: lost !== false };
      }
    } catch {
      // Cut short as it was written: that it is there says enough.
    }
    return { directory: this.#directory, since: 'an instant that cannot be read', attempts: 1, lost: true };
  }

  /** One attempt more. */
  async begin(lost = false): Promise<Begun> {
    const { directory, since, attempts, lost: before } = (await this.read()) ?? this.#none();
    const begun = { directory, since, attempts: attempts + 1, lost: before || lost };
    await this.#write(begun);
    return begun;
  }

  /** Notes a loss for the hub's next opening. [O3] */
  async lose(): Promise<void> {
    await this.#write({ ...((await this.read()) ?? this.#none()), lost: true });
  }

  async end(): Promise<void> {
    await rm(this.#path, { force: true });
  }

  #none(): Begun {
    return { directory: this.#directory, since: new Date().toISOString(), attempts: 0, lost: false };
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
