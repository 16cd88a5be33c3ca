import { Limit, mapLimit, Running } from '../../src/kit/concurrency.ts';
import { t } from '../support/tap.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

t.test('a bounded number of tasks at a time, started in order, each once', async (t) => {
  const begun: number[] = [];
  let running = 0;
  let most = 0;
  await mapLimit([1, 2, 3, 4, 5, 6, 7], 3, async (n) => {
    begun.push(n);
    most = Math.max(most, ++running);
    for (let turns = n % 3; turns >= 0; turns--) await turn();
    running--;
  });
  t.strictSame([begun, running, most], [[1, 2, 3, 4, 5, 6, 7], 0, 3]);
  await mapLimit([], 3, async () => t.fail('nothing is there'));
});

t.test('the first failure is reported, and no further task starts', async (t) => {
  const begun: number[] = [];
  const work = mapLimit([1, 2, 3, 4, 5, 6], 2, async (n) => {
    begun.push(n);
    await turn();
    if (n === 3) throw new Error('three');
  });
  await t.rejects(work, { message: 'three' });
  for (let turns = 0; turns < 10; turns++) await turn();
  t.strictSame(begun, [1, 2, 3, 4]);
});

t.test('the end of running work includes work that is added meanwhile', async (t) => {
  const running = new Running();
  const order: string[] = [];
  const work = async (name: string) => {
    await turn();
    order.push(name);
    if (name === 'first') running.add(work('second'));
  };
  running.add(work('first'));
  await running.ended();
  t.strictSame(order, ['first', 'second']);
  await running.ended();
});

t.test('a limiter runs a bounded number at a time, in order, and continues after a failure', async (t) => {
  const limit = new Limit(2);
  const order: string[] = [];
  const work = (name: string) =>
    limit.run(async () => {
      order.push(`${name} begins`);
      await turn();
      order.push(`${name} ends`);
      if (name === 'a') throw new Error('a');
    });
  const all = await Promise.allSettled(['a', 'b', 'c', 'd'].map(work));
  t.strictSame(
    all.map(({ status }) => status),
    ['rejected', 'fulfilled', 'fulfilled', 'fulfilled'],
  );
  t.strictSame(order.slice(0, 2), ['a begins', 'b begins']);
  t.ok(order.indexOf('a ends') < order.indexOf('c begins'));
  t.equal(order.at(-1), 'd ends');
});
