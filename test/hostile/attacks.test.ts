/**
 * What a partner with valid credentials tries: to read or write what is another's, to make others read what the hub did not, to
 * have its requests carry what it wrote, to turn the hub against itself, and to make it grow without end.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { RunningHub } from '../../src/main.ts';
import { refuseAmbiguous } from '../../src/ocpi/objects.ts';
import { readWhole } from '../../src/ocpi/server.ts';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { callsTo, idsOf, itemsOf, quiet, statusOf } from '../support/observed.ts';
import { changesOf } from '../support/ocpi-call.ts';
import { type Answer, admin, type PlainPartner } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

const command = (emsp: PlainPartner, fields: object = {}) => ({
  response_url: `${emsp.url}/ocpi/2.2.1/result`,
  token: { country_code: 'NL', party_id: 'EMS', uid: 'CARD1', type: 'RFID', contract_id: 'NL-EMS-C1' },
  ...{ location_id: 'LOC1', ...fields },
});

const accepted = () => ({ body: { result: 'ACCEPTED', timeout: 30 } });

async function withLocation(t: Test): Promise<{ hub: RunningHub; cpo: PlainPartner; emsp: PlainPartner }> {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, { cpo: accepted });
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  return { hub, cpo, emsp };
}

/** What a hub that was busy refused is sent again, as a partner would. */
async function whenTaken(send: () => Promise<Answer>): Promise<string> {
  for (;;) {
    const { status, json } = await send();
    if (status !== 503) return `${json.status_code} ${json.status_message}`;
    await sleep(500);
  }
}

/** A text with one field more, which may be there already. */
const withField = (body: object, field: string) => JSON.stringify(body).replace('{', `{${field},`);
const behind = (body: object, field: string) => JSON.stringify(body).replace(/\}$/, `,${field}}`);

t.test(
  'a command with two response_urls is refused, since the CPO might read the one that the hub did not replace [Commands 2]',
  async (t) => {
    const { hub, cpo, emsp } = await withLocation(t);
    const before = await changesOf(hub);
    const theirs = '"http://127.0.0.1:9/steal-the-token"';
    const names = [
      'response_url',
      'RESPONSE_URL',
      'Response_Url',
      're\\u0073ponse_url',
      're\u017fponse_url',
      'response_\\u0075rl',
    ];
    for (const name of names) {
      for (const bend of [withField, behind]) {
        const answer = await emsp.call(
          'POST',
          '/2.2.1/commands/START_SESSION',
          bend(command(emsp), `"${name}":${theirs}`),
        );
        t.equal(statusOf(answer), '200/2001', name);
        t.match(answer.json.status_message, /^response_url: expected once/, name);
      }
    }
    t.equal(await changesOf(hub), before, 'nothing was recorded');
    t.strictSame(callsTo(cpo, 'commands'), [], 'nothing was forwarded');
    const good = await emsp.call(
      'POST',
      '/2.2.1/commands/START_SESSION',
      command(emsp, { custom: { response_url: 'x' } }),
    );
    t.equal(statusOf(good), '200/1000', 'below the first level the name is free');
  },
);

t.test(
  'an object that names its owner twice is refused, since a receiver might take it for another party’s [D17, D18]',
  async (t) => {
    const { hub, cpo, emsp } = await withLocation(t);
    const before = await changesOf(hub);
    const spoofs = ['"party_id":"VIC"', '"Party_ID":"VIC"', '"PARTY_ID":"VIC"', '"\\u0070arty_id":"VIC"', '"ID":"X"'];
    for (const field of spoofs) {
      const rows = [
        await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/T1', withField(tariffBody('T1'), field)),
        await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', withField(sessionBody('S1'), field)),
        await cpo.call(
          'PATCH',
          '/2.2.1/locations/NL/CPO/LOC1',
          withField({ last_updated: '2026-01-03T00:00:00Z', id: 'LOC1', party_id: 'CPO' }, field),
        ),
        await cpo.call('POST', '/2.2.1/cdrs', withField(cdrBody('C1'), field)),
        await emsp.call(
          'PUT',
          '/2.2.1/tokens/NL/EMS/CARD1',
          withField(tokenBody('CARD1'), field.replace('"ID"', '"UID"')),
        ),
      ];
      for (const answer of rows) t.equal(statusOf(answer), '200/2001', `${field}: ${answer.json.status_message}`);
    }
    const ofModule = [
      await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', withField(sessionBody('S1'), '"Status":"INVALID"')),
      await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', withField(locationBody('LOC1'), '"Publish":false')),
      await emsp.call('PUT', '/2.2.1/tokens/NL/EMS/CARD1', withField(tokenBody('CARD1'), '"TYPE":"OTHER"')),
    ];
    for (const answer of ofModule)
      t.match(answer.json, { status_code: 2001, status_message: /expected once, in lower case/ });
    t.equal(await changesOf(hub), before, 'nothing was recorded');
  },
);

