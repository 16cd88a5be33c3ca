/**
 * What a simulated store leaves behind when its process dies: the records, and how much of the last moment a power cut takes.
 *
 * TEST-MEMORY-DISK-1  A commit is on the disk whole or not at all.
 * TEST-MEMORY-DISK-2  Settles since the last commit are lost from the newest back, none older than a second. [CONTRACT-6]
 * TEST-MEMORY-DISK-3  Up to the horizon there are the events that were kept, and no other. [CONTRACT-9]
 * D4  Rows rot while no process runs; one that did is unreadable until it is written again. [CONTRACT-8]
 */
import type {
  DeliveryRow,
  Due,
  Floor,
  Kept,
  NewEvent,
  Put,
  Row,
  RowKey,
  Seen,
  StoredEvent,
} from '../../storage/contract.ts';

/** JSON values stand as text, so that nobody holds what another may change. */
export interface DiskEvent extends Omit<StoredEvent, 'data'> {
  readonly data: string;
}

export interface DiskRow extends Omit<Row, 'data'> {
  readonly data: string;
}

export interface DiskDelivery extends Omit<DeliveryRow, 'data'> {
  readonly data: string;
}

export type DiskPut = (Omit<DiskRow, 'seq'> & { readonly gone?: false }) | Extract<Put, { gone: true }>;

export interface DiskCommit {
  readonly idem: string;
  readonly events: readonly (Omit<NewEvent, 'data'> & { readonly data: string })[];
  readonly puts: readonly DiskPut[];
  readonly due: readonly Due[];
  readonly seen: readonly Seen[];
}

export interface DiskTrim {
  readonly upTo: number;
  readonly events: readonly StoredEvent[];
  readonly keeps: readonly (Omit<Kept, 'data'> & { readonly data: string })[];
  readonly drops: readonly StoredEvent[];
  readonly rows: readonly RowKey[];
}

interface Loss {
  readonly at: number;
  undo(): void;
}

const lostMaxMs = 1_000;

export const keyOf = (...parts: readonly string[]): string => parts.join('\0');

