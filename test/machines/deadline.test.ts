import { createActor } from 'xstate';
import { type DeadlineEvent, deadline } from '../../machines/deadline.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

function started() {
  const clock = new SimulatedClock();
  const fired: [string, number][] = [];
  const actor = createActor(deadline, { input: { clock, passed: (id, at) => fired.push([id, at]) } });
  actor.start();
  const send = (...events: DeadlineEvent[]) => {
    for (const event of events) actor.send(event);
  };
  return { clock, fired, send, actor };
}

const arm = (id: string, at: number): DeadlineEvent => ({ type: 'deadline.arm', id, at });

t.test('waits fire in order of instant, however they were armed [T3]', async (t) => {
  const { clock, fired, send } = started();
  send(arm('late', 300), arm('early', 100), arm('middle', 200));
  clock.advance(99);
  t.same(fired, []);
  clock.advance(1);
  t.same(fired, [['early', 100]]);
  clock.advance(1000);
  t.same(fired, [
    ['early', 100],
    ['middle', 200],
    ['late', 300],
  ]);
});

t.test('arming again moves a wait, disarming ends it [T2]', async (t) => {
  const { clock, fired, send } = started();
  send(arm('moved', 100), arm('moved', 500), arm('gone', 200), { type: 'deadline.disarm', id: 'gone' });
  clock.advance(400);
  t.same(fired, []);
  clock.advance(100);
  t.same(fired, [['moved', 500]]);
  send(arm('moved', 600), arm('moved', 550));
  clock.advance(50);
  t.same(fired.at(-1), ['moved', 550], 'also to an earlier instant');
  clock.advance(100);
  t.equal(fired.length, 2, 'and fires once');
});

t.test('an instant that has passed already fires at once [T1]', async (t) => {
  const { clock, fired, send } = started();
  clock.advance(1000);
  send(arm('overdue', 10));
  clock.advance(0);
  t.same(fired, [['overdue', 10]]);
});

t.test('[DEADLINE-4] waits that were disarmed or moved before their instant are forgotten at once', async (t) => {
  const { clock, fired, send } = started();
  const disarm = (id: string): DeadlineEvent => ({ type: 'deadline.disarm', id });
  send(arm('kept', 1000), arm('moved', 1000));
  for (let n = 0; n < 10_000; n++) send(arm(`${n}`, 900), disarm(`${n}`), arm('moved', 2000 + n));
  send(arm('moved', 1500));
  let looks = 0;
  const { now } = clock;
  clock.now = () => {
    looks += 1;
    return now.call(clock);
  };
  clock.advance(999);
  t.ok(looks < 500, `${looks} looks at the clock`);
  clock.advance(20_000);
  t.same(fired, [
    ['kept', 1000],
    ['moved', 1500],
  ]);
  t.ok(looks < 1000, `${looks} looks at the clock`);
});

t.test('a wait longer than any timer of the platform keeps its instant', async (t) => {
  const { clock, fired, send } = started();
  const fortyDays = 40 * 24 * 3_600_000;
  send(arm('far', fortyDays));
  for (let hour = 0; hour < 40 * 24 - 1; hour++) clock.advance(3_600_000);
  t.same(fired, []);
  clock.advance(3_600_000);
  t.same(fired, [['far', fortyDays]]);
});

t.test('a stopped actor leaves no timer behind', async (t) => {
  const { clock, fired, send, actor } = started();
  send(arm('never', 100));
  actor.stop();
  clock.advance(1000);
  t.same(fired, []);
});