t.test('a name by which the hub decides in other modules is free in this one [D17]', async (t) => {
  const { hub, cpo } = await withLocation(t);
  const own = '"URL":"https://x","Role":"b","Result":"c","Session_id":"d","Status":"e","status":"f"';
  const inEvse = JSON.stringify(locationBody('L2')).replace('"uid":', '"URL":"https://x","ID":"y","uid":');
  t.equal(statusOf(await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/T1', withField(tariffBody('T1'), own))), '200/1000');
  t.equal(
    statusOf(await cpo.call('PUT', '/2.2.1/locations/NL/CPO/L1', withField(locationBody('L1'), own))),
    '200/1000',
  );
  t.equal(statusOf(await cpo.call('PUT', '/2.2.1/locations/NL/CPO/L2', inEvse)), '200/1000');
  t.match((await cpo.call('GET', '/2.2.1/locations/NL/CPO/L2')).text, inEvse);
  t.equal((await itemsOf(hub, '/events?object=NL-CPO/L2')).length, 1);
  const nested = '"token":{"UID":"a","uid":"b"},"roles":[{"Role":"c"}]';
  t.equal(statusOf(await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/T2', withField(tariffBody('T2'), nested))), '200/1000');
  t.doesNotThrow(() => readWhole('locations', withField(locationBody('L1'), own)), 'nor is it refused in a pull');
  t.throws(() => readWhole('locations', withField(locationBody('L1'), '"ID":"L2"')), { message: /^id: expected once/ });
  const result = await cpo.call('POST', '/2.2.1/commands/callback/any', '{"result":"ACCEPTED","Status":"x"}');
  t.not(result.json.status_code, 2001, 'it was read');
});

t.test('names are checked as deep as the hub reads, down to a connector, and no deeper', async (t) => {
  const inConnector = '{"evses":[{"uid":"1","connectors":[{"id":"1","id":"2"}]}]}';
  t.throws(() => refuseAmbiguous(inConnector, { names: ['evses'] }), {
    message: 'evses.connectors.id: expected once, in lower case',
  });
  t.doesNotThrow(() => refuseAmbiguous('{"token":{"token":{"uid":"1","uid":"2"}}}', { names: ['token'] }));
});

t.test('names after the checked object are not scanned again', async (t) => {
  const escaped = Array.from({ length: 100 }, (_, n) => `"\\u0061${n}":1`);
  const text = `{"cdr_token":{"uid":"1"},${escaped.join(',')}}`;
  const { parse } = JSON;
  let read = 0;
  JSON.parse = (...of) => {
    read += 1;
    return parse(...of);
  };
  try {
    refuseAmbiguous(text, { names: ['cdr_token'] });
  } finally {
    JSON.parse = parse;
  }
  t.equal(read, 100, 'an escaped name is parsed');
});

t.test('names by which the hub decides occur once in nested objects, too [D17]', async (t) => {
  const { hub, cpo, emsp } = await withLocation(t);
  const before = await changesOf(hub);
  const twice = (body: object, container: string, field: string): string =>
    JSON.stringify(body).replace(new RegExp(`"${container}":(\\[?)\\{`), `"${container}":$1{${field},`);
  const start = { ...command(emsp), token: tokenBody('CARD1') };
  const cases: [PlainPartner, string, string, string, string][] = [
    ...['"party_id":"OTH"', '"Party_ID":"OTH"', '"uid":"CARD2"', '"\\u0075id":"CARD2"'].flatMap(
      (field): [PlainPartner, string, string, string, string][] => [
        [cpo, 'PUT', '/2.2.1/sessions/NL/CPO/S1', twice(sessionBody('S1'), 'cdr_token', field), 'cdr_token.'],
        [cpo, 'POST', '/2.2.1/cdrs', twice(cdrBody('C1'), 'cdr_token', field), 'cdr_token.'],
        [emsp, 'POST', '/2.2.1/commands/START_SESSION', twice(start, 'token', field), 'token.'],
      ],
    ),
    [cpo, 'PUT', '/2.2.1/locations/NL/CPO/L2', twice(locationBody('L2'), 'evses', '"uid":"E0"'), 'evses.uid'],
    [
      cpo,
      'PUT',
      '/2.2.1/locations/NL/CPO/L2',
      twice(locationBody('L2'), 'evses', '"connectors":[]'),
      'evses.connectors',
    ],
    [
      cpo,
      'PUT',
      '/2.2.1/locations/NL/CPO/L2',
      twice(locationBody('L2'), 'connectors', '"ID":"2"'),
      'evses.connectors.id',
    ],
    [cpo, 'PUT', '/2.2.1/locations/NL/CPO/L2', withField(locationBody('L2'), '"evses":[]'), 'evses:'],
    [
      cpo,
      'PUT',
      '/2.2.1/credentials',
      twice(
        { token: 'T', url: `${cpo.url}/versions`, roles: [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }] },
        'roles',
        '"party_id":"OTH"',
      ),
      'roles.party_id',
    ],
    [cpo, 'POST', '/2.2.1/commands/callback/any', '{"result":"ACCEPTED","result":"REJECTED"}', 'result:'],
    [cpo, 'POST', '/2.2.1/commands/callback/any', '{"result":"ACCEPTED","Result":"FAILED"}', 'result:'],
  ];
  for (const [from, method, path, body, name] of cases) {
    const { json } = await from.call(method, path, body);
    t.equal(json.status_code, 2001, `${path} ${body.slice(0, 200)}`);
    t.ok(json.status_message?.startsWith(name), json.status_message ?? '');
    t.match(json.status_message, /expected once, in lower case/);
  }
  t.equal(await changesOf(hub), before, 'nothing was recorded');
});

t.test('nobody reads or writes another party’s object, by path, list, cursor or command [D7, D45]', async (t) => {
  const { hub, cpo, emsp } = await withLocation(t);
  const thief = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'THF' });
  const rival = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'RIV' });
  await admin(hub, 'PUT', '/routes/NL-THF/NL-RIV', { active: true });
  for (const id of ['S1', 'S2', 'S3']) await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
  await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'));
  await rival.call(
    'PUT',
    '/2.2.1/sessions/NL/RIV/OWN',
    sessionBody('OWN', {
      party_id: 'RIV',
      cdr_token: { country_code: 'NL', party_id: 'THF', uid: 'X', type: 'RFID', contract_id: 'X' },
    }),
  );

  const page = await emsp.call('GET', '/2.2.1/sessions?date_from=2020-01-01T00:00:00Z&limit=1');
  const cursor = /cursor=([^&>]+)/.exec(page.headers.get('link') ?? '')?.[1] ?? '';
  const forge = (position: object) => Buffer.from(JSON.stringify(position)).toString('base64url');
  const cursors = [
    cursor,
    forge({ upd: '', owner: 'NL-CPO', id: '' }),
    forge({ upd: '', owner: '', id: '' }),
    forge({ upd: '9', owner: '~', id: '~' }),
    forge({ upd: '\u0000', owner: '\ud800', id: '\uffff' }),
  ];
  for (const one of cursors) {
    for (const path of [
      `sessions?date_from=2020-01-01T00:00:00Z&cursor=${one}`,
      `cdrs?cursor=${one}`,
      `locations?cursor=${one}`,
      `tariffs?cursor=${one}`,
    ]) {
      const answer = await thief.call('GET', `/2.2.1/${path}`);
      const others = idsOf(answer).filter((id) => id !== 'OWN');
      t.strictSame(others, [], path);
    }
  }
  for (const path of [
    'sessions/NL/CPO/S1',
    'sessions/nl/cpo/s1',
    'cdrs/C1',
    'cdrs/c1',
    'locations/LOC1',
    'locations/NL/CPO/LOC1',
    'locations/NL/CPO/LOC1/EVSE1/1',
  ]) {
    t.equal(statusOf(await thief.call('GET', `/2.2.1/${path}`)), '404/2003', path);
    t.equal(
      statusOf(await rival.call('GET', `/2.2.1/${path}`)),
      path.startsWith('locations/LOC1') ? '403/2000' : '404/2003',
      path,
    );
  }
  const before = await changesOf(hub);
  t.equal(
    statusOf(await rival.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'))),
    '404/2003',
    'another path',
  );
  t.equal(
    statusOf(await rival.call('PUT', '/2.2.1/sessions/NL/RIV/S1', sessionBody('S1'))),
    '200/2001',
    'another body',
  );
  t.equal(statusOf(await rival.call('POST', '/2.2.1/cdrs', cdrBody('C9'))), '200/2001', 'another CDR');
  const spoof = { 'OCPI-from-country-code': 'NL', 'OCPI-from-party-id': 'CPO' };
  t.equal(
    statusOf(await rival.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'), spoof)),
    '200/2001',
    'another sender',
  );
  t.equal(
    statusOf(await thief.call('POST', '/2.2.1/commands/STOP_SESSION', { response_url: thief.url, session_id: 'S1' })),
    '404/2003',
    'another session',
  );
  t.equal(
    statusOf(await thief.call('POST', '/2.2.1/commands/START_SESSION', command(thief))),
    '403/2000',
    'an unrouted location',
  );
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'CPO' };
  const asked = await thief.call('PUT', '/2.2.1/tokens/NL/THF/CARD1/authorize', undefined, to);
  t.match(asked.json.data, { allowed: 'NOT_ALLOWED' }, 'authorize at a CPO that is not routed');
  t.equal((await callsTo(cpo, 'tokens')).length, 0, 'the CPO hears nothing of it');
  t.ok((await changesOf(hub)) - before <= 2, 'of all this at most that somebody asked is recorded');
});

