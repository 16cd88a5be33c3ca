/**
 * The built command in a process of its own, as people and scripts run it: what it prints, apart by stream, and how it ends.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { closeAtEnd } from './tap.ts';

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export const command = fileURLToPath(new URL('../../bin/ocpi-hub.js', import.meta.url));

/** Ctrl-C comes once it has written `interruptAt`. */
export async function runCommand(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
  interruptAt?: RegExp,
): Promise<Ended> {
  const child = spawn(process.execPath, [command, ...words], { env: { PATH: process.env.PATH, ...env } });
  let [out, err, isInterrupted] = ['', '', false];
  const look = () => {
    if (isInterrupted || !interruptAt?.test(out + err)) return;
    isInterrupted = true;
    child.kill('SIGINT');
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    look();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
    look();
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out, err };
}

/** For the process of many commands. */
export interface Asked {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

let many: ChildProcess | undefined;
let turn: Promise<unknown> = Promise.resolve();

/**
 * The same in a process that it shares with other commands, where how a process begins and ends is not the point: a start costs a hundred
 * times what most commands do.
 */
export function askCommand(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  const next = turn.then(() => asked({ words, env }));
  turn = next.catch(() => {});
  return next;
}

async function asked(ask: Asked): Promise<Ended> {
  const child = many ?? forked();
  const ended = new AbortController();
  const end = () => ended.abort(new Error(`the process of commands ended at: ${ask.words.join(' ')}`));
  child.once('exit', end);
  child.send(ask);
  try {
    const [answer] = (await once(child, 'message', { signal: ended.signal })) as [Ended];
    return answer;
  } catch {
    throw ended.signal.reason;
  } finally {
    child.off('exit', end);
  }
}

function forked(): ChildProcess {
  const path = fileURLToPath(new URL('commands/child.js', import.meta.url));
  const child = fork(path, [command], { execArgv: [], env: { PATH: process.env.PATH } });
  many = child;
  child.once('exit', () => {
    many = undefined;
  });
  closeAtEnd(() => child.kill('SIGKILL'));
  return child;
}
