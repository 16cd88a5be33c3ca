/**
 * The read half of the PostgreSQL store; `store.ts` adds the writes.
 *
 * POSTGRES-READS-1  Every read goes to the primary, so it sees everything that any node has acknowledged (CONTRACT-7).
 * POSTGRES-READS-2  A read is one statement, hence one snapshot: a page and the total of its list, or log and horizon,
 *     are consistent.
 * POSTGRES-READS-3  A hole in the log above the horizon is damage, never a shorter log (CONTRACT-8).
 */
import type { Client } from 'pg';
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
} from '../contract.ts';
import { Damaged, smallBody } from '../contract.ts';
import * as keys from '../keys.ts';
import type { Touched } from '../level/event-log.ts';
import { ask } from './connect.ts';
import { listing, ROW, sizeOf, whole } from './lists.ts';
import { bodyOf } from './schema.ts';
import { LATEST, LOG } from './write-sql.ts';

/** Runs a read on a database session of its own. */
export type Reading = <T>(read: (client: Client) => Promise<T>) => Promise<T>;

/** A page of a scan ends before the row that would begin behind so many characters. */
const SCAN_ROWS = 1000;
const SCAN_CHARACTERS = 1 << 20;

export interface EventColumns {
  readonly seq: Seq;
  readonly stream: string;
  readonly type: string;
  readonly at: string;
  readonly party: string | null;
  readonly correlation_id: string | null;
  /** JSON. */
  readonly to: string;
  readonly data: string;
  readonly body: string | null;
  /** JSON; only where asked for. */
  readonly touched?: string | null;
}

interface RangeColumns extends EventColumns {
  readonly horizon: Seq;
  readonly head: Seq;
}

export type RowColumns = Omit<Row, 'data'> & { readonly data: string };
export type DeliveryColumns = Omit<DeliveryRow, 'data'> & { readonly data: string };
type SmallColumns = RowColumns & { readonly chars: number };
type ScanColumns = RowColumns & { readonly reached: number };

const EVENT = `e.seq, e.stream, e.type, e.at, e.party, e.correlation_id, to_json(e."to") as "to", e.data, e.body`;

const EVENT_AT = `select ${EVENT} from events e where e.seq = $1 and e.seq > (select horizon from ${LOG} l)`;
/** $1 sequence to begin after, $2 limit, $3 receiver or null. Includes the horizon, from the same snapshot. */
const behind = (columns: string, after = `greatest($1::int8, (select horizon from ${LOG} l))`) => `
  select ${columns}, (select horizon from ${LOG} l) as horizon from events e
  where e.seq > ${after} and ($3::text is null or $3 = any (e."to")) order by e.seq limit $2`;
/** Every event, kept ones included. */
const ALL = '$1::int8';
/** $4: characters that the events before the last one may have at most. */
const inSize = (columns: string, after?: string) => `
select ${columns}, w.horizon from (
  select l.*, sum(l.chars) over (order by l.seq) - l.chars as before
    from (${behind('e.seq, e.chars + octet_length(e.data) as chars', after)}) l) w
  join events e on e.seq = w.seq
  where w.before < $4::int8 order by e.seq`;
/** By name. */
const READS = new Map<string, string>(
  (
    [
      [EVENT, ''],
      [`${EVENT}, e.touched`, '-touched'],
    ] as const
  ).flatMap(([columns, touched]) => [
    [`events${touched}`, behind(columns)],
    [`events-and-kept${touched}`, behind(columns, ALL)],
    [`events-in-size${touched}`, inSize(columns)],
    [`events-and-kept-in-size${touched}`, inSize(columns, ALL)],
  ]),
);
/** $1: ranges. A range without events yields one row without an event, for its horizon and head. */
const RANGES = `
select ${EVENT.replace('e.body', 'null as body')}, l.horizon, l.head
  from json_to_recordset($1) p(after int8, "upTo" int8) cross join ${LOG} l
  left join lateral (select o.* from events o
    where o.seq > greatest(p.after, l.horizon) and o.seq <= p."upTo"
    order by o.seq limit greatest(0, p."upTo" - p.after)) e on true
  order by e.seq`;
const HISTORY = `select ${EVENT} from events e where e.stream = $1 and e.seq > $2 order by e.seq limit $3`;
const KEPT = `select ${EVENT} from events e where e.stream = any ($1::text[]) and e.seq <= (select horizon from ${LOG} l) order by e.seq`;
const newest = (where: string) => `
select * from (select ${EVENT.replace('e.body', 'null as body')} from events e where ${where} = $1 order by e.seq desc limit $2) n
  order by seq`;
