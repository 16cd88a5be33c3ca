/**
 * Whether a receiver has an object, and the whole of it for one that has not. [D59, D82]
 *
 * WHOLES-1  The row of an object names those to whom it was owed whole. Lanes are first in, first out, so the whole arrives before the next part
 *     or has ended as dead.
 * WHOLES-2  A receiver whom the whole never reached gets the next part in its lane as a whole, or leaves that list, in the log, when its lane is
 *     empty. They are noted in the log one at a time, in order; a close notes a few more and leaves the rest. What a restart forgets of both
 *     is healed when a part is refused.
 * WHOLES-3  Of a session the whole is the object as of the change that it goes in place of: charging periods that are behind it in the lane are
 *     appended, and stay right. Of all else parts replace what they carry, so the object goes as it stands now, and a location that is not
 *     public any more does not go at all. [D21]
 */
import type { DeliveryRow, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Outcome } from '../../domain/errors.ts';
import { type ObjectEventData, type Owed, owedTo } from '../../domain/events.ts';
import { applyToObject } from '../../domain/fold.ts';
import { type HubObject, streamOf } from '../../domain/object.ts';
import { isOwned } from '../../domain/ownership.ts';
import type { PartyId } from '../../domain/party.ts';
import { owedWhole } from '../exchange/ingest.ts';
import type { Context } from '../kernel/context.ts';
import { objectFromRow, objectPut, readObject } from '../kernel/row-codecs.ts';
import { type Item, laneKey } from './lanes.ts';
import { changesOf, foldedTo } from './object-history.ts';
import type { DeliveryMemory } from './outbox-writer.ts';

/** How deliveries went. */
interface Remembered {
  row(receiver: PartyId, seq: Seq): Promise<DeliveryRow | null>;
  isPending(receiver: PartyId, seq: Seq): boolean;
}

type Place = Pick<Item, 'receiver' | 'seq' | 'stream'>;

interface Missed extends Pick<HubObject, 'module' | 'owner' | 'key'> {
  readonly receiver: PartyId;
  /** Of the whole that did not arrive. */
  readonly seq: number;
}

interface Sent {
  readonly owed: Owed | null;
  /** As it is sent: a whole is larger than the part in whose place it goes. */
  readonly head: Item;
}

const batch = 100;
/** Lanes that are known to miss their object; beyond it only the log knows the oldest. */
const missingMax = 10_000;
/** Wholes that died and that a close still notes. */
const lateMax = 100;

/** The receiver does not know what a part belongs to: it gets the whole, once. */
export function isToHeal({ form, asWhole }: Item, { httpStatus, ocpiStatus }: Outcome): boolean {
  return form === 'part' && !asWhole && (httpStatus === 404 || httpStatus === 405 || ocpiStatus === 2003);
}

/** Where what is to be deleted is not there, the DELETE is done. */
export function asDelivered({ form }: Item, outcome: Outcome): Outcome {
  const isGone = form === 'end' && (outcome.httpStatus === 404 || outcome.httpStatus === 410);
  return isGone ? { ...outcome, class: 'delivered' } : outcome;
}

export class Wholes {
  readonly #context: Context;
  readonly #deliveries: Remembered;
  /** By lane, the last whole of it that died and is not noted yet: many may die at once. [WHOLES-2] */
  readonly #unnoted = new Map<string, Place>();
  #noting: Promise<void> | null = null;
  #closed = false;
  /** Lanes whose last whole did not arrive, and before which sequence what they hold was decided on without knowing. [WHOLES-2] */
  readonly #missing = new Map<string, Seq>();

  constructor(context: Context, deliveries: Remembered) {
    this.#context = context;
    this.#deliveries = deliveries;
  }

