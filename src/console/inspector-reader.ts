/**
 * One reader of the inspector, served at its own pace (back-pressure), and what it subscribes to: given in the query of the
 * address, changed by messages. [contract, 4]
 *
 * INSPECTOR-READER-1  A reader holds ids and counts, at most one of each per actor; its messages are made when its
 *     socket has taken the previous ones.
 * INSPECTOR-READER-2  A reader gets the newest state of each actor that changed, and the number of events that it
 *     missed.
 * INSPECTOR-READER-3  A reader's requests are cheap: frames are small, and their rate is limited.
 */
import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import type { WatchedActor } from '../hub/ports/actor-view.ts';
import type { Clock } from '../kit/clock.ts';
import { nextTurn } from '../kit/system-clock.ts';
import { type Change, complete, type Feed, type FeedReader, missed } from './inspector-feed.ts';

/** Bytes written to a socket before the reader waits for it to drain. */
const sliceBytes = 65_536;
/**
 * An actor that started and ended unseen is still reported while fewer than this many actors are pending for the
 * reader; without that, a command shorter than a tick would never show.
 */
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
  /** Called with a bug of the hub's that occurs while it serves this reader. */
  readonly failed: (error: unknown) => void;
}

export class Reader implements FeedReader {
  readonly #parts: ReaderParts;
  #subscription: Subscription;
  /** Actors that were introduced to the reader. */
  readonly #known = new Set<string>();
  /** Actors that are pending for the reader, each with the number of its events that the reader has not got. */
  readonly #dirty = new Map<string, number>();
  /** Last states of pending actors that have ended. */
  readonly #ended = new Map<string, WatchedActor>();
  /** Kinds whose definition was sent to the reader. */
  readonly #defined = new Set<string>();
  #missed = 0;
  #missedTotal = 0;
  #owesComplete = false;
  /** True until the socket has taken the last slice. A tick that finds it true sets `#isBehind`. */
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
        // The actor started and ended unseen; keeping such ends would fill memory while a reader does not read.
        // [INSPECTOR-READER-1]
        this.#missed += count + (this.#dirty.get(id) ?? 0);
        this.#dirty.delete(id);
        continue;
      }
      const waiting = this.#dirty.get(id);
      // Events from before the reader's first message about an actor do not count as missed.
      this.#dirty.set(id, waiting === 0 && !isKnown ? 0 : (waiting ?? 0) + count);
    }
  }

  /** Sends the next slice of pending messages, unless the socket has not taken the last one. */
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

  /**
   * Pings the reader. Called at a fixed interval; false when the reader has neither sent nor taken anything since the
   * beat before the last.
   */
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
      for (const frame of this.#framesOf(id, count)) {
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

  *#framesOf(id: string, count: number): Iterable<Buffer> {
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
    // One write for all frames of the slice.
    socket.cork();
    for (const [index, frame] of frames.entries()) {
      if (index < last) ws.send(frame, { binary: false });
      else ws.send(frame, { binary: false }, (error) => this.#flushed(error));
    }
    socket.uncork();
    sent(frames.length);
  }

  #flushed(error: Error | undefined): void {
    // A closed socket takes nothing more.
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

  /** Token bucket of `burst` and `perSecond`. [INSPECTOR-READER-3] */
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

/** An actor must match every criterion; null matches any actor. */
export interface Subscription {
  readonly kinds: ReadonlySet<string> | null;
  /** Upper case. */
  readonly parties: ReadonlySet<string> | null;
  readonly ids: ReadonlySet<string> | null;
  /** `once`: the definition comes only with the first actor of each kind, for a reader that keeps definitions. */
  readonly definitions: 'each' | 'once';
}

/** An invalid message or query; the message says why in a sentence short enough for a close frame. */
export class BadSubscription extends Error {}

const lists = ['kinds', 'parties', 'ids'] as const;

/** Throws `BadSubscription`. */
function subscriptionOf(text: string): Subscription {
  const { type, ...given } = objectIn(text);
  if (type !== 'subscribe') throw new BadSubscription('type must be "subscribe"');
  return checked(given);
}

/**
 * Parses `?kinds=partner,courier&definitions=once`, so that the first messages are filtered already. Throws
 * `BadSubscription`.
 */
export function subscriptionIn(query: URLSearchParams): Subscription {
  const given: Record<string, unknown> = {};
  for (const name of new Set(query.keys())) {
    const values = query.getAll(name);
    given[name] = name === 'definitions' ? values.join() : values.flatMap((value) => value.split(','));
  }
  return checked(given);
}

function matches({ kinds, parties, ids }: Subscription, actor: WatchedActor): boolean {
  if (kinds && !kinds.has(actor.kind)) return false;
  if (ids && !ids.has(actor.id)) return false;
  return parties === null || actor.parties.some((id) => parties.has(id.toUpperCase()));
}

function objectIn(text: string): Record<string, unknown> {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    throw new BadSubscription('a message must be JSON');
  }
  if (typeof read !== 'object' || read === null || Array.isArray(read)) {
    throw new BadSubscription('a message must be a JSON object');
  }
  return read as Record<string, unknown>;
}

function checked(given: Record<string, unknown>): Subscription {
  const { kinds, parties, ids, definitions = 'each', ...others } = given;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw new BadSubscription(`${unknown.slice(0, 20)} is not known; there are ${lists.join(', ')}, definitions`);
  }
  if (definitions !== 'each' && definitions !== 'once') throw new BadSubscription('definitions must be each or once');
  const upper = setOf('parties', parties);
  return {
    kinds: setOf('kinds', kinds),
    parties: upper && new Set([...upper].map((id) => id.toUpperCase())),
    ids: setOf('ids', ids),
    definitions,
  };
}

function setOf(name: string, value: unknown): Set<string> | null {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value) || !value.every((one) => typeof one === 'string')) {
    throw new BadSubscription(`${name} must be a list of strings`);
  }
  return new Set(value);
}
