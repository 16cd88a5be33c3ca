/**
 * What waits to be written, and the one statement that writes it.
 *
 * W1  Fence, sequence, events, rows, timers, deliveries and floors are one statement, so one commit: all or none.
 * W2  A write locks the row of the log first, until its commit: commit order is sequence order. A change of the token waits for that lock;
 *     a write behind it finds the new token and writes nothing (S4).
 * W3  Each statement has a greater turn than all before it under the same token. One that a network held back and delivers late
 *     finds its turn passed and writes nothing.
 * W4  The key of a commit is unique: a second one fails the statement, and its outcome is read from the log (S3).
 * W5  The counts of lists change with the rows, and under the same lock: what a row was is read in a snapshot of that moment.
 * W6  What can be refused is refused before it waits with others. What the database alone can refuse is found by writing the
 *     members of a group one by one.
 */
import type { Commit, DeliveryRow, Fence, Floor, NewEvent, Put, Seq } from './contract.ts';
import * as keys from './keys.ts';
import { COUNT, HOUR, toText } from './postgres-schema.ts';

interface EventRecord {
  readonly stream: string;
  readonly type: string;
  readonly at: string;
  readonly party: string | null;
  readonly correlation: string | null;
  readonly to: readonly string[];
  readonly data: string;
  readonly body: string | null;
  readonly chars: number;
}

interface PutRecord {
  readonly kind: string;
  readonly owner: string;
  readonly id: string;
  readonly gone: boolean;
  readonly shelf: string | null;
  readonly upd: string;
  readonly data: string;
  readonly body: string | null;
  readonly chars: number;
}

export interface PreparedCommit {
  readonly idem: string;
  readonly events: readonly EventRecord[];
  /** By `rowName`: the last put of each row. */
  readonly puts: ReadonlyMap<string, PutRecord>;
  readonly due: readonly { readonly key: string; readonly at: string | null }[];
  readonly touched: string;
  readonly size: number;
}

export interface PreparedSettle {
  readonly rows: readonly { readonly row: DeliveryRow; readonly data: string }[];
  readonly floors: readonly Floor[];
  readonly size: number;
}

/** What one job of a group writes. */
export interface Work {
  readonly fence: Fence;
  readonly commit: PreparedCommit | null;
  readonly settle: PreparedSettle | null;
}

const json = (value: unknown): string => JSON.stringify(value) ?? 'null';

/** W6: throws a TypeError. */
export function prepareCommit(commit: Commit): PreparedCommit {
  if (commit.events.length === 0) throw new TypeError('a commit holds at least one event');
  keys.checkName('the key of a commit', commit.idem);
  const events = commit.events.map(prepareEvent);
  const puts = (commit.puts ?? []).map(preparePut);
  const due = commit.due ?? [];
  for (const { key, at } of due) {
    keys.checkName('the key of a timer', key);
    if (at !== null) keys.checkName('the instant of a timer', at);
  }
  const touched = json(puts.map(({ kind, owner, id, gone }) => [kind, owner, id, gone ? 1 : 0]));
  let size = touched.length;
  for (const { data, body } of [...events, ...puts]) size += data.length + (body?.length ?? 0);
  return { idem: commit.idem, events, puts: new Map(puts.map((put) => [keys.rowKey(put), put])), due, touched, size };
}

function prepareEvent(event: NewEvent): EventRecord {
  const { stream, type, at, party, correlationId: correlation, to, body } = event;
  for (const [what, name] of Object.entries({ stream, type, at, party, 'correlation id': correlation })) {
    if (name !== null) keys.checkName(what, name);
  }
  for (const dest of to) keys.checkName('dest', dest);
  if (body !== null) keys.checkText('the body of an event', body);
  const text = body === null ? null : toText(body);
  return { stream, type, at, party, correlation, to, data: json(event.data), body: text, chars: body?.length ?? 0 };
}

function preparePut(put: Put): PutRecord {
  keys.checkRow(put);
  const { kind, owner, id } = put;
  if (put.gone) return { kind, owner, id, gone: true, shelf: null, upd: '', data: '', body: null, chars: 0 };
  const { shelf, upd, body } = put;
  keys.checkName('upd', upd);
  if (shelf !== null) keys.checkName('shelf', shelf);
  if (body !== null) keys.checkText('the body of a row', body);
  const text = body === null ? null : toText(body);
  return { kind, owner, id, gone: false, shelf, upd, data: json(put.data), body: text, chars: body?.length ?? 0 };
}

export function prepareSettle(rows: readonly DeliveryRow[], floors: readonly Floor[]): PreparedSettle {
  for (const { dest } of [...rows, ...floors]) keys.checkName('dest', dest);
  const prepared = rows.map((row) => ({ row, data: json(row.data) }));
  return { rows: prepared, floors, size: prepared.reduce((sum, { data }) => sum + data.length, floors.length + 1) };
}

/**
 * Rows are looked up one by one (`offset 0` keeps it so) and removed by their place: a plan that was made while a table was small stays,
 * and one that walks through the table is the end of it when the table has grown.
 *
 * Answers one row when the fence was held, see `Moved`, and none when not.
 */
