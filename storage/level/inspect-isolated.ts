/**
 * Inspects a store in a child process: a damaged table can fail an assertion in LevelDB, which aborts the process that
 * reads it without an error that could be caught.
 *
 * INSPECT-ISOLATED-1  The child ends when its parent does: an orphaned child would keep the store in use.
 */
import { fork } from 'node:child_process';
import { join } from 'node:path';
import { StoreUnavailable } from '../contract.ts';
import { type DirtyFlag, isSuspect } from './dirty-flag.ts';
import type { Inspection } from './inspect.ts';
import { StoreUnopened } from './unopened.ts';
import type { Opening } from './verify.ts';

/** Messages from the child. */
export type Report =
  | { readonly records: number }
  | { readonly look: Inspection }
  | { readonly unavailable: string }
  | { readonly unopened: string };

/** The engine aborted the child; the message quotes the engine. */
export class EngineDied extends Error {
  override readonly name = 'EngineDied';
}

/** Signals that end a process from outside: not a crash of the engine. */
const byOthers: ReadonlySet<string> = new Set(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']);
const SAID_LENGTH_MAX = 400;

/** Rejects with `EngineDied`, and else like `inspectStore`. */
export async function inspectIsolated(
  store: string,
  progress: (records: number) => void = () => {},
): Promise<Inspection> {
  // The parent's own Node options (`--eval`, a profiler) must not reach the child.
  const entry = join(import.meta.dirname, 'inspect-child.js');
  const child = fork(entry, [store], { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  let [said, report]: [string, Report | null] = ['', null];
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-100 * SAID_LENGTH_MAX);
  });
  child.on('message', (message) => {
    report = message as Report;
    if ('records' in report) progress(report.records);
  });
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.once('error', reject).once('close', (...end) => resolve(end));
  });
  const last = report as Report | null;
  if (last !== null && 'look' in last) return last.look;
  if (last !== null && 'unavailable' in last) throw new StoreUnavailable(last.unavailable);
  if (last !== null && 'unopened' in last) throw new StoreUnopened(last.unopened);
  const words = wordsOf(said);
  if (signal !== null && !byOthers.has(signal)) {
    throw new EngineDied(`LevelDB ends any process that reads it, with ${signal}: ${words}`);
  }
  throw new Error(`the inspection of ${store} failed (${signal ?? `exit code ${code}`}): ${words}`);
}

/** The line of the output that has the reason. */
function wordsOf(said: string): string {
  const lines = said.split('\n').map((line) => line.trim());
  const why = lines.find((line) => /Assertion|FATAL ERROR/.test(line)) ?? lines.findLast((line) => line !== '');
  return (why ?? 'it printed nothing').slice(0, SAID_LENGTH_MAX);
}

/**
 * LIFECYCLE-6: throws when opening the database would end this process. Resolves with whether the last use made an
 * inspection necessary.
 */
export async function outlive(
  directory: string,
  opening: DirtyFlag,
  progress: (opening: Opening) => void,
): Promise<boolean> {
  const unended = await opening.read();
  if (unended === null || !isSuspect(unended)) return false;
  try {
    const step = 'a separate process inspects every record of the store, because its last use ended early';
    await inspectIsolated(directory, (records) => progress({ step, verified: records, events: null }));
    await opening.note({ attempts: 0, damaged: false });
    return true;
  } catch (error) {
    // Nothing was inspected: the start frees its ballast, or fails for the same reason.
    if (error instanceof StoreUnopened) return true;
    if (!(error instanceof EngineDied)) throw error;
    const { since, attempts } = await opening.begin().catch(() => unended);
    throw new StoreUnavailable(
      `${directory} is damaged, the hub does not start on it: ${error.message} ` +
        `(${attempts} attempts to open it since ${since}). Restore a backup: ocpi-hub store restore --help`,
    );
  }
}
