/**
 * A pair of partners with a habit, and every kind of call that the hub makes to them: discovery, deliveries of all modules, parts of
 * objects, authorize, a command and its result, a pull, a probe.
 */
import { cdrBody, locationBody, sessionBody } from './bodies.ts';
import { hubFor, partnerFor, type TestHub } from './hub-in-process.ts';
import { ended, itemsOf, quiet, statusOf } from './observed.ts';
import { admin, type PlainPartner, type Received, type Reply } from './plain-partner.ts';
import type { Test } from './tap.ts';

/** Wraps what both partners answer. */
export type Habit = (usual: (received: Received) => Reply) => (received: Received) => Reply;

export interface Scene {
  readonly hub: TestHub;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
}

/** Makes the hub call both in every way; each has to succeed. */
export async function callsOfAllKinds(t: Test, around: Habit, settings: object = {}): Promise<Scene> {
  const hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '3600' });
  const usual = ({ path, headers }: Received): Reply => {
    const base = `http://${headers.host}/ocpi/2.2.1`;
    if (path === '/ocpi/versions') return { body: [{ version: '2.2.1', url: base }] };
    if (path === '/ocpi/2.2.1') {
      const identifiers = ['credentials', 'tokens', 'commands', 'locations', 'sessions', 'cdrs'];
      const endpoints = identifiers.flatMap((identifier) =>
        ['SENDER', 'RECEIVER'].map((role) => ({ identifier, role, url: `${base}/${identifier}` })),
      );
      return { body: { version: '2.2.1', endpoints } };
    }
    if (path.includes('/authorize')) return { body: { allowed: 'ALLOWED' } };
    if (path.includes('/commands/')) return { body: { result: 'ACCEPTED', timeout: 20 } };
    return /\/locations\/?\?/.test(path) ? { body: [locationBody('PULLED')] } : {};
  };
  const answer = around(usual);
  const make = (role: 'CPO' | 'EMSP', partyId: string): Promise<PlainPartner> =>
    partnerFor(t, hub, { role, countryCode: 'NL', partyId, answer, discovery: answer }, settings);
  const [cpo, emsp] = [await make('CPO', 'CPO'), await make('EMSP', 'EMS')];
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  t.equal(statusOf(await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'))), '201/1000', 'a CDR');
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'ACTIVE' }));
  await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/S1', { kwh: 2, last_updated: '2026-05-01T10:09:00Z' });
  await quiet(hub);
  t.same(await itemsOf(hub, '/deliveries?state=DEAD'), [], 'deliveries');
  t.equal((await itemsOf(hub, '/deliveries?state=DELIVERED')).length, 4, 'each of them arrived');
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  const authorized = await cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', {}, to);
  t.match([statusOf(authorized), authorized.json.data], ['200/1000', { allowed: 'ALLOWED' }], 'authorize');
  const token = { uid: 'CARD1', country_code: 'NL', party_id: 'EMS' };
  const start = { response_url: `${emsp.url}/results/1`, token, location_id: 'LOC1' };
  const commanded = await emsp.call('POST', '/2.2.1/commands/START_SESSION', start);
  t.match([statusOf(commanded), commanded.json.data], ['200/1000', { result: 'ACCEPTED' }], 'a command');
  const sent = cpo.received.find(({ path }) => path.includes('/commands/'))?.body ?? '{}';
  const { response_url } = JSON.parse(sent) as { response_url: string };
  const path = new URL(response_url).pathname.slice('/ocpi'.length);
  t.equal(statusOf(await cpo.call('POST', path, { result: 'ACCEPTED' })), '200/1000', 'its result');
  const { id } = await admin(hub, 'POST', '/parties/NL-CPO/pull/locations', { full: true });
  const pull = await ended(hub, `/pulls/${String(id)}`);
  t.equal(pull.state, 'DONE', `a pull ${String(pull.error)}`);
  t.equal((await hub.created.hub.operations.probe('NL-CPO')).status, 'reachable', 'a probe');
  return { hub, cpo, emsp };
}
