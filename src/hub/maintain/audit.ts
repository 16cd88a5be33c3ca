/**
 * The audit log: one entry for every act of an operator and for every reading of bodies, with its outcome.
 *
 * AUDIT-1  An entry is durable before the answer that it reports is sent. When the store cannot write, the log line of
 *     the act is the only record.
 * AUDIT-2  Entries count from 1 without a gap, and each has the digest of the one before, so that a removed or changed
 *     entry shows.
 * AUDIT-3  Entries are kept apart from the event log: its retention leaves them, and they end after
 *     HUB_AUDIT_KEEP_DAYS, which is an entry itself.
 * AUDIT-4  A reading of bodies that an operator repeats within 15 minutes, to the letter and with the same outcome, is no
 *     further entry: an open page asks every few seconds.
 */
import type { Put, Row, RowKey } from '../../../storage/contract.ts';
import type { AuditCheck, AuditEntry } from '../../api/audit.ts';
import type { AuditEvent } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import { dayMs, hourMs, minuteMs, sleep } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import type { Fact } from '../kernel/recorder.ts';
import type { AuditVerbs, NotedAct } from '../ports/operator.ts';

const kind = 'audit';
const shelf = 'audit';
const listed = { kind, shelves: [shelf] } as const;
const turn = 'audit';
/** Verb of the entry that tells of a removal. */
const removal = 'remove old entries';
/** Entries that are removed in one write, and read at once by a check. */
const atOnce = 256;
const pauseMs = 20;
const readingMs = 15 * minuteMs;
/** Readings that are remembered; beyond, all are forgotten, and each is an entry once more. */
const readingsMax = 10_000;

/** Digits of a number in a key, so that keys sort by number. */
const idOf = (n: number): string => String(n).padStart(12, '0');
const keyOf = (n: number): RowKey => ({ kind, owner: '', id: idOf(n) });
const streamOf = (n: number): string => `audit:${idOf(n)}`;

/** `upd` orders the list: it never decreases, even when the wall clock does. */
export function auditRow(entry: AuditEntry, upd: string): Put {
  return { ...keyOf(entry.n), shelf, upd, data: entry, body: null };
}

/** What the digest is of: all other fields, in the order of the schema. */
function textOf(entry: AuditEntry): string {
  const { n, at, operator, role, verb, about, reason, address, status, correlation_id, previous } = entry;
  const fields = [n, at, operator, role, verb, about, reason, address, status, correlation_id, previous];
  return JSON.stringify(fields);
}

/** What is wrong with an entry that follows another one, or is the first that is kept. */
function faultOf(entry: AuditEntry, before: AuditEntry | null, digest: string): AuditCheck['broken'] {
  const expected = before === null ? entry.n : before.n + 1;
  if (entry.n !== expected) return { n: expected, reason: 'missing' };
  const isChanged = entry.digest !== digest || (before !== null && entry.previous !== before.digest);
  return isChanged ? { n: entry.n, reason: 'changed' } : null;
}

export class Audit implements AuditVerbs {
  readonly #context: Context;
  readonly #ending = new AbortController();
  /** Entries of readings that were noted, and when, hub time. [AUDIT-4] */
  readonly #readings = new Map<string, { readonly entry: AuditEntry; readonly at: number }>();
  #sweeping: Promise<void> = Promise.resolve();

  constructor(context: Context) {
    this.#context = context;
  }

