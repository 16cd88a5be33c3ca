/**
 * Takes what is owed from the log into memory, in order, as far as there is room; the rest stays in the log until there is.
 *
 * I1  Live events, a restart and catching up enter by the same door (`#offer`).
 * I2  What was taken is outstanding until it has ended or has a row; a receiver's floor stays below it.
 * I3  A receiver that is behind gets nothing live: it reads the log itself, so its order is the log's.
 */
import type { DeliveryRow, Seq, Shard, StoredEvent } from '../../storage/contract.ts';
import { keyOf, type Partner, type PartyId } from '../domain/party.ts';
import type { Core } from './core.ts';
import { Lanes } from './lanes.ts';
import { type DeliveryMemory, type OutboxWriter, type Progress, rowsOf } from './outbox.ts';
import type { Peers } from './peers.ts';
import { Places } from './places.ts';

/** What waits for one partner, and how far its parties have come. */
export interface Queue {
  readonly partnerId: PartyId;
  readonly lanes: Lanes;
  readonly progress: Progress[];
  dead: number;
  /** Since the start. */
  delivered: number;
  /** What one try takes of late, milliseconds. */
  attemptMs: number;
}

export function emptyQueue(partnerId: PartyId): Queue {
  return { partnerId, lanes: new Lanes(), progress: [], dead: 0, delivered: 0, attemptMs: 0 };
}

export interface Taker {
  /** The queue of the partner that holds a party; undefined when there is no such partner. */
  queueOf(receiver: PartyId): Queue | undefined;
  /** Puts a delivery at the tail of its lane; `memory` of one that was tried before. */
  take(queue: Queue, receiver: PartyId, event: StoredEvent, memory: DeliveryMemory | null): void;
}

/** Deliveries of one partner in memory; the rest stays in the log. */
export const windowMax = 10_000;
const readBatch = 500;
/** Characters of bodies that one reading may bring into memory. */
const readSize = 4 * 1024 * 1024;
const readAgainMs = 1_000;
/** A floor that moved without anything being owed is written this often. */
const idleFloorsMs = 60_000;
const placesMs = 5_000;

const sizeOf = (events: readonly StoredEvent[]) => events.reduce((sum, { body }) => sum + (body?.length ?? 0), 0);
const progressKey = (receiver: PartyId, shard: Shard) => `${receiver}/${shard}`;

export class Intake {
  readonly #core: Core;
  readonly #taker: Taker;
  readonly #writer: OutboxWriter;
  readonly #progress = new Map<string, Progress>();
  #closed = false;

  constructor(core: Core, taker: Taker, writer: OutboxWriter) {
    this.#core = core;
    this.#taker = taker;
    this.#writer = writer;
  }

  /** An event was committed: whoever it is owed to gets it in turn. */
  owed(event: StoredEvent): void {
    for (const receiver of event.to) {
      const progress = this.#progressOf(receiver, event.shard, event.seq - 1);
      if (progress && !progress.behind) this.#offer(progress, event);
    }
  }

  /** A party that was just added is owed nothing of the past. */
  added(partner: Partner): void {
    const { recorder, store, peers } = this.#core;
    // With a share of the shards there are places instead, and what is owed brings the rest.
    if (peers) return;
    for (const party of partner.roles) {
      for (const shard of Object.keys(store.health().heads).map(Number)) {
        const progress = this.#progressOf(keyOf(party), shard, recorder.dispatchedTo(shard));
        if (progress) this.#writer.touch(progress);
      }
    }
  }

  /** Of a known party always there. */
  progressFor(receiver: PartyId, shard: Shard): Progress | undefined {
    return this.#progressOf(receiver, shard, this.#core.recorder.dispatchedTo(shard));
  }

  progress(receiver: PartyId, shard: Shard): Progress | undefined {
    return this.#progress.get(progressKey(receiver, shard));
  }

