/**
 * In-memory order of listed rows with counts: serves the rows n to n + k of a list, and its length, without walking to
 * n. Rebuilt from the rows when the store opens.
 *
 * ORDER-INDEX-1  There is one sorted list per kind and shelf, and one per kind, shelf and owner; a row is on one shelf, at
 *     one place.
 * ORDER-INDEX-2  The order is (upd, owner, id) by code point, as in the keys of the database, whichever shelves are
 *     merged.
 * ORDER-INDEX-3  Finding a place takes time logarithmic in the length of the list; a merge takes that for each shelf,
 *     wherever the page lies.
 * ORDER-INDEX-4  An entry is one flat string, `upd 0 owner 0 id 0 shelf`: the shelf comes last, where it cannot change
 *     the order, so that the entry alone identifies its shelf.
 * ORDER-INDEX-5  The index also knows which rows exist, and which do not, of a kind with at most `unlistedMax` unlisted rows: a
 *     look-up that does not find one of these has met a rotted index of the engine.
 * ORDER-INDEX-6  The index knows the size of large rows, listed or not.
 */
import TinyQueue from 'tinyqueue';
import { type ListQuery, type Position, type RowKey, smallBody } from '../contract.ts';
import type { ListCache } from './caches.ts';
import { SortedList } from './sorted-list.ts';

const NUL = '\0';
/** Names of unlisted rows that are held of a kind, some 100 bytes each: partners, routes and the like are fewer, what each object has is not. */
const unlistedMax = 16_384;
/** Sorts after every entry with the same (upd, owner, id) and before every entry of the next (ORDER-INDEX-4). */
const BEHIND = '\x01';
const HIGH_UNIT = /[\ud800-\uffff]/;
const HIGH_UNITS = /[\ud800-\uffff]/g;
const turned = (text: string, turn: (unit: number) => number): string =>
  HIGH_UNIT.test(text) ? text.replace(HIGH_UNITS, (unit) => String.fromCharCode(turn(unit.charCodeAt(0)))) : text;
/**
 * ORDER-INDEX-2: strings compare by UTF-16 code unit, which puts surrogates below U+E000. Shifting surrogates above the
 * rest makes it code point order.
 */
const sortable = (text: string): string => turned(text, (unit) => (unit >= 0xe000 ? unit - 0x800 : unit + 0x2000));
const restored = (text: string): string => turned(text, (unit) => (unit >= 0xf800 ? unit - 0x2000 : unit + 0x800));

interface Kind {
  /** `owner 0 id` → entry. */
  readonly entries: Map<string, string>;
  /** By the names of `listsOf`. */
  readonly lists: Map<string, SortedList<string>>;
  /** `owner 0 id` of unlisted rows; null once there were too many (ORDER-INDEX-5). */
  unlisted: Set<string> | null;
  /** `owner 0 id` → characters, only for rows larger than `smallBody` (ORDER-INDEX-6). */
  readonly sizes: Map<string, number>;
}

/** The part [low, high) of one list. */
interface Window {
  readonly list: SortedList<string>;
  low: number;
  high: number;
}

/** A row's key and its sort key. */
export interface Place extends RowKey {
  readonly upd: string;
}

export interface Page {
  readonly entries: readonly string[];
  readonly total: number;
  readonly offset: number;
}

export class OrderIndex {
  readonly #kinds = new Map<string, Kind>();
  readonly #listed: Pick<ListCache, 'delete'>;

  /** `listed` forgets every entry at which a row is written, and every entry that a row leaves. [CACHES-3] */
  constructor(listed: Pick<ListCache, 'delete'> = { delete: () => {} }) {
    this.#listed = listed;
  }

