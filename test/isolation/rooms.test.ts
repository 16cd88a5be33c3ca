/**
 * One partner that takes all the room it can get: in requests, bodies and answers. The hub gives it a quarter at most, and nobody else
 * notices.
 */
import { partnerFor } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';
import { askHanging } from './attacks.ts';
import { attackedHub, pathsMin, victimOf } from './victim.ts';

/** More than half of the requests that the hub has in flight. */
const hanging = 1_100;

t.test('requests in flight that hang (I2)', async (t) => {
  const hub = await attackedHub(t);
  const victim = await victimOf(t, hub);
  const held: (() => void)[] = [];
  const release = () => held.splice(0).forEach((end) => void end());
  t.teardown(release);
  const accomplice = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'ACC' },
    answer: () => new Promise((resolve) => held.push(() => resolve({ body: { allowed: 'ALLOWED' } }))),
  });
  const attacker = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
  await admin(hub, 'PUT', `/routes/${accomplice.id}/${attacker.id}`, { active: true });
  const refused: (string | null)[] = [];
  await victim.during(t, async (walked) => {
    for (const { status } of askHanging(t, hub, attacker, hanging)) void status.then((one) => refused.push(one));
    await eventually('more than half are refused', () => refused.length > hanging / 2);
    await walked(pathsMin);
  });
  t.ok(refused.length > hanging / 2, `${refused.length} of ${hanging} were refused`);
  t.same([...new Set(refused)], ['503'], 'with 503');
});
