/** Faults of deliveries that were found once, each shown to stay mended. */
import { sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin, type Received } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const kwhOf = ({ body }: Received) => (JSON.parse(body) as { kwh?: number }).kwh;
const put = (id: string, fields: object = {}) =>
  ['PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, fields)] as const;

t.test('deliveries that waited for a paused partner are sent at once when it is resumed', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  for (let kwh = 1; kwh <= 5; kwh++) await cpo.call(...put(`S${kwh}`, { kwh }));
  await cpo.call('GET', '/versions');
  t.equal(emsp.received.length, 0, 'nothing goes out while it is paused');
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false });
  await hub.settled(emsp);
  t.equal(emsp.received.length, 5, 'all five arrived, without another push to wake them');
});

t.test('a pause outlasts a suspension', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  const { initial_token } = await admin(hub, 'POST', '/parties/NL-EMS/initial-token');
  await emsp.registerAgain(String(initial_token));
  await cpo.call(...put('S1'));
  t.match(await admin(hub, 'GET', '/deliveries'), { items: [{ state: 'PENDING' }] });
  t.equal(emsp.received.length, 0);
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false });
  await hub.settled(emsp);
  t.equal(emsp.received.length, 1, 'it arrived after the pause');
});

t.test('a half-open circuit tries the next lane, though the failed ones are not due for long', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  let ill = true;
  const env = {
    HUB_CIRCUIT_FAILURES: '5',
    HUB_CIRCUIT_OPEN_MS: '5000',
    HUB_RETRY_SCHEDULE_S: '3600',
    HUB_RETRY_JITTER: '0',
  };
  const hub = await hubFor(t, env, { clock });
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => (ill ? { status: 500 } : {}) });
  for (let n = 1; n <= 20; n++) await cpo.call(...put(`S${n}`));
  const circuit = async () => {
    const { circuits } = (await admin(hub, 'GET', '/parties/NL-EMS')) as {
      circuits: { circuit: string; state: string }[];
    };
    return circuits.find(({ circuit: name }) => name === 'async')?.state;
  };
  await hub.settled(emsp);
  t.equal(await circuit(), 'open', 'the circuit is open');
  const failed = emsp.received.length;
  ill = false;
  clock.advance(5_000);
  await hub.settled(emsp);
  t.equal(emsp.received.length, 20, 'all that did not fail before arrived');
  t.ok(failed >= 5 && failed < 20, `${failed} had failed`);
  t.equal(await circuit(), 'closed');
});

t.test(
  'a delivery that was owed before a suspension is not sent after the partner has registered again [D50]',
  async (t) => {
    const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '0.2' });
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let holds = true;
    const { cpo, emsp } = await routedPair(t, hub, {
      emsp: async () => {
        if (!holds) return {};
        await held;
        return { status: 500 };
      },
    });
    await cpo.call(...put('S1', { kwh: 1 }));
    await cpo.call(...put('S1', { kwh: 2 }));
    await hub.settled(emsp);
    t.equal(emsp.received.length, 1, 'the first is in flight');
    await admin(hub, 'POST', '/parties/NL-EMS/suspend');
    holds = false;
    release();
    const { initial_token } = await admin(hub, 'POST', '/parties/NL-EMS/initial-token');
    await emsp.registerAgain(String(initial_token));
    await cpo.call(...put('S1', { kwh: 3 }));
    await hub.settled(emsp);
    t.ok(
      emsp.received.some((received) => kwhOf(received) === 3),
      'the new one arrived',
    );
    const { items } = (await admin(hub, 'GET', '/deliveries?state=DEAD')) as { items: { reason: string }[] };
    t.strictSame(
      items.map(({ reason }) => reason),
      ['suspended', 'suspended'],
      'the old ones are dead',
    );
    t.same(emsp.received.map(kwhOf), [1, 3]);
  },
);

t.test('a PATCH for an eMSP that never had the session is sent as the whole object', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await cpo.call(...put('S1'));
  const { initial_token } = await admin(hub, 'POST', '/parties/NL-EMS/initial-token');
  await emsp.registerAgain(String(initial_token));
  await cpo.call('PATCH', '/2.2.1/sessions/NL/CPO/S1', { kwh: 9, last_updated: '2026-01-02T04:00:00Z' });
  await hub.settled(emsp);
  t.equal(emsp.received.length, 1, 'it arrived');
  t.equal(emsp.received[0]?.method, 'PUT');
  t.equal(emsp.received[0] && kwhOf(emsp.received[0]), 9);
});

t.test('routes have a direction: a party that is both CPO and eMSP gets nothing of its customers [D16]', async (t) => {
  const hub = await hubFor(t);
  const both = (partyId: string) =>
    partnerFor(t, hub, {
      ...{ role: 'CPO', countryCode: 'NL', partyId, modules: [['locations', 'RECEIVER']] },
      others: [{ role: 'EMSP', country_code: 'NL', party_id: partyId }],
    });
  const duo = await both('DUO');
  const other = await both('AAA');
  await admin(hub, 'PUT', '/routes/NL-DUO/NL-AAA', { active: true });
  const location = { country_code: 'NL', publish: true, last_updated: '2026-01-02T03:04:05Z' };
  await duo.call('PUT', '/2.2.1/locations/NL/DUO/L1', { ...location, party_id: 'DUO', id: 'L1' });
  await other.call('PUT', '/2.2.1/locations/NL/AAA/L2', { ...location, party_id: 'AAA', id: 'L2' });
  await hub.settled();
  t.equal(duo.received.length, 1, 'the customer has the location');
  t.equal(other.received.length, 0, 'and not the other way round');
  const fromOther = await other.call('GET', '/2.2.1/locations');
  t.same(fromOther.json.data, [], 'nor by pulling');
  const fromDuo = await duo.call('GET', '/2.2.1/locations');
  t.equal((fromDuo.json.data as unknown[]).length, 1);
});