  async noteAct(act: NotedAct, asked?: string): Promise<AuditEntry> {
    return this.#context.recorder.inTurn(turn, async () => {
      const { operator, role, address, status } = act;
      const reading = asked === undefined ? null : JSON.stringify([operator, role, asked, address, status]);
      const known = reading === null ? undefined : this.#readings.get(reading);
      const now = this.#context.ports.clock.now();
      if (known !== undefined && now - known.at < readingMs) return known.entry;
      const entry = await this.#append(await this.#last(), act, [], []);
      if (reading !== null) this.#remember(reading, { entry, at: now });
      return entry;
    });
  }

  #remember(reading: string, noted: { readonly entry: AuditEntry; readonly at: number }): void {
    if (this.#readings.size >= readingsMax) this.#readings.clear();
    this.#readings.set(reading, noted);
  }

  async checkAudit(): Promise<AuditCheck> {
    const { store, ports } = this.#context;
    const faults: NonNullable<AuditCheck['broken']>[] = [];
    const met = { entries: 0, first: null as number | null, last: null as AuditEntry | null };
    // The number at which the kept entries begin, as the entry of the last removal says.
    let begins = 1;
    const look = (entry: AuditEntry) => {
      const fault = faultOf(entry, met.last, ports.secrets.digest(textOf(entry)));
      if (fault !== null) faults.push(fault);
      if (entry.verb === removal) begins = Number(entry.about.split(' ').at(-1)) + 1;
      met.first ??= entry.n;
      met.entries += 1;
      met.last = entry;
    };
    for await (const { data } of store.scan(kind)) look(data as AuditEntry);
    // A scan need not have what was noted since it began. The event of an entry whose row is gone tells that there was one.
    for (let n = (met.last?.n ?? 0) + 1; (await store.history(streamOf(n))).length > 0; n += 1) {
      const row = await store.get(keyOf(n));
      if (row === null) {
        faults.push({ n, reason: 'missing' });
        break;
      }
      look(row.data as AuditEntry);
    }
    const { entries, first, last } = met;
    if (first !== null && first > begins) faults.unshift({ n: begins, reason: 'missing' });
    // Entries may be removed while a scan in several reads is between them.
    const broken = faults.find(({ n }) => n >= begins) ?? null;
    return { entries, first, last: last?.n ?? null, head: last?.digest ?? null, broken };
  }

  /** Arms the next removal of old entries; does nothing when they are kept for ever. */
  schedule(): void {
    const { timers, ports, settings } = this.#context;
    const keepMs = settings.auditKeepDays * dayMs;
    if (keepMs === 0) return;
    timers.arm('audit', (Math.floor(ports.clock.now() / hourMs) + 1) * hourMs, () => {
      this.#sweeping = this.#sweep(keepMs)
        .catch((error: unknown) =>
          ports.log.error({ err: error }, 'could not remove old entries of the audit log; next sweep within 1 h'),
        )
        .finally(() => this.schedule());
    });
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#sweeping;
  }

  async #sweep(keepMs: number): Promise<void> {
    const { store, ports, recorder } = this.#context;
    const before = instantText(ports.clock.wall() - keepMs);
    while (!this.#ending.signal.aborted && store.held()) {
      const removed = await recorder.inTurn(turn, () => this.#remove(before));
      if (removed === 0) return;
      await sleep(ports.clock, pauseMs, this.#ending.signal);
    }
  }

  /** Removes the oldest entries that are older than `before`, in one write with the entry that says so. [AUDIT-3] */
  async #remove(before: string): Promise<number> {
    const { rows } = await this.#context.store.list({ ...listed, offset: 0, limit: atOnce });
    const young = rows.findIndex(({ data }) => (data as AuditEntry).at >= before);
    const old = (young === -1 ? rows : rows.slice(0, young)).map(({ data }) => data as AuditEntry);
    const upTo = old.at(-1)?.n;
    if (upTo === undefined) return 0;
    const last = await this.#last();
    const about = `entries ${old[0]?.n} to ${upTo}`;
    const act = {
      operator: 'hub',
      role: null,
      verb: removal,
      about,
      reason: null,
      address: null,
      status: 200,
    } as const;
    const gone = old.map(({ n }): Put => ({ ...keyOf(n), gone: true }));
    const facts = old.map(({ n }): Fact => {
      return { stream: streamOf(n), event: { type: 'audit.removed', data: {} }, party: null };
    });
    await this.#append(last, { ...act, correlation_id: null }, facts, gone);
    return old.length;
  }

  async #last(): Promise<Row | null> {
    const { store } = this.#context;
    const { total } = await store.list({ ...listed, offset: 0, limit: 1 });
    return (await store.list({ ...listed, offset: Math.max(0, total - 1), limit: 1 })).rows[0] ?? null;
  }

  async #append(last: Row | null, act: NotedAct, facts: readonly Fact[], puts: readonly Put[]): Promise<AuditEntry> {
    const { recorder, store, ports } = this.#context;
    const at = recorder.instant();
    const before = last?.data as AuditEntry | undefined;
    let n = (before?.n ?? 0) + 1;
    // A number whose row is gone is not given again: the gap shows. [AUDIT-2]
    while ((await store.history(streamOf(n))).length > 0) n += 1;
    const chained = { n, at, ...act, previous: before?.digest ?? '', digest: '' };
    const entry: AuditEntry = { ...chained, digest: ports.secrets.digest(textOf(chained)) };
    const upd = last !== null && last.upd > at ? last.upd : at;
    const event: AuditEvent = { type: 'audit.noted', data: entry };
    const noted: Fact = { stream: streamOf(n), event, party: null };
    // The entry names the correlation id. Its event does not: a search by it finds what the act changed.
    await recorder.record({ facts: [...facts, noted], puts: [...puts, auditRow(entry, upd)], trace: null, at });
    const { operator, role, verb, about, reason, address, status, digest } = entry;
    ports.log.info({ n, operator, role, verb, about, reason, address, status, digest }, 'an operator acted');
    return entry;
  }
}
