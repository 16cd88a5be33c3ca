/**
 * Wherever a URL comes from, the hub calls no address that it may not call. A server on such an address (as a cloud's metadata
 * service would be) counts the connections that reach it. The name server is an outside party and is played; sockets are real.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { RunningHub } from '../../src/main.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { closeCircuit } from '../support/forward-failures.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { nameServer } from '../support/name-server.ts';
import { callsTo, itemsOf, statusOf } from '../support/observed.ts';
import { admin, eventually, type PlainPartner, type Reply } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

/** Partners live on the one address that is allowed; what must not be reached is its neighbour. */
const env = { HUB_EGRESS_ALLOW: '127.0.0.1' };
const forbidden = '127.0.0.2';

interface Metadata {
  readonly port: number;
  readonly url: string;
  connections(): number;
}

async function metadataFor(t: Test, host = forbidden, answer?: (socket: Socket) => void): Promise<Metadata> {
  let connections = 0;
  const server: Server = createServer((_, response) => response.end('{"status_code":1000,"data":[]}'));
  server.on('connection', (socket: Socket) => {
    connections++;
    answer?.(socket);
  });
  server.listen(0, host);
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { port, url: `http://${host}:${port}`, connections: () => connections };
}

/** Answers of the name server, by name: one list of addresses per question, the last for ever. */
async function namesFor(t: Test, answers: Readonly<Record<string, readonly (readonly string[])[]>> = names) {
  const counts = new Map<string, number>();
  const { address } = await nameServer(t, (name) => {
    const known = answers[name];
    if (!known) return 'absent';
    // Both families are asked for.
    const nth = counts.get(name) ?? 0;
    counts.set(name, nth + 0.5);
    return known[Math.min(Math.floor(nth), known.length - 1)] ?? [];
  });
  return { dns: { HUB_DNS_SERVERS: address }, counts };
}

/** The same place in all the ways in which a URL may say it. */
const spellings = (port: number): string[] =>
  [
    ...[forbidden, '2130706434', '0x7f000002', '0x7f.0.0.2', '0177.0.0.02', '127.2', '127.0.2', `${forbidden}.`],
    ...[
      '[::ffff:127.0.0.2]',
      '[::ffff:7f00:2]',
      '[0:0:0:0:0:ffff:127.0.0.2]',
      '[::127.0.0.2]',
      '[64:ff9b::7f00:2]',
      '[2002:7f00:2::]',
    ],
    ...[
      '①②⑦.0.0.2',
      '127。0。0。2',
      '%31%32%37.0.0.2',
      '127.0.0.%32',
      '127\u00ad.0.0.2',
      '127.0.0.2\t',
      'META.example',
      'meta.example.',
    ],
    ...[
      `127.0.0.1:1@${forbidden}`,
      `user@${forbidden}`,
      '@127.0.0.2',
      `127.0.0.1\\@${forbidden}`,
      'both.example',
      '[fe80::1%25lo]',
    ],
  ].map((host) => `http://${host}:${port}`);

const odd = (port: number): string[] => [
  ...[
    `http:\\\\${forbidden}:${port}`,
    `http:${forbidden}:${port}`,
    `http:///${forbidden}:${port}`,
    `ht\ntp://${forbidden}:${port}`,
  ],
  ...[
    `http://${forbidden}:${port}#@127.0.0.1`,
    ` http://${forbidden}:${port}`,
    `http://${forbidden}:${port}/..;/`,
    `HTTP://${forbidden}:${port}`,
  ],
  ...[
    `file:///etc/passwd`,
    `gopher://${forbidden}:${port}/_x`,
    `ftp://${forbidden}:${port}`,
    `unix:/var/run/docker.sock`,
    `ws://${forbidden}:${port}`,
  ],
  ...[
    `data:application/json,{}`,
    `javascript:alert(1)`,
    'http://127.0.0.1:0',
    `http://0:${port}`,
    `http://[::]:${port}`,
    '//127.0.0.2',
    'http://',
  ],
];

