/**
 * Chance from a seed: the same seed gives the same numbers on every machine. Parts that draw side by side fork a stream each, so
 * that one more draw in one of them does not move all the others.
 */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d = 1;
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
    [this.#a, this.#b, this.#c] = [hashOf(name, 1), hashOf(name, 2), hashOf(name, 3)];
    for (let n = 0; n < 12; n++) this.next();
  }

  fork(name: string): Random {
    return new Random(`${this.#name}/${name}`);
  }

  /** Uniform in 0…1, 1 excluded. (sfc32) */
  next(): number {
    const t = (this.#a + this.#b + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + t;
    return (t >>> 0) / 4294967296;
  }

  /** A whole number from `min` to `max`, both included. */
  between(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[Math.floor(this.next() * items.length)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  }

  weighted<T extends string>(weights: Readonly<Record<T, number>>): T {
    const entries = Object.entries<number>(weights);
    let at = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of entries) {
      at -= weight;
      if (at < 0) return name as T;
    }
    return entries[0]?.[0] as T;
  }
}

/** FNV-1a over the name and a salt. */
function hashOf(name: string, salt: number): number {
  let hash = 0x811c9dc5 ^ salt;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return hash | 0;
}
