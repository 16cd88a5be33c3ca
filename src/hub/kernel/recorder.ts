/**
 * The only writer: decide → append → apply → dispatch, in that order.
 *
 * RECORDER-1  Nothing is applied or dispatched before it is durable.
 * RECORDER-2  Work on one thing runs in turn, so a decision always sees what the one before it stored.
 * RECORDER-3  Committed events are dispatched in order of sequence, without a gap: what others wrote in between is read from the log.
 * RECORDER-4  While it is not known whether a commit is in the log, nothing else is written: it would rest on what that commit changed.
 * RECORDER-5  A decision reads partners and routes in memory, as of their last change that was dispatched, and says so: every change of them writes
 *     the row `directoryKey` (`directory-row.ts`). So nothing is decided on an old rule, and lists read after a change are complete.
 * RECORDER-6  A commit that changes an object says which rows it was decided on. When one of them was written since, it is decided again on what is
 *     stored now (CONTRACT-11), when changes of partners and routes up to now were dispatched here. While that is under way no such change is begun.
 *     What is read of the log is kept by turns alone.
 */
import type { Conflict, Due, Put, Seen, Seq, Store } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { HubEvent } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Trace } from '../../domain/trace.ts';
import { type Clock, sleep } from '../../kit/clock.ts';
import { type Log, type Meter, noMeter } from '../ports/ports.ts';
import { CommitFeed } from './commit-feed.ts';
import { directoryKey, directoryPut } from './directory-row.ts';

export interface Fact {
  readonly stream: string;
  readonly event: HubEvent;
  /** The partner that it is recorded for; null when there is none. */
  readonly party: PartyId | null;
  readonly to?: readonly PartyId[];
  readonly body?: string | null;
}

export interface Recording {
  readonly facts: readonly Fact[];
  readonly puts?: readonly Put[];
  readonly due?: readonly Due[];
  /** What it was decided on. [RECORDER-6] */
  readonly seen?: readonly Seen[];
  /** It is judged by what it was decided on alone, so a door may record it: no fence is needed (CONTRACT-4). */
  readonly unfenced?: true;
  readonly trace: Pick<Trace, 'correlationId'> | null;
  /** RFC 3339, from `instant()`; the time of the facts. */
  readonly at: string;
}

const refusals: ReadonlySet<string> = new Set(['StoreUnavailable', 'OutcomeUnknown', 'Fenced']);
const askAgainMs = 200;
/** Attempts at a decision that meets conflicts; then its caller gets `unavailable`. */
const decisionsMax = 20;

export class Recorder {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #newId: () => string;
  readonly #meter: Meter;
  /** How to ask again at once, of each commit that is in doubt. [RECORDER-4] */
  readonly #doubts = new Map<object, () => void>();
  /** Writes under way. */
  readonly #writing = new Set<Promise<unknown>>();
  readonly #turns = new Map<string, Promise<unknown>>();
  /** Decisions that are made again. [RECORDER-6] */
  readonly #again = new Set<Promise<unknown>>();
  /** What was committed, in order. [RECORDER-3] */
  readonly feed: CommitFeed;

  constructor(store: Store, clock: Clock, log: Log, newId: () => string, meter: Meter = noMeter, isDoor = false) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#newId = newId;
    this.#meter = meter;
    this.feed = new CommitFeed(store, clock, log, isDoor);
    store.onHealth(({ state }) => {
      if (state === 'open') for (const askAgain of this.#doubts.values()) askAgain();
    });
  }

