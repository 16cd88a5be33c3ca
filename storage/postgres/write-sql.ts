/**
 * The write of `write-parameters.ts` as a database function. The function locks the row of the log first, so that its
 * later statements read what every earlier write left: a single statement would read a snapshot from before its wait
 * for that lock.
 *
 * Rows are looked up one by one (`limit 1` and `offset 0` keep the planner from changing that), then changed by their `ctid`. A plan
 * cached while a table was small stays in use, and a plan that scans it makes writes too slow once it has grown.
 *
 * An open transaction, as that of `pg_dump`, keeps all former versions of what is written. What changes with nearly every
 * write is found through an index that has its newest version first, so that the others cost no look: the row of the
 * log, floors, rows and counts, whose keys end with their sequence for that. No index then keeps two rows of one name
 * apart: the lock on the log does, since nothing is written without it.
 *
 * Table `counts` has the number of rows per shelf and month, day and hour of `upd`: it counts a list and finds a page
 * without walking there, in a list of years, too. It has the same of all shelves of a kind together, and the number of
 * rows of each shelf, for lists of many shelves.
 */

/** Characters of an instant in `upd` up to its month, day and hour. Stored rows of `counts` depend on these lengths. */
export const [MONTH, DAY, HOUR] = [7, 10, 13] as const;
const SPANS = [MONTH, DAY, HOUR];
/** Shelf of the counts of a whole kind. Their spans are negative, or `SHELVES`: a shelf of this name has others. */
export const WHOLE = `''`;
/** Span of the counts of whole shelves, on `WHOLE`: `start` is the name of the shelf. */
export const SHELVES = 0;
const [OF_SHELF, OF_ALL] = [
  SPANS.map((span) => `(x.shelf, ${span}, left(x.upd, ${span}))`),
  [`(${WHOLE}, ${SHELVES}, x.shelf)`, ...SPANS.map((span) => `(${WHOLE}, ${-span}, left(x.upd, ${span}))`)],
];
/** Of each row (kind, shelf, upd, n) of a query, what it adds to the `counts`. A row without a shelf is on no list. */
const added = (rows: string, counts: readonly string[]) => `
      select x.kind, s.shelf, s.span, s.start, sum(x.n) as n
        from (${rows}) x cross join lateral (values ${counts.join(', ')}) s(shelf, span, start)
        where x.shelf is not null group by 1, 2, 3, 4 having sum(x.n) <> 0`;
/** `latest`: the column with the sequence. */
const countingIn = (latest: string, rows: string, seq: string): string => `
    added as materialized (
      select a.*, (select c.ctid from counts c
          where c.kind = a.kind and c.shelf = a.shelf and c.span = a.span and c.start = a.start order by c.${latest} desc limit 1) as at
        from (${rows}) a),
    recounted as (update counts c set n = c.n + a.n, ${latest} = ${seq} from added a where c.ctid = a.at),
    counted as (
      insert into counts (kind, shelf, span, start, n, ${latest}) select kind, shelf, span, start, n, ${seq} from added where at is null)`;
/**
 * Parts of a `with` that add the `n` of each row (kind, shelf, upd) of a query to the counts, under the lock of the log. `seq`: no less
 * than in any write before.
 */
export const counting = (rows: string, seq: string): string =>
  countingIn('latest', added(rows, [...OF_SHELF, ...OF_ALL]), seq);
/** SQL that adds what the counts of a schema of version 6 or 7 lack. `latest`: the column with the sequence. */
export const totals = (latest: string): string => `
  insert into counts (kind, shelf, span, start, n, ${latest})
    select kind, ${WHOLE}, -span, start, sum(n), 0 from counts group by kind, span, start union all
    select kind, ${WHOLE}, ${SHELVES}, shelf, sum(n), 0 from counts where span = ${MONTH} group by kind, shelf;
  `;
/** The same, in a statement of its own, for rows that are `gone` (kind, shelf, upd). */
export const UNCOUNTED = `${counting('select kind, shelf, upd, -1 as n from gone', '(select max(head) from log)')} select`;

/** Part of a `with`: the receivers of deliveries, found one after another along the primary key. */
export const DESTS = `recursive dests(dest) as (
    (select min(dest) from deliveries)
    union all
    select (select min(d.dest) from deliveries d where d.dest > dests.dest) from dests where dests.dest is not null)`;

/** Orders the versions of the row of the log, of which one counts, by an index: the newest is the first. */
const NEWEST = 'order by token desc, head desc, turn desc limit 1';
/** Of the versions of a row, whose key ends with its sequence, the one that counts. */
export const LATEST = 'order by r.seq desc limit 1';
/** The row of the log. */
export const LOG = `(select * from log ${NEWEST})`;

/** What a write does to the counts: `stood` has the rows as they were. */
const CHANGES = `select kind, shelf, upd, -1 as n from stood
        union all select p.kind, p.shelf, p.upd, 1 from json_to_recordset($6) p(kind text, shelf text, upd text) cross join moved m`;
