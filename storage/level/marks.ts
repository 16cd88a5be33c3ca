/**
 * The mark: what the database beside it holds at least, because a database that lost its beginning or its end cannot
 * tell. Two files have it, `mark` and `mark.copy`, so that a lost or damaged one neither stops a sound store nor lets a
 * damaged one pass.
 *
 * MARKS-1  An existing mark means that a database was made here; it is never created again in the same place. (An
 *     engine that may create missing files "opens" a directory without its CURRENT file and shows only some of the
 *     keys.) A directory of tables without any mark gets one before it is opened: it may open as an empty database.
 * MARKS-2  A mark contains a sequence that was durable when it was written. It is written from time to time, not with
 *     each commit, and promises only this: a log whose head is lower is damaged.
 * MARKS-3  A mark contains the name of the engine's MANIFEST and a size that it had. A shorter MANIFEST opens as an
 *     empty or older database, and opening deletes the tables that it does not name. So the size is checked first, and
 *     a shorter MANIFEST is not opened.
 * MARKS-4  The files are written in turn, each with a checksum, and one is synced before the other is written: a torn
 *     write leaves the other. Their turns differ by one, else one of them comes from another time.
 * MARKS-5  A mark records a clean close, with everything on the disk; both files then have it. Opening writes both
 *     without that flag before the first commit: a mark without the flag means that the last use ended uncleanly,
 *     perhaps by a power cut. With a mark that cannot be used, the end counts as unclean.
 * MARKS-6  A mark names its store, by the identity that the database has, too: the mark of another store claims nothing.
 * MARKS-7  A mark ahead of the log quarantines the store, unless the other mark describes a clean close that the
 *     database is exactly in, and the turns show that a file was exchanged.
 * MARKS-8  A mark that cannot be used is written again only after every record was verified, and is kept under another
 *     name.
 */