t.test('only the CPO of a command answers it, and only as itself [Authentication 7]', async (t) => {
  const { hub, cpo, emsp } = await withLocation(t);
  const rival = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'RIV' });
  await emsp.call('POST', '/2.2.1/commands/START_SESSION', command(emsp));
  const [sent] = callsTo(cpo, 'commands');
  const callback = String((JSON.parse(sent?.body ?? '{}') as { response_url: string }).response_url);
  const path = new URL(callback).pathname.slice('/ocpi'.length);
  t.equal(statusOf(await rival.call('POST', path, { result: 'REJECTED' })), '401/2000', 'another CPO');
  t.equal(statusOf(await emsp.call('POST', path, { result: 'ACCEPTED' })), '401/2000', 'the eMSP itself');
  t.equal(
    statusOf(
      await cpo.call('POST', path.toUpperCase().replace('COMMANDS/CALLBACK', 'commands/callback'), {
        result: 'ACCEPTED',
      }),
    ),
    '401/2000',
    'an id in another case',
  );
  t.strictSame(callsTo(emsp, 'result'), [], 'nothing was relayed');
  t.equal(statusOf(await cpo.call('POST', path, { result: 'ACCEPTED' })), '200/1000', 'its own CPO');
  t.equal(callsTo(emsp, 'result').length, 1);
});

