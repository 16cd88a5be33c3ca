/**
 * Attacks by way of a server that answers both: what the attacker asks makes a server of the victim fail or hang, and whatever the victim asks
 * of that server succeeds.
 */
import { locationBody } from '../support/bodies.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { statusOf } from '../support/observed.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { shared, t } from '../support/tap.ts';
import { isOdd, pathsMin, sharedScene, type Victim } from './victim.ts';

const scene = sharedScene();

/** The attackers: a CPO and an eMSP, each routed to the victim's other side. */
const attackers = shared(async (file) => {
  const { hub, victim } = await scene();
  const names = { countryCode: 'NL' };
  const cpo = await partnerFor(file, hub, {
    ...{ ...names, role: 'CPO', partyId: 'OCP' },
    answer: ({ path }) => (path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 120 } } : {}),
  });
  const emsp = await partnerFor(file, hub, { ...names, role: 'EMSP', partyId: 'OEM' });
  await admin(hub, 'PUT', '/routes/NL-VEM/NL-OCP', { active: true });
  await admin(hub, 'PUT', '/routes/NL-OEM/NL-VCP', { active: true });
  await cpo.push('PUT', '/2.2.1/locations/NL/OCP/OLOC1', locationBody('OLOC1', { party_id: 'OCP' }));
  return { cpo, emsp, callback: await commanded(victim, cpo) };
});

/** The path for results of a command that the victim's eMSP sent to the attacker, with a `response_url` at which its server is odd. */
async function commanded({ emsp }: Victim, cpo: PlainPartner): Promise<string> {
  const token = { country_code: 'NL', party_id: 'VEM', uid: 'CARD1', type: 'RFID', contract_id: 'NL-VEM-C1' };
  await emsp.push('POST', '/2.2.1/commands/START_SESSION', {
    ...{ response_url: `${emsp.url}/results/ODD`, token, location_id: 'OLOC1' },
  });
  const { body } = await cpo.got('the command', ({ path }) => path.endsWith('START_SESSION'));
  const { response_url: url } = JSON.parse(body) as { response_url: string };
  return url.slice(url.indexOf('/2.2.1/'));
}

const toEmsp = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'VEM' };
const toCpo = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'VCP' };

const authorize = (cpo: PlainPartner, n: number) =>
  cpo.call('POST', `/2.2.1/tokens/ODD${n}/authorize`, undefined, toEmsp);

function start(emsp: PlainPartner, n: number) {
  const token = { country_code: 'NL', party_id: 'OEM', uid: `ODD${n}`, type: 'RFID', contract_id: 'NL-OEM-C1' };
  const body = { response_url: `${emsp.url}/results/${n}`, token, location_id: 'LOC1' };
  return emsp.call('POST', '/2.2.1/commands/START_SESSION', body, toCpo);
}

t.test('a server that fails on the requests of one partner refuses no other partner', atLength, async (t) => {
  const { victim } = await scene();
  const { cpo, emsp, callback } = await attackers();
  victim.odd.reply = () => ({ status: 500 });
  const statuses = new Set<string | null>();
  await victim.during(t, async (walked) => {
    await walked(1);
    let isOver = false;
    const attack = async (send: (n: number) => Promise<Parameters<typeof statusOf>[0]>) => {
      for (let n = 0; !isOver || n < 4; n++) {
        const burst = Array.from({ length: 6 }, (_, at) => send(6 * n + at));
        for (const answer of await Promise.all(burst)) statuses.add(statusOf(answer));
      }
    };
    const attacks = [
      attack((n) => authorize(cpo, n)),
      attack((n) => start(emsp, n)),
      attack(() => cpo.call('POST', callback, { result: 'FAILED' })),
    ];
    await walked(pathsMin);
    isOver = true;
    await Promise.all(attacks);
  });
  victim.odd.reply = null;
  t.same([...statuses].sort(), ['502/2000', '502/4003'], 'the attackers are told that it fails');
  for (const { received } of [victim.cpo, victim.emsp])
    t.ok(received.filter(isOdd).length >= 24, 'what they sent has reached the server');
});
