/** Figures of tests for the report of the campaign: a line of JSON each, in the file that TEST_FIGURES names; nowhere without it. */
import { appendFileSync } from 'node:fs';

/** Figures of one kind add up, whichever tests say them. */
export function figures(kind: string, counts: Readonly<Record<string, number>>): void {
  const { TEST_FIGURES: path } = process.env;
  if (path) appendFileSync(path, `${JSON.stringify({ kind, counts })}\n`);
}
