/**
 * Bit rot of the store alone, as quick as opening it: a store that a hub filled is copied, one file of the copy is spoilt, and
 * everything in it is read by a process of its own. While the store says that it is open, what it gives is what it gave before; a
 * quarantined one has said what it lost, and the hub serves operators alone then.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nothing, type Part, plus } from './part.ts';
import { seeded } from './random.ts';
import type { Reading } from './reader.ts';
import { fillingAnew } from './rot.ts';
import { spoiler } from './spoil.ts';

export const storeRot: Part = {
  name: 'bit rot of the store',
  kinds: 8,
  run: ({ seed, count, filling = fillingAnew }, progress) =>
    filling(seed, count, async ({ world }) => {
      const root = mkdtempSync(join(tmpdir(), 'rot-store-'));
      const copy = join(root, 'copy');
      const reader = readers();
      let total = nothing;
      try {
        // On a copy, too: reading opens, and opening makes tables of the log.
        cpSync(world.store, copy, { recursive: true });
        const truth = await reader.read(copy, []);
        rmSync(copy, { recursive: true });
        if (typeof truth === 'string' || truth.refused !== null) throw new Error(`the truth cannot be read: ${truth}`);
        const names = Object.keys(truth.found);
        const spoiltCopy = spoiler(world.store, seeded(seed));
        for (let done = 1; done <= count; done += 1) {
          const { what, kind } = spoiltCopy(copy);
          // An assertion of the engine: it served nothing. After two such ends at most the next opening outlives it, and says what the
          // engine said; or it is not met again, and the store is as good as it says.
          let reading = await reader.read(copy, names);
          let deaths = 0;
          for (; reading === aborted && deaths < deathsMax; deaths += 1) reading = await reader.read(copy, names);
          rmSync(copy, { recursive: true });
          const isTold = deaths > 0 && typeof reading !== 'string' && toldOfAbort.test(reading.refused ?? '');
          const { ending, said, wrong } = isTold ? { ending: 'aborted', said: '', wrong: [] } : judge(reading, truth);
          const findings = wrong.map((text) => `seed ${seed}, ${done}: ${what}: ${ending} (${said}): ${text}`);
          const figures = { [ending]: 1, [`${ending}: ${kind}`]: 1, wrongAnswers: wrong.length };
          total = plus(total, { ...nothing, done: 1, unexplained: findings.length, findings, figures });
          progress(done, total.findings.length);
        }
        return total;
      } finally {
        reader.close();
        rmSync(root, { recursive: true });
      }
    }),
};

const deathsMax = 2;
const toldOfAbort = /is damaged, the hub does not start on it: .*Assertion/;

function judge(reading: Reading | string, truth: Reading): { ending: string; said: string; wrong: string[] } {
  if (typeof reading === 'string') return { ending: 'crashed', said: reading, wrong: ['the process died'] };
  const { refused, state, reason, damagedRows, found } = reading;
  if (refused !== null) return { ending: 'refused', said: refused, wrong: [] };
  const differs = Object.keys(truth.found).filter((name) => found[name] !== null && found[name] !== truth.found[name]);
  const isLost = (name: string) => name.startsWith('event ') && found[name] === 'null';
  // What was noted last of deliveries may be gone, as after a power cut: then they are sent again. [CONTRACT-6]
  const isBack = (name: string) =>
    name === 'floors' ? wentBack(found[name], truth.found[name]) : name.startsWith('deliveries ') && waits(found[name]);
  const vouched = differs
    .filter((name) => !isBack(name))
    .filter((name) => state === 'open' || (name.startsWith('event ') && !isLost(name)));
  const wrong = vouched.map((name) => `${name} reads ${found[name]?.slice(0, 80)}`);
  const said = reason ?? (damagedRows > 0 ? `${damagedRows} rows are damaged` : '');
  const isWhole = Object.values(found).every((value) => value !== null);
  const ending =
    state !== 'open' ? state : damagedRows > 0 || !isWhole ? 'to be mended' : said === '' ? 'harmless' : 'mended';
  if (ending !== 'harmless' && said === '') wrong.push('it said nothing');
  return { ending, said, wrong };
}

/** Nothing is owed in a store that has drained: a row that waits is from before. */
const waits = (text: string | null | undefined) =>
  (JSON.parse(text ?? '[]') as { state: string }[]).every(({ state }) => state === 'PENDING');

function wentBack(now: string | null | undefined, before: string | null | undefined): boolean {
  const floorsOf = (text: string | null | undefined) => JSON.parse(text ?? '[]') as { dest: string; seq: number }[];
  const known = new Map(floorsOf(before).map(({ dest, seq }) => [dest, seq]));
  return floorsOf(now).every(({ dest, seq }) => seq <= (known.get(dest) ?? 0));
}

const aborted = 'exit null, signal SIGABRT';

/** A process that reads stores; another one when it died. */
function readers() {
  let child: ChildProcess | null = null;
  return {
    read(directory: string, names: readonly string[]): Promise<Reading | string> {
      child ??= fork(join(import.meta.dirname, 'reader.js'), { execArgv: [] });
      const present = child;
      present.removeAllListeners();
      const read = new Promise<Reading | string>((resolve) => {
        present.once('message', (reading) => resolve(reading as Reading));
        present.once('exit', (code, signal) => {
          child = null;
          resolve(`exit ${code}, signal ${signal}`);
        });
      });
      present.send({ directory, names });
      return read;
    },
    close: () => void child?.kill('SIGKILL'),
  };
}
