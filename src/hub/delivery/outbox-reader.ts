/**
 * Takes what is owed from the log into memory, in order, as far as there is room; the rest stays in the log until there is.
 *
 * OUTBOX-READER-1  Live events, a restart and catching up enter by the same door (`#offer`).
 * OUTBOX-READER-2  What was taken is outstanding until it has ended or has a row; a receiver's floor stays below it.
 * OUTBOX-READER-3  A receiver that is behind gets nothing live: it reads the log itself, so its order is the log's.
 */
import type { Seq, StoredEvent } from '../../../storage/contract.ts';
import { keyOf, type Partner, type PartyId } from '../../domain/party.ts';
import { mapLimit } from '../../kit/map-limit.ts';
import type { Context } from '../kernel/context.ts';
import { Lanes } from './lanes.ts';
import { type DeliveryMemory, type OutboxWriter, type Progress, rowsOf } from './outbox-writer.ts';

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

export interface Taker {
  /** The queue of the partner that holds a party; undefined when there is no such partner. */
  queueOf(receiver: PartyId): Queue | undefined;
  /** Puts a delivery at the tail of its lane; `memory` of one that was tried before. */
  take(queue: Queue, receiver: PartyId, event: StoredEvent, memory: DeliveryMemory | null): void;
}

const readBatch = 500;
/** Characters of records that one reading may bring into memory. */
const readSize = 4 * 1024 * 1024;
/** Receivers whose rows are read together. */
const recalledAtOnce = 16;
const readAgainMs = 1_000;
/** A floor that moved without anything being owed is written this often. */
const idleFloorsMs = 60_000;

export class OutboxReader {
  readonly #context: Context;
  readonly #taker: Taker;
  readonly #writer: OutboxWriter;
  readonly #progress = new Map<PartyId, Progress>();
  #closed = false;

  constructor(context: Context, taker: Taker, writer: OutboxWriter) {
    this.#context = context;
    this.#taker = taker;
    this.#writer = writer;
  }

  /** An event was committed: whoever it is owed to gets it in turn. */
  owed(event: StoredEvent): void {
    for (const receiver of event.to) {
      const progress = this.#progressOf(receiver, event.seq - 1);
      if (progress && !progress.behind && event.seq > progress.cursor) this.#offer(progress, event);
    }
  }

  /** A party that was just added is owed nothing of the past. */
  added(partner: Partner): void {
    for (const party of partner.roles) {
      const progress = this.progressFor(keyOf(party));
      if (progress) this.#writer.touch(progress);
    }
  }

  /** Of a known party always there. */
  progressFor(receiver: PartyId): Progress | undefined {
    return this.#progressOf(receiver, this.#context.recorder.feed.upTo);
  }

  progress(receiver: PartyId): Progress | undefined {
    return this.#progress.get(receiver);
  }

