/**
 * Deliveries under way when a hub ends: it waits for every one of them, also for two of one object that are under way
 * at once, because the next one began before the end of the other was seen.
 */
import { Holding, kwhOf } from '../delivery/watched.ts';
import { sessionBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

/** A hub, and an eMSP that holds what it is sent of one session. */
async function scene(t: Test) {
  const hub = await hubFor(t);
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  const push = (kwh: number) => cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { kwh }));
  const sent = async (count: number) => {
    await hub.settled(emsp);
    t.equal(emsp.received.length, count, `${count} were sent`);
  };
  const order: string[] = [];
  const close = async () => {
    await hub.close();
    order.push('the hub is closed');
  };
  /** Answers the call that came first, or the one that came last. */
  const answer = (which: 'first' | 'last') => {
    const call = which === 'first' ? holding.held.shift() : holding.held.pop();
    order.push(`${call && kwhOf(call.received)} kWh is answered`);
    call?.release({});
  };
  return { ...hub.created, hub, push, sent, order, close, answer };
}

/** Gives an end that comes too early the time to show itself. */
async function lull(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setTimeout(resolve, 10));
}

t.test('a flight that began before the previous one’s end was seen is waited for', async (t) => {
  const { hub, push, sent, order, close, answer } = await scene(t);
  // After it a receiver gets more with each success, and that is looked at as soon as the success is known.
  for (const state of ['open', 'closed']) await admin(hub, 'POST', '/parties/NL-EMS/circuits/async', { state });
  await push(1);
  await sent(1);
  await push(2);
  answer('first');
  await sent(2);
  const closing = close();
  await lull();
  answer('first');
  await closing;
  t.strictSame(order, ['1 kWh is answered', '2 kWh is answered', 'the hub is closed']);
});