export const WRITE = `
with moved as (
  update log set head = head + $3::int8, turn = $4 where token = $1 and owner = $2 and turn < $4
    returning head - $3::int8 as before, horizon),
logged as (
  insert into events (seq, stream, type, at, party, correlation_id, "to", data, body, chars, idem, n, touched)
    select m.before + e.pos, e.stream, e.type, e.at, e.party, e.correlation, e."to", e.data, e.body, e.chars, e.idem, e.n, e.touched
    from json_to_recordset($5) e(pos int, stream text, type text, at text, party text, correlation text, "to" text[],
      data text, body text, chars int, idem text, n int, touched text)
    cross join moved m order by e.pos),
stood as (
  select k.kind, r.shelf, left(r.upd, ${HOUR}) as hour, -1 as n, k.gone, r.at
    from (select kind, owner, id, false as gone from json_to_recordset($6) p(kind text, owner text, id text)
      union all select kind, owner, id, true from json_to_recordset($7) g(kind text, owner text, id text)) k
    cross join moved m
    cross join lateral (select r.ctid as at, r.shelf, r.upd from rows r
      where r.kind = k.kind and r.owner = k.owner and r.id = k.id offset 0) r),
stands as (
  select p.kind, p.shelf, left(p.upd, ${HOUR}) as hour, 1 as n
    from json_to_recordset($6) p(kind text, shelf text, upd text) cross join moved m where p.shelf is not null),
counted as (
  insert into listed (kind, shelf, hour, n)
    select kind, shelf, hour, sum(n)
    from (select kind, shelf, hour, n from stood where shelf is not null union all select * from stands) x
    group by kind, shelf, hour having sum(n) <> 0
    ${COUNT}),
placed as (
  insert into rows (kind, owner, id, shelf, upd, data, body, chars, seq)
    select p.kind, p.owner, p.id, p.shelf, p.upd, p.data, p.body, p.chars, m.before + p.pos
    from json_to_recordset($6) p(pos int, kind text, owner text, id text, shelf text, upd text, data text, body text, chars int)
    cross join moved m
    on conflict (kind, owner, id) do update set shelf = excluded.shelf, upd = excluded.upd, data = excluded.data,
      body = excluded.body, chars = excluded.chars, seq = excluded.seq),
removed as (delete from rows where ctid = any (array (select at from stood where gone))),
armed as (
  insert into timers (key, at)
    select d.key, d.at from json_to_recordset($8) d(key text, at text) cross join moved m
    on conflict (key) do update set at = excluded.at),
disarmed as (
  delete from timers where ctid = any (array (
    select t.at from json_to_recordset($9) d(key text) cross join moved m
      cross join lateral (select t.ctid as at from timers t where t.key = d.key offset 0) t))),
settled as (
  insert into deliveries (dest, seq, state, data)
    select d.dest, d.seq, d.state, d.data
    from json_to_recordset($10) d(dest text, seq int8, state text, data text)
    cross join moved m where d.seq > m.horizon
    on conflict (dest, seq) do update set state = excluded.state, data = excluded.data),
raised as (
  insert into floors (dest, seq)
    select d.dest, d.seq from json_to_recordset($11) d(dest text, seq int8) cross join moved m
    on conflict (dest) do update set seq = excluded.seq)
select before from moved`;

/** Where the log ended before a statement. */
export interface Moved {
  readonly before: Seq;
}

/** The parameters of `WRITE`, of works under one fence. */
export function parametersOf(works: readonly Work[], turn: number): (string | number)[] {
  const events: object[] = [];
  const puts = new Map<string, PutRecord & { pos: number }>();
  const due = new Map<string, { key: string; at: string | null }>();
  const rows = new Map<string, object>();
  const floors = new Map<string, Floor>();
  for (const { commit, settle } of works) {
    if (commit !== null) {
      const n = commit.events.length;
      for (const [i, event] of commit.events.entries()) {
        const ends = i === n - 1 ? { idem: commit.idem, n, touched: commit.touched } : {};
        events.push({ pos: events.length + 1, ...event, ...ends });
      }
      for (const [name, put] of commit.puts) puts.set(name, { ...put, pos: events.length });
      for (const each of commit.due) due.set(each.key, each);
    }
    for (const { row, data } of settle?.rows ?? []) {
      const { dest, seq, state } = row;
      rows.set(keys.openKey(dest, seq), { dest, seq, state, data });
    }
    for (const floor of settle?.floors ?? []) floors.set(floor.dest, floor);
  }
  const { token = 0, node = '' } = works[0]?.fence ?? {};
  const [allPuts, allDue] = [[...puts.values()], [...due.values()]];
  const records = [
    ...[events, allPuts.filter(({ gone }) => !gone), allPuts.filter(({ gone }) => gone)],
    ...[allDue.filter(({ at }) => at !== null), allDue.filter(({ at }) => at === null)],
    ...[[...rows.values()], [...floors.values()]],
  ];
  return [token, node, events.length, turn, ...records.map((each) => JSON.stringify(each))];
}

/** Where commits of these keys ended, of those that are in the log. The index of keys leaves the empty one out. */
export const RECALL = `select idem, seq as last, n from events where idem = any ($1::text[]) and idem <> ''`;

export interface Recalled {
  readonly idem: string;
  readonly last: Seq;
  readonly n: number;
}

/**
 * What was visible before it is as durable as this: a commit that waits for its standby. A commit that is found in the log after its
 * connection was lost may stand on this server alone.
 */
export const CONFIRM = 'update meta set flushed = flushed + 1';
