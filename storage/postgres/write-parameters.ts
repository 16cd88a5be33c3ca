/**
 * What waits to be written, and the one call of the database that writes it.
 *
 * WRITE-PARAMETERS-1  Fence, sequence, events, rows, timers, deliveries and floors are one call, so one commit: all or none.
 * WRITE-PARAMETERS-2  A write locks the row of the log first, until its commit: commit order is sequence order. A change of the token waits for that lock;
 *     a write behind it finds the new token and writes nothing (CONTRACT-4). What else it reads is read behind that lock, in a snapshot that has
 *     all that was committed before (`write-sql.ts`).
 * WRITE-PARAMETERS-3  Each statement has a greater turn than all before it under the same token. One that a network held back and delivers late
 *     finds its turn passed and writes nothing. One that was refused by WRITE-PARAMETERS-7 leaves the turn as it was: late, it is refused by the same.
 *     One without a fence has no turn. Late, it is refused by its key (WRITE-PARAMETERS-4), or by WRITE-PARAMETERS-7 unless all that it was decided on is as it was.
 * WRITE-PARAMETERS-4  The key of a commit is unique: a second one fails the statement, and its outcome is read from the log (CONTRACT-3).
 * WRITE-PARAMETERS-5  The counts of lists change with the rows, and under the same lock.
 * WRITE-PARAMETERS-6  What can be refused is refused before it waits with others. What the database alone can refuse is found by writing the
 *     members of a group one by one.
 * WRITE-PARAMETERS-7  What the members of a group were decided on is compared before anything of the group is written (CONTRACT-11). None was decided on a row
 *     that another one of the same group writes.
 */
import type { Commit, DeliveryRow, Fence, Floor, NewEvent, Put, Seen, Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { toText } from './schema.ts';

interface EventRecord {
  readonly stream: string;
  readonly type: string;
  readonly at: string;
  readonly party: string | null;
  readonly correlation: string | null;
  readonly to: readonly string[];
  readonly data: string;
  readonly body: string | null;
  readonly chars: number;
}

interface PutRecord {
  readonly kind: string;
  readonly owner: string;
  readonly id: string;
  readonly gone: boolean;
  readonly shelf: string | null;
  readonly upd: string;
  readonly data: string;
  readonly body: string | null;
  readonly chars: number;
}

export interface PreparedCommit {
  readonly idem: string;
  readonly events: readonly EventRecord[];
  /** By `rowName`: the last put of each row. */
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

/** What one job of a group writes. */
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
  const text = body === null ? null : toText(body);
  return { stream, type, at, party, correlation, to, data: json(event.data), body: text, chars: body?.length ?? 0 };
}

function preparePut(put: Put): PutRecord {
  keys.checkRow(put);
  const { kind, owner, id } = put;
  if (put.gone) return { kind, owner, id, gone: true, shelf: null, upd: '', data: '', body: null, chars: 0 };
  const { shelf, upd, body } = put;
  keys.checkName('upd', upd);
  if (shelf !== null) keys.checkName('shelf', shelf);
  if (body !== null) keys.checkText('the body of a row', body);
  const text = body === null ? null : toText(body);
  return { kind, owner, id, gone: false, shelf, upd, data: json(put.data), body: text, chars: body?.length ?? 0 };
}

export function prepareSettle(rows: readonly DeliveryRow[], floors: readonly Floor[]): PreparedSettle {
  for (const { dest } of [...rows, ...floors]) keys.checkName('dest', dest);
  const prepared = rows.map((row) => ({ row, data: json(row.data) }));
  return { rows: prepared, floors, size: prepared.reduce((sum, { data }) => sum + data.length, floors.length + 1) };
}

/** Answers nothing when the fence was not held, otherwise a `Moved`. */
export const WRITE = 'select head, stale from append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)';

export interface Moved {
  /** Where the log ended before it, or ends when it was not written. */
  readonly head: Seq;
  /** JSON array of the `Seen` that are not so any more; null when there are none. Then, and only then, it was written. */
  readonly stale: string | null;
}

/** The parameters of `WRITE`, of works under one fence. */
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

/** Where commits of these keys ended, of those that are in the log. The index of keys leaves the empty one out. */
export const RECALL = `select idem, seq as last, n from events where idem = any ($1::text[]) and idem <> ''`;

export interface Recalled {
  readonly idem: string;
  readonly last: Seq;
  readonly n: number;
}

/**
 * What was visible before it is as durable as this: a commit that waits for its standby. A commit that is found in the log after its
 * connection was lost may stand on this server alone.
 */
export const CONFIRM = 'update meta set flushed = flushed + 1';
