/**
 * What the ends of calls say of a partner.
 */
import { initialTransition, transition } from 'xstate';
import { type PartnerMachineEvent, partnerMachine } from '../../machines/partner.ts';
import type { Supervisor } from '../../machines/supervisor.ts';
import type { Outcome } from '../../src/domain/errors.ts';
import { BreakerFeed } from '../../src/hub/kernel/breaker-feed.ts';
import { t } from '../support/tap.ts';

const rules = { failuresMax: 3, openMs: 1_000, openMsMax: { sync: 8_000, async: 8_000 }, offlineAfterMs: 60_000 };
const outcome = (met: Outcome['class']) => ({ class: met, httpStatus: 200 }) as Outcome;
const [good, bad] = [outcome('delivered'), outcome('timeout')];

/** One partner's machine, and what was sent to it. */
function scene() {
  let [snapshot] = initialTransition(partnerMachine, { rules, at: 0 });
  const sent: PartnerMachineEvent[] = [];
  const send = (_id: string, event: PartnerMachineEvent) => {
    sent.push(event);
    [snapshot] = transition(partnerMachine, snapshot, event);
  };
  const breakerFeed = new BreakerFeed({ send, snapshot: () => snapshot } as unknown as Supervisor);
  const told = (met: Outcome, at: number) => breakerFeed.told('partner:NL-CPO', 'async', met, at);
  return { sent, told, async: () => snapshot.context.async, state: () => snapshot.value.async };
}

t.test('successes of a circuit that is well are told together (G1)', async (t) => {
  const { sent, told, async } = scene();
  for (let n = 0; n < 200; n++) told(good, 1 + n);
  t.strictSame(sent, []);
  told(good, 5_001);
  t.equal(async().calls, 201, 'after a while, and all of them count');
  told(good, 5_002);
  told(bad, 10_000);
  t.equal(async().calls, 203);
});

t.test('of a sample that is over nothing is told (G1)', async (t) => {
  const { sent, told, async } = scene();
  for (let n = 0; n < 200; n++) told(good, 1 + n);
  told(bad, 40_000);
  t.match(sent, [{ type: 'async.failed' }]);
  t.equal(async().calls, 1);
});

t.test('they are told before what may open the circuit, and what is ill is told at once (G2)', async (t) => {
  const { sent, told, async, state } = scene();
  told(good, 1);
  told(bad, 2);
  t.match(sent, [{ type: 'async.reached', calls: 1 }, { type: 'async.failed' }]);
  told(good, 3);
  t.equal(async().failures, 0, 'the success behind a failure is told at once');
  t.equal(sent.length, 3);
  for (const at of [4, 5, 6]) told(bad, at);
  t.equal(state(), 'open');
  told(good, 7);
  t.equal(sent.at(-1)?.type, 'async.reached', 'of an open circuit each end is told');
});
