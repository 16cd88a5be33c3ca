/**
 * What operators are shown of one delivery: the request without its token, and what it changes for its receiver.
 */
import { cdrBody, sessionBody, tariffBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

interface Detail {
  readonly state: string;
  readonly request: { method: string; url: string | null; headers: Record<string, string>; body: string | null };
  readonly change: { before: { seq: number; body: string | null } | null; after: string | null } | null;
}

async function pair(t: Test, refuses: (body: string) => boolean) {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: ({ body }) => (refuses(body) ? { status: 404, text: '{"status_code":2003}' } : {}),
  });
  const path = '/2.2.1/sessions/NL/CPO/S1';
  const send = async (method: string, body: string | object) => {
    const { json } = await cpo.call(method, path, body, { 'X-Correlation-ID': 'of-the-test' });
    t.equal(json.status_code, 1000);
    await quiet(hub);
  };
  /** Newest first. */
  const details = async () => {
    const { items } = await admin(hub, 'GET', '/deliveries?receiver=NL-EMS');
    const found = (items as { id: string }[]).map(({ id }) => admin(hub, 'GET', `/deliveries/${id}`));
    return (await Promise.all(found)) as unknown as Detail[];
  };
  return { emsp, send, details };
}

t.test('the request is shown as it is sent, byte for byte, with its token hidden [contract 3]', async (t) => {
  const { emsp, send, details } = await pair(t, () => false);
  await send('PUT', sessionBody('S1'));
  const fragment = '{"kwh": 2.50, "last_updated":"2026-01-02T03:14:05Z"}';
  await send('PATCH', fragment);
  const [patch] = await details();
  const { request } = patch ?? { request: null };
  const sent = emsp.received.at(-1);
  t.match(request, { method: 'PATCH', url: `${emsp.url}${sent?.path}`, body: fragment });
  t.equal(sent?.body, fragment, 'and so it arrived');
  t.match(request?.headers, {
    Authorization: 'Token ***',
    'X-Correlation-ID': 'of-the-test',
    'OCPI-from-party-id': 'CPO',
    'OCPI-to-party-id': 'EMS',
  });
  const text = JSON.stringify(patch);
  for (const secret of [emsp.token, Buffer.from(emsp.token).toString('base64')]) t.notMatch(text, secret);
});

t.test('a delivery shows what it changes, compared with what had arrived before it', async (t) => {
  const { send, details } = await pair(t, (body) => body.includes('"kwh":7'));
  const first = JSON.stringify(sessionBody('S1', { kwh: 1 }));
  await send('PUT', first);
  await send('PATCH', '{"kwh":7,"last_updated":"2026-01-02T03:14:05Z"}');
  await send('PATCH', '{"kwh":3,"last_updated":"2026-01-02T03:24:05Z"}');
  const [last, refused, put] = await details();
  t.match([last?.state, refused?.state, put?.state], ['DELIVERED', 'DEAD', 'DELIVERED']);
  t.equal(put?.change?.before, null, 'nothing had arrived');
  t.equal(put?.change?.after, first);
  t.equal(refused?.change?.before?.body, first);
  t.match(refused?.change?.after, '"kwh":7');
  t.equal(last?.change?.before?.body, first, 'not what was refused, but what arrived before that');
  t.match(last?.change?.after, '"kwh":3');
  t.match(JSON.parse(last?.change?.after ?? ''), { id: 'S1', cdr_token: { uid: 'CARD1' } }, 'whole, not the fragment');
});

t.test('a deleted object is shown as absent, and its request has no body', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const body = JSON.stringify(tariffBody('T1'));
  await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/T1', body);
  await cpo.call('DELETE', '/2.2.1/tariffs/NL/CPO/T1');
  await quiet(hub);
  const { items } = await admin(hub, 'GET', '/deliveries');
  const [deleted] = items as { id: string }[];
  const found = (await admin(hub, 'GET', `/deliveries/${deleted?.id}`)) as unknown as Detail;
  t.equal(found.state, 'DELIVERED', 'it arrived');
  t.match(found.request, { method: 'DELETE', body: null });
  t.equal(found.change?.before?.body, body);
  t.equal(found.change?.after, null);
});

t.test('a receiver without an endpoint for the module has no address', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const modules = [['tariffs', 'RECEIVER']] as const;
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'OLD', modules });
  await admin(hub, 'PUT', '/routes/NL-OLD/NL-CPO', { active: true });
  const cdr = cdrBody('C1', { cdr_token: { country_code: 'NL', party_id: 'OLD', uid: 'CARD' } });
  await cpo.call('POST', '/2.2.1/cdrs', cdr);
  await quiet(hub);
  const { items } = await admin(hub, 'GET', '/deliveries?receiver=NL-OLD');
  const [dead] = items as { id: string }[];
  const found = (await admin(hub, 'GET', `/deliveries/${dead?.id}`)) as unknown as Detail;
  t.match(found, { state: 'DEAD', request: { method: 'POST', url: null, body: JSON.stringify(cdr) } });
});