  /** What is sent now. Null: the receiver needs the whole, and there is none for it. */
  async formFor(item: Item, event: StoredEvent): Promise<Sent | null> {
    const mayMiss = item.form === 'part' && item.seq < (this.#missing.get(laneOf(item)) ?? 0);
    const asWhole = item.asWhole || (mayMiss && !(await this.#hasBefore(item)));
    if (!asWhole) return { owed: owedTo(event.data as ObjectEventData, item.receiver), head: item };
    const owed = await this.asOf(event);
    return owed && { owed, head: { ...item, asWhole, size: owed.body?.length ?? 0 } };
  }

  /** The request with the whole object in place of a change. Null when there is none to be sent. [WHOLES-3] */
  async asOf(event: StoredEvent): Promise<Owed | null> {
    const { owner, module } = event.data as ObjectEventData;
    const party = this.#context.directory.party(owner);
    const row = await this.#context.store.get({ kind: module, owner, id: keyIn(event) });
    const isPresent = row?.seq === event.seq || module !== 'sessions';
    const object = (isPresent ? null : await this.#folded(event)) ?? (row && objectFromRow(row));
    if (!object || !party || object.facts.publish === false) return null;
    return { ...owedWhole(party, object), body: object.body };
  }

  /** What goes to a receiver, or went. */
  async requestOf(event: StoredEvent, receiver: PartyId): Promise<Owed | null> {
    const memory = (await this.#deliveries.row(receiver, event.seq))?.data as DeliveryMemory | undefined;
    const whole = memory?.whole ? await this.asOf(event) : null;
    return whole ?? owedTo(event.data as ObjectEventData, receiver);
  }

  /** A delivery arrived. */
  arrived(item: Item): void {
    if (!isWhole(item) || this.#missing.size + this.#unnoted.size === 0) return;
    const lane = laneOf(item);
    this.#missing.delete(lane);
    this.#unnoted.delete(lane);
  }

  /** A delivery ended as dead. [WHOLES-2] */
  missed(item: Item): void {
    if (!isWhole(item) || item.module === 'cdrs') return;
    const lane = laneOf(item);
    this.#missing.set(lane, Number.MAX_SAFE_INTEGER);
    const [first] = this.#missing.keys();
    if (this.#missing.size > missingMax && first !== undefined) this.#missing.delete(first);
    const { receiver, seq, stream } = item;
    this.#unnoted.set(lane, { receiver, seq, stream });
    this.#noting ??= this.#noteAll();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#noting;
  }

  /** In turn with pushes of the object. Null when what is owed behind it is to make up for it. */
  #recordMissed({ module, owner, key, receiver, seq }: Missed): Promise<Seq | null> {
    const { recorder, store } = this.#context;
    const stream = streamOf(module, owner, key);
    return recorder.inTurn(stream, async (seen) => {
      const object = await readObject(store, module, owner, key, seen);
      const had = object && (isOwned(module) ? (object.sent ?? [object.viewer]) : object.sent);
      if (!object || !had?.includes(receiver)) return null;
      const later = await store.history(stream, seq, batch);
      if (later.some(({ to }) => to.includes(receiver))) return null;
      const { id, lastUpdated, viewer, reason } = object;
      const sent = had.filter((one) => one !== null && one !== receiver) as PartyId[];
      const plain = { module, method: 'PATCH', owner, id, within: [], lastUpdated, facts: {}, viewer, reason } as const;
      const data: ObjectEventData = { ...plain, owed: null, sent, receiver, warnings: [] };
      const after = applyToObject(object, data, nothing);
      if (!after) return null;
      const fact = { stream, event: { type: 'object.missed' as const, data }, party: null, body: nothing };
      const puts = [objectPut(after)];
      return recorder.record({ facts: [fact], puts, seen, trace: null, at: recorder.instant() });
    });
  }

  /** In order, until none is left, or so many after a close. */
  async #noteAll(): Promise<void> {
    let left = lateMax;
    for (const [lane, place] of this.#unnoted) {
      if (this.#closed && left-- === 0) break;
      this.#unnoted.delete(lane);
      try {
        await this.#note(place);
      } catch (error) {
        const { log } = this.#context.ports;
        log.warn({ err: error, objectKey: place.stream }, 'could not note that an object never arrived');
        if (this.#closed) break;
      }
    }
    this.#noting = null;
  }

  async #note(place: Place): Promise<void> {
    const event = await this.#context.store.event(place.seq);
    const lane = laneOf(place);
    if (!event) return;
    if (await this.#hasBefore(place)) return void this.#missing.delete(lane);
    const { owner, module } = event.data as ObjectEventData;
    const { receiver, seq } = place;
    const at = await this.#recordMissed({ module, owner, key: keyIn(event), receiver, seq });
    // What was decided on before that does not know it yet.
    if (at !== null && this.#missing.has(lane)) this.#missing.set(lane, at);
  }

  /** Whether anything of the object arrived at the receiver before: the first that did was a whole. [WHOLES-1] */
  async #hasBefore({ receiver, seq, stream }: Place): Promise<boolean> {
    for await (const { seq: earlier, to, data, type } of changesOf(this.#context.store, stream)) {
      if (earlier >= seq) return false;
      // It says who else was sent the object, and nothing of what arrived.
      if (type === 'object.missed') continue;
      const { sent, forwarded } = data as ObjectEventData;
      // A base that an earlier version made does not say who has the object.
      if (sent ? sent.includes(receiver) : forwarded) return true;
      if (type === 'object.deleted' || !to.includes(receiver)) continue;
      const row = await this.#deliveries.row(receiver, earlier);
      if (row ? row.state === 'DELIVERED' : !this.#deliveries.isPending(receiver, earlier)) return true;
    }
    // Too many changes to look at: the part is sent, and healed when it is refused.
    return true;
  }

  /** Null when the log does not tell any more, or has too much of it. */
  async #folded(event: StoredEvent): Promise<HubObject | null> {
    for await (const { change, object } of foldedTo(this.#context.store, event)) {
      if (change.seq === event.seq) return object;
    }
    return null;
  }
}

const isWhole = ({ form, asWhole }: Item): boolean => form === 'whole' || asWhole;
const laneOf = ({ receiver, stream }: Place): string => laneKey(receiver, stream);

/** A fragment that changes nothing. */
const nothing = '{}';

/** Of the object in the name of its stream. */
const keyIn = ({ stream }: StoredEvent): string => stream.split('/').slice(2).join('/');
