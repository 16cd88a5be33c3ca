/**
 * What a process asked of the file system, from `strace`: calls with their data, in order. A call that another interrupts is told
 * in two parts, because a sync that has begun has not ended.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Call } from './disk.ts';

const calls = 'openat,write,pwrite64,ftruncate,fdatasync,fsync,rename,unlink,mkdir';

/** The command that runs another under watch, as its own process; the trace is written beside it. */
export function traced(trace: string, run: readonly string[]): readonly string[] {
  const form = ['-D', '-f', '-q', '-y', '-xx', '-s', '100000000', '--seccomp-bpf'];
  return ['strace', ...form, '-e', `trace=${calls}`, '-o', trace, ...run];
}

/** Why processes cannot be traced here; null when they can. */
export function whyNotTraced(): string | null {
  const { error, status } = spawnSync('strace', ['-f', '-o', '/dev/null', 'true']);
  if (error) return 'strace is not to be had here';
  return status === 0 ? null : 'strace may not trace here';
}

export interface Step {
  readonly call: Call | null;
  /** Process whose call has ended well with this step. */
  readonly ended: string | null;
}

/** Reads a trace. Its writer holds the streams of the traced process: when they are closed, the trace is whole. */
export function readTrace(path: string): Step[] {
  const steps: Step[] = [];
  /** Calls that were interrupted, by process. */
  const open = new Map<string, Call>();
  for (const line of linesOf(readFileSync(path))) {
    const [, process = '', rest = ''] = /^(\d+) +(.*)$/s.exec(line) ?? [];
    if (/^(\+\+\+|---|$)/.test(rest)) continue;
    if (rest.startsWith('<...')) {
      const call = open.get(process);
      if (isGood(rest)) steps.push({ call: call && !early.has(call.name) ? call : null, ended: process });
    } else if (rest.endsWith('<unfinished ...>')) {
      const call = callOf(process, rest);
      open.set(process, call);
      if (early.has(call.name)) steps.push({ call, ended: null });
    } else if (isGood(rest)) steps.push({ call: callOf(process, rest), ended: process });
  }
  return steps;
}

/** What these do may be done before they end; of all others only the end is sure. */
const early: ReadonlySet<string> = new Set(['write', 'pwrite64', 'fsync', 'fdatasync']);

/** One at a time: all together they may be longer than a string can be. */
function* linesOf(bytes: Buffer): Generator<string> {
  for (let from = 0, end = bytes.indexOf('\n'); end !== -1; from = end + 1, end = bytes.indexOf('\n', from)) {
    yield bytes.toString('latin1', from, end);
  }
}

const isGood = (line: string) => !/ = -1 [A-Z]+ \([^)]*\)$/.test(line.slice(-100)) && !/ = \?/.test(line.slice(-40));

function callOf(process: string, line: string): Call {
  const name = line.slice(0, line.indexOf('('));
  const [, path = ''] = /^\w+\(\d+<([^>]*)>/.exec(line) ?? [];
  const texts = [...line.matchAll(/"((?:\\x[0-9a-f]{2})*)"/g)].map(([, hex = '']) => bytesOf(hex));
  // Data is long: of the line only what lies around it is kept.
  const around = line.replaceAll(/"[^"]*"/g, '""');
  return { process, name, texts, path: bytesOf(path).toString(), line: around };
}

const bytesOf = (hex: string) => Buffer.from(hex.replaceAll('\\x', ''), 'hex');
