/**
 * The built command as people and scripts run it: what it prints, apart by stream, and how it ends.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export const command = fileURLToPath(new URL('../../bin/ocpi-hub.js', import.meta.url));

/** Runs it in a process of its own; `runCommand` of `resident-command.ts` takes a tenth of its CPU time. Ctrl-C comes once it has written `interruptAt`. */
export async function runProcess(
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
