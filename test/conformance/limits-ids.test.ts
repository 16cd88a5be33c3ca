/**
 * What holds for every request: rates, sizes, ids and envelopes. And the watch over stopped sessions, which is a limit in time.
 */
import { freePort } from '../../src/sandbox/free-port.ts';
import { locationBody, sessionBody, tokenBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { arrivals, callsTo, dataText, itemsOf, lines, quiet, statusOf } from '../support/observed.ts';
import { type Answer, admin, type PlainPartner, type Received } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const done = '200/1000';
const limited = '429/2901';
const minuteMs = 60_000;
const sessionPath = (id: string) => `/2.2.1/sessions/NL/CPO/${id}`;
const instant = (minute: number) => `2026-02-01T10:${String(minute).padStart(2, '0')}:00Z`;
const accepting = ({ path }: Received) =>
  path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 30 } } : { body: { allowed: 'ALLOWED' } };

// Rates

t.test(
  'over its rate a party is refused with 429/2901 and Retry-After until its minute has passed [interface, Limits; D35]',
  async (t) => {
    const rates = { HUB_RATE_LISTS_PER_MIN: '3', HUB_RATE_COMMANDS_PER_MIN: '2', HUB_RATE_OTHER_PER_MIN: '20' };
    const clock = new SimulatedClock('2026-03-01T12:00:00Z');
    const hub = await hubFor(t, rates, { clock });
    const { cpo, emsp } = await routedPair(t, hub, { cpo: accepting });
    const other = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'OTH' });
    await admin(hub, 'PUT', '/routes/NL-OTH/NL-CPO', { active: true });
    await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
    clock.advance(minuteMs);

    const get = (path: string) => (partner: PlainPartner) => partner.call('GET', path);
    const unlock = (partner: PlainPartner) =>
      partner.call('POST', '/2.2.1/commands/UNLOCK_CONNECTOR', {
        ...{ response_url: `${partner.url}/x`, location_id: 'LOC1', evse_uid: 'EVSE1', connector_id: '1' },
      });
    /** Each list endpoint has a budget of its own. `others`: who else may still ask. */
    const budgets = [
      { what: 'locations list', spend: get('/2.2.1/locations'), by: emsp, others: other, budget: 3 },
      { what: 'tariffs list', spend: get('/2.2.1/tariffs'), by: emsp, others: other, budget: 3 },
      {
        what: 'sessions list',
        spend: get(`/2.2.1/sessions?date_from=${instant(0)}`),
        by: emsp,
        others: other,
        budget: 3,
      },
      { what: 'cdrs list', spend: get('/2.2.1/cdrs'), by: emsp, others: other, budget: 3 },
      { what: 'tokens list', spend: get('/2.2.1/tokens'), by: cpo, others: null, budget: 3 },
      { what: 'hub client info', spend: get('/2.2.1/hubclientinfo'), by: emsp, others: other, budget: 3 },
      { what: 'commands', spend: unlock, by: emsp, others: other, budget: 2 },
      { what: 'all the rest', spend: get('/2.2.1/locations/LOC1'), by: emsp, others: other, budget: 20 },
    ];
    for (const { what, spend, by, others, budget } of budgets) {
      for (let times = 1; times <= budget; times++)
        t.equal(statusOf(await spend(by)), done, `${what}: request ${times}`);
      const commands = callsTo(cpo, 'commands').length;
      const refused = await spend(by);
      t.equal(statusOf(refused), limited, `${what}: one more`);
      t.equal(refused.json.status_message, 'Rate limited', what);
      t.equal(refused.headers.get('retry-after'), '60', `${what}: Retry-After`);
      t.equal(callsTo(cpo, 'commands').length, commands, `${what}: what is refused goes nowhere`);
      if (others) t.equal(statusOf(await spend(others)), done, `${what}: another party has its own`);
    }
    clock.advance(20_500);
    t.equal(
      (await get('/2.2.1/locations')(emsp)).headers.get('retry-after'),
      '40',
      'whole seconds until it may ask again',
    );
    clock.advance(39_499);
    t.equal((await get('/2.2.1/locations')(emsp)).headers.get('retry-after'), '1');
    clock.advance(1);
    for (const { what, spend, by } of budgets) t.equal(statusOf(await spend(by)), done, `${what}: a new minute`);
  },
);

// Ids and envelopes, sizes

