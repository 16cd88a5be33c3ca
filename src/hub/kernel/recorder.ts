/**
 * The hub's only writer: it takes every change through decide → append → apply → dispatch, in that order.
 *
 * RECORDER-1  An event is applied and dispatched only after it is durable.
 * RECORDER-2  Work on the same key runs one at a time, in order of arrival, so a decision always sees what the one
 *     before it stored.
 * RECORDER-3  Committed events are dispatched in order of sequence, without a gap; events of other nodes in between are
 *     read from the log.
 * RECORDER-4  While the outcome of a commit is unknown, nothing else is written: a later decision could depend on what
 *     that commit changed. Its caller gets no answer until then: a refusal promises that nothing was changed
 *     (INGEST-2), and the commit may be in the log. A hub that closes does not wait for it, throws `outcomeUnknown` and
 *     writes nothing else: the next start finds what is in the log. A caller whose turn has not come is refused at once.
 * RECORDER-5  A decision reads partners and routes in memory, as of their last dispatched change, and states that
 *     version in `seen`: every change of them writes the row `directoryKey` (`directory.ts`). So no decision
 *     commits on an outdated rule, and a list that is read after a change is complete.
 * RECORDER-6  Optimistic concurrency: a commit that changes an object states the rows that it was decided on. If one of
 *     them was written since (CONTRACT-11), the hub first dispatches the changes of partners and routes up to now, then
 *     decides again on what is stored. While a decision is repeated, no change of routes starts, and none of partners unless
 *     it states its own rows. What a decision reads from the log is protected by turns alone.
 * RECORDER-7  What follows from a change of partners or routes happens when that change is dispatched, also when its
 *     caller has stopped waiting by then: the change is in the log. After a restart it follows from the log.
 * RECORDER-8  Where the answer carries a token that exists nowhere else, a change that is in the log is answered as made,
 *     also when this node has not dispatched it in time: the token would be lost with the answer.
 * RECORDER-9  A fact keeps the instant at which it arrived, and goes to the store at most `gatherMs` later.
 * RECORDER-10  `close` flushes the pending facts; a fact that arrives after `close` goes to the store at once.
 */
import type { Conflict, Due, Put, Seen, Seq, Store } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { HubEvent, Trace } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import type { PartyId } from '../../domain/party.ts';
import { type Clock, sleep } from '../../kit/clock.ts';
import { sampled } from '../../kit/sampled.ts';
import type { HubPorts, NotedType, Secrets } from '../ports/ports.ts';
import { CommitFeed } from './commit-feed.ts';
import { directoryKey, directoryPut } from './directory.ts';
import { signed } from './row-codecs.ts';

export interface Fact {
  readonly stream: string;
  readonly event: HubEvent;
  /** The partner that the fact is recorded for; null when there is none. */
  readonly party: PartyId | null;
  readonly to?: readonly PartyId[];
  readonly body?: string | null;
  /** Of the request that caused the fact, when the recording has facts of several requests. */
  readonly correlationId?: string;
  /** When it happened, RFC 3339, when the recording has facts of several instants. */
  readonly at?: string;
}

export interface Recording {
  readonly facts: readonly Fact[];
  readonly puts?: readonly Put[];
  readonly due?: readonly Due[];
  /** The rows that the decision read. [RECORDER-6] */
  readonly seen?: readonly Seen[];
  /** A door may record this: the store checks `seen` alone and needs no fence (CONTRACT-4). */
  readonly unfenced?: true;
  readonly trace: Pick<Trace, 'correlationId' | 'operator'> | null;
  /** Time of the facts, RFC 3339, from `instant()`; absent: now. */
  readonly at?: string;
}

/** A recording of facts that no caller waits for. */
export interface Noted extends Recording {
  readonly facts: readonly (Fact & { readonly event: { readonly type: NotedType } })[];
}

const refusals: ReadonlySet<string> = new Set(['StoreUnavailable', 'OutcomeUnknown', 'Fenced']);
/** Back-off between retries of a commit of unknown outcome, ms; a store that opens again ends it early. */
const askAgainMs = 200;
/** A store that takes no writes refuses as many as there are requests: of each reason, one line per so many ms says how many. */
const refusedEveryMs = 10_000;
/** Attempts at a decision that keeps meeting conflicts; then its caller gets `unavailable`. */
const decisionsMax = 20;

type RecorderPorts = Pick<HubPorts, 'clock' | 'log' | 'meter'> & { readonly secrets: Pick<Secrets, 'newId'> };

