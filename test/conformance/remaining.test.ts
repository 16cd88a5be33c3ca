/**
 * Rules of the interface that no other test is named after: what the service is for, who calls whom with which token, what is told
 * to whom and when, and the limits as they are by default. Time stands still unless a test lets it pass.
 */
import { rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { copyDataDirectory, directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { lists } from '../support/lists.ts';
import { arrivals, callsTo, dataText, idsOf, itemsOf, lines, quiet, statusOf } from '../support/observed.ts';
import { ocpi, type Refused, refused } from '../support/ocpi-call.ts';
import {
  type Answer,
  admin,
  type PlainPartner,
  plainPartner,
  type Received,
  type Reply,
} from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const hourMs = 3_600_000;
const done = '200/1000';
const created = '201/1000';
const since = '2026-01-01T00:00:00Z';
const later = '2026-03-02T00:00:00Z';
const instant = (minute: number) => `2026-02-01T10:${String(minute).padStart(2, '0')}:00Z`;
const timeAtRest = () => ({ clock: new SimulatedClock('2026-03-01T12:00:00Z') });
const named = (partyId: string) => ({ 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': partyId });
const cdrTokenOf = (party_id: string) => ({
  cdr_token: { country_code: 'NL', party_id, uid: 'CARD1', type: 'RFID', contract_id: 'C1' },
});

/** As a CPO or eMSP that says yes to everything. */
const willing = ({ path }: Received): Reply => {
  if (path.includes('/commands/')) return { body: { result: 'ACCEPTED', timeout: 30 } };
  return path.includes('/authorize') ? { body: { allowed: 'ALLOWED' } } : { body: [] };
};

const startBody = ({ url }: PlainPartner) => ({
  response_url: `${url}/results/1`,
  token: { uid: 'CARD1', type: 'RFID', contract_id: 'C1' },
  ...{ location_id: 'LOC1', evse_uid: 'EVSE1', connector_id: '1' },
});
const command = (emsp: PlainPartner, name: string, body: object) => emsp.call('POST', `/2.2.1/commands/${name}`, body);
const begin = (emsp: PlainPartner) => command(emsp, 'START_SESSION', startBody(emsp));
const stop = (emsp: PlainPartner, session_id: string) =>
  command(emsp, 'STOP_SESSION', { response_url: `${emsp.url}/results/2`, session_id });
const putSession = (cpo: PlainPartner, id: string, fields: object = {}) =>
  cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, fields));
const putLocation = (cpo: PlainPartner, id: string) =>
  cpo.call('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id));
const putTariff = (cpo: PlainPartner, id: string) => cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariffBody(id));
const postCdr = (cpo: PlainPartner, id: string, fields: object = {}) =>
  cpo.call('POST', '/2.2.1/cdrs', cdrBody(id, fields));
const askEmsp = (cpo: PlainPartner, partyId = 'EMS') =>
  cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', undefined, named(partyId));
const askCpo = (emsp: PlainPartner) =>
  emsp.call('PUT', `/2.2.1/tokens/NL/${emsp.id.slice(3)}/CARD1/authorize`, undefined, named('CPO'));
const list = (reader: PlainPartner, module: string) => reader.call('GET', `/2.2.1/${module}?date_from=${since}`);
const countIn = async (reader: PlainPartner, module: string) => idsOf(await list(reader, module)).length;
const lastOf = (partner: PlainPartner, module: string) => callsTo(partner, module).at(-1);

/** The hub's address for the result of the last command that a CPO got. */
function callbackOf(cpo: PlainPartner): string {
  const { response_url } = JSON.parse(lastOf(cpo, 'commands')?.body ?? '{}') as { response_url: string };
  return response_url;
}

// What the service is for

t.test(
  'nobody registers before an operator has added its party and issued an initial token [interface, What the service does 8]',
  async (t) => {
    const hub = await hubFor(t);
    const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'NEW' }];
    const partner = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'NEW' });
    t.teardown(() => partner.close());
    const register = (token: string, partyId: string) => {
      const body = { token: partner.token, url: `${partner.url}/ocpi/versions`, roles };
      const own = { ...body, roles: [{ ...roles[0], party_id: partyId }] };
      return ocpi(hub, 'POST', '/2.2.1/credentials', { token, body: own });
    };
    const invalidToken: Refused = [401, 2000, 'Invalid token'];
    refused(t, await register('a-token-of-its-own-making', 'NEW'), invalidToken, 'before the operator has added it');
    const added = await admin(hub, 'POST', '/parties', { roles });
    t.match(added, { id: 'NL-NEW', status: 'REGISTERED', initial_token: /^\S{43}$/ });
    refused(t, await register(String(added.initial_token), 'OTH'), [200, 2001, /was not assigned/], 'as another party');
    t.same(partner.asked, [], 'so far the hub had no reason to call it');
    t.equal((await register(String(added.initial_token), 'NEW')).json.status_code, 1000, 'as what it was assigned');
  },
);

