/** Programs in front of a hub, by the very files that the docs offer. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { eventually } from './plain-partner.ts';
import type { Test } from './tap.ts';

export const offered = (file: string): string =>
  readFileSync(new URL(`../../../docs/deploy/${file}`, import.meta.url), 'utf8');

/** The text with each of these pieces replaced, which stands in it once. */
export function adapted(text: string, pieces: Readonly<Record<string, string>>): string {
  return Object.entries(pieces).reduce((changed, [piece, by]) => {
    if (changed.split(piece).length !== 2) throw new Error(`${piece} does not stand in the file once`);
    return changed.replace(piece, () => by);
  }, text);
}

/** Starts a program; resolves when it answers, rejects with what it said when it ends before. */
export async function startProxy(
  t: Pick<Test, 'teardown'>,
  command: readonly [string, ...string[]],
  answers: () => Promise<unknown>,
): Promise<ChildProcess> {
  const [program, ...args] = command;
  const running = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  t.teardown(async () => {
    if (running.exitCode !== null || running.signalCode !== null) return;
    running.kill('SIGTERM');
    await once(running, 'exit');
  });
  let said = '';
  running.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = once(running, 'exit').then(() => {
    throw new Error(`${program} ended:\n${said}`);
  });
  const isThere = () =>
    answers().then(
      () => true,
      () => false,
    );
  await Promise.race([ended, eventually('it listens', isThere)]);
  ended.catch(() => {});
  return running;
}
