/**
 * State shared by all readers of the inspector who may see the same: the changes since the last tick, and the messages made of them: the wire
 * protocol of `@statelyai/inspect`, and two messages of the hub's own that its clients ignore. docs/INSPECTOR.md describes them.
 *
 * INSPECTOR-FEED-1  A message about a change is serialized once for all readers, when the first of them can take it.
 *     [delivery, Actors 5]
 * INSPECTOR-FEED-2  Memory is bounded by what happens within one tick: the last few events of each actor, and a count.
 * INSPECTOR-FEED-3  Without a reader the feed watches nothing and runs no timer.
 */

import type { WatchedActor, WatchedEvent, Watcher } from '../hub/ports/actor-view.ts';
import type { Operations } from '../hub/ports/operator.ts';
import { type Clock, every } from '../kit/clock.ts';

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

/** The version of `@statelyai/inspect` whose protocol this is. */
const protocolVersion = '0.7.2';

/** The protocol's event for a snapshot whose event is unknown. */
const noEvent: WatchedEvent = { type: '' };

interface Messages {
  readonly actor: (actor: WatchedActor, withDefinition: boolean) => Buffer;
  /** `at`: when the actor received the event, epoch milliseconds. */
  readonly event: (actor: WatchedActor, event: WatchedEvent, at: number) => Buffer;
  readonly snapshot: (actor: WatchedActor, event?: WatchedEvent) => Buffer;
}

/** `shown`: what readers may see of a message. */
function messages(now: () => number, shown: (message: object) => unknown): Messages {
  let count = 0;
  const framed = (message: object) => bytesOf(shown(message));
  // A hub's actors have neither parents nor children: each is its own root.
  const head = (type: string, sessionId: string, at: number) => ({
    type,
    sessionId,
    rootId: sessionId,
    id: String(++count),
    createdAt: String(at),
    _version: protocolVersion,
  });
  return {
    actor(actor, withDefinition) {
      const { id, kind: name, definition, parties, snapshot } = actor;
      const defined = withDefinition ? { definition } : {};
      return framed({
        ...head('@xstate.actor', id, now()),
        name,
        ...defined,
        parties,
        snapshot,
        ...supervision(actor),
      });
    },
    event: ({ id }, event, at) => framed({ ...head('@xstate.event', id, at), event }),
    snapshot: (actor, event = noEvent) =>
      framed({ ...head('@xstate.snapshot', actor.id, now()), event, snapshot: actor.snapshot, ...supervision(actor) }),
  };
}

/** Says that all matching actors have been sent. */
export const complete = (actors: number): Buffer => bytesOf({ type: 'ocpi-hub.complete', actors });

/** Reports skipped events: since the last report, and in all. */
export const missed = (count: number, total: number): Buffer => bytesOf({ type: 'ocpi-hub.missed', count, total });

function supervision({ state, restarts, error }: WatchedActor) {
  return { supervision: { state, restarts, error } };
}

function bytesOf(message: unknown): Buffer {
  return Buffer.from(JSON.stringify(message));
}
