/**
 * The trace names the habits that the hub made up for, where they showed: in what a partner sent, in how it answered a delivery, a
 * command or an authorization, and in its exchange of credentials. [D70]
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import type { EventView } from '../../src/api/events.ts';
import type { TraceStep, TraceView } from '../../src/api/trace.ts';
import { quirks } from '../../src/domain/quirks.ts';
import { startEmsp } from '../../src/sandbox/emsp.ts';
import { append, event } from '../storage/support.ts';
import { cdrBody, locationBody, sessionBody } from '../support/bodies.ts';
import { hubFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf, quiet } from '../support/observed.ts';
import { admin, type PlainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const traceOf = async (hub: TestHub, key: string) =>
  (await admin(hub, 'GET', `/trace/${encodeURIComponent(key)}`)) as unknown as TraceView;

/** `NL-CPO blank-date`. */
const metIn = ({ quirks: met }: TraceStep) =>
  met.flatMap(({ quirk, parties }) => parties.map((id) => `${id} ${quirk}`));
const metOf = ({ steps }: TraceView, type: string) => steps.filter((step) => step.type === type).map(metIn);
/** What each attempt of each delivery made up for. */
const triedIn = ({ steps }: TraceView) =>
  steps.flatMap(({ deliveries }) => deliveries.map(({ attempts }) => attempts.map((one) => one.quirks ?? [])));

const commandPath = (sent: Received | undefined) => {
  const { response_url } = JSON.parse(sent?.body ?? '{}') as { response_url: string };
  return new URL(response_url).pathname.replace('/ocpi', '');
};

/** A CPO and an eMSP that have habits in all they send and answer. */
async function habitual(t: Test, hub: TestHub) {
  const inText = ({ path }: Received): Reply => ({
    text: JSON.stringify({
      ...{ data: path.includes('/commands/') ? [{ result: 'accepted', timeout: 20 }] : {} },
      ...{ status_code: '1000', timestamp: '2026-05-01T10:00:00Z' },
    }),
  });
  const bare = ({ path, method }: Received): Reply => {
    if (method === 'PATCH') return { status: 405, text: '' };
    return path.includes('/authorize') ? { text: '{"allowed":"ALLOWED"}' } : { status: 204, text: '' };
  };
  const pair = await routedPair(t, hub, { cpo: inText, emsp: bare });
  const settings = { empty_2xx_ok: true, authorize_to_hub: 'resolve', patch_without_last_updated: 'accept' };
  for (const id of ['NL-CPO', 'NL-EMS']) await admin(hub, 'PATCH', `/parties/${id}`, settings);
  return pair;
}

const request = (id: string) => ({ 'X-Correlation-ID': id });

async function session({ cpo, emsp }: Record<'cpo' | 'emsp', PlainPartner>, hub: TestHub): Promise<void> {
  await cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', {}, request('an-authorize'));
  const start = { response_url: `${emsp.url}/results/1`, token: { uid: 'CARD1' }, location_id: 'LOC1' };
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  await emsp.call('POST', '/2.2.1/commands/START_SESSION', start, request('a-command'));
  const sent = cpo.received.find(({ path }) => path.includes('/commands/'));
  const result = { data: { result: 'accepted' }, status_code: 1000, timestamp: '2026-05-01T10:00:00Z' };
  await cpo.call('POST', commandPath(sent), result, request('its-result'));
  const body = sessionBody('S1', { status: 'active', start_date_time: '2026-05-01 10:00:00Z' });
  const { country_code, party_id } = hub.created.hub.party;
  const to = { 'OCPI-to-country-code': country_code, 'OCPI-to-party-id': party_id };
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', body, { ...to, ...request('a-push') });
  await cpo.call('PATCH', '/2.2.1/sessions/NL/CPO/S1', { kwh: 2 });
  await quiet(hub);
}

t.test('each step names the quirks that were met in it, by party [D70]', async (t) => {
  const hub = await hubFor(t);
  const pair = await habitual(t, hub);
  await session(pair, hub);
  const story = await traceOf(hub, 'NL-CPO/S1');
  t.same(
    metOf(story, 'object.put').map((met) => met.sort()),
    [['NL-CPO blank-date', 'NL-CPO lower-case', 'NL-CPO to-hub']],
  );
  t.same(metOf(story, 'object.patched'), [['NL-CPO patch-without-date']]);
  t.same(triedIn(story), [[['empty-2xx']], [['patch-refused'], ['empty-2xx']]]);
  t.same(metOf(story, 'command.requested'), [['NL-EMS token-without-party']]);
  t.same(
    metOf(story, 'command.answered').map((met) => met.sort()),
    [['NL-CPO array-of-one', 'NL-CPO lower-case', 'NL-CPO status-code-text']],
  );
  t.same(
    metOf(story, 'command.resultReceived').map((met) => met.sort()),
    [['NL-CPO enveloped-callback', 'NL-CPO lower-case']],
  );
  t.same(metOf(story, 'command.relayed'), [['NL-EMS empty-2xx']]);
  const asked = await traceOf(hub, 'an-authorize');
  t.same(
    metOf(asked, 'token.authorized').map((met) => met.sort()),
    [['NL-CPO authorize-to-hub', 'NL-EMS raw-answer']],
  );
  for (const { quirk, says } of [...story.steps, ...asked.steps].flatMap((step) => step.quirks)) {
    t.equal(says, quirks[quirk as keyof typeof quirks], quirk);
  }
  t.same(
    metOf(await traceOf(hub, 'a-push'), 'object.put').map((met) => met.length),
    [3],
    'by its request, too',
  );
  t.same(await itemsOf(hub, '/deliveries?state=DEAD'), []);
});

