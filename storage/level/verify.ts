/**
 * Verification of the embedded store: one pass over every record each time the database opens. It finds damage and
 * builds the in-memory state, and never repairs what only a person may decide on.
 *
 * VERIFY-1  A damaged or missing event, open delivery, floor or timer quarantines the store (`faults`, with exact
 *     ranges): nothing else contains that data.
 * VERIFY-2  The end of the log is lost when its head is below a sequence that the mark, a row or a delivery refers to.
 * VERIFY-3  Rows follow from the log. A row with damaged content is listed for the hub to repair, as is a row that a
 *     recent commit wrote and that is missing or older. The engine writes a commit atomically, so such a row reveals
 *     lost tables and partial restores.
 * VERIFY-4  Indexes follow from the log and are rebuilt at once when an entry is missing or surplus. A damaged remembered
 *     success is dropped, because the floor implies the same answer.
 * VERIFY-5  At or below the horizon there are only kept events, each at its own sequence; the horizon record has their
 *     number and sum.
 * VERIFY-6  A block that cannot be read, or a record under a wrong key, quarantines the store: the engine can neither
 *     say what the block contained nor compact it.
 */

import type { RowKey, Seq } from '../contract.ts';
import * as keys from '../keys.ts';
import { formatOf, headOf, inspect, newerFormat } from '../records.ts';
import { ListCache, RowCache, TwoGenerations } from './caches.ts';
import { type EventHead, indexKeysOf, type RowHead, type Touched } from './event-log.ts';
import { chunks, type Database, type OnPoint } from './leveldb.ts';
import { judge, type Marks } from './marks.ts';
import { mend } from './mend.ts';
import { OrderIndex } from './order-index.ts';
import { OpenDeliveries } from './outbox.ts';
import { DigestMaker, IndexDigest, type Seal, Sealing, Tally } from './seal.ts';
import { type Horizon, NO_HORIZON, plus, readHorizon } from './trim-point.ts';
import { isBarred } from './unopened.ts';

/**
 * Number of events at the end of the log whose commits are checked: their idempotency keys are loaded and their rows
 * must exist. `Commit.idem` promises 65,536.
 */
export const RECENT_EVENTS = 65_536;

/** Streams of one generation of `Found.kept`: about 10 MiB of memory. */
const KEPT_STREAMS = 65_536;
const PROGRESS_EVENTS = 1000;

/** In-memory state of an open database. */
export interface Found {
  head: Seq;
  horizon: Horizon;
  token: number;
  /** Identity of the store; null in a database of an earlier build. */
  store: string | null;
  readonly order: OrderIndex;
  readonly open: OpenDeliveries;
  /** First and last event of a commit since the open, by its idempotency key. */
  readonly commits: TwoGenerations<readonly [first: Seq, last: Seq]>;
  /**
   * Which events trims kept of the streams that they met last, so that a trim need not look for them: finding one costs
   * more than all the rest of trimming an event. A stream that is not here is looked up in the index by stream.
   */
  readonly kept: TwoGenerations<readonly Seq[]>;
  readonly recent: RowCache;
  readonly listed: ListCache;
  /** Receiver → its floor, as applied last. */
  readonly floors: Map<string, Seq>;
  sealing: Sealing;
  /** By the row's key in the database. */
  readonly damagedRows: Map<string, RowKey>;
  /** VERIFY-1, VERIFY-2, VERIFY-6: one sentence each; the store is quarantined unless empty. */
  readonly faults: string[];
  /** Whether every record could be read and passed its checksums. */
  isSound: boolean;
}

interface Expected {
  readonly seq: Seq;
  readonly gone: boolean;
}