import { type FileHandle, open, readdir, readFile, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { closing } from '../../src/kit/concurrency.ts';
import type { Seq } from '../contract.ts';
import { encode, FORMAT, formatOf, headOf, inspect, newerFormat } from '../records.ts';
import { absent, syncDirectory } from './side-files.ts';

const SLOT_BYTES = 512;
/**
 * Each file by the slot that it has. A mark of an earlier build has both slots in `mark`, one after the other, and names
 * no store.
 */
export const MARK_FILES = ['mark', 'mark.copy'] as const;
type File = (typeof MARK_FILES)[number];
/** What is wrong with a file that is not there. */
const MISSING = 'is missing';
/** What is wrong with a file that the system does not let this process read. */
const UNREAD = 'cannot be read';
export const isUnread = (why: string): boolean => why.startsWith(UNREAD);
/** In a mark that was made before its database was read. [MARKS-1] */
const ANY_STORE = '';

export interface Mark {
  readonly head: Seq;
  readonly token: number;
  /** Name and size of the MANIFEST. */
  readonly manifest: readonly [name: string, bytes: number] | null;
  /** MARKS-5: the store was closed cleanly. The first marks never had it. */
  readonly clean: boolean;
  /** MARKS-6: identity of the store, or `ANY_STORE`; null from a build that did not write one. */
  readonly store: string | null;
}

interface Held extends Mark {
  readonly file: File;
  readonly turn: number;
}

type MarkHead = [
  format: number,
  turn: number,
  head: Seq,
  token: number,
  manifest: Mark['manifest'],
  clean?: boolean,
  store?: string | null,
];

/** What was found beside a database before it was opened. */
export interface Marks {
  /** Marks that can be read, the latest first. */
  readonly held: readonly Held[];
  /** File → what is wrong with it. */
  readonly wrong: ReadonlyMap<File, string>;
  /** There is no database, and there never was one. */
  readonly isNew: boolean;
  /** The MANIFEST that the engine would open. */
  readonly manifest: Mark['manifest'];
  /** The database has tables, so it was in use. */
  readonly hasTables: boolean;
}

/** What a database says of itself once it was read; `token` is 0 when the record of the store's own is missing. */
export type Own = Pick<Mark, 'head' | 'token' | 'store'>;

export interface Judgement {
  /** The log must reach this sequence; null when no mark claims anything. */
  readonly claim: { readonly head: Seq; readonly file: File } | null;
  /** Why the store is damaged, besides its claim. */
  readonly faults: readonly string[];
  /** File → why it cannot be used. */
  readonly wrong: ReadonlyMap<File, string>;
  /** MARKS-5: there is proof of a clean close. */
  readonly isClean: boolean;
}

const slotKey = (slot: number): string => `mark/${slot}`;

/** Rejects with `StoreUnavailable` for a newer format, and with an error when opening would hide or destroy data. */
export async function readMarks(store: string): Promise<Marks> {
  const held: Held[] = [];
  const wrong = new Map<File, string>();
  const isMissing = (file: File): boolean => wrong.get(file) === MISSING;
  for (const [slot, file] of MARK_FILES.entries()) {
    const found = await readMark(join(store, file), slot === 0 ? [0, 1] : [slot]);
    if (typeof found === 'string') wrong.set(file, found);
    else held.push({ ...found, file });
  }
  held.sort((a, b) => b.turn - a.turn);
  const database = join(store, 'db');
  const manifest = await manifestOf(database);
  const listed = await readdir(database).catch(absent);
  const files = listed ?? [];
  const hasTables = files.some((file) => /\.(ldb|sst)$/.test(file));
  if (manifest === null) {
    if (!MARK_FILES.every(isMissing) || hasTables || files.some((file) => file.endsWith('.log'))) {
      const what = listed ? 'holds a database without its CURRENT file' : 'is missing, and a mark beside it is not';
      throw new Error(`${database} ${what}: restore it from a backup`);
    }
    return { held, wrong: new Map(), isNew: true, manifest, hasTables };
  }
  const cut = held.find((mark) => isCut(manifest, mark));
  if (cut !== undefined && !held.some((mark) => isAsClosed(manifest, mark))) {
    throw new Error(
      `${database} has a ${manifest[0]} of ${manifest[1]} bytes that had ${cut.manifest?.[1]} according to ${cut.file}: ` +
        'restore it from a backup',
    );
  }
  const [latest] = held;
  // The first write of all, and every earlier build, leaves only one file.
  const isAlone = latest !== undefined && latest.store !== ANY_STORE && (latest.turn === 1 || latest.store === null);
  if (isAlone) for (const file of MARK_FILES.filter(isMissing)) wrong.delete(file);
  return { held, wrong, isNew: false, manifest, hasTables };
}

/** The latest mark in a file, or what is wrong with the file. */
async function readMark(path: string, slots: readonly number[]): Promise<Omit<Held, 'file'> | string> {
  const text = await readFile(path, 'latin1').catch((error: NodeJS.ErrnoException) => error);
  if (typeof text !== 'string') {
    return text.code === 'ENOENT' ? MISSING : `${UNREAD} (${text.code ?? text.message})`;
  }
  let latest: MarkHead | null = null;
  for (const [i, slot] of slots.entries()) {
    const value = text.slice(i * SLOT_BYTES, (i + 1) * SLOT_BYTES).replace(/\0+$/, '');
    const condition = inspect(slotKey(slot), value);
    if (condition === 'newer') throw newerFormat(path, formatOf(value));
    if (condition !== 'sound') continue;
    const head = headOf(value) as MarkHead;
    if (head[0] > FORMAT) throw newerFormat(path, head[0]);
    if (latest === null || head[1] > latest[1]) latest = head;
  }
  if (latest === null) return 'is damaged';
  const [, turn, head, token, manifest, clean = false, store = null] = latest;
  return { turn, head, token, manifest, clean, store };
}

/** The MANIFEST that the engine would open; null when there is none. */
export async function manifestOf(database: string): Promise<Mark['manifest']> {
  const name = (await readFile(join(database, 'CURRENT'), 'latin1').catch(absent))?.trim();
  if (name === undefined) return null;
  if (!/^MANIFEST-\d+$/.test(name))
    throw new Error(`${database} has a CURRENT file that names no MANIFEST: it is damaged`);
  return [name, (await stat(join(database, name)).catch(absent))?.size ?? 0];
}

const isCut = ([name, bytes]: NonNullable<Mark['manifest']>, { manifest }: Mark): boolean =>
  manifest !== null && manifest[0] === name && bytes < manifest[1];

/** The database is exactly as the clean close left it that the mark records. */
const isAsClosed = (present: Mark['manifest'], { manifest, clean }: Mark): boolean =>
  clean && present !== null && manifest !== null && manifest[0] === present[0] && manifest[1] === present[1];

/** MARKS-1, MARKS-2, MARKS-6, MARKS-7: what the marks say about a database that was read whole. */
export function judge({ held, wrong: unread, manifest, hasTables }: Marks, own: Own): Judgement {
  const wrong = new Map(unread);
  const faults: string[] = [];
  const isForeign = ({ store }: Mark): boolean => Boolean(store && own.store && store !== own.store);
  for (const mark of held) if (isForeign(mark)) wrong.set(mark.file, 'belongs to another store');
  let [latest, other] = held.filter((mark) => !isForeign(mark));
  if (held.length > 0 && latest === undefined)
    faults.push('the mark beside the database belongs to another store, as if the database had been exchanged');
  if (latest && other && latest.turn - other.turn > 1) {
    const { head, token } = other;
    const isProof = isAsClosed(manifest, other) && head === own.head && token === own.token;
    if (latest.head > own.head && isProof) {
      wrong.set(latest.file, `is ahead of the log: it has ${latest.head}, a clean close had ${head}`);
      [latest, other] = [other, undefined];
    } else wrong.set(other.file, 'is an older copy');
  }
  const isUsed = latest ? latest.store !== null : hasTables || [...unread.values()].some((why) => why !== MISSING);
  if (isUsed && own.token === 0 && own.head === 0)
    faults.push('the database is empty, and the mark beside it says that it was in use');
  const claim = latest ? { head: latest.head, file: latest.file } : null;
  return { claim, faults, wrong, isClean: wrong.size === 0 && latest?.clean === true };
}

/** Writes the marks of one store. */
export class MarkFiles {
  readonly #store: string;
  readonly #files = new Map<File, FileHandle>();
  #turn = 0;

  constructor(store: string) {
    this.#store = store;
  }

  /** MARKS-1: so that a database without marks that opens as an empty one does so only once. */
  async guard({ wrong, manifest, hasTables }: Marks): Promise<void> {
    if (!hasTables || MARK_FILES.some((file) => wrong.get(file) !== MISSING)) return;
    await this.write({ head: 0, token: 0, manifest, clean: false, store: ANY_STORE });
  }

  /** MARKS-8: goes on after the marks that were read. Those that cannot be used are moved aside. */
  async renew({ held }: Marks, wrong: Judgement['wrong'], mark: Mark): Promise<void> {
    this.#turn = Math.max(this.#turn, ...held.map(({ turn }) => turn));
    for (const file of wrong.keys()) {
      await this.#close(file);
      const path = join(this.#store, file);
      await rename(path, `${path}.unusable-${new Date().toISOString().replaceAll(':', '')}`).catch(absent);
    }
    await this.writeBoth(mark);
  }

  async writeBoth(mark: Mark): Promise<void> {
    for (const _ of MARK_FILES) await this.write(mark);
  }

  async write({ head, token, manifest, clean, store }: Mark): Promise<void> {
    const turn = this.#turn + 1;
    const slot = turn % MARK_FILES.length;
    const file = MARK_FILES[slot] as File;
    const path = join(this.#store, file);
    const isOpened = this.#files.has(file);
    const handle = this.#files.get(file) ?? (await open(path, 'r+').catch(absent)) ?? (await open(path, 'w+'));
    this.#files.set(file, handle);
    const content: MarkHead = [FORMAT, turn, head, token, manifest, clean, store];
    const bytes = Buffer.alloc(SLOT_BYTES);
    bytes.write(encode(slotKey(slot), JSON.stringify(content)), 'latin1');
    await handle.write(bytes, 0, SLOT_BYTES, 0);
    await handle.sync();
    this.#turn = turn;
    if (!isOpened) await syncDirectory(dirname(path));
  }

  async close(): Promise<void> {
    for (const file of MARK_FILES) await this.#close(file);
  }

  async #close(file: File): Promise<void> {
    await this.#files.get(file)?.close();
    this.#files.delete(file);
  }
}

/** Writes the marks of a store that no process uses. */
export async function writeMarks(store: string, mark: Omit<Mark, 'manifest'>): Promise<void> {
  await closing(new MarkFiles(store), async (files) => {
    const marks = await readMarks(store);
    await files.renew(marks, marks.wrong, { ...mark, manifest: marks.manifest });
  });
}
