/**
 * Caps of CPU: a process has a part of one core, with all of its threads and what it starts, and is held when that is used up. A control
 * group for each, of cgroup 2 or 1, whichever has the controller here and lets us make one.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { undoAtExit } from './processes.ts';

/** Short, so that a capped process is slow rather than now and then away. */
const periodUs = 10_000;

interface Form {
  readonly name: string;
  readonly root: string;
  readonly isHere: () => boolean;
  /** Files of a group and what is written there, for so many µs of each period. */
  readonly capped: (us: number) => Readonly<Record<string, string>>;
  readonly uncapped: Readonly<Record<string, string>>;
}

const root = '/sys/fs/cgroup';
const forms: readonly Form[] = [
  {
    ...{ name: 'cgroup 2', root },
    isHere: () =>
      existsSync(join(root, 'cgroup.subtree_control')) &&
      readFileSync(join(root, 'cgroup.subtree_control'), 'utf8').split(/\s/).includes('cpu'),
    capped: (us) => ({ 'cpu.max': `${us} ${periodUs}` }),
    uncapped: { 'cpu.max': 'max' },
  },
  {
    ...{ name: 'cgroup 1', root: join(root, 'cpu') },
    isHere: () => existsSync(join(root, 'cpu', 'cpu.cfs_quota_us')),
    capped: (us) => ({ 'cpu.cfs_period_us': String(periodUs), 'cpu.cfs_quota_us': String(us) }),
    uncapped: { 'cpu.cfs_quota_us': '-1' },
  },
];

export interface Caps {
  /** By what means. */
  readonly how: string;
  /** Puts a process into a group of its own, without a cap yet. */
  add(pid: number): void;
  /** Each of them has such a part of one core from now on; null: whatever there is. */
  set(share: number | null): void;
  /** Removes the groups; their processes must be gone. */
  end(): void;
}

/** Null where no group can be made. */
export function capsHere(): Caps | null {
  const form = forms.find(({ isHere }) => isHere());
  if (form === undefined) return null;
  const groups: string[] = [];
  const make = (name: string) => {
    const group = join(form.root, `ocpi-hub-bench-${process.pid}-${name}`);
    mkdirSync(group);
    groups.push(group);
    return group;
  };
  const removeAll = () => {
    for (const group of groups.splice(0)) remove(group);
  };
  try {
    make('tried');
    removeAll();
  } catch {
    return null;
  }
  const settled = undoAtExit(removeAll);
  return {
    how: form.name,
    add: (pid) => writeFileSync(join(make(String(pid)), 'cgroup.procs'), String(pid)),
    set(share) {
      const files = share === null ? form.uncapped : form.capped(Math.round(share * periodUs));
      for (const group of groups)
        for (const [file, text] of Object.entries(files)) writeFileSync(join(group, file), text);
    },
    end() {
      settled();
      removeAll();
    },
  };
}

/** A process that was killed is in its group for a moment more. */
function remove(group: string): void {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return rmdirSync(group);
    } catch (error) {
      if (attempt === 200) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}