/** State of one verification pass. */
export class Pass {
  readonly #listed = new ListCache();
  readonly found: Found = {
    head: 0,
    horizon: NO_HORIZON,
    token: 0,
    store: null,
    order: new OrderIndex(this.#listed),
    open: new OpenDeliveries(),
    commits: new TwoGenerations(RECENT_EVENTS),
    kept: new TwoGenerations(KEPT_STREAMS),
    recent: new RowCache(),
    listed: this.#listed,
    floors: new Map(),
    sealing: new Sealing(new IndexDigest(), new Map()),
    damagedRows: new Map(),
    faults: [],
    isSound: true,
  };
  readonly db: Database;
  /** The seal that stands for the records that this pass does not read. */
  readonly seal: Seal | null;
  readonly isCounting: boolean;
  readonly digest = new DigestMaker();
  /** The index entries that the events of the log imply. */
  readonly implied = new Tally();
  /** Highest sequence that any record refers to, and which record: the subject of a sentence, and a key to name. */
  claim: readonly [seq: Seq, by: string, key: string | null] = [0, '', null];
  recentAfter: Seq = 0;
  readonly expected = new Map<string, Expected>();
  readonly lostEvents: [from: Seq, to: Seq][] = [];
  /** Number of records by key space. */
  readonly records = new Map<string, number>();
  kept = 0;
  keptSum = 0;
  indexDamaged = false;
  /** Keys of damaged records to delete, because other records imply the same. */
  readonly drop: string[] = [];

  constructor(db: Database, seal: Seal | null = null, isCounting = false) {
    this.db = db;
    this.seal = seal;
    this.isCounting = isCounting;
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

/** Effect of a sound record of each key space. */
const LEARN: Readonly<Record<string, (pass: Pass, key: string, value: string) => void>> = {
  c: (pass, key) => pass.digest.add(key),
  s: (pass, key) => pass.digest.add(key),
  e: learnEvent,
  f: (pass, key, value) => void pass.found.floors.set(keys.floorOf(key), (headOf(value) as [Seq])[0]),
  o: learnRow,
  p: (pass, key) => {
    if (!pass.isCounting) pass.found.open.add(keys.destOf(key), keys.seqOf(key));
    pass.claims(keys.seqOf(key), 'an open delivery');
  },
  d: (pass, key) => pass.claims(keys.seqOf(key), 'a remembered delivery'),
  m: (pass, key, value) => {
    if (key === keys.SEAL_KEY) pass.claims((headOf(value) as [Seq])[0], 'the seal');
    if (key === keys.FENCE_KEY) [pass.found.token, pass.found.store = null] = headOf(value) as keys.FenceHead;
  },
};

/** How far a store has come with its opening, which takes the longer the more it holds, for operators. */
export interface Opening {
  /** What the store is doing. */
  readonly step: string;
  /** Events verified so far. */
  readonly verified: number;
  /** Events to verify; null while that is not known. */
  readonly events: number | null;
}

/** Result of one pass, besides the in-memory state. */
export interface Examined {
  readonly found: Found;
  /** Number of records by key space, see `keys.ts`. */
  readonly records: ReadonlyMap<string, number>;
  /** Whether the indexes must be rebuilt from the log. */
  readonly reindex: boolean;
  /** What the indexes must hold. */
  readonly implied: Tally;
  /** Keys of damaged records to drop, because other records imply the same. */
  readonly drop: readonly string[];
}

interface Examination {
  /** Called with every record in key order, sound or not. */
  readonly each?: (key: string, value: string) => void;
  /** Records per chunk, and what to await between two chunks: for a background check that must not delay others. */
  readonly lot?: number;
  readonly between?: () => Promise<unknown>;
  /** Rows and open deliveries are counted, and memory keeps none of them: for a database that is only examined. */
  readonly isCounting?: boolean;
}

/** Examines the database, then repairs indexes and drops what the log implies. [VERIFY-4] */
export async function verify(
  db: Database,
  marks: Marks,
  { point, progress }: { readonly point: OnPoint; readonly progress: (opening: Opening) => void },
): Promise<Found> {
  point('verify.before');
  const events = await lastKnown(db);
  let verified = 0;
  const each = (key: string): void => {
    if (key.startsWith('e') && ++verified % PROGRESS_EVENTS === 0)
      progress({ step: 'verifying the store', verified, events });
  };
  const examined = await examine(db, marks, { each });
  if (examined.found.faults.length === 0) await mend(db, examined, point);
  point('verify.after');
  return examined.found;
}

/** Read-only. Rejects with `StoreUnavailable` for a record of a newer format, and where a table is barred. [UNOPENED-2] */
export async function examine(
  db: Database,
  marks: Marks,
  { each = () => {}, lot, between, isCounting }: Examination = {},
): Promise<Examined> {
  const pass = new Pass(db, null, isCounting);
  const { found } = pass;
  found.horizon = await readHorizon(db);
  found.head = found.horizon.seq;
  pass.recentAfter = Math.max(0, (await lastKnown(db)) - RECENT_EVENTS);
  const unreadable = (error: unknown): void => {
    if (isBarred(error)) throw error;
    found.isSound = false;
    pass.found.faults.push(
      `a block of the database cannot be read (${error instanceof Error ? error.message : error})`,
    );
  };
  for await (const chunk of ahead(chunks(db, keys.EVERYTHING, lot, unreadable))) {
    for (const [key, value] of chunk) {
      each(key, value);
      learn(pass, key, value);
    }
    await between?.();
  }
  conclude(pass, marks);
  const digest = pass.digest.made();
  const { implied } = pass;
  const reindex = pass.indexDamaged || !implied.equals(digest.whole);
  found.sealing = new Sealing(digest, found.floors);
  return { found, records: pass.records, reindex, implied, drop: pass.drop };
}

export function learn(pass: Pass, key: string, value: string): void {
  const space = key.charAt(0);
  pass.records.set(space, (pass.records.get(space) ?? 0) + 1);
  const condition = inspect(key, value);
  if (condition === 'sound') LEARN[space]?.(pass, key, value);
  else if (condition === 'newer') throw newerFormat(`the record ${JSON.stringify(key)}`, formatOf(value));
  else damaged(pass, space, key, condition);
}

/** Prefetch: while one chunk is examined, another thread reads the next. */
export async function* ahead<T>(items: AsyncGenerator<T>): AsyncGenerator<T> {
  try {
    for (let next = items.next(); ; ) {
      const { done, value } = await next;
      if (done === true) return;
      next = items.next();
      // The next iteration awaits it and gets its error.
      next.catch(() => {});
      yield value;
    }
  } finally {
    await items.return(undefined);
  }
}

function learnEvent(pass: Pass, key: string, value: string): void {
  const seq = keys.seqOf(key);
  if (pass.seal === null) for (const entry of indexKeysOf(key, value)) pass.implied.add(entry);
  if (seq <= pass.found.horizon.seq) return learnKept(pass, seq, value);
  if (seq > pass.found.head + 1) pass.lose(pass.found.head + 1, seq - 1);
  pass.found.head = seq;
  if (seq <= pass.recentAfter) return;
  if (pass.seal !== null && seq > pass.seal.seq)
    for (const entry of indexKeysOf(key, value)) pass.seal.digest.add(entry);
  const [, , , , , , idem, events = 1, touched] = headOf(value) as EventHead;
  if (idem === undefined) return;
  pass.found.commits.set(idem, [seq - events + 1, seq]);
  for (const put of touched ?? []) expectRow(pass, put, seq);
}

/** VERIFY-5. Only the rows of a kept event are checked, not its commit. */
function learnKept(pass: Pass, seq: Seq, value: string): void {
  pass.kept += 1;
  pass.keptSum = plus(pass.keptSum, seq);
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
  // Rows older than the recent commits are not checked. A row that should be removed or newer comes from an old table.
  if (expected !== undefined && (expected.gone || seq < expected.seq)) pass.found.damagedRows.set(key, row);
  else if (!pass.isCounting) pass.found.order.place(row, shelf, upd, value.length);
}

function damaged(pass: Pass, space: string, key: string, condition: 'content' | 'key'): void {
  const name = JSON.stringify(key);
  pass.found.isSound = false;
  if (space === 'e' && condition === 'content') {
    const seq = keys.seqOf(key);
    const isKept = seq <= pass.found.horizon.seq;
    if (isKept) {
      pass.kept += 1;
      pass.keptSum = plus(pass.keptSum, seq);
    }
    pass.lose(isKept ? seq : pass.found.head + 1, seq);
    pass.found.head = Math.max(pass.found.head, seq);
  } else if (space === 'o' && condition === 'content') {
    pass.expected.delete(key);
    pass.found.damagedRows.set(key, keys.rowKeyOf(key));
  } else if (space === 's' || space === 'c') {
    pass.indexDamaged = true;
    pass.drop.push(key);
  } else if ((space === 'd' && condition === 'content') || keys.isSealKey(key)) pass.drop.push(key);
  else if (condition === 'content') pass.found.faults.push(`the record ${name} is damaged`);
  else pass.found.faults.push(`the record ${name} is damaged, and its key with it`);
}

/** What follows when every record was read that this pass reads. */
export function conclude(pass: Pass, marks: Marks): void {
  const { found, lostEvents, expected, kept, keptSum } = pass;
  const judged = judge(marks, found);
  found.faults.push(...judged.faults);
  if (judged.claim !== null) pass.claims(judged.claim.head, `${judged.claim.file} beside the database`);
  for (const [key, { gone }] of expected) if (!gone) found.damagedRows.set(key, keys.rowKeyOf(key));
  const ranges = lostEvents.map(([from, to]) => (from === to ? `event ${from}` : `events ${from} to ${to}`));
  if (ranges.length > 0) found.faults.push(`the log has lost ${ranges.join(', ')}`);
  const { horizon } = found;
  // Beside a seal, `verify-rest.ts` counts them.
  if (pass.seal === null && (kept !== horizon.kept || keptSum !== horizon.sum)) {
    found.faults.push(`up to the horizon ${horizon.seq} the log should hold ${horizon.kept} events, and holds ${kept}`);
  }
  const [claimed, subject, key] = pass.claim;
  const by = key === null ? subject : subject + JSON.stringify(key);
  if (claimed > found.head) {
    found.faults.push(`the log has lost events ${found.head + 1} to ${claimed}: ${by} refers to them`);
  }
}

/** Last sequence in the log; 0 when that cannot be read, which makes every commit of the log a recent one. */
export async function lastKnown(db: Database): Promise<Seq> {
  const events = keys.between(keys.eventKey, 0, Number.MAX_SAFE_INTEGER);
  const [last] = await db
    .keys({ ...events, reverse: true, limit: 1 })
    .all()
    .catch(() => []);
  return last === undefined ? 0 : keys.seqOf(last);
}
