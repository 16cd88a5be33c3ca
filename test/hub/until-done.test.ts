/** Work that is repeated until the store takes it. */
import { Timers } from '../../src/hub/kernel/timers.ts';
import { untilDone } from '../../src/hub/kernel/until-done.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

t.test('it is retried each second until it succeeds, and its failures are logged more and more rarely', async (t) => {
  const clock = new SimulatedClock();
  const timers = new Timers(clock, { debug() {}, info() {}, warn() {}, error() {} });
  t.teardown(() => timers.close());
  let tries = 0;
  let ids = 0;
  const told: number[] = [];
  const work = async () => {
    tries += 1;
    if (tries < 20) throw new Error('no room');
  };
  const secrets = { newId: () => String(++ids) };
  await untilDone({ ports: { clock, secrets }, timers }, work, () => void told.push(tries));
  for (let second = 0; second < 30; second++) {
    clock.advance(1_000);
    await new Promise(setImmediate);
  }
  t.equal(tries, 20);
  t.strictSame(told, [1, 2, 4, 8, 16]);
});