  /** Whether a delivery without a row is still to come. */
  isPending(receiver: PartyId, seq: Seq): boolean {
    const progress = this.progress(receiver);
    if (!progress || seq > this.#context.recorder.feed.upTo) return true;
    return progress.outstanding.has(seq) || (progress.behind && seq > progress.cursor);
  }

  /** Reads on from the log when there is room again. */
  readOn(queue: Queue): void {
    if (this.#closed || queue.lanes.size > this.#context.ports.windowMax / 2) return;
    for (const progress of queue.progress) {
      if (!progress.behind || progress.reading) continue;
      progress.reading = true;
      this.#catchUp(queue, progress)
        .catch((error: unknown) => {
          const { log, clock } = this.#context.ports;
          log.error({ err: error }, 'could not read on from the log; trying again');
          const again = `read-on:${queue.partnerId}`;
          this.#context.timers.arm(again, clock.now() + readAgainMs, () => this.readOn(queue));
        })
        .finally(() => {
          progress.reading = false;
        });
    }
  }

  /** Floors of receivers to whom nothing is owed move too, so that a restart has little to read. */
  keepIdleFloors(): void {
    const { timers, ports } = this.#context;
    timers.arm('idle-floors', ports.clock.now() + idleFloorsMs, () => {
      for (const progress of this.#progress.values()) this.#writer.touch(progress);
      this.keepIdleFloors();
    });
  }

  /** Finds everything that is owed, as the log and the rows have it, before anything is sent. */
  async recover(): Promise<void> {
    const { store, recorder, directory } = this.#context;
    const floors = new Map((await store.floors()).map(({ dest, seq }) => [dest, seq]));
    const receivers = new Set([...directory.partners()].flatMap(({ roles }) => roles.map(keyOf)));
    await mapLimit(receivers, recalledAtOnce, async (receiver) => {
      const progress = this.#progressOf(receiver, floors.get(receiver) ?? 0);
      if (progress) await this.#recall(progress);
    });
    await this.#scan(recorder.feed.upTo);
  }

  /** Takes nothing more; floors are written as they stand. */
  close(): void {
    this.#closed = true;
    for (const progress of this.#progress.values()) this.#writer.touch(progress);
  }

  #progressOf(receiver: PartyId, from: Seq): Progress | undefined {
    const present = this.progress(receiver);
    if (present) return present;
    const queue = this.#taker.queueOf(receiver);
    if (!queue) return undefined;
    const progress: Progress = {
      ...{ receiver, cursor: from, behind: false, reading: false, flushed: 0 },
      ...{ outstanding: new Set<Seq>(), known: new Set<Seq>() },
    };
    this.#progress.set(receiver, progress);
    queue.progress.push(progress);
    return progress;
  }

  /** Takes an owed event into memory, or notes that memory is full and the log holds the rest. */
  #offer(progress: Progress, event: StoredEvent): void {
    const queue = this.#taker.queueOf(progress.receiver);
    if (!queue) return;
    if (queue.lanes.size >= this.#context.ports.windowMax) {
      progress.behind = true;
      return;
    }
    progress.cursor = event.seq;
    if (progress.known.delete(event.seq)) return;
    progress.outstanding.add(event.seq);
    this.#taker.take(queue, progress.receiver, event, null);
  }

  async #catchUp(queue: Queue, progress: Progress): Promise<void> {
    const { store, recorder, ports } = this.#context;
    const { windowMax } = ports;
    while (!this.#closed && progress.behind && queue.lanes.size < windowMax) {
      const { cursor: after, receiver: to } = progress;
      const head = recorder.feed.upTo;
      const events = await store.read({ after, limit: readBatch, size: readSize, to });
      const due = events.filter(({ seq }) => seq <= head);
      for (const event of due) if (queue.lanes.size < windowMax) this.#offer(progress, event);
      // A reading may be cut before its limit: the end is where nothing comes any more.
      if (due.length > 0) continue;
      progress.cursor = head;
      if (recorder.feed.upTo > head) continue;
      progress.behind = false;
      progress.known.clear();
    }
  }

  /** One pass over the log for all receivers, as long as it is taken from there for one of them. */
  async #scan(head: Seq): Promise<void> {
    const all = [...this.#progress.values()];
    const lowest = () => Math.min(head, ...all.flatMap(({ behind, cursor }) => (behind ? [] : [cursor])));
    for (let after = lowest(); after < head; after = Math.max(after, lowest())) {
      const events = await this.#context.store.read({ after, limit: readBatch, size: readSize });
      if (events.length === 0) break;
      for (const event of events) {
        // What others write meanwhile is dispatched when all of this is back.
        if (event.seq > head) return this.#scanned(all);
        for (const receiver of event.to) {
          const progress = this.progress(receiver);
          if (progress && !progress.behind && event.seq > progress.cursor) this.#offer(progress, event);
        }
        after = event.seq;
      }
    }
    this.#scanned(all);
  }

  #scanned(all: readonly Progress[]): void {
    for (const progress of all) if (!progress.behind) progress.known.clear();
  }

  /** Deliveries that wait for another attempt come back with their due time; those that ended are not taken again. */
  async #recall(progress: Progress): Promise<void> {
    const { store } = this.#context;
    const { receiver: dest, cursor: floor } = progress;
    const queue = this.#taker.queueOf(dest);
    if (!queue) return;
    progress.flushed = floor;
    for await (const row of rowsOf(store, { dest, rows: 'open', fromSeq: 0 })) {
      if (row.seq > floor) progress.known.add(row.seq);
      if (row.state === 'DEAD') queue.dead++;
      const event = row.state === 'PENDING' ? await store.event(row.seq) : null;
      if (event) this.#taker.take(queue, dest, event, row.data as DeliveryMemory);
    }
    for await (const row of rowsOf(store, { dest, rows: 'DELIVERED', fromSeq: floor + 1 })) {
      progress.known.add(row.seq);
    }
  }
}
