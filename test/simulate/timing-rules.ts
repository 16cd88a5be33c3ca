/**
 * Rules of when a delivery goes.
 *
 * TEST-TIMING-RULES-1  No attempt is made before it is due, be it in another life of the hub than the one that set the instant, nor before its
 *     receiver wants it.
 * TEST-TIMING-RULES-2  What may go goes: a lane that is held, for whatever reason, and however long, holds no other lane of its partner, and a module
 *     that is broken holds no other module, unless as many modules hang as a partner may have calls in flight. While more of a module waits than a quarter of its share of the window, it may wait in the log.
 * TEST-TIMING-RULES-3  What is put back goes behind all of its lane that was in memory then, as long as the process lives.
 */
import type { Outcome } from '../../src/domain/errors.ts';
import { moduleNames } from '../../src/domain/modules.ts';
import { laneMax } from '../../src/hub/delivery/window.ts';
import type { DeliveryRow } from '../../storage/contract.ts';
import { demand, type Fact, type Facts } from './facts.ts';
import { type AsyncState, isOpen, type Lane, moduleOf, type Owed } from './owed.ts';

/** Longest that a lane may wait for its turn among quick ones. */
const promptMs = 30_000;
/** Half of what memory holds of one sender, which is half of a module's share: at that it is read on. */
const crowdedShare = 4;
/** A call that lasts longer keeps others waiting. */
const quickMs = 1_000;
/** A CDR may wait so long for its session. */
const behindMs = 10_000;

/** Of the row of a delivery that waits. */
interface Waiting {
  readonly due: string | null;
  readonly attempts: readonly { readonly at: string }[];
}

export class TimingRules {
  readonly #facts: Facts;
  /** When something that is no fault of the hub last kept deliveries of a partner waiting, by partner. */
  readonly #disturbedAt = new Map<string, number>();
  readonly #companies: ReadonlyMap<string, string>;
  /** Lanes by partner and module. */
  readonly #lanes = new Map<string, Set<Lane>>();
  /** When more than a quarter of the share of a module in the window last waited, by partner and module. */
  readonly #crowdedAt = new Map<string, number>();
  readonly #concurrency: number;
  /** Deliveries in flight, by partner. */
  readonly #flying = new Map<string, Set<Owed>>();

  /** `concurrency`: deliveries that a partner may have in flight. */
  constructor(facts: Facts, concurrency: number) {
    this.#facts = facts;
    this.#concurrency = concurrency;
    const { companies } = facts.around.cast;
    this.#companies = new Map(companies.flatMap(({ id, members }) => members.map(({ party }) => [party, id])));
  }

  committed({ type, stream }: Fact): void {
    if (type.startsWith('partner.')) this.companyDisturbed(stream.slice('partner:'.length));
  }

  /** Something that is no fault of the hub keeps, or has kept, all deliveries of a partner waiting. */
  companyDisturbed(company: string): void {
    for (const module of moduleNames) this.#disturbed(company, module);
  }

  /** It stands in its lane now. */
  owed(owed: Owed): void {
    const key = this.#keyOf(owed);
    const lanes = this.#lanes.get(key) ?? new Set();
    this.#lanes.set(key, lanes.add(owed.lane));
    this.#measure(owed.lane);
    this.#weigh(key);
  }

