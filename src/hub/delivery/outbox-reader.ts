/**
 * Reads owed deliveries from the outbox (the log) into the lanes, in order of the log, up to `windowMax` for each
 * partner; the backlog beyond stays in the log until there is room.
 *
 * OUTBOX-READER-1  Live events, restart and catching up enter the lanes by the same function (`#offer`).
 * OUTBOX-READER-2  A delivery that was taken is outstanding until it has ended or has a row; the receiver's floor stays
 *     below it.
 * OUTBOX-READER-3  A receiver that is behind takes no live event: it reads the log itself, so its order is the log's.
 */
import type { Seq, StoredEvent } from '../../../storage/contract.ts';
import { keyOf, type Partner, type PartyId } from '../../domain/party.ts';
import { mapLimit } from '../../kit/concurrency.ts';
import type { Context } from '../kernel/context.ts';
import { Lanes } from './lanes.ts';
import { type DeliveryMemory, type OutboxWriter, type Progress, rowsOf } from './outbox-writer.ts';

/** Deliveries of one partner in memory, and the position of each of its parties in the log. */
export interface Queue {
  readonly partnerId: PartyId;
  readonly lanes: Lanes;
  readonly progress: Progress[];
  /** Dead letters of the partner. */
  dead: number;
  /** Deliveries since the start of the process. */
  delivered: number;
  /** Moving average of attempt duration, ms. */
  attemptMs: number;
  /** Turn of the event loop in which a call last ended that took at most `quickTurns` turns. */
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
  /** The queue of the partner that holds a party; undefined when no partner holds it. */
  queueOf(receiver: PartyId): Queue | undefined;
  /** Puts a delivery at the tail of its lane; `memory` is its row's, null when it has none. */
  take(queue: Queue, receiver: PartyId, event: StoredEvent, memory: DeliveryMemory | null): void;
}

const readBatch = 500;
/** Characters of records that one read of the log brings into memory at most. */
const readSize = 4 * 1024 * 1024;
/** Receivers whose rows a restart reads concurrently. */
const recalledAtOnce = 16;
const readAgainMs = 1_000;
/** Interval, ms, at which floors of idle receivers are written. A longer one makes a restart read more of the log. */
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

  /** Offers a committed event to each receiver that it is owed to. */
  owed(event: StoredEvent): void {
    for (const receiver of event.to) {
      const progress = this.#progressOf(receiver, event.seq - 1);
      if (progress && !progress.behind && event.seq > progress.cursor) this.#offer(progress, event);
    }
  }

  /** Starts the floors of a new partner's parties at the head of the log: they are owed nothing of the past. */
  added(partner: Partner): void {
    for (const party of partner.roles) {
      const progress = this.progressFor(keyOf(party));
      if (progress) this.#writer.touch(progress);
    }
  }

  /** The progress of a party, created at the head of the log on first use; undefined only for an unknown party. */
  progressFor(receiver: PartyId): Progress | undefined {
    return this.#progressOf(receiver, this.#context.recorder.feed.upTo);
  }

  progress(receiver: PartyId): Progress | undefined {
    return this.#progress.get(receiver);
  }

  /** Whether a delivery that has no row is still going to be sent. */
  isPending(receiver: PartyId, seq: Seq): boolean {
    const progress = this.progress(receiver);
    if (!progress || seq > this.#context.recorder.feed.upTo) return true;
    return progress.outstanding.has(seq) || (progress.behind && seq > progress.cursor);
  }

  /** Reads more of the backlog from the log once memory is at most half full. */
  readOn(queue: Queue): void {
    if (this.#closed || queue.lanes.size > this.#context.ports.windowMax / 2) return;
    for (const progress of queue.progress) {
      if (!progress.behind || progress.reading) continue;
      progress.reading = true;
      this.#catchUp(queue, progress)
        .catch((error: unknown) => {
          const { log, clock } = this.#context.ports;
          log.error({ err: error }, 'could not read the backlog from the log; next try in 1 s');
          const again = `read-on:${queue.partnerId}`;
          this.#context.timers.arm(again, clock.now() + readAgainMs, () => this.readOn(queue));
        })
        .finally(() => {
          progress.reading = false;
        });
    }
  }

  /** Advances the floors of idle receivers every `idleFloorsMs`, so that a restart reads little of the log. */
  keepIdleFloors(): void {
    const { timers, ports } = this.#context;
    timers.arm('idle-floors', ports.clock.now() + idleFloorsMs, () => {
      for (const progress of this.#progress.values()) this.#writer.touch(progress);
      this.keepIdleFloors();
    });
  }

  /** Rebuilds the lanes from floors, rows and log. Must end before the first delivery is sent. */
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

  /** Reads no more of the log; has all floors written. */
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

  /** Takes an owed event into its lane, or marks the receiver as behind when memory is full. [OUTBOX-READER-1] */
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
      // `readSize` may cut a page before its limit, so only an empty page is the end of the log.
      if (due.length > 0) continue;
      progress.cursor = head;
      if (recorder.feed.upTo > head) continue;
      progress.behind = false;
      progress.known.clear();
    }
  }

  /** Reads the log once for all receivers, from the lowest cursor of those that are not behind. */
  async #scan(head: Seq): Promise<void> {
    const all = [...this.#progress.values()];
    const lowest = () => Math.min(head, ...all.flatMap(({ behind, cursor }) => (behind ? [] : [cursor])));
    for (let after = lowest(); after < head; after = Math.max(after, lowest())) {
      const events = await this.#context.store.read({ after, limit: readBatch, size: readSize });
      if (events.length === 0) break;
      for (const event of events) {
        // Other nodes have written since: the commit feed hands those events on after recovery.
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

  /**
   * Puts deliveries with a PENDING row back into their lanes with their due time. Marks every row above the floor as
   * `known`, so that the scan of the log does not take those deliveries again.
   */
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
