/**
 * What `npm test` runs: every entry (`test/*.test.ts`) in a process of its own, four at a time. `node dist/test/run.js cli doors` runs two.
 *
 * Entries are plain processes of Node.js: the runner's loaders, there for coverage and mocks that no test here uses, read every module in a
 * thread beside it, a sixth of the CPU time of all tests.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { isAtLength } from './support/share.ts';

const suffix = '.test.js';
/** More than cores: entries wait for disks, browsers and children of theirs. On two cores a run of three took 4 % longer than one of four. */
const jobs = 4;
/**
 * Of V8: nearly all code of a test runs once, and is neither optimized early nor collected by more threads than there are cores for. A fifth of
 * the CPU time of an entry. Hubs and commands that a test starts have none of them.
 */
const flags = ['--interrupt-budget=2000000', '--single-threaded-gc', '--max-lazy', '--liftoff-only'];
/** Of one entry, there only so that a run ends in which something hangs. At length there is none. */
const limitMs = isAtLength ? 0 : 600_000;
/** Those that take longest begin first, so that none of them runs on alone. */
const longest = [
  ...['storage', 'cluster', 'console', 'cli', 'isolation', 'conformance', 'hub', 'faults', 'delivery', 'doors'],
  ...['overload', 'admin', 'hostile', 'pure', 'simulate'],
];

const here = readdirSync(import.meta.dirname).filter((file) => file.endsWith(suffix));
const all = new Set([...longest, ...here.map((file) => file.slice(0, -suffix.length))]);
const named = process.argv.slice(2);

t.jobs = jobs;
t.setTimeout(0);
for (const entry of named.length > 0 ? named : all) {
  const file = `${entry}${suffix}`;
  const words = ['-u', 'NODE_OPTIONS', process.execPath, ...flags, join(import.meta.dirname, file)];
  t.spawn('env', words, { name: `dist/test/${file}`, buffered: true, timeout: limitMs });
}
