/**
 * The read half of the embedded store; `store.ts` adds the writes.
 *
 * LEVEL-READS-1  A read sees the database as of the moment the read begins, which includes everything that resolved
 *     before (CONTRACT-7).
 * LEVEL-READS-2  Damaged data is never returned (CONTRACT-8). A quarantined store, whose damage is already reported,
 *     omits it from scans and from the log so that the rest stays readable; there, too, reading one damaged record by
 *     its name throws.
 * LEVEL-READS-3  A record that verification read but a look-up does not find counts as damaged, because an index of the
 *     engine may rot. Health then reports it.
 * LEVEL-READS-4  A rotted index may hide the newest version of a row and return an older one. A row whose `upd` differs
 *     from its entry in the order index is therefore read again with `sought`, which bypasses the look-up.
 * LEVEL-READS-5  While the database is being reopened, every read is refused.
 * LEVEL-READS-6  A read that meets damage before the whole store is verified waits until it is, and then reads again: it
 *     answers as if the damage had been found at the start. [LIFECYCLE-7]
 */
import { sleep } from '../../src/kit/clock.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import type {
  DeliveryQuery,
  DeliveryRow,
  EventQuery,
  Floor,
  ListPage,
  ListQuery,
  Range,
  Row,
  RowKey,
  Seq,
  StoredEvent,
  StoreHealth,
} from '../contract.ts';
import { Damaged, StoreUnavailable } from '../contract.ts';
import * as keys from '../keys.ts';
import { decode, inspect } from '../records.ts';
import { type RowHead, toEvent } from './event-log.ts';
import { chunks, countIn, type Database, fetch, lookUp, sought } from './leveldb.ts';
import type { Lifecycle } from './lifecycle.ts';
import type { Mounted } from './mounted.ts';
import { placeOf } from './order-index.ts';
import * as outbox from './outbox.ts';
import type { Found } from './verify.ts';

/** Rows of the first fetch of a list with a `size`, before the size of its bodies is known. */
const firstRows = 8;
/**
 * A record that should exist is looked up 20 times, 25 ms apart, before it counts as damaged: for a moment a batch can
 * be on the disk while memory does not reflect it yet.
 */
const looksMax = 20;
const lookAgainMs = 25;
/** How often a page is cut again when all its rows move away before they are read. */
const cutsMax = 100;

export class Reads {
  protected readonly lifecycle: Lifecycle;

  constructor(lifecycle: Lifecycle) {
    this.lifecycle = lifecycle;
  }

  event(seq: Seq): Promise<StoredEvent | null> {
    return this.reading(() => this.#event(seq));
  }

  async #event(seq: Seq): Promise<StoredEvent | null> {
    if (seq <= this.lifecycle.mounted().found.horizon.seq) return null;
    const key = keys.eventKey(seq);
    const value = await this.#value(key);
    if (value !== undefined) return toEvent(key, decode(key, value));
    if (seq > this.horizon() && seq <= this.head()) this.#unfound(key);
    return null;
  }

  async read(query: EventQuery): Promise<StoredEvent[]> {
    // The kept events have no order that would tell of a missing one.
    if (query.kept) await this.lifecycle.verifiedWhole();
    return this.reading(({ reader, found }) => reader.read(query, found.head, found.horizon.seq));
  }

  ranges(ranges: readonly Range[]): Promise<StoredEvent[]> {
    return this.reading(async ({ reader, found }) => {
      const events: StoredEvent[] = [];
      for (const { after, upTo } of ranges) {
        // A look-up costs a fraction of a scan.
        if (upTo === after + 1) {
          const event = await this.#event(upTo);
          if (event) events.push({ ...event, body: null });
          continue;
        }
        const query = { after, limit: upTo - after };
        events.push(...(await reader.read(query, Math.min(upTo, found.head), found.horizon.seq, false)));
      }
      return events.sort((a, b) => a.seq - b.seq);
    });
  }