const names = { 'meta.example': [[forbidden]], 'both.example': [[forbidden, '::1', '169.254.169.254']] };

const register = (partner: PlainPartner, role: string, partyId: string, url: string) =>
  partner.call('PUT', '/2.2.1/credentials', {
    token: partner.token,
    url,
    roles: [{ role, country_code: 'NL', party_id: partyId }],
  });

const accepted = ({ path }: { path: string }): Reply =>
  path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 30 } } : {};

async function scene(t: Test): Promise<{ hub: RunningHub; metadata: Metadata; cpo: PlainPartner; emsp: PlainPartner }> {
  const hub = await hubFor(t, { ...env, ...(await namesFor(t)).dns });
  const metadata = await metadataFor(t);
  return { hub, metadata, ...(await routedPair(t, hub, { cpo: accepted })) };
}

t.test('credentials with a url at a forbidden address are refused, in any notation', async (t) => {
  const { metadata, emsp } = await scene(t);
  const urls = [...spellings(metadata.port), ...odd(metadata.port)];
  for (const url of urls) {
    const { json } = await register(emsp, 'EMSP', 'EMS', `${url}/latest/meta-data`);
    t.ok([2001, 3001].includes(json.status_code), `${JSON.stringify(url)}: ${json.status_code} ${json.status_message}`);
  }
  t.equal(metadata.connections(), 0, `${urls.length} spellings, no connection`);
});

t.test('so are the url of a version, the endpoints of its details, and those that an operator sets', async (t) => {
  const hub = await hubFor(t, { ...env, ...(await namesFor(t)).dns });
  const metadata = await metadataFor(t);
  const urls = [
    metadata.url,
    `http://2130706434:${metadata.port}`,
    `http://meta.example:${metadata.port}`,
    `http://both.example:${metadata.port}`,
  ];
  let url = '';
  const { cpo } = await routedPair(t, hub);
  const liar = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'LIE' },
    discovery: ({ path }) =>
      url !== '' && path === '/ocpi/versions' ? { body: [{ version: '2.2.1', url }] } : undefined,
  });
  for (url of urls) {
    const { json } = await register(liar, 'EMSP', 'LIE', `${liar.url}/ocpi/versions`);
    t.match(json, { status_code: 3001, status_message: /the hub got no answer$/ }, `version url ${url}`);
  }
  await admin(hub, 'PUT', '/routes/NL-LIE/NL-CPO', { active: true });
  const endpoints = (at: string) => [{ identifier: 'locations', role: 'RECEIVER', url: `${at}/locations` }];
  for (const [n, at] of urls.entries()) {
    await admin(hub, 'PUT', '/parties/NL-LIE/endpoints', { endpoints: endpoints(at) });
    await cpo.call('PUT', `/2.2.1/locations/NL/CPO/L${n}`, locationBody(`L${n}`));
    await eventually('the delivery was tried', async () => {
      const found = await itemsOf(hub, `/deliveries?receiver=NL-LIE&object=NL-CPO/L${n}`);
      const attempts = found.flatMap((delivery) => delivery.attempts as { class: string }[]);
      return attempts.length > 0 && attempts.every((attempt) => attempt.class === 'unavailable');
    });
    closeCircuit(hub, 'NL-LIE', 'async');
  }
  t.equal(metadata.connections(), 0);
});

t.test('so is a response_url', async (t) => {
  const { hub, metadata, cpo, emsp } = await scene(t);
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  const token = { country_code: 'NL', party_id: 'EMS', uid: 'C', type: 'RFID', contract_id: 'C' };
  let [refused, relayed] = [0, 0];
  for (const response_url of [...spellings(metadata.port), ...odd(metadata.port)].slice(0, 45)) {
    const sent = callsTo(cpo, 'commands').length;
    const asked = await emsp.call('POST', '/2.2.1/commands/START_SESSION', {
      response_url,
      token,
      location_id: 'LOC1',
    });
    if (asked.json.status_code === 2001) {
      refused++;
      continue;
    }
    const { response_url: callback } = JSON.parse(callsTo(cpo, 'commands')[sent]?.body ?? '{}') as {
      response_url: string;
    };
    const answer = await cpo.call('POST', new URL(callback).pathname.slice('/ocpi'.length), { result: 'ACCEPTED' });
    t.equal(statusOf(answer), '502/2000', JSON.stringify(response_url));
    closeCircuit(hub, 'NL-EMS');
    relayed++;
  }
  t.ok(refused > 20, `${refused} are refused at once`);
  t.ok(relayed > 0, `${relayed} results would have gone there`);
  t.equal(metadata.connections(), 0);
});

