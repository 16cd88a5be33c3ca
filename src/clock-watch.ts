/**
 * Watches the wall clock for steps, reports each to operators, and keeps them in a file, so that a restart knows what
 * the times mean that were recorded before.
 *
 * CLOCK-WATCH-1  A step is noticed within `lookMs`, and always before the next event is stamped.
 * CLOCK-WATCH-2  The file is valid until the machine boots: until then its monotonic clock shows every step, also one
 *     while no hub ran. After a boot, on another machine, or where the machine has no boot id, the wall clock is
 *     trusted.
 * CLOCK-WATCH-3  The file is not synced, since a power cut is another boot. Without a readable file the hub starts as
 *     after a boot; a hub that cannot write it (a node on a database may have no disk) says so and goes on.
 */
import { readFileSync, readlinkSync, renameSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import type { Log } from './hub/ports/ports.ts';
import { type Clock, every } from './kit/clock.ts';
import { bootMs } from './kit/system-clock.ts';

/** What tells one boot of a machine from the next, and the time since. */
export interface Machine {
  /** Null when unknown. */
  readonly boot: string | null;
  /** Monotonic ms, the same for all processes of this boot. */
  monotonic(): number;
}

export interface ClockMeter {
  /** `stepS`: positive when the wall clock was moved forward. */
  stepped(stepS: number): void;
}

interface Watched {
  readonly path: string;
  readonly log: Log;
  readonly meter: ClockMeter;
  readonly machine: Machine;
}

const lookMs = 1_000;

/** `from`: machine's monotonic ms at which a stretch without step began; `ahead`: time of day minus that clock, ms. */
const saved = z.object({
  boot: z.string(),
  stretches: z.array(z.object({ from: z.number(), ahead: z.number() })),
});

/** Starts watching; call it before anything recorded is read. The returned function stops it. */
export function watchClock(clock: Clock, { path, log, meter, machine }: Watched): () => void {
  // Hub time minus the machine's monotonic clock.
  const offset = clock.now() - machine.monotonic();
  const noted = (ms: number, message: string) => {
    meter.stepped(ms / 1000);
    log.warn({ stepS: ms / 1000 }, message);
  };
  const save = () => {
    if (machine.boot === null) return;
    const stretches = clock.steps.stretches.map(({ from, ahead }) => ({ from: from - offset, ahead: ahead + offset }));
    try {
      writeFileSync(`${path}.new`, JSON.stringify({ boot: machine.boot, stretches }), { mode: 0o600 });
      renameSync(`${path}.new`, path);
    } catch (error) {
      log.info(
        { err: error },
        'steps of the wall clock cannot be kept in the data directory; a restart trusts the clock',
      );
    }
  };
  const earlier = read(path, machine.boot, log).map(({ from, ahead }) => ({
    from: Math.round(from + offset),
    ahead: Math.round(ahead - offset),
  }));
  const unseenMs = clock.steps.recall(earlier);
  if (unseenMs !== 0) noted(unseenMs, 'the wall clock was moved while no hub ran');
  save();
  const unheard = clock.steps.onStep(({ ms }) => {
    noted(ms, 'the wall clock was moved; no wait of the hub moves with it');
    save();
  });
  const unwatched = every(clock, lookMs, () => void clock.wall());
  return () => {
    unheard();
    unwatched();
  };
}

function read(path: string, boot: string | null, log: Log): z.infer<typeof saved>['stretches'] {
  try {
    const found = saved.safeParse(JSON.parse(readFileSync(path, 'utf8')));
    return found.success && found.data.boot === boot ? found.data.stretches : [];
  } catch (error) {
    const isFirst = (error as NodeJS.ErrnoException).code === 'ENOENT';
    if (!isFirst) log.warn({ err: error, path }, 'the steps of the wall clock cannot be read; it is trusted');
    return [];
  }
}

/** One whose boots cannot be distinguished. */
export const noMachine: Machine = { boot: null, monotonic: bootMs };

export function thisMachine(): Machine {
  let boot: string | null = null;
  try {
    // Processes of another time namespace read another monotonic clock.
    boot = `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/time')}`;
  } catch {
    // Not Linux, or an old kernel.
  }
  return { boot, monotonic: bootMs };
}