t.test(
  'one exchange with the hub is enough: every counterpart is reached through it [interface, What the service does 1]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub, { cpo: willing });
    const second = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EM2' });
    await admin(hub, 'PUT', '/routes/NL-EM2/NL-CPO', { active: true });
    for (const partner of [cpo, emsp, second]) {
      const { json } = await partner.call('GET', '/2.2.1/credentials');
      const { roles } = json.data as { roles: { role: string }[] };
      t.same(
        roles.map(({ role }) => role),
        ['HUB'],
        `${partner.id} has one remote peer`,
      );
    }
    await putLocation(cpo, 'LOC1');
    await emsp.call('PUT', '/2.2.1/tokens/NL/EMS/T1', tokenBody('T1'));
    await second.call('PUT', '/2.2.1/tokens/NL/EM2/T2', tokenBody('T2', { party_id: 'EM2' }));
    await begin(emsp);
    await begin(second);
    await putSession(cpo, 'S1');
    await putSession(cpo, 'S2', cdrTokenOf('EM2'));
    await quiet(hub);
    const from = (calls: readonly Received[]) => calls.map(({ headers }) => String(headers['ocpi-from-party-id']));
    t.same(from(callsTo(cpo, 'tokens')).sort(), ['EM2', 'EMS'], 'the CPO hears of both eMSPs');
    t.same(from(callsTo(cpo, 'commands')), ['EMS', 'EM2']);
    t.ok(callbackOf(cpo).startsWith(`${hub.url}/`), 'and answers them at the hub');
    t.same(lines(callsTo(emsp, 'sessions')), ['PUT /ocpi/2.2.1/sessions/NL/CPO/S1'], 'each eMSP hears of the CPO');
    t.same(lines(callsTo(second, 'sessions')), ['PUT /ocpi/2.2.1/sessions/NL/CPO/S2']);
    for (const partner of [cpo, emsp, second]) t.equal(partner.asked.length, 2, `${partner.id} was looked at once`);
  },
);

t.test(
  'without an active rule catalogues are empty, authorize is NOT_ALLOWED and commands fail [interface, What the service does 2]',
  async (t) => {
    const hub = await hubFor(t);
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO', answer: willing });
    const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS', answer: willing });
    await putLocation(cpo, 'LOC1');
    await putTariff(cpo, 'T1');
    const outcome = async () => {
      const authorized = [await askEmsp(cpo), await askCpo(emsp)].map(({ json }) => json.data);
      const lists = [await countIn(emsp, 'locations'), await countIn(emsp, 'tariffs')];
      return { lists, authorized, command: statusOf(await begin(emsp)) };
    };
    const without = {
      ...{ lists: [0, 0], authorized: [{ allowed: 'NOT_ALLOWED' }, { allowed: 'NOT_ALLOWED' }], command: '403/2000' },
    };
    const allowed = { allowed: 'ALLOWED' };
    t.same(await outcome(), without, 'after the credentials exchange alone');
    t.same([cpo.received, emsp.received], [[], []], 'nobody was called');
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
    t.same(await outcome(), { lists: [1, 1], authorized: [allowed, allowed], command: done }, 'with a rule');
    t.same([cpo.received.length, emsp.received.length], [2, 1]);
    for (const withdraw of [
      () => admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: false }),
      () => admin(hub, 'DELETE', '/routes/NL-EMS/NL-CPO'),
    ]) {
      await withdraw();
      t.same(await outcome(), without, 'without it again');
    }
    t.same([cpo.received.length, emsp.received.length], [2, 1], 'and nobody was called');
  },
);

/** A delivery as operators see it. */
interface Delivery {
  readonly object: string;
  readonly state: string;
  readonly attempts: readonly { readonly class: string }[];
}

/** A partner that answers nothing until it is let go. */
function held(answer: (received: Received) => Reply) {
  let letGo = () => {};
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  return { letGo: () => letGo(), answer: (received: Received) => gate.then(() => answer(received)) };
}

t.test(
  'pushes are stored and answered at once, forwarded afterwards, and can be pulled meanwhile [interface, What the service does 3]',
  async (t) => {
    const hub = await hubFor(t);
    const { letGo, answer } = held(() => ({}));
    t.teardown(letGo);
    const { cpo, emsp } = await routedPair(t, hub, { emsp: answer });
    const answers = [
      await putLocation(cpo, 'LOC1'),
      await putTariff(cpo, 'T1'),
      await putSession(cpo, 'S1'),
      await postCdr(cpo, 'C1', { session_id: 'S9' }),
    ];
    t.same(answers.map(statusOf), [done, done, done, created], 'while the eMSP has answered nothing');
    for (const module of ['locations', 'tariffs', 'sessions', 'cdrs']) {
      t.equal(await countIn(emsp, module), 1, `${module} can be pulled`);
    }
    const { items } = await admin(hub, 'GET', '/deliveries?state=PENDING');
    t.equal((items as unknown[]).length, 4, 'all four are still owed');
    letGo();
    await quiet(hub);
    t.same(lines(emsp.received).sort(), [
      'POST /ocpi/2.2.1/cdrs',
      'PUT /ocpi/2.2.1/locations/NL/CPO/LOC1',
      'PUT /ocpi/2.2.1/sessions/NL/CPO/S1',
      'PUT /ocpi/2.2.1/tariffs/NL/CPO/T1',
    ]);
  },
);

