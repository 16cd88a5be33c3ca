/**
 * Everything at length: `npm run campaign` runs all tests with nothing left out, then thousands of faults of each kind, and writes a
 * report. `--only kills --kills 100` runs a part of it. Lines tell how far it is. Exit 1 when anything was found.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import { nothing, summary } from '../faults/part.ts';
import { t } from '../support/tap.ts';
import { type Planned, parts } from './parts.ts';
import { findingsOf, type PartReport, reportText } from './report.ts';
import { runTests, type TestsReport } from './tests.ts';

const defaults: Readonly<Record<Planned['option'], number>> = {
  ...{
    kills: 5000,
    cuts: 3000,
    corruptions: 3000,
    commits: 400,
    seeds: 100_000,
    inputs: 100_000,
    minutes: 10,
    days: 30,
  },
};

// The runner of tests, which the attackers are written for, would end the process after an hour.
t.setTimeout(0);

/** A line that often where nobody sits before it. */
const progressMs = 30_000;

/** The tests, among the names of parts. */
const tests = 'tests';
const names = [tests, ...parts.map(({ part }) => part.name)];

const program = new Command('campaign').option(
  '--seed <number>',
  'chooses every fault',
  String(Date.now() % 1_000_000),
);
for (const [name, count] of Object.entries(defaults))
  program.addOption(new Option(`--${name} <count>`).default(String(count)));
program.option('--only <name>', 'one part, or all parts whose names begin so', named);
program.option('--tests <entries>', 'which test/*.test.ts, e.g. doors,hostile', entries);
program.option('--report <file>', 'where the report is written', 'campaign-report.md');
const options = program.parse().opts<
  Readonly<Record<Planned['option'] | 'seed' | 'report', string>> & {
    only?: readonly string[];
    tests?: readonly string[];
  }
>();
const wanted = new Set(options.only ?? names);
const seed = Number(options.seed);
const began = new Date();

const done: PartReport[] = [];
let tested: TestsReport | null = null;

/** After each part, so that a campaign that is ended early has one. */
function report(hasEnded: boolean): void {
  const campaign = { seed, began, parts: done, tests: tested, hasEnded };
  writeFileSync(options.report, reportText(campaign));
  if (findingsOf(campaign).length > 0) process.exitCode = 1;
}

if (wanted.has(tests)) {
  tested = await runTests(options.tests ?? [], (line) => console.log(`tests: ${line}`));
  for (const name of tested.failed) console.log(`tests: failed: ${name}`);
  report(false);
}
for (const { part, option, share } of parts) {
  const count = Math.round(Number(options[option]) * share);
  if (!wanted.has(part.name) || count === 0) continue;
  done.push(await run(part, count));
  report(false);
}
report(true);
console.log(`the report is in ${options.report}`);

function entries(text: string): readonly string[] {
  const unknown = text.split(',').filter((name) => !existsSync(`test/${name}.test.ts`));
  if (unknown.length === 0) return text.split(',');
  throw new InvalidArgumentError(`no tests are called ${unknown}`);
}

function named(text: string): readonly string[] {
  if (names.includes(text)) return [text];
  const found = names.filter((name) => name.startsWith(text));
  if (found.length > 0) return found;
  throw new InvalidArgumentError(`expected one of: ${names.join(', ')}`);
}

async function run(part: Planned['part'], count: number): Promise<PartReport> {
  const begun = performance.now();
  const seconds = () => Math.round((performance.now() - begun) / 1000);
  const told = { name: part.name, wanted: count };
  const reason = part.unable?.() ?? null;
  if (reason !== null) {
    console.log(`${part.name}: not run: ${reason}`);
    return { ...told, outcome: reason, seconds: 0 };
  }
  let said = begun;
  const running = part.run({ seed, count }, (done, findings) => {
    const left = done === 0 ? '' : `, about ${Math.round((seconds() / done) * (count - done))} s left`;
    const line = `${part.name}: ${done} of ${count}, ${findings} found, ${seconds()} s${left}`;
    if (process.stdout.isTTY) process.stdout.write(`\r${line}\x1b[K`);
    else if (performance.now() - said > progressMs) console.log(line);
    else return;
    said = performance.now();
  });
  // A part that broke has found something, and the others go on.
  const outcome = await running.catch((error: unknown) => ({
    ...{ ...nothing, unexplained: 1 },
    findings: [`seed ${seed}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`],
  }));
  if (process.stdout.isTTY) process.stdout.write('\n');
  console.log(`${part.name}: ${summary(outcome)} (seed ${seed}, ${seconds()} s)`);
  for (const finding of outcome.findings) console.log(`  ${finding}`);
  return { ...told, outcome, seconds: seconds() };
}
