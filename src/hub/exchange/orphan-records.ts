/**
 * The records of live watches and open cases, by actor, and how many each CPO has.
 *
 * ORPHAN-RECORDS-1  A CPO has at most `keptMax` stopped sessions that are watched or a case, and as many completed ones that lack their CDR: it
 *     decides which of them end, and no case ends by itself. Further ones are not watched, and the log says so; what a start restores is kept
 *     in any case.
 */
import type { Put } from '../../../storage/contract.ts';
import type { OrphanEvent, OrphanKind } from '../../domain/events.ts';
import type { OrphanRecord } from '../../domain/orphan.ts';
import type { PartyId } from '../../domain/party.ts';
import { addTo } from '../../kit/memo.ts';
import { sampled } from '../../kit/sampled.ts';
import type { HubPorts } from '../ports/ports.ts';

export const actorKinds = { stop_without_complete: 'orphan-stop', complete_without_cdr: 'orphan-cdr' } as const;
export const actorId = (kind: OrphanKind, cpo: PartyId, sessionKey: string): string =>
  `${actorKinds[kind]}:${cpo}/${sessionKey}`;
/** Each watch has a stream of its own: a session may be watched more than once. */
export const streamOf = (id: string): string => `orphan:${id}`;

/** A watch takes a few KB of memory, and each sweep passes all. */
const keptMax = 10_000;
/** One line of the log in so many ms says how many sessions of a CPO were not watched. */
const unwatchedEveryMs = 10_000;
const unwatchedSessions: Record<OrphanKind, string> = {
  stop_without_complete: 'stopped sessions are not watched: their CPO has too many cases',
  complete_without_cdr: 'completed sessions are not watched for their CDRs: their CPO owes too many',
};

interface Counted {
  readonly kind: OrphanKind;
  readonly cpo: PartyId;
}

interface Kept extends Counted {
  /** Null while the watch is being armed. */
  readonly record: OrphanRecord | null;
}

export class OrphanRecords {
  readonly #kept = new Map<string, Kept>();
  /** By kind and CPO. */
  readonly #counts = new Map<string, number>();
  readonly #unwatched: (of: Counted, key: string) => void;

  constructor({ clock, log }: Pick<HubPorts, 'clock' | 'log'>) {
    this.#unwatched = sampled(clock, unwatchedEveryMs, ({ kind, cpo }: Counted, count) =>
      log.warn({ partyId: cpo, count, most: keptMax }, unwatchedSessions[kind]),
    );
  }

  /** Whether the actor is live, or being armed. */
  has(actor: string): boolean {
    return this.#kept.has(actor);
  }

  /** Without the remarks of a triage, which an erasure finds in the row alone; null while there is none. */
  get(actor: string): OrphanRecord | null {
    return this.#kept.get(actor)?.record ?? null;
  }

  /** A watch is being armed; false when there is one, or none may be added. [ORPHAN-RECORDS-1] */
  begin(actor: string, kind: OrphanKind, cpo: PartyId): boolean {
    if (this.#kept.has(actor)) return false;
    const of = { kind, cpo };
    const isFull = (this.#counts.get(countedAs(of)) ?? 0) >= keptMax;
    if (isFull) this.#unwatched(of, countedAs(of));
    else this.#set(actor, { kind, cpo, record: null });
    return !isFull;
  }

  keep(actor: string, record: OrphanRecord): void {
    const { kind, cpo, triage } = record;
    this.#set(actor, { kind, cpo, record: triage ? { ...record, triage: { ...triage, remarks: [] } } : record });
  }

  delete(actor: string): void {
    const kept = this.#kept.get(actor);
    if (kept === undefined) return;
    this.#kept.delete(actor);
    addTo(this.#counts, countedAs(kept), -1);
  }

  /** Those that are armed, also while others come and go. */
  *[Symbol.iterator](): Iterator<readonly [actor: string, record: OrphanRecord]> {
    for (const [actor, { record }] of this.#kept) if (record) yield [actor, record];
  }

  #set(actor: string, kept: Kept): void {
    if (!this.#kept.has(actor)) addTo(this.#counts, countedAs(kept), 1);
    this.#kept.set(actor, kept);
  }
}

const countedAs = ({ kind, cpo }: Counted): string => `${kind} ${cpo}`;

/** Adds the session and its parties to an event, so that the event can be understood alone. */
export function named(event: OrphanEvent, { kind, session, cpo, emsp }: OrphanRecord): OrphanEvent {
  return { ...event, data: { kind, session, cpo, emsp, ...event.data } } as OrphanEvent;
}

export function orphanRow(record: OrphanRecord): Put {
  const { id, cpo: owner, graceEndsAt: upd } = record;
  return { kind: 'orphans', owner, id, shelf: 'orphans', upd, data: record, body: null };
}
