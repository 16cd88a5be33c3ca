/**
 * The tables of the PostgreSQL store, and the migrations that bring older schemas to the present version.
 *
 * SCHEMA-1  A migration and the change of the version number are one transaction: a crash leaves a complete version.
 *     Only the function is changed before, to one that suits both versions, so that no write which waits for the
 *     migration fails behind it.
 * SCHEMA-2  A schema made by a newer hub is not touched, nor is one of version 1 or 2 with live nodes: those write by
 *     statements of their own, which do not know the new tables. Nodes of versions 3 to 7 keep running beside new
 *     ones, because they write through the function that a migration replaces.
 * SCHEMA-3  Every text is ordered by code point, which is the order of its UTF-8 bytes: COLLATE "C".
 * SCHEMA-4  PostgreSQL cannot store U+0000 in a text. Only bodies may contain it: it is stored as U+0001 `0`, and
 *     U+0001 itself as U+0001 `1`. JSON is stored as text, unchanged, where U+0000 is an escape sequence.
 * SCHEMA-5  The keys of what changes often end with what grows with each change, so that an index has the newest
 *     version first (`write-sql.ts`).
 */
import type { Client } from 'pg';
import { type Clock, sleep } from '../../src/kit/clock.ts';
import { StoreUnavailable } from '../contract.ts';
import { beginLocking, destroy, LOCKED, type Primary } from './connect.ts';
import { mergingShards } from './one-log.ts';
import type { PostgresAddress } from './options.ts';
import { mustBeSafe } from './settings.ts';
import { APPEND, appendMeanwhile, counting, HOUR, totals } from './write-sql.ts';

const RACES_MAX = 5;
const AGAIN_MS = 100;
/** Longer than PostgreSQL's `deadlock_timeout`, after which an autovacuum gives way. */
const LOCK_MS = 2000;
/**
 * SQL states to retry: two nodes create the schema at once, and either result is fine; or a node of an older version is
 * still writing, which ends.
 */
const RACES: ReadonlySet<unknown> = new Set(['23505', '42P07', '40P01', '40001']);

/** For lists of many shelves. */
const BY_UPD = 'create index rows_by_upd on rows (kind, upd, owner, id) include (shelf) where shelf is not null;';
/** How many listed rows have an upd whose first `span` characters are `start`; and sums of these (`write-sql.ts`). */
const COUNTS = `create table counts (
    kind text collate "C" not null, shelf text collate "C" not null, span int not null, start text collate "C" not null, n int8 not null,
    latest int8 not null, primary key (kind, shelf, span, start, latest));`;
const TABLES = `
  -- The one row: who may write, and where the log ends and begins.
  create table log (
    one boolean not null default true check (one), token int8 not null default 0, owner text collate "C",
    turn int8 not null default 0, head int8 not null default 0, horizon int8 not null default 0,
    primary key (token, head, turn));
  insert into log default values;

  create table events (
    seq int8 primary key, stream text collate "C" not null, type text collate "C" not null,
    at text collate "C" not null, party text collate "C", correlation_id text collate "C", "to" text[] not null,
    data text not null, body text, chars int not null,
    -- Of the commit that it ends: its key, its number of events, the rows that it wrote. Of a kept event: '', 1, its rows.
    idem text collate "C", n int, touched text);
  create index events_stream on events (stream, seq);
  create index events_correlation on events (correlation_id, seq) where correlation_id is not null;
  create unique index events_idem on events (idem) where idem <> '';

  create table rows (
    kind text collate "C" not null, owner text collate "C" not null, id text collate "C" not null, shelf text collate "C",
    upd text collate "C" not null, data text not null, body text, chars int not null, seq int8 not null,
    primary key (kind, owner, id, seq));
  create index rows_listed on rows (kind, shelf, upd, owner, id) where shelf is not null;
  ${BY_UPD}
  ${COUNTS}

  create table timers (key text collate "C" primary key, at text collate "C" not null);

  create table deliveries (
    dest text collate "C" not null, seq int8 not null, state text not null, data text not null,
    primary key (dest, seq)) with (fillfactor = 80);
  create index deliveries_open on deliveries (dest, seq) where state <> 'DELIVERED';
  -- One row for each dest.
  create table floors (dest text collate "C" not null, seq int8 not null, primary key (dest, seq));
  `;

