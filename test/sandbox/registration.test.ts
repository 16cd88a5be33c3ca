import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startCpo } from '../../src/sandbox/cpo.ts';
import { startEmsp } from '../../src/sandbox/emsp.ts';
import { callOnce } from '../support/caller.ts';
import { t } from '../support/tap.ts';

type Tap = { teardown(fn: () => unknown): void };

interface Registration {
  readonly method: string;
  readonly authorization: string;
  readonly credentials: { token: string; url: string; roles: unknown };
  /** What the partner's versions and details said to the token in the body. */
  readonly versions: unknown;
  readonly details: unknown;
}

/** A hub reduced to what a registration needs: it looks at the partner before it answers. */
async function tinyHub(test: Tap) {
  const registrations: Registration[] = [];
  let issued = 0;
  const data = async (url: string, token: string) => {
    const { text } = await callOnce('GET', url, undefined, { authorization: `Token ${token}` });
    return (JSON.parse(text) as { data?: unknown }).data;
  };
  const server = createServer((request, response) => {
    const say = (value: unknown) => response.end(JSON.stringify({ status_code: 1000, timestamp: 'now', data: value }));
    const base = `http://${request.headers.host}`;
    const onCredentials = async () => {
      const credentials = JSON.parse(await textOf(request)) as Registration['credentials'];
      const versions = await data(credentials.url, credentials.token);
      const [first] = Array.isArray(versions) ? (versions as { url: string }[]) : [];
      const details = first ? await data(first.url, credentials.token) : versions;
      const { method = '', headers } = request;
      registrations.push({ method, authorization: headers.authorization ?? '', credentials, versions, details });
      issued++;
      say({ token: `hub-token-${issued}`, url: `${base}/ocpi/versions`, roles: [] });
    };
    if (request.url === '/ocpi/versions') say([{ version: '2.2.1', url: `${base}/details` }]);
    else if (request.url === '/details') {
      say({
        version: '2.2.1',
        endpoints: [{ identifier: 'credentials', role: 'RECEIVER', url: `${base}/somewhere/credentials` }],
      });
    } else if (request.url === '/somewhere/credentials' && request.method !== 'DELETE') void onCredentials();
    else say(null);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  test.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, registrations };
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}

t.test(
  'Registering: the hub’s endpoints are discovered, its token kept, and the partner can be inspected meanwhile',
  async (t) => {
    const hub = await tinyHub(t);
    const cpo = await startCpo({
      country_code: 'NL',
      party_id: 'CPO',
      hubUrl: hub.url,
      initialToken: 'initial',
      name: 'Laadnet',
    });
    t.teardown(() => cpo.close());
    await cpo.register();
    const [registration] = hub.registrations;
    t.equal(registration?.authorization, `Token ${Buffer.from('initial').toString('base64')}`);
    t.same(registration?.credentials.roles, [
      { role: 'CPO', country_code: 'NL', party_id: 'CPO', business_details: { name: 'Laadnet' } },
    ]);
    t.match(registration?.details, { version: '2.2.1' });
    const details = registration?.details as { endpoints: { identifier: string; role: string }[] } | undefined;
    t.same(
      details?.endpoints.map(({ identifier, role }) => `${identifier} ${role}`),
      [
        'credentials SENDER',
        'locations SENDER',
        'tariffs SENDER',
        'sessions SENDER',
        'cdrs SENDER',
        'tokens RECEIVER',
        'commands RECEIVER',
      ],
    );
    t.equal(cpo.line.token, 'hub-token-1');
    t.equal(cpo.hubUrl('credentials'), `${hub.url}/somewhere/credentials`);
    t.equal(cpo.hubUrl('sessions'), `${hub.url}/ocpi/2.2.1/sessions`, 'what was not told is where hubs have it');
  },
);

t.test('Rotating gives new tokens on both sides', async (t) => {
  const hub = await tinyHub(t);
  const emsp = await startEmsp({
    country_code: 'DE',
    party_id: 'EMS',
    hubUrl: hub.url,
    tokenEncoding: 'plain',
    credentialsUrl: 'details',
  });
  t.teardown(() => emsp.close());
  await emsp.register('initial');
  const [before = ''] = emsp.ownTokens;
  await emsp.rotate();
  const [first, second] = hub.registrations;
  t.equal(first?.credentials.url, `${emsp.url}/ocpi/2.2.1`);
  t.match(first?.versions, { endpoints: [{ identifier: 'credentials' }] }, 'its url is the version details');
  t.equal(second?.method, 'PUT');
  t.equal(second?.authorization, 'Token hub-token-1');
  t.not(second?.credentials.token, before);
  t.match(second?.versions, { version: '2.2.1' }, 'the new token works before the rotation is answered');
  t.equal(emsp.line.token, 'hub-token-2');
  const old = await callOnce('GET', `${emsp.url}/ocpi/versions`, undefined, { authorization: `Token ${before}` });
  t.equal(old.status, 401, 'and the old one no more afterwards');
  await emsp.unregister();
});

t.test('A module can be hidden from the version details', async (t) => {
  const hub = await tinyHub(t);
  const cpo = await startCpo({ country_code: 'NL', party_id: 'CPO', hubUrl: hub.url });
  t.teardown(() => cpo.close());
  cpo.hidden.add('credentials').add('commands');
  await cpo.register('initial');
  const details = hub.registrations[0]?.details as { endpoints: { identifier: string }[] } | undefined;
  t.same(
    details?.endpoints.map(({ identifier }) => identifier),
    ['locations', 'tariffs', 'sessions', 'cdrs', 'tokens'],
  );
});
