/**
 * Rules of deliveries, checked at every call, settle and crash.
 *
 * TEST-DELIVERY-RULES-1  Per receiver and object, what is owed leaves in the order of the log, one at a time.
 * TEST-DELIVERY-RULES-2  What the hub knows to be delivered is not sent again, unless put back, or unless a crash took the memory of it.
 * TEST-DELIVERY-RULES-3  A dead letter has a reason that was really met.
 * TEST-DELIVERY-RULES-4  A floor never passes what is neither delivered nor remembered by a row.
 * TEST-DELIVERY-RULES-5  A CDR waits for the undelivered updates of its session, ten seconds at most.
 * TEST-DELIVERY-RULES-6  What is owed is in the log until it has ended; nothing goes from the log before its time.
 * TEST-DELIVERY-RULES-7  Nothing is sent to where the receiver has no endpoint, and only what could not be sent for that ends for it.
 * TEST-DELIVERY-RULES-8  The first that a receiver gets of an object is a whole; but that it is private goes as it came, after one that was sent.
 * TEST-DELIVERY-RULES-9  No attempt of a module while its circuit is open, one while it is half-open; never more than the partner may have in flight.
 */
import type { Outcome } from '../../src/domain/errors.ts';
import type { OutboundCall } from '../../src/hub/ports/ports.ts';
import type { DeliveryRow, Floor } from '../../storage/contract.ts';
import { demand, type Fact, type Facts } from './facts.ts';
import { keyOf, type MemoryDisk } from './memory-disk.ts';
import {
  type AsyncState,
  type DeliveryLimits,
  type Flight,
  final,
  isFinal,
  isGivenUp,
  isOpen,
  type Lane,
  moduleOf,
  type Owed,
  overlaps,
  unsent,
} from './owed.ts';
import { changed, type Json, same } from './reference.ts';
import { TimingRules } from './timing-rules.ts';

type Call = Pick<OutboundCall, 'correlationId' | 'method' | 'body'>;

export class DeliveryRules {
  readonly #facts: Facts;
  readonly #limits: DeliveryLimits;
  readonly owed = new Map<string, Owed>();
  /** Deliveries and jobs that an operator forces. */
  readonly forced = new Set<string>();
  readonly #lanes = new Map<string, Lane>();
  readonly #byReceiver = new Map<string, Owed[]>();
  readonly #inFlight = new Map<string, number>();
  readonly #floors = new Map<string, number>();
  #life = 0;
  /** Parties that were suspended, and when last. */
  readonly #suspendedAt = new Map<string, number>();
  readonly #timing: TimingRules;

  constructor(facts: Facts, limits: DeliveryLimits) {
    this.#facts = facts;
    this.#limits = limits;
    this.#timing = new TimingRules(facts, limits.concurrency);
  }

  committed(fact: Fact): void {
    for (const receiver of fact.to) this.#owe(fact, receiver);
    if (fact.type === 'delivery.redriven') this.#redriven(fact);
    if (fact.type === 'delivery.discarded') this.#discarded(fact);
    this.#timing.committed(fact);
    if (fact.type === 'partner.suspended') {
      const company = this.#facts.around.cast.companies.find(({ id }) => fact.stream === `partner:${id}`);
      for (const { party } of company?.members ?? []) this.#suspendedAt.set(party, fact.at);
    }
  }

  /** An operator opens or closes a circuit: it may have held back until now what goes now. */
  circuitIsSet(company: string): void {
    this.#timing.companyDisturbed(company);
  }