t.test('a forward carries the parties and ids of the hub, whatever headers arrived [D14, D15]', async (t) => {
  const { hub, cpo, emsp } = await withLocation(t);
  const headers = {
    ...{
      'X-Correlation-ID': 'a b"c%0d%0aX-Evil: 1',
      'X-Request-ID': 'mine',
      Cookie: 'x=1',
      'X-Forwarded-Host': 'evil.example',
    },
    ...{
      'OCPI-from-country-code': 'nl',
      'OCPI-from-party-id': 'cpo',
      'OCPI-to-country-code': 'XX',
      'OCPI-to-party-id': 'HUB',
    },
  };
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/a%2F..%2F%3Fx=%23', sessionBody('a/../?x=#'), headers);
  await quiet(hub);
  const [call] = callsTo(emsp, 'sessions');
  t.equal(call?.path, '/ocpi/2.2.1/sessions/NL/CPO/a%2F..%2F%3Fx%3D%23', 'an id stays one segment');
  t.match(call?.headers, {
    'ocpi-from-party-id': 'CPO',
    'ocpi-to-party-id': 'EMS',
    'x-correlation-id': headers['X-Correlation-ID'],
  });
  t.not(call?.headers['x-request-id'], 'mine');
  t.equal(call?.headers.cookie, undefined);
  t.equal(call?.headers['x-evil'], undefined);
});

