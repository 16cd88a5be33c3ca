/**
 * Sortable keys: the one place that knows how the database is laid out.
 *
 * K1  Every name in a key is followed by U+0000 or by the end of the key, and no name may hold U+0000: so two different
 *     names never make the same key, none escapes its space, and (a, b) sorts as the pair does.
 * K2  Numbers are hexadecimal of fixed width, so that the order of bytes is the order of numbers.
 * K3  Keys sort by the bytes of UTF-8, which is by code point. An unpaired surrogate has no UTF-8 form (two of them would
 *     become the same U+FFFD) and is refused.
 *
 *     e/ shard seq                      event            o/ kind 0 owner 0 id              row
 *     s/ stream 0 shard seq             index by stream  c/ correlation id 0 shard seq     index by correlation id
 *     p/ dest 0 shard seq               open delivery    d/ dest 0 shard seq               remembered success
 *     f/ dest 0 shard                   floor            t/ shard key                      due time
 *     m/ name                           the store's own
 */
import type { RowKey, Seq, Shard } from './contract.ts';

export interface Range {
  readonly gte: string;
  readonly lt: string;
}

const NUL = '\0';
const SHARD_DIGITS = 2;
/** 2^53, the largest sequence that a number holds exactly, has 14 hexadecimal digits. */
const SEQ_DIGITS = 14;
const PLACE_DIGITS = SHARD_DIGITS + SEQ_DIGITS;

export const FENCE_KEY = 'm/fence';
export const HORIZON_KEY = 'm/horizon';
/** Written only so that a synced write happens. */
export const FLUSH_KEY = 'm/flush';

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0');

/** The last place that was asked for: an event stands in several keys. */
let placed: readonly [shard: Shard, seq: Seq, text: string] = [0, 0, hex(0, PLACE_DIGITS)];

function place(shard: Shard, seq: Seq): string {
  if (placed[0] !== shard || placed[1] !== seq) placed = [shard, seq, hex(shard, SHARD_DIGITS) + hex(seq, SEQ_DIGITS)];
  return placed[2];
}

export const eventKey = (shard: Shard, seq: Seq): string => `e/${place(shard, seq)}`;
export const rowKey = (key: RowKey): string => `o/${key.kind}${NUL}${key.owner}${NUL}${key.id}`;
export const streamKey = (stream: string, shard: Shard, seq: Seq): string => `s/${stream}${NUL}${place(shard, seq)}`;
export const correlationKey = (id: string, shard: Shard, seq: Seq): string => `c/${id}${NUL}${place(shard, seq)}`;
export const openKey = (dest: string, shard: Shard, seq: Seq): string => `p/${dest}${NUL}${place(shard, seq)}`;
export const deliveredKey = (dest: string, shard: Shard, seq: Seq): string => `d/${dest}${NUL}${place(shard, seq)}`;
export const floorKey = (dest: string, shard: Shard): string => `f/${dest}${NUL}${hex(shard, SHARD_DIGITS)}`;
export const dueKey = (shard: Shard, key: string): string => `t/${hex(shard, SHARD_DIGITS)}${key}`;

/** Every key that begins with `prefix` (K1: it ends in a separator or in a field of fixed width). */
export function under(prefix: string): Range {
  const last = prefix.length - 1;
  return { gte: prefix, lt: prefix.slice(0, last) + String.fromCharCode(prefix.charCodeAt(last) + 1) };
}

/** Keys of ours, and whatever damage made of them. */
export const EVERYTHING: Range = { gte: '\0', lt: '\u{10ffff}' };
/** Rows of a kind, or of one owner among them. */
export const rowsOf = (kind: string, owner?: string): Range =>
  under(`o/${kind}${NUL}${owner === undefined ? '' : `${owner}${NUL}`}`);
export const dueOf = (shard: Shard): Range => under(`t/${hex(shard, SHARD_DIGITS)}`);
/** The index entries of one stream or correlation id behind a place, in order. */
export const indexFrom = (space: 's' | 'c', name: string, shard: Shard, after: Seq): Range => ({
  gte: `${space}/${name}${NUL}${place(shard, after + 1)}`,
  lt: under(`${space}/${name}${NUL}`).lt,
});
/** Keys made by `make` for the sequences `from` to `to`, both included. */
export const between = (make: (seq: Seq) => string, from: Seq, to: Seq): Range => ({
  gte: make(from),
  lt: make(Math.min(to, Number.MAX_SAFE_INTEGER - 1) + 1),
});

/** Last field of event, index and delivery keys. */
export const seqOf = (key: string): Seq => Number.parseInt(key.slice(-SEQ_DIGITS), 16);
export const shardOf = (key: string): Shard => Number.parseInt(key.slice(-PLACE_DIGITS, -SEQ_DIGITS), 16);
/** Receiver of a delivery key. */
export const destOf = (key: string): string => key.slice(2, -PLACE_DIGITS - 1);
/** Receiver and shard of a floor key. */
export const floorOf = (key: string): { dest: string; shard: Shard } => ({
  dest: key.slice(2, -SHARD_DIGITS - 1),
  shard: Number.parseInt(key.slice(-SHARD_DIGITS), 16),
});
export const dueNameOf = (key: string): string => key.slice(2 + SHARD_DIGITS);

export function rowKeyOf(key: string): RowKey {
  const [kind = '', owner = '', id = ''] = key.slice(2).split(NUL);
  return { kind, owner, id };
}

const REFUSED_IN_NAMES = /[\0\p{Surrogate}]/u;
const REFUSED_IN_TEXT = /\p{Surrogate}/u;

/** K1, K3: throws a TypeError for a name that could collide with another. */
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
