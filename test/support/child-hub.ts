/**
 * A hub as its users have it: the built command in a process of its own, on a real port and a real directory.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface ChildHub {
  readonly url: string;
  readonly adminToken: string;
  readonly pid: number;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
  /** What it wrote to stderr so far. */
  readonly log: () => string;
}

export interface ChildHubOptions {
  readonly dataDir: string;
  readonly port: number;
  readonly env?: Readonly<Record<string, string>>;
}

const command = fileURLToPath(new URL('../../dist/bin/ocpi-hub.js', import.meta.url));

/** Resolves once the hub prints that it listens; rejects with its log when it ends before. */
export async function startChildHub({ dataDir, port, env = {} }: ChildHubOptions): Promise<ChildHub> {
  const child = spawn(process.execPath, [command, 'serve'], {
    env: { PATH: process.env.PATH, HUB_PORT: String(port), HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'warn', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log = (log + text).slice(-200_000);
  });
  const url = await listening(child, () => log);
  const adminToken = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
  const end = async (signal: NodeJS.Signals) => {
    const gone = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : null;
    child.kill(signal);
    await gone;
    return child.exitCode;
  };
  return {
    ...{ url, adminToken, pid: child.pid ?? 0, log: () => log },
    kill: async () => void (await end('SIGKILL')),
    stop: () => end('SIGTERM'),
  };
}

async function listening(child: ChildProcess, log: () => string): Promise<string> {
  if (!child.stdout) throw new Error('the hub has no stdout');
  for await (const line of createInterface(child.stdout)) {
    const url = /^ocpi-hub listening on (\S+)$/.exec(line)?.[1];
    if (url) return url;
  }
  throw new Error(`the hub ended before it listened:\n${log()}`);
}

/** A port that was free a moment ago: a hub that restarts has to keep its address. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
