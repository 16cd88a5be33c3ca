/**
 * Delivery rows and floors of the embedded store: the part of the outbox that is not in the log.
 *
 * OUTBOX-1  A delivery has at most one row: an open one (`p/`, pending or dead) or a remembered success (`d/`).
 * OUTBOX-2  The set of open deliveries is in memory, 8 bytes each: reading them never walks over the tombstones of ended
 *     ones, and a success that was never open needs no delete.
 * OUTBOX-3  At or below the horizon nothing is remembered of a delivery. Above it, every delivery that was tried keeps its
 *     row: `watermark-repair.ts` needs these rows to correct floors after a loss. So the horizon alone bounds their
 *     number.
 */
import type { DeliveryQuery, DeliveryRow, DeliveryState, Floor, Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { decode, encode } from '../records.ts';
import { type Batch, chunks, type Database, sought } from './leveldb.ts';
import { SortedList } from './sorted-list.ts';
import type { Horizon } from './trim-point.ts';

const soughtAtOnce = 100;

export class OpenDeliveries {
  /** By receiver. */
  readonly #lists = new Map<string, SortedList<Seq>>();

  has(dest: string, seq: Seq): boolean {
    return this.#lists.get(dest)?.has(seq) ?? false;
  }

  add(dest: string, seq: Seq): void {
    let list = this.#lists.get(dest);
    if (list === undefined) {
      list = new SortedList();
      this.#lists.set(dest, list);
    }
    list.add(seq);
  }

  remove(dest: string, seq: Seq): void {
    this.#lists.get(dest)?.remove(seq);
  }

  /** Open deliveries of all receivers at or below `seq`. */
  upTo(seq: Seq): { dest: string; seq: Seq }[] {
    return [...this.#lists].flatMap(([dest, list]) =>
      list.slice(0, list.rank(seq + 1)).map((at) => ({ dest, seq: at })),
    );
  }

  within({ dest, fromSeq, toSeq, limit }: DeliveryQuery): Seq[] {
    const list = this.#lists.get(dest);
    if (list === undefined) return [];
    const low = list.rank(fromSeq ?? 0);
    const high = toSeq === undefined ? list.size : list.rank(toSeq + 1);
    return list.slice(low, Math.max(low, Math.min(high, low + limit)));
  }
}

/** A settle, encoded before it joins a batch (EVENT-LOG-3). */
export interface Settle {
  readonly rows: readonly { readonly row: DeliveryRow; readonly head: string; readonly data: string }[];
  readonly floors: readonly Floor[];
  readonly size: number;
}

export function prepareSettle(rows: readonly DeliveryRow[], floors: readonly Floor[]): Settle {
  for (const { dest } of [...rows, ...floors]) keys.checkName('dest', dest);
  const prepared = rows.map((row) => {
    return { row, head: JSON.stringify([row.state]), data: JSON.stringify(row.data) ?? 'null' };
  });
  const size = prepared.reduce((sum, { data }) => sum + data.length, floors.length);
  return { rows: prepared, floors, size };
}

/** `staged`: deliveries that earlier jobs of the batch open (true) or end (false). */
export function stageSettle(
  batch: Batch,
  settle: Settle,
  { open, horizon }: { open: OpenDeliveries; horizon: Horizon },
  staged: Map<string, boolean>,
): void {
  for (const { row, head, data } of settle.rows) {
    const { dest, seq } = row;
    if (seq <= horizon.seq) continue;
    const openAt = keys.openKey(dest, seq);
    const doneAt = keys.deliveredKey(dest, seq);
    const wasOpen = staged.get(openAt) ?? open.has(dest, seq);
    const done = row.state === 'DELIVERED';
    staged.set(openAt, !done);
    batch.put(done ? doneAt : openAt, encode(done ? doneAt : openAt, head, data));
    if (done && wasOpen) batch.del(openAt);
    if (!done && !wasOpen) batch.del(doneAt);
  }
  for (const { dest, seq } of settle.floors) {
    const key = keys.floorKey(dest);
    batch.put(key, encode(key, JSON.stringify([seq])));
  }
}

export function applySettle(
  settle: Settle,
  { open, horizon, floors }: { open: OpenDeliveries; horizon: Horizon; floors: Map<string, Seq> },
): void {
  for (const { dest, seq } of settle.floors) floors.set(dest, seq);
  for (const { row } of settle.rows) {
    if (row.seq <= horizon.seq) continue;
    if (row.state === 'DELIVERED') open.remove(row.dest, row.seq);
    else open.add(row.dest, row.seq);
  }
}

/** `missed`: keys of rows that were open before and after the read but were not found. */
export async function readOpen(
  db: Database,
  open: OpenDeliveries,
  query: DeliveryQuery,
): Promise<{ rows: DeliveryRow[]; missed: string[] }> {
  const { dest } = query;
  const wanted = open.within(query).map((seq) => keys.openKey(dest, seq));
  // Open rows are overwritten in place: where an engine index has rotted, a look-up may return an older version.
  const values: (string | undefined)[] = [];
  for (let from = 0; from < wanted.length; from += soughtAtOnce) {
    const some = wanted.slice(from, from + soughtAtOnce);
    values.push(...(await Promise.all(some.map((key) => sought(db, key)))));
  }
  const missed = wanted.filter((key, i) => values[i] === undefined && open.has(dest, keys.seqOf(key)));
  return { rows: wanted.flatMap((key, i) => toRow(key, values[i]) ?? []), missed };
}

/** `isUnverified`: reads the range to its end, where the engine reports a block that it could not read. [LEVELDB-1] */
export async function readDelivered(db: Database, query: DeliveryQuery, isUnverified: boolean): Promise<DeliveryRow[]> {
  const { dest, limit } = query;
  const found: DeliveryRow[] = [];
  if (limit <= 0) return found;
  const at = (seq: Seq): string => keys.deliveredKey(dest, seq);
  const range = keys.between(at, query.fromSeq ?? 0, query.toSeq ?? Number.MAX_SAFE_INTEGER);
  for await (const chunk of chunks(db, range, limit)) {
    for (const [key, value] of chunk) {
      if (found.length < limit) found.push(...[toRow(key, value) ?? []].flat());
    }
    if (found.length === limit) break;
  }
  const last = found.at(-1);
  if (isUnverified && last !== undefined) await db.keys({ gte: range.gte, lt: at(last.seq + 1) }).all();
  return found;
}

export async function readDelivery(db: Database, dest: string, seq: Seq): Promise<DeliveryRow | null> {
  for (const key of [keys.openKey(dest, seq), keys.deliveredKey(dest, seq)]) {
    const row = toRow(key, await sought(db, key));
    if (row !== null) return row;
  }
  return null;
}

export async function readFloors(db: Database): Promise<Floor[]> {
  const found: Floor[] = [];
  for await (const chunk of chunks(db, keys.under('f/'))) {
    for (const [key, value] of chunk) {
      const [seq] = decode(key, value).head as [Seq];
      found.push({ dest: keys.floorOf(key), seq });
    }
  }
  return found;
}

function toRow(key: string, value: string | undefined): DeliveryRow | null {
  if (value === undefined) return null;
  const { head, data } = decode(key, value);
  const [state] = head as [DeliveryState];
  return { dest: keys.destOf(key), seq: keys.seqOf(key), state, data };
}