const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '0.05' });
let failures = 0;
const { cpo, emsp } = await routedPair(t, hub, {
  cpo: accepting,
  emsp: (call) => (failures-- > 0 ? { status: 503 } : accepting(call)),
});
const nobody = await partnerFor(t, hub, { role: 'CPO', countryCode: 'DE', partyId: 'CPO' });
await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));

const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
const unlockBody = { response_url: `${emsp.url}/x`, location_id: 'LOC1', evse_uid: 'EVSE1', connector_id: '1' };

t.test(
  'X-Request-ID and X-Correlation-ID: echoed, forwarded and recorded [interface, Authentication 8; D14]',
  async (t) => {
    const calls = [
      {
        what: 'a push',
        from: cpo,
        at: emsp,
        method: 'PUT',
        path: sessionPath('IDS'),
        body: sessionBody('IDS'),
        tries: 1,
      },
      {
        what: 'a push retried',
        from: cpo,
        at: emsp,
        method: 'PUT',
        path: sessionPath('IDS2'),
        body: sessionBody('IDS2'),
        tries: 3,
      },
      {
        what: 'a token',
        from: emsp,
        at: cpo,
        method: 'PUT',
        path: '/2.2.1/tokens/NL/EMS/T1',
        body: tokenBody('T1'),
        tries: 1,
      },
      {
        what: 'a command',
        from: emsp,
        at: cpo,
        method: 'POST',
        path: '/2.2.1/commands/UNLOCK_CONNECTOR',
        body: unlockBody,
        tries: 1,
      },
      {
        what: 'authorize',
        from: cpo,
        at: emsp,
        method: 'POST',
        path: '/2.2.1/tokens/T1/authorize',
        body: undefined,
        tries: 1,
      },
    ];
    for (const { what, from, at, method, path, body, tries } of calls) {
      for (const given of [true, false]) {
        const ids = given ? { 'X-Request-ID': `req ${what}`, 'X-Correlation-ID': `cor ${what}` } : {};
        failures = tries - 1;
        let answer: Answer | null = null;
        const came = await arrivals(hub, at, async () => {
          answer = await from.call(method, path, body, { ...ids, ...to });
        });
        if (!answer) throw new Error('no answer');
        const { headers } = answer as Answer;
        const [request, correlation] = [headers.get('x-request-id') ?? '', headers.get('x-correlation-id') ?? ''];
        if (given) t.same([request, correlation], [`req ${what}`, `cor ${what}`], `${what}: echoed`);
        else t.ok(request !== '' && correlation !== '' && request !== correlation, `${what}: minted when absent`);
        const requests = came.map((call) => String(call.headers['x-request-id']));
        t.equal(came.length, tries, `${what}: attempts`);
        t.equal(new Set([...requests, request]).size, tries + 1, `${what}: a new request id for each attempt`);
        t.same([...new Set(came.map((call) => call.headers['x-correlation-id']))], [correlation], `${what}: passed on`);
        const events = `/events?correlation_id=${encodeURIComponent(correlation)}`;
        t.not((await itemsOf(hub, events)).length, 0, `${what}: in the event log`);
      }
    }
  },
);

t.test('answers of functional modules have the routing headers of both parties [routing headers]', async (t) => {
  const own = await cpo.call('GET', '/2.2.1/credentials');
  const [{ country_code, party_id }] = (own.json.data as { roles: { country_code: string; party_id: string }[] })
    .roles as [{ country_code: string; party_id: string }];
  const hubParty = `${country_code}*${party_id}`;
  const at = '/2.2.1/locations/NL/CPO/HEAD';
  const odd = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EM/S' };
  const cases: [what: string, expected: string, call: () => Promise<Answer>][] = [
    ['a push to nobody in particular', `${hubParty} to NL*CPO`, () => cpo.call('PUT', at, locationBody('HEAD'))],
    ['authorize', 'NL*EMS to NL*CPO', () => cpo.call('POST', '/2.2.1/tokens/T1/authorize', undefined, to)],
    ['a list', `${hubParty} to NL*EMS`, () => emsp.call('GET', '/2.2.1/locations')],
    ['a refusal', `${hubParty} to NL*CPO`, () => cpo.call('PUT', at, {})],
    ['what names no party', `${hubParty} to NL*CPO`, () => cpo.call('GET', at, undefined, odd)],
    ['a configuration module', 'null*null to null*null', () => cpo.call('GET', '/2.2.1/credentials')],
    ['versions', 'null*null to null*null', () => cpo.call('GET', '/versions', undefined, to)],
  ];
  for (const [what, expected, call] of cases) {
    const { headers } = await call();
    const named = (side: string) =>
      `${headers.get(`ocpi-${side}-country-code`)}*${headers.get(`ocpi-${side}-party-id`)}`;
    t.equal(`${named('from')} to ${named('to')}`, expected, what);
  }
});