  /** Moves a row of `size` characters to its place. A row with a null shelf is on no list. */
  place(key: RowKey, shelf: string | null, upd: string, size = 0): void {
    const kind = this.#kind(key.kind);
    const name = nameOf(key);
    if (size > smallBody) kind.sizes.set(name, size);
    else kind.sizes.delete(name);
    const entry = shelf === null ? undefined : sortable([upd, key.owner, key.id, shelf].join(NUL));
    const old = kind.entries.get(name);
    if (entry !== undefined) this.#listed.delete(entry);
    if (entry !== undefined && entry === old) return;
    if (old !== undefined) this.#takeOut(kind, name, old);
    if (shelf === null || entry === undefined) {
      if (kind.unlisted !== null && kind.unlisted.add(name).size > unlistedMax) kind.unlisted = null;
      return;
    }
    kind.unlisted?.delete(name);
    kind.entries.set(name, entry);
    for (const of of listsOf(shelf, key.owner)) {
      let list = kind.lists.get(of);
      if (list === undefined) {
        list = new SortedList();
        kind.lists.set(of, list);
      }
      list.add(entry);
    }
  }

  remove(key: RowKey): void {
    const kind = this.#kind(key.kind);
    const name = nameOf(key);
    const old = kind.entries.get(name);
    kind.sizes.delete(name);
    kind.unlisted?.delete(name);
    if (old !== undefined) this.#takeOut(kind, name, old);
  }

  /** Characters of a large row; 0 for a smaller or missing row (ORDER-INDEX-6). */
  sizeOf(key: RowKey): number {
    return this.#kinds.get(key.kind)?.sizes.get(nameOf(key)) ?? 0;
  }

  /** Whether the row certainly exists (ORDER-INDEX-5). */
  has(key: RowKey): boolean {
    const kind = this.#kinds.get(key.kind);
    return kind !== undefined && hasName(kind, nameOf(key));
  }

  /** Sort key of a listed row; undefined for a row that is not listed. */
  updOf(key: RowKey): string | undefined {
    const entry = this.#kinds.get(key.kind)?.entries.get(nameOf(key));
    return entry === undefined ? undefined : restored(entry.slice(0, entry.indexOf(NUL)));
  }

  /** Whether the row certainly does not exist (ORDER-INDEX-5). */
  isAbsent(key: RowKey): boolean {
    const kind = this.#kinds.get(key.kind);
    return kind === undefined || !(kind.unlisted === null || hasName(kind, nameOf(key)));
  }

  page(query: ListQuery): Page {
    const lists = this.#kinds.get(query.kind)?.lists;
    const windows: Window[] = [];
    for (const shelf of new Set(query.shelves)) {
      const list = lists?.get(query.owner === undefined ? shelf : ofOwner(shelf, query.owner));
      if (list === undefined) continue;
      const low = query.from === undefined ? 0 : list.rank(sortable(query.from));
      const high = query.to === undefined ? list.size : list.rank(sortable(query.to));
      if (low < high) windows.push({ list, low, high });
    }
    const total = remaining(windows);
    let offset = query.offset;
    if (query.after === undefined) skip(windows, Math.min(offset, total));
    else {
      const behind = behindOf(query.after);
      for (const window of windows) window.low = Math.min(window.high, Math.max(window.low, window.list.rank(behind)));
      offset = total - remaining(windows);
    }
    return { entries: take(windows, query.limit), total, offset };
  }

  #takeOut(kind: Kind, name: string, old: string): void {
    const shelf = restored(old.slice(old.lastIndexOf(NUL) + 1));
    for (const of of listsOf(shelf, name.slice(0, name.indexOf(NUL)))) {
      const list = kind.lists.get(of);
      list?.remove(old);
      if (list?.size === 0) kind.lists.delete(of);
    }
    kind.entries.delete(name);
    this.#listed.delete(old);
  }

  #kind(name: string): Kind {
    let kind = this.#kinds.get(name);
    if (kind === undefined) {
      kind = { entries: new Map(), lists: new Map(), unlisted: new Set(), sizes: new Map() };
      this.#kinds.set(name, kind);
    }
    return kind;
  }
}

const hasName = ({ entries, unlisted }: Kind, name: string): boolean =>
  entries.has(name) || (unlisted?.has(name) ?? false);

/** `join` makes flat strings, where `+` would keep a tree of parts alive for every entry. */
const nameOf = ({ owner, id }: RowKey): string => [owner, id].join(NUL);

