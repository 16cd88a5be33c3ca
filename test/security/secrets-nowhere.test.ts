/**
 * A real hub lives through everything with secrets of every kind, at the most talkative log level, among partners that echo what
 * they were sent. Then each secret is looked for, in every form, in all that the hub wrote, keeps and answers. (registration G2,
 * secrets K1–K3) [contract, Settings; inspector]
 */
import { join } from 'node:path';
import { WebSocket } from 'ws';
import { freePort } from '../../src/sandbox/free-port.ts';
import { cdrBody, locationBody, sessionBody, tokenBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { type ChildHub, startChildHub } from '../support/child-hub.ts';
import { figures } from '../support/figures.ts';
import { clientId, identityProvider } from '../support/identity-provider.ts';
import { itemsOf, quiet } from '../support/observed.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { operatorsFile, tokenOf } from '../support/operators.ts';
import {
  admin,
  eventually,
  type PlainPartner,
  plainPartner,
  type Received,
  type Reply,
} from '../support/plain-partner.ts';
import { isAtLength } from '../support/share.ts';
import { smtpSink } from '../support/smtp-sink.ts';
import { t } from '../support/tap.ts';
import { filesBelow, findings, formsOf, type Haystack, recordsBelow, type Secret } from './searched.ts';

/** Every character that some form of writing escapes. */
const partnerToken = (name: string) => `${name}"\\/+%&<>'={}~?#-partner-token`;
const own = {
  adminToken: 'admin-token/of+the=search"test',
  viewerToken: 'viewer-token/of+the=search"test',
  secretKey: 'secret-key/of+the=search"test',
  previousKey: 'previous-key/of+the=search"test',
};
const secrets: Secret[] = Object.entries(own).map(([name, value]) => ({ name, value }));
const know = (name: string, value: unknown): string => {
  secrets.push({ name, value: String(value) });
  return String(value);
};

/** What a hostile or careless partner does with the header that it got. */
const echoes: readonly ((sent: string) => Reply)[] = [
  (sent) => ({ status: 500, text: `<html>your request had ${sent}` }),
  (sent) => ({
    status: 400,
    text: JSON.stringify({ status_code: 2001, status_message: `bad ${sent}`, timestamp: 'x' }),
  }),
  (sent) => ({ status: 401, text: JSON.stringify({ error: { authorization: `Token ${sent}` } }) }),
  (sent) => ({ text: JSON.stringify({ status_code: 2000, status_message: sent, timestamp: '2026-01-01T00:00:00Z' }) }),
  (sent) => ({ text: `{"not an envelope":${JSON.stringify(sent)}}` }),
  (sent) => ({ text: `not JSON ${encodeURIComponent(sent)} ${Buffer.from(sent).toString('hex')}` }),
  (sent) => ({
    status: 302,
    text: sent,
    headers: { Location: `http://user:${encodeURIComponent(sent)}@127.0.0.1:1/` },
  }),
  (sent) => ({
    status: 503,
    text: `${'.'.repeat(500)}${sent}`,
    headers: { 'Retry-After': '1', 'X-Echo': encodeURI(sent) },
  }),
  (sent) => ({ status: 500, text: sent.repeat(100) }),
  (sent) => ({ status: 404, text: Buffer.from(`{"token":"${sent}"}`).toString('base64') }),
];

function echoing(encoded: boolean) {
  let turn = 0;
  let isOn = false;
  return {
    start() {
      isOn = true;
    },
    stop() {
      isOn = false;
    },
    answer:
      (usual: () => Reply) =>
      ({ headers }: Received): Reply => {
        if (!isOn) return usual();
        const header = String(headers.authorization).replace(/^Token /, '');
        const sent = [header, encoded ? Buffer.from(header, 'base64').toString() : header][turn % 2] ?? '';
        return (echoes[turn++ % echoes.length] ?? usual)(sent);
      },
  };
}

t.test('secrets found anywhere: 0', async (t) => {
  const [directory, port] = [t.testdir({}), await freePort()];
  const dataDir = join(directory, 'data');
  const written: string[] = [];
  const provider = await identityProvider(t);
  provider.allow(`http://127.0.0.1:${port}/console/oidc/callback`);
  const { issuer, clientSecret } = provider;
  const password = know('password of the mail', 'mail-password/of+the="search"');
  const { port: mailPort } = await smtpSink(t, 'another password');
  const file = operatorsFile(join(directory, 'operators.json'), [{ name: 'olga', role: 'admin' }]);
  const env = {
    ...{ HUB_OPERATORS_FILE: file, HUB_MAIL_FROM: 'hub@example.com', HUB_MAIL_TO: 'ops@example.com' },
    ...{ HUB_SMTP_URL: `smtp://hub:${encodeURIComponent(password)}@127.0.0.1:${mailPort}` },
    ...{ HUB_OIDC_ISSUER: issuer, HUB_OIDC_CLIENT_ID: clientId, HUB_OIDC_ROLES: 'hub-noc=viewer' },
    ...{ HUB_OIDC_CLIENT_SECRET: know('secret of the OpenID Connect client', clientSecret) },
    ...{ HUB_ADMIN_TOKEN: own.adminToken, HUB_VIEWER_TOKEN: own.viewerToken, HUB_LOG_LEVEL: 'trace' },
    ...{ HUB_RETRY_SCHEDULE_S: '0.05,0.1', HUB_RETRY_WINDOW_H: '0.0005', HUB_CIRCUIT_OPEN_MS: '50' },
    ...{ HUB_PROBE_INTERVAL_S: '1', HUB_ORPHAN_GRACE_S: '0.2', HUB_ORPHAN_SWEEP_S: '0.3' },
  };
  const start = (more: Record<string, string>) =>
    startChildHub({ dataDir, port, env: { ...env, ...more }, onOutput: (text) => written.push(text) });
  let hub = await start({ HUB_SECRET_KEY: own.previousKey });
  t.teardown(() => hub.kill());

  const [cpoEchoes, emspEchoes] = [echoing(true), echoing(false)];
  const accepted = () => ({ body: { result: 'ACCEPTED', timeout: 1, allowed: 'ALLOWED' } });
  const party = { countryCode: 'NL' } as const;
  const cpo = await plainPartner({
    ...{ ...party, role: 'CPO', partyId: 'CPO', token: know('token of the CPO', partnerToken('CPO')) },
    answer: cpoEchoes.answer(accepted),
  });
  const emsp = await plainPartner({
    ...{ ...party, role: 'EMSP', partyId: 'EMS', token: know('token of the eMSP', partnerToken('EMS')) },
    answer: emspEchoes.answer(accepted),
  });
  t.teardown(() => Promise.all([cpo.close(), emsp.close()]));
  const spoken = (what: string, text: string) => haystacks.push({ name: what, bytes: Buffer.from(text) });
  const haystacks: Haystack[] = [];

  await cpo.register(hub);
  await emsp.register(hub, { token_encoding: 'plain' });
  for (const { id, initialToken, hubToken } of [cpo, emsp]) {
    know(`initial token of ${id}`, initialToken);
    know(`hub token of ${id}`, hubToken);
  }
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await ofOperators(hub, cpo, issuer, spoken);
  await refusedCalls(hub, cpo, spoken);
  await sessionPath(cpo, emsp);
  await quiet(hub);
  emspEchoes.start();
  cpoEchoes.start();
  // Each is several answers, and the echoes take turns at them.
  for (let n = 0; n < (isAtLength ? echoes.length : 3); n++) await sessionPath(cpo, emsp, `-echo${n}`);
  for (const { id } of [cpo, emsp]) spoken('a probe', JSON.stringify(await admin(hub, 'POST', `/parties/${id}/probe`)));
  await admin(hub, 'POST', '/parties/NL-CPO/pull/locations', { full: true });
  await quiet(hub);
  await eventually('there are dead letters', async () => (await itemsOf(hub, '/deliveries?state=DEAD')).length > 3);

  // The key is rotated and the hub killed, then it goes on with the old key known.
  await hub.kill();
  hub = await start({ HUB_SECRET_KEY: own.secretKey, HUB_SECRET_KEY_PREVIOUS: own.previousKey });
  emspEchoes.stop();
  cpoEchoes.stop();
  await rotated(cpo);
  await sessionPath(cpo, emsp, '-after');
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  know('second initial token', (await admin(hub, 'POST', '/parties/NL-EMS/initial-token')).initial_token);

  haystacks.push(
    ...(await adminAnswers(hub)),
    await inspected(hub),
    ...(await backedUp(join(directory, 'backup'), hub)),
  );
  t.equal(await hub.stop(), 0);
  haystacks.push({ name: 'what it wrote to stdout and stderr', bytes: Buffer.from(written.join('')) });
  haystacks.push(...filesBelow(dataDir), ...(await recordsBelow(dataDir)));

  const named = (part: string) => haystacks.filter(({ name }) => name.includes(part));
  t.ok(secrets.length >= 18, `${secrets.length} secrets, each in ${Object.keys(formsOf('x')).length} forms`);
  t.ok(
    haystacks.length > 40,
    `${haystacks.length} places, ${haystacks.reduce((sum, { bytes }) => sum + bytes.length, 0)} bytes`,
  );
  for (const place of ['/events', '/deliveries/', '/trace', 'metrics', 'stdout', 'records of', 'backup', 'inspector']) {
    t.ok(
      named(place).some(({ bytes }) => bytes.includes('NL-CPO')),
      `${place} was looked at and holds what it should`,
    );
  }
  t.ok(
    named('stdout').some(({ bytes }) => bytes.includes('S1-echo0')),
    'the log tells of the attempts',
  );
  t.ok(
    named('/deliveries/').some(({ bytes }) => bytes.includes('your request had')),
    'excerpts of the echoes are there',
  );
  for (const [place, said] of [
    ['test of a webhook', 'Invalid login'],
    ['failed sign-in', 'invalid_grant'],
  ] as const) {
    t.ok(
      named(place).some(({ bytes }) => bytes.includes(said)),
      `${place}: ${said}`,
    );
  }
  t.ok(
    named('records of').some(({ bytes }) => bytes.includes('"partnerToken":"v2.')),
    'partner tokens are there, sealed',
  );
  let found = 0;
  for (const secret of secrets) {
    const places = findings([secret], haystacks);
    found += places.length;
    t.strictSame(places, [], secret.name);
  }
  figures('secrets', { 'looked for': secrets.length, places: haystacks.length, found });
});

t.test('the search finds a secret in every encoding', async (t) => {
  const value = partnerToken('S');
  const secret = { name: 'secret', value };
  const quoted = JSON.stringify({ authorization: `Token ${value}` });
  const texts = [value, quoted, JSON.stringify({ line: quoted }), encodeURIComponent(value)];
  const encoded = ['', 'x', 'xy'].flatMap((before) =>
    (['base64', 'base64url', 'hex'] as const).map((form) => Buffer.from(`${before}${value}z`).toString(form)),
  );
  for (const text of [...texts, ...encoded]) {
    t.not(findings([secret], [{ name: 'text', bytes: Buffer.from(`before ${text} after`) }]).length, 0, text);
  }
  t.strictSame(findings([secret], [{ name: 'text', bytes: Buffer.from('nothing of the kind') }]), []);
});

/** A new token of the hub, and one of the partner. */
async function rotated(partner: PlainPartner): Promise<void> {
  const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO', business_details: { name: 'CPO' } }];
  const body = { token: partner.token, url: `${partner.url}/ocpi/versions`, roles };
  const { json } = await partner.call('PUT', '/2.2.1/credentials', body);
  partner.hubToken = know('rotated hub token', (json.data as { token: string }).token);
}

/** Named operators, a sign-in that fails, a webhook, mail that is refused, and the portal. */
async function ofOperators(
  hub: ChildHub,
  cpo: PlainPartner,
  issuer: string,
  spoken: (what: string, text: string) => void,
): Promise<void> {
  const token = know('token of an operator', tokenOf('olga'));
  for (const authorization of [`Bearer ${token}`, `Bearer ${token}x`]) {
    spoken('an operator', (await callOnce('GET', `${hub.url}/admin/v1/caller`, undefined, { authorization })).text);
  }
  const { secret } = await admin(hub, 'PUT', '/webhooks/on-call', { url: `${cpo.url}/hook` });
  know('secret of a webhook', secret);
  for (const id of ['on-call', 'mail']) {
    spoken('a test of a webhook', JSON.stringify(await admin(hub, 'POST', `/webhooks/${id}/test`)));
  }
  const { url } = await admin(hub, 'POST', '/parties/NL-CPO/portal-link');
  const link = know('link of the portal', String(url).split('#')[1]);
  const opened = await callOnce('POST', `${hub.url}/portal/v1/session`, { link });
  const authorization = `Bearer ${know('session of the portal', (JSON.parse(opened.text) as { token: string }).token)}`;
  spoken('the portal', (await callOnce('GET', `${hub.url}/portal/v1/caller`, undefined, { authorization })).text);
  const begun = await callOnce('GET', `${hub.url}/console/oidc/start`);
  const state = new URL(begun.headers.get('location') ?? '').searchParams.get('state');
  const search = `?${new URLSearchParams({ code: 'x'.repeat(43), state: String(state), iss: issuer })}`;
  const cookie = String(begun.headers.get('set-cookie')).split(';', 1)[0] ?? '';
  const ended = await callOnce('POST', `${hub.url}/console/oidc/token`, { search }, { cookie });
  spoken('a failed sign-in', ended.text);
}

/** Calls that are refused, with secrets where they do not belong. */
async function refusedCalls(
  hub: ChildHub,
  cpo: PlainPartner,
  spoken: (what: string, text: string) => void,
): Promise<void> {
  const { hubToken, token } = cpo;
  const url = `${cpo.url}/ocpi/versions`;
  const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }];
  const userinfo = url.replace('://', `://user:${encodeURIComponent(token)}@`);
  const credentials = [
    { token, url: userinfo, roles },
    { token: `${token}${token}`, url, roles },
    { token: { token }, url, roles },
    { token: ` ${token}`, url: `${cpo.url}/nowhere`, roles },
    `{"token":${JSON.stringify(token)},"url":`,
    `{"token":"${hubToken}" "url"`,
  ];
  for (const body of credentials) {
    const { text } = await ocpi(hub, 'PUT', '/2.2.1/credentials', { token: hubToken, body });
    spoken('the refusal of credentials', text);
  }
  const misplaced = [
    ['GET', '/2.2.1/nowhere', { Authorization: `Bearer ${hubToken}` }],
    ['GET', '/2.2.1/sessions', { Authorization: `Token ${own.adminToken}` }],
    ['GET', '/2.2.1/sessions', { Authorization: `Token ${own.secretKey} ${hubToken}` }],
    ['DELETE', '/2.2.1/sessions', { Authorization: `Token ${hubToken}` }],
  ] as const;
  for (const [method, path, headers] of misplaced) {
    spoken('a refused call', (await ocpi(hub, method, path, { headers })).text);
  }
  for (const authorization of [`Bearer ${own.adminToken}x`, `Basic ${own.adminToken}`, own.viewerToken]) {
    const url = `${hub.url}/admin/v1/parties?token=${encodeURIComponent(own.adminToken)}`;
    spoken('a refused operator', (await callOnce('GET', url, undefined, { authorization })).text);
  }
  const endpoints = [{ identifier: 'commands', role: 'RECEIVER', url: userinfo }];
  const authorization = `Bearer ${own.adminToken}`;
  const set = `${hub.url}/admin/v1/parties/NL-CPO/endpoints`;
  spoken('a refused endpoint', (await callOnce('PUT', set, { endpoints }, { authorization })).text);
}

