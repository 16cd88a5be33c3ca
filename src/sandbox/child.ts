/** Processes that a demo starts: they end with it, by a signal to it or by its own end. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';

/** In a group of its own: Ctrl-C goes to the whole group of a terminal, and would take the database away from nodes that are leaving. */
export function startChild(command: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(command, args, { ...options, detached: true });
  const end = () => child.kill('SIGKILL');
  process.once('exit', end);
  child.once('exit', () => process.off('exit', end));
  return child;
}

export const runs = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null;

/** Resolves when a process has ended; at once when it had. */
export async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (!runs(child)) return;
  const end = once(child, 'exit');
  child.kill(signal);
  await end;
}