t.test(
  'authorize and commands wait for the counterpart; the result of a command comes later, by the hub [interface, What the service does 4]',
  async (t) => {
    const hub = await hubFor(t);
    const sides = { cpo: held(willing), emsp: held(willing) };
    t.teardown(() => Object.values(sides).map(({ letGo }) => letGo()));
    const { cpo, emsp } = await routedPair(t, hub, { cpo: sides.cpo.answer, emsp: sides.emsp.answer });
    await putLocation(cpo, 'LOC1');
    await hub.settled(emsp);
    t.equal(emsp.received.length, 1, 'the location is on its way');
    const answered: string[] = [];
    const noted = (what: string, call: Promise<Answer>) =>
      call.then((answer) => {
        answered.push(what);
        return answer;
      });
    const calls = [
      noted('authorize by the CPO', askEmsp(cpo)),
      noted('authorize by the eMSP', askCpo(emsp)),
      noted('a command', begin(emsp)),
      noted('another', command(emsp, 'UNLOCK_CONNECTOR', startBody(emsp))),
    ];
    await Promise.all([cpo.gotCalls(3), emsp.gotCalls(2)]);
    t.same(answered, [], 'nobody has an answer while the counterpart has none');
    for (const { letGo } of Object.values(sides)) letGo();
    t.same(
      (await Promise.all(calls)).map(({ json }) => json.data),
      [
        ...[{ allowed: 'ALLOWED' }, { allowed: 'ALLOWED' }],
        ...[
          { result: 'ACCEPTED', timeout: 30 },
          { result: 'ACCEPTED', timeout: 30 },
        ],
      ],
    );
    t.same(callsTo(emsp, 'results'), [], 'no result yet');
    const [, path = ''] = callbackOf(cpo).split('/ocpi');
    const came = await arrivals(hub, emsp, () => cpo.call('POST', path, { result: 'FAILED' }));
    t.match(came, [{ method: 'POST', path: '/results/1', body: '{"result":"FAILED"}' }]);
  },
);

t.test(
  'the hub invents nothing: no session, no result, no COMPLETED, no CDR, no provisional status [interface, What the service does 6, Delivery rules 7]',
  async (t) => {
    const { clock } = timeAtRest();
    const hub = await hubFor(t, {}, { clock });
    const { cpo, emsp } = await routedPair(t, hub, { cpo: willing });
    await putLocation(cpo, 'LOC1');
    await quiet(hub);
    const told = emsp.received.length;
    t.equal(statusOf(await begin(emsp)), done);
    clock.advance(hourMs);
    const nothing = await arrivals(hub, emsp, () => putTariff(cpo, 'MARK1'));
    t.same(lines(nothing), ['PUT /ocpi/2.2.1/tariffs/NL/CPO/MARK1'], 'an accepted start by itself tells nothing');
    t.same([await countIn(emsp, 'sessions'), await countIn(emsp, 'cdrs')], [0, 0]);

    const body = JSON.stringify(sessionBody('S1'));
    await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', body);
    t.equal(statusOf(await stop(emsp, 'S1')), done);
    for (let hours = 0; hours < 30; hours++) clock.advance(hourMs);
    await hub.settled(emsp);
    t.equal((await itemsOf(hub, '/orphans?state=OPEN')).length, 1, 'operators see the case');
    await putTariff(cpo, 'MARK2');
    await quiet(hub);
    t.same(
      lines(emsp.received.slice(told)).filter((line) => !line.includes('MARK')),
      ['PUT /ocpi/2.2.1/sessions/NL/CPO/S1'],
      'the eMSP heard what the CPO said and nothing else',
    );
    t.equal(dataText(await emsp.call('GET', '/2.2.1/sessions/NL/CPO/S1')), body, 'the session is as the CPO left it');
    t.equal(await countIn(emsp, 'cdrs'), 0);
    t.same(
      callsTo(cpo, 'commands').map(({ path }) => path.split('/').at(-1)),
      ['START_SESSION', 'STOP_SESSION'],
      'nor was the CPO told to stop again',
    );
  },
);

