/**
 * Decides whether a receiver has the present version of an object, and sends the whole object instead of a part (a PATCH,
 * or a PUT below the object) to a receiver that lacks it, or a change of it. [D59, D82]
 *
 * WHOLES-1  An object's row lists the receivers that were owed the whole object (`sent`). Lanes are first in, first
 *     out, so the whole has arrived, or has become a dead letter, before the next part is sent.
 * WHOLES-2  After a whole or a part became a dead letter, the receiver gets the next part in its lane as a whole, also after a
 *     restart; and the hub notes it at the object, so that the next change is owed whole (MISSED-NOTES-1–MISSED-NOTES-5).
 * WHOLES-3  The whole of a session is the session as of the change that it replaces, or as of the re-drive when that decided on the whole: PATCHes
 *     behind it in the lane append charging periods, and would append them twice to a later state. In other modules a part
 *     replaces the fields that it carries, so the present object is sent; a location that is no longer public is not
 *     sent. [D21]
 * WHOLES-4  Where there is no whole that may be sent (the routing rule has ended, or it names an erased person), a part goes to a
 *     receiver that has a version of the object, and nothing goes to one that has none, has refused the part, or has something later. That a
 *     location is private goes to one that may have taken it in spite of its answers, too.
 * WHOLES-5  A large whole is read in a turn of the event loop that is far from those of other large texts (TURNS-2): many receivers may
 *     lack theirs at once.
 * WHOLES-6  An erasure forgets what was folded of objects, which may name the person.
 * WHOLES-7  Some servers answer a part of an object that they lack with 500 or OCPI 3xxx each time, and a lane waits for its head for a day:
 *     from the third such answer in a row on, the whole goes in place of the part. It is retried as the part was.
 * WHOLES-8  Some receivers refuse a CDR that they have. Of one that may have arrived before, as when its answer was lost, that is a success; not
 *     where no attempt sent a byte: a receiver that compares ids across CPOs has another one then.
 * WHOLES-9  What is kept of folded objects takes `keptMax` characters at most; beyond it all is folded from the beginning again.
 * WHOLES-10  In one turn of the event loop one fold begins or goes on, receivers taking turns (TURNS-1).
 */
