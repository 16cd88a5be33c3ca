/** What the tests said: their TAP, line by line as it comes, as a tree of names with outcomes. */

export interface TestOutcome {
  /** Entry, file, test and what is below it. */
  readonly path: readonly string[];
  readonly outcome: 'passed' | 'failed' | 'skipped';
  /** Why it was skipped. */
  readonly reason: string;
}

/** Of a path in a report and in the figures of tests. */
export const nameOf = (path: readonly string[]): string => path.join(' > ');

/** Gives the outcome with which a test ends at this line; null for any other line. Assertions have a path as tests have. */
export function tapReader(): (line: string) => TestOutcome | null {
  const open: string[] = [];
  return (line) => {
    const [, spaces = '', rest = ''] = /^((?: {4})*)(\S.*)$/.exec(line) ?? [];
    const depth = spaces.length / 4;
    const [, begun] = /^# Subtest: (.*)$/.exec(rest) ?? [];
    if (begun !== undefined) {
      open.length = depth;
      open[depth] = begun;
      return null;
    }
    const [, not, title = '', skipped, reason = ''] =
      /^(not )?ok \d+(?: - (.*?))?(?: # (?:([A-Z]{4}) ?(.*)|time=.*))?$/.exec(rest) ?? [];
    if (!/^(not )?ok \d+/.test(rest)) return null;
    const path = [...Array.from({ length: depth }, (_, n) => open[n] ?? ''), title];
    return { path, outcome: skipped ? 'skipped' : not ? 'failed' : 'passed', reason };
  };
}
