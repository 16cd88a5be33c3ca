/** What requests have the process do again and again, counted at the platform's own functions and at the clock. */
import { sessionBody, tokenBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

/** More than can each take a second. */
const pushes = 20;

/** Calls of a method while `run` runs. */
async function callsOf<K extends string>(
  of: Record<K, (...args: never[]) => unknown>,
  name: K,
  run: () => Promise<unknown>,
): Promise<number> {
  const own = of[name];
  let calls = 0;
  of[name] = function (this: unknown, ...args: never[]) {
    calls += 1;
    return own.apply(this, args);
  };
  try {
    await run();
  } finally {
    of[name] = own;
  }
  return calls;
}

t.test('a push in the same second as the previous one formats no date', async (t) => {
  const hub = await hubFor(t);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const calls: number[] = [];
  for (let n = 0; n < pushes; n++) {
    const push = () => cpo.push('PUT', `/2.2.1/sessions/NL/CPO/S${n}`, sessionBody(`S${n}`));
    calls.push(await callsOf(Date.prototype, 'toISOString', push));
  }
  t.ok(calls.includes(0), `dates that were computed by each push: ${calls}`);
});

/** Keeps how long each wait was to be, ms. */
class CountingClock extends SimulatedClock {
  waits: number[] = [];

  override setTimeout<A extends unknown[]>(fn: (...args: A) => void, timeoutMs: number, ...args: A) {
    this.waits.push(timeoutMs);
    return super.setTimeout(fn, timeoutMs, ...args);
  }
}

t.test('the look-up of the uid of an authorize sets no timer where the store has the token in memory', async (t) => {
  const clock = new CountingClock('2026-03-01T10:00:00Z');
  const hub = await hubFor(t, {}, { clock });
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ body: { allowed: 'ALLOWED' } }) });
  await emsp.call('PUT', '/2.2.1/tokens/NL/EMS/Card1', tokenBody('Card1'));
  await hub.settled();
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  for (const [uid, asked] of [
    ['CARD1', 'Card1'],
    ['CARD2', 'CARD2'],
  ] as const) {
    clock.waits = [];
    const answer = await cpo.call('POST', `/2.2.1/tokens/${uid}/authorize`, undefined, to);
    t.match(answer.json, { data: { allowed: 'ALLOWED' } });
    t.match(emsp.received.at(-1)?.path, `/${asked}/authorize`);
    t.notOk(clock.waits.includes(250), `the waits of ${uid}: ${clock.waits}`);
  }
});
