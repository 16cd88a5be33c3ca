/**
 * Trimming of the PostgreSQL store: one transaction under the lock on the log's row. Its statements see what earlier
 * writes left, so rows written by later events stay. A crash leaves the old horizon or the new one (CONTRACT-9).
 */
import type { Client } from 'pg';
import type { Clock } from '../../src/kit/clock.ts';
import type { Kept, Seq, Trim } from '../contract.ts';
import { Fenced } from '../contract.ts';
import * as keys from '../keys.ts';
import { acknowledged, ask, beginLocking } from './connect.ts';
import { bodyColumns } from './schema.ts';
import { DESTS, UNCOUNTED } from './write-sql.ts';

const LOCK = 'select head, horizon from log where token = $1 and owner = $2 for update';
const GO = 'delete from events where seq > $1 and seq <= $2 and seq <> all ($3::int8[])';
const DROP = 'delete from events where seq = any ($1::int8[]) and seq <= $2 returning seq';
const KEEP = `update events e set type = k.type, at = k.at, party = k.party, correlation_id = k.correlation, "to" = k."to",
    data = k.data, body = k.body, chars = k.chars, idem = '', n = 1, touched = k.touched
  from json_to_recordset($1) k(seq int8, type text, at text, party text, correlation text, "to" text[], data text, body text, chars int,
    touched text)
  where e.seq = k.seq`;
const FORGET = `with ${DESTS} delete from deliveries d using dests where d.dest = dests.dest and d.seq <= $1`;
const ROWS = `with gone as (
    delete from rows r using json_to_recordset($2) g(kind text, owner text, id text)
      where r.kind = g.kind and r.owner = g.owner and r.id = g.id and r.seq <= $1
      returning r.kind, r.shelf, r.upd),
  ${UNCOUNTED}`;
/** Reads all counts, under the lock of the log. */
const TIDY = 'delete from counts where n = 0';
/** A count of zero does no harm: so many are kept at most as become zero in this time. */
const TIDY_MS = 24 * 3_600_000;
const MOVE = 'update log set horizon = $1';

/** Makes every check that needs no database; throws. */
export function prepareTrim({ keeps, rows }: Trim): string {
  for (const row of rows) keys.checkRow(row);
  return JSON.stringify(keeps.map(keptRecord));
}

function keptRecord({ seq, type, at, party, correlationId: correlation, to, data, body, rows }: Kept): object {
  if (body !== null) keys.checkText('the body of an event', body);
  for (const name of [type, at, party, correlation, ...to])
    if (name !== null) keys.checkName('a field of an event', name);
  const touched = JSON.stringify(rows.map(({ kind, owner, id }) => [kind, owner, id, 0]));
  const fields = { seq, type, at, party, correlation, to, data: JSON.stringify(data) ?? 'null', touched };
  return { ...fields, ...bodyColumns(body) };
}

/** Trims one after the other, of which one a day tidies. */
export function trimsOf(clock: Clock): (client: Client, trim: Trim, kept: string) => Promise<void> {
  let tidiedAt = Number.NEGATIVE_INFINITY;
  return async (client, trim, kept) => {
    const now = clock.monotonic();
    const isTidying = now - tidiedAt >= TIDY_MS;
    await runTrim(client, trim, kept, isTidying);
    if (isTidying) tidiedAt = now;
  };
}

/**
 * Requires a session of its own. Rejects with Fenced or a RangeError and changes nothing; rejects with StoreUnavailable
 * when the wait for a standby was cancelled, and then this server may have trimmed.
 */
async function runTrim(client: Client, trim: Trim, kept: string, isTidying: boolean): Promise<void> {
  const { fence, upTo, events, keeps, drops, rows } = trim;
  const { token, node } = fence;
  await beginLocking(client);
  try {
    const [log] = await ask<{ head: Seq; horizon: Seq }>(client, 'lock', LOCK, [token, node]);
    if (log === undefined) throw new Fenced(`the log is not held by ${node} with token ${token} any more`);
    if (!Number.isSafeInteger(upTo) || upTo <= log.horizon || upTo > log.head) {
      throw new RangeError(`cannot trim up to ${upTo}: the log contains ${log.horizon + 1} to ${log.head}`);
    }
    const { horizon } = log;
    if (events.length !== upTo - horizon || events.some(({ seq }, i) => seq !== horizon + 1 + i)) {
      throw new RangeError(`cannot trim other events than ${horizon + 1} to ${upTo}`);
    }
    for (const { seq, stream } of keeps) {
      if (events[seq - horizon - 1]?.stream !== stream)
        throw new RangeError(`cannot keep ${stream} at ${seq}: that stream has no event there`);
    }
    const dropped = await ask(client, 'trim-drop', DROP, [drops.map(({ seq }) => seq), horizon]);
    if (dropped.length < drops.length) throw new RangeError('only what an earlier trim kept can be dropped');
    const kepts = keeps.map(({ seq }) => seq);
    await ask(client, 'trim-go', GO, [horizon, upTo, kepts]);
    await ask(client, 'trim-keep', KEEP, [kept]);
    await ask(client, 'trim-forget', FORGET, [upTo]);
    await ask(client, 'trim-rows', ROWS, [upTo, JSON.stringify(rows)]);
    if (isTidying) await client.query(TIDY);
    await ask(client, 'trim-move', MOVE, [upTo]);
    await acknowledged(client, () => client.query('commit'));
  } catch (error) {
    // Without a connection there is nothing to roll back.
    await client.query('rollback').catch(() => {});
    throw error;
  }
}
