/**
 * The door of a node: opened as soon as it may be, closed when it may not be any more. [NODE-6]
 *
 * DOORWAY-1  No door is open while a node of an earlier version lives: such an owner does not notify doors of changes of
 *     partners and routes.
 * DOORWAY-2  No door is open while the settings of this node do not fit the store, for example when HUB_SECRET_KEY does
 *     not open the token of a partner: requests are passed on to the owner, and the node says why.
 * DOORWAY-3  After the database lost a part of the log, a new door replaces the one that has read it.
 */
import type { Seq } from '../../storage/contract.ts';
import { sleep, withTimeout } from '../kit/clock.ts';
import { systemClock as clock } from '../kit/system-clock.ts';
import type { Membership } from './membership.ts';
import { messageMs } from './node-auth.ts';
import type { NodeParts, Served } from './node-parts.ts';

/** Back-off of opening a door. */
const retryMs = 10_000;
/** Longest that closing waits for a door that is being opened. */
const closingMs = 1000;
/** Grace of requests in flight at a door that gets no more of them. [DOORWAY-2] */
const graceMs = 5000;

/** What a door asks of its node and tells it. */
interface Node {
  readonly changed: () => void;
  /** A node that leaves opens no door. */
  readonly isLeaving: () => boolean;
}

export class Doorway {
  readonly #parts: NodeParts;
  readonly #membership: Membership;
  readonly #node: Node;
  #door: Served | null = null;
  #opening: Promise<void> | null = null;
  #notBefore = 0;
  #fault: string | null = null;
  /** The door that is open, or is being opened, lacks a key. [DOORWAY-2] */
  #isUnfit = false;
  /** How many losses of the database the door knows. [DOORWAY-3] */
  #losses = 0;
  #unfitAt = Number.NEGATIVE_INFINITY;
  #retiring: Promise<void> = Promise.resolve();
  readonly #closed = new AbortController();

  constructor(parts: NodeParts, membership: Membership, node: Node) {
    this.#parts = parts;
    this.#membership = membership;
    this.#node = node;
  }

  /** The open door, which may answer only while the database is reached. */
  get door(): Served | null {
    return this.#door;
  }

  get isOpening(): boolean {
    return this.#opening !== null;
  }

  /** Why the settings of this node do not fit the store, as the last attempt to open a door or to take over found. */
  get fault(): string | null {
    return this.#fault;
  }

  /** Keeps the error of an attempt to take over if it tells that settings do not fit the store. */
  failed(error: unknown): void {
    if (!this.#parts.isOfSettings(error)) return;
    this.#fault = error.message;
    // Shows it, and tells other nodes that this one is a bad owner.
    void this.#parts.store.poke();
  }

  /** A token does not open here: no request goes to this door any more. [DOORWAY-2] */
  unfit(): void {
    const now = clock.monotonic();
    // The next attempt finds out why, at once unless it does not.
    this.#notBefore = now + (now - this.#unfitAt < retryMs ? retryMs : 0);
    this.#unfitAt = now;
    this.#isUnfit = true;
    this.#retire('the door closes: a key of this node does not fit; requests are passed on to the owner');
  }

  #retire(why: string): void {
    const door = this.#door;
    if (door === null) return;
    this.#parts.log.warn({}, why);
    this.#door = null;
    this.#retiring = sleep(clock, graceMs, this.#closed.signal).then(() => closed(door, this.#parts.log));
    this.#node.changed();
  }

  /** Opens or closes the door as the cluster requires. */
  look(): void {
    const { store } = this.#parts;
    if (!store.isFollowed()) return void this.#close();
    if (store.losses().length !== this.#losses)
      this.#retire('the door opens again: the database has lost a part of the log');
    const isTime = clock.monotonic() >= this.#notBefore && store.health().state === 'open';
    if (this.#door !== null || this.#node.isLeaving() || !isTime) return;
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
  }

  /** Resolves when the door has applied all events up to `seq`. */
  async followed(seq: Seq): Promise<void> {
    // A door that is being opened may have read the state before the change.
    await this.#opening;
    await this.#door?.followed(seq);
  }

  /** For a node that leaves. */
  async close(): Promise<void> {
    this.#closed.abort();
    // A door that is being opened may wait for the database.
    await withTimeout(clock, closingMs, this.#opening ?? Promise.resolve());
    await Promise.all([this.#close(), this.#retiring]);
  }

  /** Never rejects. */
  async #open(): Promise<void> {
    const { makeDoor, log, store } = this.#parts;
    let door: Served | null = null;
    this.#isUnfit = false;
    const losses = store.losses().length;
    this.#losses = losses;
    try {
      door = await makeDoor();
      this.#fault = null;
      // The owner notifies only nodes that it knows: this message makes it read the node table, with this node in it.
      await this.#membership.tell('look', messageMs);
      await door.recover();
      const isLost = store.losses().length !== losses;
      if (this.#node.isLeaving() || !store.isFollowed() || this.#isUnfit || isLost) return await closed(door, log);
      this.#door = door;
      this.#node.changed();
    } catch (error) {
      log.error({ err: error }, 'could not open the door; this node passes requests on to the owner and tries again');
      this.#notBefore = clock.monotonic() + retryMs;
      this.failed(error);
      await closed(door, log);
    }
  }

  #close(): Promise<void> {
    const door = this.#door;
    this.#door = null;
    return closed(door, this.#parts.log);
  }
}

/** Closes a hub or a door. Never rejects. */
export async function closed(hub: Served | null, log: NodeParts['log']): Promise<void> {
  await hub?.close(0).catch((error: unknown) => log.error({ err: error }, 'closing a hub failed'));
}
