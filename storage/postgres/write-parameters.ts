/**
 * Prepares jobs and turns a group of them into the parameters of one call of the database function that writes it.
 *
 * WRITE-PARAMETERS-1  Fence, sequence, events, rows, timers, deliveries and floors are one call, hence one commit: all
 *     or none.
 * WRITE-PARAMETERS-2  A write first locks the row of the log, until its commit: commit order is sequence order. A
 *     change of the token waits for that lock; a later write under the old token finds the new one and writes nothing
 *     (CONTRACT-4). Everything else that a write reads, it reads after taking the lock, in a snapshot that includes all
 *     earlier commits (`write-sql.ts`).
 * WRITE-PARAMETERS-3  Each statement has a greater turn than all earlier ones under the same token. A statement that
 *     the network delivers late finds its turn passed and writes nothing. A statement that WRITE-PARAMETERS-7 refuses
 *     does not advance the turn: when it arrives late, the same check refuses it. A statement without a fence has no
 *     turn: when it arrives late, its idempotency key refuses it (WRITE-PARAMETERS-4), or WRITE-PARAMETERS-7 does,
 *     unless every row that it was decided on is unchanged.
 * WRITE-PARAMETERS-4  The idempotency key of a commit is unique: a second commit with it fails the statement, and the
 *     outcome is read from the log (CONTRACT-3).
 * WRITE-PARAMETERS-5  The counts of lists change with the rows, under the same lock.
 * WRITE-PARAMETERS-6  Every check that needs no database is made before a job joins a group. When the database refuses
 *     the content of a group, its members are written one by one to find the one at fault.
 * WRITE-PARAMETERS-7  Optimistic concurrency: the rows that the members of a group were decided on are compared before
 *     anything of the group is written (CONTRACT-11). No member was decided on a row that another member writes.
 */
