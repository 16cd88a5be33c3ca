/**
 * Which of many names may stand in a text, in time that grows with the text and not with the number of names: the few that may
 * are then searched for exactly (`person.ts`).
 *
 * NAME-SEARCH-1  No name is missed that stands in the text in any case, as JSON escapes, as JSON within JSON or percent-encoded. One that
 *     does not stand there may be given as well.
 */

/** Names of one class of length: a short one would make the window of all others short, and so of little use. */
interface Group {
  /** Length of the shortest. */
  readonly window: number;
  /** Weight of the first character of a window in its hash. */
  readonly top: number;
  /** Lengths of those that begin with this window, by its hash. */
  readonly lengths: ReadonlyMap<number, readonly number[]>;
}

/** The longest name of each class. */
const classes = [3, 7, 11, Number.POSITIVE_INFINITY];
const base = 0x01000193;

/** Returns the names that may stand in a text, in the order in which they were given. */
export function nameSearch(names: readonly string[]): (text: string) => readonly string[] {
  const places = new Map<string, Set<number>>();
  for (const [place, name] of names.entries()) {
    for (const form of new Set([folded(name), folded(name.replaceAll('\\', '')), plain(name)])) {
      if (form !== '') places.set(form, (places.get(form) ?? new Set()).add(place));
    }
  }
  const groups = classes.flatMap((longest, i) => groupOf([...places.keys()], (classes[i - 1] ?? 0) + 1, longest));
  const collect = (text: string, found: Set<number>) => {
    for (const group of groups)
      for (const form of formsIn(text, group, places)) for (const place of places.get(form) ?? []) found.add(place);
  };
  return (text) => {
    const found = new Set<number>();
    collect(folded(text), found);
    if (/[\\%]/.test(text)) collect(plain(text), found);
    return [...found].sort((a, b) => a - b).map((place) => names[place] ?? '');
  };
}

function groupOf(forms: readonly string[], shortest: number, longest: number): Group[] {
  const those = forms.filter(({ length }) => length >= shortest && length <= longest);
  if (those.length === 0) return [];
  const window = Math.min(...those.map(({ length }) => length));
  const lengths = new Map<number, number[]>();
  for (const form of those) {
    const hash = hashOf(form, window);
    const known = lengths.get(hash) ?? [];
    if (!known.includes(form.length)) known.push(form.length);
    lengths.set(hash, known);
  }
  let top = 1;
  for (let i = 1; i < window; i++) top = Math.imul(top, base);
  return [{ window, top, lengths }];
}

function hashOf(text: string, length: number): number {
  let hash = 0;
  for (let i = 0; i < length; i++) hash = (Math.imul(hash, base) + text.charCodeAt(i)) | 0;
  return hash;
}

/** Moves a window over the text, whose hash follows from the one before. */
function formsIn(text: string, { window, top, lengths }: Group, forms: ReadonlyMap<string, unknown>): Set<string> {
  const found = new Set<string>();
  if (text.length < window) return found;
  let hash = hashOf(text, window);
  for (let start = 0; ; start++) {
    for (const length of lengths.get(hash) ?? []) {
      const form = text.slice(start, start + length);
      if (forms.has(form)) found.add(form);
    }
    const end = start + window;
    if (end >= text.length) return found;
    const rest = (hash - Math.imul(top, text.charCodeAt(start))) | 0;
    hash = (Math.imul(rest, base) + text.charCodeAt(end)) | 0;
  }
}

/** One text for all that a pattern without regard to case takes as equal. */
const folded = (text: string): string => text.toLowerCase().toUpperCase();

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const bytesOf = (encoded: string) => Uint8Array.from(encoded.slice(1).split('%'), (byte) => Number.parseInt(byte, 16));

/** A run of backslashes counts once: a search that began again at each of them would take time by the square of its length. */
const unicodeEscape = /(?<!\\)\\+u([0-9a-f]{4})/gi;

/** Without any escape: what they stand for, and no backslash. */
function plain(text: string): string {
  const decoded = text
    .replace(/(?:%[0-9a-f]{2})+/gi, (bytes) => decoder.decode(bytesOf(bytes)))
    .replace(unicodeEscape, (_, unit: string) => String.fromCharCode(Number.parseInt(unit, 16)));
  return folded(decoded.replaceAll('\\', ''));
}