t.test('an id that cannot be a header value is replaced [D14]', async (t) => {
  for (const sent of ['x'.repeat(129), 'caf\u00e9', ' ']) {
    const { headers } = await cpo.call('GET', '/versions', undefined, {
      'X-Request-ID': sent,
      'X-Correlation-ID': sent,
    });
    for (const name of ['x-request-id', 'x-correlation-id']) {
      t.match(headers.get(name), /^[\x21-\x7e]{16,128}$/, `${name} for ${JSON.stringify(sent.slice(0, 8))}`);
      t.not(headers.get(name), sent);
    }
  }
});

t.test('every answer below /ocpi is an envelope with both ids [interface, Response envelope; D2]', async (t) => {
  const at = '/2.2.1/locations/NL/CPO/ENV';
  const bad = { Authorization: 'Token bm9uZQ==' };
  const cases: [string, () => Promise<Answer>][] = [
    [done, () => cpo.call('PUT', at, locationBody('ENV'))],
    [done, () => cpo.call('GET', at)],
    [done, () => emsp.call('GET', '/2.2.1/locations')],
    ['200/2001', () => cpo.call('PUT', at, {})],
    ['400/2001', () => cpo.call('PUT', at, '{"id":')],
    ['400/2001', () => cpo.call('PUT', at)],
    ['401/2000', () => cpo.call('GET', at, undefined, bad)],
    ['401/2000', () => cpo.call('GET', '/nowhere', undefined, bad)],
    ['403/2000', () => emsp.call('PUT', at, locationBody('ENV'))],
    ['404/2000', () => cpo.call('GET', '/nowhere')],
    ['404/2000', () => cpo.call('GET', '/2.1.1/locations')],
    ['404/2003', () => cpo.call('GET', '/2.2.1/locations/NL/CPO/NONE')],
    ['404/2003', () => cpo.call('PUT', '/2.2.1/locations/DE/CPO/ENV', locationBody('ENV', { country_code: 'DE' }))],
    ['405/2000', () => cpo.call('DELETE', at)],
    ['413/2000', () => cpo.call('PUT', sessionPath('ENV'), `"${'x'.repeat(1024 * 1024)}"`)],
    ['415/2000', () => cpo.call('PUT', at, '<xml/>', { 'Content-Type': 'text/xml' })],
  ];
  for (const [expected, call] of cases) {
    const before = Date.now();
    const answer = await call();
    t.equal(statusOf(answer), expected);
    t.equal(answer.headers.get('content-type'), 'application/json', `${expected}: Content-Type`);
    t.match(answer.json.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/, `${expected}: timestamp`);
    t.ok(Date.parse(answer.json.timestamp) >= before - 1000, `${expected}: of now`);
    t.equal(typeof answer.json.status_message, 'string', `${expected}: status_message`);
    for (const name of ['x-request-id', 'x-correlation-id']) t.ok(answer.headers.get(name), `${expected}: ${name}`);
  }
});

