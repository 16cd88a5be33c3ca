/**
 * Hostile input at every door: requests bent out of valid ones, from one seed. At length 6,000 of them, else those of them that
 * are the first at a door or the first of a way to bend. `HOSTILE_SEED` chooses others; a finding names the number of its input,
 * and `HOSTILE_INPUT=n` sends that one alone.
 */
import { adminRoutes } from '../../src/admin/server.ts';
import type { Operations } from '../../src/hub/ports/operator.ts';
import { routes } from '../../src/ocpi/server.ts';
import { isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { bombard } from './bombardment.ts';
import { adminSamples, allSamples, ocpiSamples } from './doors.ts';
import { type Actors, firstOfEach, inputOf } from './generator.ts';
import { sceneFor } from './scene.ts';

const seed = Number(process.env.HOSTILE_SEED ?? 6);
const all = 6_000;

function numbers(): number[] {
  const { HOSTILE_INPUT: one } = process.env;
  if (one !== undefined) return [Number(one)];
  return isAtLength ? Array.from({ length: all }, (_, n) => n) : firstOfEach(seed, all);
}

const named = (all: readonly { method: string; path: string }[]) =>
  all.map(({ method, path }) => `${method} ${path}`).sort();

t.test('every door gets mutated requests', async (t) => {
  t.strictSame(Object.keys(ocpiSamples).sort(), named(routes), 'the module table');
  t.strictSame(Object.keys(adminSamples).sort(), named(adminRoutes({} as Operations)), 'the admin tables');
});

t.test('a seed repeats its inputs, and another seed has others', async (t) => {
  const actors: Actors = { authorization: () => 'Token eA==', filled: (body) => body };
  const bytesOf = (chosen: number, n: number) =>
    Buffer.concat(inputOf(chosen, n, actors).wire.parts).toString('latin1');
  const numbers = Array.from({ length: 200 }, (_, n) => n);
  t.strictSame(
    numbers.map((n) => bytesOf(1, n)),
    numbers.map((n) => bytesOf(1, n)),
  );
  t.not(numbers.map((n) => bytesOf(1, n)).join(), numbers.map((n) => bytesOf(2, n)).join());
  const doors = new Set(Array.from({ length: 3_000 }, (_, n) => inputOf(seed, n, actors).door));
  t.equal(doors.size, Object.keys(allSamples).length, 'within 3,000 inputs every door is knocked at');
});

t.test('no hostile input breaks the hub, and refused ones leave no trace [D2, D3]', async (t) => {
  const scene = await sceneFor(t);
  const result = await bombard(scene, { seed, numbers: numbers() });
  t.strictSame(result.offences, []);
  t.ok(result.answers > result.inputs / 2, `${result.answers} answers to ${result.inputs} inputs`);
  t.ok(result.recorded > 0, `${result.recorded} events from inputs that were good enough`);
  const statuses = [...result.byStatus].sort(([a], [b]) => a - b);
  t.comment(`by status: ${statuses.map(([status, count]) => `${status}: ${count}`).join(', ')}`);
  t.comment(`resident memory at most ${result.residentMaxMb.toFixed(0)} MiB`);
});
