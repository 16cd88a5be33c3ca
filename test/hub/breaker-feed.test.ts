/**
 * What the ends of calls say of a partner.
 */
import { initialTransition, transition } from 'xstate';
import { type CircuitEvent, circuitMachine, isWell } from '../../machines/circuit.ts';
import type { Outcome } from '../../src/domain/errors.ts';
import { BreakerFeed } from '../../src/hub/kernel/breaker-feed.ts';
import { t } from '../support/tap.ts';

const rules = { failuresMax: 3, objectsMin: 0, openMs: 1_000, openMsMax: 8_000, slotsMax: 8 };
const outcome = (met: Outcome['class']) => ({ class: met, httpStatus: 200 }) as Outcome;
const [good, bad] = [outcome('delivered'), outcome('timeout')];

/** One circuit, and what was sent to it; it has an actor once something was. */
function scene() {
  let [snapshot] = initialTransition(circuitMachine, { rules, at: 0 });
  const sent: CircuitEvent[] = [];
  const tell = (_partner: string, _circuit: string, event: CircuitEvent) => {
    sent.push(event);
    [snapshot] = transition(circuitMachine, snapshot, event);
  };
  const has = () => sent.length > 0;
  const breakerFeed = new BreakerFeed({ tell, has, isWell: () => isWell(snapshot) });
  const told = (met: Outcome, at: number) => breakerFeed.told('NL-CPO', 'sessions', met, at, 'a session');
  return { sent, told, circuit: () => snapshot.context, state: () => snapshot.value };
}

t.test('successes of a circuit that is well are told together (G1)', async (t) => {
  const { sent, told, circuit } = scene();
  told(bad, 0);
  told(good, 0);
  sent.length = 1;
  for (let n = 0; n < 200; n++) told(good, 1 + n);
  t.equal(sent.length, 1);
  told(good, 5_001);
  t.equal(circuit().calls, 203, 'after a while, and all of them count');
  told(good, 5_002);
  told(bad, 10_000);
  t.equal(circuit().calls, 205);
});

t.test('of a sample that is over nothing is told (G1)', async (t) => {
  const { sent, told, circuit } = scene();
  for (let n = 0; n < 200; n++) told(good, 1 + n);
  told(bad, 40_000);
  t.match(sent, [{ type: 'call.failed' }]);
  t.equal(circuit().calls, 1);
});

t.test('they are told before what may open the circuit, and what is ill is told at once (G2)', async (t) => {
  const { sent, told, circuit, state } = scene();
  told(good, 1);
  told(bad, 2);
  t.match(sent, [{ type: 'call.reached', calls: 1 }, { type: 'call.failed' }]);
  told(good, 3);
  t.equal(circuit().failures, 0, 'the success behind a failure is told at once');
  t.equal(sent.length, 3);
  for (const at of [4, 5, 6]) told(bad, at);
  t.equal(state(), 'open');
  told(good, 7);
  t.equal(sent.at(-1)?.type, 'call.reached', 'of an open circuit each end is told');
});

t.test('successes alone start no circuit, and its first failure brings those of the sample along', async (t) => {
  const { sent, told, circuit } = scene();
  for (let at = 0; at <= 60_000; at += 10_000) told(good, at);
  told(outcome('throttled'), 60_000);
  t.same(sent, []);
  told(bad, 60_001);
  t.match(sent, [
    { type: 'call.reached', calls: 3 },
    { type: 'call.failed', object: 'a session' },
  ]);
  t.equal(circuit().calls, 4);
});
