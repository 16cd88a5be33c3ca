/** A seed tells its story again, to the last line, and takes nothing from the time and chance of the machine. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { atLength, isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { mutants } from './mutants.ts';
import { runSeed, shorten } from './run.ts';

/** Seeds that are told twice; the campaign has more. */
const many = isAtLength ? 10 : 4;

t.test('the same seed twice gives the same trace, and another seed another', async (t) => {
  const digests = new Set<string>();
  for (let seed = 1; seed <= many; seed++) {
    const [once, again] = [await runSeed({ seed }), await runSeed({ seed })];
    t.equal(once.digest, again.digest, `seed ${seed}`);
    t.ok(once.steps > 0, `${once.steps} steps`);
    digests.add(once.digest);
  }
  t.equal(digests.size, many);
});

t.test('nothing in the hub uses the clock or the randomness of the machine', async (t) => {
  const { now } = Date;
  const { random } = Math;
  const { setTimeout: wait } = globalThis;
  const leaks = new Set<string>();
  const noted = () => {
    const line = (new Error().stack ?? '').split('\n').find((text) => /\/(src|machines|storage)\//.test(text));
    if (line) leaks.add(line.trim());
  };
  Date.now = () => {
    noted();
    return now();
  };
  Math.random = () => {
    noted();
    return random();
  };
  globalThis.setTimeout = ((...given: Parameters<typeof wait>) => {
    noted();
    return wait(...given);
  }) as typeof wait;
  try {
    for (let seed = 1; seed <= 2 * many; seed++) await runSeed({ seed });
  } finally {
    Date.now = now;
    Math.random = random;
    globalThis.setTimeout = wait;
  }
  t.strictSame([...leaks], []);
});

t.test('a failure is repeated in fewer steps, and the same way a second time', async (t) => {
  const mutant = mutants.find(({ name }) => name.startsWith('a floor'));
  const restore = mutant?.patch?.();
  t.teardown(() => restore?.());
  for (let seed = 1; seed <= 50; seed++) {
    const found = await runSeed({ seed });
    if (found.failure === null) continue;
    const short = await shorten(found);
    t.ok(short.steps <= found.steps, `${found.steps} steps became ${short.steps}`);
    t.match(short.failure, /a floor never passes/);
    t.equal((await runSeed({ seed, stepsMax: short.steps })).digest, short.digest);
    return;
  }
  t.fail('no seed failed');
});

t.test('npm run simulate runs seeds, counts the situations met and prints the outcome', atLength, async (t) => {
  const options = ['dist/test/simulate/simulate.js', '--seed', '7', '--runs', '3'];
  const { stdout } = await promisify(execFile)(process.execPath, options, { encoding: 'utf8' });
  t.match(stdout, /^3 of 3 seeds, 0 failed/m);
  t.match(stdout, /^ +\d+ {2}a lane was held while another moved$/m);
  t.match(stdout, /^3 seeds, 0 failed, \d+ hours simulated/m);
});
