/** Partners that are pull only: an operator gives them a hub token, they read lists, and nothing is owed to them. [D89] */
import type { ReportView } from '../../src/api/report.ts';
import type { TraceView } from '../../src/api/trace.ts';
import { cdrBody, locationBody, sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { closed, hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf, statusOf } from '../support/observed.ts';
import { ocpi, refused } from '../support/ocpi-call.ts';
import { admin } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const quiet = { HUB_PROBE_INTERVAL_S: '1000000' };
const emspRoles = { roles: [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }] };
const show = (hub: TestHub) => admin(hub, 'GET', '/parties/NL-EMS');

async function idsIn(hub: TestHub, token: string, module: string): Promise<string[]> {
  const { json } = await ocpi(hub, 'GET', `/2.2.1/${module}?date_from=2020-01-01T00:00:00Z`, { token });
  return (json.data as { id: string }[]).map(({ id }) => id);
}

t.test(
  'a pull-only partner reads what it may see, is owed nothing, and its token survives a restart [D89]',
  async (t) => {
    const dir = directoryFor(t);
    const first = await hubFor(t, quiet, {}, dir);
    const cpo = await partnerFor(t, first, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    const { hub_token, initial_token, ...added } = await admin(first, 'POST', '/parties', {
      ...emspRoles,
      pull_only: true,
    });
    const token = String(hub_token);
    t.equal(initial_token, undefined);
    t.match(added, { status: 'CONNECTED', settings: { pull_only: true }, initial_token_expires_at: null });
    t.match(added.quirks, [{ setting: 'pull_only', value: 'true' }]);
    t.equal((await show(first)).hub_token, undefined, 'shown once');
    await cpo.call('POST', '/2.2.1/cdrs', cdrBody('EARLY'));
    t.match(await admin(first, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true }), { released: 0 });
    await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
    await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'ACTIVE' }));
    t.equal(statusOf(await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'))), '201/1000');
    const isRead = async (hub: TestHub) => {
      t.same(await idsIn(hub, token, 'locations'), ['LOC1']);
      t.same(await idsIn(hub, token, 'sessions'), ['S1']);
      t.same(await idsIn(hub, token, 'cdrs'), ['C1']);
      t.same(await itemsOf(hub, '/deliveries'), []);
      t.match(await show(hub), { status: 'CONNECTED', queue: { depth: 0, dead: 0 }, last_answer: null });
    };
    await isRead(first);
    const { quirks } = (await admin(first, 'GET', '/parties/NL-EMS/report')) as unknown as ReportView;
    t.same(
      quirks.map(({ module, quirk, count, source }) => `${module} ${quirk} ${count} ${source}`).sort(),
      ['cdrs pull-only 1 operator', 'locations pull-only 1 operator', 'sessions pull-only 1 operator'],
      'each list that it reads is counted [D70]',
    );
    const explained = await admin(first, 'GET', '/routes/explain?from=NL-CPO&to=NL-EMS&module=sessions');
    t.match(explained, { delivers: false });
    t.match(JSON.stringify(explained), /NL-EMS is pull only/);
    const { steps } = (await admin(first, 'GET', '/trace/NL-CPO%2FS1')) as unknown as TraceView;
    const { not_forwarded } = steps.find(({ module }) => module === 'sessions') ?? {};
    t.match(not_forwarded, 'its receiver is pull only: the hub never calls it', 'the trace says it in words');
    await t.rejects(admin(first, 'POST', '/parties/NL-EMS/resync', { module: 'locations' }), /409 .*pull only/);
    await t.rejects(admin(first, 'POST', '/parties/NL-EMS/initial-token'), /409 .*pull only/);
    const connect = { versions_url: 'https://ems.example/versions', token: 'a-token-of-the-partner' };
    await t.rejects(admin(first, 'POST', '/parties/NL-EMS/connect', connect), /409 .*pull only/);
    await t.rejects(admin(first, 'PATCH', '/parties/NL-EMS', { pull_only: false }), /409 .*suspend it/);
    t.equal((await admin(first, 'PATCH', '/parties/NL-EMS', { pull_only: true })).hub_token, undefined);
    const body = { token: 'own', url: 'https://ems.example/versions', roles: emspRoles.roles };
    for (const method of ['POST', 'PUT']) {
      refused(t, await ocpi(first, method, '/2.2.1/credentials', { token, body }), [405, 2000, /./], method);
    }
    await closed(first, undefined);

    const second = await hubFor(t, quiet, {}, dir);
    await isRead(second);
    t.match((await show(second)).tokens, [{ kind: 'hub' }]);
    await admin(second, 'POST', '/parties/NL-EMS/suspend');
    refused(t, await ocpi(second, 'GET', '/2.2.1/locations', { token }), [401, 2000, 'Invalid token'], 'suspended');
    const again = String((await admin(second, 'PATCH', '/parties/NL-EMS', { pull_only: true })).hub_token);
    t.not(again, token);
    t.same(await idsIn(second, again, 'locations'), ['LOC1']);
    refused(t, await ocpi(second, 'GET', '/2.2.1/locations', { token }), [401, 2000, 'Invalid token'], 'the old one');
  },
);

t.test(
  'a pull-only partner is OFFLINE when it has not called for a while, and CONNECTED when it calls again',
  async (t) => {
    const clock = new SimulatedClock('2026-05-01T12:00:00Z');
    const hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '60' }, { clock });
    const { initial_token } = await admin(hub, 'POST', '/parties', emspRoles);
    const token = String((await admin(hub, 'PATCH', '/parties/NL-EMS', { pull_only: true })).hub_token);
    refused(
      t,
      await ocpi(hub, 'GET', '/versions', { token: String(initial_token) }),
      [401, 2000, 'Invalid token'],
      'the initial token has ended',
    );
    const passes = async (minutes: number) => {
      for (let n = 0; n < minutes; n++) {
        clock.advance(60_000);
        await hub.settled();
      }
    };
    await passes(10);
    t.match(await show(hub), { status: 'OFFLINE', last_error: null, last_answer: null });
    clock.advance(30_000);
    await ocpi(hub, 'GET', '/versions', { token });
    clock.advance(30_000);
    await hub.settled();
    t.match(await show(hub), { status: 'CONNECTED', last_error: null });
    const events = await itemsOf(hub, '/events?about=partner:NL-EMS');
    t.same(
      events.map(({ type }) => type),
      ['partner.added', 'partner.changed', 'partner.hubTokenIssued', 'partner.offline', 'partner.online'],
    );
  },
);

t.test(
  'a registered partner becomes pull-only only when it is suspended, and may exchange credentials again afterwards',
  async (t) => {
    const hub = await hubFor(t, quiet);
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    await t.rejects(admin(hub, 'PATCH', '/parties/NL-CPO', { pull_only: true }), /409 .*suspend it/);
    await admin(hub, 'POST', '/parties', { ...emspRoles, pull_only: true });
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
    await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'));
    await admin(hub, 'POST', '/parties/NL-EMS/suspend');
    t.match(await admin(hub, 'PATCH', '/parties/NL-EMS', { pull_only: false }), { settings: { pull_only: false } });
    t.ok((await admin(hub, 'POST', '/parties/NL-EMS/initial-token')).initial_token);
  },
);
