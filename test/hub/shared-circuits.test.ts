/**
 * Circuits of a server that several partners call by way of the hub: what one of them sends makes it fail, and it answers the others. Time is a
 * simulated clock; sockets and disk are real.
 */
import { sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf, statusOf } from '../support/observed.ts';
import { admin, type PlainPartner, type Received } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const isOdd = ({ path }: Received) => path.includes('ODD');

/** Two CPOs and their eMSP, which answers 500 to what has `ODD` in its path, or to all. */
async function scene(t: Test) {
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  const hub = await hubFor(t, { HUB_RETRY_JITTER: '0' }, { clock });
  const state = { isDown: false };
  const emsp = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    answer: (received) => (state.isDown || isOdd(received) ? { status: 500 } : { body: { allowed: 'ALLOWED' } }),
  });
  const cpo = (partyId: string) => partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId });
  const [odd, good] = [await cpo('ODD'), await cpo('CPO')];
  for (const { id } of [odd, good]) await admin(hub, 'PUT', `/routes/NL-EMS/${id}`, { active: true });
  return { clock, hub, emsp, odd, good, state };
}

const toEmsp = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
const authorize = async (from: PlainPartner, uid: string) =>
  statusOf(await from.call('POST', `/2.2.1/tokens/${uid}/authorize`, undefined, toEmsp));

async function circuitOf(hub: TestHub, name: string): Promise<string | undefined> {
  const { circuits } = (await admin(hub, 'GET', '/parties/NL-EMS')) as {
    circuits: { circuit: string; state: string }[];
  };
  return circuits.find(({ circuit }) => circuit === name)?.state;
}

t.test('an open circuit holds back the caller whose calls failed, and no occasional caller', async (t) => {
  const { clock, hub, emsp, odd, good, state } = await scene(t);
  for (let round = 0; round < 3; round++) {
    for (let n = 0; n < 6; n++) await authorize(odd, `ODD${n}`);
    t.equal(await circuitOf(hub, 'sync'), 'open');
    const asked = emsp.received.length;
    t.equal(await authorize(odd, 'ODD1'), '502/4003');
    t.equal(emsp.received.length, asked, 'it is not called for the one that failed');
    t.equal(await authorize(good, 'CARD1'), '200/1000', 'but for the other one');
    clock.advance(60_000);
    for (let n = 0; n < 2; n++) t.equal(await authorize(good, 'CARD1'), '200/1000');
    t.equal(await circuitOf(hub, 'sync'), 'closed');
    clock.advance(60_000);
  }
  for (let n = 0; n < 6; n++) await authorize(odd, `ODD${n}`);
  state.isDown = true;
  const asked = emsp.received.length;
  t.equal(await authorize(good, 'CARD1'), '502/4003');
  t.equal(await authorize(good, 'CARD1'), '502/4003');
  t.equal(emsp.received.length, asked + 1, 'a server that fails for both is not called again');
});

t.test('a circuit that an operator opened holds back all callers', async (t) => {
  const { hub, emsp, good } = await scene(t);
  await admin(hub, 'POST', '/parties/NL-EMS/circuits/sync', { state: 'open' });
  t.equal(await authorize(good, 'CARD1'), '502/4003');
  t.same(emsp.received, []);
});

const push = (from: PlainPartner, party: string, id: string) =>
  from.push('PUT', `/2.2.1/sessions/NL/${party}/${id}`, sessionBody(id, { party_id: party }));

t.test('sessions of one CPO that a server refuses hold back no session of another CPO', async (t) => {
  const { clock, hub, emsp, odd, good } = await scene(t);
  const arrived = () => emsp.received.filter((received) => !isOdd(received)).length;
  for (let n = 0; n < 60; n++) {
    await push(good, 'CPO', `S${n}`);
    await push(odd, 'ODD', `S${n}`);
    await hub.settled(emsp);
    t.equal(arrived(), n + 1, `session ${n}`);
    clock.advance(1_000);
    await hub.settled(emsp);
  }
  t.ok(emsp.received.filter(isOdd).length > 60, 'the others are tried again and again');
  t.same(await itemsOf(hub, '/events?type=circuit.opened'), []);
});

t.test('kept connections that a server closes without an answer are neutral for the circuit', async (t) => {
  const hub = await hubFor(t, {}, { clock: new SimulatedClock('2026-01-02T03:00:00Z') });
  const state = { isEnding: false };
  const all = 8;
  const emsp = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    async answer() {
      if (state.isEnding) return { isCut: true };
      while (emsp.holding < all && emsp.received.length < all) await emsp.changed();
      return { body: { allowed: 'ALLOWED' } };
    },
  });
  const cpos: PlainPartner[] = [];
  for (const partyId of ['AAA', 'BBB'])
    cpos.push(await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId }));
  for (const { id } of cpos) await admin(hub, 'PUT', `/routes/NL-EMS/${id}`, { active: true });
  const atOnce = () =>
    Promise.all(Array.from({ length: all }, (_, n) => authorize(cpos[n % 2] as PlainPartner, `CARD${n}`)));
  t.same(new Set(await atOnce()), new Set(['200/1000']));
  state.isEnding = true;
  t.same(new Set(await atOnce()), new Set(['502/4003']));
  t.equal(emsp.received.length, 2 * all, 'none is sent twice, nor held back');
  t.equal(await circuitOf(hub, 'sync'), 'closed');
  state.isEnding = false;
  t.same(new Set(await atOnce()), new Set(['200/1000']), 'new connections are used');
});
