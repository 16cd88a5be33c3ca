/** Attacks by what a partner makes the hub call: name servers that do not answer, and endpoints that lead back to the hub. */
import { locationBody } from '../support/bodies.ts';
import type { ChildHub } from '../support/child-hub.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { type NameServer, nameServer } from '../support/name-server.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { exchangeAt, leadBack, relayTo, silentUrl } from './attacks.ts';
import { pathsMin, sharedScene } from './victim.ts';

const attackers = isAtLength ? 8 : 4;

let names: Promise<NameServer> | undefined;
/** Silent about some names; every other one leads to this machine. */
const nameServerOf = () => {
  names ??= nameServer(t, (name) => (name.endsWith('.silent.example') ? 'silence' : ['127.0.0.1']));
  return names;
};
const scene = sharedScene(async () => ({
  HUB_DNS_SERVERS: (await nameServerOf()).address,
  // As many threads as there are by default, so that look-ups that took one would be felt.
  UV_THREADPOOL_SIZE: '4',
  ...{ HUB_PUBLIC_URL: 'https://hub.example', HUB_EGRESS_ALLOW: 'loopback' },
}));

t.test('name servers that do not answer delay nobody else', async (t) => {
  const { hub, victim } = await scene();
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
    await (await nameServerOf()).askedTimes(2 * attackers);
    await walked(pathsMin);
    isOver = true;
    await Promise.all(attacks);
  });
  t.ok(asked >= attackers, `${asked} exchanges`);
});

for (const [how, portOf, cpo, emsp] of [
  ['a name of its own', async (_: Test, hub: ChildHub) => Number(new URL(hub.url).port), 'NC1', 'NE1'],
  ['a proxy', relayTo, 'PC1', 'PE1'],
] as const)
  t.test(`an endpoint that leads back to the hub by ${how} makes no loop`, async (t) => {
    const { hub, victim } = await scene();
    const attacker = await partnerFor(t, hub, {
      ...{ role: 'CPO', countryCode: 'NL', partyId: cpo },
      others: [{ role: 'EMSP', country_code: 'NL', party_id: emsp }],
    });
    await admin(hub, 'PUT', `/routes/NL-${emsp}/NL-${cpo}`, { active: true });
    const { json } = await leadBack(t, attacker, emsp, await portOf(t, hub));
    t.match(json, { status_code: 1000 });
    await victim.during(t, async (walked) => {
      await attacker.call('PUT', `/2.2.1/locations/NL/${cpo}/L1`, locationBody('L1', { party_id: cpo }));
      await eventually('the hub tried to deliver it', async () => {
        const [delivery] = await itemsOf(hub, `/deliveries?receiver=NL-${emsp}`);
        return ((delivery?.attempts as unknown[] | undefined) ?? []).length > 0;
      });
      await walked(pathsMin);
      // It is owed the delivery that never arrives.
      await admin(hub, 'POST', `/parties/NL-${cpo}/suspend`);
    });
    const puts = (await itemsOf(hub, '/events?type=object.put&limit=1000')).filter(
      ({ object }) => object === `NL-${cpo}/L1`,
    );
    t.equal(puts.length, 1, `${puts.length} events of one push`);
  });
