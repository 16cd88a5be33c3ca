/**
 * What hostile requests found: answers that the HTTP framework or Node gave in a form of their own, and ids that the store cannot
 * name and that were met as if the hub had failed.
 */
import { cpo, emsp } from '../hostile/doors.ts';
import { send, type WireAnswer } from '../hostile/wire.ts';
import { sessionBody, tokenBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { changesOf } from '../support/ocpi-call.ts';
import { t } from '../support/tap.ts';

interface Raw {
  readonly authorization: string;
  readonly fields?: readonly string[];
  readonly host?: readonly string[];
}

async function get(
  hub: { url: string },
  target: string,
  { authorization, fields = [], host = ['Host: hub.example'] }: Raw,
): Promise<WireAnswer> {
  const lines = [
    `GET ${target} HTTP/1.1`,
    ...host,
    'Connection: close',
    `Authorization: ${authorization}`,
    ...fields,
    '',
    '',
  ];
  const { answers } = await send(hub.url, {
    parts: [Buffer.from(lines.join('\r\n'), 'latin1')],
    ending: 'read',
    methods: ['GET'],
  });
  const [answer] = answers;
  if (!answer) throw new Error(`no answer to ${target}`);
  return answer;
}

t.test('the method that begins HTTP/2 is refused by the server, whatever follows it [D2]', async (t) => {
  const hub = await hubFor(t);
  for (const target of ['/ocpi/2.2.1/sessions', '/admin/v1/parties', '/nowhere']) {
    // Without a version: with one Node refuses it by itself.
    const parts = [Buffer.from(`PRI ${target}\r\nHost: hub.example\r\n\r\n`, 'latin1')];
    const { answers } = await send(hub.url, { parts, ending: 'read', methods: ['PRI'] });
    t.match([answers[0]?.status, JSON.parse(answers[0]?.text ?? '')], [400, { status_code: 2000, timestamp: String }]);
    t.equal(answers[0]?.headers.get('connection'), 'close');
  }
});

const unreadable = ['%zz', '%', '%c0%af', '%ff', 'x'.repeat(5_000), '%41'.repeat(2_000)];

t.test('a path that the router cannot parse is refused in the form of its door [D2]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const token = `Token ${btoa(cpo.hubToken)}`;
  for (const segment of unreadable) {
    const { status, text } = await get(hub, `/ocpi/2.2.1/sessions/NL/CPO/${segment}`, { authorization: token });
    t.match(
      [status, JSON.parse(text)],
      [404, { status_code: 2000, timestamp: String }],
      `below /ocpi: ${segment.slice(0, 10)}`,
    );
    const none = await get(hub, `/ocpi/${segment}`, { authorization: 'Token x' });
    t.match([none.status, JSON.parse(none.text)], [401, { status_code: 2000 }], 'and says nothing without a token');
    const problem = await get(hub, `/admin/v1/parties/${segment}`, { authorization: `Bearer ${hub.adminToken}` });
    t.match(
      [problem.status, JSON.parse(problem.text)],
      [404, { type: 'urn:ocpi-hub:problem:not-found' }],
      'below /admin/v1',
    );
    t.match(problem.headers.get('content-type'), /^application\/problem\+json/);
  }
});

t.test('a request target with scheme and host means its path [D33]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  for (const origin of ['http://evil.example', 'https://hub:99999', 'HTTP://[::1', 'http://']) {
    const { status, text } = await get(hub, `${origin}/ocpi/versions`, {
      authorization: `Token ${btoa(cpo.hubToken)}`,
    });
    t.equal(status, 200, origin);
    t.match(JSON.parse(text), { data: [{ url: `${hub.url}/ocpi/2.2.1` }] }, 'and no URL of ours comes from it');
  }
});

t.test('requests that Node would answer without a body get an envelope [D2]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const authorization = `Token ${btoa(cpo.hubToken)}`;
  const hostless = await get(hub, '/ocpi/versions', { authorization, host: [] });
  t.match([hostless.status, JSON.parse(hostless.text)], [400, { status_code: 2000, timestamp: String }], 'no Host');
  const expecting = await get(hub, '/ocpi/versions', { authorization, fields: ['Expect: a-miracle'] });
  t.match([expecting.status, JSON.parse(expecting.text)], [200, { status_code: 1000 }], 'an unknown expectation');
});

