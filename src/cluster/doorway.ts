/**
 * The door of a node: opened as soon as it may be, closed when it may not be any more. [NODE-6]
 *
 * DOORWAY-1  No door is open while a node of an earlier version lives: such an owner does not notify doors of changes of
 *     partners and routes.
 */
import type { Seq } from '../../storage/contract.ts';
import { withTimeout } from '../kit/clock.ts';
import { systemClock as clock } from '../kit/system-clock.ts';
import type { Membership } from './membership.ts';
import type { NodeParts, Served } from './node-parts.ts';

/** Back-off of opening a door. */
const retryMs = 10_000;
/** Longest that closing waits for a door that is being opened. */
const closingMs = 1000;
/** Timeout of the message that makes the owner look for this door. */
const toldMs = 1000;

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

  constructor(parts: NodeParts, membership: Membership, node: Node) {
    this.#parts = parts;
    this.#membership = membership;
    this.#node = node;
  }

  /** The open door, which may answer only while the database is reached. */
  get door(): Served | null {
    return this.#door;
  }

  /** Opens or closes the door as the cluster requires. */
  look(): void {
    const { store } = this.#parts;
    if (!store.isFollowed()) return void this.#close();
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
    // A door that is being opened may wait for the database.
    await withTimeout(clock, closingMs, this.#opening ?? Promise.resolve());
    await this.#close();
  }

  /** Never rejects. */
  async #open(): Promise<void> {
    const { makeDoor, log, store } = this.#parts;
    let door: Served | null = null;
    try {
      door = await makeDoor();
      // The owner notifies only nodes that it knows: this message makes it read the node table, with this node in it.
      await this.#membership.tell('look', toldMs);
      await door.recover();
      if (this.#node.isLeaving() || !store.isFollowed()) return await closed(door, log);
      this.#door = door;
      this.#node.changed();
    } catch (error) {
      log.error({ err: error }, 'could not open the door; this node passes requests on to the owner and tries again');
      this.#notBefore = clock.monotonic() + retryMs;
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