  /** Whether all of its lane has been in memory for a while, so that what is put back goes behind it. */
  isWholeInMemory(owed: Owed): boolean {
    const { around, troubledAt } = this.#facts;
    const key = this.#keyOf(owed);
    this.#weigh(key);
    // Beside a window that may be full, a start reads what follows its floors by and by.
    const startedAt = this.#mayBeCrowded(key) ? troubledAt : 0;
    const crowdedAt = Math.max(this.#crowdedAt.get(key) ?? 0, startedAt);
    return !owed.lane.isLong && around.now() - crowdedAt > promptMs;
  }

  /** What the hub has written down of a delivery that waits. */
  settled(owed: Owed, { state, data }: DeliveryRow): void {
    const { due, attempts } = data as Waiting;
    owed.due = state === 'PENDING' && due !== null ? this.#dueOf(owed, due, attempts) : null;
    if (state === 'PENDING') return;
    owed.lane.freeAt = this.#facts.around.now();
    this.#weigh(this.#keyOf(owed));
  }

  /** What the disk says of a delivery to the next life of the hub. */
  crashed(owed: Owed, state: DeliveryRow['state'] | null, data: string): void {
    this.#flying.get(this.#companies.get(owed.receiver) ?? '')?.delete(owed);
    const { due = null, attempts = [] } = JSON.parse(data) as Partial<Waiting>;
    owed.due = state === 'PENDING' && due !== null ? (owed.dues.get(due) ?? null) : null;
    owed.wait = waitOf(due ?? '', attempts);
    [owed.attemptsBefore, owed.endedAt] = [attempts.length, []];
  }

  begins(owed: Owed, company: string, { circuit }: AsyncState): void {
    const { fact, receiver, lane, due, redriven, last } = owed;
    this.#flying.set(company, (this.#flying.get(company) ?? new Set()).add(owed));
    const { around, troubledAt } = this.#facts;
    const now = around.now();
    const where = () => `${fact.seq}-${receiver} ${fact.stream}`;
    if (due !== null) {
      around.hit('a retry was made when it was due');
      demand(now >= due, 'no attempt before it is due', () => `${where()} ${due - now} ms before`);
    }
    demand(now >= owed.notBefore, 'no attempt before its receiver wants it', where);
    const { module } = fact.data;
    if (circuit !== 'closed') this.#disturbed(company, String(module));
    const isRetryUnwritten = last !== null && due === null;
    this.#weigh(this.#keyOf(owed));
    if (isRetryUnwritten || redriven > 0 || fact.type === 'object.resent') return;
    const key = this.#keyOf(owed);
    const disturbedAt = Math.max(this.#disturbedAt.get(key) ?? 0, this.#crowdedAt.get(key) ?? 0);
    const patienceMs = module === 'cdrs' ? behindMs : 0;
    const dueAt = Math.max(...this.#headsOf(owed).map((one) => this.#latestDueOf(one)));
    const from = Math.max(fact.at + patienceMs, lane.freeAt, dueAt, troubledAt, disturbedAt);
    demand(now - from <= promptMs, 'what may go goes', () => `${where()} waited ${now - from} ms`);
  }

  ends(owed: Owed, company: string, { class: met, durationMs, retryAfterMs = 0 }: Outcome): void {
    const { lane, fact } = owed;
    lane.freeAt = this.#facts.around.now();
    owed.endedAt.push(lane.freeAt);
    this.#weigh(this.#keyOf(owed));
    owed.notBefore = retryAfterMs > 0 ? lane.freeAt + retryAfterMs : 0;
    const isBad = met === 'timeout' || met === 'unavailable' || durationMs > quickMs;
    const flying = this.#flying.get(company) ?? new Set();
    const isFull = new Set([...flying].map(moduleOf)).size >= this.#concurrency;
    flying.delete(owed);
    if (isBad && isFull) this.companyDisturbed(company);
    else if (isBad) this.#disturbed(company, String(fact.data.module));
  }

  /** That a lane is held is no fault while another moves; it must be met. */
  noticeHeld({ lane, fact }: Owed, ofReceiver: readonly Owed[]): void {
    const isHeld = (other: Owed) => other.lane !== lane && other.row === 'PENDING' && other.fact.seq <= fact.seq;
    if (ofReceiver.some(isHeld)) this.#facts.around.hit('a lane was held while another moved');
  }

  #key(company: string, module: string): string {
    return `${company}/${module}`;
  }

  #keyOf(owed: Owed): string {
    return this.#key(this.#companies.get(owed.receiver) ?? '', moduleOf(owed));
  }

  /** In the world's own time: as long after the end of its attempt as the row says, whatever the clock of the hub said meanwhile. */
  #dueOf(owed: Owed, due: string, attempts: Waiting['attempts']): number {
    const endedAt = owed.endedAt[attempts.length - owed.attemptsBefore - 1];
    owed.wait = waitOf(due, attempts);
    const at = endedAt === undefined ? this.#facts.around.earliestOf(due) : endedAt + owed.wait.ms;
    owed.dues.set(due, at);
    return at;
  }

  /** It, and what its lane has before it: that may have ended without a call, when it was due, and its row be written later. */
  #headsOf(owed: Owed): Owed[] {
    return owed.lane.owed.filter((one) => one === owed || (one.fact.seq < owed.fact.seq && isOpen(one)));
  }

  /** To the next life, the time of day of its last attempt may name a later instant, after a step back. [CLOCK-8] */
  #latestDueOf({ due, wait }: Owed): number {
    if (due === null) return 0;
    const { latestOf, now } = this.#facts.around;
    return Math.max(due, latestOf(wait.from, now()) + wait.ms);
  }

  /** A lane stays long until it is empty: the hub reads it on a few at a time. */
  #measure(lane: Lane): void {
    const open = lane.owed.filter(isOpen).length;
    lane.isLong = open > laneMax || (lane.isLong && open > 1);
    if (lane.isLong) this.#facts.around.hit('a lane had more than memory holds of it');
  }

  #mayBeCrowded(key: string): boolean {
    return (this.#lanes.get(key)?.size ?? 0) * laneMax > this.#facts.around.windowShare / crowdedShare;
  }

  /** Notes whether a module may wait in the log. [TEST-TIMING-RULES-2] */
  #weigh(key: string): void {
    if (!this.#mayBeCrowded(key)) return;
    let held = 0;
    for (const { owed } of this.#lanes.get(key) ?? []) held += Math.min(laneMax, owed.filter(isOpen).length);
    if (held > this.#facts.around.windowShare / crowdedShare) this.#crowdedAt.set(key, this.#facts.around.now());
  }

  #disturbed(company: string, module: string): void {
    this.#disturbedAt.set(this.#key(company, module), this.#facts.around.now());
  }
}

function waitOf(due: string, attempts: Waiting['attempts']): Owed['wait'] {
  const from = attempts.at(-1)?.at ?? '';
  return { from, ms: Date.parse(due) - Date.parse(from) };
}
