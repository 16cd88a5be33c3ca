/**
 * Notes at an object that a receiver lacks it, or a change of it, because a delivery became a dead letter
 * (`object.missed`): the next change is then owed whole. [D82]
 *
 * MISSED-NOTES-1  The row of a dead letter says that its note is owed (`unnoted`), until the note is recorded. So neither a
 *     kill nor a stop loses a note: a start reads the rows anyway, and records what they owe while the hub serves.
 * MISSED-NOTES-2  Notes are recorded one at a time, and one for all dead letters of a lane that wait. A note that is recorded
 *     again changes nothing, or has one more change go as a whole.
 * MISSED-NOTES-3  A receiver that has no version of the object is taken out of `sent`, as is that of a session; one that has
 *     an older version is `outdated`, as is one that may have taken a whole in spite of its answer, this time or before: the end of the
 *     object goes to it, too.
 *     A whole that arrived after the dead letter has made up for it: there is nothing to note.
 * MISSED-NOTES-4  Until the note is recorded `isOwed` knows which lanes miss a change.
 * MISSED-NOTES-5  A receiver without a version to which a later change is still to be sent stays in `sent`, and its note owed:
 *     that change goes as a whole (`isOwed`), which makes up for it. Looked at again when that change has ended.
 * MISSED-NOTES-6  A note that cannot be recorded holds its own lane, for `retryMs`; a store that takes no writes holds all.
 * MISSED-NOTES-7  A receiver that refuses everything costs the others little: what was read of a lane to learn whether anything arrived
 *     is not read again, and after each note there is a pause as long as it took, `pauseMaxMs` at most.
 */
import type { DeliveryRow, Seq, StoredEvent } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import { type Form, formOf, mayHaveArrived, type ObjectEventData } from '../../domain/events.ts';
import { isOwned } from '../../domain/modules.ts';
import { keyIn } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import { sleep } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import { changesOf } from '../kernel/log-reads.ts';
import { noteOf, readObject } from '../kernel/row-codecs.ts';
import type { DeliveryMemory, Item } from './delivery-row.ts';
import { laneKey } from './lanes.ts';
import type { DeliveryStanding } from './outbox-writer.ts';

export interface Deliveries {
  /** Whether the receiver has dead letters. */
  hasDead(receiver: PartyId): boolean;
  standing(receiver: PartyId, seq: Seq): Promise<DeliveryStanding>;
  /** Has the row of a dead letter no longer owe its note; false when `isSame` is, after the row was read. */
  noted(receiver: PartyId, seq: Seq, isSame: () => boolean): Promise<boolean>;
}

export type Place = Pick<Item, 'receiver' | 'seq' | 'stream'>;

/** Dead letters of one receiver whose notes are owed, and a sequence that none of them is below. */
interface OwedNotes {
  readonly seqs: Set<Seq>;
  /** Those that wait: their lane is in `#waiting`. */
  readonly aside: Set<Seq>;
  lowest: Seq;
}

/** Notes of one lane that wait for its change `until` to end, or for the retry after a failure. [MISSED-NOTES-5, MISSED-NOTES-6] */
interface Waiting {
  readonly receiver: PartyId;
  readonly seqs: readonly Seq[];
  readonly until: Seq;
}

/** A change that did not arrive; of its event, whose body may be large, no more. */
type Gap = Pick<StoredEvent, 'seq' | 'stream'> & Pick<ObjectEventData, 'module' | 'owner'> & { readonly form: Form };

/** Of a lane: up to `upTo` nothing arrived at the receiver; a change that did, and one that may have as a whole, null while none is known. */
interface Found {
  upTo: Seq;
  arrivedAt: Seq | null;
  maybeAt: Seq | null;
}

/** Beyond so many lanes all are forgotten, and read again. */
const foundMax = 10_000;
const pauseMaxMs = 50;

/** Dead letters of a receiver that are read in its turn, to gather those of one lane. */
const pageMax = 64;
const retryMs = 10_000;

export class MissedNotes {
  readonly #context: Context;
  readonly #deliveries: Deliveries;
  readonly #noted: (lane: string, at: Seq) => void;
  /** 8 bytes and an entry for each: less than what is in memory of dead letters anyway. */
  readonly #owed = new Map<PartyId, OwedNotes>();
  /** By lane. */
  readonly #waiting = new Map<string, Waiting>();
  /** By lane. [MISSED-NOTES-7] */
  readonly #found = new Map<string, Found>();
  readonly #ending = new AbortController();
  /** Rows that operators had replaced while the present notes are recorded. */
  readonly #replaced = new Set<string>();
  /** The lane whose note is recorded, and its last change that ended meanwhile. */
  readonly #present = { lane: '', ended: 0 };
  #noting: Promise<void> | null = null;
  /** Nothing is recorded before the hub can record, after `close`, and while it waits after a failure. */
  #isHeld = true;

