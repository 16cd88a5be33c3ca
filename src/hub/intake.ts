/**
 * Takes what is owed from the log into memory, in order, as far as there is room; the rest stays in the log until there is.
 *
 * I1  Live events, a restart and catching up enter by the same door (`#offer`).
 * I2  What was taken is outstanding until it has ended or has a row; a receiver's floor stays below it.
 * I3  A receiver that is behind gets nothing live: it reads the log itself, so its order is the log's.
 * I4  While the shard of a receiver comes, what it is owed live waits in the log for what it was owed before.
 */
import type { DeliveryRow, Seq, Shard, StoredEvent } from '../../storage/contract.ts';
import { charactersOf } from '../domain/events.ts';
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
  /** Turn of the event loop at which a quick call ended last. */
  quickAt: number;
}

export function emptyQueue(partnerId: PartyId): Queue {
  return {
    partnerId,
    lanes: new Lanes(),
    progress: [],
    dead: 0,
    delivered: 0,
    attemptMs: 0,
    quickAt: Number.NEGATIVE_INFINITY,
  };
}

/** How far a reading of one shard has come that may have been cut. */
export function readTo(events: readonly StoredEvent[], most: { limit: number; size: number }, upTo: Seq): Seq {
  const size = events.reduce((sum, event) => sum + charactersOf(event), 0);
  const isCut = events.length >= most.limit || size >= most.size;
  return isCut ? (events.at(-1)?.seq ?? upTo) : upTo;
}

export interface Taker {
  /** The queue of the partner that holds a party; undefined when there is no such partner. */
  queueOf(receiver: PartyId): Queue | undefined;
  /** Puts a delivery at the tail of its lane; `memory` of one that was tried before. */
  take(queue: Queue, receiver: PartyId, event: StoredEvent, memory: DeliveryMemory | null): void;
}

const readBatch = 500;
/** Characters of records that one reading may bring into memory. */
const readSize = 4 * 1024 * 1024;
const readAgainMs = 1_000;
/** A floor that moved without anything being owed is written this often. */
const idleFloorsMs = 60_000;
const placesMs = 5_000;
/** Shards that are read together, so that memory stays bounded. */
const shardsAtOnce = 16;
const ofShard = { limit: 200, size: 1024 * 1024 } as const;

const isOpen = ({ after, upTo }: { readonly after: Seq; readonly upTo: Seq }) => after < upTo;
const progressKey = (receiver: PartyId, shard: Shard) => `${receiver}/${shard}`;

export class Intake {
  readonly #core: Core;
  readonly #taker: Taker;
  readonly #writer: OutboxWriter;
  readonly #progress = new Map<string, Progress>();
  readonly #places = new Places();
  /** Shards of receivers that come, with what was owed to them meanwhile. [I4] */
  readonly #coming = new Set<Shard>();
  readonly #missed = new Map<string, { readonly receiver: PartyId; readonly shard: Shard }>();
  #closed = false;

  constructor(core: Core, taker: Taker, writer: OutboxWriter) {
    this.#core = core;
    this.#taker = taker;
    this.#writer = writer;
  }