t.test('ocpi-hub trace prints quirks [D70]', async (t) => {
  const hub = await hubFor(t);
  await session(await habitual(t, hub), hub);
  const words = ['trace', 'NL-CPO/S1', '--url', hub.url, '--token', hub.adminToken];
  const child = spawn(process.execPath, ['dist/bin/ocpi-hub.js', ...words], { stdio: ['ignore', 'pipe', 'ignore'] });
  const [out] = await Promise.all([text(child.stdout), once(child, 'close')]);
  t.match(out, /object\.put\n.*\n(.*\n)*? {4}quirk of NL-CPO: blank-date, it writes a blank between date and time/);
  t.match(out, / {8}1\. .* \w+ HTTP 405 after \d+ ms, quirk patch-refused/);
  t.match(out, / {8}2\. .* delivered HTTP 204 after \d+ ms, quirk empty-2xx/);
});

t.test(
  'a CDR before its rule, an eMSP without a receiver, and an exchange show their quirks [D60] [D63] [D70]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub);
    await admin(hub, 'DELETE', '/routes/NL-EMS/NL-CPO');
    await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'));
    t.same(metOf(await traceOf(hub, 'NL-CPO/C1'), 'object.put'), [['NL-CPO early-cdr']]);
    const habits = ['not-subscribed', 'details-url'];
    const emsp = await startEmsp({ hubUrl: hub.url, country_code: 'NL', party_id: 'EMT', habits });
    t.teardown(() => emsp.close());
    const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'EMT' }];
    await emsp.register(String((await admin(hub, 'POST', '/parties', { roles })).initial_token));
    const [registered] = (await itemsOf(hub, '/events?type=partner.registered&party=NL-EMT')) as unknown as EventView[];
    const exchange = await traceOf(hub, registered?.correlation_id ?? '');
    t.same(metOf(exchange, 'partner.registered'), [['NL-EMT details-url']]);
    await admin(hub, 'PUT', '/routes/NL-EMT/NL-CPO', { active: true });
    await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
    const [put] = (await traceOf(hub, 'NL-CPO/LOC1')).steps;
    t.same(put?.quirks, [{ quirk: 'not-subscribed', parties: ['NL-EMT'], says: quirks['not-subscribed'] }]);
    await admin(hub, 'DELETE', '/routes/NL-EMT/NL-CPO');
    await cpo.call('PUT', '/2.2.1/locations/NL/CPO/CLEAN', locationBody('CLEAN'));
    t.same(metOf(await traceOf(hub, 'NL-CPO/CLEAN'), 'object.put'), [[]], 'none of what is as OCPI says');
    const clean = (await itemsOf(hub, '/events?object=NL-CPO/CLEAN')) as unknown as EventView[];
    t.notOk(
      clean.some(({ data }) => Object.hasOwn(data as object, 'quirks')),
      'and its event has no such field',
    );
  },
);

t.test('events and deliveries of earlier versions, which name no quirk, are traced as before [D70]', async (t) => {
  const hub = await hubFor(t, {}, { clock: new SimulatedClock('2026-05-01T10:01:00.000Z') });
  await routedPair(t, hub);
  const plain = { module: 'sessions', method: 'PUT', owner: 'NL-CPO', id: 'OLD', within: [], facts: {}, viewer: null };
  const data = { ...plain, lastUpdated: '2026-05-01T10:00:00Z', owed: null, reason: 'not routed', warnings: [] };
  const { store } = hub.created.context;
  await append(store, { events: [event({ stream: 'sessions/NL-CPO/old', type: 'object.put', data })] });
  t.same(metOf(await traceOf(hub, 'NL-CPO/OLD'), 'object.put'), [[]]);
  const later = { ...data, quirks: { 'NL-CPO': ['of-a-later-version'] } };
  await append(store, { events: [event({ stream: 'sessions/NL-CPO/old', type: 'object.put', data: later })] });
  const [, step] = (await traceOf(hub, 'NL-CPO/OLD')).steps;
  t.same(step?.quirks, [{ quirk: 'of-a-later-version', parties: ['NL-CPO'], says: '' }]);
});
