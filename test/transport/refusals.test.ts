/** Refusals of a partner that asks too much: the first of a second come at once, the others in turn. [REFUSALS-1] */
import { locationBody } from '../support/bodies.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const path = '/2.2.1/locations/NL/CPO/L1';

t.test('beyond a hundred a second a partner waits for the refusal, and no other partner does', async (t) => {
  const clock = new SimulatedClock('2026-03-01T00:00:00Z');
  const hub = await hubFor(t, { HUB_RATE_OTHER_PER_MIN: '1', HUB_PROBE_INTERVAL_S: '864000' }, { clock });
  const [flooding, other] = await Promise.all(
    ['CPO', 'OTH'].map((partyId) => partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId })),
  );
  await flooding?.push('PUT', path, locationBody('L1'));
  const statuses: number[] = [];
  const asked = Array.from({ length: 103 }, async () => {
    const answer = await flooding?.call('PUT', path, locationBody('L1'));
    statuses.push(answer?.status ?? 0);
  });
  await eventually('a hundred are refused', () => statuses.length >= 100);
  await other?.call('PUT', '/2.2.1/locations/NL/OTH/L1', locationBody('L1', { party_id: 'OTH' }));
  const refused = await other?.call('PUT', '/2.2.1/locations/NL/OTH/L1', locationBody('L1', { party_id: 'OTH' }));
  t.match(refused, { status: 429 }, 'another partner is refused at once');
  t.equal(statuses.length, 100, 'while the others of the first one wait');
  clock.advance(10);
  await eventually('the next has its turn', () => statuses.length === 101);
  clock.advance(20);
  await Promise.all(asked);
  t.same(new Set(statuses), new Set([429]));
});
