/**
 * Copies an embedded store into an empty PostgreSQL schema, so that an operator can move a hub to several nodes without
 * losing its log.
 *
 * MIGRATE-1  The log keeps its sequences. Partners and operators know them (the id of a delivery is
 *     `{sequence}-{receiver}`), and every reference to a sequence stays valid.
 * MIGRATE-2  The copy is one transaction. Before the commit it is read back and compared with the source, by counts and
 *     by a digest over the records: a copy that cannot be proven complete is rolled back. A copy whose commit no standby
 *     has confirmed is not reported as made.
 * MIGRATE-3  The records of the embedded store are not changed. The fencing token of the copy continues from the
 *     embedded store's.
 */
import { join } from 'node:path';
import type { Client } from 'pg';
import { closing } from '../src/kit/concurrency.ts';
import { systemClock } from '../src/kit/system-clock.ts';
import { type BackupManifest, type BackupOptions, StoreUnavailable } from './contract.ts';
import { FENCE_KEY, type FenceHead } from './keys.ts';
import { inspectIsolated } from './level/inspect-isolated.ts';
import { openDatabase } from './level/leveldb.ts';
import { readMarks } from './level/marks.ts';
import { acknowledged, Primary, wordsOf } from './postgres/connect.ts';
import { type PostgresAddress, parsePostgresUrl } from './postgres/options.ts';
import { insert, recordsIn, recordsOf, Tally } from './postgres/records.ts';
import { isEmpty, migrate } from './postgres/schema.ts';
import { counting } from './postgres/write-sql.ts';
import { headOf } from './records.ts';

/** `digest`: over all of these records; source and copy have the same. */
export interface Copied extends Omit<BackupManifest, 'format' | 'made_at' | 'records' | 'bytes' | 'sealed_for'> {
  readonly floors: number;
  /** Address of the copy, without the password. */
  readonly to: string;
}

/** Rejects and changes nothing when the store is in use or damaged, or the schema in use or not empty. */
export async function copyToPostgres(
  store: string,
  url: string,
  progress: NonNullable<BackupOptions['progress']> = () => {},
): Promise<Copied> {
  const address = parsePostgresUrl(url);
  const { head, horizon } = await soundStore(store, progress);
  const primary = new Primary(address, 'store copy');
  try {
    await primary.find();
    const client = await migrate(primary, address, { clock: systemClock, mayWait: () => false });
    await client.query('begin');
    await mustBeFree(client, address);
    const { tally, token } = await fill(client, store, progress);
    await client.query('update log set head = $1, horizon = $2, token = greatest(token, $3)', [head, horizon, token]);
    await client.query(`with ${counting('select kind, shelf, upd, 1 as n from rows', '0')} select`);
    const counts = { ...tally.counts };
    const digest = tally.digest();
    if ((await digestIn(client, progress)) !== digest)
      throw new Error('the copy differs from the store: nothing was copied');
    await acknowledged(client, () => client.query('commit')).catch((cause: unknown) => {
      throw new StoreUnavailable(
        `the commit of the copy was not confirmed (${wordsOf(cause)}): drop the schema ${address.schema} and copy again`,
        { cause },
      );
    });
    return {
      head,
      horizon,
      events: counts.e,
      rows: counts.o,
      deliveries: counts.p + counts.d,
      floors: counts.f,
      timers: counts.t,
      digest,
      to: address.shown,
    };
  } finally {
    primary.close();
  }
}

/** Report on a store that no process uses and whose every record is sound. Rejects for any other store. */
async function soundStore(store: string, progress: NonNullable<BackupOptions['progress']>) {
  if ((await readMarks(store)).isNew) throw new Error(`${store} holds no store`);
  const { report } = await inspectIsolated(store, (records) => progress('verifying', records));
  const wrong = [...report.faults, ...report.repairs, ...report.unread];
  if (wrong.length > 0) throw new Error(`cannot copy a damaged store: ${wrong.join('; ')}`);
  return report;
}

async function mustBeFree(client: Client, { schema }: PostgresAddress): Promise<void> {
  await client.query('lock table meta in access exclusive mode');
  if (!(await isEmpty(client))) throw new Error(`the schema ${schema} is not empty: a copy goes into a new one`);
  const { rows } = await client.query<{ name: string }>('select name from nodes where expires > clock_timestamp()');
  if (rows[0] !== undefined)
    throw new Error(`the schema ${schema} is in use by the hub ${rows[0].name}: stop it first`);
}

async function fill(client: Client, store: string, progress: NonNullable<BackupOptions['progress']>) {
  return closing(await openDatabase(join(store, 'db'), false), async (db) => {
    const tally = new Tally();
    for await (const entries of recordsOf(db)) {
      await insert(client, entries);
      tally.add(entries);
      progress('copying', tally.records);
    }
    const fence = await db.get(FENCE_KEY);
    const [token] = fence === undefined ? [0] : (headOf(fence) as FenceHead);
    return { tally, token };
  });
}

async function digestIn(client: Client, progress: NonNullable<BackupOptions['progress']>): Promise<string> {
  const tally = new Tally();
  for await (const entries of recordsIn(client)) {
    tally.add(entries);
    progress('verifying', tally.records);
  }
  return tally.digest();
}
