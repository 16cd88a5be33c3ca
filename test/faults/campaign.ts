/**
 * The long form of the fault tests: `npm run campaign -- --kills 5000 --only kills`. Each part has a line that tells how far it is,
 * and at its end its figures, lost first. Exit 1 when anything was found.
 */
import { Command, InvalidArgumentError, Option } from 'commander';
import { summary } from './part.ts';
import { type Planned, parts } from './parts.ts';

const defaults: Readonly<Record<Planned['option'], number>> = {
  ...{ kills: 5000, cuts: 3000, corruptions: 3000, commits: 400, seeds: 100_000, inputs: 100_000, days: 30 },
};

const program = new Command('campaign').option(
  '--seed <number>',
  'chooses every fault',
  String(Date.now() % 1_000_000),
);
for (const [name, count] of Object.entries(defaults))
  program.addOption(new Option(`--${name} <count>`).default(String(count)));
program.option('--only <name>', 'one part, or all parts whose names begin so', named);
const options = program.parse().opts<Record<string, string | undefined> & { only?: readonly Planned[] }>();

for (const { part, option, share } of options.only ?? parts) {
  const count = Math.round(Number(options[option]) * share);
  const seed = Number(options.seed);
  const reason = part.unable?.() ?? null;
  if (reason !== null) {
    console.log(`${part.name}: not run: ${reason}`);
    process.exitCode = 1;
  } else if (count > 0) await run(part, seed, count);
}

function named(text: string): readonly Planned[] {
  const whole = parts.filter(({ part }) => part.name === text);
  const found = whole.length > 0 ? whole : parts.filter(({ part }) => part.name.startsWith(text));
  if (found.length > 0) return found;
  throw new InvalidArgumentError(`expected one of: ${parts.map(({ part }) => part.name).join(', ')}`);
}

async function run(part: Planned['part'], seed: number, count: number): Promise<void> {
  const begun = performance.now();
  const seconds = () => Math.round((performance.now() - begun) / 1000);
  const outcome = await part.run({ seed, count }, (done, findings) => {
    const left = Math.round((seconds() / done) * (count - done));
    const line = `${part.name}: ${done} of ${count}, ${findings} found, ${seconds()} s, about ${left} s left`;
    if (process.stdout.isTTY) process.stdout.write(`\r${line}\x1b[K`);
    else if (done % 100 === 0) console.log(line);
  });
  if (process.stdout.isTTY) process.stdout.write('\n');
  console.log(`${part.name}: ${summary(outcome)} (seed ${seed}, ${seconds()} s)`);
  for (const finding of outcome.findings) console.log(`  ${finding}`);
  if (outcome.findings.length > 0) process.exitCode = 1;
}