  /** An event was committed: whoever it is owed to gets it in turn. */
  owed(event: StoredEvent): void {
    const { shard, seq } = event;
    for (const receiver of event.to) {
      if (this.#coming.size > 0 && this.#coming.has(this.#core.store.shardOf(receiver))) {
        this.#missed.set(progressKey(receiver, shard), { receiver, shard });
        continue;
      }
      const progress = this.#progressOf(receiver, shard, seq - 1);
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
    if (this.#closed || queue.lanes.size > this.#core.ports.windowMax / 2) return;
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

  /** Now and then it is written how far receivers have come. */
  keep(): void {
    if (this.#core.peers) this.#keepPlaces();
    else this.#keepIdleFloors();
  }

  /** Finds everything that is owed to receivers of these shards, as the log and the rows have it, before anything is sent to them. */
  async recover(shards: ReadonlySet<Shard>): Promise<void> {
    const { store, recorder, state, peers } = this.#core;
    if (peers) return this.#recoverShare(peers, shards);
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
  }

  /** With a share of the shards: what all of the shards owe to receivers of these. */
  async #recoverShare(peers: Peers, homes: ReadonlySet<Shard>): Promise<void> {
    const { store, state, recorder } = this.#core;
    for (const home of homes) this.#coming.add(home);
    // What is committed from now on is missed, and read afterwards. [I4]
    const reached = recorder.reached();
    const isTheirs = (party: PartyId) => homes.has(store.shardOf(party));
    const partners = [...state.partners()].filter(({ id }) => isTheirs(id));
    const receivers = partners.flatMap(({ roles }) => roles.map(keyOf));
    const places = await Places.read(store, new Set(partners.map(({ id }) => store.shardOf(id))));
    const stored = receivers.length > 0 ? await store.floors() : [];
    const floors = new Map(stored.map((floor) => [progressKey(floor.dest, floor.shard), floor.seq]));
    const placeOf = (receiver: PartyId, shard: Shard) =>
      Math.max(places.of(store.shardOf(receiver), shard), floors.get(progressKey(receiver, shard)) ?? 0);
    for (const row of receivers.length > 0 ? await peers.openRows(receivers) : []) {
      const progress = this.#progressOf(row.dest, row.shard, placeOf(row.dest, row.shard));
      if (progress) await this.#recallOne(progress, row);
    }
    const known = new Set<Progress>();
    let ranges = [...reached].map(([shard, upTo]) => ({ shard, after: places.lowest(shard), upTo }));
    for (ranges = ranges.filter(isOpen); ranges.length > 0 && receivers.length > 0; ranges = ranges.filter(isOpen)) {
      const now = ranges.slice(0, shardsAtOnce);
      const events = await peers.follow({ ranges: now, to: receivers, types: [], ...ofShard });
      for (const event of events) await this.#offerAgain(event, placeOf, known);
      for (const range of now) {
        const own = events.filter(({ shard }) => shard === range.shard);
        range.after = readTo(own, ofShard, range.upTo);
      }
    }
    // From here on in one turn of the event loop, so that nothing lies between what was read and what comes live.
    for (const progress of this.#progress.values()) {
      if (!progress.behind && isTheirs(progress.receiver)) progress.known.clear();
    }
    for (const home of homes) this.#coming.delete(home);
    this.#readMissed(isTheirs, reached);
    this.#places.add(homes, places);
  }

  /** What a receiver missed is read from the log, behind what was found there before. [I3] */
  #readMissed(isTheirs: (party: PartyId) => boolean, reached: ReadonlyMap<Shard, Seq>): void {
    for (const [key, { receiver, shard }] of this.#missed) {
      if (!isTheirs(receiver)) continue;
      this.#missed.delete(key);
      const from = reached.get(shard) ?? 0;
      const progress = this.#progressOf(receiver, shard, from);
      if (!progress || progress.behind) continue;
      progress.cursor = Math.max(progress.cursor, from);
      progress.behind = true;
      const queue = this.#taker.queueOf(receiver);
      if (queue) this.readOn(queue);
    }
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
  #keepPlaces(): void {
    const { timers, ports, shards } = this.#core;
    timers.arm('places', ports.clock.now() + placesMs, () => {
      this.noted(shards)
        .catch((error: unknown) => ports.log.warn({ err: error }, 'could not note how far deliveries have come'))
        .finally(() => {
          if (!this.#closed) this.#keepPlaces();
        });
    });
  }

  /** Writes how far receivers of these shards have come: everything owed up to there has ended or has a row, which is written too. */
  async noted(shards: Pick<ReadonlySet<Shard>, 'has'>): Promise<void> {
    const { store, state, recorder } = this.#core;
    // Where nobody lives there is nothing to note.
    const homes = new Set([...state.partners()].map(({ id }) => store.shardOf(id)).filter((home) => shards.has(home)));
    const known = this.#places.known(homes);
    const reached = new Map<Shard, Map<Shard, Seq>>();
    for (const progress of this.#progress.values()) {
      const home = store.shardOf(progress.receiver);
      if (!homes.has(home)) continue;
      const floor = this.#writer.floorOf(progress);
      const of = reached.get(home) ?? new Map<Shard, Seq>();
      reached.set(home, of.set(progress.shard, Math.min(floor, of.get(progress.shard) ?? floor)));
    }
    const heads = recorder.reached();
    // What ended up to now is written before the places that rely on it.
    await this.#writer.flushed();
    await this.#places.write(store, known, reached, heads);
  }

  /** Puts away what is known of receivers of shards that go. */
  forget(shards: ReadonlySet<Shard>, isTheirs: (party: PartyId) => boolean): void {
    for (const [key, progress] of this.#progress) {
      if (!isTheirs(progress.receiver)) continue;
      progress.behind = false;
      // What is still to be written of it raises no floor when the shard is back.
      progress.flushed = Number.MAX_SAFE_INTEGER;
      this.#progress.delete(key);
    }
    this.#writer.forget(isTheirs);
    for (const [key, { receiver }] of this.#missed) if (isTheirs(receiver)) this.#missed.delete(key);
    for (const shard of shards) this.#coming.delete(shard);
    this.#places.remove(shards);
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
    if (queue.lanes.size >= this.#core.ports.windowMax) {
      progress.behind = true;
      return;
    }
    progress.cursor = event.seq;
    if (progress.known.delete(event.seq)) return;
    progress.outstanding.add(event.seq);
    this.#taker.take(queue, progress.receiver, event, null);
  }

  async #catchUp(queue: Queue, progress: Progress): Promise<void> {
    const { store, recorder, ports } = this.#core;
    const { windowMax } = ports;
    while (!this.#closed && progress.behind && queue.lanes.size < windowMax) {
      const { shard, cursor: after, receiver: to } = progress;
      const head = recorder.dispatchedTo(shard);
      const events = await store.read({ shard, after, limit: readBatch, size: readSize, to });
      // It was put away meanwhile.
      if (!progress.behind) return;
      const due = events.filter(({ seq }) => seq <= head);
      for (const event of due) if (queue.lanes.size < windowMax) this.#offer(progress, event);
      // A reading may be cut before its limit: the end is where nothing comes any more.
      if (due.length > 0) continue;
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
