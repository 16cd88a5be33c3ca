/**
 * Decides whether a receiver has the present version of an object, and sends the whole object instead of a part (a PATCH,
 * or a PUT below the object) to a receiver that lacks it, or a change of it. [D59, D82]
 *
 * WHOLES-1  An object's row lists the receivers that were owed the whole object (`sent`). Lanes are first in, first
 *     out, so the whole has arrived, or has become a dead letter, before the next part is sent.
 * WHOLES-2  After a whole or a part became a dead letter, the receiver gets the next part in its lane as a whole; and the
 *     hub notes it (`object.missed`), so that the next change is owed whole: a receiver that has no version is taken out
 *     of `sent`, as is that of a session; one that has an older version is `outdated`. The notes are recorded one at a
 *     time, in order; `close` records at most `lateMax` more and drops the rest. After a restart the object says
 *     whether the receiver of a part misses a change.
 * WHOLES-3  The whole of a session is the session as of the change that it replaces, or as of the re-drive: PATCHes behind it
 *     in the lane append charging periods, and would append them twice to a later state. In other modules a part
 *     replaces the fields that it carries, so the present object is sent; a location that is no longer public is not
 *     sent. [D21]
 */
import type { DeliveryRow, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Outcome } from '../../domain/errors.ts';
import { type ObjectEventData, type Owed, owedTo } from '../../domain/events.ts';
import { applyToObject } from '../../domain/fold.ts';
import { isModule, isOwned, modules } from '../../domain/modules.ts';
import { type HubObject, keyIn, streamOf } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import { hasPseudonym } from '../../domain/person.ts';
import { isJoined } from '../../domain/routing.ts';
import { owedWhole } from '../exchange/ingest.ts';
import type { Context } from '../kernel/context.ts';
import { changesMax, changesOf, foldedTo } from '../kernel/object-history.ts';
import { objectFromRow, objectPut, readObject } from '../kernel/row-codecs.ts';
import type { DeliveryMemory } from './delivery-row.ts';
import { type Item, laneKey } from './lanes.ts';
import type { DeliveryStanding } from './outbox-writer.ts';

interface Deliveries {
  /** Whether the receiver has dead letters. */
  hasDead(receiver: PartyId): boolean;
  standing(receiver: PartyId, seq: Seq): Promise<DeliveryStanding>;
}

type Place = Pick<Item, 'receiver' | 'seq' | 'stream'>;

interface Missed extends Pick<HubObject, 'module' | 'owner' | 'key'> {
  readonly receiver: PartyId;
  /** Sequence of the change that did not arrive. */
  readonly seq: number;
  /** Whether it has an older version. */
  readonly hasBefore: boolean;
}

interface Sent {
  readonly owed: Owed | null;
  /** The delivery as it is sent: a whole is larger than the part that it replaces. */
  readonly head: Item;
}

/**
 * Limit of lanes in `#missing`. Beyond it the oldest entry is dropped: then only the log knows that the object is
 * missing, and a refused part heals it.
 */
const missingMax = 10_000;
/** Dead wholes that `close` still records, at most. A larger number delays the end of the process. */
const lateMax = 100;

/** Whether the receiver refused a part because it lacks the object: it gets the whole, once. */
export function isToHeal({ form, asWhole }: Item, { httpStatus, ocpiStatus }: Outcome): boolean {
  return form === 'part' && !asWhole && (httpStatus === 404 || httpStatus === 405 || ocpiStatus === 2003);
}

/** Turns a 404, a 410 or an OCPI 2003 to a DELETE into a success: the receiver does not have the object. */
export function asDelivered({ form }: Item, outcome: Outcome): Outcome {
  const { httpStatus, ocpiStatus } = outcome;
  const isGone = form === 'end' && (httpStatus === 404 || httpStatus === 410 || ocpiStatus === 2003);
  return isGone ? { ...outcome, class: 'delivered' } : outcome;
}

export class Wholes {
  readonly #context: Context;
  readonly #deliveries: Deliveries;
  /** By lane, its last dead letter that is not recorded yet: many may die at once. [WHOLES-2] */
  readonly #unnoted = new Map<string, Place>();
  #noting: Promise<void> | null = null;
  #closed = false;
  /**
   * Lanes with a change that did not arrive, each with a sequence: parts before it were decided on without knowing that, so
   * the first of them goes as a whole. [WHOLES-2]
   */
  readonly #missing = new Map<string, Seq>();