  /** The call is about to be made. */
  begins(call: Call, receiver: string, stream: string, company: string, state: AsyncState): Flight {
    const owed = this.#find(call.correlationId, receiver, stream);
    const { lane } = owed;
    const where = () => `${owed.fact.seq}-${receiver} ${stream}`;
    demand(lane.inFlight === 0, 'one in flight per receiver and object', where);
    demand(!owed.isDelivered, 'what is known to be delivered is not sent again', where);
    demand(!isGivenUp(owed), 'a dead letter is not sent by itself', where);
    demand(!owed.mayBeDead, 'what is put back is written before it goes', where);
    demand(state.circuit !== 'open', 'no attempt while the circuit is open', where);
    demand(!state.paused, 'no attempt while paused', where);
    demand(!this.#facts.endpoints.isLacking(receiver, moduleOf(owed)), 'nothing is sent to no endpoint', where);
    demand(!this.#isParted(owed), 'nothing is sent over a routing rule that has ended', where);
    const flying = this.#inFlight.get(company) ?? 0;
    const key = `${company} ${moduleOf(owed)}`;
    const ofModule = this.#inFlight.get(key) ?? 0;
    demand(flying < this.#limits.concurrency, 'no more in flight than a partner may have', where);
    demand(state.circuit === 'closed' || ofModule === 0, 'one trial at a time while half-open', where);
    this.#judgeTurn(owed);
    this.#timing.begins(owed, company, state);
    this.#judgeStale(owed, call);
    this.#judgeSession(owed);
    this.#timing.noticeHeld(owed, this.#byReceiver.get(receiver) ?? []);
    lane.inFlight++;
    lane.firstSent = Math.min(lane.firstSent, owed.fact.seq);
    this.#inFlight.set(company, flying + 1);
    this.#inFlight.set(key, ofModule + 1);
    return { owed, company };
  }

  /** Its receiver takes the request. */
  taken({ owed }: Flight, copies: Map<string, Json | null>, method: string, body: string): void {
    const { fact, lane, receiver } = owed;
    const isPatch = fact.data.method === 'PATCH';
    const key = `${receiver} ${fact.stream}`;
    const where = () => `${fact.seq}-${receiver} ${fact.stream} ${method}`;
    const within = fact.data.within as string[];
    const isAsPushed = isPatch ? method === 'PATCH' : body === fact.body;
    const isWhole = method !== 'PATCH' && (!isAsPushed || within.length === 0);
    if (fact.data.method === 'DELETE') demand(method === 'DELETE', 'a delivery carries what was pushed', where);
    else if (isAsPushed) demand(body === fact.body, 'a delivery carries what was pushed', where);
    else {
      const mayBeWhole = isPatch || within.length > 0 || owed.redriven > 0;
      demand(mayBeWhole, 'a delivery carries what was pushed', where);
      demand(method === 'PUT' && this.#isWhole(owed, JSON.parse(body)), 'a delivery carries the whole object', where);
      this.#facts.around.hit('a whole object went in place of a part');
    }
    if (!isWhole && method !== 'DELETE') this.#judgeFirst(owed, copies.has(key), where);
    if (owed.redriven === 0 && !owed.isSeen) {
      demand(fact.seq > lane.seenTo, 'each object arrives in the order of the log', where);
      lane.seenTo = fact.seq;
    }
    owed.isTaken = owed.isSeen = true;
    if (method === 'DELETE') copies.set(key, null);
    else if (isWhole) copies.set(key, JSON.parse(body) as Json);
    else {
      const change = { ...fact.data, method, body };
      const next = changed(copies.get(key) ?? null, change as unknown as Parameters<typeof changed>[1]);
      if (next) copies.set(key, next);
    }
  }

  /** A session goes as of the change; everything else, and what was put back, may go as it stands now. */
  #isWhole({ fact, redriven }: Owed, body: unknown): boolean {
    const isAsOf = fact.data.module === 'sessions' && redriven === 0;
    const later = isAsOf ? [] : this.#laterOf(fact);
    return [fact, ...later].some(({ after }) => same(body, after));
  }

  #laterOf({ stream, seq: from }: Fact): Fact[] {
    return this.#facts.log.filter(({ stream: of, seq }) => of === stream && seq > from);
  }

  /** There was no whole of it for its receiver at some time since: it was deleted, or not public. */
  #wasHidden({ fact }: Owed): boolean {
    return [fact, ...this.#laterOf(fact)].some(
      ({ type, after }) => type === 'object.deleted' || after?.publish === false,
    );
  }

  #hadNoWhole(owed: Owed): boolean {
    return this.#wasHidden(owed) || this.#wasParted(owed);
  }

