/**
 * Decides what a re-drive of a delivery sends: the change as it was, the whole object as of now, or nothing because the
 * delivery is stale. [interface, Delivery rules 6; D21, D46, D53]
 *
 * REDRIVEN-AS-1  A delivery is stale when the receiver has something later that takes its place: the whole object, its end, or a
 *     PUT of the part; or is about to get a later change, which goes as a whole behind a dead letter. What arrived once counts, also when a re-drive of it failed since. The log decides what is later: clocks of CPOs count whole seconds, or go back.
 * REDRIVEN-AS-2  It is stale when the receiver may no longer have the object: it was deleted or made private since, its session
 *     or CDR belongs to another eMSP, or to nobody while its token names another party or none, a person's names in it were erased since, or no routing rule joins receiver and
 *     sender any more. A replay to the receivers of then asks for no rule, nor does the end of an object.
 * REDRIVEN-AS-3  When later changes of the same part passed the receiver by, or reached it as parts that leave this one open,
 *     the change as it was would overwrite them, so the whole object is sent. It is sent once: other deliveries that it
 *     contains are stale then. Changes to parts of a location that do not overlap do not concern each other. Where no rule joins the
 *     two any more there is no whole to send: what passed the receiver by is not for it, and a delivery of which it has something later is stale.
 * REDRIVEN-AS-4  Of the changes after it at most `laterMax` are read, and as many notes that one did not arrive; when they leave it open, the delivery counts as stale.
 * REDRIVEN-AS-5  A part for a receiver that has no version of the object, and is about to get none, goes as the whole object as of now:
 *     other deliveries, which that contains, are stale then, and none of them goes over it.
 * REDRIVEN-AS-6  A re-driven whole names its receiver among those who were sent the object, from whom its dead letter had taken it: what
 *     deletes the object or makes it private goes to it, too.
 */
import type { Seen, Seq, StoredEvent } from '../../../storage/contract.ts';
import { formOf, type ObjectEventData } from '../../domain/events.ts';
import { isOwned, modules } from '../../domain/modules.ts';
import { keyIn } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import { hasPseudonym } from '../../domain/person.ts';
import { isJoined } from '../../domain/routing.ts';
import { keepNewest } from '../../kit/memo.ts';
import { asOfIn, type DeliveryMemory, type RedrivenAs } from '../delivery/delivery-row.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { laneKey } from '../delivery/lanes.ts';
import type { DeliveryStanding } from '../delivery/outbox-writer.ts';
import type { Context } from '../kernel/context.ts';
import { changesMax, changesOf } from '../kernel/log-reads.ts';
import type { Recording } from '../kernel/recorder.ts';
import { noteOf, readObject } from '../kernel/row-codecs.ts';
import type { RedriveOptions } from '../ports/operator.ts';

/** A delivery that may be re-driven. */
export interface Candidate {
  readonly event: StoredEvent;
  readonly receiver: PartyId;
}

export type Routing = Pick<RedriveOptions, 'routing'>['routing'];

/** A larger number makes a re-drive of an object with many dead updates read, for each of them, more of the others. */
const laterMax = 500;
/** Limit of lanes whose last whole is remembered; without it another whole is sent. */
const wholesMax = 10_000;

export class RedriveForms {
  readonly #context: Context;
  readonly #dispatcher: Dispatcher;
  /** By lane, the last delivery that was re-driven as a whole. [REDRIVEN-AS-3] */
  readonly #wholes = new Map<string, Seq>();

  constructor(context: Context, dispatcher: Dispatcher) {
    this.#context = context;
    this.#dispatcher = dispatcher;
  }