t.test('so are the next link of a list and any redirect', async (t) => {
  const hub = await hubFor(t, { ...env, ...(await namesFor(t)).dns });
  const metadata = await metadataFor(t);
  let answer: () => Reply = () => ({});
  const { cpo, emsp } = await routedPair(t, hub, { cpo: () => answer(), emsp: () => answer() });
  const pulled = async () => {
    const { id } = await admin(hub, 'POST', '/parties/NL-CPO/pull/locations', { full: true });
    let pull: Record<string, unknown> = {};
    await eventually('the pull ended', async () => {
      pull = await admin(hub, 'GET', `/pulls/${String(id)}`);
      return pull.state !== 'RUNNING';
    });
    return pull;
  };
  for (const next of [
    metadata.url,
    `http://127.2:${metadata.port}/x`,
    `//meta.example:${metadata.port}/x`,
    `http://user@${forbidden}:${metadata.port}`,
  ]) {
    answer = () => ({ body: [], headers: { Link: `<${next}>; rel="next"` } });
    t.match(await pulled(), { state: 'FAILED' }, `next ${next}`);
  }
  for (const status of [300, 301, 302, 303, 305, 307, 308]) {
    answer = () => ({
      status,
      text: '',
      headers: { Location: `${metadata.url}/x`, Refresh: `0; url=${metadata.url}` },
    });
    t.match(await pulled(), { state: 'FAILED' }, `a list answered ${status}`);
    const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
    t.equal(
      statusOf(await cpo.call('POST', '/2.2.1/tokens/C/authorize', {}, to)),
      '502/4003',
      `authorize answered ${status}`,
    );
    closeCircuit(hub, 'NL-EMS');
  }
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await eventually('the redirected delivery ended', async () => {
    const found = await itemsOf(hub, '/deliveries?receiver=NL-EMS&state=DEAD');
    return found.some(({ class: met }) => met === 'invalid_response');
  });
  t.equal(
    emsp.received.every(({ path }) => path.startsWith('/ocpi/')),
    true,
  );
  t.equal(metadata.connections(), 0);
});

t.test('a name that changes its address between two look-ups is checked at each connection', async (t) => {
  const { dns, counts } = await namesFor(t, {
    'rebind.example': [['127.0.0.1'], [forbidden]],
    'mixed.example': [[forbidden, '127.0.0.1']],
  });
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  const hub = await hubFor(t, { ...env, ...dns, HUB_PROBE_INTERVAL_S: '1000000' }, { clock });
  const metadata = await metadataFor(t);
  const { emsp } = await routedPair(t, hub);
  const at = (name: string) => emsp.url.replace('127.0.0.1', name);
  const rotate = async (url: string) => {
    const { json } = await register(emsp, 'EMSP', 'EMS', url);
    if (json.status_code === 1000) emsp.hubToken = (json.data as { token: string }).token;
    return json;
  };
  // Its version details name the literal address; the list alone is asked for under the name.
  t.equal((await rotate(`${at('rebind.example')}/ocpi/versions`)).status_code, 1000, 'the first answer is allowed');
  // The least time for which an answer is kept.
  clock.advance(1_000);
  t.match(
    await rotate(`http://rebind.example:${metadata.port}/ocpi/versions`),
    { status_code: 3001, status_message: /the hub got no answer$/ },
    'the second is not',
  );
  t.equal(counts.get('rebind.example'), 2, 'one question for each connection');
  t.equal(
    (await rotate(`${at('mixed.example')}/ocpi/versions`)).status_code,
    1000,
    'of several the allowed one is taken',
  );
  t.equal(metadata.connections(), 0);
});

