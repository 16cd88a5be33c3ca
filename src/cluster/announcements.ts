/**
 * How nodes learn what others have written: a door sends the head of the log to the owner, so that the owner delivers without
 * waiting for its next poll; that poll of the database; and the owner announces changes of partners and routes to all doors.
 * [NODE-6]
 *
 * ANNOUNCEMENTS-1  One message is in flight at a time; writes made meanwhile share the next one. A lost message only delays:
 *     the owner finds those writes at its next poll of the database.
 * ANNOUNCEMENTS-2  Nothing is kept of what was sent: after the database lost the end of the log, heads that were sent before come again.
 */
import type { Seq } from '../../storage/contract.ts';
import { withTimeout } from '../kit/clock.ts';
import { systemClock as clock } from '../kit/system-clock.ts';
import type { Membership } from './membership.ts';
import type { NodeParts, Served, SharedStore } from './node-parts.ts';
import type { Having } from './tenure.ts';

export class Pings {
  readonly #tell: (head: Seq) => Promise<void>;
  /** The highest head since the last message; null when there is none. */
  #unsent: Seq | null = null;
  #telling = false;

  /** `tell` never rejects. */
  constructor(tell: (head: Seq) => Promise<void>) {
    this.#tell = tell;
  }

  written(head: Seq): void {
    this.#unsent = Math.max(this.#unsent ?? 0, head);
    if (!this.#telling) void this.#run();
  }

  async #run(): Promise<void> {
    this.#telling = true;
    while (this.#unsent !== null) {
      const head = this.#unsent;
      this.#unsent = null;
      await this.#tell(head);
    }
    this.#telling = false;
  }
}

// Asks the database for the head of the log once a second, which bounds the delay after a lost ping. [NODE-6]

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

// Announces a change of partners or routes to all doors before it is acknowledged. [NODE-6]

/** Longest that a change waits for the doors. */
const doorsMs = 1000;
/** Back-off: for this long after a door timed out, changes are announced without waiting for answers. */
const unheardMs = 10_000;

/** A hook for commits of the owner; `door` is the one on this node. */
export function changeNotice(
  isForDoors: NodeParts['isForDoors'],
  membership: Pick<Membership, 'tell'>,
  door: () => Served | null,
): Having['appended'] {
  let unheardUntil = 0;
  return async (commit, { last }) => {
    if (!isForDoors(commit)) return;
    const here = withTimeout(clock, doorsMs, door()?.followed(last) ?? Promise.resolve());
    const heard = Promise.all([here, membership.tell(`directory/${last}`, doorsMs)]);
    if (clock.monotonic() < unheardUntil) return;
    const begun = clock.monotonic();
    await heard;
    // Of many changes in a row only the first waits for a door that does not answer.
    if (clock.monotonic() - begun >= doorsMs) unheardUntil = clock.monotonic() + unheardMs;
  };
}