t.test(
  'an operator pulls the locations and tariffs of a CPO: page by page, upserted, later pulls since the last one [interface, What the service does 7, Admin pulls]',
  async (t) => {
    const { clock } = timeAtRest();
    const hub = await hubFor(t, {}, { clock });
    const served = lists();
    const modules = (['locations', 'tariffs'] as const).map((module) => [module, 'SENDER'] as const);
    await partnerFor(t, hub, { ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO', modules }, answer: served.answer });
    const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
    for (const [module, bodyOf] of [
      ['locations', locationBody],
      ['tariffs', tariffBody],
    ] as const) {
      const pull = async (body?: object) => {
        const { id } = await admin(hub, 'POST', `/parties/NL-CPO/pull/${module}`, body);
        const found = () => admin(hub, 'GET', `/pulls/${String(id)}`);
        await hub.settled(emsp);
        t.ok((await found()).state !== 'RUNNING', 'the pull ended');
        return found();
      };
      const text = (id: string, minute: number) => JSON.stringify(bodyOf(id, { last_updated: instant(minute) }));
      served.texts[module] = ['A', 'B', 'C', 'D', 'E'].map((id, minute) => text(id, minute));
      const first = await pull();
      t.match(first, { state: 'DONE', pages: 3, received: 5, stored: 5 }, module);
      clock.advance(hourMs);
      served.texts[module] = [
        text('A', 0),
        ...['B', 'F'].map((id) => JSON.stringify(bodyOf(id, { last_updated: later }))),
      ];
      t.match(await pull(), { date_from: first.started_at, received: 2, stored: 2 }, `${module} since then`);
      t.same(idsOf(await list(emsp, module)).sort(), ['A', 'B', 'C', 'D', 'E', 'F'], `${module} stand in their places`);
      t.match(await pull({ full: true }), { date_from: null, received: 3 }, `all ${module}`);
    }
    await quiet(hub);
    t.same(emsp.received, [], 'pulled, not pushed');
  },
);

// Resources and states

t.test('every status of a session is stored and forwarded as received [interface, Session status]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  const statuses = ['RESERVATION', 'PENDING', 'ACTIVE', 'COMPLETED', 'INVALID', 'ACTIVE', 'PENDING'];
  for (const method of ['PUT', 'PATCH']) {
    for (const [minute, status] of statuses.entries()) {
      const fields = { status, last_updated: instant(minute) };
      const body = JSON.stringify(method === 'PUT' ? sessionBody('S1', fields) : fields);
      const came = await arrivals(hub, emsp, async () => {
        t.equal(statusOf(await cpo.call(method, '/2.2.1/sessions/NL/CPO/S1', body)), done, `${method} ${status}`);
      });
      t.same(
        came.map((call) => `${call.method} ${call.body}`),
        [`${method} ${body}`],
      );
      t.match((await emsp.call('GET', '/2.2.1/sessions/NL/CPO/S1')).json.data, { status }, 'and stored');
    }
  }
  const unknown = await putSession(cpo, 'S1', { status: 'FULL' });
  t.equal(statusOf(unknown), done, 'a status of a later version is taken as well [D17]');
});

t.test('a CDR keeps the tariff it was made with, whatever happens to the tariff [interface, Tariff]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await putTariff(cpo, 'T1');
  const body = JSON.stringify(cdrBody('C1', { tariffs: [tariffBody('T1')] }));
  t.equal(statusOf(await cpo.call('POST', '/2.2.1/cdrs', body)), created);
  const dearer = [{ price_components: [{ type: 'ENERGY', price: 9.99, step_size: 1 }] }];
  await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1', { elements: dearer, last_updated: instant(5) }));
  for (const what of ['a new price', 'no tariff any more']) {
    for (const reader of [cpo, emsp]) {
      t.equal(dataText(await reader.call('GET', '/2.2.1/cdrs/C1')), body, `${what}: read by ${reader.id}`);
    }
    await cpo.call('DELETE', '/2.2.1/tariffs/NL/CPO/T1');
  }
  await quiet(hub);
  t.same(lines(callsTo(emsp, 'cdrs')), ['POST /ocpi/2.2.1/cdrs'], 'nor is it sent again');
});

// Who calls whom, where, and with which token

t.test(
  'after onboarding both partners find 2.2.1, its modules and each other CONNECTED [interface, Verification after onboarding]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub);
    for (const partner of [cpo, emsp]) {
      const versions = (await partner.call('GET', '/versions')).json.data as { version: string }[];
      t.same(
        versions.map(({ version }) => version),
        ['2.2.1'],
      );
      const details = (await partner.call('GET', '/2.2.1')).json.data as { endpoints: { identifier: string }[] };
      t.ok(details.endpoints.some(({ identifier }) => identifier === 'hubclientinfo'));
      const infos = (await partner.call('GET', '/2.2.1/hubclientinfo')).json.data as Record<string, string>[];
      t.match(
        infos.map(({ role, country_code, party_id, status }) => `${role} ${country_code}-${party_id} ${status}`).sort(),
        ['CPO NL-CPO CONNECTED', 'EMSP NL-EMS CONNECTED'],
      );
    }
  },
);

