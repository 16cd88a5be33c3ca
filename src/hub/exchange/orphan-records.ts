/**
 * The records of live watches and open cases, by actor, and how many each CPO has.
 *
 * ORPHAN-RECORDS-1  A CPO has at most `stoppedMax` stopped sessions that are watched or a case: it decides which of them end, its eMSPs how many
 *     are stopped, and no case ends by itself. Further ones are not watched, and the log says so; what a start restores is kept in any case.
 */
import type { Put } from '../../../storage/contract.ts';
import type { OrphanEvent, OrphanKind } from '../../domain/events.ts';
import type { OrphanRecord } from '../../domain/orphan.ts';
import type { PartyId } from '../../domain/party.ts';
import { sampled } from '../../kit/sampled.ts';
import { addTo } from '../../kit/turnstile.ts';
import type { HubPorts } from '../ports/ports.ts';

export const actorKinds = { stop_without_complete: 'orphan-stop', complete_without_cdr: 'orphan-cdr' } as const;
export const actorId = (kind: OrphanKind, cpo: PartyId, sessionKey: string): string =>
  `${actorKinds[kind]}:${cpo}/${sessionKey}`;
/** Each watch has a stream of its own: a session may be watched more than once. */
export const streamOf = (id: string): string => `orphan:${id}`;

/** A watch takes a few KB of memory, and each sweep passes all. */
const stoppedMax = 10_000;
/** One line of the log in so many ms says how many sessions of a CPO were not watched. */
const unwatchedEveryMs = 10_000;

interface Kept {
  readonly kind: OrphanKind;
  readonly cpo: PartyId;
  /** Null while the watch is being armed. */
  readonly record: OrphanRecord | null;
}

export class OrphanRecords {
  readonly #kept = new Map<string, Kept>();
  /** Stopped sessions by their CPO. */
  readonly #stopped = new Map<PartyId, number>();
  readonly #unwatched: (cpo: PartyId, key: string) => void;

  constructor({ clock, log }: Pick<HubPorts, 'clock' | 'log'>) {
    this.#unwatched = sampled(clock, unwatchedEveryMs, (cpo: PartyId, count) =>
      log.warn(
        { partyId: cpo, count, most: stoppedMax },
        'stopped sessions are not watched: their CPO has too many cases',
      ),
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
    const isFull = kind === 'stop_without_complete' && (this.#stopped.get(cpo) ?? 0) >= stoppedMax;
    if (isFull) this.#unwatched(cpo, cpo);
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
    this.#count(kept, -1);
  }

  /** Those that are armed, also while others come and go. */
  *[Symbol.iterator](): Iterator<readonly [actor: string, record: OrphanRecord]> {
    for (const [actor, { record }] of this.#kept) if (record) yield [actor, record];
  }

  #set(actor: string, kept: Kept): void {
    if (!this.#kept.has(actor)) this.#count(kept, 1);
    this.#kept.set(actor, kept);
  }

  #count({ kind, cpo }: Kept, by: 1 | -1): void {
    if (kind === 'stop_without_complete') addTo(this.#stopped, cpo, by);
  }
}

/** Adds the session and its parties to an event, so that the event can be understood alone. */
export function named(event: OrphanEvent, { kind, session, cpo, emsp }: OrphanRecord): OrphanEvent {
  return { ...event, data: { kind, session, cpo, emsp, ...event.data } } as OrphanEvent;
}

export function orphanRow(record: OrphanRecord): Put {
  const { id, cpo: owner, graceEndsAt: upd } = record;
  return { kind: 'orphans', owner, id, shelf: 'orphans', upd, data: record, body: null };
}