t.test('the hub does not call itself, whatever URL a partner gives', async (t) => {
  const { hub, cpo, emsp } = await withLocation(t);
  const before = await changesOf(hub);
  for (const own of [
    hub.url,
    hub.url.replace('127.0.0.1', '127.1'),
    hub.url.replace('127.0.0.1', '0x7f000001'),
    hub.url.replace('127.0.0.1', '127.0.0.1.'),
  ]) {
    const { json } = await emsp.call('PUT', '/2.2.1/credentials', {
      ...{ token: cpo.hubToken, url: `${own}/ocpi/versions` },
      roles: [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS' }],
    });
    t.match(json, { status_code: 3001, status_message: /got no answer/ }, own);
  }
  t.equal(await changesOf(hub), before, 'the partner is as it was');
  const response_url = `${hub.url}/ocpi/2.2.1/commands/callback/x`;
  const { json } = await emsp.call('POST', '/2.2.1/commands/START_SESSION', command(emsp, { response_url }));
  t.match(json, { status_code: 2001, status_message: /^response_url: the hub's own address/ });
  t.same(callsTo(cpo, 'commands'), []);
});

t.test('no object grows without bound [D38]', async (t) => {
  const { hub, cpo } = await withLocation(t);
  const at = '2026-01-03T00:00:00Z';
  const part = 'x'.repeat(3_900_000);
  const outcomes: string[] = [];
  for (const uid of ['E1', 'E2']) {
    const evse = { uid, last_updated: at, connectors: [], part };
    outcomes.push(await whenTaken(() => cpo.call('PUT', `/2.2.1/locations/NL/CPO/LOC1/${uid}`, evse)));
  }
  t.match(outcomes, [/^1000/, /^2001 locations: expected an object of at most/]);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { charging_periods: [] }));
  const codes: string[] = [];
  for (let n = 0; n < 3; n++) {
    const period = { start_date_time: at, dimensions: [], part: String(n).padEnd(1_000_000, 'x') };
    const fragment = { charging_periods: [period], last_updated: at };
    codes.push(await whenTaken(() => cpo.call('PATCH', '/2.2.1/sessions/NL/CPO/S1', fragment)));
  }
  t.match(codes[0], /^1000/);
  t.match(codes.at(-1), /^2001/);
  const stored = await cpo.call('GET', '/2.2.1/sessions/NL/CPO/S1');
  t.ok(stored.text.length < 1.1 * 1024 * 1024, `${stored.text.length} characters`);
  await admin(hub, 'GET', '/status');
});

t.test(
  'of a partner that rotates its token without end, the last hundred digests are kept [D10]',
  atLength,
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub);
    const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }];
    const tokens: string[] = [];
    for (let n = 0; n < 105; n++) {
      tokens.push(cpo.hubToken);
      const { json } = await cpo.call('PUT', '/2.2.1/credentials', {
        token: cpo.token,
        url: `${cpo.url}/ocpi/versions`,
        roles,
      });
      cpo.hubToken = (json.data as { token: string }).token;
    }
    t.equal(hub.created.context.directory.partner('NL-CPO')?.spentDigests.length, 100);
    t.equal((await cpo.call('GET', '/2.2.1/credentials')).status, 200, 'the last one is good');
    for (const token of [tokens[0], tokens.at(-1)]) {
      const Authorization = `Token ${btoa(token ?? '')}`;
      t.equal(
        (await cpo.call('GET', '/2.2.1/credentials', undefined, { Authorization })).status,
        401,
        'none of the others',
      );
    }
  },
);
