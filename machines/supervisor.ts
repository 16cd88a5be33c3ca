/**
 * Registry of all running actors; restarts those that throw and quarantines those that keep throwing.
 *
 * SUPERVISOR-1  Every actor is a root actor: an error stops only the actor that throws.
 * SUPERVISOR-2  An actor that throws is rebuilt from the log after a back-off (100 ms, doubling to 5 s). Events sent to
 *     it meanwhile wait; those that the log already held are not applied twice.
 * SUPERVISOR-3  After `restartsMax` restarts within a minute the actor is quarantined: it stays visible, takes no more
 *     events and affects no other actor.
 * SUPERVISOR-4  A send that reaches no actor is counted, and does not throw.
 * SUPERVISOR-5  An observer cannot break an actor: the supervisor catches what it throws.
 * SUPERVISOR-6  An actor takes one event at a time: an event that its own effects send to it waits for its turn.
 * SUPERVISOR-7  A failed read of its facts is no failure of an actor and no restart: it is read again every second without limit.
 */
import type { AnyStateMachine, EventObject, InputFrom, SnapshotFrom } from 'xstate';
import type { PartyId } from '../src/domain/party.ts';
import { begin, fold, take } from './machine-runner.ts';

interface SupervisorClock {
  /** Hub time, epoch ms; must not step. */
  now(): number;
  setTimeout(fn: () => void, timeoutMs: number): unknown;
}

/** A recorded fact in the form that its machine takes; by `seq` a rebuild skips facts that the fold contains. */
export interface HeardEvent extends EventObject {
  /** Epoch milliseconds. */
  readonly at?: number;
  readonly data?: unknown;
  readonly seq?: number;
}

export interface ActorSpec<Logic extends AnyStateMachine> {
  /** Stable and readable: `partner:NL-CPO`. */
  readonly id: string;
  readonly kind: string;
  /**
   * With its effects implemented (`provide`). All actors of a kind share one machine, because a machine takes more
   * memory than its actors; effects identify the actor by `self.id`.
   */
  readonly machine: Logic;
  readonly input: InputFrom<Logic>;
  /** Parties that the actor concerns. */
  readonly parties: readonly PartyId[];
  /** Reads the actor's recorded facts, oldest first. */
  readonly history: () => Promise<readonly HeardEvent[]>;
  /** Called after a rebuild, to arm the deadlines that the actor waits for. */
  readonly restored?: (snapshot: SnapshotFrom<Logic>) => void;
}

export interface ActorView {
  readonly id: string;
  readonly kind: string;
  readonly parties: readonly PartyId[];
  readonly machine: AnyStateMachine;
  readonly status: 'active' | 'restarting' | 'quarantined' | 'ended';
  /** Null while the actor is being rebuilt, and when it is quarantined. */
  readonly snapshot: SnapshotFrom<AnyStateMachine> | null;
  readonly restarts: number;
  readonly error: string | null;
}

/** Observer of actors. Its functions run while an actor takes an event, so a slow one delays that actor. */
export interface ActorWatcher {
  /** The actor took an event, or started, failed or was rebuilt (`event` null); `view` has its present state. */
  readonly changed: (id: string, event: EventObject | null) => void;
  /** The actor was stopped and removed. */
  readonly ended: (last: ActorView) => void;
}

export interface SupervisorHooks {
  /** The actor threw. */
  readonly failed: (view: ActorView, error: unknown) => void;
  /** The facts of the actor could not be read. [SUPERVISOR-7] */
  readonly unread: (view: ActorView, error: unknown) => void;
  readonly quarantined: (view: ActorView, error: unknown) => void;
}

interface Entry {
  readonly spec: ActorSpec<AnyStateMachine>;
  snapshot: SnapshotFrom<AnyStateMachine> | null;
  status: ActorView['status'];
  /** The actor is taking an event. */
  isBusy: boolean;
  /** Mailbox; null when empty, which saves memory for nearly all actors. */
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
/** Events that wait for one actor at most; further ones count as lost sends. */
const waitingMax = 10_000;
/** Shared by the actors that never failed, nearly all, to save memory. */
const none: readonly never[] = [];

export class Supervisor {
  readonly #entries = new Map<string, Entry>();
  readonly #clock: SupervisorClock;
  readonly #hooks: SupervisorHooks;
  readonly #watchers = new Set<ActorWatcher>();
  #lost = 0;
  #closed = false;

  constructor(clock: SupervisorClock, hooks: SupervisorHooks) {
    this.#clock = clock;
    this.#hooks = hooks;
  }

  /** Sends that reached no actor. [SUPERVISOR-4] */
  get lost(): number {
    return this.#lost;
  }

  /** Starts an actor without history; its entry effects run. */
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

  /** Restores an actor from its recorded facts; runs no effect but calls `restored`. */
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

  /** The present snapshot; undefined while there is none. The caller passes the machine of the id, for its type. */
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

  /** Reports every change until the returned function is called; costs nothing without watchers. */
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
      // One registry holds every kind of actor; the compiler checked the pair of machine and input at the call.
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

  /** Runs `first`, then takes the events sent meanwhile. [SUPERVISOR-1, SUPERVISOR-6] */
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
    const { machine, input, restored } = entry.spec;
    const folded = facts.at(-1)?.seq ?? 0;
    this.#work(entry, () => {
      const snapshot = fold(machine, input, facts);
      entry.waiting = entry.waiting?.filter(({ seq }) => seq === undefined || seq > folded) ?? null;
      this.#run(entry, snapshot);
      restored?.(snapshot);
    });
  }

  /** Reads the facts; null when that fails. [SUPERVISOR-7] */
  async #factsOf(entry: Entry): Promise<readonly HeardEvent[] | null> {
    try {
      return await entry.spec.history();
    } catch (error) {
      if (this.#closed || this.#entries.get(entry.spec.id) !== entry) return null;
      entry.error = error instanceof Error ? error.message : String(error);
      this.#clock.setTimeout(() => void this.#rebuild(entry), readAgainMs);
      this.#hooks.unread(view(entry), error);
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
        // [SUPERVISOR-5] An error of an observer must not reach the actor.
      }
    }
  }
}

function view({ spec, snapshot, status, restarts, error }: Entry): ActorView {
  const { id, kind, parties, machine } = spec;
  return { id, kind, parties, machine, status, snapshot, restarts, error };
}
