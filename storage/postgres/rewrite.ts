/**
 * Rewriting of stored records by the PostgreSQL store, for the erasure of personal data: one transaction under the lock
 * on the log's row, so that no write of another node comes between reading a record and replacing it (CONTRACT-12).
 */
import type { Client } from 'pg';
import type { Rewrite, Seq } from '../contract.ts';
import { Fenced } from '../contract.ts';
import * as keys from '../keys.ts';
import type { Touched } from '../level/event-log.ts';
import { acknowledged, ask, beginLocking } from './connect.ts';
import type { DeliveryColumns, EventColumns, RowColumns } from './reads.ts';
import { bodyColumns, bodyOf } from './schema.ts';
import { DESTS, UNCOUNTED } from './write-sql.ts';

type EventTexts = Pick<EventColumns, 'seq' | 'stream' | 'correlation_id' | 'data' | 'body' | 'touched'>;
type RowTexts = Pick<RowColumns, 'kind' | 'owner' | 'id' | 'data' | 'body'>;
type DeliveryTexts = Pick<DeliveryColumns, 'dest' | 'seq' | 'data'>;

const LOCK = 'select 1 from log where token = $1 and owner = $2 for update';
const EVENTS = `select seq, stream, correlation_id, data, body, touched from events where seq = any ($1::int8[])`;
const PUT_EVENTS = `update events e
  set stream = k.stream, correlation_id = k.correlation, data = k.data, body = k.body, chars = k.chars, touched = k.touched
  from json_to_recordset($1) k(seq int8, stream text, correlation text, data text, body text, chars int, touched text)
  where e.seq = k.seq`;
const HEADS = 'select seq, touched from events where seq = any ($1::int8[]) and touched is not null';
const PUT_HEADS = `update events e set touched = k.touched
  from json_to_recordset($1) k(seq int8, touched text) where e.seq = k.seq`;
/** A look-up for each receiver: no index begins with the sequence. */
export const DELIVERIES = `with ${DESTS} select d.* from dests cross join lateral (
  select dest, seq, data from deliveries where dest = dests.dest and seq = any ($1::int8[]) offset 0) d`;
const PUT_DELIVERIES = `update deliveries d set data = k.data
  from json_to_recordset($1) k(dest text, seq int8, data text) where d.dest = k.dest and d.seq = k.seq`;
const ROWS = `select r.kind, r.owner, r.id, r.data, r.body from rows r
  join json_to_recordset($1) k(kind text, owner text, id text) on k.kind = r.kind and k.owner = r.owner and k.id = r.id`;
const PUT_ROWS = `update rows r
  set owner = k."newOwner", id = k."newId", data = k.data, body = k.body, chars = k.chars
  from json_to_recordset($1) k(kind text, owner text, id text, "newOwner" text, "newId" text, data text, body text, chars int)
  where r.kind = k.kind and r.owner = k.owner and r.id = k.id`;

/** What is already where a row goes: that row takes its place. */
const REPLACED = `with gone as (
    delete from rows r using json_to_recordset($1) k(kind text, owner text, id text, "newOwner" text, "newId" text)
      where r.kind = k.kind and r.owner = k."newOwner" and r.id = k."newId" and (k.owner, k.id) <> (k."newOwner", k."newId")
      returning r.kind, r.shelf, r.upd),
  ${UNCOUNTED}`;

function keysIn(touched: string, key: Rewrite['key']): string {
  const after = (JSON.parse(touched) as Touched[]).map(([kind, owner, id, gone]): Touched => {
    const to = key({ kind, owner, id });
    return [to.kind, to.owner, to.id, gone];
  });
  return JSON.stringify(after);
}

/** Requires a session of its own. Rejects like `Store.rewrite`. */
export async function runRewrite(client: Client, { fence, events, heads, rows, key, text }: Rewrite): Promise<void> {
  for (const row of rows) keys.checkRow(row);
  await beginLocking(client);
  try {
    const held = await ask(client, 'rewrite-lock', LOCK, [fence.token, fence.node]);
    if (held.length === 0) throw new Fenced(`the log is not held by ${fence.node} with token ${fence.token} any more`);
    const named = (given: string): string => (JSON.parse(text(JSON.stringify([given]))) as [string])[0];
    const replaced = (body: string | null) => {
      const before = bodyOf(body);
      return bodyColumns(before === null ? null : text(before));
    };
    const eventTexts = await ask<EventTexts>(client, 'rewrite-events', EVENTS, [events]);
    const newEvents = eventTexts.map(({ seq, stream, correlation_id, data, body, touched }) => ({
      seq,
      stream: named(stream),
      correlation: correlation_id === null ? null : named(correlation_id),
      data: text(data),
      touched: touched && keysIn(touched, key),
      ...replaced(body),
    }));
    await ask(client, 'rewrite-put-events', PUT_EVENTS, [JSON.stringify(newEvents)]);
    const headTexts = await ask<{ seq: Seq; touched: string }>(client, 'rewrite-heads', HEADS, [heads]);
    const newHeads = headTexts.map(({ seq, touched }) => ({ seq, touched: keysIn(touched, key) }));
    await ask(client, 'rewrite-put-heads', PUT_HEADS, [JSON.stringify(newHeads)]);
    const remembered = await ask<DeliveryTexts>(client, 'rewrite-deliveries', DELIVERIES, [events]);
    const deliveries = remembered.map((delivery) => ({ ...delivery, data: text(delivery.data) }));
    await ask(client, 'rewrite-put-deliveries', PUT_DELIVERIES, [JSON.stringify(deliveries)]);
    const wanted = JSON.stringify(rows.map(({ kind, owner, id }) => ({ kind, owner, id })));
    const found = await ask<RowTexts>(client, 'rewrite-rows', ROWS, [wanted]);
    const newRows = found.map(({ kind, owner, id, data, body }) => {
      const to = key({ kind, owner, id });
      return { kind, owner, id, newOwner: to.owner, newId: to.id, data: text(data), ...replaced(body) };
    });
    await ask(client, 'rewrite-replaced', REPLACED, [JSON.stringify(newRows)]);
    await ask(client, 'rewrite-put-rows', PUT_ROWS, [JSON.stringify(newRows)]);
    await acknowledged(client, () => client.query('commit'));
  } catch (error) {
    // Without a connection there is nothing to roll back.
    await client.query('rollback').catch(() => {});
    throw error;
  }
}
