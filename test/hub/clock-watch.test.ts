/** Steps of the wall clock are reported, and a restart in the same boot of the machine knows what was recorded before them. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { noMachine, watchClock } from '../../src/clock-watch.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const begun = '2026-03-01T10:00:00Z';
const dayMs = 86_400_000;
const minuteMs = 60_000;

/** Processes of one boot of a machine, one after the other; `time` is what its wall clock shows. */
class Boot {
  #wall = Date.parse(begun);
  #mono = 5_000;
  readonly #path: string;
  readonly told: number[] = [];
  readonly lines: string[] = [];
  boot = 'first';

  constructor(t: Test) {
    this.#path = join(directoryFor(t), 'clock');
  }

  process(): { clock: SimulatedClock; end: () => void } {
    const clock = new SimulatedClock(new Date(this.#wall).toISOString());
    const [mono, wall] = [this.#mono, this.#wall];
    const machine = { boot: this.boot, monotonic: () => mono + clock.monotonic() };
    const line = (_fields: object, message: string) => void this.lines.push(message);
    const log = { debug: line, info: line, warn: line, error: line };
    const unwatch = watchClock(clock, { path: this.#path, log, meter: { stepped: (s) => this.told.push(s) }, machine });
    const end = () => {
      unwatch();
      this.#mono = mono + clock.monotonic();
      this.#wall = wall + (clock.wall() - wall);
    };
    return { clock, end };
  }

  /** While no process runs. */
  pass(ms: number, stepMs = 0): void {
    this.#mono += ms;
    this.#wall += ms + stepMs;
  }

  file(text?: string): string {
    if (text !== undefined) writeFileSync(this.#path, text);
    return existsSync(this.#path) ? readFileSync(this.#path, 'utf8') : '';
  }
}

for (const ms of [dayMs, -dayMs]) {
  t.test(`a restart after a step of ${ms / dayMs} days while the hub ran`, ms > 0 ? {} : atLength, async (t) => {
    const boot = new Boot(t);
    const first = boot.process();
    first.clock.advance(minuteMs);
    const recorded = first.clock.wall();
    first.clock.advance(2_000);
    first.clock.step(ms);
    t.strictSame(boot.told, [ms / 1000], 'it is reported');
    first.end();
    boot.pass(minuteMs);
    const { clock, end } = boot.process();
    t.equal(clock.now() - clock.steady(recorded), minuteMs + 2_000, 'what was recorded before has its age');
    t.strictSame(boot.told, [ms / 1000], 'it is not told again');
    end();
    boot.boot = 'second';
    const other = boot.process();
    t.equal(
      other.clock.steady(recorded),
      Math.min(recorded, other.clock.now()),
      'after a boot the wall clock is trusted',
    );
    other.end();
  });

  t.test(`a step of ${ms / dayMs} days while no hub ran`, async (t) => {
    const boot = new Boot(t);
    const first = boot.process();
    first.clock.advance(minuteMs);
    const recorded = first.clock.wall();
    first.end();
    boot.pass(minuteMs, ms);
    const { clock, end } = boot.process();
    t.strictSame(boot.told, [ms / 1000]);
    t.match(boot.lines, ['the wall clock was moved while no hub ran']);
    t.equal(clock.now() - clock.steady(recorded), minuteMs);
    end();
  });
}

t.test('a restart without a step changes nothing', async (t) => {
  const boot = new Boot(t);
  boot.process().end();
  boot.pass(minuteMs);
  const { clock, end } = boot.process();
  t.equal(clock.steps.stretches.length, 1);
  t.equal(clock.steady(Date.parse(begun)), Date.parse(begun));
  t.strictSame(boot.told, []);
  end();
});

t.test('a damaged file counts as absent, and no file is written where boots are unknown', async (t) => {
  const boot = new Boot(t);
  for (const text of ['{', '{"boot":"first"}', '']) {
    boot.file(text);
    const { clock, end } = boot.process();
    t.equal(clock.steps.stretches.length, 1);
    end();
  }
  t.strictSame(boot.lines, Array(2).fill('the steps of the wall clock cannot be read; it is trusted'));
  t.strictSame(boot.told, []);
  const path = join(directoryFor(t), 'clock');
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  watchClock(new SimulatedClock(begun), { path, log, meter: { stepped() {} }, machine: noMachine })();
  t.notOk(existsSync(path));
});

t.test('/readyz, /status and metrics report a step of the wall clock for an hour', async (t) => {
  const clock = new SimulatedClock(begun);
  const hub = await hubFor(t, {}, { clock });
  const asked = async (path: string) => {
    const { text } = await callOnce('GET', hub.url + path, undefined, { authorization: `Bearer ${hub.adminToken}` });
    return text;
  };
  t.strictSame(JSON.parse(await asked('/readyz')), { status: 'ready' });
  clock.step(-dayMs);
  clock.advance(minuteMs);
  t.strictSame(JSON.parse(await asked('/readyz')), {
    status: 'ready',
    warning: 'the wall clock of this machine was moved by -86400 s',
  });
  t.match(JSON.parse(await asked('/admin/v1/status')), { clock_step: { seconds: -86_400, ago_s: 60 } });
  const metrics = await asked('/metrics');
  t.match(metrics, /^ocpi_hub_clock_steps_total 1$/m);
  t.match(metrics, /^ocpi_hub_clock_step_seconds -86400$/m);
  clock.advance(3_600_000);
  t.strictSame(JSON.parse(await asked('/readyz')), { status: 'ready' });
});
