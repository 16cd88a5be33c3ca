/** What pushes have the process do again and again, counted at the platform's own functions. */
import { sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const pushes = 20;

/** Calls of a method while `run` runs. */
async function callsOf<K extends string>(
  of: Record<K, (...args: never[]) => unknown>,
  name: K,
  run: () => Promise<void>,
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

t.test('pushes of one second do not compute its date again and again', async (t) => {
  const hub = await hubFor(t, {}, { clock: new SimulatedClock('2026-03-01T10:00:00Z') });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const calls = await callsOf(Date.prototype, 'toISOString', async () => {
    for (let n = 0; n < pushes; n++) {
      const answer = await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/S${n}`, sessionBody(`S${n}`));
      t.equal(answer.json.status_code, 1000);
    }
  });
  t.ok(calls < pushes, `${calls} dates were computed for ${pushes} pushes`);
});
