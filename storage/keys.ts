/**
 * Sortable keys: the one place that knows how the database is laid out.
 *
 * KEYS-1  Every name in a key is followed by U+0000 or by the end of the key, and no name may hold U+0000: so two different
 *     names never make the same key, none escapes its space, and (a, b) sorts as the pair does.
 * KEYS-2  Numbers are hexadecimal of fixed width, so that the order of bytes is the order of numbers.
 * KEYS-3  Keys sort by the bytes of UTF-8, which is by code point. An unpaired surrogate has no UTF-8 form (two of them would
 *     become the same U+FFFD) and is refused.
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
/** Of the one log: two digits that keys have had since there could have been several. Data directories hold them. */
const LOG = '00';
/** 2^53, the largest sequence that a number holds exactly, has 14 hexadecimal digits. */
const SEQ_DIGITS = 14;
const PLACE_DIGITS = LOG.length + SEQ_DIGITS;

export const FENCE_KEY = 'm/fence';
export const HORIZON_KEY = 'm/horizon';
/** Written only so that a synced write happens. */
export const FLUSH_KEY = 'm/flush';

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0');

/** The last place that was asked for: an event stands in several keys. */
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

/** What a commit without a fence may hold (CONTRACT-4). Throws a TypeError. */
export function checkUnfenced({ fence, puts = [], due = [], seen = [] }: Commit): void {
  if (fence === null && puts.length + due.length > 0 && seen.length === 0)
    throw new TypeError('a commit without a fence says what its rows and timers were decided on');
}

/** With the key under which the row stands. */
export type NamedSeen = Seen & { readonly name: string };

/** Throws a TypeError for a name that no row can have, and for a `seq` that is neither a sequence nor null. */
export const named = (seen: readonly Seen[]): NamedSeen[] =>
  seen.map((each) => {
    checkRow(each);
    if (each.seq !== null && !Number.isSafeInteger(each.seq))
      throw new TypeError('a row is seen by a sequence or null');
    return { ...each, name: rowKey(each) };
  });

/** Every key that begins with `prefix` (KEYS-1: it ends in a separator or in a field of fixed width). */
export function under(prefix: string): Range {
  const last = prefix.length - 1;
  return { gte: prefix, lt: prefix.slice(0, last) + String.fromCharCode(prefix.charCodeAt(last) + 1) };
}

/** Keys of ours, and whatever damage made of them. */
export const EVERYTHING: Range = { gte: '\0', lt: '\u{10ffff}' };
/** Rows of a kind, or of one owner among them. */
export const rowsOf = (kind: string, owner?: string): Range =>
  under(`o/${kind}${NUL}${owner === undefined ? '' : `${owner}${NUL}`}`);
export const DUE: Range = under(`t/${LOG}`);
/** The index entries of one stream or correlation id behind a place, in order. */
export const indexFrom = (space: 's' | 'c', name: string, after: Seq): Range => ({
  gte: `${space}/${name}${NUL}${place(after + 1)}`,
  lt: under(`${space}/${name}${NUL}`).lt,
});
/** Keys made by `make` for the sequences `from` to `to`, both included. */
export const between = (make: (seq: Seq) => string, from: Seq, to: Seq): Range => ({
  gte: make(from),
  lt: make(Math.min(to, Number.MAX_SAFE_INTEGER - 1) + 1),
});

/** Last field of event, index and delivery keys. */
export const seqOf = (key: string): Seq => Number.parseInt(key.slice(-SEQ_DIGITS), 16);
/** Receiver of a delivery key. */
export const destOf = (key: string): string => key.slice(2, -PLACE_DIGITS - 1);
/** Receiver of a floor key. */
export const floorOf = (key: string): string => key.slice(2, -LOG.length - 1);
export const dueNameOf = (key: string): string => key.slice(2 + LOG.length);

export function rowKeyOf(key: string): RowKey {
  const [kind = '', owner = '', id = ''] = key.slice(2).split(NUL);
  return { kind, owner, id };
}

const REFUSED_IN_NAMES = /[\0\p{Surrogate}]/u;
const REFUSED_IN_TEXT = /\p{Surrogate}/u;

/** KEYS-1, KEYS-3: throws a TypeError for a name that could collide with another. */
export function checkName(what: string, name: string): void {
  if (REFUSED_IN_NAMES.test(name)) throw new TypeError(`${what} holds U+0000 or an unpaired surrogate`);
}

export function checkRow({ kind, owner, id }: RowKey): void {
  checkName('kind', kind);
  checkName('owner', owner);
  checkName('id', id);
}

/** Text is stored byte for byte, and an unpaired surrogate has no bytes. */
export function checkText(what: string, text: string): void {
  if (REFUSED_IN_TEXT.test(text)) throw new TypeError(`${what} holds an unpaired surrogate`);
}
