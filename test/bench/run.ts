/**
 * `npm run bench [name or goal …] [--json] [--short] [--against DIR]`: measures the built hub as a process of its own. Compared systems take turns within
 * one run; what is quoted is medians, spread and ratios, since this says more than seconds on a shared machine.
 */
import { availableParallelism } from 'node:os';
import { otherArguments } from './against.ts';
import { authorize } from './authorize.ts';
import { backlog } from './backlog.ts';
import { besidePushes } from './beside-pushes.ts';
import { encrypted } from './encrypted.ts';
import { fanOut, slowFanOut } from './fan-out.ts';
import { growth } from './growth.ts';
import { history } from './history.ts';
import { inspectors } from './inspectors.ts';
import { latency } from './latency.ts';
import { memory } from './memory.ts';
import { million } from './million.ts';
import { moduleFault } from './module-fault.ts';
import { moving } from './moving.ts';
import { nodes } from './nodes.ts';
import { openTransaction } from './open-transaction.ts';
import { overview } from './overview.ts';
import { ownersBench } from './owners.ts';
import { pages } from './pages.ts';
import { partsBench } from './parts.ts';
import { canPin } from './processes.ts';
import { push } from './push.ts';
import { restart } from './restart.ts';
import { retention } from './retention.ts';
import { scaling } from './scaling.ts';
import { slowPartner } from './slow-partner.ts';
import { slowReceiver } from './slow-receiver.ts';
import { start } from './start.ts';
import type { Spread } from './statistics.ts';

/** Rows of a table: what was measured with its unit, and its value; of several rounds the median with both ends. */
export type Figures = Readonly<Record<string, string | number | Spread>>;

export interface RunOptions {
  /** As little as still shows the ratio: at most about 25 s, of several nodes 40 s. */
  readonly isShort: boolean;
}

export interface Bench {
  readonly name: string;
  /** Of the tables of goals, e.g. `P1`. */
  readonly goal?: string;
  readonly says: string;
  readonly run: (progress: (line: string) => void, options: RunOptions) => Promise<Figures>;
}

const benches: readonly Bench[] = [
  push,
  latency,
  slowReceiver,
  authorize,
  besidePushes,
  fanOut,
  slowFanOut,
  pages,
  restart,
  start,
  retention,
  memory,
  million,
  growth,
  history,
  inspectors,
  overview,
  slowPartner,
  moduleFault,
  backlog,
  encrypted,
  nodes,
  ownersBench,
  moving,
  openTransaction,
  scaling,
  partsBench,
];

const given = otherArguments;
const wanted = given.filter((argument) => !argument.startsWith('--')).map((name) => name.toLowerCase());
/** Flags that npm took for its own, since no `--` stood before them, it passes on in the environment. */
const [asJson, isShort] = ['json', 'short'].map(
  (flag) => given.includes(`--${flag}`) || process.env[`npm_config_${flag}`] === 'true',
);
const namesOf = ({ name, goal }: Bench) => [name, ...(goal ? [goal.toLowerCase()] : [])];
const unknown = wanted.filter((name) => !benches.some((bench) => namesOf(bench).includes(name)));
if (unknown.length > 0) {
  console.error(`no bench is called ${unknown}; there are ${benches.flatMap(namesOf).join(', ')}`);
  process.exit(2);
}

const shown = (value: Figures[string]) =>
  typeof value === 'object' ? `${value.median} (${value.min}..${value.max})` : String(value);

for (const bench of benches) {
  if (wanted.length > 0 && !namesOf(bench).some((name) => wanted.includes(name))) continue;
  const { name, goal, says, run } = bench;
  const startedAt = performance.now();
  const progress = (line: string) => process.stderr.write(`${name}: ${line}\n`);
  const figures = await run(progress, { isShort: isShort === true }).catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  if (asJson) {
    const about = { name, goal, at: new Date().toISOString(), node: process.version, cores: availableParallelism() };
    console.log(JSON.stringify({ ...about, isPinned: canPin, isShort, seconds, figures }));
    continue;
  }
  const where = `Node ${process.version}, ${availableParallelism()} cores${canPin ? ', pinned' : ''}, ${seconds} s`;
  console.log(`\n${goal ? `${goal} ` : ''}${name}: ${says} (${where})`);
  const width = Math.max(...Object.keys(figures).map(({ length }) => length));
  for (const [what, value] of Object.entries(figures)) console.log(`  ${what.padEnd(width)}  ${shown(value)}`);
}
process.exit(0);
