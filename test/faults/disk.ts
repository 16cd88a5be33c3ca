/**
 * A disk that can lose power: fed with the system calls of a traced process, it knows what a directory must hold after a power
 * cut and what it may hold.
 *
 * TEST-DISK-1  What a file held when a sync of it began is there once that sync has ended. Of what was written later anything may be
 *     there: all, nothing, the beginning, nothings in its place, rubbish, some sectors and not others.
 * TEST-DISK-2  Names (made, renamed, removed) are there once their directory was synced. Of the later ones the first so many are
 *     there: file systems keep their order. A file whose name is not there is lost, however well it was synced.
 * TEST-DISK-3  A sync of a file says nothing about its name. Some file systems are kinder; the store may not rely on it.
 */
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import type { Random } from './random.ts';

type Change = { readonly at: number; readonly data: Buffer } | { readonly size: number };
/** Names that change together: a rename is one. */
type Naming = readonly (readonly [name: string, file: File | null])[];

interface File {
  readonly changes: Change[];
  /** As a process sees it. */
  size: number;
  /** So many changes are on the disk. */
  synced: number;
}

interface Directory {
  readonly namings: Naming[];
  synced: number;
}

export interface Call {
  readonly process: string;
  readonly name: string;
  /** Paths and data, in order of the arguments. */
  readonly texts: readonly Buffer[];
  /** Of the file descriptor that it is about. */
  readonly path: string;
  readonly line: string;
}

/** What fills the space of lost data. */
type Loss = 'kept' | 'dropped' | 'cut' | 'zeroed' | 'garbled' | 'sectors';
const losses: readonly Loss[] = ['kept', 'dropped', 'cut', 'cut', 'zeroed', 'garbled', 'sectors'];
const sectorBytes = 512;

export class Disk {
  readonly #root: string;
  readonly #directories = new Map<string, Directory>();
  /** What a process sees, by path below the root. */
  readonly #files = new Map<string, File>();
  /** Files that a sync under way will have synced, by process. */
  readonly #syncing = new Map<string, () => void>();

  /** `root` is where the process works; `from` holds what is on the disk there when it begins. Files `without` are no part. */
  constructor(root: string, from: string, without: ReadonlySet<string> = new Set()) {
    this.#root = root;
    this.#learn(from, '', without);
  }