import type { DeliveryRow, Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import { isOwnFault, isPartRefusal, type Outcome } from '../../domain/errors.ts';
import { type Attempt, mayHaveArrived, type ObjectEventData, type Owed, owedTo } from '../../domain/events.ts';
import { isOwned, modules } from '../../domain/modules.ts';
import { type HubObject, keyIn } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import { hasPseudonym } from '../../domain/person.ts';
import { isJoined } from '../../domain/routing.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import { largeTurn, perTurn } from '../../kit/turns.ts';
import { owedWhole } from '../exchange/owed-requests.ts';
import type { Context } from '../kernel/context.ts';
import { changesMax, type Folded, foldedTo, unfolded } from '../kernel/log-reads.ts';
import { objectFromRow, objectsSize, readObject } from '../kernel/row-codecs.ts';
import { asOfIn, type DeliveryMemory, type Item, leavesGap } from './delivery-row.ts';
import { laneKey } from './lanes.ts';
import { type Deliveries, MissedNotes, type Place } from './missed-notes.ts';

export interface Sent {
  readonly owed: Owed | null;
  /** The delivery as it is sent: a whole is larger than the part that it replaces. */
  readonly head: Item;
}

/**
 * Limit of lanes in `#missing`. Beyond it the oldest entry is dropped: then rows and object say what is missing, which
 * costs reads of the log.
 */
const missingMax = 10_000;

/** Attempts of a part in a row that a partner answers as its own fault, until the whole takes its place. [WHOLES-7] */
const faultsMax = 3;

/** Whether the receiver refused a part, maybe because it lacks the object: it gets the whole, once, if there is one. [WHOLES-7] */
export function isToHeal({ form, asWhole, module, attempts }: Item, outcome: Outcome): boolean {
  if (form !== 'part' || asWhole) return false;
  if (isPartRefusal(module, outcome)) return true;
  const before = attempts.slice(1 - faultsMax);
  const isAgain = before.length === faultsMax - 1 && before.every((each) => isOwnFault(answeredBy(each)));
  return isAgain && isOwnFault(outcome);
}

const answeredBy = ({ class: met, http_status: httpStatus }: Attempt) => ({ class: met, httpStatus });

/**
 * Turns a refusal into a success where the receiver says that it has what is sent: a 404, a 410 or an OCPI 2003 to a DELETE says that the
 * object is gone. [WHOLES-8]
 */
export function asDelivered({ form, module, attempts }: Item, outcome: Outcome): Outcome {
  const { class: met, httpStatus, ocpiStatus, message, excerpt } = outcome;
  const isGone = form === 'end' && (httpStatus === 404 || httpStatus === 410 || ocpiStatus === 2003);
  const isKnown = module === 'cdrs' && met === 'client_error' && /already exist/i.test(`${message} ${excerpt}`);
  const isHere = isKnown && (outcome.isResent === true || attempts.some(mayHaveArrived));
  return isGone || isHere ? { ...outcome, class: 'delivered' } : outcome;
}

export class Wholes {
  readonly notes: MissedNotes;
  readonly #context: Context;
  readonly #deliveries: Deliveries;
  /**
   * Lanes with a change that did not arrive, each with a sequence: parts before it were decided on without knowing that, so
   * the first of them goes as a whole. [WHOLES-2]
   */
  readonly #missing = new Map<string, Seq>();
  /** Of what is sent. */
  #folds: Folds;

  constructor(context: Context, deliveries: Deliveries) {
    this.#context = context;
    this.#deliveries = deliveries;
    this.#folds = new Folds(context.store);
    this.notes = new MissedNotes(context, deliveries, (lane, at) => {
      // Events before `at` were decided on without knowing it.
      if (this.#missing.has(lane)) this.#missing.set(lane, at);
    });
  }

  /** The request to send now where that needs no read, as nearly always; null: `formFor` says it. */
  formAtOnce(item: Item, event: StoredEvent): Sent | null {
    if (item.asWhole || item.form === 'part') return null;
    return { owed: owedTo(event.data as ObjectEventData, item.receiver), head: item };
  }

  /** The request to send now. Null when the receiver needs the whole object and there is none to send. [WHOLES-4] */
  async formFor(item: Item, event: StoredEvent): Promise<Sent | null> {
    const data = event.data as ObjectEventData;
    const asItCame = { owed: owedTo(data, item.receiver), head: item };
    if (!item.asWhole && !(item.form === 'part' && (await this.#isMissing(item, event)))) return asItCame;
    if (await this.#isLarge(event)) await largeTurn(item.receiver);
    // A receiver without a routing rule gets no later state. A session goes as of its own change.
    const mayHave = isOwned(data.module) || isJoined(this.#context.directory, data.module, data.owner, item.receiver);
    const owed = mayHave ? await this.#asOf(event, item.asOf, item.receiver, this.#folds) : null;
    // Digests of an erased person must not take the place of what the receiver has.
    if (mayHave && !hasPseudonym(owed?.body ?? ''))
      return owed && { owed, head: { ...item, asWhole: true, size: owed.body?.length ?? 0 } };
    return !item.asWhole && (await this.notes.hasBefore(item)) ? asItCame : null;
  }

  /** Whether what is stored of the object is large. [WHOLES-5] */
  async #isLarge(event: StoredEvent): Promise<boolean> {
    const { owner, module } = event.data as ObjectEventData;
    return (await objectsSize(this.#context.store, module, [owner], keyIn(event))) > 0;
  }

  /** Whether the receiver of a part misses a change before it: after a restart only the object says so. */
  async #isMissing(item: Item, event: StoredEvent): Promise<boolean> {
    const { owner, module, facts } = event.data as ObjectEventData;
    const isKnown = item.seq < (this.#missing.get(laneOf(item)) ?? 0) || (await this.notes.isOwed(item));
    // What a re-drive sends was decided by it, and what is private now goes as a part, to those who have a version, or may.
    const isPrivate = facts.publish === false;
    if (item.isRedriven || isPrivate) return isKnown && !(await this.notes.hasBefore(item, isPrivate));
    if (isKnown) return true;
    if (!this.#deliveries.hasDead(item.receiver)) return false;
    const object = await readObject(this.#context.store, module, owner, keyIn(event));
    if (!isOwned(module)) return object?.outdated?.includes(item.receiver) === true;
    // The row of a session tells of its present eMSP alone.
    if (object && object.viewer !== item.receiver) return !(await this.notes.hasBefore(item));
    return object?.sent?.includes(item.receiver) === false;
  }

  /**
   * The request with the whole object in place of a change, as of the last change up to `upTo`. Null when there is none to
   * send. [WHOLES-3]
   */
  async #asOf(event: StoredEvent, upTo: Seq, receiver: PartyId, folds: Folds): Promise<Owed | null> {
    const { owner, module } = event.data as ObjectEventData;
    const party = this.#context.directory.party(owner);
    const row = await this.#context.store.get({ kind: module, owner, id: keyIn(event) });
    const isPresent = (row !== null && row.seq <= upTo) || !modules[module].isSentAsOfChange;
    const object = (isPresent ? null : await folds.asOf(event.stream, upTo, receiver)) ?? (row && objectFromRow(row));
    if (!object || !party || object.facts.publish === false) return null;
    return { ...owedWhole(party, object), body: object.body };
  }

  /** The request as it is or was sent to a receiver; `row`: of the delivery. */
  async requestOf(event: StoredEvent, receiver: PartyId, row: DeliveryRow | null): Promise<Owed | null> {
    const memory = row?.data as DeliveryMemory | undefined;
    const folds = new Folds(this.#context.store);
    const whole = memory?.whole ? await this.#asOf(event, asOfIn(memory) ?? event.seq, receiver, folds) : null;
    return whole ?? owedTo(event.data as ObjectEventData, receiver);
  }

  /** [WHOLES-6] */
  forget(): void {
    // A fold in progress goes on in the former ones.
    this.#folds = new Folds(this.#context.store);
  }

  /** Notes that a delivery arrived; after a whole the lane no longer misses its object. */
  arrived(item: Item): void {
    if (isWhole(item) && this.#missing.size > 0) this.#missing.delete(laneOf(item));
  }

  /** Notes that a delivery became a dead letter: the receiver lacks the object, or a change of it. [WHOLES-2] */
  missed(item: Item): void {
    if (!leavesGap(item)) return;
    this.#missing.set(laneOf(item), Number.MAX_SAFE_INTEGER);
    const [first] = this.#missing.keys();
    if (this.#missing.size > missingMax && first !== undefined) this.#missing.delete(first);
  }
}

const isWhole = ({ form, asWhole }: Item): boolean => form === 'whole' || asWhole;
const laneOf = ({ receiver, stream }: Place): string => laneKey(receiver, stream);

const keptMax = 16 * 1024 * 1024;
/** Of an object that is kept, beside its body: characters in place of an estimate of its bytes. */
const besideBody = 1_024;

const foldTurn = perTurn({ ofAll: 1 }, nextTurn);

const sizeOf = ({ object }: Folded): number => besideBody + (object?.body.length ?? 0);

/**
 * Folds objects from the log as they were at a change. Each is kept, so that the next one of the same object goes on from there: a backlog
 * of parts that its receiver refuses would fold an object once for each of its changes. [WHOLES-9, WHOLES-10]
 */
class Folds {
  readonly #store: Pick<Store, 'history'>;
  readonly #kept = new Map<string, Folded>();
  /** Characters of what is kept. */
  #size = 0;

  constructor(store: Pick<Store, 'history'>) {
    this.#store = store;
  }

  /** The object as of the last change up to a sequence; null when its events are trimmed or more than `changesMax`. */
  async asOf(stream: string, seq: Seq, receiver: PartyId): Promise<HubObject | null> {
    const turn = () => foldTurn(true, receiver);
    await turn();
    const known = this.#kept.get(stream);
    let last = known && known.seq <= seq ? known : unfolded;
    if (last.seq < seq) {
      for await (const { change, object } of foldedTo(this.#store, { stream, seq }, last, turn)) {
        if (change.seq <= seq) last = { seq: change.seq, object, changes: last.changes + 1 };
      }
      this.#keep(stream, last);
    }
    return last.changes < changesMax ? last.object : null;
  }

  #keep(stream: string, folded: Folded): void {
    const before = this.#kept.get(stream);
    this.#size += sizeOf(folded) - (before ? sizeOf(before) : 0);
    if (this.#size > keptMax) {
      this.#kept.clear();
      this.#size = sizeOf(folded);
    }
    this.#kept.set(stream, folded);
  }
}
