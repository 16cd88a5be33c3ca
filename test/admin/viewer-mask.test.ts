/**
 * A viewer sees no token uid, contract id or visual number: not in any answer of the admin API, of whatever route, nor in the
 * inspector. Routes are taken from the OpenAPI document, so that a new one is asked, too.
 */
import { WebSocket } from 'ws';
import { cdrBody, locationBody, sessionBody, tokenBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually, type Received } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';

const viewerToken = 'viewer-token-of-the-masks';
const names = { uid: '04A7B3C9D1E280', contract_id: 'NL-EMS-C0FFEE42-7', visual_number: '9988-7766-5544' };
/** Uids that an answer names in no field of a token, from which it would know them elsewhere. */
const alone = {
  listed: '04D5E6F7081929',
  authorized: '04F1E2D3C4B5A6',
  spoken: '04C0FFEE123456',
  unread: '04BADBAD778899',
};
const cdr_token = { country_code: 'NL', party_id: 'EMS', uid: names.uid, type: 'RFID', contract_id: names.contract_id };

t.test('a viewer is shown no name of a person anywhere', async (t) => {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken, HUB_RETRY_SCHEDULE_S: '3600' });
  let isEchoing = false;
  const echo = ({ body, path }: { body: string; path: string }) =>
    isEchoing
      ? { status: 400, text: `unknown token ${alone.spoken}: cannot take ${body} at ${path}` }
      : { body: { result: 'ACCEPTED', timeout: 30 } };
  const unissued = (uid: string) => tokenBody(uid, { issuer: undefined });
  const lists = (received: Received) =>
    received.path.startsWith('/ocpi/2.2.1/tokens?') ? { body: [unissued(alone.listed)] } : echo(received);
  const { cpo, emsp } = await routedPair(t, hub, { cpo: echo, emsp: lists });
  await admin(hub, 'PATCH', '/parties/NL-CPO', { authorize_to_hub: 'resolve' });
  const shown: string[] = [];
  const watching = new WebSocket(`${hub.url.replace('http', 'ws')}/admin/v1/inspector`, {
    headers: { authorization: `Bearer ${viewerToken}` },
  });
  t.teardown(() => watching.terminate());
  watching.on('message', (data) => shown.push(String(data)));
  await eventually('the inspector shows actors', () => shown.length > 0);

  // Names in every place where OCPI has them: objects, paths, commands, authorizations, refusals, excerpts, dead letters.
  const token = tokenBody(names.uid, names);
  const response_url = `${emsp.url}/result/${names.uid}`;
  const authorization = `/2.2.1/tokens/${alone.authorized}/authorize`;
  for (const round of ['1', '2']) {
    isEchoing = round === '2';
    await emsp.call('PUT', `/2.2.1/tokens/NL/EMS/${names.uid}`, unissued(names.uid));
    await emsp.call('PUT', `/2.2.1/tokens/NL/EMS/${names.uid}`, token);
    await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/S${round}`, sessionBody(`S${round}`, { cdr_token }));
    await cpo.call('POST', '/2.2.1/cdrs', cdrBody(`C${round}`, { cdr_token, session_id: `S${round}` }));
    await cpo.call('PUT', `/2.2.1/locations/NL/CPO/L${round}`, locationBody(`L${round}`));
    await cpo.call('POST', authorization, {});
    const to = { 'ocpi-to-country-code': 'NL', 'ocpi-to-party-id': 'CPO' };
    const start = { response_url, token, location_id: 'L1', evse_uid: 'EVSE1', connector_id: '1' };
    await emsp.call('POST', '/2.2.1/commands/START_SESSION', start, to);
    await emsp.call(
      'POST',
      '/2.2.1/commands/STOP_SESSION',
      { response_url: `${emsp.url}/stopped`, session_id: 'S1' },
      to,
    );
    await emsp.call('PUT', `/2.2.1/tokens/NL/EMS/${names.uid}`, { ...token, type: 1 });
    await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/X${round}`, sessionBody('other', { cdr_token }));
    await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/D${round}`, '['.repeat(30_000) + ']'.repeat(30_000));
    await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/W${round}`, `{'uid': '${alone.unread}'}`);
    await emsp.call('PUT', `/2.2.1/tokens/NL/EMS/${percentEncoded(names.uid)}`, { uid: 1 });
    const unowned = { ...cdr_token, country_code: 'NL', party_id: 'ZZZ' };
    await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/U${round}`, sessionBody(`U${round}`, { cdr_token: unowned }));
  }
  const at = { url: hub.url, adminToken: hub.adminToken };
  await eventually('a delivery was refused', async () => {
    const { items } = (await admin(at, 'GET', '/deliveries?state=DEAD')) as { items: unknown[] };
    return items.length > 1;
  });

  // What was noted of the partners is written before it is read.
  for (const id of ['NL-CPO', 'NL-EMS']) {
    await admin(at, 'GET', `/parties/${id}/report`);
    const { id: check } = await admin(at, 'POST', `/parties/${id}/check`, {});
    await eventually('a check has ended', async () => (await admin(at, 'GET', `/checks/${check}`)).state === 'DONE');
  }

  const ids = await samplesOf(at);
  const document = await admin(at, 'GET', '/openapi.json');
  const paths = Object.entries(document.paths as Record<string, Record<string, unknown>>);
  const asked: string[] = [];
  const known = { admin: 0, viewer: 0 };
  for (const [template] of paths.filter(([, methods]) => 'get' in methods)) {
    const path = template.replace('/admin/v1', '');
    const forms = ids[path] ?? [path];
    t.notMatch(forms.join(), /[{}]/, `${path} has a sample here`);
    for (const form of forms) {
      for (const accept of ['application/json', 'application/x-ndjson', 'text/csv']) {
        const url = `${hub.url}/admin/v1${form}`;
        const as = (bearer: string) => callOnce('GET', url, undefined, { authorization: `Bearer ${bearer}`, accept });
        const [full, hidden] = [await as(hub.adminToken), await as(viewerToken)];
        asked.push(form);
        known.admin += namesIn(full.text).length;
        if (path.startsWith('/audit')) t.equal(hidden.status, 403, `${form} is closed to a viewer`);
        else t.equal(hidden.status, full.status, `${form} is open to a viewer`);
        // A refusal repeats the path that the viewer asked for.
        const said = hidden.status === 200 ? hidden.text : '';
        t.strictSame(
          said.split('\n').filter((line) => namesIn(line).length > 0),
          [],
          `${form} as ${accept}`,
        );
      }
    }
  }
  t.ok(known.admin > 30, `an operator sees ${known.admin} of them, in ${asked.length} answers`);
  t.strictSame(namesIn(shown.join('\n')), [], `the inspector, ${shown.length} messages`);
  const deliveries = await callOnce('GET', `${hub.url}/admin/v1/deliveries?limit=1000`, undefined, {
    authorization: `Bearer ${viewerToken}`,
  });
  t.match(deliveries.text, '…', 'what is hidden is marked');
});

t.test('the log has no uid of a trace or a refusal', async (t) => {
  const lines: string[] = [];
  const logTo = { write: (line: string) => void lines.push(line) };
  const hub = await hubFor(t, { HUB_LOG_LEVEL: 'info' }, { logTo });
  const { emsp } = await routedPair(t, hub);
  const refused = await emsp.call('PUT', `/2.2.1/tokens/NL/EMS/${names.uid}`, tokenBody('OTHER'));
  t.equal(refused.json.status_message, 'uid: expected that in the path');
  await emsp.push('PUT', `/2.2.1/tokens/NL/EMS/${names.uid}`, tokenBody(names.uid));
  for (const key of [names.uid, `NL-EMS/${names.uid}`]) await admin(hub, 'GET', `/trace/${key}`);
  const headers = { authorization: `Bearer ${hub.adminToken}` };
  const none = await callOnce('GET', `${hub.url}/admin/v1/trace/NL-EMS/${names.uid}/more`, undefined, headers);
  t.equal(none.status, 404);
  await eventually('the requests are logged', () => /"status":404/.test(lines.join('')));
  for (const pattern of [/\/trace\/:key"/, /\/trace\/:party\/:id"/]) t.match(lines.join(''), pattern);
  t.strictSame(
    lines.filter((line) => line.includes(names.uid)),
    [],
  );
});

const percentEncoded = (text: string) => text.replaceAll(/[0-9A-Z]/g, (each) => `%${each.charCodeAt(0).toString(16)}`);

/** The names in a text, in the forms that a text may have. */
function namesIn(text: string): string[] {
  const forms = [...Object.values(names), ...Object.values(alone)].flatMap((name) => [
    ...[name, encodeURIComponent(name), percentEncoded(name), Buffer.from(name).toString('hex')],
    ...['', 'x', 'xy'].map((before) =>
      Buffer.from(before + name)
        .toString('base64')
        .slice(4, -4),
    ),
  ]);
  return forms.filter((form) => text.toLowerCase().includes(form.toLowerCase()));
}

/** Paths with what there is, for the routes that need it. */
async function samplesOf(at: { url: string; adminToken: string }): Promise<Record<string, string[]>> {
  const items = async (path: string) => ((await admin(at, 'GET', path)) as { items: { id: string }[] }).items;
  const all = async (path: string) =>
    (await items(path)).map(({ id }) => `${path.split('?')[0]}/${encodeURIComponent(id)}`);
  const { id: pull } = await admin(at, 'POST', '/parties/NL-CPO/pull/locations', {});
  const { id: redrive } = await admin(at, 'POST', '/redrive', { filter: { state: 'DEAD' }, dry_run: false });
  const { id: checked } = await admin(at, 'POST', '/parties/NL-CPO/check', {});
  const uid = names.uid;
  return {
    '/parties/{id}': ['/parties/NL-CPO', '/parties/NL-EMS'],
    '/webhooks/{id}': ['/webhooks/none'],
    '/parties/{id}/handshake': ['/parties/NL-CPO/handshake'],
    '/parties/{id}/history': ['/parties/NL-CPO/history'],
    '/parties/{id}/report/{month}': ['/parties/NL-CPO/report/2026-05'],
    '/parties/{id}/report': ['/parties/NL-CPO/report', '/parties/NL-EMS/report'],
    '/deliveries': ['/deliveries', '/deliveries?state=DEAD'],
    '/deliveries/{id}': await all('/deliveries'),
    '/commands/{id}': await all('/commands'),
    '/pulls/{id}': [`/pulls/${pull}`],
    '/redrives/{id}': [`/redrives/${redrive}`],
    '/checks': ['/checks'],
    '/checks/{id}': [`/checks/${checked}`],
    '/orphans': ['/orphans', '/orphans?state=GRACE'],
    '/routes/explain': ['/routes/explain?from=NL-CPO&to=NL-EMS&module=sessions'],
    '/events': ['/events?limit=1000'],
    '/trace/{key}': [
      'NL-CPO/S1',
      'NL-CPO/S2',
      'NL-CPO/C1',
      'NL-EMS/CARD',
      uid.toLowerCase(),
      uid,
      names.contract_id,
    ].map((key) => `/trace/${encodeURIComponent(key)}`),
    '/trace/{party}/{id}': ['/trace/NL-CPO/S1', `/trace/NL-EMS/${uid}`],
    '/backups/{id}': ['/backups/none'],
    '/jobs/{id}': ['/jobs/none'],
  };
}