  /** Whether a delivery without a row is still to come. */
  isPending(receiver: PartyId, shard: Shard, seq: Seq): boolean {
    const progress = this.progress(receiver, shard);
    if (seq > this.#core.recorder.dispatchedTo(shard)) return true;
    // With a share of the shards there is none where nothing was owed since the start.
    if (!progress) return this.#core.peers === null;
    return progress.outstanding.has(seq) || (progress.behind && seq > progress.cursor);
  }

  /** Reads on from the log when there is room again. */
  readOn(queue: Queue): void {
    if (this.#closed || queue.lanes.size > windowMax / 2) return;
    for (const progress of queue.progress) {
      if (!progress.behind || progress.reading) continue;
      progress.reading = true;
      this.#catchUp(queue, progress)
        .catch((error: unknown) => {
          const { log, clock } = this.#core.ports;
          log.error({ err: error }, 'could not read on from the log; trying again');
          const again = `read-on:${queue.partnerId}`;
          this.#core.timers.arm(again, clock.now() + readAgainMs, () => this.readOn(queue));
        })
        .finally(() => {
          progress.reading = false;
        });
    }
  }

  /** Finds everything that is owed, as the log and the rows have it. Called once, before anything is accepted. */
  async recover(): Promise<void> {
    const { store, recorder, state, shards, peers } = this.#core;
    if (peers) return this.#recoverShare(peers);
    const floors = new Map((await store.floors()).map((floor) => [progressKey(floor.dest, floor.shard), floor.seq]));
    for (const partner of state.partners()) {
      for (const receiver of partner.roles.map(keyOf)) {
        for (const shard of shards) {
          const progress = this.#progressOf(receiver, shard, floors.get(progressKey(receiver, shard)) ?? 0);
          if (progress) await this.#recall(progress);
        }
      }
    }
    for (const shard of shards) await this.#scan(shard, recorder.dispatchedTo(shard));
    this.#keepIdleFloors();
  }

  /** With a share of the shards: what is owed to our receivers by all of the shards. */
  async #recoverShare(peers: Peers): Promise<void> {
    const { store, state, recorder, isOurs, shards } = this.#core;
    const places = await Places.read(store, shards);
    const floors = new Map((await store.floors()).map((floor) => [progressKey(floor.dest, floor.shard), floor.seq]));
    const placeOf = (receiver: PartyId, shard: Shard) =>
      Math.max(places.of(store.shardOf(receiver), shard), floors.get(progressKey(receiver, shard)) ?? 0);
    const receivers = [...state.partners()].flatMap(({ id, roles }) => (isOurs(id) ? roles.map(keyOf) : []));
    for (const row of await peers.openRows(receivers)) {
      const progress = this.#progressOf(row.dest, row.shard, placeOf(row.dest, row.shard));
      if (progress) await this.#recallOne(progress, row);
    }
    const known = new Set<Progress>();
    for (const [shard, head] of await peers.heads()) {
      const upTo = Math.min(head, recorder.dispatchedTo(shard));
      for (let after = places.lowest(shard); after < upTo; ) {
        const ranges = [{ shard, after, upTo }];
        const events = await peers.follow({ ranges, to: receivers, types: [], limit: readBatch, size: readSize });
        for (const event of events) await this.#offerAgain(event, placeOf, known);
        const isCut = events.length === readBatch || sizeOf(events) >= readSize;
        after = isCut ? (events.at(-1)?.seq ?? upTo) : upTo;
      }
    }
    for (const progress of this.#progress.values()) if (!progress.behind) progress.known.clear();
    this.#keepPlaces(places);
  }

  async #offerAgain(
    event: StoredEvent,
    placeOf: (receiver: PartyId, shard: Shard) => Seq,
    known: Set<Progress>,
  ): Promise<void> {
    const { store } = this.#core;
    for (const receiver of new Set(event.to)) {
      const place = placeOf(receiver, event.shard);
      const progress = event.seq > place ? this.#progressOf(receiver, event.shard, place) : undefined;
      if (!progress) continue;
      if (!known.has(progress)) {
        known.add(progress);
        const ended = { dest: receiver, shard: event.shard, rows: 'DELIVERED', fromSeq: place + 1 } as const;
        for await (const row of rowsOf(store, ended)) progress.known.add(row.seq);
      }
      if (!progress.behind && event.seq > progress.cursor) this.#offer(progress, event);
    }
  }

  /** Written now and then: where a recovery begins to look. */
  #keepPlaces(places: Places): void {
    const { timers, ports } = this.#core;
    timers.arm('places', ports.clock.now() + placesMs, () => {
      this.#writePlaces(places)
        .catch((error: unknown) => ports.log.warn({ err: error }, 'could not note how far deliveries have come'))
        .finally(() => {
          if (!this.#closed) this.#keepPlaces(places);
        });
    });
  }

  /** Everything owed up to a place has ended or has a row, and those rows are written. */
  async #writePlaces(places: Places): Promise<void> {
    const { store, recorder } = this.#core;
    const reached = new Map<Shard, Map<Shard, Seq>>();
    for (const progress of this.#progress.values()) {
      const home = store.shardOf(progress.receiver);
      const floor = this.#writer.floorOf(progress);
      const of = reached.get(home) ?? new Map<Shard, Seq>();
      reached.set(home, of.set(progress.shard, Math.min(floor, of.get(progress.shard) ?? floor)));
    }
    const heads = new Map(
      Object.keys(store.health().heads).map((name) => [Number(name), recorder.dispatchedTo(Number(name))]),
    );
    // What ended up to now is written before the places that rely on it.
    await this.#writer.flushed();
    await places.write(store, reached, heads);
  }