/** As versions 3 to 7 of the schema count: by hours alone, before version 6. */
function countingAt(version: number): string {
  const rows = added(CHANGES, version < 6 ? OF_SHELF.slice(-1) : OF_SHELF);
  if (version === 7) return countingIn('seq', rows, 'present.head');
  return version < 6
    ? `
    counted as (
      insert into listed (kind, shelf, hour, n)
        select a.kind, a.shelf, a.start, a.n from (${rows}) a
        on conflict (kind, shelf, hour) do update set n = listed.n + excluded.n)`
    : `
    counted as (
      insert into counts (kind, shelf, span, start, n) ${rows}
        on conflict (kind, shelf, span, start) do update set n = counts.n + excluded.n)`;
}

/** The write itself, once the row of the log is locked. */
const writing = (counted: string): string => `
  return query
    with stale as (
      select s.kind, s.owner, s.id, s.seq from json_to_recordset($12) s(kind text, owner text, id text, seq int8)
        where s.seq is distinct from (select r.seq from rows r where r.kind = s.kind and r.owner = s.owner and r.id = s.id ${LATEST})),
    moved as (
      update log l set head = l.head + $3, turn = case when $1 is null then l.turn else $4 end
        where l.ctid = present.at and not exists (select from stale)
        returning present.head as before, l.horizon),
    logged as (
      insert into events (seq, stream, type, at, party, correlation_id, "to", data, body, chars, idem, n, touched)
        select m.before + e.pos, e.stream, e.type, e.at, e.party, e.correlation, e."to", e.data, e.body, e.chars, e.idem, e.n, e.touched
        from json_to_recordset($5) e(pos int, stream text, type text, at text, party text, correlation text, "to" text[],
          data text, body text, chars int, idem text, n int, touched text)
        cross join moved m order by e.pos),
    stood as materialized (
      select k.kind, k.owner, k.id, r.shelf, r.upd, k.gone, r.at
        from (select kind, owner, id, false as gone from json_to_recordset($6) p(kind text, owner text, id text)
          union all select kind, owner, id, true from json_to_recordset($7) g(kind text, owner text, id text)) k
        cross join moved m
        cross join lateral (select r.ctid as at, r.shelf, r.upd from rows r
          where r.kind = k.kind and r.owner = k.owner and r.id = k.id ${LATEST}) r),
    ${counted},
    put as materialized (
      select p.kind, p.owner, p.id, p.shelf, p.upd, p.data, p.body, p.chars, m.before + p.pos as seq, s.at
        from json_to_recordset($6) p(pos int, kind text, owner text, id text, shelf text, upd text, data text, body text, chars int)
        cross join moved m left join stood s on s.kind = p.kind and s.owner = p.owner and s.id = p.id),
    replaced as (
      update rows r set shelf = p.shelf, upd = p.upd, data = p.data, body = p.body, chars = p.chars, seq = p.seq
        from put p where r.ctid = p.at),
    placed as (
      insert into rows (kind, owner, id, shelf, upd, data, body, chars, seq)
        select p.kind, p.owner, p.id, p.shelf, p.upd, p.data, p.body, p.chars, p.seq from put p where p.at is null),
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
    reached as materialized (
      select d.dest, d.seq, (select f.ctid from floors f where f.dest = d.dest order by f.seq desc limit 1) as at
        from json_to_recordset($11) d(dest text, seq int8) cross join moved m),
    raised as (update floors f set seq = r.seq from reached r where f.ctid = r.at),
    founded as (insert into floors (dest, seq) select r.dest, r.seq from reached r where r.at is null)
    select m.before, null from moved m
    union all
    select present.head, (select json_agg(s)::text from stale s) where exists (select from stale);`;

/** Creates or replaces the function. Only a migration runs this: a change of the text needs a new schema version. */
const appending = (write: string): string => `
create or replace function append(
    token int8, owner text, events int8, turn int8, logged json, placed json, removed json, armed json, disarmed json, settled json,
    raised json, seen json)
  returns table (head int8, stale text) language plpgsql as $append$
#variable_conflict use_column
declare
  present record;
begin
  select ctid as at, * into present from log ${NEWEST} for update;
  if $1 is not null and ((present.token, present.owner) is distinct from ($1, $2) or present.turn >= $4) then return; end if;
  ${write}
end $append$;
`;
export const APPEND = appending(writing(counting(CHANGES, 'present.head')));
/** The function as versions 3 to 7 of the schema have it. */
export const appendAt = (version: number): string => appending(writing(countingAt(version)));
/**
 * The same for the time of a migration from such a version: a call that waits for it finds other tables afterwards than it was made
 * for, and goes on in the text that it has begun with.
 */
export const appendMeanwhile = (version: number): string =>
  appending(`
  if exists (select from pg_attribute where attrelid = to_regclass('counts') and attname = 'latest') then
    ${writing(counting(CHANGES, 'present.head'))}
  else
    ${writing(countingAt(version))}
  end if;`);