t.test('a WebSocket upgrade at an OCPI door is ignored, and the request answered [D2]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const offer = ['Upgrade: websocket', 'Sec-WebSocket-Key: eA==', 'Sec-WebSocket-Version: 13', 'Connection: Upgrade'];
  for (const target of ['/ocpi/versions', 'http://hub.example/ocpi/versions', '/ocpi']) {
    const { status, text } = await get(hub, target, { authorization: `Token ${btoa(cpo.hubToken)}`, fields: offer });
    t.match(
      [status, JSON.parse(text)],
      [target === '/ocpi' ? 404 : 200, { status_code: Number, timestamp: String }],
      target,
    );
  }
});

t.test('an id that cannot be stored is not found, for every caller [D4]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  const before = await changesOf(hub);
  const ids = ['%00', 'S1%00', '%00%00'];
  for (const id of ids) {
    for (const path of [
      `sessions/NL/CPO/${id}`,
      `tariffs/NL/CPO/${id}`,
      `locations/NL/CPO/${id}/E/1`,
      `tokens/NL/EMS/${id}`,
      `cdrs/${id}`,
    ]) {
      for (const partner of [cpo, emsp]) {
        const { status, json } = await partner.call('GET', `/2.2.1/${path}`);
        t.match([status, json.status_code], [404, 2003], `${partner.id} GET ${path}`);
      }
    }
    const callback = await cpo.call('POST', `/2.2.1/commands/callback/${id}`, { result: 'ACCEPTED' });
    t.match([callback.status, callback.json.status_code], [401, 2000], 'callback of such a command');
    for (const path of [
      `trace/${id}`,
      `trace/NL-CPO/${id}`,
      `commands/${id}`,
      `pulls/${id}`,
      `deliveries/1-${id}`,
      `redrives/${id}`,
    ]) {
      const { status } = await get(hub, `/admin/v1/${path}`, { authorization: `Bearer ${hub.adminToken}` });
      t.equal(status, 404, `operator GET ${path}`);
    }
  }
  t.equal(await changesOf(hub), before);
});

t.test(
  'a session of a CPO in COMPATIBILITY whose card cannot be a key is stored all the same [interface, Sessions 2]',
  async (t) => {
    const hub = await hubFor(t);
    const until = { identity_mode: 'COMPATIBILITY', compatibility_until: '2999-01-01T00:00:00Z' };
    const owner = await partnerFor(t, hub, { ...cpo, role: 'CPO' }, until);
    for (const uid of ['\u0000', '\ud800', 'x\u0000y']) {
      const token = { country_code: 'NL', party_id: 'NOB', uid, type: 'RFID', contract_id: 'C1' };
      const { status, json } = await owner.call(
        'PUT',
        '/2.2.1/sessions/NL/CPO/S1',
        sessionBody('S1', { cdr_token: token }),
      );
      t.match([status, json.status_code], [200, 1000], JSON.stringify(uid));
    }
  },
);

t.test('the type of a token in its body is checked like the one in the query [D24, D48]', async (t) => {
  const hub = await hubFor(t);
  const owner = await partnerFor(t, hub, { ...emsp, role: 'EMSP' });
  const before = await changesOf(hub);
  for (const type of ['\ud800', 'A/B', '1/B', 'RFID\u0000', 'é', ' ', 'X'.repeat(37)]) {
    const { status, json } = await owner.call('PUT', '/2.2.1/tokens/NL/EMS/CARD1', tokenBody('CARD1', { type }));
    t.match(
      [status, json.status_code, json.status_message],
      [200, 2001, 'type: expected a token type'],
      JSON.stringify(type),
    );
  }
  t.equal(await changesOf(hub), before, 'nothing was stored');
  t.equal(
    (await owner.call('PUT', '/2.2.1/tokens/NL/EMS/CARD1', tokenBody('CARD1', { type: 'Other' }))).json.status_code,
    1000,
  );
});

t.test(
  'an eMSP is refused at the callback like a stranger, whatever it claims [interface, Authentication 7]',
  async (t) => {
    const hub = await hubFor(t);
    const { emsp } = await routedPair(t, hub);
    const spoof = { 'OCPI-from-country-code': 'NL', 'OCPI-from-party-id': 'CPO' };
    const { status, json } = await emsp.call('POST', '/2.2.1/commands/callback/x', { result: 'ACCEPTED' }, spoof);
    t.match([status, json.status_message], [401, 'Invalid token']);
  },
);
