/**
 * Hub nodes on one schema, of which the first is the owner, and partners: of each pair a CPO that pushes to its eMSP.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../src/sandbox/free-port.ts';
import { adminToken, settingsOf, untilJoined } from '../cluster/nodes.ts';
import { type ChildHub, startChildHub } from '../support/child-hub.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { cpuS, undoAtExit } from './processes.ts';
import { register } from './scene.ts';

/** CPOs, and as many eMSPs. */
export const pairsOfAll = 36;

/** The longest there is: what stands still while others are measured stays the owner. */
const leaseS = '300';
const registeredAtOnce = 4;
const forgottenMs = 1200;

export interface Pair {
  readonly cpo: string;
  readonly emsp: string;
  /** Value of the CPO's `Authorization` header. */
  readonly authorization: string;
}

export interface Cluster {
  /** The owner's is the first. */
  readonly urls: readonly string[];
  readonly pids: readonly number[];
  readonly pairs: readonly Pair[];
  /** All nodes stand still, or go on. */
  freeze(): void;
  thaw(): Promise<void>;
  end(): Promise<void>;
}

/** `receivers`: where eMSPs listen, and CPOs too, one for each pair. */
export async function startCluster(
  server: PostgresServer,
  count: number,
  receivers: readonly string[],
): Promise<Cluster> {
  const schema = `nodes${count}`;
  const ports = await Promise.all(Array.from({ length: count }, freePort));
  const urls = ports.map((port) => `http://127.0.0.1:${port}`);
  const [first = ''] = urls;
  // Probes that became due while all stood still would be made in the first seconds of a round.
  const env = { HUB_RATE_OTHER_PER_MIN: '100000000', HUB_LEASE_S: leaseS, HUB_PROBE_INTERVAL_S: '3600' };
  const hubs: { hub: ChildHub; settled: () => void }[] = [];
  for (const port of ports) {
    const settings = settingsOf(first, port, server.url(schema), env);
    const hub = await startChildHub({ dataDir: '/nowhere', port, env: settings });
    hubs.push({ hub, settled: undoAtExit(() => process.kill(hub.pid, 'SIGKILL')) });
  }
  await untilJoined(urls.map((url) => ({ url })));
  const pids = hubs.map(({ hub }) => hub.pid);
  return {
    ...{ urls, pids },
    pairs: await pairsOf(first, receivers),
    freeze: () => signal(pids, 'SIGSTOP'),
    async thaw() {
      signal(pids, 'SIGCONT');
      // Its event loop was late by as long as it stood still: it refuses what comes until that is forgotten.
      await new Promise((resolve) => setTimeout(resolve, forgottenMs));
      await eventually('every node answers', async () => {
        const answers = await Promise.all(urls.map((url) => fetch(`${url}/readyz`)));
        return answers.every(({ status }) => status === 200);
      });
    },
    async end() {
      for (const { hub, settled } of hubs) {
        settled();
        await hub.kill();
      }
    },
  };
}

async function pairsOf(url: string, receivers: readonly string[]): Promise<Pair[]> {
  const hub = { url, adminToken };
  const wanted = receivers.map((receiver, i) => {
    const place = i.toString(36).padStart(2, '0').toUpperCase();
    return { receiver, cpo: `C${place}`, emsp: `E${place}` };
  });
  const pairs: Pair[] = [];
  while (wanted.length > 0) {
    const some = wanted.splice(0, registeredAtOnce);
    const registered = some.map(async ({ receiver, cpo, emsp }): Promise<Pair> => {
      const authorization = await register(hub, { role: 'CPO', partyId: cpo, url: receiver });
      await register(hub, { role: 'EMSP', partyId: emsp, url: receiver });
      await admin(hub, 'PUT', `/routes/NL-${emsp}/NL-${cpo}`, { active: true });
      return { cpo, emsp, authorization };
    });
    pairs.push(...(await Promise.all(registered)));
  }
  return pairs;
}

function signal(pids: readonly number[], name: NodeJS.Signals): void {
  for (const pid of pids) process.kill(pid, name);
}

/** Seconds of CPU that a server has taken. One of its workers may end between the list of them and the look at it. */
export function serverS(server: PostgresServer): number {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return cpuS(...processesOf(server));
    } catch (error) {
      if (attempt === 10) throw error;
    }
  }
}

/** Of a server: its first process, and those that it has started. */
export function processesOf(server: PostgresServer): number[] {
  const [pid = ''] = readFileSync(join(server.directory, 'postmaster.pid'), 'utf8').split('\n');
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return [pid, ...children.split(' ')].filter(Boolean).map(Number);
}
