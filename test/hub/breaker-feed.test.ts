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
  const failingSource = () => snapshot.context.failingSource;
  const breakerFeed = new BreakerFeed({ tell, has, isWell: () => isWell(snapshot), failingSource });
  const told = (met: Outcome, at: number, source = 'NL-EMS') =>
    breakerFeed.report('NL-CPO', 'sessions', met, at, source, 'a session');
  const passes = (at: number, source: string) => breakerFeed.beginPass('NL-CPO', 'sessions', at, source);
  const passed = () => breakerFeed.endPass('NL-CPO', 'sessions');
  const heldBack = (at: number) => breakerFeed.heldBack('NL-CPO', 'sessions', at);
  const drive = (event: CircuitEvent) => tell('', '', event);
  return { sent, told, passes, passed, heldBack, drive, circuit: () => snapshot.context, state: () => snapshot.value };
}

t.test('successes of a healthy circuit are sent together [BREAKER-FEED-1]', async (t) => {
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

t.test('successes older than the sample window are dropped [BREAKER-FEED-1]', async (t) => {
  const { sent, told, circuit } = scene();
  for (let n = 0; n < 200; n++) told(good, 1 + n);
  told(bad, 40_000);
  t.match(sent, [{ type: 'call.failed' }]);
  t.equal(circuit().calls, 1);
});

t.test(
  'successes are sent before an outcome that may open the circuit, and an unhealthy circuit gets every outcome at once [BREAKER-FEED-2]',
  async (t) => {
    const { sent, told, circuit, state } = scene();
    told(good, 1);
    told(bad, 2);
    t.match(sent, [{ type: 'call.reached', calls: 1 }, { type: 'call.failed' }]);
    told(good, 3);
    t.equal(circuit().failures, 0, 'a success after a failure is sent at once');
    t.equal(sent.length, 3);
    for (const at of [4, 5, 6]) told(bad, at);
    t.equal(state(), 'open');
    told(good, 7);
    t.equal(sent.at(-1)?.type, 'call.reached', 'every outcome of an open circuit is sent');
  },
);

t.test('successes alone start no circuit, and its first failure brings those of the sample window along', async (t) => {
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

t.test('failures on behalf of one source open nothing while another source is reached [BREAKER-FEED-4]', async (t) => {
  const { sent, told, state } = scene();
  told(good, 0, 'NL-B');
  for (let at = 1; at < 20; at++) told(bad, at, 'NL-A');
  t.equal(state(), 'closed');
  t.same(sent, [], 'nor does it start one');
  told(good, 20, 'NL-B');
  for (let at = 21; at < 30_000; at += 1_000) told(bad, at, 'NL-A');
  t.equal(state(), 'closed', 'for as long as its success is no older than the sample');
  for (const at of [30_021, 30_022, 30_023]) told(bad, at, 'NL-A');
  t.equal(state(), 'open');
});

t.test(
  'a server that fails for all opens the circuit once more sources fail than were reached [BREAKER-FEED-4]',
  async (t) => {
    const { sent, told, state } = scene();
    for (let n = 0; n < 10; n++) told(good, n, `NL-${n}`);
    for (let n = 0; n < 5; n++) told(bad, 10 + n, `NL-${n}`);
    t.same(sent, [], 'half of them were reached by their latest call');
    for (let n = 5; n < 7; n++) told(bad, 10 + n, `NL-${n}`);
    t.equal(state(), 'closed');
    told(bad, 17, 'NL-0');
    t.equal(state(), 'open');
    t.equal(sent.filter(({ type }) => type === 'call.failed').length, 3);
  },
);

t.test('two sources, and the server fails for both [BREAKER-FEED-4]', async (t) => {
  const { told, state } = scene();
  told(good, 0, 'NL-A');
  told(good, 0, 'NL-B');
  for (const at of [1, 2, 3, 4]) told(bad, at, 'NL-A');
  t.equal(state(), 'closed');
  told(bad, 5, 'NL-B');
  told(bad, 6, 'NL-A');
  t.equal(state(), 'closed');
  told(bad, 7, 'NL-B');
  t.equal(state(), 'open');
});

t.test('a circuit that opened on failures of one source holds back that source alone [BREAKER-FEED-5]', async (t) => {
  const { told, passes, passed, heldBack, drive, state } = scene();
  t.notOk(passes(0, 'NL-B'), 'a closed circuit holds nobody back');
  for (const at of [1, 2, 3]) told(bad, at, 'NL-A');
  t.equal(state(), 'open');
  t.equal(heldBack(4), 'NL-A');
  t.notOk(passes(4, 'NL-A'));
  for (let n = 0; n < 4; n++) t.ok(passes(4, `NL-B${n}`));
  t.notOk(passes(4, 'NL-B4'), 'no more at once than a few');
  passed();
  t.ok(passes(4, 'NL-B0'));
  passed();
  told(good, 5, 'NL-B0');
  for (let n = 0; n < 20; n++) t.ok(passes(6, 'NL-B0'), 'as many as it likes once it was reached');
  told(outcome('throttled'), 7, 'NL-B1');
  t.equal(heldBack(7), 'NL-A', 'what says nothing about the server changes nothing');
  drive({ type: 'circuit.due', at: 1_001 });
  t.equal(heldBack(1_001), 'NL-A', 'half-open, too');
  told(good, 1_002, 'NL-B0');
  told(good, 1_003, 'NL-B0');
  t.equal(state(), 'closed');
  t.equal(heldBack(1_003), null);
});

t.test(
  'it holds back all when a call of another source fails, or an operator opened it [BREAKER-FEED-5]',
  async (t) => {
    const { told, passes, passed, heldBack, drive } = scene();
    for (const at of [1, 2, 3]) told(bad, at, 'NL-A');
    t.ok(passes(4, 'NL-B'));
    passed();
    told(bad, 5, 'NL-B');
    t.equal(heldBack(5), null);
    for (const source of ['NL-A', 'NL-B', 'NL-C']) t.notOk(passes(5, source));
    drive({ type: 'operator.opened', at: 40_000, trace: { correlationId: '1' } as never });
    t.equal(heldBack(40_000), null, 'also when that failure is old');
    t.notOk(passes(40_000, 'NL-C'));
  },
);

t.test('many sources take no more memory than few, and the latest ones count [BREAKER-FEED-6]', async (t) => {
  const { told, state, sent } = scene();
  for (let n = 0; n < 64; n++) told(bad, n, `NL-${n}`);
  t.equal(state(), 'open');
  sent.length = 1;
  for (let n = 0; n < 64; n++) told(good, 100 + n, `NL-G${n}`);
  told(bad, 200, 'NL-1');
  t.equal(sent.at(-1)?.type, 'call.neutral', 'those that failed long ago were forgotten');
});
