/**
 * Verification: one pass over everything that is stored, each time the database opens. It finds damage, builds what is kept
 * in memory, and never repairs what only a person may decide on.
 *
 * VERIFY-1  A damaged or missing event, open delivery, floor or timer quarantines the store (`faults`, with exact ranges):
 *     it cannot be derived from anything else.
 * VERIFY-2  A head below what was promised (by the mark, by a row or a delivery that names a later event) is a lost tail.
 * VERIFY-3  Rows follow from the log: a row with damaged content, and a row that a recent commit wrote but that is missing or
 *     older, is listed for the hub. A commit is atomic in the engine, so this tells of lost tables and partial restores.
 * VERIFY-4  Indexes follow from the log and are rebuilt at once; a damaged remembered success is dropped, because the floor's rule
 *     gives the right answer without it.
 * VERIFY-5  Up to the horizon only kept events stand, each at its own sequence: its record says how many, and their sum.
 * VERIFY-6  A block that cannot be read at all, or a record under a key that is not its own, quarantines: the engine can neither
 *     name what it held nor compact it.
 */
import type { RowKey, Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { headOf, inspect } from '../records.ts';
import { type EventHead, type RowHead, stageIndexes, type Touched } from './event-log.ts';
import { type Batch, chunks, type Database, type OnPoint } from './leveldb.ts';
import { ListCache } from './list-cache.ts';
import { OrderIndex } from './order-index.ts';
import { OpenDeliveries } from './outbox.ts';
import { RowCache } from './row-cache.ts';
import type { Mark } from './side-files.ts';
import { type Horizon, NO_HORIZON, readHorizon } from './trim-point.ts';

/** The commits of this many last events have their idempotency keys re-learned and their rows checked. */
const RECENT_EVENTS = 65_536;

/** What is kept in memory of a database. */
export interface Found {
  head: Seq;
  horizon: Horizon;
  token: number;
  readonly order: OrderIndex;
  readonly open: OpenDeliveries;
  readonly commits: RecentCommits;
  readonly recent: RowCache;
  readonly listed: ListCache;
  /** Key of the row → its name. */
  readonly damagedRows: Map<string, RowKey>;
  /** VERIFY-1, VERIFY-2, VERIFY-6: sentences; not empty = quarantined. */
  readonly faults: string[];
  /** Every record could be read and is as it was written. */
  isSound: boolean;
}

/** Idempotency keys of at least the last `RECENT_EVENTS` commits of this process, in two generations: the old one is dropped whole. */
export class RecentCommits {
  #young = new Map<string, readonly [first: Seq, last: Seq]>();
  #old = new Map<string, readonly [first: Seq, last: Seq]>();

  get(idem: string): readonly [first: Seq, last: Seq] | undefined {
    return this.#young.get(idem) ?? this.#old.get(idem);
  }

  add(idem: string, first: Seq, last: Seq): void {
    if (this.#young.size >= RECENT_EVENTS) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(idem, [first, last]);
  }
}

interface Expected {
  readonly seq: Seq;
  readonly gone: boolean;
}

/** What one pass carries along. */
class Pass {
  readonly #listed = new ListCache();
  readonly found: Found = {
    head: 0,
    horizon: NO_HORIZON,
    token: 0,
    order: new OrderIndex((entry) => this.#listed.delete(entry)),
    open: new OpenDeliveries(),
    commits: new RecentCommits(),
    recent: new RowCache(),
    listed: this.#listed,
    damagedRows: new Map(),
    faults: [],
    isSound: true,
  };
  readonly db: Database;
  /** Highest sequence that anything claims to exist, and what claims it: a sentence's subject, with the key that it names. */
  claim: readonly [seq: Seq, by: string, key: string | null] = [0, '', null];
  recentAfter: Seq = 0;
  readonly expected = new Map<string, Expected>();
  readonly lostEvents: [from: Seq, to: Seq][] = [];
  /** Records by space. */
  readonly records = new Map<string, number>();
  kept = 0;
  keptSum = 0;
  indexDamaged = false;
  /** Damaged records that follow from others and are deleted. */
  readonly drop: string[] = [];

  constructor(db: Database) {
    this.db = db;
  }

  claims(seq: Seq, by: string, key: string | null = null): void {
    if (seq > this.claim[0]) this.claim = [seq, by, key];
  }

  lose(from: Seq, to: Seq): void {
    const last = this.lostEvents.at(-1);
    if (last !== undefined && last[1] === from - 1) last[1] = to;
    else this.lostEvents.push([from, to]);
  }
}

/** What a sound record of each space adds. */
const LEARN: Readonly<Record<string, (pass: Pass, key: string, value: string) => void>> = {
  e: learnEvent,
  o: learnRow,
  p: (pass, key) => {
    pass.found.open.add(keys.destOf(key), keys.seqOf(key));
    pass.claims(keys.seqOf(key), 'an open delivery');
  },
  d: (pass, key) => pass.claims(keys.seqOf(key), 'a remembered delivery'),
  m: (pass, key, value) => {
    if (key === keys.FENCE_KEY) [pass.found.token] = headOf(value) as [number];
  },
};

/** What one pass found, beside what is kept in memory. */
export interface Examined {
  readonly found: Found;
  /** Records by space, see `keys.ts`. */
  readonly records: ReadonlyMap<string, number>;
  /** Indexes have to be made again from the log. */
  readonly reindex: boolean;
  /** Keys of damaged records that are left out, because others say the same. */
  readonly drop: readonly string[];
}

interface Examination {
  /** Every record, in order of key, sound or not. */
  readonly each?: (key: string, value: string) => void;
  /** Records at a time, and what is awaited between two lots: for a look that must not be in anybody's way. */
  readonly lot?: number;
  readonly between?: () => Promise<unknown>;
}

/** Examines, and makes again what follows from the log. [VERIFY-4] */
export async function verify(db: Database, mark: Mark | 'damaged' | null, point: OnPoint): Promise<Found> {
  point('verify.before');
  const examined = await examine(db, mark);
  if (examined.found.faults.length === 0) await mend(db, examined, point);
  point('verify.after');
  return examined.found;
}

/** Changes nothing. */
export async function examine(
  db: Database,
  mark: Mark | 'damaged' | null,
  { each = () => {}, lot, between }: Examination = {},
): Promise<Examined> {
  const pass = new Pass(db);
  const { found } = pass;
  found.horizon = await readHorizon(db);
  found.head = found.horizon.seq;
  pass.recentAfter = Math.max(0, (await lastKnown(db)) - RECENT_EVENTS);
  if (mark === 'damaged')
    pass.found.faults.push('the mark beside the database cannot be read: its end cannot be checked');
  else if (mark !== null) pass.claims(mark.head, 'the mark beside the database');
  const unreadable = (error: unknown): void => {
    found.isSound = false;
    pass.found.faults.push(
      `a block of the database cannot be read (${error instanceof Error ? error.message : error})`,
    );
  };
  for await (const chunk of ahead(chunks(db, keys.EVERYTHING, lot, unreadable))) {
    for (const [key, value] of chunk) {
      const space = key.charAt(0);
      pass.records.set(space, (pass.records.get(space) ?? 0) + 1);
      each(key, value);
      const condition = inspect(key, value);
      if (condition === 'sound') LEARN[space]?.(pass, key, value);
      else damaged(pass, space, key, condition);
    }
    await between?.();
  }
  conclude(pass);
  const count = (space: string): number => pass.records.get(space) ?? 0;
  const reindex = pass.indexDamaged || count('s') !== count('e');
  return { found, records: pass.records, reindex, drop: pass.drop };
}

/** While one chunk is examined the next is read, by another thread. */
async function* ahead<T>(items: AsyncGenerator<T>): AsyncGenerator<T> {
  try {
    for (let next = items.next(); ; ) {
      const { done, value } = await next;
      if (done === true) return;
      next = items.next();
      // Whoever asks for it hears of its failure.
      next.catch(() => {});
      yield value;
    }
  } finally {
    await items.return(undefined);
  }
}

function learnEvent(pass: Pass, key: string, value: string): void {
  const seq = keys.seqOf(key);
  if (seq <= pass.found.horizon.seq) return learnKept(pass, seq, value);
  if (seq > pass.found.head + 1) pass.lose(pass.found.head + 1, seq - 1);
  pass.found.head = seq;
  if (seq <= pass.recentAfter) return;
  const [, , , , , , idem, events = 1, touched] = headOf(value) as EventHead;
  if (idem === undefined) return;
  pass.found.commits.add(idem, seq - events + 1, seq);
  for (const put of touched ?? []) expectRow(pass, put, seq);
}

/** VERIFY-5. Its commit is of the past: only its rows are looked for. */
function learnKept(pass: Pass, seq: Seq, value: string): void {
  pass.kept += 1;
  pass.keptSum += seq;
  if (seq <= pass.recentAfter) return;
  for (const put of (headOf(value) as EventHead)[8] ?? []) expectRow(pass, put, seq);
}

function expectRow(pass: Pass, [kind, owner, id, gone]: Touched, seq: Seq): void {
  pass.expected.set(keys.rowKey({ kind, owner, id }), { seq, gone: gone === 1 });
}

function learnRow(pass: Pass, key: string, value: string): void {
  const [seq, shelf, upd] = headOf(value) as RowHead;
  const row = keys.rowKeyOf(key);
  const expected = pass.expected.get(key);
  pass.expected.delete(key);
  pass.claims(seq, 'the row ', key);
  // A row from before the recent past is not expected; one that should be gone or newer is what an old table held.
  if (expected !== undefined && (expected.gone || seq < expected.seq)) pass.found.damagedRows.set(key, row);
  else pass.found.order.place(row, shelf, upd, value.length);
}

function damaged(pass: Pass, space: string, key: string, condition: 'content' | 'key'): void {
  const name = JSON.stringify(key);
  pass.found.isSound = false;
  if (space === 'e' && condition === 'content') {
    const seq = keys.seqOf(key);
    const isKept = seq <= pass.found.horizon.seq;
    if (isKept) {
      pass.kept += 1;
      pass.keptSum += seq;
    }
    pass.lose(isKept ? seq : pass.found.head + 1, seq);
    pass.found.head = Math.max(pass.found.head, seq);
  } else if (space === 'o' && condition === 'content') {
    pass.expected.delete(key);
    pass.found.damagedRows.set(key, keys.rowKeyOf(key));
  } else if (space === 's' || space === 'c') {
    pass.indexDamaged = true;
    pass.drop.push(key);
  } else if (space === 'd' && condition === 'content') pass.drop.push(key);
  else if (condition === 'content') pass.found.faults.push(`the record ${name} is damaged`);
  else pass.found.faults.push(`the record ${name} is damaged, and its key with it`);
}

function conclude({ found, claim, lostEvents, expected, kept, keptSum }: Pass): void {
  for (const [key, { gone }] of expected) if (!gone) found.damagedRows.set(key, keys.rowKeyOf(key));
  const ranges = lostEvents.map(([from, to]) => (from === to ? `event ${from}` : `events ${from} to ${to}`));
  if (ranges.length > 0) found.faults.push(`the log has lost ${ranges.join(', ')}`);
  const { horizon } = found;
  if (kept !== horizon.kept || keptSum !== horizon.sum) {
    found.faults.push(`up to the horizon ${horizon.seq} the log should hold ${horizon.kept} events, and holds ${kept}`);
  }
  const [claimed, subject, key] = claim;
  const by = key === null ? subject : subject + JSON.stringify(key);
  if (claimed > found.head) {
    found.faults.push(`the log has lost events ${found.head + 1} to ${claimed}: ${by} knows of them`);
  }
}

/** VERIFY-4. Stale index entries that no damage explains are left: they name events that exist. */
async function mend(db: Database, { drop, reindex }: Examined, point: OnPoint): Promise<void> {
  if (drop.length > 0) await inBatches(db, drop, (batch, key) => batch.del(key));
  if (!reindex) return;
  for await (const chunk of chunks(db, keys.under('e/'))) {
    point('rebuild');
    await inBatches(db, chunk, (batch, [key, value]) => {
      const [stream, , , , correlationId] = headOf(value) as EventHead;
      stageIndexes(batch, stream, correlationId, keys.seqOf(key));
    });
  }
}

async function inBatches<T>(db: Database, items: readonly T[], add: (batch: Batch, item: T) => void): Promise<void> {
  const batch = db.batch();
  for (const item of items) add(batch, item);
  await batch.write();
}

/** Where the log seems to end; 0 when that cannot be read, which makes the recent past as long as the log. */
async function lastKnown(db: Database): Promise<Seq> {
  const events = keys.between(keys.eventKey, 0, Number.MAX_SAFE_INTEGER);
  const [last] = await db
    .keys({ ...events, reverse: true, limit: 1 })
    .all()
    .catch(() => []);
  return last === undefined ? 0 : keys.seqOf(last);
}