  async history(stream: string, after = 0, limit = Number.POSITIVE_INFINITY): Promise<StoredEvent[]> {
    keys.checkName('stream', stream);
    return this.reading(({ reader }) => reader.indexed(keys.indexFrom('s', stream, after), limit));
  }

  async kept(streams: readonly string[]): Promise<StoredEvent[]> {
    for (const stream of streams) keys.checkName('stream', stream);
    return this.reading(({ reader, found }) => reader.kept(streams, found));
  }

  async recent(stream: string, limit: number): Promise<StoredEvent[]> {
    keys.checkName('stream', stream);
    return this.reading(({ reader }) => reader.newest(keys.indexFrom('s', stream, 0), limit));
  }

  async correlated(correlationId: string, limit = Number.POSITIVE_INFINITY): Promise<StoredEvent[]> {
    keys.checkName('correlation id', correlationId);
    return this.reading(({ reader }) => reader.newest(keys.indexFrom('c', correlationId, 0), limit));
  }

  head(): Seq {
    return this.lifecycle.head();
  }

  async get(key: RowKey): Promise<Row | null> {
    keys.checkRow(key);
    const name = keys.rowKey(key);
    const { found } = this.lifecycle.mounted();
    const { damagedRows, order } = found;
    if (damagedRows.has(name)) throw new Damaged(name);
    const known = inMemory(found, key, name);
    if (known !== undefined) return known;
    for (let look = 1; ; look += 1) {
      // Before the read, which may take the version of before a write that ends meanwhile.
      const upd = order.updOf(key);
      const value = await this.#value(name, key);
      if (value !== undefined) return this.#newest(name, toRow(name, value), upd);
      // Checked against the present index: the database may have been reopened meanwhile.
      if (!this.lifecycle.mounted().found.order.has(key)) return null;
      if (look === looksMax) this.#unfound(name, key);
      await sleep(systemClock, lookAgainMs);
    }
  }

  peek(key: RowKey): Row | null | undefined {
    const name = keys.rowKey(key);
    try {
      const { found } = this.lifecycle.mounted();
      return found.damagedRows.has(name) ? undefined : inMemory(found, key, name);
    } catch {
      // It is being reopened.
      return undefined;
    }
  }

  async getSmall(key: RowKey): Promise<Row | number | null> {
    return (await this.size([key])) || this.get(key);
  }

  async size(wanted: readonly RowKey[]): Promise<number> {
    const { order } = this.lifecycle.mounted().found;
    return wanted.reduce((sum, key) => sum + order.sizeOf(key), 0);
  }

  list(query: ListQuery): Promise<ListPage> {
    return this.reading(async (mounted) => {
      const rowsAt = (wanted: readonly string[]) =>
        query.bodiesOnly ? this.#listed(mounted, query.kind, wanted) : this.#found(mounted, query.kind, wanted);
      for (let cuts = 1; ; cuts++) {
        const { entries, total, offset } = mounted.found.order.page(query);
        const sizeAt = (entry: string) => mounted.found.order.sizeOf(placeOf(query.kind, entry));
        const rows = await rowsUpTo(entries, query, rowsAt, sizeAt);
        // An empty page would mean the end of the list: a page whose rows all moved away meanwhile is cut again.
        if (rows.length > 0 || entries.length === 0 || cuts === cutsMax)
          return { rows, total, isLast: offset + rows.length >= total };
      }
    });
  }

  async *scan(kind: string, owner?: string): AsyncGenerator<Row> {
    const { db, found, tolerate } = this.lifecycle.mounted();
    try {
      for await (const chunk of chunks(db, keys.rowsOf(kind, owner), undefined, tolerate)) {
        for (const [key, value] of chunk) {
          if (!found.damagedRows.has(key) && (tolerate === null || inspect(key, value) === 'sound'))
            yield toRow(key, value);
        }
      }
    } catch (error) {
      throw refusalOf(db, error);
    }
  }

