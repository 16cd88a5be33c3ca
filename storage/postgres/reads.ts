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
import { ask } from './connect.ts';
import { fromText } from './schema.ts';
import { HOUR, LATEST, LOG } from './write-sql.ts';

/** Runs a read on a database session of its own. */
export type Reading = <T>(read: (client: Client) => Promise<T>) => Promise<T>;

const SCAN_ROWS = 1000;
const ALL = 2 ** 31 - 1;
/** PostgreSQL rejects a limit that is not an int8. */
const whole = (limit: number): number => Math.max(0, Math.min(ALL, Math.floor(limit)));

interface EventColumns {
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
}

interface RangeColumns extends EventColumns {
  readonly horizon: Seq;
  readonly head: Seq;
}

type RowColumns = Omit<Row, 'data'> & { readonly data: string };

const EVENT = `e.seq, e.stream, e.type, e.at, e.party, e.correlation_id, to_json(e."to") as "to", e.data, e.body`;
const ROW = 'r.kind, r.owner, r.id, r.shelf, r.upd, r.data, r.body, r.seq';

const EVENT_AT = `select ${EVENT} from events e where e.seq = $1 and e.seq > (select horizon from ${LOG} l)`;
/** $1 sequence to begin after, $2 limit, $3 receiver or null. Includes the horizon, from the same snapshot. */
const behind = (columns: string, after = `greatest($1::int8, (select horizon from ${LOG} l))`) => `
  select ${columns}, (select horizon from ${LOG} l) as horizon from events e
  where e.seq > ${after} and ($3::text is null or $3 = any (e."to")) order by e.seq limit $2`;
const EVENTS = behind(EVENT);
const EVENTS_AND_KEPT = behind(EVENT, '$1::int8');
/** $4: characters that the events before the last one may have at most. */
const inSize = (after?: string) => `
select ${EVENT}, w.horizon from (
  select l.*, sum(l.chars) over (order by l.seq) - l.chars as before
    from (${behind('e.seq, e.chars + octet_length(e.data) as chars', after)}) l) w
  join events e on e.seq = w.seq
  where w.before < $4::int8 order by e.seq`;
const EVENTS_IN_SIZE = inSize();
const EVENTS_AND_KEPT_IN_SIZE = inSize('$1::int8');
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
const CORRELATED = `select ${EVENT} from events e where e.correlation_id = $1 order by e.seq limit $2`;

const GET = `select ${ROW} from rows r where r.kind = $1 and r.owner = $2 and r.id = $3 ${LATEST}`;
const SIZE = `select coalesce(sum(r.chars), 0)::int8 as size from rows r
  join unnest($1::text[], $2::text[], $3::text[]) k(kind, owner, id) on k.kind = r.kind and k.owner = r.owner and k.id = r.id
  where r.chars > ${smallBody}`;
const SCAN = `select ${ROW} from rows r where r.kind = $1 and (r.owner, r.id) > ($2, $3)
  and ($4::text is null or r.owner = $4) order by r.owner, r.id limit $5`;
const FIRST = `select ${ROW} from rows r where r.kind = $1 and ($2::text is null or r.owner = $2) order by r.owner, r.id limit $3`;
/**
 * $1 kind, $2 shelves, $3 and $4 bounds on `upd`, $5 to $7 the position to begin after, $8 offset, $9 limit, $10 size.
 * A count is the sum of whole hours in `listed`, plus the rows of one hour at each bound. The page begins in the hour
 * that contains its offset, or at its position, and ends before the hour by which enough rows have come (`beyond`; without such an hour a
 * text above every possible `upd`). Each shelf contributes, from its own index, no more rows than the page may need.
 */
const below = (
  upd: string,
  bound: string,
) => `(select coalesce(sum(h.n), 0) from hours h where h.hour < left(${upd}, ${HOUR}))
  + (select count(*) from rows r where r.kind = $1 and r.shelf = any ($2::text[]) and r.upd >= left(${upd}, ${HOUR}) and ${bound})`;
