/** A schema as version 1 made it, with 256 logs that are called shards; and a world that such a schema may hold. */
import type { PostgresServer } from '../../support/postgres.ts';

const TABLES = `
  create table meta (
    one boolean primary key default true check (one), version int not null, shards int not null, flushed int8 not null default 0);
  create table nodes (
    id text collate "C" primary key, name text not null, url text, expires timestamptz not null);
  create table shards (
    id smallint primary key, token int8 not null default 0, owner text collate "C", turn int8 not null default 0,
    head int8 not null default 0, horizon int8 not null default 0) with (fillfactor = 20);
  insert into shards (id) select generate_series(0, 255);

  create table events (
    shard smallint not null, seq int8 not null, stream text collate "C" not null, type text collate "C" not null,
    at text collate "C" not null, party text collate "C", correlation_id text collate "C", "to" text[] not null,
    data text not null, body text, chars int not null,
    idem text collate "C", n int, touched text,
    primary key (shard, seq));
  create index events_stream on events (stream, shard, seq);
  create index events_correlation on events (correlation_id, shard, seq) where correlation_id is not null;
  create unique index events_idem on events (idem, shard) where idem <> '';

  create table rows (
    kind text collate "C" not null, owner text collate "C" not null, id text collate "C" not null, shelf text collate "C",
    upd text collate "C" not null, data text not null, body text, chars int not null, shard smallint not null, seq int8 not null,
    primary key (kind, owner, id));
  create index rows_listed on rows (kind, shelf, upd, owner, id) where shelf is not null;
  create table listed (
    kind text collate "C" not null, shelf text collate "C" not null, hour text collate "C" not null, shard smallint not null,
    n int8 not null, primary key (kind, shelf, hour, shard)) with (fillfactor = 70);

  create table timers (
    shard smallint not null, key text collate "C" not null, at text collate "C" not null, primary key (shard, key));

  create table deliveries (
    shard smallint not null, dest text collate "C" not null, seq int8 not null, state text not null, data text not null,
    primary key (shard, dest, seq)) with (fillfactor = 80);
  create index deliveries_open on deliveries (shard, dest, seq) where state <> 'DELIVERED';
  create table floors (
    dest text collate "C" not null, shard smallint not null, seq int8 not null, primary key (dest, shard)) with (fillfactor = 50);
  `;

export interface OldEvent {
  readonly shard: number;
  readonly seq: number;
  readonly stream: string;
  readonly type: string;
  readonly at: string;
  readonly correlation_id: string | null;
  readonly to: readonly string[];
  /** JSON. */
  readonly data: string;
  readonly idem: string;
}

export interface OldWorld {
  /** 1: shard 0 alone. */
  readonly count: 1 | 256;
  readonly shards: { id: number; token: number; owner: string | null; turn: number; head: number; horizon: number }[];
  readonly events: OldEvent[];
  readonly rows: { kind: string; owner: string; id: string; upd: string; data: string; shard: number; seq: number }[];
  readonly timers: { shard: number; key: string; at: string }[];
  readonly deliveries: { shard: number; dest: string; seq: number; state: string; data: string }[];
  readonly floors: { dest: string; shard: number; seq: number }[];
}

/** Partners by the shard in which their rows stand; their parties are receivers. The last has no role that is there. */
export const PARTNERS: readonly (readonly [id: string, home: number, parties: readonly string[]])[] = [
  ['NL-EMS', 3, ['NL-EMS', 'DE-EMS']],
  ['BE-EMS', 200, ['be-ems']],
  ['FR-EMS', 17, ['FR-EMS']],
  ['XX-NEW', 9, ['XX-NEW']],
];
/** LU-EMS has no partner and floors alone. */
export const RECEIVERS = ['NL-EMS', 'DE-EMS', 'BE-EMS', 'FR-EMS', 'LU-EMS'];
const USED = [0, 3, 17, 200, 255];
const PER_SHARD = 90;

