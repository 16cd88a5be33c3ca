/**
 * A look at a store in a process of its own: a damaged table can break an assertion of LevelDB, which ends the process that
 * reads it, and no error can be caught.
 *
 * INSPECT-ISOLATED-1  The child goes when its parent does: a store that a dead parent's child still holds would be in use.
 */
import { fork } from 'node:child_process';
import { join } from 'node:path';
import { StoreUnavailable } from '../contract.ts';
import type { Inspection } from './inspect.ts';

/** What the child says, in messages. */
export type Told = { readonly records: number } | { readonly look: Inspection } | { readonly unavailable: string };

/** The engine ended the process that looked; the message has its own words. */
export class EngineDied extends Error {
  override readonly name = 'EngineDied';
}

/** How a process ends that others ended. */
const byOthers: ReadonlySet<string> = new Set(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']);
const SAID_LENGTH_MAX = 400;

/**
 * Rejects with `EngineDied`, and with `StoreUnavailable` when another process has the store. `entry` is what the child runs.
 */
export async function inspectIsolated(
  store: string,
  progress: (records: number) => void = () => {},
  entry = join(import.meta.dirname, 'inspect-child.js'),
): Promise<Inspection> {
  // What the parent runs with (a program on its command line, a profiler) is its own.
  const child = fork(entry, [store], { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  let [said, told]: [string, Told | null] = ['', null];
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-100 * SAID_LENGTH_MAX);
  });
  child.on('message', (message) => {
    told = message as Told;
    if ('records' in told) progress(told.records);
  });
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.once('error', reject).once('close', (...end) => resolve(end));
  });
  const last = told as Told | null;
  if (last !== null && 'look' in last) return last.look;
  if (last !== null && 'unavailable' in last) throw new StoreUnavailable(last.unavailable);
  const words = wordsOf(said);
  if (signal !== null && !byOthers.has(signal)) {
    throw new EngineDied(`LevelDB ends any process that reads it, with ${signal}: ${words}`);
  }
  throw new Error(`the look at ${store} did not end well (${signal ?? `exit code ${code}`}): ${words}`);
}

/** The line that says why, of many. */
function wordsOf(said: string): string {
  const lines = said.split('\n').map((line) => line.trim());
  const why = lines.find((line) => /Assertion|FATAL ERROR/.test(line)) ?? lines.findLast((line) => line !== '');
  return (why ?? 'it said nothing').slice(0, SAID_LENGTH_MAX);
}