import type { Commit, DeliveryRow, Fence, Floor, NewEvent, Put, Row, Seen, Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { bodyColumns } from './schema.ts';

/** `data`: JSON text. `chars`: how long the body is as received. */
interface Texts {
  readonly data: string;
  readonly chars: number;
}

type EventRecord = Omit<NewEvent, 'correlationId' | 'data'> & Texts & { readonly correlation: string | null };
type PutRecord = Omit<Row, 'data' | 'seq'> & Texts & { readonly gone: boolean };

export interface PreparedCommit {
  readonly idem: string;
  readonly events: readonly EventRecord[];
  /** By `keys.rowKey`; the last put of each row. */
  readonly puts: ReadonlyMap<string, PutRecord>;
  readonly due: readonly { readonly key: string; readonly at: string | null }[];
  readonly touched: string;
  readonly seen: readonly keys.NamedSeen[];
  readonly size: number;
}

export interface PreparedSettle {
  readonly rows: readonly { readonly row: DeliveryRow; readonly data: string }[];
  readonly floors: readonly Floor[];
  readonly size: number;
}

/** Content of one job of a group. */
export interface Work {
  readonly fence: Fence | null;
  readonly commit: PreparedCommit | null;
  readonly settle: PreparedSettle | null;
}

const json = (value: unknown): string => JSON.stringify(value) ?? 'null';

/** WRITE-PARAMETERS-6: throws a TypeError. */
export function prepareCommit(commit: Commit): PreparedCommit {
  if (commit.events.length === 0) throw new TypeError('a commit holds at least one event');
  keys.checkUnfenced(commit);
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
  return {
    idem: commit.idem,
    events,
    puts: new Map(puts.map((put) => [keys.rowKey(put), put])),
    due,
    touched,
    seen: keys.named(commit.seen ?? []),
    size,
  };
}

function prepareEvent(event: NewEvent): EventRecord {
  const { stream, type, at, party, correlationId: correlation, to, body } = event;
  for (const [what, name] of Object.entries({ stream, type, at, party, 'correlation id': correlation })) {
    if (name !== null) keys.checkName(what, name);
  }
  for (const dest of to) keys.checkName('dest', dest);
  if (body !== null) keys.checkText('the body of an event', body);
  return { stream, type, at, party, correlation, to, data: json(event.data), ...bodyColumns(body) };
}

function preparePut(put: Put): PutRecord {
  keys.checkRow(put);
  const { kind, owner, id } = put;
  if (put.gone) return { kind, owner, id, gone: true, shelf: null, upd: '', data: '', body: null, chars: 0 };
  const { shelf, upd, body } = put;
  keys.checkName('upd', upd);
  if (shelf !== null) keys.checkName('shelf', shelf);
  if (body !== null) keys.checkText('the body of a row', body);
  return { kind, owner, id, gone: false, shelf, upd, data: json(put.data), ...bodyColumns(body) };
}

export function prepareSettle(rows: readonly DeliveryRow[], floors: readonly Floor[]): PreparedSettle {
  for (const { dest } of [...rows, ...floors]) keys.checkName('dest', dest);
  const prepared = rows.map((row) => ({ row, data: json(row.data) }));
  return { rows: prepared, floors, size: prepared.reduce((sum, { data }) => sum + data.length, floors.length + 1) };
}

/** Returns no row when the fence was not held, otherwise one `Moved`. */
export const WRITE = 'select head, stale from append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)';

export interface Moved {
  /** Head of the log before the write, or the present head when nothing was written. */
  readonly head: Seq;
  /** JSON array of the `Seen` that no longer hold; null when all hold, which alone means that the write was made. */
  readonly stale: string | null;
}

/** Parameters of `WRITE` for works under one fence. */
export function parametersOf(works: readonly Work[], turn: number): (string | number | null)[] {
  const events: object[] = [];
  const puts = new Map<string, PutRecord & { pos: number }>();
  const due = new Map<string, { key: string; at: string | null }>();
  const rows = new Map<string, object>();
  const floors = new Map<string, Floor>();
  const seen = new Map<string, Seen>();
  for (const { commit, settle } of works) {
    if (commit !== null) {
      const n = commit.events.length;
      for (const [i, event] of commit.events.entries()) {
        const ends = i === n - 1 ? { idem: commit.idem, n, touched: commit.touched } : {};
        events.push({ pos: events.length + 1, ...event, ...ends });
      }
      for (const [name, put] of commit.puts) puts.set(name, { ...put, pos: events.length });
      for (const each of commit.due) due.set(each.key, each);
      for (const { name, kind, owner, id, seq } of commit.seen) seen.set(`${name} ${seq}`, { kind, owner, id, seq });
    }
    for (const { row, data } of settle?.rows ?? []) {
      const { dest, seq, state } = row;
      rows.set(keys.openKey(dest, seq), { dest, seq, state, data });
    }
    for (const floor of settle?.floors ?? []) floors.set(floor.dest, floor);
  }
  const { token = null, node = null } = works[0]?.fence ?? {};
  const [allPuts, allDue] = [[...puts.values()], [...due.values()]];
  const records = [
    ...[events, allPuts.filter(({ gone }) => !gone), allPuts.filter(({ gone }) => gone)],
    ...[allDue.filter(({ at }) => at !== null), allDue.filter(({ at }) => at === null)],
    ...[[...rows.values()], [...floors.values()], [...seen.values()]],
  ];
  return [token, node, events.length, turn, ...records.map((each) => JSON.stringify(each))];
}

/**
 * Last sequences of those commits with these keys that are in the log. The unique index on keys omits the empty one.
 */
export const RECALL = `select idem, seq as last, n from events where idem = any ($1::text[]) and idem <> ''`;

export interface Recalled {
  readonly idem: string;
  readonly last: Seq;
  readonly n: number;
}

/**
 * A commit that waits for its standby, which makes everything visible before it as durable as itself. Needed because a
 * commit found in the log after its connection was lost may exist on this server only.
 */
export const CONFIRM = 'update meta set flushed = flushed + 1';
