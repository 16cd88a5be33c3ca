/**
 * A change that is less than the object is for those who have it: others get the whole, and a refused one is healed once. [D59, D82]
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { largeTurn } from '../../src/kit/turns.ts';
import { locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { arrivals, itemsOf, quiet } from '../support/observed.ts';
import { admin, eventually, type PlainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';
import { at, type DeliveryItem, deliveriesOf, Holding, type HubAddress } from './watched.ts';

const path = (module: string, id: string) => `/2.2.1/${module}/NL/CPO/${id}`;
const shown = ({ method, path: url }: Received) => `${method} ${url.split('/ocpi/2.2.1')[1]}`;
const json = ({ body }: Pick<Received, 'body'>) => JSON.parse(body) as Record<string, unknown>;
const notFound: Reply = { status: 404 };
const says = (code: number, status = 200): Reply => ({
  status,
  text: `{"status_code":${code},"timestamp":"2026-01-01T00:00:00Z"}`,
});
const unknown = says(2003);

const pause = (hub: HubAddress, paused: boolean) => admin(hub, 'PATCH', '/parties/NL-EMS', { paused });
const detail = (hub: HubAddress, { id }: Pick<DeliveryItem, 'id'>) => admin(hub, 'GET', `/deliveries/${id}`);

async function late(t: Test, hub: HubAddress, partyId = 'LAT', role: 'EMSP' | 'CPO' = 'EMSP') {
  const partner = await partnerFor(t, hub, { role, countryCode: 'NL', partyId });
  const [emsp, cpo] = role === 'EMSP' ? [partner.id, 'NL-CPO'] : ['NL-EMS', partner.id];
  await admin(hub, 'PUT', `/routes/${emsp}/${cpo}`, { active: true });
  return partner;
}

t.test(
  'one event goes unchanged to receivers that have the object, and whole to those that were never sent it [D59, D17]',
  async (t) => {
    const dataDir = directoryFor(t);
    const hub = await hubFor(t, {}, {}, dataDir);
    const { cpo, emsp } = await routedPair(t, hub);
    await cpo.push('PUT', path('locations', 'L1'), locationBody('L1'));
    await quiet(hub);
    const newcomer = await late(t, hub);
    t.equal((await newcomer.call('GET', '/2.2.1/locations')).status, 200, 'what it pulls does not count');
    const patch = '{ "name": "Neu", "x": 1.0, "last_updated": "2026-01-02T04:01:00Z" }';
    emsp.received.length = 0;
    await cpo.push('PATCH', path('locations', 'L1'), patch);
    await cpo.push('PATCH', `${path('locations', 'L1')}/EVSE1`, { status: 'CHARGING', last_updated: at(2) });
    await quiet(hub);
    t.same(emsp.received.map(shown), ['PATCH /locations/NL/CPO/L1', 'PATCH /locations/NL/CPO/L1/EVSE1']);
    t.equal(emsp.received[0]?.body, patch, 'the bytes that came');
    t.same(newcomer.received.map(shown), ['PUT /locations/NL/CPO/L1', 'PATCH /locations/NL/CPO/L1/EVSE1']);
    const [first] = newcomer.received;
    t.match(
      first && json(first),
      { id: 'L1', name: 'Neu', x: 1, evses: [{ status: 'AVAILABLE' }] },
      'as of that change',
    );
    const [whole] = (await deliveriesOf(hub, '?receiver=NL-LAT')).reverse();
    const [part] = (await deliveriesOf(hub, '?receiver=NL-EMS')).reverse().slice(1);
    t.same([whole?.seq, whole?.method, part?.method], [part?.seq, 'PUT', 'PATCH'], 'one event, two forms');
    t.match(await detail(hub, { id: whole?.id ?? '' }), { request: { method: 'PUT', body: first?.body } });
    t.match(await detail(hub, { id: part?.id ?? '' }), { request: { method: 'PATCH', body: patch } });
    const [told] = await itemsOf(hub, `/events?type=object.patched&after=${(part?.seq ?? 0) - 1}`);
    t.match(told?.data, { owed: { method: 'PATCH' }, whole: { method: 'PUT', to: ['NL-LAT'] } });
    t.notMatch(JSON.stringify(told), /Plein|EVSE1|AVAILABLE/, 'the list of events shows no bodies');
    await hub.close();
    const again = await hubFor(t, {}, {}, dataDir);
    cpo.moveTo(again);
    const came = await arrivals(again, newcomer, () =>
      cpo.push('PATCH', path('locations', 'L1'), { name: 'Nieuw', last_updated: at(3) }),
    );
    t.same(came.map(shown), ['PATCH /locations/NL/CPO/L1'], 'a restart forgets nothing');
  },
);

t.test('an EVSE or connector under a location that was never sent goes as the whole location [D59]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  for (const id of ['L1', 'L2', 'L3']) await cpo.push('PUT', path('locations', id), locationBody(id));
  await quiet(hub);
  const newcomer = await late(t, hub);
  const connector = { id: '1', standard: 'CHADEMO', last_updated: at(1) };
  await cpo.push('PUT', `${path('locations', 'L1')}/EVSE2`, {
    uid: 'EVSE2',
    status: 'AVAILABLE',
    last_updated: at(1),
  });
  await cpo.push('PUT', `${path('locations', 'L2')}/EVSE1/1`, connector);
  await cpo.push('PATCH', `${path('locations', 'L3')}/EVSE1/1`, { standard: 'CHADEMO', last_updated: at(1) });
  await quiet(hub);
  t.same(
    newcomer.received.map(shown).sort(),
    ['L1', 'L2', 'L3'].map((id) => `PUT /locations/NL/CPO/${id}`),
  );
  const bodies = Object.fromEntries(newcomer.received.map((call) => [shown(call).slice(-2), json(call)]));
  t.match(bodies, {
    L1: { evses: [{ uid: 'EVSE1' }, { uid: 'EVSE2' }] },
    L2: { evses: [{ connectors: [{ standard: 'CHADEMO' }] }] },
    L3: { evses: [{ connectors: [{ standard: 'CHADEMO', max_voltage: 230 }] }] },
  });
});

t.test('a token that a CPO was never sent goes whole, too [D59]', async (t) => {
  const hub = await hubFor(t);
  const { emsp } = await routedPair(t, hub);
  await emsp.push('PUT', '/2.2.1/tokens/NL/EMS/CARD1?type=RFID', tokenBody('CARD1'));
  await quiet(hub);
  const newcomer = await late(t, hub, 'NEW', 'CPO');
  await emsp.push('PATCH', '/2.2.1/tokens/NL/EMS/CARD1?type=RFID', { valid: false, last_updated: at(1) });
  await quiet(hub);
  t.same(newcomer.received.map(shown), ['PUT /tokens/NL/EMS/CARD1?type=RFID']);
  t.match(newcomer.received.map(json), [{ uid: 'CARD1', valid: false }]);
});

for (const [what, refusal] of [
  ['404', notFound],
  ['405', { status: 405 }],
  ['OCPI 2003', unknown],
  ['OCPI 2001', says(2001)],
  ['OCPI 2000 with HTTP 400', says(2000, 400)],
  ['OCPI 3000 with HTTP 400', says(3000, 400)],
  ['HTTP 400 without an envelope', { status: 400, text: '{"statusCode":400,"error":"Bad Request"}' }],
  ['HTTP 415 without a body', { status: 415, text: '' }],
  ['HTTP 422 without an envelope', { status: 422, text: '{"detail":[]}' }],
  ['HTTP 501 without an envelope', { status: 501, text: '<h1>Method PATCH is not implemented</h1>' }],
  ['OCPI 3000 with HTTP 501', says(3000, 501)],
] as const) {
  t.test(
    `a PATCH answered ${what} is followed by one PUT of the whole as of it, before anything else [D59]`,
    async (t) => {
      const hub = await hubFor(t);
      let isLost = true;
      const { cpo, emsp } = await routedPair(t, hub, {
        emsp: ({ method }) => {
          if (method === 'PUT') isLost = false;
          return method === 'PATCH' && isLost ? refusal : {};
        },
      });
      const periods = (n: number) => [{ start_date_time: at(n), dimensions: [{ type: 'ENERGY', volume: n }] }];
      await cpo.push('PUT', path('sessions', 'S1'), sessionBody('S1', { charging_periods: periods(1) }));
      await quiet(hub);
      isLost = true;
      await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
      for (const n of [2, 3])
        await cpo.push('PATCH', path('sessions', 'S1'), { kwh: n, charging_periods: periods(n), last_updated: at(n) });
      const came = await arrivals(hub, emsp, () => admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false }));
      t.same(
        came.map(({ method }) => method),
        ['PATCH', 'PUT', 'PATCH'],
      );
      t.match(came.map(json), [
        { kwh: 2 },
        { id: 'S1', kwh: 2, charging_periods: [...periods(1), ...periods(2)] },
        { kwh: 3 },
      ]);
      t.equal((json(came[1] as Received).charging_periods as unknown[]).length, 2, 'nothing of what is behind it');
      const [, healed] = await deliveriesOf(hub);
      t.match(healed, { state: 'DELIVERED', method: 'PUT', attempts: [{}, { class: 'delivered' }] });
      t.match(await detail(hub, { id: healed?.id ?? '' }), { request: { method: 'PUT', body: came[1]?.body } });
    },
  );
}

for (const [what, fault] of [
  ['HTTP 500', { status: 500, text: 'Internal Server Error' }],
  ['OCPI 3000', says(3000)],
] as const)
  t.test(
    `a PATCH answered ${what} three times in a row is followed by the whole, and holds back nothing [WHOLES-7]`,
    async (t) => {
      const clock = new SimulatedClock();
      const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '60', HUB_RETRY_JITTER: '0' }, { clock });
      let isLost = false;
      const { cpo, emsp } = await routedPair(t, hub, {
        emsp: ({ method }) => {
          if (method === 'PUT') isLost = false;
          return isLost ? fault : {};
        },
      });
      await cpo.push('PUT', path('sessions', 'S1'), sessionBody('S1'));
      await quiet(hub);
      isLost = true;
      emsp.received.length = 0;
      await cpo.push('PATCH', path('sessions', 'S1'), { kwh: 2, last_updated: at(2) });
      await cpo.push('PUT', path('sessions', 'S1'), sessionBody('S1', { status: 'COMPLETED', last_updated: at(3) }));
      for (let n = 0; n < 2; n++) {
        await hub.settled(emsp);
        clock.advance(60_000);
      }
      await quiet(hub);
      t.same(
        emsp.received.map(({ method }) => method),
        ['PATCH', 'PATCH', 'PATCH', 'PUT', 'PUT'],
      );
      t.match(emsp.received.slice(3).map(json), [
        { kwh: 2, status: 'ACTIVE', last_updated: at(2) },
        { status: 'COMPLETED' },
      ]);
      const [, healed] = await deliveriesOf(hub);
      t.match(healed, { state: 'DELIVERED', method: 'PUT', attempts: [{}, {}, {}, { class: 'delivered' }] });
      t.match(await admin(hub, 'GET', '/parties/NL-EMS/report'), { quirks: [{ quirk: 'patch-refused', count: 1 }] });
    },
  );

t.test('a PATCH to a partner that is out of service remains a PATCH [WHOLES-7]', async (t) => {
  const clock = new SimulatedClock();
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '60', HUB_RETRY_JITTER: '0' }, { clock });
  const replies: Reply[] = [{}, { status: 500 }, { status: 503 }, { isCut: true }, { status: 500 }, { status: 502 }];
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => replies.shift() ?? {} });
  await cpo.push('PUT', path('sessions', 'S1'), sessionBody('S1'));
  await quiet(hub);
  await cpo.push('PATCH', path('sessions', 'S1'), { kwh: 2, last_updated: at(2) });
  for (let n = 0; n < 5; n++) {
    await hub.settled(emsp);
    clock.advance(60_000);
  }
  await quiet(hub);
  t.same(
    emsp.received.map(({ method }) => method),
    ['PUT', ...Array.from({ length: 6 }, () => 'PATCH')],
  );
});

for (const [status, follows] of [
  [200, ['PUT']],
  [400, ['PUT']],
  [401, []],
] as const)
  t.test(
    `a PATCH of a token answered HTTP ${status}, OCPI 2004 is followed by ${follows.length} PUT of the whole [D59]`,
    async (t) => {
      const hub = await hubFor(t);
      const { cpo, emsp } = await routedPair(t, hub, {
        cpo: ({ method }) => (method === 'PATCH' ? says(2004, status) : {}),
      });
      const token = '/2.2.1/tokens/NL/EMS/CARD1?type=RFID';
      await emsp.push('PUT', token, tokenBody('CARD1'));
      await quiet(hub);
      const came = await arrivals(hub, cpo, () => emsp.push('PATCH', token, { valid: false, last_updated: at(1) }));
      t.same(
        came.map(shown),
        ['PATCH', ...follows].map((method) => `${method} /tokens/NL/EMS/CARD1?type=RFID`),
      );
      t.match(
        came.map(json).slice(1),
        follows.map(() => ({ uid: 'CARD1', valid: false })),
      );
      t.equal((await deliveriesOf(hub, '?state=DEAD')).length, 1 - follows.length);
    },
  );

t.test(
  'a refused whole object is dead, the next change goes whole, and a PATCH refused for another reason is followed by nothing [D59]',
  async (t) => {
    const hub = await hubFor(t);
    let answer: Reply = {};
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => answer });
    await cpo.push('PUT', path('sessions', 'S1'), sessionBody('S1'));
    await quiet(hub);
    answer = notFound;
    const came = await arrivals(hub, emsp, () =>
      cpo.push('PATCH', path('sessions', 'S1'), { kwh: 2, last_updated: at(1) }),
    );
    t.same(
      came.map(({ method }) => method),
      ['PATCH', 'PUT'],
    );
    const dead = await deliveriesOf(hub, '?state=DEAD');
    t.match(dead, [{ attempts: [{ class: 'not_found' }, { class: 'not_found' }] }]);
    t.strictSame([dead.length, dead[0]?.attempts.length], [1, 2]);
    answer = says(2001);
    const refused = await arrivals(hub, emsp, () =>
      cpo.push('PATCH', path('sessions', 'S1'), { kwh: 3, last_updated: at(2) }),
    );
    t.same(
      refused.map(({ method }) => method),
      ['PUT'],
    );
    for (const [id, otherwise] of [
      ['S2', { status: 400 }],
      ['S3', says(2004)],
      ['S4', says(2000, 401)],
    ] as const) {
      answer = {};
      await cpo.push('PUT', path('sessions', id), sessionBody(id));
      await quiet(hub);
      answer = otherwise;
      const once = await arrivals(hub, emsp, () =>
        cpo.push('PATCH', path('sessions', id), { kwh: 2, last_updated: at(1) }),
      );
      t.same(once.map(shown), [`PATCH /sessions/NL/CPO/${id}`]);
    }
  },
);

for (const [module, id, body, fields] of [
  ['locations', 'L1', locationBody('L1'), { name: 'Neu' }],
  ['sessions', 'S1', sessionBody('S1'), { kwh: 9 }],
] as const) {
  for (const [method, refused] of [
    ['PUT', { ...body, address: 'Neue Straße 1', total_cost: { excl_vat: 7 } }],
    ['PATCH', { address: 'Neue Straße 1', total_cost: { excl_vat: 7 } }],
  ] as const) {
    // Each module once, and each method.
    const tier = (module === 'locations') === (method === 'PUT') ? {} : atLength;
    const change = (n: number) => ({ ...fields, last_updated: at(n) });
    const missed = module === 'locations' ? { address: 'Neue Straße 1' } : { total_cost: { excl_vat: 7 } };
    const scene = async (t: Test, dataDir = directoryFor(t)) => {
      const hub = await hubFor(t, {}, {}, dataDir);
      const answers = { reply: (_: Received): Reply | Promise<Reply> => ({}) };
      const { cpo, emsp } = await routedPair(t, hub, { emsp: (received) => answers.reply(received) });
      await cpo.push('PUT', path(module, id), { ...body, last_updated: at(0) });
      await quiet(hub);
      answers.reply = () => ({ status: 400 });
      return { hub, cpo, emsp, answers };
    };

    t.test(
      `${module}: after a dead ${method} the next change goes as a whole, and then changes as they come`,
      tier,
      async (t) => {
        const { hub, cpo, emsp, answers } = await scene(t);
        await cpo.push(method, path(module, id), { ...refused, last_updated: at(1) });
        await quiet(hub);
        answers.reply = () => ({});
        const came = await arrivals(hub, emsp, async () => {
          await cpo.push('PATCH', path(module, id), change(2));
          await quiet(hub);
          await cpo.push('PATCH', path(module, id), change(3));
        });
        t.same(
          came.map((call) => call.method),
          ['PUT', 'PATCH'],
        );
        t.match(json(came[0] as Received), { id, ...fields, ...missed });
      },
    );

    t.test(`${module}: what waited behind a dead ${method} goes as a whole after a restart`, tier, async (t) => {
      const dataDir = directoryFor(t);
      const { hub, cpo, emsp, answers } = await scene(t, dataDir);
      const holding = new Holding();
      answers.reply = holding.answer;
      await cpo.push(method, path(module, id), { ...refused, last_updated: at(1) });
      await hub.settled(emsp);
      await cpo.push('PATCH', path(module, id), change(2));
      await pause(hub, true);
      holding.releaseOne({ status: 400 });
      await hub.settled();
      t.equal((await itemsOf(hub, '/events?type=object.missed')).length, 1);
      await hub.close();
      const again = await hubFor(t, { HUB_PORT: new URL(hub.url).port }, {}, dataDir);
      answers.reply = () => ({});
      const came = await arrivals(again, emsp, () => pause(again, false));
      t.same(
        came.map((call) => call.method),
        ['PUT'],
      );
      t.match(json(came[0] as Received), { id, ...fields, ...missed });
    });
  }
}

for (const [module, id, body, fields] of [
  ['locations', 'L1', locationBody('L1'), { name: 'Neu' }],
  ['sessions', 'S1', sessionBody('S1'), { kwh: 9 }],
] as const) {
  t.test(
    `${module}: a whole that never arrived is made up for by the next change, also behind it in the lane [D82]`,
    module === 'sessions' ? {} : atLength,
    async (t) => {
      const dataDir = directoryFor(t);
      let hub = await hubFor(t, {}, {}, dataDir);
      let answer: Reply = { status: 400 };
      const { cpo, emsp } = await routedPair(t, hub, { emsp: ({ method }) => (method === 'PUT' ? answer : {}) });
      await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
      await cpo.push('PUT', path(module, id), body);
      await cpo.push('PATCH', path(module, id), { ...fields, last_updated: at(1) });
      const came = await arrivals(hub, emsp, () => admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false }));
      t.same(
        came.map(({ method }) => method),
        ['PUT', 'PUT'],
        'the PATCH behind it goes as the whole',
      );
      t.match(came.map(json)[1], { id, ...fields });
      await hub.close();
      hub = await hubFor(t, { HUB_PORT: new URL(hub.url).port }, {}, dataDir);
      const next = await arrivals(hub, emsp, () =>
        cpo.push('PATCH', path(module, id), { ...fields, last_updated: at(2) }),
      );
      t.same(
        next.map(({ method }) => method),
        ['PUT'],
        'also after a restart',
      );
      answer = {};
      const healed = await arrivals(hub, emsp, () =>
        cpo.push('PATCH', path(module, id), { ...fields, last_updated: at(3) }),
      );
      t.same(
        healed.map(({ method }) => method),
        ['PUT'],
      );
      const after = await arrivals(hub, emsp, () =>
        cpo.push('PATCH', path(module, id), { ...fields, last_updated: at(4) }),
      );
      t.same(
        after.map(({ method }) => method),
        ['PATCH'],
        'once it has the object, changes go as they come',
      );
    },
  );
}

t.test(
  'a former eMSP that never had the session gets its part as the whole of then, also after a restart [D62, D82]',
  async (t) => {
    const dataDir = directoryFor(t);
    const hub = await hubFor(t, {}, {}, dataDir);
    const holding = new Holding();
    const answers = { reply: holding.answer as (received: Received) => Reply | Promise<Reply> };
    const { cpo, emsp } = await routedPair(t, hub, { emsp: (received) => answers.reply(received) });
    await late(t, hub);
    await cpo.push('PUT', path('sessions', 'S1'), sessionBody('S1'));
    await hub.settled(emsp);
    await cpo.push('PATCH', path('sessions', 'S1'), { kwh: 9, last_updated: at(1) });
    const { cdr_token } = sessionBody('S1') as { cdr_token: object };
    const theirs = { ...cdr_token, party_id: 'LAT' };
    await cpo.push('PATCH', path('sessions', 'S1'), { cdr_token: theirs, last_updated: at(2) });
    await pause(hub, true);
    holding.releaseOne({ status: 400 });
    await hub.settled();
    answers.reply = () => ({});
    await hub.close();
    const again = await hubFor(t, { HUB_PORT: new URL(hub.url).port }, {}, dataDir);
    const came = await arrivals(again, emsp, () => pause(again, false));
    t.same(came.map(shown), ['PUT /sessions/NL/CPO/S1']);
    t.match(json(came[0] as Received), { kwh: 9, cdr_token });
  },
);

t.test(
  'a receiver that refused a later whole gets the next change whole, since it has an older version [D82]',
  async (t) => {
    const hub = await hubFor(t);
    let answer: Reply = {};
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => answer });
    await cpo.push('PUT', path('locations', 'L1'), locationBody('L1'));
    await quiet(hub);
    answer = { status: 400 };
    await cpo.push('PUT', path('locations', 'L1'), locationBody('L1', { name: 'Bad', last_updated: at(1) }));
    await quiet(hub);
    answer = {};
    const came = await arrivals(hub, emsp, () =>
      cpo.push('PATCH', path('locations', 'L1'), { name: 'Neu', last_updated: at(2) }),
    );
    t.same(came.map(shown), ['PUT /locations/NL/CPO/L1']);
    t.match(json(came[0] as Received), { name: 'Neu' });
  },
);

t.test(
  'a DELETE answered 404, 410 or OCPI 2003 counts as delivered, and goes to all that were sent the tariff [D59, D62, D82]',
  async (t) => {
    const hub = await hubFor(t);
    let gone: Reply = notFound;
    const { cpo, emsp } = await routedPair(t, hub, { emsp: ({ method }) => (method === 'DELETE' ? gone : {}) });
    const other = await late(t, hub, 'OTH');
    for (const id of ['T1', 'T2', 'T3', 'T4']) await cpo.push('PUT', path('tariffs', id), tariffBody(id));
    await quiet(hub);
    await cpo.push('DELETE', path('tariffs', 'T1'));
    await quiet(hub);
    gone = unknown;
    await cpo.push('DELETE', path('tariffs', 'T4'));
    await quiet(hub);
    gone = { status: 410 };
    await admin(hub, 'DELETE', '/routes/NL-OTH/NL-CPO');
    await cpo.push('DELETE', path('tariffs', 'T2'));
    await quiet(hub);
    t.same(await deliveriesOf(hub, '?state=DEAD'), []);
    t.same(other.received.map(shown).slice(-1), ['DELETE /tariffs/NL/CPO/T2'], 'though no rule joins them any more');
    gone = { status: 400 };
    await cpo.push('DELETE', path('tariffs', 'T3'));
    await quiet(hub);
    const dead = await deliveriesOf(hub, '?state=DEAD');
    t.match(dead, [{ method: 'DELETE', receiver: 'NL-EMS' }]);
    t.equal(dead.length, 1);
    t.equal(emsp.received.filter(({ method }) => method === 'DELETE').length, 4, 'each once');
  },
);

t.test('a refused part of a location is followed by the current whole, and by the queued changes [D59]', async (t) => {
  const hub = await hubFor(t);
  let isLost = false;
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: ({ method }) => {
      if (method === 'PUT') isLost = false;
      return isLost ? { status: 405 } : {};
    },
  });
  await cpo.push('PUT', path('locations', 'L1'), locationBody('L1'));
  await quiet(hub);
  isLost = true;
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  for (const n of [1, 2]) await cpo.push('PATCH', path('locations', 'L1'), { x: n, last_updated: at(n) });
  const came = await arrivals(hub, emsp, () => admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false }));
  t.same(
    came.map((call) => [call.method, json(call).x]),
    [
      ['PATCH', 1],
      ['PUT', 2],
      ['PATCH', 2],
    ],
  );
});

t.test('a whole that died is not made good because another receiver missed the object, too [D82]', async (t) => {
  const hub = await hubFor(t);
  let isRefused = true;
  const refusing = ({ method }: Pick<Received, 'method'>): Reply =>
    method === 'PUT' && isRefused ? { status: 400 } : {};
  const { cpo, emsp } = await routedPair(t, hub, { emsp: refusing });
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'OTH', answer: refusing });
  await admin(hub, 'PUT', '/routes/NL-OTH/NL-CPO', { active: true });
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  await cpo.push('PUT', path('locations', 'L1'), locationBody('L1'));
  const missed = () => itemsOf(hub, '/events?type=object.missed&party=NL-OTH');
  await hub.settled(emsp);
  t.equal((await missed()).length, 1, 'the other one has missed it');
  const [{ data }] = (await missed()) as [{ data: { receiver: string; sent: string[] } }];
  t.strictSame([data.receiver, data.sent], ['NL-OTH', ['NL-EMS']]);
  const { steps } = (await admin(hub, 'GET', '/trace/NL-CPO%2FL1')) as { steps: { summary: string }[] };
  t.match(steps.at(-1)?.summary, /never reached NL-OTH/);
  await cpo.push('PATCH', path('locations', 'L1'), { name: 'Neu', last_updated: at(1) });
  const came = await arrivals(hub, emsp, () => admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false }));
  t.same(
    came.map(({ method }) => method),
    ['PUT', 'PUT'],
    'the PATCH behind the refused whole goes as the whole',
  );
  isRefused = false;
  const receivers = async () => {
    const found = await itemsOf(hub, '/events?type=object.missed&party=NL-CPO');
    return new Set(found.map(({ data }) => (data as { receiver: string }).receiver));
  };
  await hub.settled(emsp);
  t.equal((await receivers()).size, 2, 'its owner finds both');
  t.strictSame([...(await receivers())].sort(), ['NL-EMS', 'NL-OTH']);
});

t.test('a location becomes private for those who were sent it, and never as a whole [D21, D59]', async (t) => {
  const hub = await hubFor(t);
  let answer: Reply = {};
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => answer });
  await cpo.push('PUT', path('locations', 'L1'), locationBody('L1'));
  await quiet(hub);
  const newcomer = await late(t, hub);
  answer = notFound;
  const came = await arrivals(hub, emsp, () =>
    cpo.push('PATCH', path('locations', 'L1'), { publish: false, last_updated: at(1) }),
  );
  t.same(came.map(shown), ['PATCH /locations/NL/CPO/L1'], 'once, and no whole of what is private now');
  const dead = await deliveriesOf(hub, '?state=DEAD');
  t.match(dead, [{ receiver: 'NL-EMS', attempts: [{ class: 'not_found' }] }]);
  t.strictSame([dead.length, dead[0]?.attempts.length], [1, 1]);
  t.same(newcomer.received, [], 'who never had it is not told');
});

t.test('a refused PATCH that no whole may follow is dead with the partner’s answer [D21, D59]', async (t) => {
  const hub = await hubFor(t);
  let answer: Reply = {};
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => answer });
  await cpo.push('PUT', path('locations', 'L1'), locationBody('L1'));
  await quiet(hub);
  answer = { text: '{"status_code":2001,"status_message":"evses missing","timestamp":"2026-01-01T00:00:00Z"}' };
  const hidden = { publish: false, last_updated: at(1) };
  const came = await arrivals(hub, emsp, () => cpo.push('PATCH', path('locations', 'L1'), hidden));
  t.same(came.map(shown), ['PATCH /locations/NL/CPO/L1']);
  const reason = 'The partner answered HTTP 200, OCPI 2001: evses missing';
  t.match(await deliveriesOf(hub, '?state=DEAD'), [{ reason, attempts: [{ class: 'client_error' }] }]);
  t.match(await admin(hub, 'GET', '/parties/NL-EMS/report'), { quirks: { length: 0 } }, 'nothing was made up for');
});

t.test('a large whole is read in a turn of its own [WHOLES-5, TURNS-2]', async (t) => {
  let isHealing = false;
  let isOwn: boolean | null = null;
  const wrap = wrapStore((store) => ({
    get: (key) => {
      if (isHealing && key.kind === 'locations') isOwn ??= largeTurn('NL-OTH') !== null;
      return store.get(key);
    },
  }));
  const hub = await hubFor(t, {}, { wrap });
  const emsp = async ({ method }: Received) => {
    isHealing = method === 'PATCH';
    // What the push took of large turns is over by then, and so is the rest behind this one, which takes no time itself.
    await largeTurn('NL-OTH');
    await sleep(100);
    return isHealing ? notFound : {};
  };
  const { cpo, emsp: receiver } = await routedPair(t, hub, { emsp });
  await cpo.push('PUT', path('locations', 'L1'), locationBody('L1', { x: 'x'.repeat(100_000) }));
  await cpo.push('PATCH', path('locations', 'L1'), { name: 'Neu', last_updated: at(1) });
  await quiet(hub);
  t.same(
    receiver.received.map(({ method }) => method),
    ['PUT', 'PATCH', 'PUT'],
  );
  t.equal(isOwn, true, 'no other large text has it');
});

async function patchOften(cpo: PlainPartner, many: number): Promise<void> {
  for (let n = 1; n <= many; n++) {
    const period = { start_date_time: at(n % 60), dimensions: [{ type: 'ENERGY', volume: n }] };
    await cpo.push('PATCH', path('sessions', 'S1'), { kwh: n, charging_periods: [period], last_updated: at(n % 60) });
  }
}

t.test('a backlog of PATCHes that its receiver refuses folds their session once, not once for each', async (t) => {
  const many = 300;
  let isCounting = false;
  let read = 0;
  const wrap = wrapStore((store) => ({
    history: async (...query) => {
      const events = await store.history(...query);
      if (isCounting && events[0]?.stream.startsWith('sessions/')) read += events.length;
      return events;
    },
  }));
  const hub = await hubFor(t, {}, { wrap });
  const { cpo, emsp } = await routedPair(t, hub, { emsp: ({ method }) => (method === 'PATCH' ? { status: 405 } : {}) });
  await cpo.push('PUT', path('sessions', 'S1'), sessionBody('S1'));
  await quiet(hub);
  await pause(hub, true);
  await patchOften(cpo, many);
  isCounting = true;
  const came = await arrivals(hub, emsp, () => pause(hub, false));
  t.equal(came.length, 2 * many);
  const wholes = came.filter(({ method }) => method === 'PUT').map(json);
  t.same(
    wholes.map(({ kwh, charging_periods }) => [kwh, (charging_periods as unknown[]).length]),
    Array.from({ length: many }, (_, n) => [n + 1, n + 1]),
    'each as of its change',
  );
  t.ok(read > 0 && read < 20 * many, `${read} events were read`);
});

t.test('a whole object after an erasure has no name of an erased person [WHOLES-6]', async (t) => {
  const hub = await hubFor(t);
  let wholes = 0;
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: async ({ method }) => {
      if (method === 'PATCH') return { status: 405 };
      if (++wholes === 2) await pause(hub, true);
      return {};
    },
  });
  await cpo.push('PUT', path('sessions', 'S1'), sessionBody('S1'));
  await quiet(hub);
  await pause(hub, true);
  await patchOften(cpo, 3);
  await pause(hub, false);
  await eventually('the whole of the first has arrived', async () => {
    return (await deliveriesOf(hub, '?state=DELIVERED')).length === 2;
  });
  t.match(emsp.received.at(-1), { method: 'PUT', body: 'CARD1' });
  await admin(hub, 'POST', '/erase', { uid: 'CARD1', force: true });
  const came = await arrivals(hub, emsp, () => pause(hub, false));
  t.ok(came.length > 0, came.map(shown).join());
  t.notMatch(came.map(({ body }) => body).join(), 'CARD1');
});