/** Catalogue, authorize, command with its result, session, CDR; what they are answered is of no matter here. */
async function sessionPath(cpo: PlainPartner, emsp: PlainPartner, suffix = ''): Promise<void> {
  const to = (partyId: string) => ({ 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': partyId });
  const put = (partner: PlainPartner, path: string, body: object) => partner.call('PUT', `/2.2.1/${path}`, body);
  await put(cpo, `locations/NL/CPO/LOC1${suffix}`, locationBody(`LOC1${suffix}`));
  await put(emsp, `tokens/NL/EMS/CARD1${suffix}`, tokenBody(`CARD1${suffix}`));
  await cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', undefined, to('EMS'));
  const response_url = `${emsp.url}/ocpi/2.2.1/commands/START_SESSION/1`;
  const start = { response_url, token: tokenBody('CARD1'), location_id: 'LOC1' };
  await emsp.call('POST', '/2.2.1/commands/START_SESSION', start, to('CPO'));
  const command = cpo.received.filter(({ path }) => path.includes('/commands/')).at(-1);
  const callback = (JSON.parse(command?.body ?? '{}') as { response_url?: string }).response_url;
  if (callback) await cpo.call('POST', new URL(callback).pathname.replace('/ocpi', ''), { result: 'ACCEPTED' });
  await put(cpo, `sessions/NL/CPO/S1${suffix}`, sessionBody(`S1${suffix}`));
  await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { response_url, session_id: `S1${suffix}` });
  await cpo.call('POST', '/2.2.1/cdrs', cdrBody(`C1${suffix}`, { session_id: `S1${suffix}` }));
}

/** Every answer that the operators' door gives to a reader, by its own description, with real ids; and what needs no token. */
async function adminAnswers(hub: ChildHub): Promise<Haystack[]> {
  const answers: Haystack[] = [];
  const get = async (path: string, accept = 'application/json'): Promise<string> => {
    const headers = { authorization: `Bearer ${own.viewerToken}`, accept };
    const { text } = await callOnce('GET', `${hub.url}${path}`, undefined, headers);
    answers.push({ name: path, bytes: Buffer.from(text) });
    return text;
  };
  const description = JSON.parse(await get('/admin/v1/openapi.json')) as { paths: Record<string, object> };
  const events = await itemsOf(hub, '/events');
  const ids: Record<string, unknown[]> = {
    parties: ['NL-CPO', 'NL-EMS'],
    deliveries: (await itemsOf(hub, '/deliveries')).map(({ id }) => id),
    commands: (await itemsOf(hub, '/commands')).map(({ id }) => id),
    pulls: events.flatMap(({ data }) => (data as { id?: string }).id ?? []),
    trace: [...new Set(events.flatMap(({ correlation_id: id, object }) => [id, object]).filter(Boolean))],
  };
  for (const [path, methods] of Object.entries(description.paths)) {
    if (!('get' in methods)) continue;
    const [, noun = ''] = path.replace('/admin/v1', '').split('/');
    const own = path.includes('{') ? (ids[noun] ?? ['nothing']) : [''];
    for (const id of own) {
      const query = path.endsWith('/explain') ? '?from=NL-CPO&to=NL-EMS&module=sessions' : '';
      const full = path.startsWith('/admin') ? path : `/admin/v1${path}`;
      await get(full.replace(/\{\w+\}/, encodeURIComponent(String(id)).replaceAll('%2F', '/')) + query);
    }
  }
  await get('/admin/v1/events', 'application/x-ndjson');
  for (const path of ['/metrics', '/healthz', '/readyz', '/admin/docs', '/console/']) await get(path);
  return answers;
}

/** All that the inspector tells of every actor when somebody connects. */
function inspected(hub: ChildHub): Promise<Haystack> {
  const protocols = ['ocpi-hub.inspector', `bearer.${encodeURIComponent(own.viewerToken)}`];
  const socket = new WebSocket(`${hub.url.replace('http', 'ws')}/admin/v1/inspector`, protocols);
  const frames: string[] = [];
  return new Promise((resolve, reject) => {
    socket.on('error', reject);
    socket.on('message', (data) => {
      frames.push(String(data));
      if (!String(data).includes('"ocpi-hub.complete"')) return;
      socket.close();
      resolve({ name: 'inspector', bytes: Buffer.from(frames.join('\n')) });
    });
  });
}

async function backedUp(directory: string, hub: ChildHub): Promise<Haystack[]> {
  const { id } = await admin(hub, 'POST', '/backup', { directory });
  await eventually('the backup is done', async () => (await admin(hub, 'GET', `/backups/${id}`)).state === 'DONE');
  const found = [...filesBelow(directory), ...(await recordsBelow(directory))];
  return found.map(({ name, bytes }) => ({ name: `backup ${name}`, bytes }));
}
