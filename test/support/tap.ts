/**
 * The test in which a file of tests stands: the process's own when the file is run alone, one named after it where an entry runs a whole
 * folder in one process. Hooks and teardowns of a file thus end with it.
 */
import './no-async-hooks.ts';
import './plugin-names.ts';
import processOnSpawn from 'process-on-spawn';
import root, { type Test } from 'tap';
import { figures } from './figures.ts';
import { isAtLength } from './share.ts';

export type { Test };

// The runner has every process that a test starts load modules of its own, which takes longer than the hub: what is started starts as it
// does for its users.
processOnSpawn.removeAllListeners();

/** A live binding: files read it while they are loaded, and one is loaded at a time. */
export let t: Test = root;

/** Tests share options, and a runner that filters by title writes into them what it does with a test: each gets a copy. */
function withOwnOptions(file: Test): Test {
  const run = file.test.bind(file) as (...given: unknown[]) => unknown;
  const copied = (given: unknown): unknown => (typeof given === 'object' && given !== null ? { ...given } : given);
  return Object.assign(file, { test: (...given: unknown[]) => run(...given.map(copied)) });
}

withOwnOptions(root);

/** There only so that a test that hangs ends; of a whole run there is the runner's own. */
const limitMs = 3_600_000;
root.setTimeout(limitMs);

/** What nobody catches fails the file that runs: without async hooks the runner cannot tell the subtest. */
const threw = (error: unknown) => void t.threw(error instanceof Error ? error : new Error(String(error)));
process.on('uncaughtException', threw);
process.on('unhandledRejection', threw);

/** What all tests of a file share, made for the first of them that asks. It ends with the file. */
export function shared<T>(make: (file: Test) => T): () => T {
  const file = t;
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make(file) };
    return made.value;
  };
}

const closings: (() => unknown)[] = [];

/** Closes what all files of this process share, once the last of them has ended. */
export function closeAtEnd(close: () => unknown): void {
  if (t === root) root.teardown(close);
  else closings.push(close);
}

/** Of an entry that has run all of its files: a teardown of the process's own test would end that test between two files. */
export async function closeShared(): Promise<void> {
  for (const close of closings.splice(0)) await close();
}

/** Runs a file of tests as one test; resolves when all of it has ended. */
export async function runFile(name: string, load: () => Promise<unknown>): Promise<void> {
  await root.test(name, async (file) => {
    t = withOwnOptions(file);
    file.setTimeout(limitMs);
    if (isAtLength) nameLeft(file);
    await load();
  });
}

/** Names the tests below one that `npm test` leaves to the campaign, for its report. */
function nameLeft(test: Test, seen = new Set<unknown>()): void {
  test.on('subtestAdd', (added) => {
    if (seen.has(added)) return;
    seen.add(added);
    const below = added as Test;
    if ((below.options as { isLeft?: true }).isLeft) figures('left', { [below.fullname]: 1 });
    nameLeft(below, seen);
  });
}
