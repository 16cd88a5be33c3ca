/** Bit rot: one file of a directory, changed in one place. */
import { copyFileSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { dealt, type Random } from './random.ts';

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

/**
 * Makes copies of a directory, each with one file spoilt: every kind of file with a flipped bit, then every kind with zeros, and so on.
 * What lies at the top comes first; else order, file and place are chance.
 */
export function spoiler(directory: string, random: Random): (copy: string) => Spoilt {
  const files = filesOf(directory);
  const kindsOf = (paths: readonly string[]) => [...new Set(paths.map(kindOf))].sort();
  const [top, below] = [kindsOf(files.filter(isTop)), kindsOf(files.filter((path) => !isTop(path)))];
  const rest = dealt(random, below);
  const kinds = [...top, ...below.map(() => rest())];
  let spoilt = 0;
  return (copy) => {
    const kind = kinds[spoilt % kinds.length] ?? '';
    const way = Object.keys(ways)[Math.floor(spoilt / kinds.length) % Object.keys(ways).length] ?? '';
    spoilt += 1;
    return spoiltCopy(directory, copy, random, { way, kind, files });
  };
}

const isTop = (path: string) => dirname(path) === '.';

interface Chosen {
  readonly way: string;
  readonly kind: string;
  readonly files: readonly string[];
}

function spoiltCopy(directory: string, copy: string, random: Random, { way, kind, files }: Chosen): Spoilt {
  const chosen = random.pick(files.filter((path) => kindOf(path) === kind));
  for (const path of files) {
    mkdirSync(dirname(join(copy, path)), { recursive: true, mode: 0o700 });
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