t.test(
  'each module of a partner is called at its registered url, in the form of the table [interface, Receiver modules]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub, { cpo: willing, emsp: willing });
    const set = (partner: PlainPartner, modules: readonly (readonly [string, string])[]) => {
      const endpoints = modules.map(([identifier, role]) => {
        return { identifier, role, url: `${partner.url}/own/${identifier}-${role.toLowerCase()}` };
      });
      return admin(hub, 'PUT', `/parties/${partner.id}/endpoints`, { endpoints });
    };
    const receivers = ['locations', 'tariffs', 'sessions', 'cdrs'].map((module) => [module, 'RECEIVER'] as const);
    await set(emsp, [...receivers, ['tokens', 'SENDER']]);
    await set(cpo, [
      ['tokens', 'RECEIVER'],
      ['commands', 'RECEIVER'],
    ]);
    const rows: [what: string, at: PlainPartner, call: () => Promise<unknown>, line: string][] = [
      ['a location', emsp, () => putLocation(cpo, 'LOC1'), 'PUT /own/locations-receiver/NL/CPO/LOC1'],
      [
        ...(['a part of one', emsp] as const),
        () => cpo.call('PATCH', '/2.2.1/locations/NL/CPO/LOC1/EVSE1/1', { last_updated: instant(1) }),
        'PATCH /own/locations-receiver/NL/CPO/LOC1/EVSE1/1',
      ],
      ['a tariff', emsp, () => putTariff(cpo, 'T1'), 'PUT /own/tariffs-receiver/NL/CPO/T1'],
      [
        ...(['a deleted tariff', emsp] as const),
        () => cpo.call('DELETE', '/2.2.1/tariffs/NL/CPO/T1'),
        'DELETE /own/tariffs-receiver/NL/CPO/T1',
      ],
      ['a session', emsp, () => putSession(cpo, 'S1'), 'PUT /own/sessions-receiver/NL/CPO/S1'],
      ['a CDR', emsp, () => postCdr(cpo, 'C1'), 'POST /own/cdrs-receiver'],
      ['authorize at an eMSP', emsp, () => askEmsp(cpo), 'POST /own/tokens-sender/CARD1/authorize?type=RFID'],
      ['authorize at a CPO', cpo, () => askCpo(emsp), 'PUT /own/tokens-receiver/NL/EMS/CARD1/authorize?type=RFID'],
      ['a command', cpo, () => begin(emsp), 'POST /own/commands-receiver/START_SESSION'],
      [
        ...(['a token', cpo] as const),
        () => emsp.call('PUT', '/2.2.1/tokens/NL/EMS/T1', tokenBody('T1')),
        'PUT /own/tokens-receiver/NL/EMS/T1?type=RFID',
      ],
    ];
    for (const [what, at, call, line] of rows) t.same(lines(await arrivals(hub, at, call)), [line], what);
  },
);

t.test(
  'the versions of a partner are fetched before its credentials are answered [interface, Versioning 4]',
  async (t) => {
    const hub = await hubFor(t);
    const order: string[] = [];
    const discovery = ({ path }: Received) => {
      order.push(path);
      return undefined;
    };
    await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO', discovery });
    order.push('answered');
    t.same(order, ['/ocpi/versions', '/ocpi/2.2.1', 'answered']);
  },
);

t.test('bodies are JSON, in both directions [interface, Authentication 2]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, { cpo: willing, emsp: willing });
  const body = JSON.stringify(sessionBody('S1'));
  for (const type of ['text/plain', 'application/xml', 'application/x-www-form-urlencoded', '']) {
    const answer = await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', body, { 'Content-Type': type });
    t.equal(statusOf(answer), '415/2000', type || 'none');
  }
  for (const type of ['application/json', 'application/json; charset=utf-8', 'Application/JSON']) {
    const answer = await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', body, { 'Content-Type': type });
    t.equal(statusOf(answer), done, type);
    t.equal(answer.headers.get('content-type'), 'application/json', 'and so is the answer, without a charset');
  }
  await putLocation(cpo, 'LOC1');
  await begin(emsp);
  await quiet(hub);
  const sent = [...cpo.received, ...emsp.received].filter((call) => call.body !== '');
  t.equal(sent.length, 5);
  for (const { method, path, headers } of sent)
    t.match(headers['content-type'], /^application\/json/, `${method} ${path}`);
});

t.test(
  'the hub token is that of the last exchange, and none works after DELETE [interface, Authentication 4 and 6]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub);
    const body = {
      ...{ token: cpo.token, url: `${cpo.url}/ocpi/versions` },
      roles: [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }],
    };
    const session = { body: sessionBody('S1') };
    const statusWith = async (token: string) =>
      (await ocpi(hub, 'PUT', '/2.2.1/sessions/NL/CPO/S1', { token, ...session })).status;
    const issued = [cpo.hubToken];
    for (let rotation = 0; rotation < 3; rotation++) {
      const [token = ''] = issued;
      const { json } = await ocpi(hub, 'PUT', '/2.2.1/credentials', { token, body });
      issued.unshift((json.data as { token: string }).token);
      const statuses: number[] = [];
      // The new one first: with its first use the former one ends.
      for (const each of issued) statuses.push(await statusWith(each));
      t.same(
        statuses,
        issued.map((_, age) => (age === 0 ? 200 : 401)),
        `after rotation ${rotation + 1}`,
      );
    }
    t.equal(new Set(issued).size, 4, 'each one is another');
    const [token = ''] = issued;
    t.equal((await ocpi(hub, 'DELETE', '/2.2.1/credentials', { token })).status, 200);
    t.same(await Promise.all(issued.map(statusWith)), [401, 401, 401, 401], 'after DELETE');
  },
);

