/**
 * Backs up a PostgreSQL store in the format of the embedded store: from one snapshot, verified like every backup, and
 * restorable into a data directory or copied into a database.
 */
import type { Client } from 'pg';
import { closing } from '../../src/kit/concurrency.ts';
import type { BackupManifest, BackupOptions, Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { makeBackup } from '../level/backup.ts';
import type { Sealing } from '../level/backup-keys.ts';
import { type EventHead, stageIndexes } from '../level/event-log.ts';
import { type Batch, chunks, type Database, openDatabase } from '../level/leveldb.ts';
import { encodeHorizon, SUM_MODULUS } from '../level/trim-point.ts';
import { encode, headOf } from '../records.ts';
import { digestOf, type Entry, recordsIn, Tally } from './records.ts';

interface Moment {
  readonly token: number;
  readonly horizon: Seq;
  readonly kept: number;
  readonly sum: number;
  readonly bytes: number;
}

const MOMENT = `select l.token, l.horizon,
    (select count(*) from events e where e.seq <= l.horizon) as kept,
    (select coalesce(sum(e.seq) % ${SUM_MODULUS}, 0)::int8 from events e where e.seq <= l.horizon) as sum,
    (select sum(pg_total_relation_size(c.oid))::int8 from pg_class c
      where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r') as bytes
  from log l`;

/** Requires a session of its own. Rejects like `Store.backup`. */
export async function writePostgresBackup(
  client: Client,
  directory: string,
  { sealing, ...options }: BackupOptions & { readonly sealing: Sealing | null },
): Promise<BackupManifest> {
  await client.query('begin transaction isolation level repeatable read, read only');
  const { rows } = await client.query<Moment>(MOMENT);
  const [moment] = rows as [Moment];
  const { token, bytes } = moment;
  const copy = (target: string, paced: BackupOptions & { rest: () => Promise<void> }) =>
    copyRecords(client, moment, target, paced);
  const plan = { directory, token, bytes, point: () => {}, isRunning: true, clean: true, sealing, copy };
  const manifest = await makeBackup(plan, options);
  await client.query('commit');
  return manifest;
}

async function copyRecords(
  client: Client,
  { token, horizon, kept, sum }: Moment,
  target: string,
  { progress, signal, rest }: BackupOptions & { rest: () => Promise<void> },
): Promise<string> {
  return closing(await openDatabase(target, true), async (db) => {
    const tally = new Tally();
    for await (const entries of recordsIn(client)) {
      signal?.throwIfAborted();
      const batch = db.batch();
      for (const entry of entries) stageEntry(batch, entry);
      await batch.write();
      tally.add(entries);
      progress?.('copying', tally.records);
      await rest();
    }
    const batch = db.batch().put(keys.FENCE_KEY, encode(keys.FENCE_KEY, JSON.stringify([token])));
    if (horizon > 0) batch.put(keys.HORIZON_KEY, encodeHorizon({ seq: horizon, kept, sum }));
    await batch.write();
    const { everything, ours } = await digestsOf(db);
    if (ours !== tally.digest()) throw new Error('the backup does not hold what the database holds');
    return everything;
  });
}

function stageEntry(batch: Batch, [key, value]: Entry): void {
  batch.put(key, value);
  if (!key.startsWith('e/')) return;
  const [stream, , , , correlationId] = headOf(value) as EventHead;
  stageIndexes(batch, stream, correlationId, keys.seqOf(key));
}

/** `everything`: over all records in key order. `ours`: over those from the tables, in the order of `recordsIn`. */
async function digestsOf(db: Database): Promise<{ everything: string; ours: string }> {
  const everything = new Tally();
  for await (const chunk of chunks(db, keys.EVERYTHING)) everything.add(chunk);
  return { everything: everything.digest(), ours: await digestOf(db) };
}
