/**
 * A partner that asks for large objects and takes none of them: it is refused, its connections end, and nobody else notices.
 */
import { connect, type Socket } from 'node:net';
import { sessionBody } from '../support/bodies.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually, type PlainPartner } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

const attacks = 60;
const location = (id: string, padding: string) => ({
  ...{ country_code: 'NL', party_id: 'CPO', id, publish: true },
  ...{ last_updated: '2026-01-02T00:00:00Z', padding },
});
const padding = 'x'.repeat(4_000_000);

/** Asks and reads nothing of the answer. */
function ask(t: Test, hub: { url: string }, partner: PlainPartner, path: string): Socket {
  const { hostname: host, port } = new URL(hub.url);
  const socket = connect({ host, port: Number(port) }).on('error', () => socket.destroy());
  t.teardown(() => socket.destroy());
  const token = Buffer.from(partner.hubToken).toString('base64');
  socket.write(`GET /ocpi${path} HTTP/1.1\r\nHost: hub\r\nAuthorization: Token ${token}\r\n\r\n`);
  return socket;
}

t.test('answers that a partner does not take have at most a quarter of the room, and end', atLength, async (t) => {
  const hub = await startChildHub({
    dataDir: directoryFor(t),
    port: 0,
    env: { NODE_OPTIONS: '--max-old-space-size=256', HUB_AUTHORIZE_TIMEOUT_MS: '30000' },
  });
  t.teardown(() => hub.kill());
  const allowed = { emsp: () => ({ body: { allowed: 'ALLOWED' } }) };
  const { cpo, emsp } = await routedPair(t, hub, allowed);
  const greedy = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'BAD' });
  await admin(hub, 'PUT', '/routes/NL-BAD/NL-CPO', { active: true });
  for (const id of ['L1', 'L2']) {
    const pushed = await cpo.call('PUT', `/2.2.1/locations/NL/CPO/${id}`, location(id, id === 'L1' ? padding : ''));
    t.equal(pushed.status, 200);
  }
  const bytesHeld = async () => {
    const answer = await fetch(`${hub.url}/metrics`, { headers: { authorization: `Bearer ${hub.adminToken}` } });
    return Number(/^ocpi_hub_load\{signal="bytes"\} (\S+)$/m.exec(await answer.text())?.[1]);
  };
  const sockets: Socket[] = [];
  const attack = () => void sockets.push(ask(t, hub, greedy, '/2.2.1/locations/L1'));
  for (let n = 0; n < attacks; n++) attack();
  // On a busy machine the hub may refuse all of these: taking the large object has kept it long.
  await eventually('answers are held', async () => {
    attack();
    return (await bytesHeld()) > 0.05;
  });
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  const most = [];
  for (let round = 0; round < 10; round++) {
    const statuses = [
      await cpo.call('POST', '/2.2.1/tokens/U1/authorize', undefined, to),
      await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/S${round}`, sessionBody(`S${round}`)),
      await emsp.call('GET', '/2.2.1/sessions?date_from=2020-01-01T00:00:00Z'),
      await emsp.call('GET', '/2.2.1/locations/L2'),
    ].map(({ status }) => status);
    t.strictSame(statuses, [200, 200, 200, 200], 'authorize, push, list and a read of others are served');
    most.push(await bytesHeld());
  }
  t.ok(Math.max(...most) < 0.3, `of the room at most ${Math.max(...most)} was held`);
  let refused = await greedy.call('GET', '/2.2.1/locations/L1');
  // The kernel may take a whole answer or two off the hub: then these hold nothing of its room.
  await eventually('it alone is refused', async () => {
    if (refused.status === 503) return true;
    attack();
    refused = await greedy.call('GET', '/2.2.1/locations/L1');
    return false;
  });
  t.equal(refused.json.status_code, 3000);
  t.match(refused.headers.get('retry-after'), /^[1-9]/);
  const whole = await emsp.call('GET', '/2.2.1/locations/L1');
  t.equal(whole.status, 200, 'another partner reads the same object');
  t.equal(whole.headers.get('content-length'), String(Buffer.byteLength(whole.text)));
  t.same((whole.json.data as { padding: string }).padding.length, padding.length);

  // `pace.test.ts` has the rule by which they end, after a minute in which nothing was taken.
  if (atLength.skip !== undefined) return t.comment(`that they end: ${atLength.skip}`);
  await eventually('nothing is held for it any more', async () => (await bytesHeld()) === 0, 240_000);
  t.ok(
    sockets.some(({ destroyed }) => !destroyed),
    'though it has taken nothing',
  );
  t.equal((await greedy.call('GET', '/2.2.1/locations/L1')).status, 200, 'and it is served when it reads');
  t.equal(await hub.stop(), 0);
});

t.test('suspending a partner ends its requests in progress', async (t) => {
  const hub = await hubFor(t, { HUB_AUTHORIZE_TIMEOUT_MS: '600000' });
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  t.teardown(() => release());
  const answer = () => held.then(() => ({ body: { allowed: 'ALLOWED' } }));
  const { cpo, emsp } = await routedPair(t, hub, { emsp: answer });
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  const waiting = cpo.call('POST', '/2.2.1/tokens/U1/authorize', undefined, to).then(
    ({ status }) => `answered ${status}`,
    () => 'cut',
  );
  await eventually('it is on its way', () => emsp.received.some(({ path }) => path.includes('/authorize')));
  await admin(hub, 'POST', '/parties/NL-CPO/suspend');
  const slow = new Promise((resolve) => setTimeout(resolve, 60_000, 'still under way').unref());
  t.equal(await Promise.race([waiting, slow]), 'cut');
});

t.test('a suspended partner registers again, however slowly it answers', atLength, async (t) => {
  let isSlow = false;
  const asked: (() => void)[] = [];
  const answerAll = () => {
    isSlow = false;
    for (const one of asked.splice(0)) one();
  };
  t.teardown(() => answerAll());
  const hub = await hubFor(
    t,
    { HUB_AUTHORIZE_TIMEOUT_MS: '600000', HUB_DELIVERY_TIMEOUT_MS: '120000' },
    { headMs: 120_000 },
  );
  const cpo = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO' },
    discovery: async () => {
      if (isSlow) await new Promise<void>((resolve) => asked.push(resolve));
      return undefined;
    },
  });
  const other = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'OTH' });
  const held: (() => void)[] = [];
  t.teardown(() => held.forEach((end) => void end()));
  await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    answer: () => new Promise((resolve) => held.push(() => resolve({ body: { allowed: 'ALLOWED' } }))),
  });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-OTH', { active: true });

  await admin(hub, 'POST', '/parties/NL-CPO/suspend');
  const { initial_token: token } = await admin(hub, 'POST', '/parties/NL-CPO/initial-token');
  isSlow = true;
  const again = cpo.registerAgain(String(token)).then(
    () => 'registered',
    (error: unknown) => `failed: ${error}`,
  );
  await eventually('the hub asks for its versions', () => asked.length > 0);
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  const waiting = other.call('POST', '/2.2.1/tokens/U1/authorize', undefined, to).then(
    ({ status }) => `answered ${status}`,
    () => 'cut',
  );
  await eventually('another request is on its way', () => held.length > 0);
  await admin(hub, 'POST', '/parties/NL-OTH/suspend');
  t.equal(await waiting, 'cut', 'what another partner had under way when it was suspended ends meanwhile');
  answerAll();
  t.equal(await again, 'registered');
  t.equal((await cpo.call('GET', '/2.2.1/credentials')).status, 200);
});
