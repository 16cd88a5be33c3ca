/**
 * The built command in a process of its own, as people and scripts run it: what it prints, apart by stream, and how it ends.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export const command = fileURLToPath(new URL('../../dist/bin/ocpi-hub.js', import.meta.url));

/**
 * Before a command: it starts as it does for users. The test runner has every process load modules of its own first, which takes twice
 * as long as the command.
 */
export const asUsers: readonly string[] = ['env', '-u', 'NODE_OPTIONS'];

/** Ctrl-C comes once it has written `interruptAt`. */
export async function runCommand(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
  interruptAt?: RegExp,
): Promise<Ended> {
  const [program = '', ...args] = [...asUsers, process.execPath, command, ...words];
  const child = spawn(program, args, { env: { PATH: process.env.PATH, ...env } });
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
