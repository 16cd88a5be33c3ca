/**
 * What waits to be written, and the one statement that writes it.
 *
 * W1  Fence, sequence, events, rows, timers, deliveries and floors are one statement, so one commit: all or none.
 * W2  The row of the shard is updated first and stays locked until the commit: commit order is sequence order, and whoever changes
 *     the token waits, or was before and then nothing is written (S4).
 * W3  Each statement has a greater turn than all before it under the same token. One that a network held back and delivers late
 *     finds its turn passed and writes nothing.
 * W4  The key of a commit is unique: a second one fails the statement, and its outcome is read from the log (S3).
 * W5  The counts of lists change with the rows, and under the same lock: what a row was is read in a snapshot of that moment.
 * W6  What can be refused is refused before it waits with others. What the database alone can refuse is found by writing the
 *     members of a group one by one.
 */
import type { Commit, DeliveryRow, Fence, Floor, NewEvent, Put, Seq, Shard } from './contract.ts';
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
 * Answers a row for each shard whose fence was held: `{ id, before }`, `before` the sequence of its last event until now.
 */
export const WRITE = `
with moved as (
  update shards s set head = s.head + f.n, turn = f.turn
    from json_to_recordset($1) f(shard int, token int8, owner text, n int, turn int8)
    where s.id = f.shard and s.token = f.token and s.owner = f.owner and s.turn < f.turn
    returning s.id, s.head - f.n as before),
logged as (
  insert into events (shard, seq, stream, type, at, party, correlation_id, "to", data, body, chars, idem, n, touched)
    select m.id, m.before + e.pos, e.stream, e.type, e.at, e.party, e.correlation, e."to", e.data, e.body, e.chars, e.idem, e.n, e.touched
    from json_to_recordset($2) e(shard int, pos int, stream text, type text, at text, party text, correlation text, "to" text[],
      data text, body text, chars int, idem text, n int, touched text)
    join moved m on m.id = e.shard order by m.id, e.pos),
stood as (
  select k.kind, r.shelf, left(r.upd, ${HOUR}) as hour, m.id as shard, -1 as n, k.gone, r.at
    from (select shard, kind, owner, id, false as gone from json_to_recordset($3) p(shard int, kind text, owner text, id text)
      union all select shard, kind, owner, id, true from json_to_recordset($4) g(shard int, kind text, owner text, id text)) k
    join moved m on m.id = k.shard
    cross join lateral (select r.ctid as at, r.shelf, r.upd from rows r
      where r.kind = k.kind and r.owner = k.owner and r.id = k.id offset 0) r),
stands as (
  select p.kind, p.shelf, left(p.upd, ${HOUR}) as hour, m.id as shard, 1 as n
    from json_to_recordset($3) p(shard int, kind text, shelf text, upd text) join moved m on m.id = p.shard where p.shelf is not null),
counted as (
  insert into listed (kind, shelf, hour, shard, n)
    select kind, shelf, hour, shard, sum(n)
    from (select kind, shelf, hour, shard, n from stood where shelf is not null union all select * from stands) x
    group by kind, shelf, hour, shard having sum(n) <> 0
    ${COUNT}),
placed as (
  insert into rows (kind, owner, id, shelf, upd, data, body, chars, shard, seq)
    select p.kind, p.owner, p.id, p.shelf, p.upd, p.data, p.body, p.chars, m.id, m.before + p.pos
    from json_to_recordset($3) p(shard int, pos int, kind text, owner text, id text, shelf text, upd text, data text, body text, chars int)
    join moved m on m.id = p.shard
    on conflict (kind, owner, id) do update set shelf = excluded.shelf, upd = excluded.upd, data = excluded.data,
      body = excluded.body, chars = excluded.chars, shard = excluded.shard, seq = excluded.seq),
removed as (delete from rows where ctid = any (array (select at from stood where gone))),
armed as (
  insert into timers (shard, key, at)
    select m.id, d.key, d.at from json_to_recordset($5) d(shard int, key text, at text) join moved m on m.id = d.shard
    on conflict (shard, key) do update set at = excluded.at),
disarmed as (
  delete from timers where ctid = any (array (
    select t.at from json_to_recordset($6) d(shard int, key text) join moved m on m.id = d.shard
      cross join lateral (select t.ctid as at from timers t where t.shard = d.shard and t.key = d.key offset 0) t))),
settled as (
  insert into deliveries (shard, dest, seq, state, data)
    select d.shard, d.dest, d.seq, d.state, d.data
    from json_to_recordset($7) d(fence int, shard int, dest text, seq int8, state text, data text)
    join moved m on m.id = d.fence join shards h on h.id = d.shard where d.seq > h.horizon
    on conflict (shard, dest, seq) do update set state = excluded.state, data = excluded.data),
raised as (
  insert into floors (dest, shard, seq)
    select d.dest, d.shard, d.seq from json_to_recordset($8) d(fence int, dest text, shard int, seq int8)
    join moved m on m.id = d.fence
    on conflict (dest, shard) do update set seq = excluded.seq)
select id, before from moved`;

