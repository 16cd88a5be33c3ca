/**
 * `npm run bench [name] [--json]`: measures the built hub as a process of its own. Compared systems take turns within one run; what is
 * quoted is medians and ratios, since this says more than seconds on a shared machine.
 */
import { cpus } from 'node:os';
import { backlog } from './backlog.ts';
import { hang } from './hang.ts';
import { pages } from './pages.ts';

/** Rows of a table: what was measured, and its value with unit. */
export type Figures = Readonly<Record<string, string | number>>;

export interface Bench {
  readonly name: string;
  readonly says: string;
  readonly run: (progress: (line: string) => void) => Promise<Figures>;
}

const benches: readonly Bench[] = [hang, backlog, pages];
const [wanted] = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const asJson = process.argv.includes('--json');
const chosen = benches.filter(({ name }) => wanted === undefined || name === wanted);
if (chosen.length === 0) {
  console.error(`no bench is called ${wanted}; there are ${benches.map(({ name }) => name).join(', ')}`);
  process.exit(2);
}
for (const { name, says, run } of chosen) {
  const figures = await run((line) => process.stderr.write(`${name}: ${line}\n`));
  if (asJson) {
    console.log(JSON.stringify({ name, at: new Date().toISOString(), node: process.version, ...figures }));
    continue;
  }
  console.log(`\n${name}: ${says} (Node ${process.version}, ${cpus().length} cores)`);
  for (const [what, value] of Object.entries(figures)) console.log(`  ${what.padEnd(52)} ${value}`);
}
process.exit(0);
