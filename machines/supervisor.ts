/**
 * Registry of all running actors, and what happens when one throws.
 *
 * V1  Every actor is a root actor of its own: an error takes down that one alone.
 * V2  An actor that throws is rebuilt from the log after a back-off (100 ms, doubling to 5 s); the events sent to it meanwhile
 *     wait, and those that the log already held are not applied twice.
 * V3  After `restartsMax` restarts within a minute it is quarantined: visible, silent, and in nobody's way.
 * V4  A send that reaches nobody is counted, never thrown.
 * V5  Observers can neither slow nor break an actor: what they throw is caught.
 */
import {
  type Actor,
  type AnyStateMachine,
  createActor,
  type EventFromLogic,
  type EventObject,
  type InputFrom,
  initialTransition,
  type SnapshotFrom,
  transition,
} from 'xstate';
import type { DeadlineClock } from './deadline.ts';

/** A recorded fact as its machine hears it; `seq` tells whether a fold has already seen it. */
export interface HeardEvent extends EventObject {
  /** Epoch milliseconds. */
  readonly at?: number;
  readonly data?: unknown;
  readonly seq?: number;
}

export interface ActorSpec<Logic extends AnyStateMachine> {
  /** Stable and speaking: `partner:NL-CPO`. */
  readonly id: string;
  readonly kind: string;
  /** With its hands provided. */
  readonly machine: Logic;
  readonly input: InputFrom<Logic>;
  /** Its recorded facts, oldest first. */
  readonly history: () => Promise<readonly HeardEvent[]>;
  /** Called after it was rebuilt, to arm what it waits for. */
  readonly restored?: (snapshot: SnapshotFrom<Logic>) => void;
}

export interface ActorView {
  readonly id: string;
  readonly kind: string;
  readonly status: 'active' | 'restarting' | 'quarantined';
  readonly snapshot: SnapshotFrom<AnyStateMachine> | null;
  readonly restarts: number;
  readonly error: string | null;
}

export interface SupervisorHooks {
  /** After every event that an actor took, and when one came, failed or went (`snapshot` null when it is gone). */
  readonly changed?: (view: ActorView, event: EventObject | null) => void;
  readonly failed: (view: ActorView, error: unknown) => void;
  readonly quarantined: (view: ActorView, error: unknown) => void;
}

interface Entry {
  readonly spec: ActorSpec<AnyStateMachine>;
  actor: Actor<AnyStateMachine> | null;
  status: ActorView['status'];
  waiting: HeardEvent[];
  restartedAt: number[];
  restarts: number;
  error: string | null;
}

const backoffMs = 100;
const backoffMsMax = 5_000;
const restartsMax = 5;
const restartsWithinMs = 60_000;
const waitingMax = 10_000;

export class Supervisor {
  readonly #entries = new Map<string, Entry>();
  readonly #clock: DeadlineClock;
  readonly #hooks: SupervisorHooks;
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
    this.#run(entry, createActor(entry.spec.machine, { input: spec.input }));
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
    if (entry?.status === 'active' && entry.actor) {
      entry.actor.send(event);
      this.#changed(entry, event);
    } else if (entry?.status === 'restarting' && entry.waiting.length < waitingMax) {
      entry.waiting.push(event);
    } else {
      this.#lost++;
    }
  }

  /** The present snapshot; undefined while there is none. The caller names the machine that the id belongs to. */
  snapshot<Logic extends AnyStateMachine>(_machine: Logic, id: string): SnapshotFrom<Logic> | undefined {
    return this.#entries.get(id)?.actor?.getSnapshot() as SnapshotFrom<Logic> | undefined;
  }

  stop(id: string): void {
    const entry = this.#entries.get(id);
    if (!entry) return;
    this.#entries.delete(id);
    entry.actor?.stop();
    entry.actor = null;
    this.#changed(entry, null);
  }

  *views(): Iterable<ActorView> {
    for (const entry of this.#entries.values()) yield view(entry);
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
      actor: null,
      status: 'restarting',
      waiting: [],
      restartedAt: [],
      restarts: 0,
      error: null,
    };
    this.#entries.set(spec.id, entry);
    return entry;
  }

  #run(entry: Entry, actor: Actor<AnyStateMachine>): void {
    entry.actor = actor;
    entry.status = 'active';
    // An error without a handler would be thrown globally and end the process.
    actor.subscribe({ error: (error) => this.#failed(entry, error) });
    actor.start();
    this.#changed(entry, null);
  }

  async #rebuild(entry: Entry): Promise<void> {
    try {
      const { machine, input, history, restored } = entry.spec;
      const facts = await history();
      if (this.#entries.get(entry.spec.id) !== entry) return;
      let [snapshot] = initialTransition(machine, input);
      for (const fact of facts) [snapshot] = transition(machine, snapshot, fact as EventFromLogic<AnyStateMachine>);
      const actor = createActor(machine, { snapshot: machine.getPersistedSnapshot(snapshot), input });
      const folded = facts.at(-1)?.seq ?? 0;
      const waiting = entry.waiting.filter((event) => event.seq === undefined || event.seq > folded);
      entry.waiting = [];
      this.#run(entry, actor);
      restored?.(actor.getSnapshot());
      for (const event of waiting) this.send(entry.spec.id, event);
    } catch (error) {
      this.#failed(entry, error);
    }
  }

  #failed(entry: Entry, error: unknown): void {
    if (this.#closed || this.#entries.get(entry.spec.id) !== entry || entry.status === 'quarantined') return;
    const now = this.#clock.now();
    entry.status = 'restarting';
    entry.actor = null;
    entry.error = error instanceof Error ? error.message : String(error);
    entry.restartedAt = [...entry.restartedAt.filter((at) => now - at < restartsWithinMs), now];
    if (entry.restartedAt.length > restartsMax) {
      entry.status = 'quarantined';
      this.#lost += entry.waiting.length;
      entry.waiting = [];
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
    try {
      this.#hooks.changed?.(view(entry), event);
    } catch {
      // [V5] An observer's error is the observer's own.
    }
  }
}

function view(entry: Entry): ActorView {
  return {
    id: entry.spec.id,
    kind: entry.spec.kind,
    status: entry.status,
    snapshot: entry.actor?.getSnapshot() ?? null,
    restarts: entry.restarts,
    error: entry.error,
  };
}
