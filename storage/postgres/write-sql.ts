/**
 * The write of `write-parameters.ts` as a database function. The function locks the row of the log first, so that its
 * later statements read what every earlier write left: a single statement would read a snapshot from before its wait
 * for that lock.
 *
 * Rows are looked up one by one (`offset 0` keeps the planner from changing that) and deleted by their `ctid`. A plan
 * cached while a table was small stays in use, and a plan that scans it makes writes too slow once it has grown.
 *
 * Table `listed` has the row counts per shelf and hour of `upd`: it counts a list and finds a page without walking there.
 */

/** Characters of an instant in `upd` up to its hour. Stored rows of `listed` depend on this length. */
export const HOUR = 13;
/** Adds `n` to the count of a shelf and hour. */
export const COUNT = 'on conflict (kind, shelf, hour) do update set n = listed.n + excluded.n';

/** Creates or replaces the function. Only a migration runs this: a change of the text needs a new schema version. */
export const APPEND = `
create or replace function append(
    token int8, owner text, events int8, turn int8, logged json, placed json, removed json, armed json, disarmed json, settled json,
    raised json, seen json)
  returns table (head int8, stale text) language plpgsql as $append$
#variable_conflict use_column
begin
  perform from log l where $1 is null or (l.token = $1 and l.owner = $2 and l.turn < $4) for update;
  if not found then return; end if;
  return query
    with stale as (
      select s.kind, s.owner, s.id, s.seq from json_to_recordset($12) s(kind text, owner text, id text, seq int8)
        where s.seq is distinct from (select r.seq from rows r where r.kind = s.kind and r.owner = s.owner and r.id = s.id)),
    moved as (
      update log l set head = l.head + $3, turn = case when $1 is null then l.turn else $4 end where not exists (select from stale)
        returning l.head - $3 as before, l.horizon),
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
    select m.before, null from moved m
    union all
    select l.head, (select json_agg(s)::text from stale s) from log l where exists (select from stale);
end $append$;
`;
