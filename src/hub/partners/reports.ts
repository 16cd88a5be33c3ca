/**
 * Reports of partners: pushes that were refused, warnings by field, and quirks that the hub made up for, so that
 * nobody needs the partner's own log to see what it does wrong. [D69, D70, D86] `countedPorts` counts what clients make up for.
 *
 * REPORTS-1  What is noted is written within `gatherMs` of the first note, and at most once in `pauseMs` per partner:
 *     a partner that repeats itself costs a bounded number of events. A crash loses the notes of that time.
 * REPORTS-2  Per partner the last `keptMax` refusals are kept, each with at most 65,536 characters of its body;
 *     of more than `pendingMax` different ones in one pause only the last are written. Beyond either number the oldest of the module with
 *     the most goes, so the flood of one module displaces no refusal of another, and none of a command; nor does one of requests that no route takes.
 * REPORTS-3  A reader of a report writes what was noted on this node first.
 * REPORTS-4  What a client made up for in one call is counted once, whatever the call is for and however it ends.
 * REPORTS-5  A call is in flight to its partner until it has ended, whatever it is for; a partner without calls has
 *     no entry.
 */
import type { Put, Row, RowKey, Seen } from '../../../storage/contract.ts';
import type { Trace } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import { type Quirk, quirks, quirksWarnedOf } from '../../domain/quirks.ts';
import {
  addTallies,
  fieldOf,
  noTallies,
  type OfKind,
  type RefusedPush,
  type RefusedRecord,
  refusalKind,
  sumOf,
  type Tallies,
  type Tally,
  type TallyKind,
} from '../../domain/report.ts';
import { addTo } from '../../kit/memo.ts';
import type { Context } from '../kernel/context.ts';
import type { Quota } from '../kernel/quota.ts';
import type { Fact } from '../kernel/recorder.ts';
import { cut, rowSeen, unlisted } from '../kernel/row-codecs.ts';
import type { CallSubject, HubPorts } from '../ports/ports.ts';

const keptMax = 200;
const pendingMax = 50;
const gatherMs = 1_000;
const pauseMs = 60_000;

/** A refusal that is not written yet. */
interface Pending {
  readonly record: RefusedRecord;
  /** Null when the party has used up its quota: that of an earlier one like it stays. */
  readonly body: string | null;
  readonly correlationId: string;
  readonly party: PartyId;
}

/** The notes of one partner that are not written yet. */
class Notes {
  readonly refused = new Map<string, Pending>();
  readonly warnings: Record<string, Tally> = {};
  readonly quirks: Record<string, Tally> = {};
}

