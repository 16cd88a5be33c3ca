/**
 * A built hub in a process of its own, on a directory that is removed afterwards, and partners of the bench's that register with it.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callOnce } from '../support/caller.ts';
import { builtHub, type ChildHub, type ChildHubOptions, startChildHub } from '../support/child-hub.ts';
import { admin } from '../support/plain-partner.ts';
import { pinnedTo, undoAtExit } from './processes.ts';

export interface Scene {
  readonly hub: ChildHub;
  readonly end: () => Promise<void>;
}

/** Settings of the hub that whoever starts the bench has set count before ours. */
const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith('HUB_')));

/** A hub with the log at its default level, which hubs of tests have set higher: users pay for each line. */
export const startMeasuredHub = ({ env, ...options }: ChildHubOptions): Promise<ChildHub> =>
  startChildHub({ ...options, env: { HUB_LOG_LEVEL: 'info', ...env } });

/** For trials: flags of Node for every hub of this build that is measured, so that `--against` its own directory compares flags. */
export const triedFlags = (process.env.BENCH_NODE_FLAGS ?? '').split(' ').filter(Boolean);

/** The hub is stopped, not killed, in the end, so that what Node writes when it exits is there. */
export async function scene(
  env: Readonly<Record<string, string>> = {},
  nodeFlags: readonly string[] = [],
  build: readonly string[] = builtHub,
): Promise<Scene> {
  const { directory: dataDir, remove } = ownDirectory();
  const rates = { HUB_RATE_OTHER_PER_MIN: '100000000', HUB_RATE_LISTS_PER_MIN: '1000000' };
  const settings = { ...rates, ...env, ...own } as Record<string, string>;
  const [node = '', ...command] = build;
  const flags = build === builtHub ? triedFlags : [];
  const run = [...pinnedTo('measured'), node, ...flags, ...nodeFlags, ...command];
  const hub = await startMeasuredHub({ dataDir, port: 0, env: settings, run });
  const settled = undoAtExit(() => process.kill(hub.pid, 'SIGKILL'));
  const end = async () => {
    settled();
    await hub.stop();
    remove();
  };
  return { hub, end };
}

/** A directory of the bench's own, and how it is removed. */
export function ownDirectory(): { readonly directory: string; readonly remove: () => void } {
  const directory = mkdtempSync(join(tmpdir(), 'ocpi-hub-bench-'));
  const empty = () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  const settled = undoAtExit(empty);
  const remove = () => {
    settled();
    empty();
  };
  return { directory, remove };
}

export interface BenchParty {
  readonly role: 'CPO' | 'EMSP';
  /** Of the Netherlands. */
  readonly partyId: string;
  /** Where its receiver listens. */
  readonly url: string;
}

/** Registers a partner and gives the value of its `Authorization` header. */
export async function register(
  hub: Pick<ChildHub, 'url' | 'adminToken'>,
  { role, partyId, url }: BenchParty,
): Promise<string> {
  const party = { role, country_code: 'NL', party_id: partyId, business_details: { name: partyId } };
  const { initial_token } = await admin(hub, 'POST', '/parties', { roles: [party] });
  const header = (token: unknown) => `Token ${Buffer.from(String(token)).toString('base64')}`;
  const credentials = { token: `of-${partyId}`, url: `${url}/${role}/versions`, roles: [party] };
  const answer = await callOnce('POST', `${hub.url}/ocpi/2.2.1/credentials`, credentials, {
    Authorization: header(initial_token),
  });
  const { status_code, data } = JSON.parse(answer.text) as { status_code: number; data: { token: string } };
  if (status_code !== 1000) throw new Error(`registering ${partyId} was answered ${answer.status}/${status_code}`);
  return header(data.token);
}

type Status = { sequence: number; store: { state: string; verifying: object | null } };

/** Resolves with the sequence of the log once the hub has verified its whole store in the background. */
export async function verifiedWhole(hub: Pick<ChildHub, 'url' | 'adminToken'>): Promise<number> {
  for (;;) {
    const { sequence, store } = (await admin(hub, 'GET', '/status')) as Status;
    if (store.state !== 'open') throw new Error(`the store is ${store.state}`);
    if (store.verifying === null) return sequence;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

/** Resident memory of a process now, MiB. */
export function residentMiB(pid: number): number {
  const [, kib = '0'] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib) / 1024;
}
