/**
 * Converts between the tables of PostgreSQL and the records of the embedded store: the format of backups, and of copies
 * between stores.
 *
 * POSTGRES-RECORDS-1  The conversion is exact both ways: a record copied and read back has the same bytes, so one
 *     digest proves that a copy is complete.
 * POSTGRES-RECORDS-2  A damaged record is not copied.
 */
import { createHash, type Hash } from 'node:crypto';
import type { Client } from 'pg';
import type { Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import type { EventHead, RowHead, Touched } from '../level/event-log.ts';
import { chunks, type Database } from '../level/leveldb.ts';
import { decode, encode } from '../records.ts';
import type { DeliveryColumns, EventColumns, RowColumns } from './reads.ts';
import { bodyColumns, bodyOf } from './schema.ts';

export type Entry = readonly [key: string, value: string];

/** Key spaces to convert. Indexes follow from events, and each store makes its own records again. */
const SPACES = ['e', 'o', 'p', 'd', 'f', 't'] as const;
type Space = (typeof SPACES)[number];

/** A piece has so many records at most, of so many bytes together: one object may have 4 MiB of them. */
const PIECE = 500;
const PIECE_BYTES = 1 << 20;

interface AllEventColumns extends EventColumns {
  readonly idem: string | null;
  readonly n: number | null;
}

/** How one key space maps to a table: reading it in key order, and converting both ways. */
interface Form {
  readonly select: string;
  /** Bytes of a record that vary, from its columns; reads none of what is stored outside its row. */
  readonly size: string;
  readonly toEntry: (columns: never) => Entry;
  readonly fromEntry: (key: string, value: string) => object;
  readonly insert: string;
}

const OF_TEXTS = 'octet_length(data) + coalesce(octet_length(body), 0)';

const delivery = (is: '=' | '<>', keyOf: (dest: string, seq: Seq) => string): Form => ({
  select: `select dest, seq, state, data from deliveries where state ${is} 'DELIVERED' order by dest, seq`,
  size: 'octet_length(data)',
  toEntry({ dest, seq, state, data }: DeliveryColumns) {
    const key = keyOf(dest, seq);
    return [key, encode(key, JSON.stringify([state]), data)];
  },
  fromEntry(key, value) {
    const { head, data } = decode(key, value);
    return { dest: keys.destOf(key), seq: keys.seqOf(key), state: (head as [string])[0], data: JSON.stringify(data) };
  },
  insert: `insert into deliveries (dest, seq, state, data) select dest, seq, state, data
    from json_to_recordset($1) x(dest text, seq int8, state text, data text)`,
});

const FORMS: Readonly<Record<Space, Form>> = {
  e: {
    select: `select seq, stream, type, at, party, correlation_id, to_json("to") as "to", data, body, idem, n, touched
      from events order by seq`,
    size: OF_TEXTS,
    toEntry({ seq, stream, type, at, party, correlation_id, to, data, body, idem, n, touched }: AllEventColumns) {
      const key = keys.eventKey(seq);
      const fields = [stream, type, at, party, correlation_id, JSON.parse(to) as string[]] as const;
      const head: EventHead =
        idem === null ? [...fields] : [...fields, idem, n ?? 1, JSON.parse(touched ?? '[]') as Touched[]];
      return [key, encode(key, JSON.stringify(head), data, bodyOf(body))];
    },
    fromEntry(key, value) {
      const content = decode(key, value);
      const [stream, type, at, party, correlation, to, idem, n, touched] = content.head as EventHead;
      const ends = idem === undefined ? {} : { idem, n, touched: JSON.stringify(touched ?? []) };
      const data = JSON.stringify(content.data);
      const fields = { seq: keys.seqOf(key), stream, type, at, party, correlation, to, data };
      return { ...fields, ...bodyColumns(content.body), ...ends };
    },
    insert: `insert into events (seq, stream, type, at, party, correlation_id, "to", data, body, chars, idem, n, touched)
      select seq, stream, type, at, party, correlation, "to", data, body, chars, idem, n, touched
      from json_to_recordset($1) x(seq int8, stream text, type text, at text, party text, correlation text, "to" text[], data text,
        body text, chars int, idem text, n int, touched text)`,
  },
  o: {
    select: 'select kind, owner, id, shelf, upd, data, body, seq from rows order by kind, owner, id',
    size: OF_TEXTS,
    toEntry(row: RowColumns) {
      const key = keys.rowKey(row);
      const head: RowHead = [row.seq, row.shelf, row.upd];
      return [key, encode(key, JSON.stringify(head), row.data, bodyOf(row.body))];
    },
    fromEntry(key, value) {
      const content = decode(key, value);
      const [seq, shelf, upd] = content.head as RowHead;
      const fields = { ...keys.rowKeyOf(key), shelf, upd, seq, data: JSON.stringify(content.data) };
      return { ...fields, ...bodyColumns(content.body) };
    },
    insert: `insert into rows (kind, owner, id, shelf, upd, data, body, chars, seq)
      select kind, owner, id, shelf, upd, data, body, chars, seq from json_to_recordset($1)
        x(kind text, owner text, id text, shelf text, upd text, data text, body text, chars int, seq int8)`,
  },
  p: delivery('<>', keys.openKey),
  d: delivery('=', keys.deliveredKey),
  f: {
    select: 'select dest, seq from floors order by dest',
    size: '0',
    toEntry({ dest, seq }: { dest: string; seq: Seq }) {
      const key = keys.floorKey(dest);
      return [key, encode(key, JSON.stringify([seq]))];
    },
    fromEntry: (key, value) => ({ dest: keys.floorOf(key), seq: (decode(key, value).head as [Seq])[0] }),
    insert: `insert into floors (dest, seq) select dest, seq from json_to_recordset($1) x(dest text, seq int8)`,
  },
  t: {
    select: 'select key, at from timers order by key',
    size: '0',
    toEntry({ key: name, at }: { key: string; at: string }) {
      const key = keys.dueKey(name);
      return [key, encode(key, JSON.stringify([at]))];
    },
    fromEntry: (key, value) => ({ key: keys.dueNameOf(key), at: (decode(key, value).head as [string])[0] }),
    insert: `insert into timers (key, at) select key, at from json_to_recordset($1) x(key text, at text)`,
  },
};

/** Requires a transaction with one snapshot. Ordered by space as in `SPACES`, then by key. */
export async function* recordsIn(client: Client): AsyncGenerator<Entry[]> {
  for (const space of SPACES) {
    const { select, size, toEntry } = FORMS[space];
    await client.query(`declare sizes no scroll cursor for select ${size} as size from (${select}) x`);
    await client.query(`declare records no scroll cursor for ${select}`);
    for (;;) {
      const { rows: sizes } = await client.query<{ size: number }>(`fetch ${PIECE} from sizes`);
      if (sizes.length === 0) break;
      for (const count of pieces(sizes)) {
        const { rows } = await client.query(`fetch ${count} from records`);
        yield rows.map((row) => toEntry(row as never));
      }
    }
    await client.query('close sizes; close records');
  }
}

/** How many records each piece has: no more than `PIECE_BYTES`, or one. */
function* pieces(sizes: readonly { size: number }[]): Generator<number> {
  let [count, bytes] = [0, 0];
  for (const { size } of sizes) {
    if (count > 0 && bytes + size > PIECE_BYTES) {
      yield count;
      [count, bytes] = [0, 0];
    }
    count += 1;
    bytes += size;
  }
  yield count;
}

/** The same records from an embedded store, in the same order. */
export async function* recordsOf(db: Database): AsyncGenerator<Entry[]> {
  for (const space of SPACES) for await (const chunk of chunks(db, keys.under(`${space}/`), PIECE)) yield chunk;
}

/** Inserts records of one space into empty tables. Throws `Damaged` for a damaged record. [POSTGRES-RECORDS-2] */
export async function insert(client: Client, entries: readonly Entry[]): Promise<void> {
  const space = entries[0]?.[0].charAt(0) as Space;
  const form = FORMS[space];
  const lines = entries.map(([key, value]) => form.fromEntry(key, value));
  await client.query({ name: `copy-${space}`, text: form.insert, values: [JSON.stringify(lines)] });
}

/** Digest and counts by space, over records in the order of `recordsIn`. */
export class Tally {
  readonly #digest: Hash = createHash('sha256');
  readonly counts: Record<Space, number> = { e: 0, o: 0, p: 0, d: 0, f: 0, t: 0 };
  records = 0;

  add(entries: readonly Entry[]): void {
    for (const [key, value] of entries) {
      this.#digest.update(key).update(value);
      this.counts[key.charAt(0) as Space] += 1;
      this.records += 1;
    }
  }

  /** May be called once, at the end. */
  digest(): string {
    return this.#digest.digest('hex');
  }
}

/** Digest of the records of an embedded store. */
export async function digestOf(db: Database): Promise<string> {
  const tally = new Tally();
  for await (const entries of recordsOf(db)) tally.add(entries);
  return tally.digest();
}
