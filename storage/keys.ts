/**
 * Sortable keys of the embedded store: the only file that knows the layout of the database, so that the layout can be
 * checked in one place.
 *
 * KEYS-1  Every name in a key is followed by U+0000 or by the end of the key, and no name may contain U+0000: two
 *     different names never make the same key, no name reaches into another key space, and (a, b) sorts as the pair
 *     does.
 * KEYS-2  Numbers are hexadecimal of fixed width, so that byte order is numeric order.
 * KEYS-3  Keys sort by their UTF-8 bytes, which is the order of code points. An unpaired surrogate has no UTF-8 form
 *     (two different ones would both become U+FFFD) and is refused.
 *
 *     e/ 00 seq                         event            o/ kind 0 owner 0 id              row
 *     s/ stream 0 00 seq                index by stream  c/ correlation id 0 00 seq        index by correlation id
 *     p/ dest 0 00 seq                  open delivery    d/ dest 0 00 seq                  remembered success
 *     f/ dest 0 00                      floor            t/ 00 key                         due time
 *     m/ name                           the store's own
 */
import type { Commit, RowKey, Seen, Seq } from './contract.ts';

export interface Range {
  readonly gte: string;
  readonly lt: string;
}

const NUL = '\0';
/** Number of the log, always `00`: there is one log. Every key in existing data directories has it, so it must stay. */
const LOG = '00';
/** 2^53, the largest sequence that a number holds exactly, has 14 hexadecimal digits. */
const SEQ_DIGITS = 14;
const PLACE_DIGITS = LOG.length + SEQ_DIGITS;

export const FENCE_KEY = 'm/fence';
/** `store`: identity of the embedded store, made once. */
export type FenceHead = [token: number, store?: string | null];
export const HORIZON_KEY = 'm/horizon';
/** Its only purpose is a synced write, which makes earlier unsynced ones durable. */
export const FLUSH_KEY = 'm/flush';
/** `seal.ts`: sums of the indexes, boundaries of their parts, floors. */
export const SEAL_KEY = 'm/seal';
export const SEAL_PARTS_KEY = 'm/seal.parts';
export const SEAL_FLOORS_KEY = 'm/seal.floors';
export const isSealKey = (key: string): boolean => key.startsWith(SEAL_KEY);

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0');

/** Cache of the last result of `place`: one event is written under several keys with the same sequence. */
let placed: readonly [seq: Seq, text: string] = [0, LOG + hex(0, SEQ_DIGITS)];

function place(seq: Seq): string {
  if (placed[0] !== seq) placed = [seq, LOG + hex(seq, SEQ_DIGITS)];
  return placed[1];
}

export const eventKey = (seq: Seq): string => `e/${place(seq)}`;
export const rowKey = (key: RowKey): string => `o/${key.kind}${NUL}${key.owner}${NUL}${key.id}`;
export const streamKey = (stream: string, seq: Seq): string => `s/${stream}${NUL}${place(seq)}`;
export const correlationKey = (id: string, seq: Seq): string => `c/${id}${NUL}${place(seq)}`;
export const openKey = (dest: string, seq: Seq): string => `p/${dest}${NUL}${place(seq)}`;
export const deliveredKey = (dest: string, seq: Seq): string => `d/${dest}${NUL}${place(seq)}`;
export const floorKey = (dest: string): string => `f/${dest}${NUL}${LOG}`;
export const dueKey = (key: string): string => `t/${LOG}${key}`;

/** CONTRACT-4: throws a TypeError for a commit without a fence that writes rows or sets timers with an empty `seen`. */
export function checkUnfenced({ fence, puts = [], due = [], seen = [] }: Commit): void {
  if (fence === null && puts.length + due.length > 0 && seen.length === 0)
    throw new TypeError('a commit without a fence that writes rows or sets timers needs `seen`');
}

/** `name` is the row's key in the database. */
export type NamedSeen = Seen & { readonly name: string };

/** Adds each row's key. Throws a TypeError for an invalid name, and for a `seq` that is neither a sequence nor null. */
export const named = (seen: readonly Seen[]): NamedSeen[] =>
  seen.map((each) => {
    checkRow(each);
    if (each.seq !== null && !Number.isSafeInteger(each.seq))
      throw new TypeError('the `seq` of a seen row must be a sequence or null');
    return { name: rowKey(each), ...each };
  });

/** The range of keys that begin with `prefix`, which must end in a separator or in a field of fixed width (KEYS-1). */
export function under(prefix: string): Range {
  const last = prefix.length - 1;
  return { gte: prefix, lt: prefix.slice(0, last) + String.fromCharCode(prefix.charCodeAt(last) + 1) };
}

/** Every key, including keys that only damage can have produced. */
export const EVERYTHING: Range = { gte: '\0', lt: '\u{10ffff}' };
/** Rows of a kind, or of one of its owners. */
export const rowsOf = (kind: string, owner?: string): Range =>
  under(`o/${kind}${NUL}${owner === undefined ? '' : `${owner}${NUL}`}`);
export const DUE: Range = under(`t/${LOG}`);
/** Index entries of one stream or correlation id with a sequence greater than `after`, in order. */
export const indexFrom = (space: 's' | 'c', name: string, after: Seq): Range => ({
  gte: `${space}/${name}${NUL}${place(after + 1)}`,
  lt: under(`${space}/${name}${NUL}`).lt,
});
/** Keys that `make` builds for the sequences `from` to `to`, both included. */
export const between = (make: (seq: Seq) => string, from: Seq, to: Seq): Range => ({
  gte: make(from),
  lt: make(Math.min(to, Number.MAX_SAFE_INTEGER - 1) + 1),
});

/** Sequence of an event, index or delivery key: its last field. */
export const seqOf = (key: string): Seq => Number.parseInt(key.slice(-SEQ_DIGITS), 16);
/** Receiver of a delivery key. */
export const destOf = (key: string): string => key.slice(2, -PLACE_DIGITS - 1);
/** Stream of a key of the index by stream. */
export const streamOf = (key: string): string => key.slice(2, -PLACE_DIGITS - 1);
/** Receiver of a floor key. */
export const floorOf = (key: string): string => key.slice(2, -LOG.length - 1);
export const dueNameOf = (key: string): string => key.slice(2 + LOG.length);

export function rowKeyOf(key: string): RowKey {
  const [kind = '', owner = '', id = ''] = key.slice(2).split(NUL);
  return { kind, owner, id };
}

const REFUSED_IN_NAMES = /[\0\p{Surrogate}]/u;
const REFUSED_IN_TEXT = /\p{Surrogate}/u;

/** KEYS-1, KEYS-3: throws a TypeError for a name that could collide with another one. */
export function checkName(what: string, name: string): void {
  if (REFUSED_IN_NAMES.test(name)) throw new TypeError(`${what} holds U+0000 or an unpaired surrogate`);
}

export function checkRow({ kind, owner, id }: RowKey): void {
  checkName('kind', kind);
  checkName('owner', owner);
  checkName('id', id);
}

/** Throws a TypeError for text that has no UTF-8 form: bodies are stored byte for byte. */
export function checkText(what: string, text: string): void {
  if (REFUSED_IN_TEXT.test(text)) throw new TypeError(`${what} holds an unpaired surrogate`);
}