  /** Takes nothing more; floors are written as they stand. */
  close(): void {
    this.#closed = true;
    for (const progress of this.#progress.values()) this.#writer.touch(progress);
  }

  #progressOf(receiver: PartyId, shard: Shard, from: Seq): Progress | undefined {
    const present = this.progress(receiver, shard);
    if (present) return present;
    const queue = this.#taker.queueOf(receiver);
    if (!queue) return undefined;
    const progress: Progress = {
      ...{ receiver, shard, cursor: from, behind: false, reading: false, flushed: 0 },
      ...{ outstanding: new Set<Seq>(), known: new Set<Seq>() },
    };
    this.#progress.set(progressKey(receiver, shard), progress);
    queue.progress.push(progress);
    return progress;
  }

  /** Takes an owed event into memory, or notes that memory is full and the log holds the rest. */
  #offer(progress: Progress, event: StoredEvent): void {
    const queue = this.#taker.queueOf(progress.receiver);
    if (!queue) return;
    if (queue.lanes.size >= windowMax) {
      progress.behind = true;
      return;
    }
    progress.cursor = event.seq;
    if (progress.known.delete(event.seq)) return;
    progress.outstanding.add(event.seq);
    this.#taker.take(queue, progress.receiver, event, null);
  }

  async #catchUp(queue: Queue, progress: Progress): Promise<void> {
    const { store, recorder } = this.#core;
    while (!this.#closed && progress.behind && queue.lanes.size < windowMax) {
      const { shard, cursor: after, receiver: to } = progress;
      const head = recorder.dispatchedTo(shard);
      const events = await store.read({ shard, after, limit: readBatch, size: readSize, to });
      for (const event of events) if (event.seq <= head && queue.lanes.size < windowMax) this.#offer(progress, event);
      const isCut = events.length === readBatch || sizeOf(events) >= readSize;
      if (queue.lanes.size >= windowMax || isCut) continue;
      progress.cursor = head;
      if (recorder.dispatchedTo(shard) > head) continue;
      progress.behind = false;
      progress.known.clear();
    }
  }

  /** One pass over the log for all receivers, from the lowest floor. */
  async #scan(shard: Shard, head: Seq): Promise<void> {
    const mine = [...this.#progress.values()].filter((progress) => progress.shard === shard);
    let after = mine.reduce((lowest, { cursor }) => Math.min(lowest, cursor), head);
    while (after < head) {
      const events = await this.#core.store.read({ shard, after, limit: readBatch, size: readSize });
      if (events.length === 0) break;
      for (const event of events) {
        for (const receiver of event.to) {
          const progress = this.progress(receiver, shard);
          if (progress && !progress.behind && event.seq > progress.cursor) this.#offer(progress, event);
        }
        after = event.seq;
      }
    }
    for (const progress of mine) if (!progress.behind) progress.known.clear();
  }

  /** Deliveries that wait for another attempt come back with their due time; those that ended are not taken again. */
  async #recall(progress: Progress): Promise<void> {
    const { store } = this.#core;
    const { receiver: dest, shard, cursor: floor } = progress;
    const queue = this.#taker.queueOf(dest);
    if (!queue) return;
    progress.flushed = floor;
    for await (const row of rowsOf(store, { dest, shard, rows: 'open', fromSeq: 0 }))
      await this.#recallOne(progress, row);
    for await (const row of rowsOf(store, { dest, shard, rows: 'DELIVERED', fromSeq: floor + 1 })) {
      progress.known.add(row.seq);
    }
  }

  async #recallOne(progress: Progress, row: DeliveryRow): Promise<void> {
    const queue = this.#taker.queueOf(row.dest);
    if (!queue) return;
    if (row.seq > progress.cursor) progress.known.add(row.seq);
    if (row.state === 'DEAD') queue.dead++;
    const event = row.state === 'PENDING' ? await this.#core.store.event(row.shard, row.seq) : null;
    if (event) this.#taker.take(queue, row.dest, event, row.data as DeliveryMemory);
  }

  /** Floors of receivers to whom nothing is owed move too, so that a restart has little to read. */
  #keepIdleFloors(): void {
    const { timers, ports } = this.#core;
    timers.arm('idle-floors', ports.clock.now() + idleFloorsMs, () => {
      for (const progress of this.#progress.values()) this.#writer.touch(progress);
      this.#keepIdleFloors();
    });
  }
}
