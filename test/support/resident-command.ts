/**
 * The built command in a process that runs one after the other: what each prints, apart by stream, and how it ends. For verbs that end by
 * themselves; that words, exit codes and streams are those of a process is shown by tests with `runProcess`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Ended } from './command.ts';
import type { Asked } from './resident.ts';
import { closeAtEnd } from './tap.ts';

let resident: ChildProcess | undefined;
const waiting: { end(ended: Ended): void; fail(error: Error): void }[] = [];

/** All tests of a process share one. */
export function runCommand(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  resident ??= startResident();
  const asked: Asked = { words, env: { PATH: process.env.PATH, ...env } };
  resident.send(asked);
  return new Promise((end, fail) => waiting.push({ end, fail }));
}

function startResident(): ChildProcess {
  const child = fork(fileURLToPath(new URL('./resident.js', import.meta.url)));
  child.on('message', (ended: Ended) => waiting.shift()?.end(ended));
  child.on('exit', (code, signal) => {
    resident = undefined;
    for (const { fail } of waiting.splice(0)) fail(new Error(`the command ended its process: ${code ?? signal}`));
  });
  closeAtEnd(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.disconnect();
    await once(child, 'exit');
  });
  return child;
}