const LIST = `
with hours as materialized (
  select l.hour, sum(l.n) as n from listed l where l.kind = $1 and l.shelf = any ($2::text[]) group by l.hour),
counts as materialized (
  select case when $3::text is null then 0 else ${below('$3', 'r.upd < $3')} end as low,
    case when $4::text is null then (select coalesce(sum(h.n), 0) from hours h) else ${below('$4', 'r.upd < $4')} end as high,
    case when $5::text is null then 0 else ${below('$5', '(r.upd, r.owner, r.id) <= ($5, $6::text, $7::text)')} end as rank),
start as materialized (
  select h.hour, h.before from (select hour, sum(n) over (order by hour) - n as before from hours) h, counts c
    where $8 > 0 and h.before <= c.low + $8 and h.hour > left(coalesce($3, ''), ${HOUR}) order by h.hour desc limit 1),
whence as materialized (
  select greatest(coalesce(s.hour, $3, ''), coalesce($5, '')) as upd, greatest(0, coalesce(c.low + $8 - s.before, $8))::int8 as skip,
    coalesce((select min(h.hour) from (select hour, sum(n) over (order by hour) - n as before from hours) h
      where h.before >= greatest(c.low, c.rank) + $8 + $9::int8), repeat(chr(1114111), 1000)) as beyond
    from counts c left join start s on true),
page as (
  select x.upd, x.owner, x.id, x.chars from whence w, unnest($2::text[]) s(shelf) cross join lateral (
      select r.upd, r.owner, r.id, r.chars from rows r
        where r.kind = $1 and r.shelf = s.shelf and r.upd >= w.upd and ($4::text is null or r.upd < $4)
          and r.upd < w.beyond and ($5::text is null or (r.upd, r.owner, r.id) > ($5, $6, $7))
        order by r.upd, r.owner, r.id limit w.skip + $9::int8) x
    order by x.upd, x.owner, x.id offset (select skip from whence) limit $9),
cut as (
  select p.*, sum(p.chars) over (order by p.upd, p.owner, p.id) - p.chars as before from page p)
select greatest(0, k.high - k.low)::int8 as total, least(greatest(0, k.rank - k.low), greatest(0, k.high - k.low))::int8 as rank, ${ROW}
  from counts k left join (cut c join rows r on r.kind = $1 and r.owner = c.owner and r.id = c.id)
    on $10::int8 is null or c.before < $10
  order by r.upd, r.owner, r.id`;

/** The same parameters, and $11 the owner; it reads every row within the bounds. */
const LIST_OF_OWNER = `
with matching as materialized (
  select r.upd, r.owner, r.id, r.chars from rows r
    where r.kind = $1 and r.shelf = any ($2::text[]) and r.owner = $11
      and ($3::text is null or r.upd >= $3) and ($4::text is null or r.upd < $4)),
counts as (
  select count(*)::int8 as total,
    count(*) filter (where (m.upd, m.owner, m.id) <= ($5::text, $6::text, $7::text))::int8 as rank from matching m),
page as (
  select * from matching m where $5::text is null or (m.upd, m.owner, m.id) > ($5, $6, $7)
    order by m.upd, m.owner, m.id offset $8 limit $9),
cut as (
  select p.*, sum(p.chars) over (order by p.upd, p.owner, p.id) - p.chars as before from page p)
select k.total, k.rank, ${ROW}
  from counts k left join (cut c join rows r on r.kind = $1 and r.owner = c.owner and r.id = c.id)
    on $10::int8 is null or c.before < $10
  order by r.upd, r.owner, r.id`;

const DUE = 'select key, at from timers order by at, key';
const FLOORS = 'select dest, seq from floors order by dest';
const DELIVERY = 'select dest, seq, state, data from deliveries where dest = $1 and seq = $2';
const deliveriesOf = (is: '<>' | '=') => `select dest, seq, state, data from deliveries
  where dest = $1 and state ${is} 'DELIVERED' and seq >= $2 and seq <= $3 order by seq limit $4`;
const OPEN = deliveriesOf('<>');
const DELIVERED = deliveriesOf('=');

/** At least 1, so that the first row, with 0 characters before it, is always returned. */
const sizeOf = (size = Number.POSITIVE_INFINITY) => (Number.isFinite(size) ? Math.max(1, whole(size)) : null);

export class PostgresReads {
  readonly #reading: Reading;

  constructor(reading: Reading) {
    this.#reading = reading;
  }

  async event(seq: Seq): Promise<StoredEvent | null> {
    const [found] = await this.#ask<EventColumns>('event', EVENT_AT, [seq]);
    return found === undefined ? null : toEvent(found);
  }

  async read({ after, limit, size, to, kept }: EventQuery): Promise<StoredEvent[]> {
    if (limit <= 0) return [];
    const most = sizeOf(size);
    const values = [after, whole(limit), to ?? null, ...(most === null ? [] : [most])];
    const [name, text] =
      most === null
        ? kept
          ? (['events-and-kept', EVENTS_AND_KEPT] as const)
          : (['events', EVENTS] as const)
        : kept
          ? (['events-and-kept-in-size', EVENTS_AND_KEPT_IN_SIZE] as const)
          : (['events-in-size', EVENTS_IN_SIZE] as const);
    const found = await this.#ask<EventColumns & { horizon: Seq }>(name, text, values);
    const horizon = found[0]?.horizon ?? 0;
    let expected = Math.max(after, horizon);
    for (const { seq } of found) {
      if (seq <= horizon) continue;
      expected += 1;
      if (to === undefined && seq !== expected) throw new Damaged(keys.eventKey(expected));
    }
    return found.map(toEvent);
  }