const RECENT = newest('e.stream');
const CORRELATED = newest('e.correlation_id');

const GET = `select ${ROW} from rows r where r.kind = $1 and r.owner = $2 and r.id = $3 ${LATEST}`;
const SMALL = `select ${ROW.replace('r.body', `case when r.chars <= ${smallBody} then r.body end as body`)}, r.chars from rows r
  where r.kind = $1 and r.owner = $2 and r.id = $3 ${LATEST}`;
const SIZE = `select coalesce(sum(r.chars), 0)::int8 as size from rows r
  join unnest($1::text[], $2::text[], $3::text[]) k(kind, owner, id) on k.kind = r.kind and k.owner = r.owner and k.id = r.id
  where r.chars > ${smallBody}`;
/** $1 kind, $2 owner or null. `reached`: how many rows there are, up to `SCAN_ROWS`, in front of any cut by size. */
const scanning = (after: string) => `
select w.* from (
  select r.*, count(*) over () as reached, sum(r.size) over (order by r.owner, r.id) - r.size as before
    from (select ${ROW}, r.chars + octet_length(r.data) as size from rows r
      where r.kind = $1 and ($2::text is null or r.owner = $2) ${after} order by r.owner, r.id limit ${SCAN_ROWS}) r) w
  where w.before < ${SCAN_CHARACTERS} order by w.owner, w.id`;
const FIRST = scanning('');
const SCAN = scanning('and (r.owner, r.id) > ($3, $4)');
const COUNT = 'select count(*)::int8 as count from rows where kind = $1 and owner = $2';
const DUE = 'select key, at from timers order by at, key';
const FLOORS = 'select dest, seq from floors order by dest';
const DELIVERY = 'select dest, seq, state, data from deliveries where dest = $1 and seq = $2';
const deliveriesOf = (is: '<>' | '=') => `select dest, seq, state, data from deliveries
  where dest = $1 and state ${is} 'DELIVERED' and seq >= $2 and seq <= $3 order by seq limit $4`;
const OPEN = deliveriesOf('<>');
const DELIVERED = deliveriesOf('=');

export class PostgresReads {
  readonly #reading: Reading;

  constructor(reading: Reading) {
    this.#reading = reading;
  }

  async event(seq: Seq): Promise<StoredEvent | null> {
    const [found] = await this.#ask<EventColumns>('event', EVENT_AT, [seq]);
    return found === undefined ? null : toEvent(found);
  }