const NODES = `
  create table nodes (
    id text collate "C" primary key, name text not null, url text, expires timestamptz not null,
    -- It follows what others write. Nodes of versions that do not know of it do not.
    follows boolean not null default false,
    -- How long its way to the database takes, ms; null while unknown.
    trip_ms int);
  `;
const FOLLOWS = 'alter table nodes add column follows boolean not null default false;';
const TRIPS = 'alter table nodes add column trip_ms int;';
/**
 * Writes wait for the lock of the log, and with it for what a migration builds. Leases are renewed, since they only read the
 * log, and reads go on: tables are locked for them when that is built. That they can be is seen before.
 */
const whileWritesWait = (...tables: string[]) => `
  lock table log in exclusive mode;
  savepoint before;
  lock table ${tables} in access exclusive mode;
  rollback to savepoint before;
  `;
const NEWEST_FIRST = `
  ${whileWritesWait('log', 'rows', 'floors')}
  create unique index rows_newest on rows (kind, owner, id, seq);
  alter table rows drop constraint rows_pkey, add constraint rows_pkey primary key using index rows_newest;
  alter table floors drop constraint floors_pkey, add primary key (dest, seq), reset (fillfactor);
  alter table log drop constraint log_pkey, add primary key (token, head, turn), reset (fillfactor);
  `;
/**
 * Nodes of versions 3 to 5 go on reading the counts of hours. What their trims, and erasures of version 5, would count is refused: it
 * would change no others. It comes again from a node of this version. Erasures of versions 3 and 4 count nothing.
 */
const COUNTED = `
  ${whileWritesWait('listed')} ${BY_UPD} ${COUNTS}
  with ${counting('select kind, shelf, hour as upd, n from listed', '0')} select;
  drop table listed;
  create view listed as select kind, shelf, start as hour, sum(n)::int8 as n from counts where span = ${HOUR} group by 1, 2, 3;
  `;
/** What trims and erasures of version 6 would count is refused, too. */
const COUNTS_NEWEST_FIRST = `
  ${whileWritesWait('counts')}
  alter table counts add column latest int8 not null default 0, drop constraint counts_pkey,
    add primary key (kind, shelf, span, start, latest), reset (fillfactor);
  alter table counts alter column latest drop default;
  ${totals('latest')}`;
/**
 * And of version 7, by the new name of the column: its nodes go on reading the counts, which names no other. Lists wait for the rename, so
 * it comes last.
 */
const TOTALLED = `
  ${whileWritesWait('counts')}
  ${totals('seq')}
  alter table counts rename column seq to latest;
  `;

const NEWEST = 8;
/**
 * Statements that bring a schema to a newer version, and to which, indexed by its present version; 0 is an empty schema. One transaction
 * exchanges `rows` and another `listed`: a read of a list may lock either of them first.
 */
const MIGRATIONS: readonly (readonly [statements: string, to: number])[] = [
  [NODES + TABLES + APPEND, NEWEST],
  [mergingShards(TABLES) + APPEND + FOLLOWS + TRIPS, NEWEST],
  [NEWEST_FIRST + appendMeanwhile(5) + FOLLOWS + TRIPS, 5],
  [NEWEST_FIRST + FOLLOWS + TRIPS, 5],
  [NEWEST_FIRST + TRIPS, 5],
  [COUNTED + APPEND, NEWEST],
  [COUNTS_NEWEST_FIRST + APPEND, NEWEST],
  [TOTALLED + APPEND, NEWEST],
];

/** One node at a time looks and migrates. The row is locked, not the table, which pg_dump would keep from it. */
const VERSION = 'select version from meta for update';

/** Nodes of an older version still renew their leases. [SCHEMA-2] */
class OlderNodes extends StoreUnavailable {}

export interface Waiting {
  readonly clock: Clock;
  /** Asked whenever a node of an older version, or a transaction, is in the way: a killed node appears alive until its lease expires. */
  readonly mayWait: () => boolean;
}

const inUse = (schema: string): string =>
  `the schema ${schema} cannot be brought to this version while a transaction uses its tables, as that of pg_dump or of a backup does`;

