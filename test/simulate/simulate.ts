/**
 * `npm run simulate -- --seed N --runs M`: runs whole hubs in simulated worlds. A seed that fails is printed with the commit and
 * the command that tells it again; `--trace` prints its story, `--steps` makes it shorter.
 */
import { execFileSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { runSeed, runSeeds, shorten } from './run.ts';

function commitOf(): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return 'unknown';
  }
}

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    runs: { type: 'string', default: '1' },
    steps: { type: 'string' },
    trace: { type: 'boolean', default: false },
  },
});
const [seed, runs] = [Number(values.seed), Number(values.runs)];
if (!Number.isSafeInteger(seed) || !Number.isSafeInteger(runs) || runs < 1) {
  console.error('--seed and --runs: whole numbers are expected');
  process.exit(2);
}

if (values.trace || values.steps !== undefined) {
  const result = await runSeed({
    seed,
    ...(values.steps !== undefined && { stepsMax: Number(values.steps) }),
    ...(values.trace && { print: (line) => console.log(line) }),
  });
  console.log(`seed ${seed}: ${result.failure ?? 'all rules hold'}, ${result.steps} steps, trace ${result.digest}`);
  process.exit(result.failure === null ? 0 : 1);
}

const began = performance.now();
const result = await runSeeds({
  from: seed,
  count: runs,
  progress(done, failures) {
    if (done % 100 === 0 || done === runs) {
      const perS = Math.round((done * 1000) / (performance.now() - began));
      console.log(`${done} of ${runs} seeds, ${failures} failed, ${perS} a second`);
    }
  },
});
for (const failed of result.failures) {
  const { failure, steps } = await shorten(failed);
  console.log(`\nseed ${failed.seed} failed at commit ${commitOf()}: ${failure}`);
  console.log(`  npm run simulate -- --seed ${failed.seed} --steps ${steps} --trace`);
}
if (values.runs !== '1')
  for (const [name, count] of Object.entries(result.counters.all()))
    console.log(`${String(count).padStart(9)}  ${name}`);
const hours = Math.round(result.simulatedMs / 3_600_000);
console.log(
  `${result.seeds} seeds, ${result.failures.length} failed, ${hours} hours simulated in ${Math.round((performance.now() - began) / 1000)} s`,
);
process.exit(result.failures.length === 0 ? 0 : 1);