/** The parameters of `WRITE`; the works of one shard have one fence, and no row is put by two shards. */
export function parametersOf(works: readonly Work[], turn: number): string[] {
  const fences = new Map<Shard, { shard: Shard; token: number; owner: string; n: number; turn: number }>();
  const events: object[] = [];
  const puts = new Map<string, PutRecord & { shard: Shard; pos: number }>();
  const due = new Map<string, { shard: Shard; key: string; at: string | null }>();
  const rows = new Map<string, object>();
  const floors = new Map<string, object>();
  for (const { fence, commit, settle } of works) {
    const { shard, token, node: owner } = fence;
    const moved = fences.get(shard) ?? { shard, token, owner, n: 0, turn };
    fences.set(shard, moved);
    if (commit !== null) {
      const n = commit.events.length;
      for (const [i, event] of commit.events.entries()) {
        const ends = i === n - 1 ? { idem: commit.idem, n, touched: commit.touched } : {};
        events.push({ shard, pos: moved.n + i + 1, ...event, ...ends });
      }
      moved.n += n;
      for (const [name, put] of commit.puts) puts.set(name, { ...put, shard, pos: moved.n });
      for (const { key, at } of commit.due) due.set(`${shard} ${key}`, { shard, key, at });
    }
    for (const { row, data } of settle?.rows ?? []) {
      const { dest, seq, state } = row;
      rows.set(keys.openKey(dest, row.shard, seq), { fence: shard, shard: row.shard, dest, seq, state, data });
    }
    for (const floor of settle?.floors ?? [])
      floors.set(keys.floorKey(floor.dest, floor.shard), { fence: shard, ...floor });
  }
  const allPuts = [...puts.values()];
  const allDue = [...due.values()];
  return [
    ...[[...fences.values()], events],
    ...[allPuts.filter(({ gone }) => !gone), allPuts.filter(({ gone }) => gone)],
    ...[allDue.filter(({ at }) => at !== null), allDue.filter(({ at }) => at === null)],
    ...[[...rows.values()], [...floors.values()]],
  ].map((records) => JSON.stringify(records));
}

/** Where commits of these keys ended, of those that are in the log: `[{ shard, idem }]`. */
export const RECALL = `
select e.shard, e.idem, e.seq as last, e.n from events e
  join json_to_recordset($1) k(shard int, idem text) on e.idem = k.idem and e.shard = k.shard`;

export interface Recalled {
  readonly shard: Shard;
  readonly idem: string;
  readonly last: Seq;
  readonly n: number;
}

/**
 * What was visible before it is as durable as this: a commit that waits for its standby. A commit that is found in the log after its
 * connection was lost may stand on this server alone.
 */
export const CONFIRM = 'update meta set flushed = flushed + 1';