t.test('every call of the hub carries the token that the partner gave it [interface, Authentication 5]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, { cpo: willing, emsp: willing });
  await putLocation(cpo, 'LOC1');
  await askEmsp(cpo);
  await askCpo(emsp);
  await begin(emsp);
  await cpo.call('POST', callbackOf(cpo).slice(`${hub.url}/ocpi`.length), { result: 'ACCEPTED' });
  await emsp.call('PUT', '/2.2.1/tokens/NL/EMS/T1', tokenBody('T1'));
  for (const { id } of [cpo, emsp]) await admin(hub, 'POST', `/parties/${id}/probe`);
  await quiet(hub);
  t.same(lines(cpo.received), [
    'PUT /ocpi/2.2.1/tokens/NL/EMS/CARD1/authorize?type=RFID',
    'POST /ocpi/2.2.1/commands/START_SESSION',
    'PUT /ocpi/2.2.1/tokens/NL/EMS/T1?type=RFID',
  ]);
  t.same(lines(emsp.received).sort(), [
    'POST /ocpi/2.2.1/tokens/CARD1/authorize?type=RFID',
    'POST /results/1',
    'PUT /ocpi/2.2.1/locations/NL/CPO/LOC1',
  ]);
  for (const partner of [cpo, emsp]) {
    t.equal(partner.asked.length, 3, `${partner.id}: two requests of the exchange and a probe`);
    const own = `Token ${Buffer.from(partner.token).toString('base64')}`;
    for (const { path, headers } of [...partner.asked, ...partner.received]) t.equal(headers.authorization, own, path);
  }
});

t.test(
  'each role may do what belongs to it, and nothing of the other role [interface, Authentication 9]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub, { cpo: willing, emsp: willing });
    const cpoOnly = '403/2000 CPO-only endpoint';
    const emspOnly = '403/2000 eMSP-only endpoint';
    const result = async (call: Promise<Answer>) => {
      const answer = await call;
      return answer.status < 300 ? 'done' : `${statusOf(answer)} ${answer.json.status_message}`;
    };
    const location = locationBody('LOC1');
    const rows: [what: string, call: (who: PlainPartner) => Promise<Answer>, byCpo: string, byEmsp: string][] = [
      ['push a location', (who) => who.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', location), 'done', cpoOnly],
      ['push a tariff', (who) => putTariff(who, 'T1'), 'done', cpoOnly],
      ['delete a tariff', (who) => who.call('DELETE', '/2.2.1/tariffs/NL/CPO/T1'), 'done', cpoOnly],
      ['push a session', (who) => putSession(who, 'S1'), 'done', cpoOnly],
      ['post a CDR', (who) => postCdr(who, 'C1'), 'done', cpoOnly],
      ['authorize at the charger', (who) => askEmsp(who), 'done', cpoOnly],
      ['pull tokens', (who) => list(who, 'tokens'), 'done', cpoOnly],
      ['command', (who) => begin(who), emspOnly, 'done'],
      ['push a token', (who) => who.call('PUT', '/2.2.1/tokens/NL/EMS/T1', tokenBody('T1')), emspOnly, 'done'],
      ...['locations', 'tariffs', 'sessions', 'cdrs'].map((module): (typeof rows)[number] => {
        return [`pull ${module}`, (who) => list(who, module), emspOnly, 'done'];
      }),
      [
        'call back',
        (who) => who.call('POST', callbackOf(cpo).slice(`${hub.url}/ocpi`.length), { result: 'ACCEPTED' }),
        ...(['done', '401/2000 Invalid token'] as const),
      ],
      ['hub client info', (who) => list(who, 'hubclientinfo'), 'done', 'done'],
    ];
    for (const [what, call, byCpo, byEmsp] of rows) {
      t.equal(await result(call(cpo)), byCpo, `a CPO: ${what}`);
      t.equal(await result(call(emsp)), byEmsp, `an eMSP: ${what}`);
    }
  },
);

t.test('the admin API is below /admin/v1, with tokens of its own [interface, Versioning 5]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const get = async (path: string, Authorization: string) =>
    (await callOnce('GET', `${hub.url}${path}`, undefined, { Authorization })).status;
  t.equal(await get('/admin/v1/parties', `Bearer ${hub.adminToken}`), 200);
  for (const scheme of ['Token', 'Bearer']) {
    t.equal(await get('/admin/v1/parties', `${scheme} ${cpo.hubToken}`), 401, `a partner’s, as ${scheme}`);
  }
  t.equal(await get('/ocpi/versions', `Token ${hub.adminToken}`), 401, 'nor is the operator’s good for OCPI');
  t.equal(await get('/ocpi/admin/v1/parties', `Token ${cpo.hubToken}`), 404);
});

// Deliveries and limits