  count(kind: string, owner: string): Promise<number> {
    return this.reading(({ db }) => countIn(db, keys.rowsOf(kind, owner)));
  }

  due(): Promise<{ key: string; at: string }[]> {
    return this.reading(async ({ db }) => {
      const timers: { key: string; at: string }[] = [];
      for await (const chunk of chunks(db, keys.DUE)) {
        for (const [key, value] of chunk) {
          const [at] = decode(key, value).head as [string];
          timers.push({ key: keys.dueNameOf(key), at });
        }
      }
      return timers.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
    });
  }

  floors(): Promise<Floor[]> {
    return this.reading(({ db }) => outbox.readFloors(db));
  }

  deliveries(query: DeliveryQuery): Promise<DeliveryRow[]> {
    return this.reading(async ({ db, found, verified }) => {
      if (query.rows === 'DELIVERED') return outbox.readDelivered(db, query, !verified.isWhole);
      for (let look = 1; ; look += 1) {
        const { rows, missed } = await outbox.readOpen(db, found.open, query);
        const [first] = missed;
        if (first === undefined) return rows;
        if (look === looksMax) this.#unfound(first);
        await sleep(systemClock, lookAgainMs);
      }
    });
  }

  delivery(dest: string, seq: Seq): Promise<DeliveryRow | null> {
    return this.reading(({ db }) => outbox.readDelivery(db, dest, seq));
  }

  horizon(): Seq {
    return this.lifecycle.horizon();
  }

  health(): StoreHealth {
    return this.lifecycle.health();
  }

  onHealth(listener: (health: StoreHealth) => void): void {
    this.lifecycle.onHealth(listener);
  }

  /**
   * Rows at these entries without their `data`, from the list cache where possible. Undefined: the row has moved away
   * since the page was cut.
   */
  async #listed(mounted: Mounted, kind: string, entries: readonly string[]): Promise<(Row | undefined)[]> {
    const { listed } = mounted.found;
    const rows = entries.map((entry) => listed.get(kind, entry));
    const unknown = entries.filter((_, i) => rows[i] === undefined);
    if (unknown.length === 0) return rows;
    const keep = listed.reading(unknown);
    const found = await this.#found(mounted, kind, unknown, false);
    for (const [n, row] of found.entries()) if (row) keep(n, row);
    let next = 0;
    return rows.map((row) => row ?? found[next++]);
  }

  /** Like `#listed`, but always from the database. */
  async #found(
    { db }: Mounted,
    kind: string,
    entries: readonly string[],
    withData = true,
  ): Promise<(Row | undefined)[]> {
    const places = entries.map((entry) => placeOf(kind, entry));
    const names = places.map(keys.rowKey);
    const values = await fetch(db, names);
    const rows: (Row | undefined)[] = [];
    for (const [i, place] of places.entries()) {
      const [name = '', value] = [names[i], values[i]];
      const looked = value === undefined ? undefined : rowAt(place, name, value, withData);
      const row = looked && looked.upd < place.upd ? await this.#newest(name, looked, place.upd) : looked;
      // A row rewritten since the page was cut has moved further on in the list; only the later page returns it.
      rows.push(row && row.upd > place.upd ? undefined : row);
    }
    return rows;
  }

  /** [LEVEL-READS-4] A row with a write in progress differs, too; for it `sought` returns the same version. */
  async #newest(name: string, row: Row, upd: string | undefined): Promise<Row> {
    if (upd === undefined || row.upd === upd) return row;
    const value = await sought(this.lifecycle.mounted().db, name);
    const newest = value === undefined ? row : toRow(name, value);
    if (newest.upd !== row.upd && newest.upd === upd) this.lifecycle.unfound(name);
    return newest;
  }

  /** A large row comes from a thread of the engine, as bytes. */
  async #value(key: string, row?: RowKey): Promise<string | Buffer | undefined> {
    const { db, found } = this.lifecycle.mounted();
    const isLarge = row !== undefined && found.order.sizeOf(row) > 0;
    const name = Buffer.from(key);
    try {
      const value = isLarge
        ? await db.get<Buffer, Buffer>(name, lookUp('buffer', true))
        : db.getSync<Buffer, string>(name, lookUp('utf8', false));
      return value ?? (await sought(db, key));
    } catch (error) {
      if (db.status !== 'open') throw new StoreUnavailable('the store was closed during a read', { cause: error });
      return this.#unfound(key, row);
    }
  }

  /** Reports the record as damaged, lists a row for repair, and throws. */
  #unfound(name: string, row?: RowKey): never {
    if (row) this.lifecycle.mounted().found.damagedRows.set(name, { kind: row.kind, owner: row.owner, id: row.id });
    this.lifecycle.unfound(name);
    throw new Damaged(name);
  }

  /** [LEVEL-READS-6] */
  protected async reading<T>(read: (mounted: Mounted) => Promise<T>): Promise<T> {
    for (;;) {
      const mounted = this.lifecycle.mounted();
      const { db, verified } = mounted;
      const wasWhole = verified.isWhole;
      try {
        return await read(mounted);
      } catch (error) {
        if (!wasWhole && isDamage(error)) await this.lifecycle.doubt(mounted, error);
        else throw refusalOf(db, error);
      }
    }
  }
}