  /** `noted`: a note of the lane was recorded with that sequence. */
  constructor(context: Context, deliveries: Deliveries, noted: (lane: string, at: Seq) => void) {
    this.#context = context;
    this.#deliveries = deliveries;
    this.#noted = noted;
  }

  /** Takes what the row of a dead letter owes. */
  add({ dest, seq, data }: DeliveryRow): void {
    if (!(data as DeliveryMemory).unnoted) return;
    const owed = this.#owed.get(dest) ?? { seqs: new Set<Seq>(), aside: new Set<Seq>(), lowest: seq };
    owed.lowest = Math.min(owed.lowest, seq);
    owed.seqs.add(seq);
    this.#owed.set(dest, owed);
    this.#begin();
  }

  /** An operator had the row of a dead letter replaced. One that is sent again owes no note, unless it dies again. */
  replaced({ dest, seq, state }: DeliveryRow): void {
    if (this.#noting) this.#replaced.add(`${dest}/${seq}`);
    if (state === 'PENDING') this.#drop(dest, seq);
  }

  /** A change of a lane was delivered or became a dead letter. [MISSED-NOTES-5] */
  ended(lane: string, seq: Seq, state: 'DELIVERED' | 'DEAD'): void {
    // A re-drive may have brought an early one.
    if (state === 'DELIVERED') this.#found.delete(lane);
    if (lane === this.#present.lane) this.#present.ended = seq;
    const waiting = this.#waiting.get(lane);
    if (waiting && seq >= waiting.until) this.#resume(lane);
  }

  /** The hub can record from now on. */
  start(): void {
    this.#isHeld = false;
    this.#begin();
  }

  /** Records no further note: the rows still owe the rest at the next start. */
  async close(): Promise<void> {
    this.#ending.abort();
    await this.#noting;
  }

  get #isClosed(): boolean {
    return this.#ending.signal.aborted;
  }

  /** Whether the receiver misses a change before this one that is not noted yet. [MISSED-NOTES-4] */
  async isOwed({ receiver, seq, stream }: Place): Promise<boolean> {
    const owed = this.#owed.get(receiver);
    if (!owed || owed.lowest >= seq) return false;
    let isMissed = false;
    for await (const change of changesOf(this.#context.store, stream, owed.lowest - 1)) {
      if (change.seq >= seq) break;
      isMissed =
        owed.seqs.has(change.seq) ||
        owed.aside.has(change.seq) ||
        (isMissed && !(await this.#isMadeUpBy(change, receiver)));
    }
    return isMissed;
  }

  /**
   * Whether any earlier delivery of the object arrived at the receiver: the first that did was a whole. `orMaybe`: also one that may
   * have arrived as a whole. [WHOLES-1, MISSED-NOTES-3]
   */
  async hasBefore({ receiver, seq, stream }: Place, orMaybe = false): Promise<boolean> {
    const found = this.#foundOf(laneKey(receiver, stream));
    const isMaybe = () => orMaybe && found.maybeAt !== null && found.maybeAt < seq;
    if (isMaybe()) return true;
    if (seq <= found.upTo) return false;
    if (found.arrivedAt !== null && found.arrivedAt < seq) return true;
    for await (const change of changesOf(this.#context.store, stream, found.upTo)) {
      if (change.seq >= seq) return false;
      const has = await this.#hasFrom(change, receiver);
      if (has === 'surely') {
        found.arrivedAt = change.seq;
        return true;
      }
      if (has === 'maybe') found.maybeAt ??= change.seq;
      found.upTo = Math.max(found.upTo, change.seq);
      if (isMaybe()) return true;
    }
    // More than `changesMax` changes: the part is sent, and healed when the receiver refuses it.
    return true;
  }

  #foundOf(lane: string): Found {
    const known = this.#found.get(lane);
    if (known) return known;
    if (this.#found.size >= foundMax) this.#found.clear();
    const found = { upTo: 0, arrivedAt: null, maybeAt: null };
    this.#found.set(lane, found);
    return found;
  }

  /** Whether the receiver has a version of the object from this change. */
  async #hasFrom({ seq, to, data, type }: StoredEvent, receiver: PartyId): Promise<'surely' | 'maybe' | 'no'> {
    // `object.missed` lists the remaining receivers and says nothing about what arrived.
    if (type === 'object.missed') return 'no';
    const { sent, forwarded, method } = data as ObjectEventData;
    // An `object.base` of an earlier version has no `sent`: with `forwarded` the receiver may have the object.
    if (sent ? sent.includes(receiver) : forwarded) return 'surely';
    if (method === 'DELETE' || !to.includes(receiver)) return 'no';
    const standing = await this.#deliveries.standing(receiver, seq);
    if (standing.state === 'DELIVERED') return 'surely';
    return mayHaveTaken(formOf(data as ObjectEventData, receiver), standing) ? 'maybe' : 'no';
  }

  /** Whether a change arrived at the receiver as the whole object. */
  async #isMadeUpBy(change: StoredEvent, receiver: PartyId): Promise<boolean> {
    if (!change.to.includes(receiver)) return false;
    const { state, row } = await this.#deliveries.standing(receiver, change.seq);
    const isWhole = (row?.data as DeliveryMemory | undefined)?.whole === true;
    return state === 'DELIVERED' && (isWhole || formOf(change.data as ObjectEventData, receiver) === 'whole');
  }

  #drop(receiver: PartyId, seq: Seq): void {
    const owed = this.#owed.get(receiver);
    if (!owed) return;
    owed.seqs.delete(seq);
    owed.aside.delete(seq);
    if (owed.seqs.size + owed.aside.size === 0) this.#owed.delete(receiver);
  }

  #begin(): void {
    if (this.#isHeld || this.#isClosed || !this.#first()) return;
    this.#noting ??= this.#noteAll().finally(() => {
      this.#noting = null;
      // What was added in the last moment.
      this.#begin();
    });
  }

