import type { Endpoint } from '../../src/domain/party.ts';
import { partnerClient } from '../../src/partners/client.ts';
import { egressGuard } from '../../src/partners/egress.ts';
import { partnerVersions } from '../../src/partners/versions.ts';
import { t } from '../support/tap.ts';
import { authority, key, valid } from './certificates.ts';
import { envelope, http, type Stranger, stranger } from './stranger.ts';

type Tap = { teardown(fn: () => unknown): void };
type Told = unknown | ((url: string) => unknown);

/** A partner that answers each path with an envelope around what is told, or with text as it stands. */
async function partnerOf(
  test: Tap,
  told: Readonly<Record<string, Told>>,
  tls?: Parameters<typeof stranger>[1],
): Promise<Stranger> {
  const answer: Parameters<typeof stranger>[0] = (socket, request) => {
    const path = request.split(' ')[1] ?? '';
    const value = told[path];
    const data: unknown = typeof value === 'function' ? value(partner.url) : value;
    if (data === undefined) socket.write(http(404, ''));
    else socket.write(typeof data === 'string' ? data : http(200, envelope(1000, { data })));
  };
  const partner: Stranger = await stranger(answer, tls);
  test.teardown(() => partner.close());
  return partner;
}

function versionsOf(test: Tap, settings: { endpointsMax?: number; timeoutMs?: number } = {}) {
  const client = partnerClient({ egress: egressGuard(['127.0.0.0/8']), trusted: authority });
  test.teardown(() => client.close());
  return partnerVersions(client, settings);
}

const ask = (url: string) => ({
  url,
  token: 'partner-token',
  encoding: 'base64' as const,
  correlationId: 'correlation-1',
  mayTurn: false,
  roles: [{ role: 'CPO' as const, country_code: 'NL', party_id: 'CPO' }],
});

const list = (url: string) => [
  { version: '2.1.1', url: `${url}/ocpi/2.1.1` },
  { version: '2.2.1', url: `${url}/ocpi/2.2.1` },
];

const details = {
  version: '2.2.1',
  endpoints: [
    { identifier: 'credentials', role: 'SENDER', url: 'https://cpo.example/ocpi/2.2.1/credentials' },
    { identifier: 'locations', role: 'SENDER', url: 'https://cpo.example/ocpi/2.2.1/locations' },
    { identifier: 'commands', role: 'RECEIVER', url: 'https://cpo.example/ocpi/2.2.1/commands' },
  ],
};

const expected: Endpoint[] = details.endpoints.map((endpoint) => ({
  ...(endpoint as Omit<Endpoint, 'source'>),
  source: 'discovered',
}));

t.test('A versions list leads to the details of 2.2.1 [D13]', async (t) => {
  const partner = await partnerOf(t, { '/ocpi/versions': list, '/ocpi/2.2.1': details });
  t.same((await versionsOf(t).discover(ask(`${partner.url}/ocpi/versions`))).endpoints, expected);
  t.equal(partner.requests.length, 2);
  for (const request of partner.requests) {
    t.match(request, /\r\nauthorization: Token cGFydG5lci10b2tlbg==\r\n/i, 'with its own token');
    t.match(request, /\r\nx-correlation-id: correlation-1\r\n/i);
    t.notMatch(request, /ocpi-from|ocpi-to/i, 'and no routing');
  }
});

t.test('A partner called by https that lists http on its host is called by https [PARTNERS-VERSIONS-2]', async (t) => {
  const plain = (url: string) => url.replace('https:', 'http:');
  const listed = (url: string) => ({
    version: '2.2.1',
    endpoints: [
      { identifier: 'credentials', role: 'SENDER', url: `${plain(url)}/ocpi/2.2.1/credentials` },
      { identifier: 'cdrs', role: 'SENDER', url: 'http://other.example/cdrs' },
      { identifier: 'tariffs', role: 'SENDER', url: '/ocpi/tariffs' },
    ],
  });
  const told = { '/ocpi/versions': (url: string) => list(plain(url)), '/ocpi/2.2.1': listed };
  const partner = await partnerOf(t, told, { key, cert: valid });
  const found = await versionsOf(t).discover(ask(`${partner.url}/ocpi/versions`));
  t.same(
    found.endpoints.map(({ url }) => url),
    [`${partner.url}/ocpi/2.2.1/credentials`, 'http://other.example/cdrs'],
  );
  t.equal(partner.requests.length, 2, 'its details, too');
  t.same(found.quirks, ['http-url', 'unusable-endpoint']);
  const open = await partnerOf(t, { '/ocpi/versions': list, '/ocpi/2.2.1': listed });
  const { quirks } = await versionsOf(t).discover(ask(`${open.url}/ocpi/versions`));
  t.same(quirks, ['unusable-endpoint'], 'one that is called by http is not counted');
});

t.test('Version details are accepted in every supported form [D13]', async (t) => {
  const partner = await partnerOf(t, { '/ocpi/versions': details });
  t.same((await versionsOf(t).discover(ask(`${partner.url}/ocpi/versions`))).endpoints, expected);
  t.equal(partner.requests.length, 1);
});