/** A row that was written a moment ago, or null for one that certainly does not exist; undefined: the database has to be read. */
function inMemory({ faults, order, recent }: Found, key: RowKey, name: string): Row | null | undefined {
  const written = recent.get(name);
  if (written) return written;
  return faults.length === 0 && order.isAbsent(key) ? null : undefined;
}

/** What to throw for an error of a read: the engine gives one of its own when the database closes during it. [LEVEL-READS-5] */
const refusalOf = (db: Database, error: unknown): unknown =>
  db.status === 'open' || error instanceof StoreUnavailable
    ? error
    : new StoreUnavailable('the store was closed during a read', { cause: error });

/** Also what the engine says of a block that it cannot read. */
const isDamage = (error: unknown): boolean =>
  error instanceof Damaged || (error as { code?: unknown } | null)?.code === 'LEVEL_CORRUPTION';

/**
 * Rows of a page until their bodies reach `size`. The average size so far, and the sizes of large rows (0 for others) that
 * `sizeAt` gives, set how many the next fetch reads.
 */
async function rowsUpTo(
  entries: readonly string[],
  { size = Number.POSITIVE_INFINITY }: ListQuery,
  rowsAt: (entries: readonly string[]) => Promise<(Row | undefined)[]>,
  sizeAt: (entry: string) => number,
): Promise<Row[]> {
  const rows: Row[] = [];
  let characters = 0;
  let count = size === Number.POSITIVE_INFINITY ? entries.length : firstRows;
  for (let from = 0; from < entries.length; ) {
    let to = from;
    let large = 0;
    do large += sizeAt(entries[to++] ?? '');
    while (to < Math.min(entries.length, from + count) && large < size - characters);
    for (const row of await rowsAt(entries.slice(from, to))) {
      if (row === undefined) continue;
      rows.push(row);
      characters += row.body?.length ?? 0;
      if (characters >= size) return rows;
    }
    from = to;
    count = Math.ceil((size - characters) / Math.max(1, characters / Math.max(1, rows.length)));
  }
  return rows;
}

const toRow = (name: string, value: string | Buffer): Row => rowAt(keys.rowKeyOf(name), name, value, true);

function rowAt({ kind, owner, id }: RowKey, name: string, value: string | Buffer, withData: boolean): Row {
  const { head, data, body } = decode(name, value, withData);
  const [seq, shelf, upd] = head as RowHead;
  return { kind, owner, id, shelf, upd, seq, data, body };
}
