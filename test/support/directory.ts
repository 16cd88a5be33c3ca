/**
 * A directory of a test's own, for what goes on writing until the test is torn down. It is removed after everything that was torn
 * down later was asked for: hubs that were started on it are closed by then. (`t.testdir` is removed before.)
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from './tap.ts';

export function directoryFor(t: Pick<Test, 'teardown'>): string {
  const directory = mkdtempSync(join(tmpdir(), 'ocpi-hub-test-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}