/** Creates or migrates the schema of a database with safe settings, and returns the session that did. [SCHEMA-1, SCHEMA-2] */
export async function migrate(
  primary: Primary,
  { schema, single }: PostgresAddress,
  { clock, mayWait }: Waiting,
): Promise<Client> {
  // Whether the function that writes suits both versions. Calls of it as it was come to the lock of the log meanwhile, which the
  // migration waits for.
  let isAdapted = false;
  for (let races = 0; ; ) {
    const client = await primary.connect();
    try {
      await mustBeSafe(client, single);
      await beginLocking(client);
      const version = await versionOf(client, schema);
      const isAdapting: boolean = version >= 3 && version < NEWEST && !isAdapted;
      if (isAdapting) await client.query(appendMeanwhile(version));
      const isNewest = !isAdapting && (await migrateFrom(version, client, schema));
      await client.query('commit');
      if (isNewest) return client;
      isAdapted ||= isAdapting;
      destroy(client);
    } catch (error) {
      destroy(client);
      const code = error instanceof Error && 'code' in error ? error.code : null;
      const isWaited = (error instanceof OlderNodes || code === LOCKED) && mayWait();
      const isRace = RACES.has(code) && ++races < RACES_MAX;
      if (!isWaited && !isRace) throw code === LOCKED ? new StoreUnavailable(inUse(schema), { cause: error }) : error;
    }
    await sleep(clock, AGAIN_MS);
  }
}

/** Creates the schema where there is none, and looks at its version. */
async function versionOf(client: Client, schema: string): Promise<number> {
  const present = await client.query('select 1 from pg_namespace where nspname = $1', [schema]);
  // Another node may have created it meanwhile.
  if (present.rows.length === 0) await client.query(`create schema if not exists "${schema}"`);
  await client.query(
    'create table if not exists meta (one boolean primary key default true check (one), version int not null, ' +
      'flushed int8 not null default 0)',
  );
  await client.query('insert into meta (version) select 0 where not exists (select from meta)');
  const { rows } = await client.query<{ version: number }>(VERSION);
  const [{ version }] = rows as [{ version: number }];
  if (version <= NEWEST) return version;
  throw new StoreUnavailable(
    `the schema ${schema} has version ${version}, made by a newer ocpi-hub; this one knows ${NEWEST}`,
  );
}

/** Whether it has the newest version then. */
async function migrateFrom(version: number, client: Client, schema: string): Promise<boolean> {
  const migration = MIGRATIONS[version];
  if (migration === undefined) return true;
  const [statements, to] = migration;
  if (version === 1 || version === 2) await mustBeAlone(client, schema);
  // While a migration waits for a table everybody else waits behind it.
  await client.query(`set local lock_timeout = ${LOCK_MS}`);
  // It reads whole tables: through an index, or sorted where it is to be summed, that takes six times as long.
  await client.query("set local enable_seqscan = on; set local work_mem = '64MB'");
  await client.query(statements);
  await client.query('update meta set version = $1', [to]);
  return to === NEWEST;
}

async function mustBeAlone(client: Client, schema: string): Promise<void> {
  const alive = 'select name, url from nodes where expires > clock_timestamp()';
  const { rows } = await client.query<{ name: string; url: string | null }>(alive);
  if (rows.length === 0) return;
  const names = rows.map(({ name, url }) => (url === null ? name : `${name} at ${url}`)).join(', ');
  throw new OlderNodes(`the schema ${schema} is used by nodes of an older ocpi-hub: stop ${names} first`);
}

/** Whether nothing was ever written to the schema. */
export async function isEmpty(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ used: boolean }>(
    `select exists (select from events) or exists (select from rows) or exists (select from deliveries)
       or exists (select from floors) or exists (select from timers) or exists (select from log where head > 0) as used`,
  );
  return rows[0]?.used === false;
}

const NUL = '\0';
const ESCAPE = '\x01';

/** SCHEMA-4: a body as the tables have it. `chars`: how long it is as received. */
export function bodyColumns(body: string | null): { readonly body: string | null; readonly chars: number } {
  if (body === null) return { body, chars: 0 };
  const isPlain = !body.includes(NUL) && !body.includes(ESCAPE);
  const text = isPlain ? body : body.replaceAll(ESCAPE, `${ESCAPE}1`).replaceAll(NUL, `${ESCAPE}0`);
  return { body: text, chars: body.length };
}

export function bodyOf(text: string | null): string | null {
  if (text === null || !text.includes(ESCAPE)) return text;
  const [first = '', ...others] = text.split(ESCAPE);
  return first + others.map((part) => (part.startsWith('0') ? NUL : ESCAPE) + part.slice(1)).join('');
}
