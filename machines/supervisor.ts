/**
 * Registry of all running actors, and what happens when one throws.
 *
 * SUPERVISOR-1  Every actor is a root actor of its own: an error takes down that one alone.
 * SUPERVISOR-2  An actor that throws is rebuilt from the log after a back-off (100 ms, doubling to 5 s); the events sent to it meanwhile
 *     wait, and those that the log already held are not applied twice.
 * SUPERVISOR-3  After `restartsMax` restarts within a minute it is quarantined: visible, silent, and in nobody's way.
 * SUPERVISOR-4  A send that reaches nobody is counted, never thrown.
 * SUPERVISOR-5  Observers can neither slow nor break an actor: what they throw is caught.
 * SUPERVISOR-6  An actor takes one event at a time: what its own hands send to it meanwhile waits for its turn.
 */
import type { AnyStateMachine, EventObject, InputFrom, SnapshotFrom } from 'xstate';
import type { PartyId } from '../src/domain/party.ts';
import type { DeadlineClock } from './deadline.ts';
import { begin, fold, take } from './machine-runner.ts';

/** A recorded fact as its machine hears it; `seq` tells whether a fold has already seen it. */
export interface HeardEvent extends EventObject {
  /** Epoch milliseconds. */
  readonly at?: number;
  readonly data?: unknown;
  readonly seq?: number;
  /** How many ends of calls it tells of; one when absent. */
  readonly calls?: number;
}

export interface ActorSpec<Logic extends AnyStateMachine> {
  /** Stable and speaking: `partner:NL-CPO`. */
  readonly id: string;
  readonly kind: string;
  /** With its hands provided; the same for all of a kind, since a machine costs more than its actors. Hands know whose by `self.id`. */
  readonly machine: Logic;
  readonly input: InputFrom<Logic>;
  /** Parties that it is about. */
  readonly parties: readonly PartyId[];
  /** Its recorded facts, oldest first. */
  readonly history: () => Promise<readonly HeardEvent[]>;
  /** Called after it was rebuilt, to arm what it waits for. */
  readonly restored?: (snapshot: SnapshotFrom<Logic>) => void;
}

export interface ActorView {
  readonly id: string;
  readonly kind: string;
  readonly parties: readonly PartyId[];
  readonly machine: AnyStateMachine;
  readonly status: 'active' | 'restarting' | 'quarantined' | 'ended';
  /** Null while it is rebuilt, and when it was given up. */
  readonly snapshot: SnapshotFrom<AnyStateMachine> | null;
  readonly restarts: number;
  readonly error: string | null;
}

/** Called while an actor's events are handled: must be quick. */
export interface ActorWatcher {
  /** It took an event, or it came, failed or came back (`event` null); `view` tells how it stands. */
  readonly changed: (id: string, event: EventObject | null) => void;
  /** It is gone. */
  readonly ended: (last: ActorView) => void;
}

export interface SupervisorHooks {
  readonly failed: (view: ActorView, error: unknown) => void;
  readonly quarantined: (view: ActorView, error: unknown) => void;
}

interface Entry {
  readonly spec: ActorSpec<AnyStateMachine>;
  snapshot: SnapshotFrom<AnyStateMachine> | null;
  status: ActorView['status'];
  /** An event is being taken. */
  isBusy: boolean;
  /** Null when nothing waits, as of nearly all. */
  waiting: HeardEvent[] | null;
  restartedAt: readonly number[];
  restarts: number;
  error: string | null;
}

const backoffMs = 100;
const backoffMsMax = 5_000;
const readAgainMs = 1_000;
const restartsMax = 5;
const restartsWithinMs = 60_000;
const waitingMax = 10_000;
/** Most actors never fail: they share one empty list. */
const none: readonly never[] = [];

export class Supervisor {
  readonly #entries = new Map<string, Entry>();
  readonly #clock: DeadlineClock;
  readonly #hooks: SupervisorHooks;
  readonly #watchers = new Set<ActorWatcher>();
  #lost = 0;
  #closed = false;

  constructor(clock: DeadlineClock, hooks: SupervisorHooks) {
    this.#clock = clock;
    this.#hooks = hooks;
  }

  /** Sends that reached nobody. */
  get lost(): number {
    return this.#lost;
  }

