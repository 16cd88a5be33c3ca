/**
 * What is kept in memory by name: how much, and that nothing else stays with it.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { FifoCache } from '../../storage/level/caches.ts';
import { t } from '../support/tap.ts';

t.test('the oldest go first, whatever was taken out before', async (t) => {
  const kept = new FifoCache<number>(() => 1);
  const inUse = new Map<string, number>();
  const countMax = 16_384;
  for (let n = 0; n < 100_000; n++) {
    const name = `${n % 3 === 0 ? n % 5000 : n}`;
    kept.add(name, n);
    inUse.delete(name);
    inUse.set(name, n);
    if (n % 7 === 0) {
      kept.delete(`${n - 100}`);
      inUse.delete(`${n - 100}`);
    }
    if (inUse.size <= countMax) continue;
    const [oldest = ''] = inUse.keys();
    inUse.delete(oldest);
    if (kept.get(oldest) !== undefined) t.fail(`${oldest} should have gone`);
  }
  for (const [name, n] of inUse) if (kept.get(name) !== n) t.fail(`${name} is ${kept.get(name)}, not ${n}`);
  t.equal(inUse.size, countMax);
});

t.test('an overwritten entry is released, also while no room is needed', async (t) => {
  const child = fileURLToPath(new URL('./bounded-child.js', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', child]);
  const told = JSON.parse(/^told (.*)$/m.exec(stdout)?.[1] ?? 'null') as { grown: number; last: number };
  t.equal(told.last, 1000);
  t.ok(told.grown < 10, `grown by ${told.grown.toFixed(1)} times what is kept`);
});