t.test('a body has at most 1 MiB, a location 4 MiB; so has an object after a merge [D38, D76]', async (t) => {
  const mebibyte = 1024 * 1024;
  const filled = (body: object, bytes: number) => {
    const text = JSON.stringify({ ...body, x_fill: '' });
    return JSON.stringify({ ...body, x_fill: 'x'.repeat(bytes - text.length) });
  };
  const cases = [
    { method: 'PUT', path: sessionPath('BIG'), body: sessionBody('BIG'), max: mebibyte },
    { method: 'PATCH', path: sessionPath('BIG'), body: { last_updated: instant(1) }, max: mebibyte },
    { method: 'PUT', path: '/2.2.1/locations/NL/CPO/BIG', body: locationBody('BIG'), max: 4 * mebibyte },
    { method: 'PATCH', path: '/2.2.1/locations/NL/CPO/BIG', body: { last_updated: instant(1) }, max: 4 * mebibyte },
  ];
  /** Of fields that a fragment leaves as they are. */
  const othersMax = 2048;
  for (const { method, path, body, max } of cases) {
    const fits = filled(body, method === 'PUT' ? max : max - othersMax);
    const [came] = await arrivals(hub, emsp, async () => {
      t.equal(statusOf(await cpo.call(method, path, fits)), done, `${method} ${path}: ${fits.length} bytes`);
    });
    t.ok(came?.body === fits, `${method} ${path}: forwarded whole`);
    const stored = dataText(await cpo.call('GET', path));
    const more = await arrivals(hub, emsp, async () => {
      const tooLarge = `${filled(body, max)} `;
      t.equal(statusOf(await cpo.call(method, path, tooLarge)), '413/2000', `${method} ${path}: one byte more`);
      const overgrown = statusOf(await cpo.call('PATCH', path, filled({ last_updated: instant(1) }, max)));
      t.equal(overgrown, '200/2001', `${method} ${path}: a fragment that makes it too large`);
    });
    t.same(more, [], `${method} ${path}: nothing was forwarded`);
    t.ok(dataText(await cpo.call('GET', path)) === stored, `${method} ${path}: nothing was stored`);
  }
});

t.test('a body may be nested 64 levels deep; deeper is 400/2001 [D38, D49]', async (t) => {
  const nested = (levels: number, open: string, close: string) => {
    // The body itself is a level.
    const deep = open.repeat(levels - 1) + close.repeat(levels - 1);
    return `{"x_deep":${deep.replace(':}', ':1}')},${JSON.stringify(sessionBody('DEEP')).slice(1)}`;
  };
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}'],
  ] as const) {
    const fits = nested(64, open, close);
    const [came] = await arrivals(hub, emsp, async () => {
      t.equal(statusOf(await cpo.call('PUT', sessionPath('DEEP'), fits)), done, `64 levels of ${open}`);
    });
    t.equal(came?.body, fits);
    for (const levels of [65, 10_000, 100_000]) {
      const refused = await cpo.call('PUT', sessionPath('DEEP'), nested(levels, open, close));
      t.equal(statusOf(refused), '400/2001', `${levels} levels of ${open}`);
    }
    t.equal(dataText(await cpo.call('GET', sessionPath('DEEP'))), fits, 'what was refused changed nothing');
  }
  t.equal(statusOf(await nobody.call('GET', sessionPath('DEEP'))), '404/2003');
});

// Orphans

interface Watched {
  readonly hub: Awaited<ReturnType<typeof hubFor>>;
  readonly clock: SimulatedClock;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  /** What the CPO says to the next commands. */
  answer: string;
  /** What its sender list of sessions holds. */
  pulled: object[];
}

const dayStart = '2026-03-01T12:00:00.000Z';
const afterStart = (ms: number) => new Date(Date.parse(dayStart) + ms).toISOString();

async function watched(t: Test, env: Record<string, string> = {}, dataDir = directoryFor(t)): Promise<Watched> {
  const clock = new SimulatedClock(dayStart);
  const hub = await hubFor(t, env, { clock }, dataDir);
  const box: Pick<Watched, 'answer' | 'pulled'> = { answer: 'ACCEPTED', pulled: [] };
  const { cpo, emsp } = await routedPair(t, hub, {
    cpo: ({ path }) => ({ body: path.includes('/commands/') ? { result: box.answer, timeout: 30 } : box.pulled }),
  });
  return Object.assign(box, { hub, clock, cpo, emsp });
}

const push = ({ cpo }: Pick<Watched, 'cpo'>, id: string, status: string) =>
  cpo.call('PUT', sessionPath(id), sessionBody(id, { status }));

async function stop({ emsp }: Pick<Watched, 'emsp'>, id: string): Promise<void> {
  const body = { response_url: `${emsp.url}/x`, session_id: id };
  const answer = await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', body);
  if (statusOf(answer) !== done) throw new Error(answer.text);
}

/** Cases, and the watches that are no cases yet. [D77] */
const watchedOf = async (hub: Watched['hub']) => [
  ...(await itemsOf(hub, '/orphans')),
  ...(await itemsOf(hub, '/orphans?state=GRACE')),
];

async function states(hub: Watched['hub']): Promise<string[]> {
  const cases = await watchedOf(hub);
  return cases.map(({ session, state }) => `${session} ${state}`).sort();
}