  async read({ after, limit, size, to, kept, withTouched }: EventQuery): Promise<StoredEvent[]> {
    if (limit <= 0) return [];
    const most = sizeOf(size);
    const values = [after, whole(limit), to ?? null, ...(most === null ? [] : [most])];
    const name = `events${kept ? '-and-kept' : ''}${most === null ? '' : '-in-size'}${withTouched ? '-touched' : ''}`;
    const text = READS.get(name) ?? '';
    const found = await this.#ask<EventColumns & { horizon: Seq }>(name, text, values, (events) => {
      const horizon = events[0]?.horizon ?? 0;
      let expected = Math.max(after, horizon);
      for (const { seq } of events) {
        if (seq <= horizon) continue;
        expected += 1;
        if (to === undefined && seq !== expected) throw new Damaged(keys.eventKey(expected));
      }
    });
    return found.map((event) =>
      withTouched ? { ...toEvent(event), touched: touchedIn(event.touched) } : toEvent(event),
    );
  }

  async ranges(ranges: readonly Range[]): Promise<StoredEvent[]> {
    const found = await this.#ask<RangeColumns>('ranges', RANGES, [JSON.stringify(ranges)], (rows) => {
      const present = new Set(rows.map(({ seq }) => seq));
      const { horizon = 0, head = 0 } = rows[0] ?? {};
      for (const { after, upTo } of ranges) {
        for (let seq = Math.max(after, horizon) + 1; seq <= Math.min(upTo, head); seq += 1) {
          if (!present.has(seq)) throw new Damaged(keys.eventKey(seq));
        }
      }
    });
    return found.filter(({ seq }) => seq !== null).map(toEvent);
  }

  async history(stream: string, after = 0, limit = Number.POSITIVE_INFINITY): Promise<StoredEvent[]> {
    keys.checkName('stream', stream);
    const found = await this.#ask<EventColumns>('history', HISTORY, [stream, after, whole(limit)]);
    return found.map(toEvent);
  }

  async kept(streams: readonly string[]): Promise<StoredEvent[]> {
    for (const stream of streams) keys.checkName('stream', stream);
    return (await this.#ask<EventColumns>('kept', KEPT, [streams])).map(toEvent);
  }

  async recent(stream: string, limit: number): Promise<StoredEvent[]> {
    keys.checkName('stream', stream);
    return (await this.#ask<EventColumns>('recent', RECENT, [stream, whole(limit)])).map(toEvent);
  }

  async correlated(correlationId: string, limit = Number.POSITIVE_INFINITY): Promise<StoredEvent[]> {
    keys.checkName('correlation id', correlationId);
    return (await this.#ask<EventColumns>('correlated', CORRELATED, [correlationId, whole(limit)])).map(toEvent);
  }

  async get(key: RowKey): Promise<Row | null> {
    keys.checkRow(key);
    const [found] = await this.#ask<RowColumns>('get', GET, [key.kind, key.owner, key.id]);
    return found === undefined ? null : toRow(found);
  }

  async getSmall(key: RowKey): Promise<Row | number | null> {
    keys.checkRow(key);
    const [found] = await this.#ask<SmallColumns>('small', SMALL, [key.kind, key.owner, key.id]);
    if (found === undefined) return null;
    return found.chars > smallBody ? found.chars : toRow(found);
  }

  async size(wanted: readonly RowKey[]): Promise<number> {
    const values = [wanted.map(({ kind }) => kind), wanted.map(({ owner }) => owner), wanted.map(({ id }) => id)];
    const [found] = await this.#ask<{ size: number }>('size', SIZE, values);
    return found?.size ?? 0;
  }

  async list(query: ListQuery): Promise<ListPage> {
    const { name, text, values } = listing(query);
    const found = await this.#ask<RowColumns & { total: number; reached: number }>(name, text, values);
    const { total = 0, reached = 0 } = found[0] ?? {};
    const rows = found.filter(({ id }) => id !== null).map(toRow);
    return { rows, total, isLast: rows.length === reached };
  }

  async *scan(kind: string, owner?: string): AsyncGenerator<Row> {
    let found = await this.#ask<ScanColumns>('first', FIRST, [kind, owner ?? null]);
    for (;;) {
      yield* found.map(toRow);
      const last = found.at(-1);
      if (last === undefined || (found.length === last.reached && last.reached < SCAN_ROWS)) return;
      found = await this.#ask('scan', SCAN, [kind, owner ?? null, last.owner, last.id]);
    }
  }

  async count(kind: string, owner: string): Promise<number> {
    const [found] = await this.#ask<{ count: number }>('count', COUNT, [kind, owner]);
    return found?.count ?? 0;
  }

  due(): Promise<{ key: string; at: string }[]> {
    return this.#ask('due', DUE, []);
  }

  floors(): Promise<Floor[]> {
    return this.#ask('floors', FLOORS, []);
  }

  async deliveries({ dest, rows, fromSeq = 0, toSeq, limit }: DeliveryQuery): Promise<DeliveryRow[]> {
    const [name, text] = rows === 'open' ? (['open', OPEN] as const) : (['delivered', DELIVERED] as const);
    const values = [dest, fromSeq, toSeq ?? Number.MAX_SAFE_INTEGER, whole(limit)];
    return (await this.#ask<DeliveryColumns>(name, text, values)).map(toDelivery);
  }

  async delivery(dest: string, seq: Seq): Promise<DeliveryRow | null> {
    const [found] = await this.#ask<DeliveryColumns>('delivery', DELIVERY, [dest, seq]);
    return found === undefined ? null : toDelivery(found);
  }

  /** Damage that `check` throws is one that the read met: health names it. (CONTRACT-8) */
  #ask<R extends object>(
    name: string,
    text: string,
    values: readonly unknown[],
    check: (found: readonly R[]) => void = () => {},
  ): Promise<R[]> {
    return this.#reading(async (client) => {
      const found = await ask<R>(client, name, text, values);
      check(found);
      return found;
    });
  }
}

function toEvent({ seq, stream, type, at, party, correlation_id, to, data, body }: EventColumns): StoredEvent {
  return {
    stream,
    type,
    at,
    party,
    correlationId: correlation_id,
    to: JSON.parse(to) as string[],
    data: JSON.parse(data),
    body: bodyOf(body),
    seq,
  };
}

const touchedIn = (touched: string | null | undefined): RowKey[] =>
  (JSON.parse(touched ?? '[]') as Touched[]).map(([kind, owner, id]) => ({ kind, owner, id }));

function toRow({ kind, owner, id, shelf, upd, data, body, seq }: RowColumns): Row {
  return { kind, owner, id, shelf, upd, data: JSON.parse(data), body: bodyOf(body), seq };
}

function toDelivery({ dest, seq, state, data }: DeliveryColumns): DeliveryRow {
  return { dest, seq, state, data: JSON.parse(data) };
}