/** The same for the same seed. */
function chances(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const instant = (ms: number): string => new Date(Date.UTC(2024, 4, 1) + ms).toISOString();
/** Its fields of JSON, and a text that looks like one of them. */
const deliveryData = (id: string) => JSON.stringify({ delivery: id, receiver: 'NL-EMS', reason: `"delivery":"${id}"` });
const nameOf = (shard: number, seq: number, dest: string) => `${shard === 0 ? '' : `${shard}.`}${seq}-${dest}`;

export function oldWorld(seed: number, count: 1 | 256 = 256): OldWorld {
  const chance = chances(seed);
  const world: OldWorld = { count, shards: [], events: [], rows: [], timers: [], deliveries: [], floors: [] };
  const used = count === 1 ? [0] : USED;
  for (const shard of used) fill(world, shard, chance);
  for (const [id, home, parties] of PARTNERS) {
    const roles = parties.map((party) => {
      const [country_code, party_id] = party.split('-');
      return { role: 'EMSP', country_code, party_id, business_details: { name: 'a\0b caf\ud83d' } };
    });
    // A row whose event is gone, or in a shard without events.
    const place = { shard: count === 1 ? 0 : home, seq: 1 + chance(20) };
    world.rows.push({
      kind: 'partners',
      owner: id,
      id,
      upd: instant(0),
      data: JSON.stringify({ id, roles }),
      ...place,
    });
  }
  if (count === 256) {
    for (const home of [3, 200]) {
      const reached = used.filter(() => chance(5) > 0).map((shard) => [shard, chance(PER_SHARD)] as const);
      const data = JSON.stringify(Object.fromEntries(reached));
      world.deliveries.push({ shard: home, dest: `#${home}`, seq: Number.MAX_SAFE_INTEGER, state: 'DELIVERED', data });
    }
  }
  return world;
}

function fill(world: OldWorld, shard: number, chance: (below: number) => number): void {
  const horizon = shard === 17 ? 0 : 20 + chance(20);
  const head = PER_SHARD + chance(10);
  world.shards.push({ id: shard, token: 5 + chance(50), owner: 'former/1', turn: chance(100), head, horizon });
  let now = chance(1_000);
  for (let seq = 1; seq <= head; seq += 1) {
    // The clock goes back now and then, by more than what others do meanwhile.
    now += chance(8) === 0 ? -chance(40_000) : chance(3_000);
    if (seq <= horizon && chance(4) > 0) continue;
    const isKept = seq <= horizon;
    const to = isKept ? [] : RECEIVERS.filter(() => chance(3) === 0);
    const known = [...world.events].filter((one) => one.to.length > 0);
    const about = chance(6) === 0 ? known[chance(known.length)] : undefined;
    // Of an event that is there, or of one that is gone.
    const id = about ? nameOf(about.shard, about.seq, about.to[0] ?? '') : nameOf(shard, 1 + chance(3), 'NL-EMS');
    const isDelivery = about !== undefined || chance(20) === 0;
    world.events.push({
      ...{ shard, seq, at: instant(now), to: isDelivery ? [] : to, idem: isKept ? '' : `${shard} ${seq}` },
      stream: isDelivery ? `delivery:${id}` : `sessions/NL-TNM/${chance(30)}`,
      type: isDelivery ? 'delivery.dead' : 'object.put',
      correlation_id: chance(3) === 0 ? `c ${chance(5)}` : null,
      data: isDelivery ? deliveryData(id) : JSON.stringify({ shard, seq }),
    });
    for (const dest of isDelivery ? [] : to) {
      const state = ['DELIVERED', 'DELIVERED', 'PENDING', 'DEAD', null][chance(5)];
      if (state) world.deliveries.push({ shard, dest, seq, state, data: JSON.stringify({ was: [shard, seq] }) });
    }
    if (chance(4) === 0) {
      const key = { kind: 'sessions', owner: 'NL-TNM', id: `${shard}/${seq}` };
      world.rows.push({ ...key, upd: instant(now), data: `{"at":${seq}}`, shard, seq: seq - (isKept ? chance(3) : 0) });
    }
  }
  for (const dest of RECEIVERS)
    if (chance(2) === 0) world.floors.push({ dest, shard, seq: 10 + chance(PER_SHARD - 10) });
  for (const key of ['everywhere', `at ${shard}`]) world.timers.push({ shard, key, at: instant(chance(100_000)) });
}

const HOUR = 13;

/** Makes the schema, as version 1 left it. */
export async function makeVersion1(server: PostgresServer, schema: string, world: OldWorld): Promise<void> {
  await server.query(`create schema ${schema}; set search_path = ${schema}; ${TABLES}
    insert into meta (version, shards) values (1, ${world.count})`);
  const insert = (table: string, records: readonly object[]) =>
    server.query(
      `insert into ${schema}.${table} select * from json_populate_recordset(null::${schema}.${table}, $1) on conflict do nothing`,
      [JSON.stringify(records)],
    );
  await server.query(`delete from ${schema}.shards where id = any ($1)`, [world.shards.map(({ id }) => id)]);
  await insert('shards', world.shards);
  await insert(
    'events',
    world.events.map((event) => ({ ...event, party: 'NL-TNM', body: `{${event.seq}}`, chars: 9, n: 1, touched: '[]' })),
  );
  const rows = world.rows.map((row) => ({ ...row, shelf: 'S', body: null, chars: 0 }));
  await insert('rows', rows);
  await server.query(`insert into ${schema}.listed (kind, shelf, hour, shard, n)
    select kind, shelf, left(upd, ${HOUR}), shard, count(*) from ${schema}.rows group by 1, 2, 3, 4`);
  for (const table of ['timers', 'deliveries', 'floors'] as const) await insert(table, world[table]);
}