  #learn(from: string, path: string, without: ReadonlySet<string>): void {
    const directory: Directory = { namings: [], synced: 0 };
    this.#directories.set(path, directory);
    for (const name of readdirSync(join(from, path)).filter((file) => !without.has(file))) {
      const inner = join(path, name);
      if (statSync(join(from, inner)).isDirectory()) this.#learn(from, inner, without);
      else this.#name([inner, fileWith(readFileSync(join(from, inner)))]);
    }
    directory.synced = directory.namings.length;
  }

  /** A call that began. Only calls that succeeded may be told. */
  began({ name, texts, path, line, process }: Call): void {
    const below = this.#below(path);
    const file = this.#files.get(below);
    const told = this.#below(texts[0]?.toString() ?? '');
    if (name === 'openat' && line.includes('O_CREAT')) this.#made(told, line.includes('O_TRUNC'));
    else if (name === 'mkdir' && !this.#directories.has(told) && this.#directoryOf(told))
      this.#directories.set(told, { namings: [], synced: 0 });
    else if (name === 'write' && file) change(file, { at: file.size, data: texts[0] ?? Buffer.alloc(0) });
    else if (name === 'pwrite64' && file)
      change(file, { at: numberIn(line, /"", \d+, (\d+)/), data: texts[0] ?? Buffer.alloc(0) });
    else if (name === 'ftruncate' && file) change(file, { size: numberIn(line, />, (\d+)/) });
    else if (name === 'rename') this.#renamed(told, this.#below(texts[1]?.toString() ?? ''));
    else if (name === 'unlink') this.#name([told, null]);
    else if (name === 'fsync' || name === 'fdatasync') this.#syncing.set(process, this.#syncOf(below));
  }

  /** A call of this process ended well. */
  ended(process: string): void {
    this.#syncing.get(process)?.();
    this.#syncing.delete(process);
  }

  /** Names that a power cut now may take away. */
  get namesAtRisk(): number {
    return [...this.#directories.values()].reduce((sum, { namings, synced }) => sum + namings.length - synced, 0);
  }

  /** Files that are there, as a process sees them, with whether a power cut now may take something of what they hold. */
  *files(): Iterable<{ readonly path: string; readonly isAtRisk: boolean; readonly isSynced: boolean }> {
    for (const [path, { changes, synced }] of this.#files)
      yield { path, isAtRisk: synced < changes.length, isSynced: synced > 0 };
  }

  /** Writes what a power cut now may have left into an empty directory. Says what was lost of which file. */
  cut(target: string, random: Random): string[] {
    const said: string[] = [];
    for (const [path, { namings, synced }] of this.#directories) {
      const unsynced = namings.length - synced;
      const kept = synced + random.pick([unsynced, unsynced, 0, random.below(unsynced + 1)]);
      const lost = namings.slice(kept).flat();
      if (lost.length > 0) said.push(`${path}/ lost ${lost.map(([name, file]) => `${file ? '+' : '-'}${name}`)}`);
      const names = new Map(namings.slice(0, kept).flat());
      mkdirSync(join(target, path), { recursive: true });
      for (const [name, file] of names) {
        if (!file) continue;
        const loss = random.pick(losses);
        if (file.synced < file.changes.length) said.push(`${name} ${loss} of ${file.changes.length - file.synced}`);
        writeFileSync(join(target, path, name), contentOf(file, loss, random));
      }
    }
    return said;
  }

  #below(path: string): string {
    return path.startsWith(`${this.#root}/`) ? relative(this.#root, path) : path === this.#root ? '' : '/elsewhere';
  }

  #directoryOf(path: string): Directory | undefined {
    const above = dirname(path);
    return this.#directories.get(above === '.' ? '' : above);
  }

  #name(...names: readonly (readonly [path: string, file: File | null])[]): void {
    const directory = this.#directoryOf(names[0]?.[0] ?? '');
    directory?.namings.push(names.map(([path, file]) => [basename(path), file]));
    for (const [path, file] of names) {
      if (file && directory) this.#files.set(path, file);
      else this.#files.delete(path);
    }
  }

  #made(path: string, isCleared: boolean): void {
    const file = this.#files.get(path);
    if (!file) this.#name([path, { changes: [], size: 0, synced: 0 }]);
    else if (isCleared) change(file, { size: 0 });
  }

  #renamed(from: string, to: string): void {
    const file = this.#files.get(from);
    if (!file) return;
    this.#name([from, null], [to, file]);
  }

  #syncOf(path: string): () => void {
    const synced = this.#files.get(path) ?? this.#directories.get(path);
    if (!synced) return () => {};
    const upTo = 'changes' in synced ? synced.changes.length : synced.namings.length;
    return () => {
      synced.synced = Math.max(synced.synced, upTo);
    };
  }
}

const numberIn = (line: string, pattern: RegExp) => Number(pattern.exec(line)?.[1]);

const fileWith = (data: Buffer): File => ({ changes: [{ at: 0, data }], size: data.length, synced: 1 });

function change(file: File, made: Change): void {
  file.changes.push(made);
  file.size = 'size' in made ? made.size : Math.max(file.size, made.at + made.data.length);
}

function apply(changes: readonly Change[]): Buffer {
  const sizes = changes.map((change) => ('size' in change ? change.size : change.at + change.data.length));
  const content = Buffer.alloc(Math.max(0, ...sizes));
  let size = 0;
  for (const change of changes) {
    if ('size' in change) {
      content.fill(0, change.size);
      size = change.size;
    } else {
      change.data.copy(content, change.at);
      size = Math.max(size, change.at + change.data.length);
    }
  }
  return content.subarray(0, size);
}

/** TEST-DISK-1. */
function contentOf({ changes, synced }: File, loss: Loss, random: Random): Buffer {
  const later = changes.slice(synced);
  const sure = changes.slice(0, synced);
  if (loss === 'kept' || later.length === 0) return apply(changes);
  if (loss === 'dropped') return apply(sure);
  const some = later.slice(0, 1 + random.below(later.length));
  if (loss === 'cut') {
    const last = some.pop();
    if (last && 'data' in last)
      some.push({ at: last.at, data: last.data.subarray(0, random.below(last.data.length + 1)) });
    return apply([...sure, ...some]);
  }
  const spoilt = later.map((change): Change => {
    if ('size' in change) return change;
    const data = Buffer.from(change.data);
    if (loss === 'sectors') spoilSectors(data, random);
    else spoil(data, loss, random);
    return { at: change.at, data };
  });
  return apply([...sure, ...spoilt]);
}

function spoil(data: Buffer, loss: Loss, random: Random): void {
  for (let at = random.below(data.length + 1); at < data.length; at += 1) {
    data[at] = loss === 'zeroed' ? 0 : random.below(256);
  }
}

function spoilSectors(data: Buffer, random: Random): void {
  for (let at = 0; at < data.length; at += sectorBytes) {
    if (random.happens(0.3)) data.fill(0, at, Math.min(data.length, at + sectorBytes));
  }
}
