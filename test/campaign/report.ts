/** The report of a campaign, in markdown: figures first, then whatever must not be. */
import { execFileSync } from 'node:child_process';
import { cpus, totalmem, type } from 'node:os';
import type { Outcome } from '../faults/part.ts';
import type { TestsReport } from './tests.ts';

export interface PartReport {
  readonly name: string;
  readonly wanted: number;
  /** Or why it could not run. */
  readonly outcome: Outcome | string;
  readonly seconds: number;
}

export interface CampaignReport {
  readonly seed: number;
  readonly began: Date;
  readonly parts: readonly PartReport[];
  /** Null when they were not asked for, or have not ended yet. */
  readonly tests: TestsReport | null;
  readonly hasEnded: boolean;
}

/** Files whose tests stand for the rest of the partners being well while one of them is not. */
const isolation = /^(isolation\/|delivery\/(hanging|lanes)|overload\/|hostile\/partner-answers)/;

/** Everything that must not be, a sentence each. */
export function findingsOf({ parts, tests }: CampaignReport): string[] {
  return [
    ...parts.flatMap(({ name, outcome }) =>
      typeof outcome === 'string'
        ? [`${name}: not run: ${outcome}`]
        : outcome.findings.map((what) => `${name}: ${what}`),
    ),
    ...(tests?.failed.map((name) => `test: ${name}`) ?? []),
    ...(tests?.left.filter(({ outcome }) => outcome !== 'passed').map(({ name, outcome }) => `${name}: ${outcome}`) ??
      []),
  ];
}

export function reportText(report: CampaignReport): string {
  const { seed, began, parts, tests, hasEnded } = report;
  const findings = findingsOf(report);
  const about = [
    `Commit ${commit()}, seed ${seed}, begun ${began.toISOString()}, ${hasEnded ? 'ended' : 'as it stood'} ${new Date().toISOString()}.`,
    machine(),
  ];
  const { TEST_SHARE: share } = process.env;
  const chapters: (readonly [title: string, text: string])[] = [
    ['Faults, worlds, inputs', parts.length === 0 ? 'Not run.' : table(partColumns, parts.map(partRow))],
    ['Access', figuresText(tests, 'access', 'cells of the access matrix')],
    ['Secrets', figuresText(tests, 'secrets', 'secrets, in every form')],
    ['Isolation', isolationText(parts, tests)],
    [`Tests${share === undefined ? '' : `, TEST_SHARE ${share}`}`, filesText(tests, () => true)],
    ['Left to the campaign', leftText(tests)],
    ['Skipped', list(tests?.skipped.map(({ path, reason }) => `${path.join(' > ')}: ${reason}`) ?? [])],
  ];
  const found = findings.length === 0 ? 'Nothing was found.' : `**${findings.length} found:**\n\n${list(findings)}`;
  return `# Campaign\n\n${about.join('\n')}\n\n${found}\n${chapters.map(([title, text]) => `\n## ${title}\n\n${text}\n`).join('')}`;
}

const partColumns = [
  'part',
  'done',
  'of',
  'lost',
  'reordered',
  'duplicated',
  'unexplained',
  'forgotten',
  'more',
  'seconds',
];

function partRow({ name, wanted, outcome, seconds }: PartReport): (string | number)[] {
  if (typeof outcome === 'string') return [name, 0, wanted, '', '', '', '', '', `not run: ${outcome}`, seconds];
  const { done, lost, reordered, duplicated, unexplained, forgotten, figures } = outcome;
  const more = Object.entries(figures).map(([figure, count]) => `${figure} ${count}`);
  return [name, done, wanted, lost, reordered, duplicated, unexplained, forgotten, more.join(', '), seconds];
}

function figuresText(tests: TestsReport | null, kind: string, of: string): string {
  const counts = tests?.figures.get(kind);
  if (!counts) return 'Not run.';
  return table(['', ...Object.keys(counts)], [[of, ...Object.values(counts)]]);
}

/** What the victim noticed of all attackers at once, and the tests of each attack alone. */
function isolationText(parts: readonly PartReport[], tests: TestsReport | null): string {
  const outcome = parts.find(({ name }) => name === 'isolation')?.outcome;
  const files = filesText(tests, (name) => isolation.test(name));
  if (typeof outcome !== 'object') return files;
  const { done, lost, figures } = outcome;
  const counts = { minutes: done, lost, ...figures };
  return `${table(['', ...Object.keys(counts)], [['isolation', ...Object.values(counts)]])}\n\n${files}`;
}

function filesText(tests: TestsReport | null, isWanted: (name: string) => boolean): string {
  const files = [...(tests?.files ?? [])].filter(([name]) => isWanted(name));
  if (files.length === 0) return 'Not run.';
  return table(
    ['tests', 'passed', 'failed'],
    files.map(([name, { passed, failed }]) => [name, passed, failed]),
  );
}

const leftText = (tests: TestsReport | null) =>
  list(tests?.left.map(({ name, outcome }) => `${outcome}: ${name}`) ?? []);

const list = (lines: readonly string[]) =>
  lines.length === 0 ? 'None.' : lines.map((line) => `- ${line.replaceAll('\n', ' ')}`).join('\n');

function table(columns: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]) =>
    `| ${cells.map((cell) => `${cell}`.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(columns), line(columns.map(() => '---')), ...rows.map(line)].join('\n');
}

function machine(): string {
  const all = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${all.length} cores (${all[0]?.model ?? 'unknown'}), ${memory} GiB, ${type()}, Node ${process.version}.`;
}

function commit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    return `${git('rev-parse', 'HEAD')}${git('status', '--porcelain') === '' ? '' : ' with changes'}`;
  } catch {
    return 'unknown';
  }
}