export class Recorder {
  readonly #store: Store;
  readonly #ports: RecorderPorts;
  /** For each commit of unknown outcome, what ends the wait before its next retry. [RECORDER-4] */
  readonly #doubts = new Map<object, AbortController>();
  /** Refuse callers whose turn has not come. [RECORDER-4] */
  readonly #queued = new Set<() => void>();
  #isEnding = false;
  /** Writes in flight. */
  #writing = 0;
  readonly #turns = new Map<string, Promise<unknown>>();
  /** Decisions that are being repeated after a conflict. [RECORDER-6] */
  readonly #again = new Set<Promise<unknown>>();
  /** Committed events, in order of sequence. [RECORDER-3] */
  readonly feed: CommitFeed;

  readonly #refused: (line: { err: unknown; inDoubt: boolean }, reason: string) => void;
  readonly #unrecorded: (line: { err: unknown; events: readonly string[] }, reason: string) => void;

  constructor(store: Store, ports: RecorderPorts, isDoor = false) {
    this.#store = store;
    this.#ports = ports;
    const { clock, log } = ports;
    this.#refused = sampled(clock, refusedEveryMs, ({ err, inDoubt }, count) =>
      log.error({ err, inDoubt, count }, 'write refused by the store'),
    );
    this.#unrecorded = sampled(clock, refusedEveryMs, ({ err, events }, count) =>
      log.error({ err, events, count }, 'could not record events'),
    );
    this.feed = new CommitFeed(store, ports.clock, ports.log, isDoor);
    store.onHealth(({ state }) => {
      if (state === 'open') for (const wait of this.#doubts.values()) wait.abort();
    });
  }

  /** The time of day in the format of events. */
  instant(): string {
    return instantText(this.#ports.clock.wall());
  }

  /**
   * Resolves with the sequence of the last fact when the commit is durable. Throws `unavailable` when the store cannot
   * write, and `Conflict` when a row of `seen` has changed.
   */
  async record(recording: Recording): Promise<Seq> {
    const fence = this.#store.held();
    if ((!fence && !recording.unfenced) || this.#doubts.size > 0) throw new HubError('unavailable', { retryAfterS: 1 });
    const { at = this.instant() } = recording;
    const events = recording.facts.map((fact) => ({
      stream: fact.stream,
      type: fact.event.type,
      at: fact.at ?? at,
      party: fact.party,
      // Empty where what is followed up after a restart was no request.
      correlationId: (fact.correlationId ?? recording.trace?.correlationId) || null,
      to: fact.to ?? [],
      data: fact.event.data,
      body: fact.body ?? null,
    }));
    const operator = recording.trace?.operator;
    const isSigned = operator !== undefined;
    const written = isSigned ? events.map((event) => ({ ...event, data: signed(event.data, operator) })) : events;
    const { puts, due, seen } = recording;
    const commit = {
      fence,
      idem: this.#ports.secrets.newId(),
      events: written,
      ...(puts && { puts }),
      ...(due && { due }),
      ...(seen && { seen }),
    };
    const waiting = ++this.#writing;
    const begun = performance.now();
    try {
      const { first, last } = await this.#append(commit);
      this.#ports.meter.committed((performance.now() - begun) / 1000, waiting);
      this.#doubts.delete(commit);
      for (const [index, event] of events.entries()) this.feed.committed({ seq: first + index, ...event });
      return last;
    } finally {
      this.#writing -= 1;
      if (!this.#isEnding) this.#doubts.delete(commit);
    }
  }

  /**
   * Like `record`, for a change of partners or routes; it also waits until the change is dispatched. After 5 s it throws
   * `unavailable`, or resolves when `late` is `answer`. `dispatched` is called then or later, with the sequence of the
   * last fact, and must not throw. [RECORDER-5, RECORDER-7, RECORDER-8]
   */
  async recordDirectory(
    { puts = [], at = this.instant(), ...recording }: Recording,
    dispatched: (seq: Seq) => void = () => {},
    late: 'refuse' | 'answer' = 'refuse',
  ): Promise<Seq> {
    // A recording with `seen` may itself be a repeated decision: waiting here would make it wait for itself.
    if (!recording.seen) await this.repeatsEnded();
    const seq = await this.record({ ...recording, at, puts: [...puts, directoryPut] });
    this.feed.onReached(seq, () => dispatched(seq));
    await this.feed.reached(seq).catch((error: unknown) => {
      if (late === 'refuse') throw error;
      this.#ports.log.warn({ err: error }, 'answered with a token that this node does not know yet');
    });
    return seq;
  }

  /** Resolves when the decisions that are being repeated have ended: for many changes of routes, which state their rows. [RECORDER-6] */
  async repeatsEnded(): Promise<void> {
    await Promise.allSettled(this.#again);
  }

  /** Records a fact that no caller waits for; a failure is logged and counted. */
  note(recording: Noted): void {
    this.record(recording).catch((error: unknown) => {
      for (const { event } of recording.facts) {
        this.#ports.meter.unrecorded(event.type);
        this.#unrecorded({ err: error, events: [event.type] }, String(error));
      }
    });
  }

  /** From now on nothing waits until the outcome of a commit is known. [RECORDER-4] */
  giveUp(): void {
    this.#isEnding = true;
    for (const wait of this.#doubts.values()) wait.abort();
  }

  /**
   * Runs the work after all earlier work of the same key. [RECORDER-2] The work adds every row that it reads to `seen`
   * and passes `seen` to `record`. When one of these rows was written meanwhile, the work runs again, so it must have
   * no side effect before `record`. [RECORDER-6]
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

  /** Like `inTurn`, but refused with `unavailable` when a commit is in doubt before its turn comes. [RECORDER-4] */
  inTurnUnlessInDoubt<T>(key: string, work: (seen: Seen[]) => Promise<T>): Promise<T> {
    if (!this.#turns.has(key)) return this.inTurn(key, work);
    // Before it queues: the store may be away for hours, and a queued body stays in memory until then.
    if (this.#doubts.size > 0) return Promise.reject(new HubError('unavailable', { retryAfterS: 1 }));
    return new Promise((resolve, reject) => {
      let isRefused = false;
      const refuse = () => {
        isRefused = true;
        this.#queued.delete(refuse);
        reject(new HubError('unavailable', { retryAfterS: 1 }));
      };
      this.#queued.add(refuse);
      const begin = async (seen: Seen[]): Promise<T | undefined> => {
        this.#queued.delete(refuse);
        return isRefused ? undefined : work(seen);
      };
      this.inTurn(key, begin).then((done) => resolve(done as T), reject);
    });
  }

  async #decide<T>(work: (seen: Seen[]) => Promise<T>, triesLeft: number): Promise<T> {
    try {
      return await work([]);
    } catch (error) {
      if (!isConflict(error)) throw error;
      if (triesLeft > 1) return this.#decideAgain(work, triesLeft - 1);
      this.#ports.log.warn({ err: error, decisions: decisionsMax }, 'a decision met a conflict at every attempt');
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

  async #append(commit: Parameters<Store['append']>[0]) {
    for (let logged = ''; ; ) {
      try {
        return await this.#store.append(commit);
      } catch (error) {
        const { name: kind, message } = error instanceof Error ? error : { name: '', message: '' };
        if (!refusals.has(kind)) throw error;
        const wait = new AbortController();
        if (kind === 'OutcomeUnknown' || this.#doubts.has(commit)) this.#doubts.set(commit, wait);
        const inDoubt = this.#doubts.has(commit);
        if (inDoubt) for (const refuse of this.#queued) refuse();
        // A store may be away for hours, and is asked every `askAgainMs`.
        if (message !== logged) this.#refused({ err: error, inDoubt }, message);
        logged = message;
        // The commit may be in the log. Nothing may be decided on what it changed until its outcome is known; its
        // idempotency key makes a retry safe.
        if (!inDoubt) throw new HubError('unavailable', { retryAfterS: 1 });
        if (this.#isEnding || kind === 'Fenced' || this.#store.health().state === 'closed') {
          throw new HubError('outcomeUnknown');
        }
        await sleep(this.#ports.clock, askAgainMs, wait.signal);
      }
    }
  }
}

const isConflict = (error: unknown): error is Conflict => error instanceof Error && error.name === 'Conflict';

// Coalesces facts that no caller waits for: the facts of 20 ms go to the store as one commit.

/** How long facts are gathered, ms: a crash loses the facts of this span. */
const gatherMs = 20;
/** Flush threshold, in facts: about the size of one batch of the store. */
const gatheredMax = 256;

/** [RECORDER-9] */
type Timed = Noted['facts'][number] & { readonly at: string };

export class WriteCoalescer {
  readonly #recorder: { note(recording: Noted): void };
  readonly #clock: Clock;
  #gathered: Timed[] = [];
  #closed = false;

  constructor(recorder: { note(recording: Noted): void }, clock: Clock) {
    this.#recorder = recorder;
    this.#clock = clock;
  }

  add(fact: Timed): void {
    this.#gathered.push(fact);
    if (this.#closed || this.#gathered.length >= gatheredMax) this.#handOver();
    else if (this.#gathered.length === 1) this.#clock.setTimeout(() => this.#handOver(), gatherMs);
  }

  close(): void {
    this.#closed = true;
    this.#handOver();
  }

  #handOver(): void {
    const facts = this.#gathered;
    this.#gathered = [];
    if (facts.length > 0) this.#recorder.note({ facts, unfenced: true, trace: null });
  }
}
