/** All tests at full length, as `npm test` runs them: what became of each, and the figures that they give. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { nameOf, type TestOutcome, tapReader } from './tap-lines.ts';

type Counts = Readonly<Record<string, number>>;

export interface TestsReport {
  /** Files of tests, each with the count of its assertions. */
  readonly files: ReadonlyMap<string, { readonly passed: number; readonly failed: number }>;
  /** Names of what failed. */
  readonly failed: readonly string[];
  readonly skipped: readonly TestOutcome[];
  /** Tests that `npm test` leaves to the campaign. */
  readonly left: readonly { readonly name: string; readonly outcome: string }[];
  /** By kind. */
  readonly figures: ReadonlyMap<string, Counts>;
}

/** `entries`: names of `test/*.test.ts`; all of them when there are none. */
export async function runTests(entries: readonly string[], progress: (line: string) => void): Promise<TestsReport> {
  const directory = mkdtempSync(join(tmpdir(), 'campaign-'));
  try {
    const path = join(directory, 'figures');
    writeFileSync(path, '');
    const env = { TEST_SHARE: '1', ...process.env, TEST_FIGURES: path };
    const running = spawn(process.execPath, [join('dist', 'test', 'run.js'), ...entries], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(running, 'close');
    const outcomes: TestOutcome[] = [];
    const read = tapReader();
    for await (const line of createInterface({ input: running.stdout })) {
      const outcome = read(line);
      if (outcome === null) continue;
      outcomes.push(outcome);
      // Entries and their files.
      if (outcome.path.length <= 2) progress(`${outcome.outcome}: ${nameOf(outcome.path)}`);
    }
    const [code] = (await ended) as [number | null];
    const report = reportOf(outcomes, figuresIn(path));
    const failed = code === 0 || report.failed.length > 0 ? report.failed : [`the tests ended with ${code}`];
    return { ...report, failed };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function figuresIn(path: string): Map<string, Counts> {
  const all = new Map<string, Counts>();
  for (const line of readFileSync(path, 'utf8').split('\n').filter(Boolean)) {
    const { kind, counts } = JSON.parse(line) as { kind: string; counts: Counts };
    const sum = { ...all.get(kind) };
    for (const [name, count] of Object.entries(counts)) sum[name] = (sum[name] ?? 0) + count;
    all.set(kind, sum);
  }
  return all;
}

function reportOf(outcomes: readonly TestOutcome[], figures: ReadonlyMap<string, Counts>): TestsReport {
  const files = new Map<string, { passed: number; failed: number }>();
  const known = new Map<string, string>();
  const parents = new Set<string>();
  for (const { path, outcome } of outcomes) {
    known.set(nameOf(path), outcome);
    for (let depth = 1; depth < path.length; depth += 1) parents.add(nameOf(path.slice(0, depth)));
  }
  const leaves = outcomes.filter(({ path }) => !parents.has(nameOf(path)));
  for (const { path, outcome } of leaves) {
    const [entry = '', file = entry] = path;
    const counts = files.get(file) ?? { passed: 0, failed: 0 };
    files.set(file, counts);
    if (outcome !== 'skipped') counts[outcome] += 1;
  }
  // `TAP` is the process of an entry, which has no name of its own there.
  const names = Object.keys(figures.get('left') ?? {}).map((name) => name.replace(' > TAP > ', ' > '));
  return {
    files,
    failed: leaves.filter(({ outcome }) => outcome === 'failed').map(({ path }) => nameOf(path)),
    skipped: outcomes.filter(({ outcome }) => outcome === 'skipped'),
    left: names.map((name) => ({ name, outcome: known.get(name) ?? 'did not end' })),
    figures,
  };
}
