/** Asks the database for the head of the log once a second, which bounds the delay after a lost ping. [NODE-6] */
import { systemClock as clock } from '../kit/system-clock.ts';
import type { SharedStore } from './node-parts.ts';

const everyMs = 1000;

export class HeadPoll {
  readonly #store: SharedStore;
  readonly #follow: () => void;
  #askedAt = 0;
  #isAsking = false;

  /** `follow` runs after each answer, and when there is none. */
  constructor(store: SharedStore, follow: () => void) {
    this.#store = store;
    this.#follow = follow;
  }

  /** Asks when it is time. */
  look(): void {
    const now = clock.monotonic();
    if (this.#isAsking || now < this.#askedAt + everyMs) return;
    this.#askedAt = now;
    this.#isAsking = true;
    const answered = () => {
      this.#isAsking = false;
      this.#follow();
    };
    // A rejection needs no handling: the health of the store shows that the database is unreachable.
    this.#store.look().then(answered, answered);
  }
}
