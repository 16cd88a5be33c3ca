/**
 * A hub as its users have it: the built command in a process of its own, on a real port and a real directory.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { command } from './command.ts';
import { endWaits } from './within.ts';

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
  /** Told everything that it writes, to stdout and stderr alike. */
  readonly onOutput?: (text: string) => void;
  /** What is run, with its arguments; the built command when absent. Must become the hub's own process. */
  readonly run?: readonly string[];
}

/** A hub that is starting. */
export interface Starting {
  readonly pid: number;
  /** Rejects with the log when it ends before. */
  readonly listening: Promise<ChildHub>;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** Resolves when the process is gone, with its exit code. */
  readonly gone: Promise<number | null>;
}

export const builtHub: readonly string[] = [process.execPath, command, 'serve'];

/**
 * Resolves once the hub prints that it listens; rejects with its log when it ends before. One that ends afterwards without being told to
 * ends the waits of its test too.
 */
export async function startChildHub(options: ChildHubOptions): Promise<ChildHub> {
  const { listening, gone } = spawnChildHub(options);
  const hub = await listening;
  let isToEnd = false;
  const told = <T>(end: () => Promise<T>) => {
    isToEnd = true;
    return end();
  };
  void gone.then((code) => {
    if (!isToEnd) endWaits(new Error(`the hub ended by itself, exit code ${code}:\n${hub.log().slice(-4000)}`));
  });
  return { ...hub, kill: () => told(hub.kill), stop: () => told(hub.stop) };
}

/** For whoever kills a hub before it listens. */
export function spawnChildHub(options: ChildHubOptions): Starting {
  const { dataDir, port, env = {}, run = builtHub, onOutput = () => {} } = options;
  const [program = '', ...args] = run;
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH, HUB_PORT: String(port), HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'warn', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  // Not `exit`: whoever watches the process from outside holds its streams until all is written down.
  const exited = once(child, 'close');
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log = (log + text).slice(-200_000);
    onOutput(text);
  });
  child.stdout.setEncoding('utf8').on('data', onOutput);
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    await exited;
    return child.exitCode;
  };
  const kill = async () => void (await end('SIGKILL'));
  const pid = child.pid ?? 0;
  const up = listening(child, () => log).then((url): ChildHub => {
    child.stdout.resume();
    const adminToken = env.HUB_ADMIN_TOKEN ?? readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
    return { url, adminToken, pid, log: () => log, kill, stop: () => end('SIGTERM') };
  });
  return { pid, listening: up, kill, gone: exited.then(() => child.exitCode) };
}

async function listening(child: ChildProcess, log: () => string): Promise<string> {
  if (!child.stdout) throw new Error('the hub has no stdout');
  for await (const line of createInterface(child.stdout)) {
    const url = /^ocpi-hub listening on (\S+)$/.exec(line)?.[1];
    if (url) return url;
  }
  throw new Error(`the hub ended before it listened:\n${log()}`);
}