t.test(
  'a delivery has no built-in wait: with time at rest everything arrives, in order [interface, Delivery rules 1]',
  async (t) => {
    const hub = await hubFor(t, {}, timeAtRest());
    const { cpo, emsp } = await routedPair(t, hub);
    const sessions = Array.from({ length: 40 }, (_, index) => `S${index}`);
    await Promise.all(
      sessions.map(async (id) => {
        await putSession(cpo, id);
        await cpo.call('PATCH', `/2.2.1/sessions/NL/CPO/${id}`, { status: 'COMPLETED', last_updated: instant(1) });
        await postCdr(cpo, `C-${id}`, { session_id: id });
      }),
    );
    await quiet(hub);
    for (const id of sessions) {
      const own = emsp.received.filter(({ path, body }) => path.endsWith(`/${id}`) || body.includes(`"C-${id}"`));
      t.same(
        own.map(({ method }) => method),
        ['PUT', 'PATCH', 'POST'],
        id,
      );
    }
    const { items } = await admin(hub, 'GET', '/deliveries?limit=1000');
    t.same(
      (items as { attempts: unknown[] }[]).filter(({ attempts }) => attempts.length > 1),
      [],
      'each at the first try',
    );
  },
);

t.test(
  'time-outs and unavailability are retried with growing waits, a permanent failure is DEAD at once [interface, Delivery rules 3 and 4]',
  async (t) => {
    const { clock } = timeAtRest();
    const limitMs = 1;
    const env = {
      ...{ HUB_RETRY_JITTER: '0', HUB_CIRCUIT_FAILURES: '1000', HUB_DELIVERY_TIMEOUT_MS: String(limitMs) },
    };
    const hub = await hubFor(t, env, { clock });
    let isWell = false;
    /** Each fault has an eMSP of its own, so that none opens the circuit of another. */
    const faults = {
      HNG: { reply: () => new Promise<Reply>(() => {}), becomes: 'timeout' },
      CUT: { reply: (): Reply => ({ isCut: true }), becomes: 'unavailable' },
      ILL: { reply: (): Reply => ({ status: 503, text: '' }), becomes: 'unavailable' },
      AUT: { reply: (): Reply => ({ status: 401, text: '' }), becomes: 'auth_error' },
      NOT: { reply: (): Reply => ({ status: 404, text: '' }), becomes: 'not_found' },
      BAD: { reply: (): Reply => ({ status: 400, text: '' }), becomes: 'client_error' },
      GAR: { reply: (): Reply => ({ text: '<html>' }), becomes: 'invalid_response' },
    };
    // The one whose time has to pass is the last.
    const transient = ['CUT', 'ILL', 'HNG'];
    const partners: PlainPartner[] = [];
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    for (const [partyId, { reply }] of Object.entries(faults)) {
      const answer = () => (isWell ? {} : reply());
      partners.push(await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, answer }));
      await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
    }
    for (const id of Object.keys(faults)) t.equal(statusOf(await putSession(cpo, id, cdrTokenOf(id))), done, id);
    const shown = async (id: string) => {
      const [found] = await itemsOf(hub, `/deliveries?receiver=NL-${id}`);
      return found as unknown as Delivery;
    };
    for (const [index, waitS] of [1, 2, 5, 15, 30].entries()) {
      for (const id of transient) {
        await hub.settled(...partners);
        t.equal(partners.find((partner) => partner.id === `NL-${id}`)?.received.length, index + 1, `${id} is asked`);
        if (id === 'HNG') clock.advance(limitMs);
        await hub.settled(...partners);
        t.equal((await shown(id)).attempts.length, index + 1, `${id}: attempt ${index + 1}`);
        const due_at = new Date(clock.now() + waitS * 1000).toISOString();
        t.match(await shown(id), { state: 'PENDING', due_at }, `${id}: again after ${waitS} s`);
      }
      if (index === 4) isWell = true;
      clock.advance(waitS * 1000);
    }
    await quiet(hub);
    for (const [id, { becomes }] of Object.entries(faults)) {
      const isTransient = transient.includes(id);
      const { state, attempts } = await shown(id);
      const classes = attempts.map((attempt) => attempt.class);
      t.equal(state, isTransient ? 'DELIVERED' : 'DEAD', id);
      t.same(classes, isTransient ? [...Array(5).fill(becomes), 'delivered'] : [becomes], `${id}: its attempts`);
    }
  },
);

t.test(
  'an acknowledged write is on the disk with the deliveries owed: another hub on a copy continues [interface, Delivery rules 5]',
  async (t) => {
    const dataDir = directoryFor(t);
    const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' }, {}, dataDir);
    let isWell = false;
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => (isWell ? {} : { status: 503, text: '' }) });
    const answers = await Promise.all([
      ...['S1', 'S2', 'S3'].map((id) => putSession(cpo, id)),
      ...['C1', 'C2'].map((id) => postCdr(cpo, id, { session_id: `of-${id}` })),
    ]);
    t.same(answers.map(statusOf), [done, done, done, created, created]);
    // The directory as it is at the moment of the last answer, without anything that an orderly end would still write.
    const copy = join(dataDir, '..', `${basename(dataDir)}-copy`);
    t.teardown(() => rmSync(copy, { recursive: true, force: true }));
    copyDataDirectory(dataDir, copy);
    await hub.close();
    isWell = true;
    const before = emsp.received.length;
    const tomorrow = new SimulatedClock(new Date(Date.now() + 5 * hourMs).toISOString());
    const again = await hubFor(t, {}, { clock: tomorrow }, copy);
    // What fell due meanwhile is due at once; a clock at rest has to be told.
    tomorrow.advance(1);
    await quiet(again);
    t.same(lines(emsp.received.slice(before)).sort(), [
      'POST /ocpi/2.2.1/cdrs',
      'POST /ocpi/2.2.1/cdrs',
      ...['S1', 'S2', 'S3'].map((id) => `PUT /ocpi/2.2.1/sessions/NL/CPO/${id}`),
    ]);
  },
);

