/**
 * Memoizes functions of texts that recur, such as tokens, headers and origins: partners are few and call often; and keeps
 * maps small.
 *
 * MEMO-1  Memory is bounded, because partners choose the texts: a long text is not kept, and a memo that is full
 *     forgets everything and learns again what recurs.
 * MEMO-2  A map that `keepNewest` fills holds at most `most` keys: it forgets the one that was kept longest ago.
 */

const resultsMax = 10_000;
/** Characters of a text whose result is kept. */
const lengthMax = 256;

/** `work` must be pure; a result that it throws is not kept. */
export function memoized<T extends NonNullable<unknown> | null>(work: (text: string) => T): (text: string) => T {
  const results = new Map<string, T>();
  return (text) => {
    const known = results.get(text);
    if (known !== undefined) return known;
    const result = work(text);
    if (text.length > lengthMax) return result;
    if (results.size >= resultsMax) results.clear();
    results.set(text, result);
    return result;
  };
}

/** Sets the value of a key, which becomes the newest. [MEMO-2] */
export function keepNewest<K, V>(map: Map<K, V>, key: K, value: V, most: number): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= most) return;
    map.delete(oldest);
  }
}

/** Adds to the count of a key and drops the entry at 0, so the map stays small. */
export function addTo<K>(counts: Map<K, number>, key: K, more: number): void {
  const now = (counts.get(key) ?? 0) + more;
  if (now === 0) counts.delete(key);
  else counts.set(key, now);
}