/** Order of code points, which is that of UTF-8 bytes. */
export function compareText(a: string, b: string): number {
  const isPlain = !/[\ud800-\uffff]/.test(a) && !/[\ud800-\uffff]/.test(b);
  if (isPlain) return a < b ? -1 : a > b ? 1 : 0;
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

export class MemoryDisk {
  head = 0;
  horizon = 0;
  /** Those behind the horizon, and the ones that were kept. */
  readonly events = new Map<number, DiskEvent>();
  readonly streams = new Map<string, number[]>();
  readonly correlations = new Map<string, number[]>();
  /** The rows that the commit of an event wrote, by its last event. */
  readonly touched = new Map<number, RowKey[]>();
  /** By kind. */
  readonly rows = new Map<string, Map<string, DiskRow>>();
  readonly due = new Map<string, string>();
  readonly commits = new Map<string, { first: number; last: number }>();
  readonly deliveries = new Map<string, DiskDelivery>();
  readonly floors = new Map<string, Floor>();
  /** What the rows were that have rotted, by their whole name. [D4] */
  readonly damaged = new Map<string, DiskRow>();
  token = 0;
  readonly #losses: Loss[] = [];

  /** A row that is not any more what the commit was decided on; undefined when there is none. [CONTRACT-11] */
  stale({ seen }: DiskCommit): Seen | undefined {
    return seen.find(({ kind, owner, id, seq }) => (this.rows.get(kind)?.get(keyOf(owner, id))?.seq ?? null) !== seq);
  }

  commit({ idem, events, puts, due }: DiskCommit): { first: number; last: number; written: DiskEvent[] } {
    const first = this.head + 1;
    const written = events.map((event): DiskEvent => ({ ...event, seq: ++this.head, to: [...event.to] }));
    for (const event of written) {
      this.events.set(event.seq, event);
      index(this.streams, event.stream, event.seq);
      if (event.correlationId !== null) index(this.correlations, event.correlationId, event.seq);
    }
    const last = this.head;
    if (puts.length > 0)
      this.touched.set(
        last,
        puts.map(({ kind, owner, id }) => ({ kind, owner, id })),
      );
    for (const put of puts) this.#put(put, last);
    for (const { key, at } of due) {
      if (at === null) this.due.delete(key);
      else this.due.set(key, at);
    }
    this.commits.set(idem, { first, last });
    this.#losses.length = 0;
    return { first, last, written };
  }

  settle(rows: readonly DiskDelivery[], floors: readonly Floor[], at: number): void {
    for (const row of rows) {
      // Of what the horizon has passed nothing is remembered any more.
      if (row.seq <= this.horizon) continue;
      const key = keyOf(row.dest, String(row.seq));
      this.#losses.push({ at, undo: restoring(this.deliveries, key) });
      this.deliveries.set(key, row);
    }
    for (const floor of floors) {
      this.#losses.push({ at, undo: restoring(this.floors, floor.dest) });
      this.floors.set(floor.dest, { ...floor });
    }
  }

  /** What trims kept of a stream. */
  keptOf(stream: string): number[] {
    return (this.streams.get(stream) ?? []).filter((seq) => seq <= this.horizon);
  }

  /** Throws a RangeError for a trim that must be refused. */
  refuse(trim: DiskTrim): void {
    const refusal = this.#refusal(trim);
    if (refusal !== null) throw new RangeError(refusal);
  }

  #refusal({ upTo, events, keeps, drops }: DiskTrim): string | null {
    if (!Number.isSafeInteger(upTo) || upTo <= this.horizon || upTo > this.head) return `no log to trim up to ${upTo}`;
    if (events.map(({ seq }) => seq).join() !== this.#above(upTo).join()) return 'other events than those to trim';
    const stands = ({ seq, stream }: Kept) =>
      seq > this.horizon && seq <= upTo && this.events.get(seq)?.stream === stream;
    if (!keeps.every(stands)) return 'an event is kept that is not trimmed';
    return drops.some(({ seq }) => seq > this.horizon || !this.events.has(seq))
      ? 'only what an earlier trim kept can be dropped'
      : null;
  }

  #above(upTo: number): number[] {
    return Array.from({ length: upTo - this.horizon }, (_, i) => this.horizon + 1 + i);
  }

  /** [TEST-MEMORY-DISK-3] */
  trim({ upTo, keeps, drops, rows }: DiskTrim): void {
    const kept = new Map(keeps.map(({ rows: _rows, ...event }) => [event.seq, event]));
    for (const { seq } of drops) this.#drop(seq);
    for (let seq = this.horizon + 1; seq <= upTo; seq++) {
      const before = this.events.get(seq);
      const event = kept.get(seq);
      if (!event || !before) this.#drop(seq);
      else {
        if (before.correlationId !== event.correlationId) unindex(this.correlations, before.correlationId, seq);
        this.events.set(seq, { ...event, to: [...event.to] });
      }
    }
    this.horizon = upTo;
    for (const [key, { seq }] of this.deliveries) if (seq <= upTo) this.deliveries.delete(key);
    for (const { kind, owner, id } of rows) {
      const ofKind = this.rows.get(kind);
      const row = ofKind?.get(keyOf(owner, id));
      if (row && row.seq <= upTo) ofKind?.delete(keyOf(owner, id));
    }
    this.#losses.length = 0;
  }

  /** [D4] */
  damage(row: DiskRow): void {
    this.rows.get(row.kind)?.delete(keyOf(row.owner, row.id));
    this.damaged.set(keyOf(row.kind, row.owner, row.id), row);
  }

  #put(put: DiskPut, seq: number): void {
    const kind = this.rows.get(put.kind) ?? new Map<string, DiskRow>();
    this.rows.set(put.kind, kind);
    const key = keyOf(put.owner, put.id);
    this.damaged.delete(keyOf(put.kind, put.owner, put.id));
    if (put.gone) kind.delete(key);
    else {
      const { gone: _gone, ...row } = put;
      kind.set(key, { ...row, seq });
    }
  }

  #drop(seq: number): void {
    const event = this.events.get(seq);
    if (!event) return;
    this.events.delete(seq);
    this.touched.delete(seq);
    unindex(this.streams, event.stream, seq);
    unindex(this.correlations, event.correlationId, seq);
  }

  /** How many records a power cut could take now. */
  losable(at: number): number {
    return this.#losses.filter((loss) => at - loss.at < lostMaxMs).length;
  }

  /** The newest `count` unsynced records were never written. [TEST-MEMORY-DISK-2] */
  lose(count: number): void {
    for (let n = 0; n < count; n++) this.#losses.pop()?.undo();
    this.#losses.length = 0;
  }
}

function index(entries: Map<string, number[]>, key: string, seq: number): void {
  const seqs = entries.get(key);
  if (seqs) seqs.push(seq);
  else entries.set(key, [seq]);
}

function unindex(entries: Map<string, number[]>, key: string | null, seq: number): void {
  const seqs = entries.get(key ?? '')?.filter((one) => one !== seq);
  if (key === null || !seqs) return;
  if (seqs.length > 0) entries.set(key, seqs);
  else entries.delete(key);
}

function restoring<T>(map: Map<string, T>, key: string): () => void {
  const before = map.get(key);
  return () => {
    if (before === undefined) map.delete(key);
    else map.set(key, before);
  };
}
