/**
 * Inspects a store that no process uses: reads every record, repairs nothing, and reports what it finds.
 *
 * INSPECT-1  Opening a database turns its log into tables, which removes the only trace of what the log had lost. An
 *     inspection that meets such a loss therefore notes it in the `opening` file, and the hub's next start checks the
 *     floors. [DIRTY-FLAG-3]
 * INSPECT-2  Compacting a damaged table can abort the process just as reading it can, and the engine compacts whenever
 *     it likes. An inspection of a store whose last use ended early therefore compacts it when compaction may be the
 *     reason: if the child survives, the store may be opened.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { closing } from '../../src/kit/concurrency.ts';
import type { Seq } from '../contract.ts';
import { StoreUnavailable } from '../contract.ts';
import { EVERYTHING } from '../keys.ts';
import { DirtyFlag, mustCompact } from './dirty-flag.ts';
import { compact, openDatabase } from './leveldb.ts';
import { isUnread, type Judgement, judge, readMarks } from './marks.ts';
import { droppedAtOpen } from './side-files.ts';
import { opening as openingOf, refusalOf, StoreUnopened } from './unopened.ts';
import { type Examined, examine } from './verify.ts';
import { doubtfulFloors } from './watermark-repair.ts';

export interface StoreReport {
  readonly head: Seq;
  readonly horizon: Seq;
  /** Number of records read, by kind. */
  readonly events: number;
  readonly rows: number;
  readonly openDeliveries: number;
  readonly delivered: number;
  readonly timers: number;
  /** Losses that only a backup can restore. Lost events with exact ranges. */
  readonly faults: readonly string[];
  /** What the hub repairs at its next start, one sentence each. */
  readonly repairs: readonly string[];
  /** Marks that the system does not let this process read, one sentence each: they may be sound. */
  readonly unread: readonly string[];
  /** What the engine reported when it opened the database. */
  readonly warning: string | null;
}

export interface Inspection {
  readonly report: StoreReport;
  /** Over every key and value; null when not all of them could be read. */
  readonly digest: string | null;
}

/**
 * Rejects with `StoreUnavailable` when the store is in use, and with `StoreUnopened` when the file system refuses it; the
 * report has everything else that is wrong.
 */
export async function inspectStore(store: string, progress: (records: number) => void): Promise<Inspection> {
  const digest = createHash('sha256');
  let records = 0;
  const each = (key: string, value: string): void => {
    digest.update(key).update(value);
    records += 1;
    if (records % 1000 === 0) progress(records);
  };
  try {
    const looked = await openingOf(store, examineAt(store, each));
    return { report: reportOf(looked, null), digest: digest.digest('hex') };
  } catch (error) {
    if (error instanceof StoreUnavailable || error instanceof StoreUnopened) throw error;
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : '';
    const fault = `${error instanceof Error ? error.message : error}${cause}`;
    return { report: reportOf(null, fault), digest: null };
  }
}

interface Looked {
  readonly examined: Examined;
  /** Receiver → where its floor goes back to. */
  readonly floors: ReadonlyMap<string, Seq>;
  readonly warning: string | null;
  /** What is wrong with the marks. */
  readonly wrong: Judgement['wrong'];
}

async function examineAt(store: string, each: (key: string, value: string) => void): Promise<Looked> {
  const database = join(store, 'db');
  const marks = await readMarks(store);
  if (marks.isNew) throw new Error(`${database} holds no database`);
  const opening = new DirtyFlag(store);
  const unended = await opening.read();
  // Until the next open, the engine's `LOG` file describes the use that ended early.
  if (unended?.isReading && (await droppedAtOpen(database)) !== null) await opening.note({ lost: true });
  return closing(await openDatabase(database, false), async (db) => {
    const warning = await droppedAtOpen(database);
    if (warning !== null) await opening.note({ lost: true });
    const examined = await examine(db, marks, { each });
    const { faults, isSound } = examined.found;
    if (unended !== null && (mustCompact(unended) || !isSound || faults.length > 0)) {
      await compact(db, EVERYTHING.gte, EVERYTHING.lt).catch((error: unknown) => {
        if (refusalOf(error) !== null && faults.length === 0) throw error;
        faults.push(`the engine cannot compact the database (${error instanceof Error ? error.message : error})`);
      });
    }
    const { isClean, wrong } = judge(marks, examined.found);
    const isOwed = warning !== null || unended?.lost || !isClean;
    const floors = isOwed && faults.length === 0 ? await doubtfulFloors(db, examined.found) : null;
    return { examined, floors: floors ?? new Map(), warning, wrong };
  });
}

export function reportOf(looked: Looked | null, fault: string | null): StoreReport {
  const { examined, floors = new Map<string, Seq>(), warning = null, wrong = new Map<string, string>() } = looked ?? {};
  const count = (space: string): number => examined?.records.get(space) ?? 0;
  const rows = [...(examined?.found.damagedRows.values() ?? [])].map(
    ({ kind, owner, id }) => `the row ${kind} ${owner}/${id} is damaged or missing: it is made again from the log`,
  );
  const drops = (examined?.drop ?? []).map((key) =>
    key.startsWith('d')
      ? `${JSON.stringify(key)} is left out: the floor says the same`
      : `${JSON.stringify(key)} is left out`,
  );
  const owed = [...floors].map(
    ([dest, seq]) =>
      `the floor of ${dest} goes back to ${seq}: rows of deliveries behind it are lost, and these are sent again`,
  );
  const lines = [...wrong].map(([file, why]) => ({ why, says: `${file} ${why}` }));
  const marks = lines.filter(({ why }) => !isUnread(why)).map(({ says }) => `${says}: it is written again`);
  const reindex = examined?.reindex ? ['the indexes of the log are made again'] : [];
  return {
    head: examined?.found.head ?? 0,
    horizon: examined?.found.horizon.seq ?? 0,
    events: count('e'),
    rows: count('o'),
    openDeliveries: count('p'),
    delivered: count('d'),
    timers: count('t'),
    faults: [...(fault === null ? [] : [fault]), ...(examined?.found.faults ?? [])],
    repairs: [...rows, ...drops, ...owed, ...marks, ...reindex],
    unread: lines.filter(({ why }) => isUnread(why)).map(({ says }) => says),
    warning,
  };
}