t.test(
  'an object that did not arrive can be pulled by the eMSP, or re-driven by support [interface, Delivery rules 6]',
  async (t) => {
    const hub = await hubFor(t);
    let isBroken = true;
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => (isBroken ? { status: 404, text: '' } : {}) });
    await putSession(cpo, 'S1');
    await postCdr(cpo, 'C1', { session_id: 'S9' });
    await quiet(hub);
    const deadOnes = async () => (await itemsOf(hub, '/deliveries?state=DEAD')) as { id: string; module: string }[];
    t.same((await deadOnes()).map(({ module }) => module).sort(), ['cdrs', 'sessions'], 'neither arrived');
    t.same(idsOf(await list(emsp, 'sessions')), ['S1']);
    t.same(idsOf(await list(emsp, 'cdrs')), ['C1']);
    isBroken = false;
    const before = emsp.received.length;
    for (const { id } of await deadOnes()) await admin(hub, 'POST', `/deliveries/${id}/redrive`);
    await quiet(hub);
    t.same(lines(emsp.received.slice(before)).sort(), ['POST /ocpi/2.2.1/cdrs', 'PUT /ocpi/2.2.1/sessions/NL/CPO/S1']);
    t.same(await deadOnes(), []);
  },
);

t.test('the hub’s own receivers are idempotent [interface, Delivery rules 8]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  const repeated: [partner: PlainPartner, method: string, path: string, body: object, readAt: string][] = [
    [cpo, 'PUT', '/locations/NL/CPO/LOC1', locationBody('LOC1'), '/locations/NL/CPO/LOC1'],
    [cpo, 'PATCH', '/locations/NL/CPO/LOC1', { name: 'N', last_updated: instant(1) }, '/locations/NL/CPO/LOC1'],
    [cpo, 'PUT', '/tariffs/NL/CPO/T1', tariffBody('T1'), '/tariffs/NL/CPO/T1'],
    [cpo, 'PUT', '/sessions/NL/CPO/S1', sessionBody('S1'), '/sessions/NL/CPO/S1'],
    [cpo, 'PATCH', '/sessions/NL/CPO/S1', { kwh: 2, last_updated: instant(1) }, '/sessions/NL/CPO/S1'],
    [cpo, 'POST', '/cdrs', cdrBody('C1'), '/cdrs/C1'],
    [emsp, 'PUT', '/tokens/NL/EMS/T1', tokenBody('T1'), '/tokens/NL/EMS/T1'],
  ];
  for (const [partner, method, path, body, readAt] of repeated) {
    const seen: string[] = [];
    for (let times = 1; times <= 3; times++) {
      const answer = await partner.call(method, `/2.2.1${path}`, body);
      t.equal(answer.json.status_code, 1000, `${method} ${path}: time ${times}`);
      seen.push(dataText(await partner.call('GET', `/2.2.1${readAt}`)));
    }
    t.equal(new Set(seen).size, 1, `${method} ${path}: the same object is stored`);
  }
  for (const module of ['locations', 'tariffs', 'sessions', 'cdrs']) {
    t.equal(await countIn(emsp, module), 1, `${module}: once in the list`);
  }
  await quiet(hub);
  t.equal(callsTo(emsp, 'cdrs').length, 1, 'a CDR goes out once');
});

t.test(
  'by default a party has 200 requests a minute for each list, and 50 commands [interface, Limits] [D35]',
  async (t) => {
    const hub = await hubFor(t, {}, timeAtRest());
    const { cpo, emsp } = await routedPair(t, hub, { cpo: willing });
    await putLocation(cpo, 'LOC1');
    const rows: [what: string, max: number, call: () => Promise<Answer>][] = [
      ['locations', 200, () => list(emsp, 'locations')],
      ['sessions', 200, () => list(emsp, 'sessions')],
      ['CDRs', 200, () => list(emsp, 'cdrs')],
      ['commands', 50, () => begin(emsp)],
    ];
    for (const [what, max, call] of rows) await checkBudget(t, what, max, call);
  },
);

async function checkBudget(t: Test, what: string, max: number, call: () => Promise<Answer>): Promise<void> {
  const statuses: string[] = [];
  for (let times = 0; times < max; times++) statuses.push(statusOf(await call()));
  t.same([...new Set(statuses)], [done], `${what}: ${max} of them`);
  const refusedOne = await call();
  t.equal(statusOf(refusedOne), '429/2901', `${what}: one more`);
  t.equal(refusedOne.json.status_message, 'Rate limited');
}
