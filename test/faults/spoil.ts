/** Bit rot: one file of a directory, changed in one place. */
import { copyFileSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Random } from './random.ts';

type Way = (bytes: Buffer, random: Random) => Buffer;

const rangeMax = 4096;

const ways: Readonly<Record<string, Way>> = {
  flip(bytes, random) {
    const at = random.below(bytes.length);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
    return bytes;
  },
  zero(bytes, random) {
    const at = random.below(bytes.length);
    return bytes.fill(0, at, Math.min(bytes.length, at + 1 + random.below(rangeMax)));
  },
  garble(bytes, random) {
    const from = random.below(bytes.length);
    const to = Math.min(bytes.length, from + 1 + random.below(rangeMax));
    for (let at = from; at < to; at += 1) bytes[at] = random.below(256);
    return bytes;
  },
  truncate: (bytes, random) => bytes.subarray(0, random.below(bytes.length)),
};

/** `000123.ldb` and `000456.ldb` are of one kind. */
const kindOf = (path: string) => basename(path).replace(/\d+/, '…');

export interface Spoilt {
  /** File, way and kind of file, for people. */
  readonly what: string;
  readonly kind: string;
}

/** Files below a directory, empty ones aside. */
function filesOf(directory: string, below = ''): string[] {
  return readdirSync(join(directory, below), { withFileTypes: true }).flatMap((entry) => {
    const path = join(below, entry.name);
    if (entry.isDirectory()) return filesOf(directory, path);
    return statSync(join(directory, path)).size > 0 ? [path] : [];
  });
}

/** Makes a copy of a directory with one file spoilt: a kind of file by chance, then a file of that kind. */
export function spoiltCopy(directory: string, copy: string, random: Random): Spoilt {
  const files = filesOf(directory);
  const kind = random.pick([...new Set(files.map(kindOf))].sort());
  const chosen = random.pick(files.filter((path) => kindOf(path) === kind));
  const way = random.pick(Object.keys(ways));
  for (const path of files) {
    mkdirSync(dirname(join(copy, path)), { recursive: true });
    // Room only, large, and never written in place.
    if (basename(path) === 'ballast') linkSync(join(directory, path), join(copy, path));
    else copyFileSync(join(directory, path), join(copy, path));
  }
  const target = join(copy, chosen);
  const bytes = ways[way]?.(readFileSync(join(directory, chosen)), random) ?? Buffer.alloc(0);
  const { mode } = statSync(target);
  replace(target, bytes, mode);
  return { what: `${way} ${chosen}`, kind };
}

/** As a file of its own: the one that stands there may be linked. */
function replace(path: string, bytes: Buffer, mode: number): void {
  rmSync(path);
  writeFileSync(path, bytes, { mode });
}
