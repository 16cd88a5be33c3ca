/**
 * Many receivers that hang at once, on a hub with room for few deliveries in flight: they neither pass that bound nor keep others from their
 * turn.
 */
import { bodiesMax } from '../../src/process-load.ts';
import { locationBody } from '../support/bodies.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { Holding, idOf, putSession } from './watched.ts';

const inFlightMax = 128;
const hangers = 40;
const locations = isAtLength ? 40 : 8;

t.test('forty receivers that hang share the slots, and a healthy one gets its turn', atLength, async (t) => {
  const hub = await hubFor(t, { HUB_DELIVERY_TIMEOUT_MS: '600000' }, { headMs: 600_000, inFlightMax });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const holding = new Holding();
  const emsps: PlainPartner[] = [];
  for (let n = 0; n < hangers; n++) {
    const partyId = `H${String(n).padStart(2, '0')}`;
    emsps.push(await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, answer: holding.answer }));
    await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  }
  const put = (id: string) => cpo.call('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id));
  for (let n = 1; n <= locations; n++) await put(`L${n}`);
  await hub.settled(...emsps);
  t.ok(
    emsps.every(({ received }) => received.length > 0),
    'each has at least one',
  );
  const well = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'WEL' });
  await admin(hub, 'PUT', '/routes/NL-WEL/NL-CPO', { active: true });
  for (let n = 1; n <= 5; n++) await put(`WELL${n}`);
  await hub.settled(...emsps);
  t.equal(well.received.length, 5, 'the one that is well has all of its own');
  t.ok(holding.held.length >= inFlightMax / 2, `${holding.held.length} hang`);
  t.ok(holding.most <= inFlightMax, `${holding.most} of ${inFlightMax} at most`);
  holding.releaseAll();
  await hub.settled();
  t.ok(
    emsps.every(({ received }) => received.length === locations + 5),
    'then all have everything',
  );
});

t.test('slots that one partner leaves are taken by another one at once', async (t) => {
  const hub = await hubFor(t, { HUB_DELIVERY_TIMEOUT_MS: '600000' }, { headMs: 600_000, inFlightMax: 8 });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const [first, second] = [new Holding(), new Holding()];
  const emsp = { role: 'EMSP', countryCode: 'NL' } as const;
  const one = await partnerFor(t, hub, { ...emsp, partyId: 'ONE', answer: first.answer });
  const two = await partnerFor(t, hub, { ...emsp, partyId: 'TWO', answer: second.answer });
  const put = (id: string) => cpo.call('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id));
  await admin(hub, 'PUT', '/routes/NL-ONE/NL-CPO', { active: true });
  for (let n = 1; n <= 5; n++) await put(`A${n}`);
  await hub.settled(one, two);
  t.equal(first.held.length, 3, 'one has as much of the common half as it leaves');
  await admin(hub, 'PUT', '/routes/NL-ONE/NL-CPO', { active: false });
  await admin(hub, 'PUT', '/routes/NL-TWO/NL-CPO', { active: true });
  for (let n = 1; n <= 5; n++) await put(`B${n}`);
  await hub.settled(one, two);
  t.equal(second.held.length, 2, 'the other one has its first, and half of the rest');
  first.releaseAll();
  await hub.settled(one, two);
  t.equal(second.held.length, 3, 'then as many as it may, while its own still hang');
  second.releaseAll();
});

t.test(
  'receivers that hang on large bodies leave room for small ones, and those that wait for room get it [FAIR-SCHEDULER-6]',
  async (t) => {
    const hub = await hubFor(t, { HUB_DELIVERY_TIMEOUT_MS: '600000' }, { headMs: 600_000 });
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    const other = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'OTH' });
    const well = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
    const size = Math.floor(3.9 * 1024 * 1024);
    const putLarge = (from: PlainPartner, party_id: string) =>
      from.push('PUT', `/2.2.1/locations/NL/${party_id}/L1`, locationBody('L1', { party_id, x: 'x'.repeat(size) }));
    const holding = new Holding();
    const emsps: PlainPartner[] = [];
    for (let n = 0; n < bodiesMax / size; n++) {
      emsps.push(
        await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: `H0${n}`, answer: holding.answer }),
      );
      await admin(hub, 'PUT', `/routes/NL-H0${n}/NL-OTH`, { active: true });
    }
    await putLarge(other, 'OTH');
    await Promise.all(emsps.map((emsp) => emsp.gotCalls(1)));
    await putLarge(cpo, 'CPO');
    await putSession(cpo, 'S1');
    await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L2', locationBody('L2', { party_id: 'CPO' }));
    await hub.settled(...emsps);
    t.same(well.received.map(idOf), ['S1', 'L2'], 'the small ones go at once, behind a large one of their module, too');
    holding.releaseOne();
    await hub.settled(...emsps);
    t.same(well.received.map(idOf), ['S1', 'L2', 'L1'], 'the large one when there is room');
    holding.releaseAll();
  },
);
