/**
 * One reader of the inspector, at its own pace.
 *
 * INSPECTOR-READER-1  A reader holds ids and counts, at most one of each actor; a message is made for it when its socket has taken the last ones.
 * INSPECTOR-READER-2  It is told the newest of each actor that changed, and how many events it missed.
 * INSPECTOR-READER-3  What it asks for costs little: frames are small, and only so many are taken.
 */
import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import type { WatchedActor } from '../hub/ports/actor-view.ts';
import type { Clock } from '../kit/clock.ts';
import { nextTurn } from '../kit/system-clock.ts';
import type { Change, Feed, FeedReader } from './inspector-feed.ts';
import { complete, missed } from './inspector-messages.ts';
import { BadSubscription, matches, type Subscription, subscriptionOf } from './inspector-subscription.ts';

/** Bytes that are handed to a socket at a time. */
const sliceBytes = 65_536;
/** Actors that came and went are told as well while there are no more than so many to tell of; else a command of a moment is lost. */
const unseenMax = 1_000;
/** Messages that a reader may send at once, and per second after that. */
const burst = 20;
const perSecond = 2;

export interface ReaderParts {
  readonly socket: Duplex;
  readonly ws: WebSocket;
  readonly clock: Clock;
  readonly feed: Feed;
  readonly subscription: Subscription;
  readonly sent: (messages: number) => void;
  readonly missed: (events: number) => void;
  /** A bug of ours, met while it was served. */
  readonly failed: (error: unknown) => void;
}

export class Reader implements FeedReader {
  readonly #parts: ReaderParts;
  #subscription: Subscription;
  /** Actors that it has been told of. */
  readonly #known = new Set<string>();
  /** Actors that it is to be told of, each with the events that it has not been told of. */
  readonly #dirty = new Map<string, number>();
  /** Of those, how they ended. */
  readonly #ended = new Map<string, WatchedActor>();
  /** Kinds whose definition it has. */
  readonly #defined = new Set<string>();
  #missed = 0;
  #missedTotal = 0;
  #owesComplete = false;
  /** The socket has not taken the last slice yet; at a tick that means that the reader is behind. */
  #isFlushing = false;
  #isBehind = false;
  #silentBeats = 0;
  #allowance = burst;
  #allowedAt: number;