  /** Now, as it stands in events. */
  instant(): string {
    return instantText(this.#clock.now());
  }

  /**
   * Resolves when it is durable, with the sequence of the last fact. Refuses with `unavailable` when the store cannot write, and with
   * `Conflict` when it was decided on what has changed.
   */
  async record(recording: Recording): Promise<Seq> {
    const fence = this.#store.held();
    if ((!fence && !recording.unfenced) || this.#doubts.size > 0) throw new HubError('unavailable', { retryAfterS: 1 });
    const events = recording.facts.map((fact) => ({
      stream: fact.stream,
      type: fact.event.type,
      at: recording.at,
      party: fact.party,
      correlationId: recording.trace?.correlationId ?? null,
      to: fact.to ?? [],
      data: fact.event.data,
      body: fact.body ?? null,
    }));
    const commit = { fence, idem: this.#newId(), events, ...rest(recording) };
    const writing = this.#measured(commit);
    this.#writing.add(writing);
    try {
      const { first, last } = await writing;
      for (const [index, event] of events.entries()) this.feed.committed({ ...event, seq: first + index });
      return last;
    } finally {
      this.#writing.delete(writing);
      this.#doubts.delete(commit);
    }
  }

  /** Like `record`, of a change of partners or routes; resolves when it was dispatched, too. [RECORDER-5] */
  async recordDirectory({ puts = [], ...recording }: Recording): Promise<Seq> {
    // One that was decided on something may itself be made again.
    if (!recording.seen) await Promise.allSettled(this.#again);
    const seq = await this.record({ ...recording, puts: [...puts, directoryPut] });
    await this.feed.reached(seq);
    return seq;
  }

  /** Records what nobody waits for: a failure is logged and counted, since no caller is there to be told. */
  note(recording: Recording): void {
    this.record(recording).catch((error: unknown) => {
      const types = recording.facts.map((fact) => fact.event.type);
      for (const type of types) this.#meter.unrecorded(type);
      this.#log.error({ err: error, events: types }, 'could not record');
    });
  }

  /**
   * Runs work on one thing after the work on it that came before. [RECORDER-2] The rows that it rests on go into `seen` and into its record, before
   * which it does nothing that must not be done twice: it is run again when one of them was written meanwhile. [RECORDER-6]
   */
  async inTurn<T>(key: string, work: (seen: Seen[]) => Promise<T>): Promise<T> {
    const before = this.#turns.get(key);
    const decide = () => this.#decide(work, decisionsMax);
    const mine = before ? before.then(decide, decide) : decide();
    this.#turns.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#turns.get(key) === mine) this.#turns.delete(key);
    }
  }

  async #decide<T>(work: (seen: Seen[]) => Promise<T>, triesLeft: number): Promise<T> {
    try {
      return await work([]);
    } catch (error) {
      if (!isConflict(error)) throw error;
      if (triesLeft > 1) return this.#decideAgain(work, triesLeft - 1);
      this.#log.warn({ err: error, decisions: decisionsMax }, 'what was decided on kept changing');
      throw new HubError('unavailable', { retryAfterS: 1 });
    }
  }

  async #decideAgain<T>(work: (seen: Seen[]) => Promise<T>, triesLeft: number): Promise<T> {
    const row = await this.#store.get(directoryKey);
    await this.feed.reached(row?.seq ?? 0);
    const again = this.#decide(work, triesLeft);
    this.#again.add(again);
    try {
      return await again;
    } finally {
      this.#again.delete(again);
    }
  }

  async #measured(commit: Parameters<Store['append']>[0]) {
    const waiting = this.#writing.size + 1;
    const begun = performance.now();
    const written = await this.#append(commit);
    this.#meter.committed((performance.now() - begun) / 1000, waiting);
    return written;
  }

  async #append(commit: Parameters<Store['append']>[0]) {
    for (;;) {
      try {
        return await this.#store.append(commit);
      } catch (error) {
        const kind = error instanceof Error ? error.name : '';
        if (!refusals.has(kind)) throw error;
        const inDoubt = kind === 'OutcomeUnknown' || this.#doubts.has(commit);
        this.#log.error({ err: error, inDoubt }, 'write refused by the store');
        // It may be in the log: until that is known nothing may be decided on what it changed. Asking again is safe, by its key.
        if (!inDoubt || kind === 'Fenced' || this.#store.health().state === 'closed') {
          throw new HubError('unavailable', { retryAfterS: 1 });
        }
        await this.#known(commit);
      }
    }
  }

  /** Resolves when the store may know what became of it: when it is open again, or after a while. */
  async #known(commit: object): Promise<void> {
    await sleep(this.#clock, askAgainMs, (wake) => this.#doubts.set(commit, wake));
  }
}

const isConflict = (error: unknown): error is Conflict => error instanceof Error && error.name === 'Conflict';

function rest({ puts, due, seen }: Recording): Pick<Recording, 'puts' | 'due' | 'seen'> {
  return { ...(puts && { puts }), ...(due && { due }), ...(seen && { seen }) };
}
