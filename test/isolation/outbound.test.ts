/** Attacks by what a partner makes the hub call: name servers that do not answer, and endpoints that lead back to the hub. */
import { locationBody } from '../support/bodies.ts';
import type { ChildHub } from '../support/child-hub.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { nameServer } from '../support/name-server.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';
import { exchangeAt, leadBack, relayTo, silentUrl } from './attacks.ts';
import { attackedHub, pathsMin, victimOf } from './victim.ts';

const attackers = 8;

t.test('name servers that do not answer keep nobody else waiting', async (t) => {
  const names = await nameServer(t, (name) => (name.endsWith('.silent.example') ? 'silence' : 'absent'));
  // As many threads as there are by default, so that look-ups that took one would be felt.
  const hub = await attackedHub(t, { HUB_DNS_SERVERS: names.address, UV_THREADPOOL_SIZE: '4' });
  const victim = await victimOf(t, hub);
  const partners = await Promise.all(
    Array.from({ length: attackers }, (_, n) =>
      partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: `A${n}` }),
    ),
  );
  let asked = 0;
  await victim.during(t, async (walked) => {
    let isOver = false;
    const attacks = partners.map(async (partner) => {
      for (; !isOver; asked++) await exchangeAt(partner, silentUrl());
    });
    await names.askedTimes(2 * attackers);
    await walked(pathsMin);
    isOver = true;
    await Promise.all(attacks);
  });
  t.ok(asked >= attackers, `${asked} exchanges`);
});

for (const [how, portOf] of [
  ['a name of its own', async (_: Test, hub: ChildHub) => Number(new URL(hub.url).port)],
  ['a proxy', relayTo],
] as const)
  t.test(`an endpoint that leads back to the hub by ${how} makes no loop`, async (t) => {
    const names = await nameServer(t, () => ['127.0.0.1']);
    const hub = await attackedHub(t, {
      HUB_DNS_SERVERS: names.address,
      HUB_PUBLIC_URL: 'https://hub.example',
      HUB_EGRESS_ALLOW: 'loopback',
    });
    const victim = await victimOf(t, hub);
    const attacker = await partnerFor(t, hub, {
      ...{ role: 'CPO', countryCode: 'NL', partyId: 'ACP' },
      others: [{ role: 'EMSP', country_code: 'NL', party_id: 'AEM' }],
    });
    await admin(hub, 'PUT', '/routes/NL-AEM/NL-ACP', { active: true });
    const { json } = await leadBack(t, attacker, 'AEM', await portOf(t, hub));
    t.match(json, { status_code: 1000 });
    await victim.during(t, async (walked) => {
      await attacker.call('PUT', '/2.2.1/locations/NL/ACP/L1', locationBody('L1', { party_id: 'ACP' }));
      await eventually('the hub tried to deliver it', async () => {
        const [delivery] = await itemsOf(hub, '/deliveries?receiver=NL-AEM');
        return ((delivery?.attempts as unknown[] | undefined) ?? []).length > 0;
      });
      await walked(pathsMin);
      // It is owed the delivery that never arrives.
      await admin(hub, 'POST', '/parties/NL-ACP/suspend');
    });
    const puts = (await itemsOf(hub, '/events?type=object.put&limit=1000')).filter(
      ({ object }) => object === 'NL-ACP/L1',
    );
    t.equal(puts.length, 1, `${puts.length} events of one push`);
  });
