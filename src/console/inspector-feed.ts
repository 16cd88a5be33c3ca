/**
 * State shared by all readers of the inspector who may see the same: the changes since the last tick, and the messages made of them.
 *
 * INSPECTOR-FEED-1  A message about a change is serialized once for all readers, when the first of them can take it.
 *     [delivery, Actors 5]
 * INSPECTOR-FEED-2  Memory is bounded by what happens within one tick: the last few events of each actor, and a count.
 * INSPECTOR-FEED-3  Without a reader the feed watches nothing and runs no timer.
 */

import type { WatchedActor, WatchedEvent, Watcher } from '../hub/ports/actor-view.ts';
import type { Operations } from '../hub/ports/operator.ts';
import { type Clock, every } from '../kit/clock.ts';
import { type Messages, messages } from './inspector-messages.ts';

/** Changes of one actor between two ticks. */
export interface Change {
  /** Its state at the tick, or its last one; undefined when it has gone meanwhile: the next tick reports its end. */
  actor: WatchedActor | undefined;
  readonly events: { readonly event: WatchedEvent; readonly at: number }[];
  /** Number of events that it received, including those not kept in `events`. */
  count: number;
}

/** Messages about one actor. */
export interface Frames {
  readonly actor: WatchedActor;
  readonly events: () => readonly Buffer[];
  readonly snapshot: () => Buffer;
}

export interface FeedReader {
  mark(changes: ReadonlyMap<string, Change>): void;
  pull(): void;
}

const tickMs = 50;
/** How many events of one actor are kept within a tick, the newest; a reader gets only a count of the others. */
const eventsMax = 8;

export class Feed {
  readonly messages: Messages;
  readonly #operations: Pick<Operations, 'actors' | 'actor' | 'watch'>;
  readonly #clock: Clock;
  readonly #readers = new Set<FeedReader>();
  /** `#coming` collects the changes since the last tick; `#recent` holds those up to it. */
  #coming = new Map<string, Change>();
  #recent: ReadonlyMap<string, Change> = new Map();
  /** Messages of this tick by actor id. */
  readonly #frames = new Map<string, Frames>();
  #stop: (() => void) | null = null;

  constructor(
    operations: Pick<Operations, 'actors' | 'actor' | 'watch'>,
    clock: Clock,
    shown: (message: object) => unknown,
  ) {
    this.#operations = operations;
    this.#clock = clock;
    this.messages = messages(() => clock.wall(), shown);
  }

  add(reader: FeedReader): void {
    this.#readers.add(reader);
    this.#stop ??= this.#start();
  }

  remove(reader: FeedReader): void {
    this.#readers.delete(reader);
    if (this.#readers.size > 0) return;
    this.#stop?.();
    this.#stop = null;
  }

  actors(): Iterable<WatchedActor> {
    return this.#operations.actors();
  }

  actor(id: string): WatchedActor | undefined {
    return this.#operations.actor(id);
  }

  /**
   * Messages about an actor in its present or last state; null when there is nothing to report: the actor has gone, or
   * the next tick reports it.
   */
  frames(id: string, ended: WatchedActor | undefined): Frames | null {
    const made = this.#frames.get(id);
    if (made) return made;
    const change = this.#recent.get(id);
    const actor = ended ?? change?.actor ?? this.actor(id);
    if (!actor) return null;
    const frames = framesOf(this.messages, actor, change);
    this.#frames.set(id, frames);
    return frames;
  }

  #start(): () => void {
    const watcher: Watcher = {
      changed: (id, event) => {
        const change = this.#change(id);
        change.actor = undefined;
        if (event === null) return;
        change.count++;
        if (change.events.length === eventsMax) change.events.shift();
        change.events.push({ event, at: this.#clock.wall() });
      },
      ended: (last) => {
        this.#change(last.id).actor = last;
      },
    };
    const unwatch = this.#operations.watch(watcher);
    const stopTicks = every(this.#clock, tickMs, () => this.#tick());
    return () => {
      unwatch();
      stopTicks();
      this.#forget();
    };
  }

  #change(id: string): Change {
    const known = this.#coming.get(id);
    if (known) return known;
    const change: Change = { actor: undefined, events: [], count: 0 };
    this.#coming.set(id, change);
    return change;
  }

  #tick(): void {
    const changes = this.#coming;
    this.#forget();
    for (const [id, change] of changes) change.actor ??= this.actor(id);
    this.#recent = changes;
    for (const reader of this.#readers) {
      reader.mark(changes);
      reader.pull();
    }
  }

  #forget(): void {
    this.#coming = new Map();
    this.#recent = new Map();
    this.#frames.clear();
  }
}

function framesOf(make: Messages, actor: WatchedActor, change: Change | undefined): Frames {
  let events: Buffer[] | undefined;
  let snapshot: Buffer | undefined;
  return {
    actor,
    events: () => {
      events ??= change?.events.map(({ event, at }) => make.event(actor, event, at)) ?? [];
      return events;
    },
    snapshot: () => {
      snapshot ??= make.snapshot(actor, change?.events.at(-1)?.event);
      return snapshot;
    },
  };
}
