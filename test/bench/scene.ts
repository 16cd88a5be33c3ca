/** A built hub in a process of its own, on a directory that is removed afterwards, with partners of the bench's. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ChildHub, startChildHub } from '../support/child-hub.ts';

export interface Scene {
  readonly hub: ChildHub;
  readonly end: () => Promise<void>;
}

export async function scene(env: Readonly<Record<string, string>> = {}): Promise<Scene> {
  const dataDir = mkdtempSync(join(tmpdir(), 'ocpi-hub-bench-'));
  const rates = { HUB_RATE_OTHER_PER_MIN: '100000000', HUB_RATE_LISTS_PER_MIN: '1000000' };
  const hub = await startChildHub({ dataDir, port: 0, env: { ...rates, ...env } });
  const end = async () => {
    await hub.kill();
    rmSync(dataDir, { recursive: true, force: true });
  };
  return { hub, end };
}

/** Resident memory of a process now, MiB. */
export function residentMiB(pid: number): number {
  const [, kib = '0'] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib) / 1024;
}