t.test('Version details may omit their version, or have null [D13]', async (t) => {
  for (const version of [undefined, null]) {
    const partner = await partnerOf(t, { '/v': { ...details, version } });
    t.same((await versionsOf(t).discover(ask(`${partner.url}/v`))).endpoints, expected, String(version));
  }
});

t.test('A partner without 2.2.1 is versionUnsupported (3002) [D13]', async (t) => {
  const versions = versionsOf(t);
  for (const told of [[], [{ version: '2.2', url: 'http://127.0.0.1:1/' }], { ...details, version: '2.1.1' }]) {
    const partner = await partnerOf(t, { '/v': told });
    await t.rejects(versions.discover(ask(`${partner.url}/v`)), { code: 'versionUnsupported' });
  }
});

t.test('Versions that cannot be fetched or used are partnerUnusable (3001) [interface, Credentials 2]', async (t) => {
  const versions = versionsOf(t, { timeoutMs: 200 });
  const table: Readonly<Record<string, Told>> = {
    'not found': undefined,
    'an error': http(500, 'oh no'),
    'not authorized': http(401, envelope(2000)),
    'a refusal in the envelope': http(200, envelope(2001)),
    'no envelope': http(200, 'hello'),
    'no data': http(200, envelope(1000)),
    'neither shape': { versions: [] },
    'details without a list of endpoints': { version: '2.2.1', endpoints: {} },
    'a list without a usable url': [{ version: '2.2.1', url: 'somewhere' }],
    'a list with a url of another scheme': [{ version: '2.2.1', url: 'file:///etc/passwd' }],
    'details that are gone': (url: string) => [{ version: '2.2.1', url: `${url}/gone` }],
    'silence about the details': (url: string) => [{ version: '2.2.1', url: `${url}/silent` }],
    'a list of lists': (url: string) => [{ version: '2.2.1', url: `${url}/v` }],
  };
  for (const [name, told] of Object.entries(table)) {
    const partner = await partnerOf(t, { '/v': told, '/silent': 'HTTP/1.1' });
    await t.rejects(versions.discover(ask(`${partner.url}/v`)), { code: 'partnerUnusable', message: /\w+/ }, name);
  }
  await t.rejects(versions.discover(ask('http://10.0.0.1/ocpi/versions')), {
    code: 'partnerUnusable',
    message: 'Cannot fetch the versions: the hub got no answer',
    detail: { inside: /not allowed/ },
  });
});

t.test('Details without the credentials module are endpointsMissing (3003) [interface, Credentials 2]', async (t) => {
  const versions = versionsOf(t);
  for (const endpoints of [[], details.endpoints.slice(1)]) {
    const partner = await partnerOf(t, { '/v': { version: '2.2.1', endpoints } });
    await t.rejects(versions.discover(ask(`${partner.url}/v`)), { code: 'endpointsMissing' });
  }
});

t.test('Unknown modules are kept, malformed entries skipped, and the first of two of a kind counts', async (t) => {
  const [credentials] = details.endpoints;
  const endpoints = [
    { ...credentials, role: undefined },
    { identifier: 'parking_data', role: 'sender', url: 'https://cpo.example/x' },
    { identifier: 'parking_data', role: 'SENDER', url: 'https://cpo.example/second' },
    { identifier: 'tariffs', role: 'SENDER' },
    { identifier: 'tariffs', role: 'BOTH', url: 'https://cpo.example/t' },
    { identifier: 'tariffs', role: 'SENDER', url: 'javascript:alert(1)' },
    { identifier: 'tariffs', role: 'SENDER', url: 'https://user:pass@cpo.example/t' },
    { identifier: '', role: 'SENDER', url: 'https://cpo.example/t' },
    { identifier: 5, role: 'SENDER', url: 'https://cpo.example/t' },
    null,
    'locations',
    { identifier: 'tariffs', role: 'SENDER', url: '/ocpi/tariffs' },
    { identifier: 'cdrs', role: 'SENDER', url: ' https://cpo.example/cdrs#of-nobody\n' },
  ];
  const partner = await partnerOf(t, { '/v': { version: '2.2.1', endpoints } });
  const found = await versionsOf(t).discover(ask(`${partner.url}/v`));
  t.same(found.endpoints, [
    { identifier: 'credentials', role: 'SENDER', url: credentials?.url, source: 'discovered' },
    { identifier: 'parking_data', role: 'SENDER', url: 'https://cpo.example/x', source: 'discovered' },
    { identifier: 'cdrs', role: 'SENDER', url: 'https://cpo.example/cdrs', source: 'discovered' },
  ]);
  t.ok(found.quirks.includes('unusable-endpoint'), 'the skipped ones are noted as a quirk');
  t.ok(found.quirks.includes('url-fragment'), 'and so is a fragment');
});

t.test('The number of endpoints is bounded', async (t) => {
  const many = Array.from({ length: 50 }, (_, n) => ({
    identifier: `module${n}`,
    role: 'SENDER',
    url: 'https://cpo.example/x',
  }));
  const partner = await partnerOf(t, { '/v': { version: '2.2.1', endpoints: [...details.endpoints, ...many] } });
  const { endpoints: found } = await versionsOf(t, { endpointsMax: 10 }).discover(ask(`${partner.url}/v`));
  t.equal(found.length, 10);
});