  /**
   * To be called in the object's turn, or for a plan, which says whether an earlier delivery of the lane would go before. Adds the
   * object's row to `seen`.
   */
  async of(candidate: Candidate, routing: Routing, seen: Seen[] = [], isBehind = false): Promise<RedrivenAs | 'stale'> {
    const { event, receiver } = candidate;
    const own = event.data as ObjectEventData;
    if ([event.stream, event.body ?? '', JSON.stringify(own)].some(hasPseudonym)) return 'stale';
    const isEnd = formOf(own, receiver) === 'end';
    if (routing !== 'then' && !isEnd && !this.isRouted(candidate)) return 'stale';
    if ((await this.#isGone(candidate, isEnd, seen)) || (await this.#isContained(candidate))) return 'stale';
    const as = await this.#after(candidate, isEnd);
    const isPart = as === 'change' && formOf(own, receiver) === 'part' && own.facts.publish !== false;
    const lacksAll = isPart && !isBehind && this.isRouted(candidate) && !(await this.#hasBefore(candidate));
    return lacksAll ? 'whole' : as;
  }

  /** Notes that a delivery goes as a whole. */
  sentWhole({ event, receiver }: Candidate): void {
    keepNewest(this.#wholes, laneKey(receiver, event.stream), event.seq, wholesMax);
  }

  /** What is recorded of the object with a re-drive; call it in the object's turn. [REDRIVEN-AS-6] */
  async noteOf(
    { event, receiver }: Candidate,
    as: RedrivenAs,
    seen: Seen[],
  ): Promise<Pick<Recording, 'facts' | 'puts'>> {
    const data = event.data as ObjectEventData;
    const { module, owner } = data;
    const isWhole = as === 'whole' || formOf(data, receiver) === 'whole';
    const object =
      isWhole && !isOwned(module) ? await readObject(this.#context.store, module, owner, keyIn(event), seen) : null;
    if (!object?.sent || object.sent.includes(receiver)) return { facts: [] };
    // It may have missed later changes.
    const outdated = [...(object.outdated ?? []), receiver].sort();
    return noteOf(object, receiver, [...object.sent, receiver].sort(), outdated, 'operator');
  }

  isRouted({ event, receiver }: Candidate): boolean {
    const { owner, module } = event.data as ObjectEventData;
    return isJoined(this.#context.directory, module, owner, receiver);
  }

  /** [REDRIVEN-AS-2] */
  async #isGone({ event, receiver }: Candidate, isEnd: boolean, seen: Seen[]): Promise<boolean> {
    const { module, owner, facts } = event.data as ObjectEventData;
    const present = await readObject(this.#context.store, module, owner, keyIn(event), seen);
    if (present === null || isEnd) return (present === null) !== isEnd;
    if (hasPseudonym(present.body)) return true;
    if (present.facts.publish === false && facts.publish !== false) return true;
    if (!isOwned(module)) return false;
    // Without an eMSP of its own (none is routed, or known) it stays with the one that its token names.
    return (present.viewer ?? present.facts.cdrToken?.party) !== receiver;
  }

  /** Whether a whole that was re-driven contains it. [REDRIVEN-AS-3] */
  async #isContained({ event, receiver }: Candidate): Promise<boolean> {
    const seq = this.#wholes.get(laneKey(receiver, event.stream));
    if (seq === undefined || seq === event.seq) return false;
    const { row, state } = await this.#dispatcher.standing(receiver, seq);
    const memory = (row?.data ?? {}) as Partial<DeliveryMemory>;
    return isOnItsWay(state) && memory.whole === true && (asOfIn(memory) ?? 0) >= event.seq;
  }

  /** [REDRIVEN-AS-5] */
  async #hasBefore({ event: { stream, seq }, receiver }: Candidate): Promise<boolean> {
    const { notes } = this.#dispatcher.wholes;
    if (await notes.hasBefore({ receiver, seq, stream })) return true;
    return mayHave(this.#context, this.#dispatcher, { receiver, stream, before: seq });
  }

  /** What the changes after it leave. [REDRIVEN-AS-1, REDRIVEN-AS-3, REDRIVEN-AS-4] */
  async #after({ event, receiver }: Candidate, isEnd: boolean): Promise<RedrivenAs | 'stale'> {
    const own = event.data as ObjectEventData;
    const ownPath = formOf(own, receiver) === 'part' ? own.within : [];
    // There is no whole of what is private, and none for those whom no rule joins any more: what came since is not for them.
    const isPlain = isEnd || modules[own.module].isImmutable || own.facts.publish === false;
    const mayBeWhole = !isPlain && this.isRouted({ event, receiver });
    let as: RedrivenAs = 'change';
    let left = laterMax;
    for await (const later of changesOf(this.#context.store, event.stream, event.seq)) {
      if (later.type === 'object.missed') continue;
      if (left-- === 0) return 'stale';
      const data = later.data as ObjectEventData;
      const isOwed = later.to.includes(receiver);
      if (later.type === 'object.resent' && !isOwed) continue;
      const standing = isOwed ? await this.#dispatcher.standing(receiver, later.seq) : null;
      if (standing !== null && !reaches(standing)) continue;
      const isAhead = standing?.state === 'PENDING';
      const isWhole = isAhead ? await this.#isMissed({ event, receiver }) : wentWhole(standing);
      const isPart = !isWhole && formOf(data, receiver) === 'part';
      const path = isPart ? data.within : [];
      if (!overlap(path, ownPath)) continue;
      const takesPlace = !isPart || (data.method === 'PUT' && path.length <= ownPath.length);
      const hasLater = standing !== null && (!mayBeWhole || takesPlace);
      if (isAhead || hasLater) return 'stale';
      if (mayBeWhole) as = 'whole';
    }
    return as;
  }

  /** Whether it did not arrive, so that the next change goes as a whole. [WHOLES-2] */
  async #isMissed({ event, receiver }: Candidate): Promise<boolean> {
    return !reaches(await this.#dispatcher.standing(receiver, event.seq));
  }
}

const isOnItsWay = (state: DeliveryStanding['state']): boolean => state === 'DELIVERED' || state === 'PENDING';

/** Whether it arrived before it was re-driven and failed. */
const hasArrived = ({ row }: DeliveryStanding): boolean =>
  (row?.data as DeliveryMemory | undefined)?.attempts.some((attempt) => attempt.class === 'delivered') === true;

/** Whether the receiver has what it brings, or is about to get it. */
const reaches = (standing: DeliveryStanding): boolean => isOnItsWay(standing.state) || hasArrived(standing);

/**
 * Whether the receiver may have a version of an object, or is about to get one. `before`: by changes below that sequence alone.
 * [REDRIVEN-AS-5, RESENDS-6]
 */
export async function mayHave(
  { store }: Pick<Context, 'store'>,
  dispatcher: Pick<Dispatcher, 'standing'>,
  { receiver, stream, before = Number.POSITIVE_INFINITY }: { receiver: PartyId; stream: string; before?: Seq },
): Promise<boolean> {
  let left = changesMax;
  for await (const { type, data, to, seq } of changesOf(store, stream)) {
    if (seq >= before) return false;
    if (--left === 0) return true;
    // It lists the remaining receivers and says nothing about what arrived.
    if (type === 'object.missed') continue;
    const { sent, forwarded, method } = data as ObjectEventData;
    // Of an `object.base`: nothing else is left of the deliveries before it.
    if (sent ? sent.includes(receiver) : forwarded) return true;
    const isOwed = method !== 'DELETE' && to.includes(receiver);
    if (isOwed && reaches(await dispatcher.standing(receiver, seq))) return true;
  }
  return false;
}

/** Whether the whole was sent in place of a part. */
const wentWhole = (standing: DeliveryStanding | null): boolean =>
  (standing?.row?.data as DeliveryMemory | undefined)?.whole === true;

/** Whether one path contains the other, so that the changes overlap. */
function overlap(one: readonly string[], other: readonly string[]): boolean {
  return one.every((id, depth) => (other[depth] ?? id).toLowerCase() === id.toLowerCase());
}
