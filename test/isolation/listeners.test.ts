/**
 * Each door answers at the listener that it is meant for, and nowhere else, whatever form the path has.
 */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { WebSocket } from 'ws';
import { hubFor } from '../support/hub-in-process.ts';
import { admin, plainPartner } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';
import { forms } from './attacks.ts';

/** The status of an answer; the path is sent as it is. */
async function statusOf(url: string, path: string, authorization: string): Promise<number | undefined> {
  const { hostname: host, port } = new URL(url);
  const sent = request({ host, port, path, headers: { authorization }, agent: false }).end();
  const [{ statusCode }] = (await once(sent, 'response')) as [IncomingMessage];
  sent.destroy();
  return statusCode;
}

async function inspects(url: string, authorization: string): Promise<number | undefined> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/admin/v1/inspector`, [], { headers: { authorization } });
  return new Promise((resolve) => {
    socket.once('open', () => {
      socket.terminate();
      resolve(101);
    });
    socket.once('unexpected-response', (sent, { statusCode }) => {
      sent.destroy();
      resolve(statusCode);
    });
  });
}

t.test('operators with a listener of their own are served there alone, and partners never (I9, I10)', async (t) => {
  const hub = await hubFor(t, { HUB_ADMIN_PORT: '0' });
  const operators = { url: hub.adminUrl, adminToken: hub.adminToken };
  const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }];
  const { initial_token: initialToken } = await admin(operators, 'POST', '/parties', { roles });
  const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  t.teardown(() => cpo.close());
  await cpo.registerAgain(String(initialToken), hub);

  const asOperator = `Bearer ${hub.adminToken}`;
  const asPartner = `Token ${Buffer.from(cpo.hubToken).toString('base64')}`;
  const ofOperators = ['/admin/v1/status', '/admin/v1/openapi.json', '/admin/docs', '/metrics', '/console/', '/'];
  for (const path of ofOperators) {
    t.match(await statusOf(hub.adminUrl, path, asOperator), /200|302/, `${path} for operators`);
    for (const form of forms(path)) t.equal(await statusOf(hub.url, form, asOperator), 404, `${form} for partners`);
  }
  t.equal(await statusOf(hub.url, '/ocpi/versions', asPartner), 200);
  t.equal(await statusOf(hub.url, '/portal/', ''), 200, 'partners have their portal');
  t.equal(await statusOf(hub.url, '/portal/v1/caller', asOperator), 401);
  for (const path of ['/portal/', '/portal/v1/caller'])
    for (const form of forms(path))
      t.equal(await statusOf(hub.adminUrl, form, asOperator), 404, `${form} for operators`);
  for (const form of forms('/ocpi/versions')) t.equal(await statusOf(hub.adminUrl, form, asPartner), 404, form);
  for (const url of [hub.url, hub.adminUrl]) {
    for (const path of ['/healthz', '/readyz']) t.equal(await statusOf(url, path, ''), 200, `${path} on both`);
  }
  t.equal(await inspects(hub.url, asOperator), 404);
  t.equal(await inspects(hub.adminUrl, asOperator), 101);
});