t.test('proxy variables of the environment are ignored', async (t) => {
  const proxy = await metadataFor(t);
  const variables = [
    'http_proxy',
    'HTTP_PROXY',
    'https_proxy',
    'HTTPS_PROXY',
    'all_proxy',
    'ALL_PROXY',
    'NODE_USE_ENV_PROXY',
  ];
  const before = variables.map((name) => [name, process.env[name]] as const);
  for (const name of variables) process.env[name] = name === 'NODE_USE_ENV_PROXY' ? '1' : proxy.url;
  t.teardown(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });
  const { cpo, emsp, hub } = await scene(t);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await eventually('the session arrived by the straight way', () => callsTo(emsp, 'sessions').length === 1);
  t.match(await admin(hub, 'POST', '/parties/NL-EMS/probe'), { status: 'reachable' });
  t.equal(proxy.connections(), 0);
});

t.test('a partner does not learn why a call failed; operators do', async (t) => {
  const lines: string[] = [];
  const logTo = { write: (line: string) => void lines.push(line) };
  const hub = await hubFor(t, { ...env, HUB_LOG_LEVEL: 'info' }, { logTo });
  const metadata = await metadataFor(t);
  // Nobody listens on its port; one speaks no HTTP; one closes; one's name does not resolve.
  const silent = await metadataFor(t, '127.0.0.1', (socket) => socket.destroy());
  const garbled = await metadataFor(t, '127.0.0.1', (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
  const { id, initial_token: token } = await admin(hub, 'POST', '/parties', {
    roles: [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }],
  });
  const register = async (url: string) => {
    const answer = await callOnce(
      ...(['POST', `${hub.url}/ocpi/2.2.1/credentials`] as const),
      { token: 'of-the-partner', url, roles: [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }] },
      { authorization: `Token ${Buffer.from(String(token)).toString('base64')}` },
    );
    const { steps } = await admin(hub, 'GET', `/parties/${String(id)}/handshake`);
    return {
      said: JSON.parse(answer.text).status_message as string,
      reason: (steps as { reason: string }[]).at(-1)?.reason,
    };
  };
  for (const [url, reason] of [
    [metadata.url, /127\.0\.0\.2 is not allowed \(loopback\)/],
    ['http://169.254.169.254', /169\.254\.169\.254 is not allowed \(linkLocal\)/],
    [`http://127.0.0.1:${await freePort()}`, /refused the connection \(ECONNREFUSED\)/],
    [silent.url, /UND_ERR_SOCKET|ECONNRESET/],
    [garbled.url, /not HTTP/],
    [`https://127.0.0.1:${garbled.port}`, /TLS|SSL|EPROTO|network/],
    ['http://no-such-name.invalid', /does not resolve|could not be resolved|look-up/],
    [hub.url, /own address/],
  ] as const) {
    const seen = await register(`${url}/ocpi/versions`);
    t.equal(seen.said, 'Cannot fetch the versions: the hub got no answer', url);
    t.match(seen.reason, reason, `${url}: operators`);
    t.ok(
      lines.some((line) => reason.test(line)),
      `${url}: the log`,
    );
  }
});

t.test('the counted servers could have been reached', async (t) => {
  const hub = await hubFor(t, { HUB_EGRESS_ALLOW: '127.0.0.0/8', ...(await namesFor(t)).dns });
  const metadata = await metadataFor(t);
  const { emsp } = await routedPair(t, hub);
  for (const at of [metadata.url, `http://2130706434:${metadata.port}`, `http://meta.example:${metadata.port}`]) {
    const before = metadata.connections();
    await register(emsp, 'EMSP', 'EMS', `${at}/ocpi/versions`);
    await register(emsp, 'EMSP', 'EMS', `${at}/x`);
    t.ok(metadata.connections() > 0, `${at}: ${metadata.connections() - before} connections`);
  }
});
