/**
 * Everything of the embedded store that only reads.
 *
 * R1  A read works on the database as it stands when the read begins, which holds all that resolved before (S7).
 * R2  What is damaged is never returned (S8). A quarantined store, whose damage is known and named, leaves it out of scans and
 *     of the log, so that the rest can be read; a read of one damaged thing by its name throws there too.
 * R3  While the database is being reopened there is nothing to read from, and reads are refused.
 */
import type {
  DeliveryQuery,
  DeliveryRow,
  EventQuery,
  Floor,
  ListPage,
  ListQuery,
  Row,
  RowKey,
  Seq,
  Shard,
  StoredEvent,
  StoreHealth,
} from './contract.ts';
import { Damaged, StoreUnavailable } from './contract.ts';
import { chunks } from './engine.ts';
import { type RowHead, toEvent } from './event-log.ts';
import type { Keeper, Mounted } from './keeper.ts';
import * as keys from './keys.ts';
import * as outbox from './outbox.ts';
import { decode, inspect } from './records.ts';

export class Reads {
  protected readonly keeper: Keeper;
  readonly #shard: Shard;

  constructor(keeper: Keeper, shard: Shard) {
    this.keeper = keeper;
    this.#shard = shard;
  }

  async event(shard: Shard, seq: Seq): Promise<StoredEvent | null> {
    const key = keys.eventKey(shard, seq);
    const value = this.#value(key);
    if (value !== undefined) return toEvent(key, decode(key, value));
    if (shard === this.#shard && seq >= 1 && seq <= this.head(shard)) throw new Damaged(key);
    return null;
  }

  read(query: EventQuery): Promise<StoredEvent[]> {
    return this.#reading(({ reader, found }) => reader.read(query, found.head));
  }

  async history(shard: Shard, stream: string, after = 0, limit = Number.POSITIVE_INFINITY): Promise<StoredEvent[]> {
    keys.checkName('stream', stream);
    return this.#reading(({ reader }) => reader.indexed(keys.indexFrom('s', stream, shard, after), limit));
  }

  async correlated(correlationId: string, limit = Number.POSITIVE_INFINITY): Promise<StoredEvent[]> {
    keys.checkName('correlation id', correlationId);
    return this.#reading(({ reader }) => reader.indexed(keys.indexFrom('c', correlationId, this.#shard, 0), limit));
  }

  head(shard: Shard): Seq {
    return shard === this.#shard ? this.keeper.head() : 0;
  }

  async get(key: RowKey): Promise<Row | null> {
    keys.checkRow(key);
    const name = keys.rowKey(key);
    if (this.keeper.mounted().found.damagedRows.has(name)) throw new Damaged(name);
    const value = this.#value(name);
    return value === undefined ? null : toRow(name, value);
  }

  list(query: ListQuery): Promise<ListPage> {
    return this.#reading(async ({ db, found }) => {
      const page = found.order.page(query);
      const names = page.keys.map(keys.rowKey);
      const values = await db.getMany(names);
      // Absent: removed since the page was cut.
      const rows = names.flatMap((name, i) => (values[i] === undefined ? [] : toRow(name, values[i])));
      return { rows, total: page.total, offset: page.offset };
    });
  }

  async *scan(kind: string, owner?: string): AsyncGenerator<Row> {
    const { db, found, tolerate } = this.keeper.mounted();
    for await (const chunk of chunks(db, keys.rowsOf(kind, owner), undefined, tolerate)) {
      for (const [key, value] of chunk) {
        if (!found.damagedRows.has(key) && (tolerate === null || inspect(key, value) === 'sound'))
          yield toRow(key, value);
      }
    }
  }

  due(shard: Shard): Promise<{ key: string; at: string }[]> {
    return this.#reading(async ({ db }) => {
      const timers: { key: string; at: string }[] = [];
      for await (const chunk of chunks(db, keys.dueOf(shard))) {
        for (const [key, value] of chunk) {
          const [at] = decode(key, value).head as [string];
          timers.push({ key: keys.dueNameOf(key), at });
        }
      }
      return timers.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
    });
  }

  floors(): Promise<Floor[]> {
    return this.#reading(({ db }) => outbox.readFloors(db));
  }

  deliveries(query: DeliveryQuery): Promise<DeliveryRow[]> {
    return this.#reading(({ db, found }) => outbox.readDeliveries(db, found.open, query));
  }

  delivery(dest: string, shard: Shard, seq: Seq): Promise<DeliveryRow | null> {
    return this.#reading(({ db }) => outbox.readDelivery(db, dest, shard, seq));
  }

  health(): StoreHealth {
    return this.keeper.health();
  }

  onHealth(listener: (health: StoreHealth) => void): void {
    this.keeper.onHealth(listener);
  }

  #value(key: string): string | undefined {
    const { db } = this.keeper.mounted();
    // As bytes: the engine's own way with text can cut a key that ends in a character of several bytes.
    try {
      return db.getSync(Buffer.from(key), { keyEncoding: 'buffer', valueEncoding: 'utf8' });
    } catch (error) {
      if (db.status !== 'open') throw new StoreUnavailable('the store was closed during a read', { cause: error });
      throw new Damaged(key);
    }
  }

  async #reading<T>(read: (mounted: Mounted) => Promise<T>): Promise<T> {
    const mounted = this.keeper.mounted();
    try {
      return await read(mounted);
    } catch (error) {
      if (mounted.db.status === 'open') throw error;
      throw new StoreUnavailable('the store was closed during a read', { cause: error });
    }
  }
}

function toRow(name: string, value: string): Row {
  const { head, data, body } = decode(name, value);
  const [seq, shelf, upd] = head as RowHead;
  return { ...keys.rowKeyOf(name), shelf, upd, seq, data, body };
}
