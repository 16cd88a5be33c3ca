/** Operators see when the log grows faster than it is trimmed, or when what should be gone stays. */
import { quiet } from '../support/observed.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { dayMs, days, inTime, patched, type Scene, scene, storeOfEach, trimmed } from './retention-scene.ts';

const hourMs = 3_600_000;

interface Warned {
  readonly lag_s: number;
  readonly trimmed: number;
  readonly written: number;
  readonly in_s: number;
}

/** What the hub warned of, oldest first. */
function warnings() {
  const lines: string[] = [];
  return {
    logTo: { write: (line: string) => void lines.push(line) },
    behind: () =>
      lines.filter((line) => line.includes('retention falls behind')).map((line) => JSON.parse(line) as Warned),
  };
}

/** Replaces what a trim does; the returned function puts the original back. */
function trimsBy(stage: Scene, work: (trim: () => Promise<void>) => Promise<void>): () => void {
  const { store } = stage.hub.created.context;
  const trim = store.trim.bind(store);
  Object.assign(store, { trim: (of: Parameters<typeof trim>[0]) => work(() => trim(of)) });
  return () => void Object.assign(store, { trim });
}

let renamed = 0;

/** Dates ascend: a warning would be an event of its own. */
async function rename(stage: Scene, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const last_updated = new Date(Date.parse('2026-01-10T09:00:00Z') + ++renamed * 1_000).toISOString();
    const fragment = patched(0, { name: `Plein ${n}`, last_updated });
    await stage.cpo.call('PATCH', '/2.2.1/locations/NL/CPO/LOC1', fragment);
  }
}

const lagS = (stage: Scene) => stage.hub.created.hub.operations.vitals().retention_lag_s;

t.test(
  '[RETENTION-LAG-2] a sweep that trims less than is written warns, with figures; one that keeps up does not',
  atLength,
  async (t) => {
    const { logTo, behind } = warnings();
    const stage = await scene(t, { logTo });
    await storeOfEach(stage);
    await rename(stage, 70);
    await quiet(stage.hub);
    await trimmed(stage);
    await inTime(stage, 1_000, 'the sweep ended', () => lagS(stage) === 0);
    t.strictSame(behind(), [], 'a sweep that keeps up');
    await rename(stage, 70);
    await quiet(stage.hub);
    let pieces = 0;
    const slow = new Promise<void>((ended) => {
      trimsBy(stage, async (trim) => {
        await trim();
        if (++pieces > 1) return;
        await rename(stage, 70);
        stage.clock.advance(11 * 60_000);
        ended();
      });
    });
    stage.clock.advance(days * dayMs + hourMs);
    await slow;
    await inTime(stage, 1_000, 'the hub warns', () => behind().length > 0);
    const [{ trimmed: gone, written, in_s, lag_s } = {} as Warned] = behind();
    t.ok(gone > 0 && gone < written, `${gone} trimmed`);
    t.ok(written >= 70 && written < 100, `${written} written`);
    t.ok(in_s >= 660 && in_s < dayMs / 1000, `in ${in_s} s`);
    t.ok(lag_s > 0 && lag_s <= 7200, `${lag_s} s behind, which alone is no reason to warn`);
    await inTime(stage, 1_000, 'the sweep ended', () => lagS(stage) === 0);
    t.equal(behind().length, 1, 'once');
  },
);

t.test(
  '[RETENTION-LAG-1] the lag is shown while trims fail, warned of from two hours on, and over when they succeed',
  async (t) => {
    const { logTo, behind } = warnings();
    const stage = await scene(t, { logTo });
    await storeOfEach(stage);
    const { store } = stage.hub.created.context;
    const first = (await store.event(1))?.at ?? '';
    let tries = 0;
    const mend = trimsBy(stage, async () => {
      tries += 1;
      throw new Error('the disk is slow');
    });
    t.equal(lagS(stage), 0);
    const lags: number[] = [];
    stage.clock.advance(days * dayMs);
    // The sweep that begins now finds nothing. An hour that passed in the middle of it would be a slow sweep.
    await stage.hub.settled();
    for (let hour = 1; hour <= 4; hour++) {
      await inTime(stage, hourMs, 'a sweep', () => tries === hour);
      await stage.hub.settled();
      lags.push(lagS(stage));
      const expected = (stage.clock.now() - Date.parse(first) - days * dayMs) / 1000;
      t.equal(lagS(stage), expected, `${expected} s after ${hour} sweeps`);
      const late = lags.filter((lag) => lag > 7200);
      t.strictSame(
        behind().map(({ lag_s }) => lag_s),
        late.map(Math.round),
      );
    }
    t.ok(behind().length >= 2, 'two sweeps ended that late, at least');
    mend();
    await inTime(stage, hourMs, 'a sweep that succeeds', () => store.horizon() > 0);
    await inTime(stage, 1_000, 'and catches up', () => lagS(stage) < 3600);
  },
);
