/**
 * The running actors of all hubs on a store, as each of them shows them.
 *
 * V1  Nothing is asked, told or kept while nobody watches.
 * V2  A hub tells what has changed since it was last asked; of each actor its last few events. Who missed an answer is told all again.
 * V3  An actor that runs here is shown as it stands here, whatever another hub still says of it. What a hub that has fallen silent said is
 *     not shown any more.
 */
import { background, type Clock, every, withTimeout } from '../kit/clock.ts';
import { askShard } from './asked.ts';
import type { Core } from './core.ts';
import type { Peers } from './peers.ts';
import type { WatchedActor, WatchedEvent, Watcher } from './watched.ts';
import type { Watching } from './watching.ts';

const askEveryMs = 250;
/** A hub that says nothing, and one that asks nothing, for so long does not count any more. */
const silentMs = 5_000;
const eventsMax = 8;

/** Who asks, and the number of the last answer that it has of each hub. */
export interface WatchingAsked {
  readonly by: string;
  readonly after: Readonly<Record<string, number>>;
}

/** A definition is the same for all actors of a kind: it goes over the wire once. */
type Plain = Omit<WatchedActor, 'definition'>;

interface Told {
  readonly hub: string;
  readonly number: number;
  /** All actors, and not those alone that have changed. */
  readonly isAll: boolean;
  readonly definitions: Readonly<Record<string, string>>;
  readonly changes: readonly { readonly actor: Plain; readonly events: readonly WatchedEvent[] }[];
}

/** What one asker has not been told yet. */
interface Journal {
  number: number;
  readonly changes: Map<string, { events: WatchedEvent[]; last: WatchedActor | null }>;
  readonly defined: Set<string>;
  forget: unknown;
}

/** Tells other hubs of the actors that run here. */
export class Telling {
  readonly #hub: string;
  readonly #here: Watching;
  readonly #clock: Clock;
  readonly #journals = new Map<string, Journal>();
  #unwatch: (() => void) | null = null;

  constructor(hub: string, here: Watching, clock: Clock) {
    this.#hub = hub;
    this.#here = here;
    this.#clock = clock;
  }

  tell({ by, after }: WatchingAsked): Told {
    const known = this.#journals.get(by);
    const isAll = known === undefined || known.number !== after[this.#hub];
    const journal = isAll ? this.#journal(by, (known?.number ?? 0) + 1) : known;
    const changes = isAll ? [...this.#here.actors()].map((actor) => ({ actor, events: [] })) : this.#changed(journal);
    if (!isAll) journal.number += 1;
    journal.changes.clear();
    this.#clock.clearTimeout(journal.forget);
    journal.forget = this.#forgetLater(by);
    const definitions: Record<string, string> = {};
    const plain = changes.map(({ actor: { definition, ...actor }, events }) => {
      if (!journal.defined.has(actor.kind)) definitions[actor.kind] = definition;
      journal.defined.add(actor.kind);
      return { actor, events };
    });
    return { hub: this.#hub, number: journal.number, isAll, definitions, changes: plain };
  }

  close(): void {
    for (const [by, { forget }] of this.#journals) {
      this.#clock.clearTimeout(forget);
      this.#journals.delete(by);
    }
    this.#stop();
  }

  #changed({ changes }: Journal): { actor: WatchedActor; events: readonly WatchedEvent[] }[] {
    return [...changes].flatMap(([id, { events, last }]) => {
      const actor = last ?? this.#here.actor(id);
      return actor ? [{ actor, events }] : [];
    });
  }

  #journal(by: string, number: number): Journal {
    this.#clock.clearTimeout(this.#journals.get(by)?.forget);
    const journal: Journal = { number, changes: new Map(), defined: new Set(), forget: null };
    this.#journals.set(by, journal);
    this.#unwatch ??= this.#here.watch({
      changed: (id, event) => this.#note(id, event, null),
      ended: (last) => this.#note(last.id, null, last),
    });
    return journal;
  }

  #forgetLater(by: string): unknown {
    const forget = () => {
      this.#journals.delete(by);
      if (this.#journals.size === 0) this.#stop();
    };
    return background(this.#clock.setTimeout(forget, silentMs));
  }

  #note(id: string, event: WatchedEvent | null, last: WatchedActor | null): void {
    for (const { changes } of this.#journals.values()) {
      const change = changes.get(id) ?? { events: [], last };
      change.last = last;
      if (event !== null) change.events = [...change.events, event].slice(-eventsMax);
      changes.set(id, change);
    }
  }

  #stop(): void {
    this.#unwatch?.();
    this.#unwatch = null;
  }
}

