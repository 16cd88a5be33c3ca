/**
 * Migration from version 1 of the schema, which had 256 logs, called shards, each with an owner and sequences of its
 * own: merges them into one log.
 *
 * ONE-LOG-1  Kept events come first, then all others, each part in order of time. An event counts as no older than the
 *     events before it in its shard, so the order within a shard stays. A schema made for one shard keeps its
 *     sequences.
 * ONE-LOG-2  A row gets the sequence of the last event of its shard that exists and is not newer than the row:
 *     comparisons with events give the same result.
 * ONE-LOG-3  Deliveries that were owed stay owed, and ended ones stay ended. A receiver's progress in a shard is the
 *     greatest of its floor, the position remembered for the shard of its partner, and the horizon. Its new floor is
 *     just below the first event beyond that progress without a row; a delivery that ended without a row and is above
 *     the new floor gets a row.
 * ONE-LOG-4  Ids of deliveries in the log (`{shard}.{seq}-{receiver}`, without the shard for shard 0) change with the
 *     sequences. Where their event is gone they keep the old sequence, with the shard: no present delivery has such an
 *     id.
 * ONE-LOG-5  A node of that version that still runs can no longer write: its writes begin at the table `shards`, which
 *     the migration locks first and then drops.
 */
import { counting } from './write-sql.ts';

const MOVED = 'events rows timers deliveries floors'.split(' ');
const GONE = ['events_stream', 'events_correlation', 'events_idem', 'rows_listed', 'deliveries_open'];

/** Takes the place of the sequence in the row of a remembered position: above every horizon. */
const PLACE_SEQ = Number.MAX_SAFE_INTEGER;

/** JSON that PostgreSQL can decode: U+0001 replaces the escapes that it refuses, of U+0000 and surrogates. */
const decodable = (json: string) => `regexp_replace(${json}, '\\\\u(0000|d[89a-f][0-9a-f]{2})', '\\\\u0001', 'g')`;

/** `tables`: SQL that creates the tables of the newest version, once their names are free. */
export const mergingShards = (tables: string): string => `
  lock table shards in access exclusive mode;
  ${GONE.map((index) => `drop index ${index};`).join(' ')}
  ${MOVED.map((table) => `alter table ${table} rename to old_${table}; alter index ${table}_pkey rename to old_${table}_pkey;`).join('\n  ')}
  ${tables}

  create unlogged table numbers (shard smallint, seq int8, new int8 not null, primary key (shard, seq));
  insert into numbers (shard, seq, new)
    select x.shard, x.seq, case when m.shards = 1 then x.seq
        else row_number() over (order by x.seq > x.horizon, x.latest, x.shard, x.seq) end
      from meta m cross join (
        select e.shard, e.seq, s.horizon, max(e.at) over (partition by e.shard order by e.seq) as latest
          from old_events e join shards s on s.id = e.shard) x;
  analyze numbers;
  update log set (token, head, horizon) = (
    select max(s.token), case when m.shards = 1 then max(s.head) else (select count(*) from numbers) end,
        case when m.shards = 1 then max(s.horizon)
          else (select count(*) from numbers n join shards o on o.id = n.shard where n.seq <= o.horizon) end
      from shards s cross join meta m group by m.shards);

  insert into events (seq, stream, type, at, party, correlation_id, "to", data, body, chars, idem, n, touched)
    select n.new, coalesce('delivery:' || d.new, e.stream), e.type, e.at, e.party, e.correlation_id, e."to",
        case when d.new is null then e.data
          else replace(e.data, '"delivery":' || to_json(d.old)::text, '"delivery":' || to_json(d.new)::text) end,
        e.body, e.chars, e.idem, e.n, e.touched
      from old_events e join numbers n on n.shard = e.shard and n.seq = e.seq
      left join lateral (
        select substr(e.stream, 10) as old, coalesce(o.new || '-' || id.parts[3], '0.' || substr(e.stream, 10)) as new
          from (select case when e.type like 'delivery.%'
            then regexp_match(e.stream, '^delivery:(?:([0-9]{1,3})[.])?([0-9]{1,15})-(.+)$') end as parts) id
          cross join meta m
          left join numbers o on o.shard = coalesce(id.parts[1], '0')::int and o.seq = id.parts[2]::int8
          where o.new is not null or (m.shards > 1 and id.parts[1] is null and id.parts[2] is not null)) d on true
      order by n.new;

  insert into rows (kind, owner, id, shelf, upd, data, body, chars, seq)
    select r.kind, r.owner, r.id, r.shelf, r.upd, r.data, r.body, r.chars, case when m.shards = 1 then r.seq else coalesce(
        (select n.new from numbers n where n.shard = r.shard and n.seq <= r.seq order by n.seq desc limit 1), 0) end
      from old_rows r cross join meta m;
  with ${counting('select kind, shelf, upd, 1 as n from rows', '0')} select;
  insert into timers (key, at) select key, min(at) from old_timers group by key;

  create unlogged table reached (dest text collate "C", shard smallint, seq int8 not null, primary key (dest, shard));
  insert into reached (dest, shard, seq)
    with homes as (
      select distinct upper(concat_ws('-', role ->> 'country_code', role ->> 'party_id') collate "C") as dest, r.shard
        from old_rows r cross join json_array_elements(${decodable('r.data')}::json -> 'roles') role where r.kind = 'partners'),
    places as (
      select d.shard as home, p.key::smallint as shard, p.value::int8 as seq
        from old_deliveries d cross join json_each_text(d.data::json) p
        where d.seq = ${PLACE_SEQ} and d.dest = '#' || d.shard),
    receivers as (select dest from homes union select dest from old_floors)
    select v.dest, s.id, greatest(s.horizon, max(f.seq), min(coalesce(p.seq, 0)))
      from receivers v cross join shards s
      left join homes h on h.dest = v.dest
      left join places p on p.home = h.shard and p.shard = s.id
      left join old_floors f on f.dest = v.dest and f.shard = s.id
      group by v.dest, s.id;
  create unlogged table unrowed (dest text collate "C", seq int8, waits boolean not null, ended text, primary key (dest, seq));
  insert into unrowed (dest, seq, waits, ended)
    select distinct r.dest, n.new, e.seq > r.seq, case when e.seq <= r.seq then json_build_object(
        'module', split_part(e.stream, '/', 1), 'attempts', json '[]', 'tries', 0, 'since', e.at, 'due', null,
        'class', 'delivered', 'reason', null)::text end
      from old_events e join shards s on s.id = e.shard and e.seq > s.horizon
      cross join unnest(e."to") t(dest)
      join reached r on r.dest = t.dest and r.shard = e.shard
      join numbers n on n.shard = e.shard and n.seq = e.seq
      where not exists (select from old_deliveries d where d.shard = e.shard and d.dest = t.dest and d.seq = e.seq);
  insert into floors (dest, seq)
    select r.dest, coalesce((select min(u.seq) from unrowed u where u.dest = r.dest and u.waits) - 1, l.head)
      from (select distinct dest from reached) r cross join log l;
  insert into deliveries (dest, seq, state, data)
    select d.dest, n.new, d.state, d.data from old_deliveries d join numbers n on n.shard = d.shard and n.seq = d.seq
    union all
    select u.dest, u.seq, 'DELIVERED', u.ended from unrowed u join floors f on f.dest = u.dest
      where not u.waits and u.seq > f.seq;

  drop table ${MOVED.map((table) => `old_${table}`).join(', ')}, listed, shards, numbers, reached, unrowed;
  alter table meta drop column shards;
  `;
