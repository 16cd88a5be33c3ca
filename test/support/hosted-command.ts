/**
 * Built commands by the dozen, for tests that look at what they print and how they end: in `npm test` one process runs them all, in the
 * campaign each has its own, as its users have it.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type Ended, runCommand } from './command.ts';
import { isAtLength } from './share.ts';
import { closeAtEnd } from './tap.ts';

export interface Asked {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}
export type Told = Ended;

let host: ChildProcess | null = null;
let turn: Promise<unknown> = Promise.resolve();

function started(): ChildProcess {
  if (host !== null) return host;
  const env = { PATH: process.env.PATH, UV_THREADPOOL_SIZE: '64' };
  const child = fork(join(import.meta.dirname, 'command-host', 'child.js'), { execArgv: [], env });
  closeAtEnd(() => child.kill());
  host = child;
  return child;
}

async function hosted(asked: Asked): Promise<Told> {
  const child = started();
  const ended = new AbortController();
  const told = once(child, 'message', { signal: ended.signal });
  const gone = once(child, 'exit', { signal: ended.signal });
  gone.catch(() => {});
  child.send(asked);
  try {
    const [answer] = await Promise.race([
      told,
      gone.then(() => Promise.reject(new Error(`${asked.words}: its process ended`))),
    ]);
    return answer as Told;
  } finally {
    ended.abort();
  }
}

/** As `runCommand`, for a command that nobody interrupts. */
export function runHosted(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  if (isAtLength) return runCommand(words, env);
  const own = turn.then(() => hosted({ words, env: { PATH: process.env.PATH ?? '', ...env } }));
  turn = own.catch(() => {});
  return own;
}