  /** No routing rule joined its receiver and its sender at some time since it was owed, or last put back. */
  #wasParted({ fact, receiver, since }: Owed): boolean {
    const rules = this.#rulesOf(fact, receiver);
    const before = rules.findLast(({ at }) => at < since);
    return before?.data.active !== true || rules.some(({ at, data }) => at >= since && data.active !== true);
  }

  /** It ended since, without doubt, and no rule joins them again: what is being written may be known to the hub or not. */
  #isParted({ fact, receiver, since }: Owed): boolean {
    const { isHeard, writtenAt, around } = this.#facts;
    if (fact.data.method === 'DELETE' || !isHeard || writtenAt >= around.now()) return false;
    const last = this.#rulesOf(fact, receiver).at(-1);
    return last !== undefined && last.data.active !== true && last.at > since;
  }

  #rulesOf({ data: { owner } }: Fact, receiver: string): Fact[] {
    const streams = [`route:${receiver}/${owner}`, `route:${owner}/${receiver}`];
    return this.#facts.log.filter(({ type, stream }) => type.startsWith('route.') && streams.includes(stream));
  }

  /** The first of an object is a whole, also after dead ones, but after an end that no row tells of. [TEST-DELIVERY-RULES-8] */
  #judgeFirst({ fact, lane, redriven }: Owed, isHeld: boolean, where: () => string): void {
    const isHiding = fact.after?.publish === false && lane.firstSent < fact.seq;
    const hasMissed = lane.owed.some(
      (owed) => owed.redriven > 0 || owed.isGone || (isFinal(owed.last) && !isGivenUp(owed)),
    );
    demand(
      isHeld || redriven > 0 || hasMissed || isHiding,
      'the first that a receiver gets of an object is a whole',
      where,
    );
  }

  ends({ owed, company }: Flight, outcome: Outcome): void {
    owed.lane.inFlight--;
    for (const key of [company, `${company} ${moduleOf(owed)}`]) {
      this.#inFlight.set(key, (this.#inFlight.get(key) ?? 1) - 1);
    }
    owed.last = outcome;
    owed.due = null;
    this.#timing.ends(owed, company, outcome);
    const isGone = owed.fact.data.method === 'DELETE' && [404, 410].includes(outcome.httpStatus ?? 0);
    if (outcome.class === 'delivered' || isGone) [owed.isDelivered, owed.wasDelivered] = [true, true];
    if (isGone) owed.isAbsent = owed.isTaken = true;
  }

  settled(rows: readonly DeliveryRow[], floors: readonly Floor[]): void {
    for (const row of rows) {
      const owed = this.owed.get(`${row.seq}-${row.dest}`);
      demand(owed !== undefined, 'a row is of something that is owed', () => `${row.seq}-${row.dest}`);
      if (!owed) continue;
      if (owed.mayBeDead && isGivenUp({ row: row.state })) continue;
      owed.mayBeDead = false;
      owed.isAsWhole = isAsWhole(row.data);
      this.#judgeRow(owed, row);
      this.#timing.settled(owed, row);
      owed.row = row.state;
    }
    for (const { dest, seq } of floors) {
      for (const owed of this.#byReceiver.get(dest) ?? []) {
        if (owed.fact.seq > seq || owed.fact.seq <= (this.#floors.get(dest) ?? 0)) continue;
        const isSafe = owed.row !== null || owed.isDelivered;
        demand(
          isSafe,
          'a floor never passes what is not settled',
          () => `floor ${seq} of ${dest}, ${owed.fact.seq} ${owed.fact.stream}`,
        );
      }
      this.#floors.set(dest, seq);
    }
  }

  /** [TEST-DELIVERY-RULES-6] */
  trimmed(upTo: number): void {
    const { log, around } = this.#facts;
    const young = log.find(({ seq, at }) => seq <= upTo && at + this.#limits.keepMs > around.now());
    demand(young === undefined, 'nothing goes from the log before its time', () => `${young?.seq} by ${upTo}`);
    for (const owed of this.owed.values()) {
      const { fact, receiver, row, isDelivered } = owed;
      if (fact.seq > upTo || owed.isGone) continue;
      owed.isGone = true;
      if (row === 'DEAD') around.hit('a dead letter ended with its event');
      demand(isGivenUp(owed) || isDelivered, 'nothing that is owed goes from the log', () => `${fact.seq}-${receiver}`);
    }
  }

  /** What the disk still knows is what the next life may rely on. [TEST-DELIVERY-RULES-2] */
  crashed(disk: MemoryDisk): void {
    this.#life++;
    this.#inFlight.clear();
    this.#floors.clear();
    for (const { dest, seq } of disk.floors.values()) this.#floors.set(dest, seq);
    for (const lane of this.#lanes.values()) lane.seenTo = 0;
    for (const owed of this.owed.values()) {
      owed.lane.inFlight = 0;
      [owed.last, owed.behind, owed.notBefore] = [null, [], 0];
      if (owed.isGone) this.#forget(owed);
      if (owed.isGone) continue;
      const { seq } = owed.fact;
      const { state: row = null, data = '{}' } = disk.deliveries.get(keyOf(owed.receiver, String(seq))) ?? {};
      owed.row = row;
      owed.mayBeDead = false;
      owed.isAsWhole = isAsWhole(JSON.parse(data));
      this.#timing.crashed(owed, row, data);
      const isRemembered = row === null ? seq <= (this.#floors.get(owed.receiver) ?? 0) : row === 'DELIVERED';
      if (isRemembered) owed.isDelivered = true;
      else if (owed.isDelivered) {
        owed.isDelivered = false;
        if (!isGivenUp(owed)) this.#facts.around.hit('a delivery was repeated after a crash');
      }
      this.#forget(owed);
    }
  }

  /** Whatever the crash took the memory of comes again, in the order of the log, also what its receiver had refused. [TEST-DELIVERY-RULES-1, TEST-DELIVERY-RULES-2] */
  #forget(owed: Owed): void {
    const { lane, redriven, fact } = owed;
    owed.isSeen = owed.isTaken && (owed.isDelivered || isGivenUp(owed));
    if (owed.isSeen && redriven === 0) lane.seenTo = Math.max(lane.seenTo, fact.seq);
  }

  /** Everything owed has come to an end that can be explained. */
  final(): void {
    for (const owed of this.owed.values()) {
      const name = () => `${owed.fact.seq}-${owed.receiver} ${owed.fact.stream}: ${owed.row ?? 'no row'}`;
      const isEnded = isGivenUp(owed) || owed.isDelivered;
      demand(isEnded, 'everything that is owed ends', name);
      if (!isGivenUp(owed)) demand(owed.isTaken, 'what counts as delivered was taken', name);
    }
  }

  /** Lanes in which nothing died and nothing was put back, with what the receiver must hold now. */
  *wholeLanes(): Iterable<{ receiver: string; stream: string; last: Fact }> {
    for (const [key, lane] of this.#lanes) {
      const [receiver = '', stream = ''] = key.split(' ');
      const last = lane.owed.at(-1)?.fact;
      const ofStream = this.#facts.log.filter((fact) => fact.stream === stream && fact.type.startsWith('object.'));
      const isWhole = lane.owed.every((owed) => !isGivenUp(owed) && owed.redriven === 0 && !owed.isAbsent);
      if (last && isWhole && ofStream.every(({ to }) => to.includes(receiver))) yield { receiver, stream, last };
    }
  }

  #owe(fact: Fact, receiver: string): void {
    const key = `${receiver} ${fact.stream}`;
    const lane = this.#lanes.get(key) ?? {
      owed: [],
      seenTo: 0,
      inFlight: 0,
      freeAt: 0,
      firstSent: Number.POSITIVE_INFINITY,
      isLong: false,
    };
    this.#lanes.set(key, lane);
    const owed: Owed = {
      ...{
        fact,
        receiver,
        lane,
        isDelivered: false,
        wasDelivered: false,
        isTaken: false,
        isSeen: false,
        isAbsent: false,
        isDiscarded: false,
        isAsWhole: false,
        row: null,
        mayBeDead: false,
      },
      ...{ isGone: false, redriven: 0, isForced: false, last: null, since: fact.at },
      ...{ ahead: this.#ahead(fact, receiver), life: this.#life, due: null, notBefore: 0, behind: [] },
      ...{ dues: new Map(), wait: { from: '', ms: 0 }, attemptsBefore: 0, endedAt: [] },
    };
    lane.owed.push(owed);
    this.owed.set(`${fact.seq}-${receiver}`, owed);
    const ofReceiver = this.#byReceiver.get(receiver);
    if (ofReceiver) ofReceiver.push(owed);
    else this.#byReceiver.set(receiver, [owed]);
    this.#timing.owed(owed);
  }

  #redriven({ data, at }: Fact): void {
    const owed = this.owed.get(String(data.delivery));
    demand(owed !== undefined, 'only what was owed is put back', () => String(data.delivery));
    if (!owed) return;
    demand(!owed.isGone, 'what is gone from the log is not put back', () => String(data.delivery));
    const isEnded = owed.isDelivered || isGivenUp(owed) || owed.last !== null || this.#mayHaveEndedUnsent(owed);
    demand(isEnded, 'what is on its way is not put back', () => String(data.delivery));
    owed.redriven++;
    owed.isForced = this.forced.has(String(data.delivery)) || this.forced.has(String(data.job));
    owed.isDelivered = owed.isDiscarded = false;
    owed.mayBeDead = isGivenUp(owed);
    owed.row = 'PENDING';
    owed.last = null;
    [owed.due, owed.notBefore] = [null, 0];
    const isWhole = this.#timing.isWholeInMemory(owed);
    owed.behind = isWhole ? owed.lane.owed.filter((one) => one !== owed && !this.#mayHaveEnded(one)) : [];
    owed.since = at;
  }

  #discarded({ data }: Fact): void {
    const owed = this.owed.get(String(data.delivery));
    const name = () => String(data.delivery);
    demand(owed !== undefined && !owed.isGone, 'only what is in the log is discarded', name);
    if (!owed) return;
    demand(!owed.isDelivered, 'what was delivered is not discarded', name);
    owed.isDiscarded = true;
  }

  #find(correlationId: string, receiver: string, stream: string): Owed {
    const facts = (this.#facts.byCorrelation.get(correlationId) ?? []).filter((fact) => fact.stream === stream);
    const candidates = facts.flatMap(({ seq }) => this.owed.get(`${seq}-${receiver}`) ?? []);
    // One resync may send an object twice; what was put back stands behind the rest of its lane, and the row of what has ended is written later.
    const open = candidates.filter(isOpen);
    const fresh = open.filter(({ redriven }) => redriven === 0);
    const owed = fresh.find(({ last }) => !isFinal(last)) ?? fresh[0] ?? open[0] ?? candidates[0];
    demand(owed !== undefined, 'nobody gets what it is not owed', () => `${receiver} ${stream} ${correlationId}`);
    return owed as Owed;
  }

  #windowOf({ fact }: Owed): number {
    return fact.data.module === 'cdrs' ? this.#limits.windowCdrMs : this.#limits.windowMs;
  }

  /** Whatever stands before it in its lane has ended. [TEST-DELIVERY-RULES-1] */
  #judgeTurn(owed: Owed): void {
    if (owed.redriven > 0) {
      const isTail = owed.behind.every((one) => this.#mayHaveEnded(one));
      demand(isTail, 'what is put back goes behind its lane', () => `${owed.fact.seq}-${owed.receiver}`);
      return;
    }
    for (const ahead of owed.lane.owed) {
      if (ahead === owed) return;
      const { row, last } = ahead;
      demand(
        this.#mayHaveEnded(ahead),
        'each object leaves in the order of the log',
        () =>
          `${owed.fact.seq} before ${ahead.fact.seq} to ${owed.receiver} ${owed.fact.stream} (${last?.class ?? ''}, ${row})`,
      );
    }
  }

  /** An older version is not sent over a newer one that the receiver has, unless forced: the log decides. */
  #judgeStale(owed: Owed, { method, body }: Call): void {
    if (owed.redriven === 0 || owed.isForced) return;
    const sent = method === 'PUT' && body !== null ? (JSON.parse(body) as unknown) : undefined;
    const asOf = this.#laterOf(owed.fact).findLast(({ after }) => sent !== undefined && same(sent, after)) ?? owed.fact;
    for (const later of owed.lane.owed) {
      const isNewer = later.fact.seq > asOf.seq && later.redriven === 0;
      const isOver = isNewer && later.isDelivered && overlaps(owed.fact, later.fact);
      demand(
        !isOver,
        'nothing older is put back over what is newer',
        () => `${owed.fact.seq} over ${later.fact.seq} to ${owed.receiver} ${owed.fact.stream}`,
      );
    }
  }

  #ahead({ data }: Fact, receiver: string): Owed[] {
    const session = data.module === 'cdrs' ? (data.facts as { sessionId?: string | null }).sessionId : null;
    if (!session) return [];
    const lane = this.#lanes.get(`${receiver} sessions/${data.owner}/${session.toLowerCase()}`);
    return (lane?.owed ?? []).filter(isOpen);
  }

  /** TEST-DELIVERY-RULES-5. */
  #judgeSession({ ahead, life, redriven, fact, receiver }: Owed): void {
    if (ahead.length === 0 || life !== this.#life || redriven > 0) return;
    this.#facts.around.hit('a CDR waited for its session');
    const isOver = this.#facts.around.now() >= fact.at + 10_000;
    const isEnded = isOver || ahead.every((one) => this.#mayHaveEnded(one));
    demand(isEnded, 'a CDR waits for its session', () => `${fact.seq}-${receiver} ${fact.stream}`);
  }

  #wasSuspended({ receiver, since }: Owed): boolean {
    return (this.#suspendedAt.get(receiver) ?? -1) >= since || !this.#facts.directory.registered.has(receiver);
  }

  /** Its receiver had no endpoint for it at some time since it was owed. [TEST-DELIVERY-RULES-7] */
  #lacked(owed: Owed): boolean {
    return this.#facts.endpoints.lackedSince(owed.receiver, moduleOf(owed), owed.since);
  }

  /** Whether a delivery holds nothing back any more, as far as is seen from outside: its row is written later. */
  #mayHaveEnded(owed: Owed): boolean {
    const { isDelivered, redriven, last } = owed;
    return isDelivered || isGivenUp(owed) || redriven > 0 || isFinal(last) || this.#mayHaveEndedUnsent(owed);
  }

  #mayHaveEndedUnsent(owed: Owed): boolean {
    const isOver = this.#facts.around.now() > owed.since + this.#windowOf(owed) / 2;
    return isOver || this.#wasSuspended(owed) || this.#lacked(owed) || this.#hadNoWhole(owed);
  }

  #judgeRow(owed: Owed, { state, data }: DeliveryRow): void {
    const { class: ended, reason } = data as { class: string | null; reason: string | null };
    const name = () => `${owed.fact.seq}-${owed.receiver}: ${state} ${ended} ${reason}, last met ${owed.last?.class}`;
    // What was put back a moment ago may still be remembered as it was.
    if (state === 'DELIVERED') demand(owed.wasDelivered, 'only what was delivered counts as delivered', name);
    if (state === 'DISCARDED') demand(owed.isDiscarded, 'only what an operator discarded is discarded', name);
    if (state !== 'DEAD' || owed.row === 'DEAD') return;
    const { hit, now } = this.#facts.around;
    if (reason !== null && unsent.has(reason)) {
      const isSuspended = reason === 'suspended';
      hit(isSuspended ? 'deliveries of a suspended partner ended' : 'a receiver had no endpoint for what it was owed');
      const wasMet = isSuspended ? this.#wasSuspended(owed) : this.#lacked(owed);
      demand(wasMet, 'a dead letter has a reason that was met', name);
    } else if (reason === 'no routing rule') {
      hit('a routing rule ended before what was owed over it was sent');
      demand(this.#wasParted(owed), 'a dead letter has a reason that was met', name);
    } else if (reason?.startsWith('no whole object')) {
      demand(this.#hadNoWhole(owed), 'a dead letter has a reason that was met', name);
    } else if (ended === 'expired') {
      hit('a retry window expired');
      // The last attempt is the one after which the next would come too late: at most one step of the schedule before the end.
      demand(now() > owed.since + this.#windowOf(owed) / 2, 'a dead letter has a reason that was met', name);
    } else {
      hit('a dead letter of a final class');
      demand(final.has(ended ?? '') && owed.last?.class === ended, 'a dead letter has a reason that was met', name);
    }
  }
}

/** Of a row's data: whether the whole object goes in place of the change. */
const isAsWhole = (data: unknown): boolean => (data as { whole?: boolean }).whole === true;