const casesOf = async (hub: Watched['hub']) =>
  (await watchedOf(hub)).map(({ id, state, opened_at }) => ({ id, state, opened_at }));

/** Time jumps; what it sets off is recorded a moment later, in order, so a mark that is recorded after it ends the wait. */
async function pass(scene: Watched, ms: number): Promise<void> {
  scene.clock.advance(ms);
  await push(scene, 'MARK', 'ACTIVE');
  await quiet(scene.hub);
}

t.test(
  'a session that was stopped and not completed becomes a case at the first sweep after its grace [interface, Orphan handling; D36]',
  async (t) => {
    const scene = await watched(t);
    const { hub, cpo, emsp } = scene;
    await push(scene, 'S1', 'ACTIVE');
    await stop(scene, 'S1');
    t.same(await states(hub), ['NL-CPO/S1 GRACE'], 'armed by the ACCEPTED stop');
    await stop(scene, 'S1');
    t.same(await states(hub), ['NL-CPO/S1 GRACE'], 'once, however often it is stopped');
    await quiet(hub);
    const [toCpo, toEmsp] = [cpo.received.length, emsp.received.length];
    const body = dataText(await cpo.call('GET', sessionPath('S1')));

    await pass(scene, 2 * minuteMs);
    t.same(await states(hub), ['NL-CPO/S1 GRACE'], 'the grace alone opens nothing');
    await pass(scene, 3 * minuteMs - 1);
    t.same(await states(hub), ['NL-CPO/S1 GRACE'], 'nor does the time before the sweep');
    scene.clock.advance(1);
    await hub.settled();
    t.ok((await states(hub)).includes('NL-CPO/S1 OPEN'), 'the sweep opens it');
    const [opened] = await itemsOf(hub, '/orphans?state=OPEN');
    t.match(opened, {
      kind: 'stop_without_complete',
      cpo: 'NL-CPO',
      emsp: 'NL-EMS',
      opened_at: afterStart(5 * minuteMs),
    });
    t.equal(callsTo(cpo, 'sessions').length, 1, 'the CPO is pulled');
    for (let sweeps = 0; sweeps < 3; sweeps++) await pass(scene, 5 * minuteMs);
    t.same(await states(hub), ['NL-CPO/S1 OPEN'], 'once');
    const openings = await itemsOf(hub, '/events?type=orphan.opened');
    t.equal(openings.length, 1, 'one fact in the log');

    const asked = lines(cpo.received.slice(toCpo));
    t.equal(asked.length, 1, 'the CPO gets one request, and no second stop');
    t.match(asked[0], /^GET \/ocpi\/2\.2\.1\/sessions\?.*\bdate_from=/, 'a pull of its sessions by date');
    const told = lines(emsp.received.slice(toEmsp)).filter((line) => !line.endsWith('/MARK'));
    t.same(told, [], 'the eMSP gets nothing that the CPO did not send');
    t.equal(dataText(await cpo.call('GET', sessionPath('S1'))), body, 'the session stays as the CPO left it');
    t.equal((await emsp.call('GET', '/2.2.1/cdrs')).headers.get('x-total-count'), '0', 'there is no CDR');

    await push(scene, 'S1', 'COMPLETED');
    await hub.settled();
    t.ok((await states(hub)).includes('NL-CPO/S1 RESOLVED'), 'a later COMPLETED resolves it');
    const [resolved] = await itemsOf(hub, '/orphans?state=RESOLVED');
    t.equal(resolved?.resolved_at, afterStart(20 * minuteMs));
  },
);

t.test(
  'the session that an open case pulls is the CPO’s own: it is stored, forwarded as a PUT, and may resolve the case [D36, D52]',
  async (t) => {
    const scene = await watched(t);
    await push(scene, 'S1', 'ACTIVE');
    await stop(scene, 'S1');
    await quiet(scene.hub);
    const before = scene.emsp.received.length;
    const ended = sessionBody('S1', { status: 'COMPLETED', kwh: 9.5, last_updated: instant(50) });
    scene.pulled = [ended];
    scene.clock.advance(5 * minuteMs);
    await scene.hub.settled();
    t.ok((await states(scene.hub)).includes('NL-CPO/S1 RESOLVED'), 'the case is resolved');
    t.equal(callsTo(scene.cpo, 'sessions').length, 1, 'one pull');
    const came = scene.emsp.received.slice(before);
    t.same(lines(came), ['PUT /ocpi/2.2.1/sessions/NL/CPO/S1']);
    t.same(JSON.parse(came[0]?.body ?? '{}'), ended, 'as the CPO has it');
    t.same((await scene.emsp.call('GET', sessionPath('S1'))).json.data, ended, 'and so it is stored');
  },
);