  /** Starts an actor that has no history yet: its entry effects run. */
  start<Logic extends AnyStateMachine>(spec: ActorSpec<Logic>): void {
    const entry = this.#enter(spec);
    try {
      const { snapshot, effects } = begin(entry.spec.machine, spec.id, spec.input);
      this.#work(entry, () => {
        this.#run(entry, snapshot);
        effects();
      });
    } catch (error) {
      this.#failed(entry, error);
    }
  }

  /** Brings an actor back as its recorded facts say; no effect runs but `restored`. */
  async revive<Logic extends AnyStateMachine>(spec: ActorSpec<Logic>): Promise<void> {
    await this.#rebuild(this.#enter(spec));
  }

  has(id: string): boolean {
    return this.#entries.has(id);
  }

  send(id: string, event: HeardEvent): void {
    const entry = this.#entries.get(id);
    if (entry?.status === 'active' && !entry.isBusy) {
      this.#work(entry, () => this.#take(entry, event));
    } else if (entry && entry.status !== 'quarantined' && (entry.waiting?.length ?? 0) < waitingMax) {
      entry.waiting ??= [];
      entry.waiting.push(event);
    } else {
      this.#lost++;
    }
  }

  /** The present snapshot; undefined while there is none. The caller names the machine that the id belongs to. */
  snapshot<Logic extends AnyStateMachine>(_machine: Logic, id: string): SnapshotFrom<Logic> | undefined {
    return (this.#entries.get(id)?.snapshot ?? undefined) as SnapshotFrom<Logic> | undefined;
  }

  stop(id: string): void {
    const entry = this.#entries.get(id);
    if (!entry) return;
    this.#entries.delete(id);
    const last = entry.snapshot && { ...entry.snapshot, status: 'stopped' };
    const snapshot = last as SnapshotFrom<AnyStateMachine> | null;
    this.#tell((watcher) => watcher.ended({ ...view({ ...entry, snapshot }), status: 'ended' }));
  }

  *views(): Iterable<ActorView> {
    for (const entry of this.#entries.values()) yield view(entry);
  }

  view(id: string): ActorView | undefined {
    const entry = this.#entries.get(id);
    return entry && view(entry);
  }

  /** Tells of every change until the function that it returns is called; it costs nothing while nobody watches. */
  watch(watcher: ActorWatcher): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  close(): void {
    this.#closed = true;
    for (const id of [...this.#entries.keys()]) this.stop(id);
  }

  #enter<Logic extends AnyStateMachine>(spec: ActorSpec<Logic>): Entry {
    if (this.#entries.has(spec.id)) throw new Error(`actor ${spec.id} is already running`);
    const entry: Entry = {
      // One registry holds every kind; the pairing of machine and input was checked at the call.
      spec: spec as unknown as ActorSpec<AnyStateMachine>,
      snapshot: null,
      status: 'restarting',
      isBusy: false,
      waiting: null,
      restartedAt: none,
      restarts: 0,
      error: null,
    };
    this.#entries.set(spec.id, entry);
    return entry;
  }

  #run(entry: Entry, snapshot: SnapshotFrom<AnyStateMachine>): void {
    entry.snapshot = snapshot;
    entry.status = 'active';
    this.#changed(entry, null);
  }

  /** Does this, then takes what was sent meanwhile. [SUPERVISOR-1, SUPERVISOR-6] */
  #work(entry: Entry, first: () => void): void {
    entry.isBusy = true;
    try {
      first();
      while (entry.waiting && this.#isRunning(entry)) {
        const event = entry.waiting.shift();
        if (event) this.#take(entry, event);
        else entry.waiting = null;
      }
    } catch (error) {
      this.#failed(entry, error);
    } finally {
      entry.isBusy = false;
    }
  }

  #take(entry: Entry, event: HeardEvent): void {
    const { machine, id } = entry.spec;
    if (entry.snapshot?.status !== 'active') return;
    entry.snapshot = take(machine, id, entry.snapshot, event);
    if (this.#isRunning(entry)) this.#changed(entry, event);
  }

  #isRunning(entry: Entry): boolean {
    return this.#entries.get(entry.spec.id) === entry && entry.status === 'active';
  }

  async #rebuild(entry: Entry): Promise<void> {
    const facts = await this.#factsOf(entry);
    if (facts === null || this.#entries.get(entry.spec.id) !== entry) return;
    const { machine, id, input, restored } = entry.spec;
    const folded = facts.at(-1)?.seq ?? 0;
    this.#work(entry, () => {
      const snapshot = fold(machine, id, input, facts);
      entry.waiting = entry.waiting?.filter(({ seq }) => seq === undefined || seq > folded) ?? null;
      this.#run(entry, snapshot);
      restored?.(snapshot);
    });
  }

  /** Null when they cannot be read now: that is no fault of the actor, so it is tried again for as long as it takes. [SUPERVISOR-3] */
  async #factsOf(entry: Entry): Promise<readonly HeardEvent[] | null> {
    try {
      return await entry.spec.history();
    } catch (error) {
      if (this.#closed || this.#entries.get(entry.spec.id) !== entry) return null;
      entry.error = error instanceof Error ? error.message : String(error);
      this.#clock.setTimeout(() => void this.#rebuild(entry), readAgainMs);
      this.#hooks.failed(view(entry), error);
      return null;
    }
  }

  #failed(entry: Entry, error: unknown): void {
    if (this.#closed || this.#entries.get(entry.spec.id) !== entry || entry.status === 'quarantined') return;
    const now = this.#clock.now();
    entry.status = 'restarting';
    entry.snapshot = null;
    entry.error = error instanceof Error ? error.message : String(error);
    entry.restartedAt = [...entry.restartedAt.filter((at) => now - at < restartsWithinMs), now];
    if (entry.restartedAt.length > restartsMax) {
      entry.status = 'quarantined';
      this.#lost += entry.waiting?.length ?? 0;
      entry.waiting = null;
      this.#hooks.quarantined(view(entry), error);
    } else {
      const delayMs = Math.min(backoffMs * 2 ** (entry.restartedAt.length - 1), backoffMsMax);
      entry.restarts++;
      this.#clock.setTimeout(() => void this.#rebuild(entry), delayMs);
      this.#hooks.failed(view(entry), error);
    }
    this.#changed(entry, null);
  }

  #changed(entry: Entry, event: EventObject | null): void {
    if (this.#watchers.size > 0) this.#tell((watcher) => watcher.changed(entry.spec.id, event));
  }

  #tell(tell: (watcher: ActorWatcher) => void): void {
    for (const watcher of this.#watchers) {
      try {
        tell(watcher);
      } catch {
        // [SUPERVISOR-5] An observer's error is the observer's own.
      }
    }
  }
}

function view({ spec, snapshot, status, restarts, error }: Entry): ActorView {
  const { id, kind, parties, machine } = spec;
  return { id, kind, parties, machine, status, snapshot, restarts, error };
}