  /** The receiver whose turn it is. */
  #first(): [PartyId, OwedNotes] | undefined {
    for (const entry of this.#owed) if (entry[1].seqs.size > 0) return entry;
    return undefined;
  }

  #setAside(lane: string, receiver: PartyId, some: readonly Seq[], until: Seq): void {
    const owed = this.#owed.get(receiver);
    for (const seq of some) if (owed?.seqs.delete(seq)) owed.aside.add(seq);
    const before = this.#waiting.get(lane);
    const seqs = [...(before?.seqs ?? []), ...some];
    this.#waiting.set(lane, { receiver, seqs, until: Math.max(before?.until ?? 0, until) });
  }

  #resume(lane: string): void {
    const waiting = this.#waiting.get(lane);
    if (!waiting) return;
    this.#waiting.delete(lane);
    const owed = this.#owed.get(waiting.receiver);
    for (const seq of waiting.seqs) if (owed?.aside.delete(seq)) owed.seqs.add(seq);
    this.#begin();
  }

  /** [MISSED-NOTES-2] */
  async #noteAll(): Promise<void> {
    for (;;) {
      const first = this.#first();
      if (!first || this.#isClosed) return;
      const [receiver, owed] = first;
      // The receivers take turns.
      this.#owed.delete(receiver);
      this.#owed.set(receiver, owed);
      if (!(await this.#notePage(receiver, owed))) return;
    }
  }

  /** Notes what some dead letters of a receiver owe, those of one lane at once; false when every lane is held. */
  async #notePage(receiver: PartyId, { seqs }: OwedNotes): Promise<boolean> {
    const some: Seq[] = [];
    for (const seq of seqs) if (some.push(seq) === pageMax) break;
    const lanes = new Map<string, Gap[]>();
    for (const seq of some) {
      const read = () => this.#readGap(receiver, seq, lanes);
      // The lane of an event that cannot be read is not known.
      if (!(await this.#goesOn(`${receiver}/${seq}`, receiver, [seq], read))) return false;
    }
    for (const [stream, gaps] of lanes) {
      if (this.#isClosed) return false;
      const note = () => this.#note(receiver, gaps);
      const held = gaps.map(({ seq }) => seq);
      if (!(await this.#goesOn(laneKey(receiver, stream), receiver, held, note))) return false;
    }
    return true;
  }

  /** Does work for a lane, whose notes wait when it fails; false when all have to. [MISSED-NOTES-6] */
  async #goesOn(lane: string, receiver: PartyId, seqs: readonly Seq[], work: () => Promise<void>): Promise<boolean> {
    const { timers, ports } = this.#context;
    const begun = ports.clock.monotonic();
    try {
      await work();
      const tookMs = ports.clock.monotonic() - begun;
      // A wait for nothing takes a millisecond.
      if (tookMs >= 1) await sleep(ports.clock, Math.min(tookMs, pauseMaxMs), this.#ending.signal);
      return true;
    } catch (error) {
      const message = 'could not record that an object never reached its receiver; next try in 10 s';
      ports.log.warn({ err: error, partyId: receiver }, message);
      const at = ports.clock.now() + retryMs;
      if (error instanceof HubError && error.code === 'unavailable') {
        this.#isHeld = true;
        timers.arm('missed-notes', at, () => this.start());
        return false;
      }
      this.#setAside(lane, receiver, seqs, Number.POSITIVE_INFINITY);
      timers.arm(`missed-notes:${lane}`, at, () => this.#resume(lane));
      return true;
    }
  }

  async #readGap(receiver: PartyId, seq: Seq, lanes: Map<string, Gap[]>): Promise<void> {
    const event = await this.#context.store.event(seq);
    if (!event) return this.#drop(receiver, seq);
    const { stream, data } = event;
    const { module, owner } = data as ObjectEventData;
    const form = formOf(data as ObjectEventData, receiver);
    lanes.set(stream, [...(lanes.get(stream) ?? []), { seq, stream, module, owner, form }]);
  }

  /** Notes what dead letters of one lane owe. */
  async #note(receiver: PartyId, gaps: readonly Gap[]): Promise<void> {
    const [first] = gaps;
    const last = gaps.reduce((one, other) => (other.seq > one.seq ? other : one), first as Gap);
    const lane = laneKey(receiver, last.stream);
    this.#replaced.clear();
    Object.assign(this.#present, { lane, ended: 0 });
    if (!(await this.#isMadeUp(last, receiver))) {
      // The row of a session tells of its present eMSP alone: what it has of it makes no difference.
      const hasBefore = !isOwned(last.module) && (await this.#mayHave(last, receiver, gaps));
      const noted = await this.#record(last, receiver, hasBefore);
      if (noted && 'until' in noted) {
        // When it has ended meanwhile, the notes are looked at again at once.
        const isOver = this.#present.ended >= noted.until;
        const seqs = gaps.map((gap) => gap.seq);
        return isOver ? undefined : this.#setAside(lane, receiver, seqs, noted.until);
      }
      if (noted) this.#noted(lane, noted.at);
    }
    for (const one of gaps) {
      const isSame = () => !this.#replaced.has(`${receiver}/${one.seq}`);
      if (await this.#deliveries.noted(receiver, one.seq, isSame)) this.#drop(receiver, one.seq);
    }
  }

  async #mayHave({ seq, stream }: Gap, receiver: PartyId, gaps: readonly Gap[]): Promise<boolean> {
    const found = this.#foundOf(laneKey(receiver, stream));
    // One that was re-driven may be below what was read of its lane.
    for (const { seq: at, form } of gaps)
      if (mayHaveTaken(form, await this.#deliveries.standing(receiver, at))) found.maybeAt ??= at;
    return found.maybeAt !== null || this.hasBefore({ receiver, seq, stream }, true);
  }

  /** Whether a whole arrived after the change. [MISSED-NOTES-3] */
  async #isMadeUp({ seq, stream }: Gap, receiver: PartyId): Promise<boolean> {
    for await (const later of changesOf(this.#context.store, stream, seq)) {
      if (await this.#isMadeUpBy(later, receiver)) return true;
    }
    return false;
  }

  /** The last change after one that is owed to the receiver; null when there is none. */
  async #laterOf(stream: string, seq: Seq, receiver: PartyId): Promise<Seq | null> {
    let last: Seq | null = null;
    for await (const later of changesOf(this.#context.store, stream, seq)) {
      if (later.to.includes(receiver)) last = later.seq;
    }
    return last;
  }

  /**
   * Records `object.missed`, serialized with pushes of the object. Null when there is nothing to record: the object is
   * gone, or the receiver is known to miss it. `hasBefore`: it has an older version. `until`: a later change is to be sent first. [MISSED-NOTES-5]
   */
  #record(gap: Gap, receiver: PartyId, hasBefore: boolean): Promise<{ at: Seq } | { until: Seq } | null> {
    const { recorder, store } = this.#context;
    const { seq, stream, module, owner } = gap;
    return recorder.inTurn(stream, async (seen) => {
      const object = await readObject(store, module, owner, keyIn(gap), seen);
      const had = object && (isOwned(module) ? (object.sent ?? [object.viewer]) : object.sent);
      if (!object || !had?.includes(receiver)) return null;
      const isKept = hasBefore && !isOwned(module);
      const { outdated = [] } = object;
      if (isKept && outdated.includes(receiver)) return null;
      const isTaken = !hasBefore && !isOwned(module);
      const later = isTaken ? await this.#laterOf(stream, seq, receiver) : null;
      if (later)
        return (await this.#deliveries.standing(receiver, later)).state === 'PENDING' ? { until: later } : null;
      const sent = had.filter((one) => one !== null && (isKept || one !== receiver)) as PartyId[];
      const behind = isKept ? [...outdated, receiver].sort() : outdated.filter((one) => one !== receiver);
      return { at: await recorder.record({ ...noteOf(object, receiver, sent, behind), seen, trace: null }) };
    });
  }
}

/** Whether a dead letter that went as a whole may have arrived. */
function mayHaveTaken(form: Form, { row }: DeliveryStanding): boolean {
  const { attempts = [], whole = form === 'whole' } = (row?.data ?? {}) as Partial<DeliveryMemory>;
  return whole && attempts.some(mayHaveArrived);
}