  async ranges(ranges: readonly Range[]): Promise<StoredEvent[]> {
    const rows = await this.#ask<RangeColumns>('ranges', RANGES, [JSON.stringify(ranges)]);
    const found = rows.filter(({ seq }) => seq !== null);
    const present = new Set(found.map(({ seq }) => seq));
    const { horizon = 0, head = 0 } = rows[0] ?? {};
    for (const { after, upTo } of ranges) {
      for (let seq = Math.max(after, horizon) + 1; seq <= Math.min(upTo, head); seq += 1) {
        if (!present.has(seq)) throw new Damaged(keys.eventKey(seq));
      }
    }
    return found.map(toEvent);
  }

  async history(stream: string, after = 0, limit = ALL): Promise<StoredEvent[]> {
    keys.checkName('stream', stream);
    const found = await this.#ask<EventColumns>('history', HISTORY, [stream, after, whole(limit)]);
    return found.map(toEvent);
  }

  async kept(streams: readonly string[]): Promise<StoredEvent[]> {
    for (const stream of streams) keys.checkName('stream', stream);
    return (await this.#ask<EventColumns>('kept', KEPT, [streams])).map(toEvent);
  }

  async correlated(correlationId: string, limit = ALL): Promise<StoredEvent[]> {
    keys.checkName('correlation id', correlationId);
    return (await this.#ask<EventColumns>('correlated', CORRELATED, [correlationId, whole(limit)])).map(toEvent);
  }

  async get(key: RowKey): Promise<Row | null> {
    keys.checkRow(key);
    const [found] = await this.#ask<RowColumns>('get', GET, [key.kind, key.owner, key.id]);
    return found === undefined ? null : toRow(found);
  }

  async size(wanted: readonly RowKey[]): Promise<number> {
    const values = [wanted.map(({ kind }) => kind), wanted.map(({ owner }) => owner), wanted.map(({ id }) => id)];
    const [found] = await this.#ask<{ size: number }>('size', SIZE, values);
    return found?.size ?? 0;
  }

  async list({ kind, shelves, owner, from, to, offset, limit, size, after }: ListQuery): Promise<ListPage> {
    const names = [...new Set(shelves)];
    const position = after === undefined ? [null, null, null] : [after.upd, after.owner, after.id];
    const page = [after === undefined ? whole(offset) : 0, whole(limit), sizeOf(size)];
    const values = [kind, names, from ?? null, to ?? null, ...position, ...page];
    const [name, text, more] =
      owner === undefined ? (['list', LIST, []] as const) : (['list-of-owner', LIST_OF_OWNER, [owner]] as const);
    const found = await this.#ask<RowColumns & { total: number; rank: number }>(name, text, [...values, ...more]);
    const { total = 0, rank = 0 } = found[0] ?? {};
    const rows = found.filter(({ id }) => id !== null).map(toRow);
    return { rows, total, offset: after === undefined ? offset : rank };
  }

  async *scan(kind: string, owner?: string): AsyncGenerator<Row> {
    let found = await this.#ask<RowColumns>('first', FIRST, [kind, owner ?? null, SCAN_ROWS]);
    for (;;) {
      yield* found.map(toRow);
      const last = found.at(-1);
      if (last === undefined || found.length < SCAN_ROWS) return;
      found = await this.#ask('scan', SCAN, [kind, last.owner, last.id, owner ?? null, SCAN_ROWS]);
    }
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
    return (await this.#ask<DeliveryRow & { data: string }>(name, text, values)).map(toDelivery);
  }

  async delivery(dest: string, seq: Seq): Promise<DeliveryRow | null> {
    const [found] = await this.#ask<DeliveryRow & { data: string }>('delivery', DELIVERY, [dest, seq]);
    return found === undefined ? null : toDelivery(found);
  }

  #ask<R extends object>(name: string, text: string, values: readonly unknown[]): Promise<R[]> {
    return this.#reading((client) => ask<R>(client, name, text, values));
  }
}

function toEvent({ seq, stream, type, at, party, correlation_id, to, data, body }: EventColumns): StoredEvent {
  return {
    ...{
      stream,
      type,
      at,
      party,
      correlationId: correlation_id,
      to: JSON.parse(to) as string[],
      data: JSON.parse(data),
    },
    ...{ body: body === null ? null : fromText(body), seq },
  };
}

function toRow({ kind, owner, id, shelf, upd, data, body, seq }: RowColumns): Row {
  return { kind, owner, id, shelf, upd, data: JSON.parse(data), body: body === null ? null : fromText(body), seq };
}

function toDelivery({ dest, seq, state, data }: DeliveryRow & { readonly data: string }): DeliveryRow {
  return { dest, seq, state, data: JSON.parse(data) };
}
