/** What the campaign asks of a hub under attack: that its victim notices nothing. */
import { memoryMax, mib, type Noticed, roomsMiB } from './victim.ts';

/** An authorization takes at most so many times as long as at a quiet hub, in the same run. */
const slowerMax = 5;

/** Of these, so many percent are at most as large. */
export function percentile(of: readonly number[], percent: number): number {
  const sorted = [...of].sort((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? Number.NaN;
}

const isTimeout = (line: string): boolean => / 504\/|time/i.test(line);

export interface Under {
  readonly quiet: Pick<Noticed, 'authorizationsMs'>;
  readonly attacked: Noticed;
}

/** The figures of a run, by name. */
export function figuresOf({ quiet, attacked }: Under): Record<string, number> {
  const timeouts = attacked.harm.filter(isTimeout).length;
  const tenths = (ms: number) => Math.round(ms * 10) / 10;
  return {
    refusals: attacked.harm.length - timeouts,
    'time-outs': timeouts,
    'circuits opened': attacked.circuits.length,
    paths: attacked.paths,
    authorizations: attacked.authorizationsMs.length,
    'quiet p99 ms': tenths(percentile(quiet.authorizationsMs, 99)),
    'p99 ms': tenths(percentile(attacked.authorizationsMs, 99)),
    'idle MiB': Math.round(attacked.idle / 2 ** 20),
    'most MiB': Math.round(attacked.peak / 2 ** 20),
  };
}

/** Goals that were missed, a sentence each. */
export function missed(under: Under): string[] {
  const { attacked } = under;
  const { 'quiet p99 ms': quiet = 0, 'p99 ms': slow = Number.POSITIVE_INFINITY } = figuresOf(under);
  const lost = Object.keys(attacked.lost);
  const goals: readonly (readonly [isMet: boolean, what: string])[] = [
    [attacked.paths > 0, 'the victim walked no path'],
    [attacked.harm.length === 0, `refused or not answered, ${attacked.harm.length} times: ${few(attacked.harm)}`],
    [attacked.circuits.length === 0, `circuits opened: ${JSON.stringify(attacked.circuits.slice(0, 3))}`],
    [lost.length === 0, `sessions that did not arrive whole and in order: ${few(lost)}`],
    [
      attacked.peak < memoryMax(attacked.idle),
      `memory ${mib(attacked.peak)}, more than twice ${mib(attacked.idle)} and ${roomsMiB} MiB of rooms`,
    ],
    [slow <= slowerMax * quiet, `the p99 of authorize is ${slow} ms, more than ${slowerMax} times ${quiet} ms`],
  ];
  return goals.flatMap(([isMet, what]) => (isMet ? [] : [what]));
}

/** The first few, each kind once. */
function few(lines: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const line of lines) {
    const kind = line.replaceAll(/V\d+|127\.0\.0\.1:\d+/g, '…');
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return [...counts]
    .slice(0, 8)
    .map(([kind, count]) => `${count} × ${kind}`)
    .join('; ');
}
