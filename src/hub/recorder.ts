/**
 * The only writer: decide → append → apply → dispatch, in that order.
 *
 * R1  Nothing is applied or dispatched before it is durable.
 * R2  Work on one thing runs in turn, so a decision always sees what the one before it stored.
 * R3  Committed events are dispatched in order of sequence, without a gap.
 */
import type { Put, Seq, Shard, Store, StoredEvent } from '../../storage/contract.ts';
import { HubError } from '../domain/errors.ts';
import type { HubEvent } from '../domain/events.ts';
import type { PartyId } from '../domain/party.ts';
import type { Trace } from '../domain/trace.ts';
import { type Clock, type Log, type Meter, noMeter } from './ports.ts';

export interface Fact {
  readonly stream: string;
  readonly event: HubEvent;
  /** Who caused it; null for the hub or its operators. */
  readonly party: PartyId | null;
  readonly to?: readonly PartyId[];
  readonly body?: string | null;
}

export interface Recording {
  /** The party whose shard takes it. */
  readonly shardOf: PartyId;
  readonly facts: readonly Fact[];
  readonly puts?: readonly Put[];
  readonly due?: readonly { key: string; at: string | null }[];
  readonly trace: Pick<Trace, 'correlationId'> | null;
  /** RFC 3339, from `instant()`; the time of the facts. */
  readonly at: string;
}

const refusals: ReadonlySet<string> = new Set(['StoreUnavailable', 'OutcomeUnknown', 'Fenced']);
const askAgainMs = 200;

export class Recorder {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #newId: () => string;
  readonly #meter: Meter;
  /** Writes under way. */
  #writing = 0;
  readonly #turns = new Map<string, Promise<unknown>>();
  /** Sequence up to which events were dispatched, and those that came before a gap was filled. */
  readonly #dispatched = new Map<Shard, Seq>();
  readonly #early = new Map<Shard, Map<Seq, StoredEvent>>();
  #listener: (event: StoredEvent) => void = () => {};

  constructor(store: Store, clock: Clock, log: Log, newId: () => string, meter: Meter = noMeter) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#newId = newId;
    this.#meter = meter;
  }

  /** Called with every committed event, in order. Must not throw. */
  onCommitted(listener: (event: StoredEvent) => void): void {
    this.#listener = listener;
  }

  /** Now, as it stands in events. */
  instant(): string {
    return new Date(this.#clock.now()).toISOString();
  }

  /** Dispatching begins behind this sequence; what lies before it is recovery's. */
  startAt(shard: Shard, seq: Seq): void {
    this.#dispatched.set(shard, seq);
  }

  dispatchedTo(shard: Shard): Seq {
    return this.#dispatched.get(shard) ?? 0;
  }

  /** Resolves when it is durable, with the sequence of the last fact. Refuses with `unavailable` when the store cannot write. */
  async record(recording: Recording): Promise<Seq> {
    const shard = this.#store.shardOf(recording.shardOf);
    const fence = this.#store.held(shard);
    if (!fence) throw new HubError('unavailable', { retryAfterS: 1 });
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
    const { first, last } = await this.#measured({ fence, idem: this.#newId(), events, ...rest(recording) });
    for (const [index, event] of events.entries()) this.#committed({ ...event, shard, seq: first + index });
    return last;
  }

  /** Records what nobody waits for: a failure is logged, since no caller is there to be told. */
  note(recording: Recording): void {
    this.record(recording).catch((error: unknown) => {
      this.#log.error({ err: error, events: recording.facts.map((fact) => fact.event.type) }, 'could not record');
    });
  }

  /** Runs work on one thing after the work on it that came before. [R2] */
  async inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(key);
    const mine = before ? before.then(work, work) : work();
    this.#turns.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#turns.get(key) === mine) this.#turns.delete(key);
    }
  }

  async #measured(commit: Parameters<Store['append']>[0]) {
    const waiting = ++this.#writing;
    const begun = performance.now();
    try {
      const written = await this.#append(commit);
      this.#meter.committed((performance.now() - begun) / 1000, waiting);
      return written;
    } finally {
      this.#writing--;
    }
  }

  async #append(commit: Parameters<Store['append']>[0]) {
    for (let inDoubt = false; ; ) {
      try {
        return await this.#store.append(commit);
      } catch (error) {
        const kind = error instanceof Error ? error.name : '';
        if (!refusals.has(kind)) throw error;
        inDoubt ||= kind === 'OutcomeUnknown';
        this.#log.error({ err: error, inDoubt }, 'write refused by the store');
        // It may be in the log: until that is known nothing may be decided on what it changed. Asking again is safe, by its key.
        if (!inDoubt || kind === 'Fenced' || this.#store.health().state === 'closed') {
          throw new HubError('unavailable', { retryAfterS: 1 });
        }
        await new Promise<void>((resolve) => this.#clock.setTimeout(() => resolve(), askAgainMs));
      }
    }
  }

  #committed(event: StoredEvent): void {
    const { shard, seq } = event;
    const next = this.dispatchedTo(shard) + 1;
    if (seq < next) return;
    if (seq > next) {
      const early = this.#early.get(shard) ?? new Map<Seq, StoredEvent>();
      this.#early.set(shard, early.set(seq, event));
      return;
    }
    this.#dispatched.set(shard, seq);
    this.#listener(event);
    const waiting = this.#early.get(shard)?.get(seq + 1);
    if (!waiting) return;
    this.#early.get(shard)?.delete(seq + 1);
    this.#committed(waiting);
  }
}

function rest(recording: Recording): { puts?: readonly Put[]; due?: readonly { key: string; at: string | null }[] } {
  return { ...(recording.puts && { puts: recording.puts }), ...(recording.due && { due: recording.due }) };
}
