/**
 * A directory of a test's own, for what goes on writing until the test is torn down. It is removed after everything that was torn
 * down later was asked for: hubs that were started on it are closed by then. (`t.testdir` is removed before.)
 */
import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from './tap.ts';

/** Linux keeps these files in memory: a sync of one takes no time, and hubs of tests sync every write. */
const inMemory = '/dev/shm';
/** More than all tests that run at a time hold; a container has 64 MiB unless it is given more. */
const roomMinBytes = 4 * 1024 ** 3;

const parent = process.env.TMPDIR === undefined && hasRoom() ? inMemory : tmpdir();

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(inMemory);
    return bavail * bsize >= roomMinBytes;
  } catch {
    return false;
  }
}

export function directoryFor(t: Pick<Test, 'teardown'>): string {
  const directory = mkdtempSync(join(parent, 'ocpi-hub-test-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}