  constructor(parts: ReaderParts) {
    this.#parts = parts;
    this.#subscription = parts.subscription;
    this.#allowedAt = parts.clock.monotonic();
    parts.ws.on('pong', () => this.#alive());
    parts.ws.on('message', (data, isBinary) => this.#received(data, isBinary));
    this.#subscribe(parts.subscription);
  }

  mark(changes: ReadonlyMap<string, Change>): void {
    for (const [id, { actor, count }] of changes) {
      if (!actor || !matches(this.#subscription, actor)) continue;
      const isKnown = this.#known.has(id);
      if (actor.state !== 'ended') this.#ended.delete(id);
      else if (isKnown || this.#dirty.size < unseenMax) this.#ended.set(id, actor);
      else {
        // It came and went unseen; kept, such ends would pile up while a reader does not read. [INSPECTOR-READER-1]
        this.#missed += count + (this.#dirty.get(id) ?? 0);
        this.#dirty.delete(id);
        continue;
      }
      const waiting = this.#dirty.get(id);
      // What an actor took before a reader first heard of it is not missed.
      this.#dirty.set(id, waiting === 0 && !isKnown ? 0 : (waiting ?? 0) + count);
    }
  }

  /** Sends a slice of what it is to be told, unless its socket has not taken the last one. */
  pull(): void {
    if (this.#isFlushing) {
      this.#isBehind = true;
      return;
    }
    try {
      this.#send(this.#slice());
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#parts.failed(error);
    this.#parts.ws.close(1011, 'an error of the hub; its log says more');
  }

  /** Called at a steady pace: false when nothing was heard or taken since the beat before the last. */
  beat(): boolean {
    if (this.#silentBeats > 1) return false;
    this.#silentBeats++;
    this.#parts.ws.ping();
    return true;
  }

  #alive(): void {
    this.#silentBeats = 0;
  }

  #slice(): Buffer[] {
    const frames: Buffer[] = [];
    let bytes = 0;
    for (const [id, count] of this.#dirty) {
      if (bytes >= sliceBytes) return frames;
      this.#dirty.delete(id);
      for (const frame of this.#told(id, count)) {
        frames.push(frame);
        bytes += frame.length;
      }
    }
    if (this.#owesComplete) frames.push(complete(this.#known.size));
    this.#owesComplete = false;
    if (this.#missed > 0) {
      this.#missedTotal += this.#missed;
      this.#parts.missed(this.#missed);
      frames.push(missed(this.#missed, this.#missedTotal));
      this.#missed = 0;
    }
    return frames;
  }

  *#told(id: string, count: number): Iterable<Buffer> {
    const frames = this.#parts.feed.frames(id, this.#ended.get(id));
    this.#ended.delete(id);
    if (!frames) {
      this.#missed += count;
      return;
    }
    const { actor } = frames;
    const isNew = !this.#known.has(id);
    if (isNew) yield this.#introduced(actor);
    const events = count > 0 ? frames.events() : [];
    yield* events;
    this.#missed += Math.max(0, count - events.length);
    if (!isNew || actor.state === 'ended') yield frames.snapshot();
    if (actor.state === 'ended') this.#known.delete(id);
  }

  #introduced(actor: WatchedActor): Buffer {
    this.#known.add(actor.id);
    const isDefined = this.#subscription.definitions === 'once' && this.#defined.has(actor.kind);
    this.#defined.add(actor.kind);
    return this.#parts.feed.messages.actor(actor, !isDefined);
  }

  #send(frames: readonly Buffer[]): void {
    if (frames.length === 0) return;
    const { socket, ws, sent } = this.#parts;
    const last = frames.length - 1;
    this.#isFlushing = true;
    // One write for all of them.
    socket.cork();
    for (const [index, frame] of frames.entries()) {
      if (index < last) ws.send(frame, { binary: false });
      else ws.send(frame, { binary: false }, (error) => this.#flushed(error));
    }
    socket.uncork();
    sent(frames.length);
  }

  #flushed(error: Error | undefined): void {
    // A socket that has closed takes nothing more.
    if (error) return;
    this.#isFlushing = false;
    if (this.#isBehind) this.#alive();
    this.#isBehind = false;
    if (this.#dirty.size > 0) void nextTurn().then(() => this.pull());
  }

  #received(data: RawData, isBinary: boolean): void {
    const { ws } = this.#parts;
    this.#alive();
    if (isBinary) return ws.close(1003, 'a message must be text');
    if (!this.#mayAsk()) return ws.close(1008, `at most ${burst} messages at once and ${perSecond} a second`);
    try {
      this.#subscribe(subscriptionOf(String(data)));
      this.pull();
    } catch (error) {
      if (error instanceof BadSubscription) ws.close(1008, error.message);
      else this.#fail(error);
    }
  }

  /** [INSPECTOR-READER-3] */
  #mayAsk(): boolean {
    const at = this.#parts.clock.monotonic();
    this.#allowance = Math.min(burst, this.#allowance + ((at - this.#allowedAt) / 1000) * perSecond);
    this.#allowedAt = at;
    if (this.#allowance < 1) return false;
    this.#allowance--;
    return true;
  }

  #subscribe(subscription: Subscription): void {
    const { feed } = this.#parts;
    this.#subscription = subscription;
    for (const id of [...this.#known, ...this.#dirty.keys()]) {
      const actor = this.#ended.get(id) ?? feed.actor(id);
      if (actor && matches(subscription, actor)) continue;
      for (const held of [this.#known, this.#dirty, this.#ended]) held.delete(id);
    }
    for (const actor of feed.actors()) {
      const isAwaited = this.#known.has(actor.id) || this.#dirty.has(actor.id);
      if (!isAwaited && matches(subscription, actor)) this.#dirty.set(actor.id, 0);
    }
    this.#owesComplete = true;
  }
}