t.test('a grace that ends after a sweep is seen by the next one [D36]', async (t) => {
  const scene = await watched(t);
  await push(scene, 'S1', 'ACTIVE');
  scene.clock.advance(4 * minuteMs);
  await stop(scene, 'S1');
  await pass(scene, minuteMs);
  t.same(await states(scene.hub), ['NL-CPO/S1 GRACE'], 'the sweep at 5 minutes comes within the grace');
  await pass(scene, 4 * minuteMs);
  t.same(await states(scene.hub), ['NL-CPO/S1 GRACE']);
  scene.clock.advance(minuteMs);
  await scene.hub.settled();
  t.ok((await states(scene.hub)).includes('NL-CPO/S1 OPEN'), 'the sweep at 10 minutes');
});

t.test('a COMPLETED or INVALID push disarms the watch; without an ACCEPTED stop there is none [D36]', async (t) => {
  const scene = await watched(t);
  const ends = [
    { id: 'PUT1', method: 'PUT', status: 'COMPLETED', afterMs: 0 },
    { id: 'PUT2', method: 'PUT', status: 'INVALID', afterMs: 0 },
    { id: 'PATCH1', method: 'PATCH', status: 'COMPLETED', afterMs: minuteMs },
    { id: 'PATCH2', method: 'PATCH', status: 'INVALID', afterMs: 0 },
    { id: 'LATE', method: 'PATCH', status: 'COMPLETED', afterMs: 2 * minuteMs },
  ];
  for (const { id } of ends) await push(scene, id, 'ACTIVE');
  for (const { id } of ends) await stop(scene, id);
  t.equal((await states(scene.hub)).length, ends.length, 'all are watched');
  for (const { id, method, status, afterMs } of ends) {
    scene.clock.advance(afterMs);
    const fields = { status, last_updated: instant(5) };
    const body = method === 'PUT' ? sessionBody(id, fields) : fields;
    t.equal(statusOf(await scene.cpo.call(method, sessionPath(id), body)), done);
    await scene.hub.settled();
    t.notOk((await states(scene.hub)).join().includes(`/${id} `), `${id} is disarmed`);
  }
  for (const answer of ['REJECTED', 'NOT_SUPPORTED', 'UNKNOWN_SESSION']) {
    scene.answer = answer;
    await push(scene, answer, 'ACTIVE');
    await stop(scene, answer);
  }
  scene.answer = 'ACCEPTED';
  await push(scene, 'ENDED', 'COMPLETED');
  await stop(scene, 'ENDED');
  t.same(await states(scene.hub), [], 'neither a refused stop nor that of an ended session arms anything');
  for (let sweeps = 0; sweeps < 3; sweeps++) await pass(scene, 5 * minuteMs);
  t.same(await states(scene.hub), [], 'and no sweep finds anything');
});

t.test('a watch and a case survive a restart of the hub with unchanged times [D36]', async (t) => {
  const env = { HUB_PORT: String(await freePort()) };
  const dataDir = directoryFor(t);
  const scene = await watched(t, env, dataDir);
  await push(scene, 'S1', 'ACTIVE');
  await stop(scene, 'S1');
  await scene.hub.close();

  const clock = new SimulatedClock(afterStart(minuteMs));
  const second = await hubFor(t, env, { clock }, dataDir);
  t.same(await states(second), ['NL-CPO/S1 GRACE'], 'as it was');
  clock.advance(4 * minuteMs);
  await second.settled();
  t.ok((await states(second)).includes('NL-CPO/S1 OPEN'), 'the sweep opens it');
  const opened = await casesOf(second);
  await second.close();

  const later = new SimulatedClock(afterStart(60 * minuteMs));
  const third = await hubFor(t, env, { clock: later }, dataDir);
  later.advance(5 * minuteMs);
  await push(scene, 'MARK', 'ACTIVE');
  t.same(await casesOf(third), opened, 'the case is the same one');
  await push(scene, 'S1', 'COMPLETED');
  await third.settled();
  t.ok((await states(third)).includes('NL-CPO/S1 RESOLVED'), 'COMPLETED resolves it');
});