/** A hub as it was last heard of. */
interface Heard {
  number: number;
  /** By the steady clock. */
  at: number;
  readonly actors: Map<string, WatchedActor>;
}

export class WatchingAll implements Watching {
  readonly #core: Core;
  readonly #peers: Peers;
  readonly #here: Watching;
  readonly #by: string;
  readonly #watchers = new Set<Watcher>();
  readonly #hubs = new Map<string, Heard>();
  readonly #definitions = new Map<string, string>();
  #stop: (() => void) | null = null;

  constructor(core: Core, peers: Peers, here: Watching, by: string) {
    this.#core = core;
    this.#peers = peers;
    this.#here = here;
    this.#by = by;
  }

  *actors(): Iterable<WatchedActor> {
    yield* this.#here.actors();
    for (const { actors } of this.#hubs.values())
      for (const actor of actors.values()) if (!this.#isHere(actor.id)) yield actor;
  }

  actor(id: string): WatchedActor | undefined {
    const here = this.#here.actor(id);
    if (here) return here;
    for (const { actors } of this.#hubs.values()) if (actors.has(id)) return actors.get(id);
    return undefined;
  }

  watch(watcher: Watcher): () => void {
    this.#watchers.add(watcher);
    const unwatch = this.#here.watch(watcher);
    this.#stop ??= this.#start();
    return () => {
      unwatch();
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) this.close();
    };
  }

  close(): void {
    this.#stop?.();
    this.#stop = null;
    this.#hubs.clear();
  }

  #isHere(id: string): boolean {
    return this.#core.supervisor.has(id);
  }

  #start(): () => void {
    let isOver = false;
    const askAll = async () => {
      await Promise.all(this.#peers.others().map((shard) => this.#ask(shard)));
      // Otherwise nobody watches any more, or others do since.
      if (!isOver) this.#dropSilent();
    };
    const stop = every(this.#core.ports.clock, askEveryMs, askAll, 0);
    return () => {
      isOver = true;
      stop();
    };
  }

  /** Never rejects, and does not wait for long: a hub that does not answer is shown as it was, for a while. */
  async #ask(shard: number): Promise<void> {
    const after = Object.fromEntries([...this.#hubs].map(([hub, { number }]) => [hub, number]));
    const asked: WatchingAsked = { by: this.#by, after };
    const answer = askShard<Told>(this.#core, shard, 'actors', asked).then(
      (told) => {
        if (this.#watchers.size > 0) this.#hear(told);
      },
      () => {},
    );
    await withTimeout(this.#core.ports.clock, silentMs, answer);
  }

  #hear({ hub, number, isAll, definitions, changes }: Told): void {
    for (const [kind, text] of Object.entries(definitions)) this.#definitions.set(kind, text);
    const heard = this.#hubs.get(hub) ?? { number, at: 0, actors: new Map() };
    this.#hubs.set(hub, heard);
    heard.number = number;
    heard.at = this.#core.ports.clock.monotonic();
    const told = new Set(changes.map(({ actor }) => actor.id));
    if (isAll) for (const [id, actor] of heard.actors) if (!told.has(id)) this.#end(heard, actor);
    for (const { actor: plain, events } of changes) {
      const actor = { ...plain, definition: this.#definitions.get(plain.kind) ?? '{}' };
      if (actor.state === 'ended') this.#end(heard, actor);
      else {
        heard.actors.set(actor.id, actor);
        if (this.#isHere(actor.id)) continue;
        const what = events.length > 0 ? events : [null];
        for (const watcher of this.#watchers) for (const event of what) watcher.changed(actor.id, event);
      }
    }
  }

  #end({ actors }: Heard, actor: WatchedActor): void {
    actors.delete(actor.id);
    if (this.actor(actor.id)) return;
    for (const watcher of this.#watchers) watcher.ended({ ...actor, state: 'ended' });
  }

  /** [V3] */
  #dropSilent(): void {
    const now = this.#core.ports.clock.monotonic();
    for (const [hub, heard] of this.#hubs) {
      if (now < heard.at + silentMs) continue;
      this.#hubs.delete(hub);
      for (const actor of heard.actors.values()) this.#end(heard, actor);
    }
  }
}
