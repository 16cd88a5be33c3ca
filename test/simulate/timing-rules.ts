/**
 * Rules of when a delivery goes.
 *
 * TEST-TIMING-RULES-1  No attempt is made before it is due, be it in another life of the hub than the one that set the instant, nor before its
 *     receiver wants it.
 * TEST-TIMING-RULES-2  What may go goes: a lane that is held, for whatever reason, holds no other lane of its partner, and a module that is
 *     broken holds no other module.
 * TEST-TIMING-RULES-3  What is put back goes behind all that waited in its lane then, as long as the process lives.
 */
import type { Outcome } from '../../src/domain/errors.ts';
import type { DeliveryRow } from '../../storage/contract.ts';

import { demand, type Fact, type Facts } from './facts.ts';
import type { AsyncState, Owed } from './owed.ts';

/** Longest that a lane may wait for its turn among quick ones. */
const promptMs = 30_000;
/** A call that lasts longer keeps others waiting. */
const quickMs = 1_000;
/** A CDR may wait so long for its session. */
const behindMs = 10_000;

export class TimingRules {
  readonly #facts: Facts;
  /** When something that is no fault of the hub last kept deliveries of a partner waiting, by partner. */
  readonly #disturbedAt = new Map<string, number>();

  constructor(facts: Facts) {
    this.#facts = facts;
  }

  committed({ type, stream }: Fact): void {
    if (!type.startsWith('partner.')) return;
    for (const module of ['locations', 'tariffs', 'sessions', 'cdrs', 'tokens'])
      this.#disturbed(stream.slice('partner:'.length), module);
  }

  /** What the hub has written down of a delivery that waits. */
  settled(owed: Owed, { state, data }: DeliveryRow): void {
    const { due } = data as { due: string | null };
    owed.due = state === 'PENDING' && due !== null ? this.#facts.around.instantOf(due) : null;
    if (state !== 'PENDING') owed.lane.freeAt = this.#facts.around.now();
  }

  /** What the disk says of a delivery to the next life of the hub, which goes by it for the first of a lane alone. */
  crashed(owed: Owed, state: DeliveryRow['state'] | null, data: string): void {
    const { due = null } = JSON.parse(data) as { due?: string | null };
    const isFirst = !owed.lane.owed.some(({ fact, row }) => fact.seq < owed.fact.seq && row === 'PENDING');
    owed.due = state === 'PENDING' && due !== null && isFirst ? this.#facts.around.instantOf(due) : null;
  }

  begins(owed: Owed, company: string, { circuit }: AsyncState): void {
    const { fact, receiver, lane, due, redriven, last } = owed;
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
    if (!around.isWindowWide || isRetryUnwritten || redriven > 0 || fact.type === 'object.resent') return;
    const disturbedAt = this.#disturbedAt.get(this.#key(company, String(module))) ?? 0;
    const patienceMs = module === 'cdrs' ? behindMs : 0;
    const from = Math.max(fact.at + patienceMs, lane.freeAt, due ?? 0, troubledAt, disturbedAt);
    demand(now - from <= promptMs, 'what may go goes', () => `${where()} waited ${now - from} ms`);
  }

  ends(owed: Owed, company: string, { class: met, durationMs, retryAfterMs = 0 }: Outcome): void {
    const { lane, fact } = owed;
    lane.freeAt = this.#facts.around.now();
    owed.notBefore = retryAfterMs > 0 ? lane.freeAt + retryAfterMs : 0;
    const isBad = met === 'timeout' || met === 'unavailable' || durationMs > quickMs;
    if (isBad) this.#disturbed(company, String(fact.data.module));
  }

  /** That a lane is held is no fault while another moves; it must be met. */
  noticeHeld({ lane, fact }: Owed, ofReceiver: readonly Owed[]): void {
    const isHeld = (other: Owed) => other.lane !== lane && other.row === 'PENDING' && other.fact.seq <= fact.seq;
    if (ofReceiver.some(isHeld)) this.#facts.around.hit('a lane was held while another moved');
  }

  #key(company: string, module: string): string {
    return `${company}/${module}`;
  }

  #disturbed(company: string, module: string): void {
    this.#disturbedAt.set(this.#key(company, module), this.#facts.around.now());
  }
}