/** Name of the list of an owner's rows on a shelf. [ORDER-INDEX-1] */
const ofOwner = (shelf: string, owner: string): string => [shelf, owner].join(NUL);
/** Names of the lists that a row is on. */
const listsOf = (shelf: string, owner: string): readonly string[] => [shelf, ofOwner(shelf, owner)];

/** Decodes an entry. [ORDER-INDEX-4] */
export function placeOf(kind: string, entry: string): Place {
  const [upd = '', owner = '', id = ''] = restored(entry).split(NUL);
  return { kind, owner, id, upd };
}

/** Sorts after the entry at this position and before every later one. */
const behindOf = ({ upd, owner, id }: Position): string => [upd, owner, id].map(sortable).join(NUL) + BEHIND;

const remaining = (windows: readonly Window[]): number => windows.reduce((sum, { low, high }) => sum + high - low, 0);

/** The part of a shelf that is still to be merged; `head` is its first entry. */
interface Run extends Window {
  head: string;
}

/** The first `count` entries of the merge. */
function take(windows: readonly Window[], count: number): string[] {
  const [only] = windows;
  if (only !== undefined && windows.length === 1) {
    return only.list.slice(only.low, Math.min(only.high, only.low + count));
  }
  const runs = windows
    .filter(({ low, high }) => low < high)
    .map(({ list, low, high }): Run => ({ list, low, high, head: list.at(low) as string }));
  const merge = new TinyQueue(runs, (a, b) => (a.head < b.head ? -1 : 1));
  const taken: string[] = [];
  while (taken.length < count) {
    const run = merge.pop();
    if (run === undefined) break;
    taken.push(run.head);
    run.low += 1;
    if (run.low === run.high) continue;
    run.head = run.list.at(run.low) as string;
    merge.push(run);
  }
  return taken;
}

/**
 * Advances each `low` so that the first `count` entries of the merge are skipped. A quickselect over values: it picks a
 * pivot from the remaining entries, finds its rank on every shelf and drops one side. Two of three pivots assume that
 * all shelves have the same distribution and aim slightly above and slightly below the target, so that both sides
 * shrink within a few rounds. The third is random, because any deterministic choice has an order of shelves that
 * defeats it.
 */
function skip(windows: readonly Window[], count: number): void {
  if (count === 0) return;
  let open = windows.filter(({ low, high }) => low < high).map((window) => ({ ...window, window }));
  let wanted = count;
  for (let round = 0; wanted > 0; round += 1) {
    const { list, at } = draw(open, round % 3 === 2 ? null : wanted / remaining(open), round % 3 === 0 ? 1 : -1);
    const pivot = list.at(at) as string;
    const splits = open.map((shelf) => (shelf.list === list ? at : within(shelf, shelf.list.rank(pivot))));
    const below = splits.reduce((sum, split, i) => sum + split - (open[i] as Window).low, 0);
    for (const [i, shelf] of open.entries()) {
      const split = splits[i] as number;
      if (wanted < below) shelf.high = split;
      // Also taking the pivot, the smallest entry that remains above, is the progress that ends the loop.
      else shelf.low = wanted > below && shelf.list === list ? at + 1 : split;
      shelf.window.low = shelf.low;
    }
    if (wanted === below) return;
    if (wanted > below) wanted -= below + 1;
    open = open.filter(({ low, high }) => low < high);
  }
}

const within = ({ low, high }: Window, at: number): number => Math.min(high, Math.max(low, at));

/**
 * Draws a shelf with a probability proportional to its remaining length, and one of its entries: at `fraction` of the
 * rest, shifted towards `side` by about the error of such a guess; or at random when `fraction` is null.
 */
function draw(
  windows: readonly Window[],
  fraction: number | null,
  side: 1 | -1,
): { list: SortedList<string>; at: number } {
  let ticket = Math.random() * remaining(windows);
  const drawn = windows.find(({ low, high }) => {
    ticket -= high - low;
    return ticket < 0;
  });
  const { list, low, high } = drawn ?? (windows.at(-1) as Window);
  const length = high - low;
  const place = fraction === null ? Math.random() * length : fraction * length + side * Math.sqrt(length);
  return { list, at: low + Math.max(0, Math.min(length - 1, Math.floor(place))) };
}