  constructor(context: Context, deliveries: Deliveries) {
    this.#context = context;
    this.#deliveries = deliveries;
  }

  /** The request to send now. Null when the receiver needs the whole object and there is none to send. */
  async formFor(item: Item, event: StoredEvent): Promise<Sent | null> {
    const data = event.data as ObjectEventData;
    const asItCame = { owed: owedTo(data, item.receiver), head: item };
    // What came since its routing rule ended is not for it. A session goes as of its own change.
    const mayHave = isOwned(data.module) || isJoined(this.#context.directory, data.module, data.owner, item.receiver);
    const asWhole = mayHave && (item.asWhole || (item.form === 'part' && (await this.#isMissing(item, event))));
    if (!asWhole) return asItCame;
    const owed = await this.asOf(event, item.owedAt);
    // Digests of an erased person must not take the place of what the receiver has.
    if (hasPseudonym(owed?.body ?? '')) return asItCame;
    return owed && { owed, head: { ...item, asWhole, size: owed.body?.length ?? 0 } };
  }

  /** Whether the receiver of a part misses a change before it: after a restart only the object says so. */
  async #isMissing(item: Item, event: StoredEvent): Promise<boolean> {
    const { owner, module, facts } = event.data as ObjectEventData;
    const isKnown = item.seq < (this.#missing.get(laneOf(item)) ?? 0);
    // What a re-drive sends was decided by it, and what is private now goes as a part, to those who have a version.
    if (item.isRedriven || facts.publish === false) return isKnown && !(await this.#hasBefore(item));
    if (isKnown) return true;
    if (!this.#deliveries.hasDead(item.receiver)) return false;
    const object = await readObject(this.#context.store, module, owner, keyIn(event));
    return isOwned(module)
      ? object?.sent?.includes(item.receiver) === false
      : object?.outdated?.includes(item.receiver) === true;
  }

  /**
   * The request with the whole object in place of a change, as of the last change up to `upTo`. Null when there is none to
   * send. [WHOLES-3]
   */
  async asOf(event: StoredEvent, upTo: Seq): Promise<Owed | null> {
    const { owner, module } = event.data as ObjectEventData;
    const party = this.#context.directory.party(owner);
    const row = await this.#context.store.get({ kind: module, owner, id: keyIn(event) });
    const isPresent = (row !== null && row.seq <= upTo) || !modules[module].isSentAsOfChange;
    const object = (isPresent ? null : await this.#folded(event.stream, upTo)) ?? (row && objectFromRow(row));
    if (!object || !party || object.facts.publish === false) return null;
    return { ...owedWhole(party, object), body: object.body };
  }

  /** The request as it is or was sent to a receiver; `row`: of the delivery. */
  async requestOf(event: StoredEvent, receiver: PartyId, row: DeliveryRow | null): Promise<Owed | null> {
    const memory = row?.data as DeliveryMemory | undefined;
    const whole = memory?.whole ? await this.asOf(event, memory.owedAt ?? event.seq) : null;
    return whole ?? owedTo(event.data as ObjectEventData, receiver);
  }

  /** Notes that a delivery arrived; after a whole the lane no longer misses its object. */
  arrived(item: Item): void {
    if (!isWhole(item) || this.#missing.size + this.#unnoted.size === 0) return;
    const lane = laneOf(item);
    this.#missing.delete(lane);
    this.#unnoted.delete(lane);
  }

  /** Notes that a delivery became a dead letter: the receiver lacks the object, or a change of it. [WHOLES-2] */
  missed(item: Item): void {
    if (item.form === 'end' || (isModule(item.module) && modules[item.module].isImmutable)) return;
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

  /**
   * Records `object.missed`, serialized with pushes of the object. Null when there is nothing to record: the object is
   * gone, the receiver is known to miss it, or never had it and is owed a later change, which goes as a whole.
   */
  #recordMissed({ module, owner, key, receiver, seq, hasBefore }: Missed): Promise<Seq | null> {
    const { recorder, store } = this.#context;
    const stream = streamOf(module, owner, key);
    return recorder.inTurn(stream, async (seen) => {
      const object = await readObject(store, module, owner, key, seen);
      const had = object && (isOwned(module) ? (object.sent ?? [object.viewer]) : object.sent);
      if (!object || !had?.includes(receiver)) return null;
      const isKept = hasBefore && !isOwned(module);
      const { id, lastUpdated, viewer, reason, outdated = [] } = object;
      if (isKept && outdated.includes(receiver)) return null;
      const isTaken = !hasBefore && !isOwned(module);
      if (isTaken) for await (const { to } of changesOf(store, stream, seq)) if (to.includes(receiver)) return null;
      const sent = had.filter((one) => one !== null && (isKept || one !== receiver)) as PartyId[];
      const plain = { module, method: 'PATCH', owner, id, within: [], lastUpdated, facts: {}, viewer, reason } as const;
      const behind = isKept ? [...outdated, receiver].sort() : outdated.filter((one) => one !== receiver);
      const data: ObjectEventData = { ...plain, owed: null, sent, outdated: behind, receiver, warnings: [] };
      const event = { type: 'object.missed' as const, data };
      const after = applyToObject(object, { ...event, body: nothing, to: [] });
      if (!after) return null;
      const fact = { stream, event, party: null, body: nothing };
      const puts = [objectPut(after)];
      return recorder.record({ facts: [fact], puts, seen, trace: null, at: recorder.instant() });
    });
  }

  /** Records dead letters in order until none is left; after `close` at most `lateMax`. [WHOLES-2] */
  async #noteAll(): Promise<void> {
    let left = lateMax;
    for (const [lane, place] of this.#unnoted) {
      if (this.#closed && left-- === 0) break;
      this.#unnoted.delete(lane);
      try {
        await this.#note(place);
      } catch (error) {
        const { log } = this.#context.ports;
        log.warn({ err: error, objectKey: place.stream }, 'could not record that an object never reached its receiver');
        if (this.#closed) break;
      }
    }
    this.#noting = null;
  }

  async #note(place: Place): Promise<void> {
    const event = await this.#context.store.event(place.seq);
    const lane = laneOf(place);
    if (!event) return;
    const { owner, module } = event.data as ObjectEventData;
    const { receiver, seq } = place;
    const hasBefore = await this.#hasBefore(place);
    const at = await this.#recordMissed({ module, owner, key: keyIn(event), receiver, seq, hasBefore });
    // Events before `at` were decided on without knowing it.
    if (at !== null && this.#missing.has(lane)) this.#missing.set(lane, at);
  }

  /** Whether any earlier delivery of the object arrived at the receiver: the first that did was a whole. [WHOLES-1] */
  async #hasBefore({ receiver, seq, stream }: Place): Promise<boolean> {
    for await (const { seq: earlier, to, data, type } of changesOf(this.#context.store, stream)) {
      if (earlier >= seq) return false;
      // `object.missed` lists the remaining receivers and says nothing about what arrived.
      if (type === 'object.missed') continue;
      const { sent, forwarded } = data as ObjectEventData;
      // An `object.base` of an earlier version has no `sent`: with `forwarded` the receiver may have the object.
      if (sent ? sent.includes(receiver) : forwarded) return true;
      if (type === 'object.deleted' || !to.includes(receiver)) continue;
      if ((await this.#deliveries.standing(receiver, earlier)).state === 'DELIVERED') return true;
    }
    // More than `changesMax` changes: the part is sent, and healed when the receiver refuses it.
    return true;
  }

  /** The object as of the last change up to a sequence; null when its events are trimmed or more than `changesMax`. */
  async #folded(stream: string, seq: Seq): Promise<HubObject | null> {
    let last: HubObject | null = null;
    let changes = 0;
    for await (const { change, object } of foldedTo(this.#context.store, { stream, seq })) {
      if (change.seq <= seq) last = object;
      changes += 1;
    }
    return changes < changesMax ? last : null;
  }
}

const isWhole = ({ form, asWhole }: Item): boolean => form === 'whole' || asWhole;
const laneOf = ({ receiver, stream }: Place): string => laneKey(receiver, stream);

/** Body of a PATCH that changes nothing. */
const nothing = '{}';
