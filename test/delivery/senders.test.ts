/**
 * Partners that send to one receiver: the flood of one that the receiver cannot take makes no other one's deliveries late, in memory, in
 * the log and after a restart. Deliveries are counted, and no time is measured; sockets and disk are real.
 */
import { sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin, type PlainPartner, type PlainPartnerOptions, type Received } from '../support/plain-partner.ts';
import type { Test } from '../support/tap.ts';
import { t } from '../support/tap.ts';
import { Holding, idOf } from './watched.ts';

const slots = 4;
const env = {
  HUB_DELIVERY_CONCURRENCY: String(slots),
  HUB_RATE_OTHER_PER_MIN: '1000000',
};

const pushed = (cpo: PlainPartner, party_id: string, id: string, fields: object = {}) =>
  cpo.push('PUT', `/2.2.1/sessions/NL/${party_id}/${id}`, sessionBody(id, { party_id, ...fields }));

/** An eMSP, and two CPOs that send to it: NL-CPO floods, NL-SML does not. */
async function scene(t: Test, hub: TestHub, emsp: PlainPartnerOptions['answer'], others: readonly string[] = []) {
  const pair = await routedPair(t, hub, { emsp });
  const roles = others.map((party_id) => ({ country_code: 'NL', party_id, role: 'CPO' as const }));
  const small = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'SML', others: roles });
  for (const id of ['SML', ...others]) await admin(hub, 'PUT', `/routes/NL-EMS/NL-${id}`, { active: true });
  return { flooding: pair.cpo, emsp: pair.emsp, small };
}

/** Deliveries of the flood that arrived before the last of these. */
function floodBefore(received: readonly Received[], isLast: (id: string) => boolean): number {
  const ids = received.map(idOf);
  return ids.slice(0, ids.findLastIndex(isLast)).filter((id) => id.startsWith('F')).length;
}

t.test('the ready lanes of partners take turns, however many one of them has [LANES-2]', async (t) => {
  const hub = await hubFor(t, env);
  const holding = new Holding();
  const { flooding, emsp, small } = await scene(t, hub, holding.answer);
  for (let n = 0; n < 100; n++) await pushed(flooding, 'CPO', `F${n}`);
  for (let n = 0; n < 10; n++) await pushed(small, 'SML', `S${n}`);
  await hub.settled(emsp);
  while (holding.held.length > 0) {
    holding.releaseOne();
    await hub.settled(emsp);
  }
  await quiet(hub);
  t.equal(emsp.received.length, 110);
  const before = floodBefore(emsp.received, (id) => id.startsWith('S'));
  t.ok(before <= slots + 11, `${before} of 100 arrived before the last of 10`);
});

t.test('parties of one partner share its turns [LANES-2]', async (t) => {
  const hub = await hubFor(t, env);
  const holding = new Holding();
  const others = ['SM1', 'SM2', 'SM3'];
  const { flooding, emsp, small } = await scene(t, hub, holding.answer, others);
  for (let n = 0; n < 30; n++) await pushed(flooding, 'CPO', `F${n}`);
  for (let n = 0; n < 10; n++) for (const party of ['SML', ...others]) await pushed(small, party, `S${party}${n}`);
  await hub.settled(emsp);
  while (holding.held.length > 0) {
    holding.releaseOne();
    await hub.settled(emsp);
  }
  await quiet(hub);
  const after = emsp.received.map(idOf).slice(slots, slots + 40);
  t.equal(after.filter((id) => id.startsWith('F')).length, 20, 'every other one is of the one that has one party');
});