/** Of the `response_url` of a command, also one that is not JSON: eMSPs put secrets there. */
const queryOfResponse = /("response_url"\s*:\s*"[^"?]*\?)[^"]*/gi;

export const refusedStream = (partner: PartyId, id: string): string => `refused:${partner}/${id}`;
export const reportStream = (partner: PartyId): string => `report:${partner}`;
export const reportKey = (partner: PartyId): RowKey => ({ kind: 'reports', owner: partner, id: 'tallies' });

export function refusedRow(id: string, data: RefusedRecord, body: string): Put {
  const { partner: owner, lastAt: upd } = data;
  return { kind: 'refused', owner, id, shelf: owner, upd, data, body };
}

export function reportRow(partner: PartyId, data: Tallies): Put {
  return unlisted(reportKey(partner), data);
}

export class PartnerReports {
  readonly #context: Context;
  readonly #quota: Pick<Quota, 'hasRoom' | 'spend'>;
  readonly #notes = new Map<PartyId, Notes>();
  /** When the notes of a partner were written last, hub time. */
  readonly #writtenAt = new Map<PartyId, number>();
  readonly #writing = new Set<Promise<void>>();

  constructor(context: Context, quota: Pick<Quota, 'hasRoom' | 'spend'>) {
    this.#context = context;
    this.#quota = quota;
  }

  /** Notes a push of a party that was refused; `body` is null when none was read. [QUOTA-5] */
  refused(
    push: RefusedPush,
    body: string | null,
    { correlationId }: Pick<Trace, 'correlationId'>,
    party: PartyId = push.partner,
  ): void {
    const { secrets, meter } = this.#context.ports;
    meter.refused(push.partner, push.module ?? 'none', push.code);
    const at = this.#now();
    const id = secrets.digest(`${push.method} ${push.path} ${push.reason}`).slice(0, 22);
    const { refused } = this.#notesOf(push.partner);
    const { count = 0, firstAt = at } = refused.get(id)?.record ?? {};
    const record = { ...push, count: count + 1, firstAt, lastAt: at };
    const kept = this.#quota.hasRoom(party) ? cut((body ?? '').replaceAll(queryOfResponse, '$1…')) : null;
    refused.delete(id);
    const others = Array.from(refused, ([key, pending]) => ({ id: key, ...pending.record }));
    refused.set(id, { record, body: kept, correlationId, party });
    for (const gone of displaced(others, [push], refused.size - pendingMax)) refused.delete(gone.id);
  }

  /** Notes the warnings of a change that a partner pushed, or that the hub pulled from it. */
  warned(partner: PartyId, module: string, warnings: readonly string[], object: string | null): void {
    if (warnings.length === 0) return;
    this.#context.ports.meter.warned(partner, module, warnings.length);
    for (const example of warnings) {
      this.#count(partner, 'warnings', `${module} ${fieldOf(example)}`, { example, object });
    }
    this.used({ partner, module, object }, quirksWarnedOf(warnings));
  }

  /** Notes that nothing is owed to these parties, because they have no receiver for the module. [D60] */
  unsubscribed(parties: readonly PartyId[], module: string, object: string): void {
    for (const party of parties) {
      const partner = this.#context.directory.partnerOf(party);
      if (partner) this.used({ partner: partner.id, module, object }, ['not-subscribed']);
    }
  }

  /** Notes what the hub made up for in one exchange with a partner. */
  used({ partner, module, object }: CallSubject, names: readonly Quirk[] = []): void {
    for (const name of names) {
      this.#context.ports.meter.used(partner, module, name);
      this.#count(partner, 'quirks', `${module} ${name}`, { example: quirks[name], object });
    }
  }

  #count(partner: PartyId, kind: TallyKind, key: string, seen: Pick<Tally, 'example' | 'object'>): void {
    const notes = this.#notesOf(partner)[kind];
    const at = this.#now();
    notes[key] = sumOf(notes[key], { ...seen, count: 1, firstAt: at, lastAt: at });
  }

  /** Writes what was noted of a partner, and resolves once it can be read. [REPORTS-3] */
  async flush(partner: PartyId): Promise<void> {
    this.#take(partner);
    await Promise.all(this.#writing);
  }

  /** Writes what was noted of all partners. [REPORTS-3] */
  async flushAll(): Promise<void> {
    for (const partner of [...this.#notes.keys()]) this.#take(partner);
    await Promise.all(this.#writing);
  }

  #now(): string {
    return this.#context.recorder.instant();
  }

  #notesOf(partner: PartyId): Notes {
    const found = this.#notes.get(partner);
    if (found) return found;
    const notes = new Notes();
    this.#notes.set(partner, notes);
    const { timers, ports } = this.#context;
    const last = this.#writtenAt.get(partner) ?? Number.NEGATIVE_INFINITY;
    timers.arm(reportStream(partner), Math.max(ports.clock.now() + gatherMs, last + pauseMs), () =>
      this.#take(partner),
    );
    return notes;
  }

  #take(partner: PartyId): void {
    const notes = this.#notes.get(partner);
    this.#notes.delete(partner);
    this.#context.timers.disarm(reportStream(partner));
    if (notes) this.#write(partner, notes);
  }

  #write(partner: PartyId, notes: Notes): void {
    const { recorder, ports } = this.#context;
    this.#writtenAt.set(partner, ports.clock.now());
    const writing = recorder
      .inTurn(reportStream(partner), (seen) => this.#record(partner, notes, seen))
      .catch((error: unknown) => {
        ports.meter.unrecorded('push.refused');
        ports.log.error({ err: error, partyId: partner }, 'could not record the report of a partner');
      })
      .finally(() => this.#writing.delete(writing));
    this.#writing.add(writing);
  }

  async #record(partner: PartyId, notes: Notes, seen: Seen[]): Promise<void> {
    const { store, recorder, directory } = this.#context;
    const facts: Fact[] = [];
    const puts: Put[] = [];
    let isNew = 0;
    for (const [id, { record, body, correlationId }] of notes.refused) {
      const row = await rowSeen(store, { kind: 'refused', owner: partner, id }, seen);
      const before = row?.data as RefusedRecord | undefined;
      if (!before) isNew++;
      const { count = 0, firstAt = record.firstAt } = before ?? {};
      const data = { ...record, firstAt, count: count + record.count };
      const stream = refusedStream(partner, id);
      facts.push({ stream, event: { type: 'push.refused', data }, party: partner, body: body ?? '', correlationId });
      puts.push(refusedRow(id, data, body ?? row?.body ?? ''));
    }
    if (Object.keys(notes.warnings).length + Object.keys(notes.quirks).length > 0) {
      const before = (await rowSeen(store, reportKey(partner), seen))?.data as Tallies | undefined;
      const data = addTallies(before ?? noTallies, notes);
      const event = { type: 'report.noted' as const, data };
      facts.push({ stream: reportStream(partner), event, party: partner });
      puts.push(reportRow(partner, data));
    }
    if (facts.length === 0) return;
    // What was read may name a person who is erased meanwhile. [PERSONS-5]
    seen.push(directory.seen);
    puts.push(...(await this.#overflow(partner, isNew, notes.refused)));
    await recorder.record({ facts, puts, seen, unfenced: true, trace: null });
    // Each is in the event and in the row.
    for (const { body, party } of notes.refused.values()) this.#quota.spend(party, 2 * (body?.length ?? 0));
  }

  /** The rows that must go so that with `added` more than there are no more than `keptMax`. [REPORTS-2] */
  async #overflow(partner: PartyId, added: number, written: ReadonlyMap<string, Pending>): Promise<Put[]> {
    if (added === 0) return [];
    const { store } = this.#context;
    const { total } = await store.list({ ...refusedOf(partner), limit: 1 });
    const excess = total + added - keptMax;
    if (excess <= 0) return [];
    const { rows } = await store.list(refusedOf(partner));
    const others = rows.flatMap(({ id, data }) => (written.has(id) ? [] : [{ id, ...(data as RefusedRecord) }]));
    const records = [...written.values()].map(({ record }) => record);
    const gone = displaced(others, records, excess);
    return gone.map(({ id }) => ({ kind: 'refused', owner: partner, id, gone: true }));
  }
}

/** Those of the older refusals, oldest first, that must go: each time one of the module that has the most of all. [REPORTS-2] */
function displaced<T extends OfKind>(older: readonly T[], newer: readonly OfKind[], excess: number): T[] {
  const left = [...older];
  const sizes = new Map<string, number>();
  for (const one of [...left, ...newer]) addTo(sizes, refusalKind(one), 1);
  const sizeOf = (one: OfKind | undefined): number => (one && sizes.get(refusalKind(one))) ?? 0;
  return Array.from({ length: Math.max(0, Math.min(excess, left.length)) }, () => {
    const at = left.reduce((most, one, index) => (sizeOf(one) > sizeOf(left[most]) ? index : most), 0);
    const [gone] = left.splice(at, 1) as [T];
    addTo(sizes, refusalKind(gone), -1);
    return gone;
  });
}

const refusedOf = (partner: PartyId) => ({ kind: 'refused', shelves: [partner], offset: 0, limit: keptMax });

/** Refusals of a partner's pushes, newest first, at most `keptMax`. */
export async function refusalsOf({ store }: Pick<Context, 'store'>, partner: PartyId): Promise<Row[]> {
  const { rows } = await store.list(refusedOf(partner));
  return [...rows].reverse();
}

/**
 * The ports with clients that count what they made up for: all calls of the hub pass here, so that no part of it has to count. [D70]
 * `inFlight`: where calls are counted by partner.
 */
export function countedPorts(
  ports: HubPorts,
  used: (about: CallSubject, quirks: readonly Quirk[]) => void,
  inFlight: Map<PartyId, number>,
): HubPorts {
  const { client, versions, lists } = ports;
  const counted = <T>(
    about: CallSubject | undefined,
    call: Promise<T>,
    quirksOf: (ended: T) => readonly Quirk[] | undefined,
  ): Promise<T> => {
    if (!about) return call;
    // [REPORTS-5]
    addTo(inFlight, about.partner, 1);
    return call.then(
      (ended) => {
        addTo(inFlight, about.partner, -1);
        const quirks = quirksOf(ended);
        if (quirks && quirks.length > 0) used(about, quirks);
        return ended;
      },
      (error: unknown) => {
        addTo(inFlight, about.partner, -1);
        throw error;
      },
    );
  };
  return {
    ...ports,
    client: {
      refusal: (url) => client.refusal(url),
      call: (call) => counted(call.about, client.call(call), ({ quirks }) => quirks),
    },
    versions: {
      discover: (partner) => counted(partner.about, versions.discover(partner), ({ quirks }) => quirks),
    },
    lists: {
      pages(list) {
        const pages = lists.pages(list);
        const quirksOf = ({ value }: Awaited<ReturnType<typeof pages.next>>) =>
          value?.kind === 'page' ? value.quirks : undefined;
        return { next: () => counted(list.about, pages.next(), quirksOf) };
      },
    },
  };
}
