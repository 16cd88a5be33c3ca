/**
 * Processes of a bench: what is measured has core 0 for itself, load and receivers have core 1, where the system can pin them.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';

/** `measured`: core 0. `around`: core 1. */
export type Place = 'measured' | 'around';

const places: Readonly<Record<Place, string>> = { measured: '0', around: '1' };

export const canPin = availableParallelism() > 1 && spawnSync('taskset', ['-c', '0,1', 'true']).status === 0;

/** What comes before a command, so that it runs in its place. */
export const pinnedTo = (place: Place): readonly string[] => (canPin ? ['taskset', '-c', places[place]] : []);

export interface BenchProcess<Ready> {
  readonly pid: number;
  readonly ready: Ready;
  /** Rejects with what the process threw, or when it has ended. */
  ask<Result>(verb: string, args?: object): Promise<Result>;
  end(): Promise<void>;
}

interface Told {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
}

const child = fileURLToPath(new URL('./child.js', import.meta.url));

/** Starts a part of `child.ts`; resolves when it can be asked. */
export async function startPart<Ready>(part: string, place: Place, options: object = {}): Promise<BenchProcess<Ready>> {
  const node = [process.execPath, child, part, JSON.stringify(options)];
  const [program = '', ...args] = [...pinnedTo(place), ...node];
  const started = spawn(program, args, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  let last = 0;
  const expect = (id: number) => new Promise<never>((resolve, reject) => waiting.set(id, { resolve, reject }));
  const told = expect(0);
  started.on('message', ({ id, result, error }: Told) => {
    const asked = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) asked?.resolve(result as never);
    else asked?.reject(new Error(`${part}: ${error}`));
  });
  started.on('exit', (code) => {
    for (const { reject } of waiting.values()) reject(new Error(`${part} ended with ${code}`));
  });
  const ready: Ready = await told;
  return {
    pid: started.pid ?? 0,
    ready,
    ask(verb, args = {}) {
      const id = ++last;
      const answer = expect(id);
      started.send({ id, verb, args });
      return answer;
    },
    end: () => ended(started),
  };
}

async function ended(started: ChildProcess): Promise<void> {
  if (started.exitCode !== null || started.signalCode !== null) return;
  const gone = once(started, 'exit');
  started.kill('SIGKILL');
  await gone;
}

const undone = new Set<() => void>();
process.on('exit', () => {
  for (const undo of [...undone].reverse()) undo();
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));

/** Has `undo` called when the bench ends before it should; what is given back says that there is nothing to undo any more. */
export function undoAtExit(undo: () => void): () => void {
  undone.add(undo);
  return () => void undone.delete(undo);
}

/** `USER_HZ` of Linux. */
const ticksPerS = 100;

/** Seconds of CPU that processes have taken, all their threads included. */
export const cpuS = (...pids: readonly number[]): number => pids.reduce((sum, pid) => sum + takenS(`${pid}`), 0);

/** The same of those that a process has started and that have ended. */
export const endedS = (pid: number): number => ticksOf(`${pid}`, 13, 14);

/** CPU of each operation, µs: of all threads of a system's processes, and of the main thread of the first process. */
export interface CpuMicros {
  readonly cpuMicros: number;
  readonly mainMicros: number;
}

/** Starts to count; what it gives says what so many operations have taken each since. */
export function watchCpu(...pids: readonly number[]): (operations: number) => CpuMicros {
  const taken = () => ({ all: cpuS(...pids), main: takenS(`${pids[0]}/task/${pids[0]}`) });
  const before = taken();
  return (operations) => {
    const after = taken();
    const each = (seconds: number) => (seconds * 1e6) / operations;
    return { cpuMicros: each(after.all - before.all), mainMicros: each(after.main - before.main) };
  };
}

/** In user and kernel mode. */
const takenS = (task: string) => ticksOf(task, 11, 12);

function ticksOf(task: string, ...places: readonly number[]): number {
  const fields = readFileSync(`/proc/${task}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return places.reduce((sum, place) => sum + Number(fields[place]) / ticksPerS, 0);
}

/** Whether the system tells how long a thread that could run has waited for a core. */
export const tellsWaiting = existsSync('/proc/self/schedstat');

/** Milliseconds for which the main thread of a process could have run and had no core; not a number where the system does not tell. */
export function waitedMs(pid: number): number {
  if (!tellsWaiting) return Number.NaN;
  const [, waitedNs] = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ');
  return Number(waitedNs) / 1e6;
}

/** Seconds for which anybody had the core on which what is measured runs; not a number where nothing is pinned to it. */
export const coreS = (): number => (canPin ? busyS(`cpu${places.measured}`) : Number.NaN);

/** The same of all cores together. */
export const machineS = (): number => busyS('cpu');

function busyS(name: string): number {
  const line = new RegExp(`^${name} +(.*)$`, 'm').exec(readFileSync('/proc/stat', 'utf8'))?.[1] ?? '';
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, stolen = 0] = line.split(' ').map(Number);
  return (user + nice + system + irq + softirq + stolen) / ticksPerS;
}
