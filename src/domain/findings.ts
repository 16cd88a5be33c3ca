/** How the findings of a check of a partner are put into words, at the command line and in the console alike. */

/** What texts need of a finding. */
interface Finding {
  readonly severity: 'error' | 'warning' | 'note';
  readonly tried: string;
  readonly seen: string;
  readonly expected: string;
  readonly source: string;
  readonly heals?: string;
  readonly healed?: boolean;
}

interface Check {
  readonly party: string;
  readonly calls: number;
  readonly findings: readonly unknown[];
}

/** What was tried, what came, what OCPI says and what heals it: label and text. */
export function findingParts(finding: Finding): readonly (readonly [label: string, text: string])[] {
  const { tried, seen, expected, source } = finding;
  return [
    ['tried', tried],
    ['seen', seen],
    ['expected', `${expected} [${source}]`],
    ['heals it', remedyOf(finding)],
  ];
}

function remedyOf({ heals, healed, severity }: Finding): string {
  if (heals !== undefined) return healed ? `${heals}, which is set` : heals;
  return severity === 'warning' ? 'nothing is needed: the hub makes up for it' : 'the partner has to';
}

/** A check that has ended, in a line. */
export function checkSummary({ party, calls, findings: { length } }: Check): string {
  if (length === 0) return `${party} answers as OCPI 2.2.1 says: nothing found in ${calls} calls.`;
  return `${party}: ${length === 1 ? '1 finding' : `${length} findings`} in ${calls} calls`;
}
