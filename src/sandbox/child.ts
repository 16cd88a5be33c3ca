/** Child processes of a demo: they are killed when the demo ends, by a signal or by itself. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * Starts a child in a process group of its own: Ctrl-C signals the terminal's whole foreground group, and would stop
 * the database while nodes still shut down on it.
 */
export function startChild(command: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(command, args, { ...options, detached: true });
  const end = () => child.kill('SIGKILL');
  process.once('exit', end);
  child.once('exit', () => process.off('exit', end));
  return child;
}

export const runs = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null;

/** Signals a process and resolves when it has ended; resolves at once when it had already. */
export async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (!runs(child)) return;
  const end = once(child, 'exit');
  child.kill(signal);
  await end;
}
