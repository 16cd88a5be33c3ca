/**
 * A directory of a test's own, for what goes on writing until the test is torn down. It is removed after everything that was torn
 * down later was asked for: hubs that were started on it are closed by then. (`t.testdir` is removed before.)
 */
import { chmodSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from './tap.ts';

export function directoryFor(t: Pick<Test, 'teardown'>): string {
  const directory = mkdtempSync(join(tmpdir(), 'ocpi-hub-test-'));
  // Not in this thread: each file that is unlinked waits for the disk's journal, where others sync.
  t.teardown(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}

/** Copies a directory in which a store may be open: LevelDB removes a file that it needs no more while it is copied. */
export function copyOfRunning(from: string, to: string): void {
  for (;;) {
    try {
      return cpSync(from, to, { recursive: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      rmSync(to, { recursive: true, force: true });
    }
  }
}

/** Copies a data directory, as a kill at this moment would leave it. From Node 22 on `cpSync` opens directories to others. */
export function copyDataDirectory(from: string, to: string): void {
  copyOfRunning(from, to);
  chmodSync(to, 0o700);
}
