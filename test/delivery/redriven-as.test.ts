/** What a re-drive sends when the object went on after its dead letter. [REDRIVEN-AS-1, REDRIVEN-AS-2, REDRIVEN-AS-3] */
import { locationBody, sessionBody, tariffBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { arrivals, quiet } from '../support/observed.ts';
import { admin, eventually, type Received, type Reply } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';
import { at, deliveriesOf, Holding } from './watched.ts';

const path = (module: string, id: string) => `/2.2.1/${module}/NL/CPO/${id}`;
const shown = ({ method, body }: Received) => [method, body === '' ? null : (JSON.parse(body) as object)];

async function scene(t: Test) {
  const hub = await hubFor(t);
  const answers = { reply: (_: Received): Reply | Promise<Reply> => ({}) };
  const { cpo, emsp } = await routedPair(t, hub, { emsp: (received) => answers.reply(received) });
  const push = async (method: string, url: string, body?: object) => {
    await cpo.push(method, url, body);
    await quiet(hub);
  };
  /** Pushes what the eMSP refuses. */
  const refused = async (method: string, url: string, body?: object) => {
    answers.reply = () => ({ status: 400 });
    await push(method, url, body);
    answers.reply = () => ({});
  };
  const route = (active: boolean) => admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active });
  const planned = async (options: object = {}) => {
    const { matched, stale } = await admin(hub, 'POST', '/redrive', { filter: {}, dry_run: true, ...options });
    return { matched, stale };
  };
  /** The plan of a re-drive of all dead letters, and what it brings. */
  const redriven = async (options: object = {}) => {
    const plan = await planned(options);
    const came = await arrivals(hub, emsp, () => admin(hub, 'POST', '/redrive', { filter: {}, ...options }));
    return { plan, came: came.map(shown) };
  };
  /** Pushes and does not wait for what follows. */
  const put = (url: string, body: object) => cpo.push('PUT', url, body);
  const patch = (url: string, body: object) => cpo.push('PATCH', url, body);
  return { hub, emsp, answers, push, put, patch, refused, route, planned, redriven };
}

for (const [title, date] of [
  ['of the same last_updated', at(2)],
  ['of an older last_updated', at(1)],
] as const) {
  t.test(`nothing, when a later version ${title} has arrived [D46]`, async (t) => {
    const { push, refused, redriven } = await scene(t);
    await refused('PUT', path('tariffs', 'T1'), tariffBody('T1', { currency: 'EUR', last_updated: at(2) }));
    await push('PUT', path('tariffs', 'T1'), tariffBody('T1', { currency: 'USD', last_updated: date }));
    t.same(await redriven(), { plan: { matched: 1, stale: 1 }, came: [] });
  });
}

t.test('a re-drive sends nothing of a tariff that was deleted while its receiver was owed nothing', async (t) => {
  const { push, refused, route, redriven } = await scene(t);
  await refused('PUT', path('tariffs', 'T1'), tariffBody('T1'));
  await route(false);
  await push('DELETE', path('tariffs', 'T1'));
  await route(true);
  t.same(await redriven(), { plan: { matched: 1, stale: 1 }, came: [] });
});

t.test(
  'a re-drive sends the deletion of a tariff, also without a rule between the two, unless there is one again [D62]',
  async (t) => {
    const { push, refused, route, redriven } = await scene(t);
    for (const id of ['T1', 'T2']) {
      await push('PUT', path('tariffs', id), tariffBody(id));
      await refused('DELETE', path('tariffs', id));
    }
    await route(false);
    await push('PUT', path('tariffs', 'T2'), tariffBody('T2'));
    t.same(await redriven(), { plan: { matched: 2, stale: 1 }, came: [['DELETE', null]] });
  },
);

t.test('a re-drive sends the whole location, when later changes passed its receiver by', async (t) => {
  const { push, refused, route, redriven } = await scene(t);
  const url = path('locations', 'L1');
  await push('PUT', url, locationBody('L1'));
  await refused('PATCH', url, { name: 'Neu', last_updated: at(1) });
  await route(false);
  await push('PATCH', url, { address: 'Neue Straße 1', last_updated: at(2) });
  await route(true);
  const { plan, came } = await redriven();
  t.same(plan, { matched: 1, stale: 0 });
  t.same(came, [['PUT', locationBody('L1', { name: 'Neu', address: 'Neue Straße 1', last_updated: at(2) })]]);
});

t.test('a re-drive sends nothing of a session that was released whole when its rule was set again [D63]', async (t) => {
  const { push, refused, route, redriven } = await scene(t);
  const url = path('sessions', 'S1');
  await push('PUT', url, sessionBody('S1'));
  await refused('PATCH', url, { kwh: 5, last_updated: at(1) });
  await route(false);
  await push('PATCH', url, { status: 'COMPLETED', last_updated: at(2) });
  await route(true);
  t.same(await redriven(), { plan: { matched: 1, stale: 1 }, came: [] });
});

t.test('a re-drive sends a session as it was, when nothing came after it', async (t) => {
  const { push, refused, redriven } = await scene(t);
  const url = path('sessions', 'S1');
  await push('PUT', url, sessionBody('S1'));
  await refused('PATCH', url, { kwh: 5, last_updated: at(1) });
  t.same(await redriven(), {
    plan: { matched: 1, stale: 0 },
    came: [['PATCH', { kwh: 5, last_updated: at(1) }]],
  });
});

t.test(
  'a session whose whole was refused in place of a PATCH is re-driven as that whole [DELIVERY-ROW-2]',
  async (t) => {
    const { hub, emsp, answers, push, patch, route, redriven } = await scene(t);
    const period = (kwh: number) => ({
      charging_periods: [{ start_date_time: at(kwh), dimensions: [{ type: 'ENERGY', volume: 1 }] }],
    });
    const change = (kwh: number) => ({ kwh, ...period(kwh), last_updated: at(kwh) });
    const url = path('sessions', 'S1');
    await push('PUT', url, sessionBody('S1', change(1)));
    answers.reply = ({ method }) => ({ status: method === 'PATCH' ? 404 : 400 });
    await push('PATCH', url, change(2));
    answers.reply = () => ({ status: 400 });
    t.match(await redriven(), { came: [['PUT', { kwh: 2 }]] }, 'it is refused once more');
    const holding = new Holding();
    answers.reply = holding.answer;
    const came = await arrivals(hub, emsp, async () => {
      await admin(hub, 'POST', '/redrive', { filter: {} });
      await hub.settled(emsp);
      await patch(url, change(3));
      holding.releaseAll();
    });
    t.match(came.map(shown), [
      ['PUT', { kwh: 2, charging_periods: [...period(1).charging_periods, ...period(2).charging_periods] }],
      ['PUT', { kwh: 3 }],
    ]);
    answers.reply = ({ method }) => ({ status: method === 'PATCH' ? 404 : 400 });
    await push('PATCH', url, change(4));
    answers.reply = () => ({});
    await route(false);
    t.same((await redriven({ routing: 'then' })).came, [['PATCH', change(4)]], 'without a rule no whole');
  },
);

t.test('a re-drive sends one whole object, and no part that it contains', async (t) => {
  const { push, refused, route, planned, redriven } = await scene(t);
  const url = path('locations', 'L1');
  await push('PUT', url, locationBody('L1'));
  await refused('PATCH', url, { name: 'A', last_updated: at(1) });
  await refused('PATCH', url, { name: 'B', last_updated: at(2) });
  await route(false);
  await push('PATCH', url, { name: 'C', last_updated: at(3) });
  await route(true);
  t.match(await planned({ force: true }), { matched: 2, stale: 0 });
  const { plan, came } = await redriven();
  t.match(plan, { matched: 2, stale: 1 }, 'the plan counts what the whole contains');
  t.match(came, [['PUT', { name: 'C' }]]);
  t.equal(came.length, 1);
});

t.test(
  'a re-drive sends one whole session, also when the filter leaves out its first dead letters [REDRIVEN-AS-5]',
  async (t) => {
    const { hub, answers, put, patch, refused, planned, redriven } = await scene(t);
    const url = path('sessions', 'S1');
    const holding = new Holding();
    answers.reply = holding.answer;
    await put(url, sessionBody('S1', { kwh: 1 }));
    await patch(url, { kwh: 2, last_updated: at(2) });
    holding.releaseAll({ status: 400 });
    await quiet(hub);
    for (const kwh of [3, 4]) await refused('PATCH', url, { kwh, last_updated: at(kwh) });
    t.match(await planned(), { matched: 4, stale: 0 }, 'with the first one each goes as it was');
    const seqs = (await deliveriesOf(hub)).map(({ seq }) => seq).sort((a, b) => a - b);
    const { plan, came } = await redriven({ filter: { from_seq: seqs[1] } });
    t.match(plan, { matched: 3, stale: 2 });
    t.match(came, [['PUT', { kwh: 4 }]]);
    t.equal(came.length, 1, 'nothing older follows');
  },
);

t.test(
  'a re-drive sends a session in order, also when the first of its dead letters dies again [WHOLES-3]',
  async (t) => {
    const { hub, emsp, answers, put, patch } = await scene(t);
    const url = path('sessions', 'S1');
    const period = (kwh: number) => ({
      charging_periods: [{ start_date_time: at(kwh), dimensions: [{ type: 'ENERGY', volume: 1 }] }],
    });
    const holding = new Holding();
    answers.reply = holding.answer;
    await put(url, sessionBody('S1', { kwh: 1, ...period(1) }));
    for (const kwh of [2, 3, 4]) await patch(url, { kwh, ...period(kwh), last_updated: at(kwh) });
    holding.releaseAll({ status: 400 });
    await quiet(hub);
    const refusing = new Holding();
    answers.reply = refusing.answer;
    const came = await arrivals(hub, emsp, async () => {
      await admin(hub, 'POST', '/redrive', { filter: {} });
      await eventually('all of them wait', async () => {
        return (await deliveriesOf(hub)).every(({ state }) => state === 'PENDING');
      });
      refusing.releaseOne({ status: 400 });
      refusing.releaseAll();
    });
    t.same(
      came.map(({ method, body }) => {
        const { kwh, charging_periods: periods } = JSON.parse(body) as { kwh: number; charging_periods: unknown[] };
        return [method, kwh, periods.length];
      }),
      [
        ['PUT', 1, 1],
        ['PUT', 2, 2],
        ['PUT', 3, 3],
        ['PUT', 4, 4],
      ],
    );
  },
);

t.test(
  'a re-drive sends nothing older than what arrived, also when a replay of that failed since [REDRIVEN-AS-1]',
  async (t) => {
    const { hub, emsp, push, refused, redriven, answers } = await scene(t);
    const url = path('tariffs', 'T1');
    await refused('PUT', url, tariffBody('T1', { currency: 'EUR', last_updated: at(1) }));
    await push('PUT', url, tariffBody('T1', { currency: 'USD', last_updated: at(2) }));
    answers.reply = () => ({ status: 400 });
    await arrivals(hub, emsp, () =>
      admin(hub, 'POST', '/redrive', { filter: { state: 'DELIVERED', module: 'tariffs' } }),
    );
    answers.reply = () => ({});
    t.match(await redriven(), { plan: { matched: 2, stale: 1 }, came: [['PUT', { currency: 'USD' }]] });
  },
);

t.test('a re-drive sends a location that became private as it was, though it changed since', async (t) => {
  const { push, refused, redriven } = await scene(t);
  const url = path('locations', 'L1');
  await push('PUT', url, locationBody('L1'));
  await refused('PATCH', url, { publish: false, last_updated: at(1) });
  await push('PATCH', url, { name: 'Neu', last_updated: at(2) });
  t.same(await redriven(), {
    plan: { matched: 1, stale: 0 },
    came: [['PATCH', { publish: false, last_updated: at(1) }]],
  });
});

t.test(
  'what a re-drive brought after all is ended at its receiver as what was never dead [REDRIVEN-AS-6]',
  async (t) => {
    const { hub, emsp, push, refused, route, redriven } = await scene(t);
    await refused('PUT', path('locations', 'L1'), locationBody('L1'));
    await refused('PUT', path('locations', 'L2'), locationBody('L2'));
    await refused('PUT', path('tariffs', 'T1'), tariffBody('T1'));
    t.equal((await redriven()).came.length, 3);
    const came = await arrivals(hub, emsp, async () => {
      await push('PATCH', path('locations', 'L1'), { publish: false, last_updated: at(1) });
      await push('PATCH', path('locations', 'L2'), { name: 'Neu', last_updated: at(1) });
      await route(false);
      await push('DELETE', path('tariffs', 'T1'));
    });
    t.match(came.map(shown), [
      ['PATCH', { publish: false }],
      ['PUT', { name: 'Neu' }],
      ['DELETE', null],
    ]);
    t.match(
      (await admin(hub, 'GET', '/trace/NL-CPO%2FT1')).steps,
      [{}, {}, {}, {}, { summary: 'tariffs T1 was put back for NL-EMS: the next one goes to it as a whole' }, {}],
      'the trace says so',
    );
  },
);

t.test('a replay to the receivers of then sends no more than then', async (t) => {
  const { hub, push, refused, route, redriven } = await scene(t);
  const url = path('locations', 'L1');
  await push('PUT', url, locationBody('L1'));
  await refused('PATCH', url, { name: 'Neu', last_updated: at(1) });
  await route(false);
  await push('PATCH', url, { name: 'Secret', last_updated: at(2) });
  const { came } = await redriven({ routing: 'then' });
  t.same(came, [['PATCH', { name: 'Neu', last_updated: at(1) }]]);
  await hub.settled();
});

for (const [module, id, whole, part] of [
  ['locations', 'L1', locationBody('L1', { name: 'Old' }), { name: 'New', last_updated: at(1) }],
  ['sessions', 'S1', sessionBody('S1'), { kwh: 5, last_updated: at(1) }],
] as const) {
  t.test(`to the receivers of then nothing older of ${module} over what is newer [REDRIVEN-AS-3]`, async (t) => {
    const { push, route, redriven } = await scene(t);
    const url = path(module, id);
    await push('PUT', url, whole);
    await push('PATCH', url, part);
    await route(false);
    await push('PATCH', url, { ...part, last_updated: at(2) });
    t.same(await redriven({ filter: { state: 'ANY' }, routing: 'then' }), {
      plan: { matched: 2, stale: 1 },
      came: [['PATCH', part]],
    });
  });
}

t.test('a re-drive sends nothing when the rule ends while the present whole waits to be sent [WHOLES-4]', async (t) => {
  const { hub, emsp, push, route } = await scene(t);
  const pause = (paused: boolean) => admin(hub, 'PATCH', '/parties/NL-EMS', { paused });
  const url = path('locations', 'L1');
  await push('PUT', url, locationBody('L1', { name: 'Old' }));
  await push('PATCH', url, { name: 'New', last_updated: at(1) });
  const [first] = (await deliveriesOf(hub)).filter(({ method }) => method === 'PUT');
  await pause(true);
  await admin(hub, 'POST', `/deliveries/${first?.id}/redrive`, {});
  await route(false);
  t.same((await arrivals(hub, emsp, () => pause(false))).map(shown), []);
  t.match(await deliveriesOf(hub, '?state=DEAD'), [{ id: first?.id, reason: 'no routing rule' }]);
});

const evse = (uid: string, status: string, last_updated: string) => ({ uid, status, connectors: [], last_updated });

t.test(
  'a re-drive sends nothing of one EVSE, when the whole arrived in place of a later change of another one',
  async (t) => {
    const { push, refused, redriven } = await scene(t);
    const url = path('locations', 'L1');
    await push('PUT', url, locationBody('L1'));
    await refused('PATCH', `${url}/EVSE1`, { status: 'CHARGING', last_updated: at(1) });
    await refused('PATCH', `${url}/EVSE1`, { status: 'BLOCKED', last_updated: at(2) });
    await push('PUT', `${url}/EVSE2`, evse('EVSE2', 'AVAILABLE', at(3)));
    t.same(await redriven(), { plan: { matched: 2, stale: 2 }, came: [] });
  },
);

t.test('a re-drive sends one EVSE, when a later change of another one arrived unchanged', async (t) => {
  const { hub, emsp, push } = await scene(t);
  const url = path('locations', 'L1');
  await push('PUT', url, locationBody('L1'));
  await push('PATCH', `${url}/EVSE1`, { status: 'CHARGING', last_updated: at(1) });
  await push('PUT', `${url}/EVSE2`, evse('EVSE2', 'AVAILABLE', at(2)));
  const change = (await deliveriesOf(hub)).find(({ method }) => method === 'PATCH');
  const came = await arrivals(hub, emsp, () => admin(hub, 'POST', `/deliveries/${change?.id}/redrive`, {}));
  t.same(came.map(shown), [['PATCH', { status: 'CHARGING', last_updated: at(1) }]]);
});

for (const [what, isRouted] of [
  ['goes as a whole when its rule holds', true],
  ['is not sent either when its rule has ended', false],
] as const) {
  t.test(`nothing while a later change waits, which ${what}`, async (t) => {
    const { hub, emsp, answers, push, patch, route, planned } = await scene(t);
    const pause = (paused: boolean) => admin(hub, 'PATCH', '/parties/NL-EMS', { paused });
    const url = path('locations', 'L1');
    await push('PUT', url, locationBody('L1'));
    const holding = new Holding();
    answers.reply = holding.answer;
    await patch(url, { name: 'A', last_updated: at(1) });
    await hub.settled(emsp);
    await patch(url, { address: 'B', last_updated: at(2) });
    await pause(true);
    holding.releaseOne({ status: 400 });
    await hub.settled();
    answers.reply = () => ({});
    t.same(await planned(), { matched: 1, stale: 1 });
    if (!isRouted) await route(false);
    const came = await arrivals(hub, emsp, () => pause(false));
    t.match(came.map(shown), isRouted ? [['PUT', { name: 'A', address: 'B' }]] : []);
  });
}

t.test('a re-drive sends nothing of one EVSE while a later change of another one waits behind it', async (t) => {
  const { hub, emsp, answers, push, patch, put, planned } = await scene(t);
  const pause = (paused: boolean) => admin(hub, 'PATCH', '/parties/NL-EMS', { paused });
  const url = path('locations', 'L1');
  await push('PUT', url, locationBody('L1'));
  const holding = new Holding();
  answers.reply = holding.answer;
  await patch(`${url}/EVSE1`, { status: 'CHARGING', last_updated: at(1) });
  await hub.settled(emsp);
  await put(`${url}/EVSE2`, evse('EVSE2', 'AVAILABLE', at(2)));
  await pause(true);
  holding.releaseOne({ status: 400 });
  await hub.settled();
  answers.reply = () => ({});
  t.same(await planned(), { matched: 1, stale: 1 });
  const came = await arrivals(hub, emsp, () => pause(false));
  t.match(came.map(shown), [['PUT', { id: 'L1', evses: [{ status: 'CHARGING' }, { uid: 'EVSE2' }] }]]);
});

t.test(
  'a re-drive sends nothing of a location that its receiver never got, once the rule has ended [WHOLES-4]',
  async (t) => {
    const { hub, emsp, answers, put, patch, route } = await scene(t);
    const pause = (paused: boolean) => admin(hub, 'PATCH', '/parties/NL-EMS', { paused });
    const url = path('locations', 'L1');
    const holding = new Holding();
    answers.reply = holding.answer;
    await put(url, locationBody('L1'));
    await hub.settled(emsp);
    await patch(url, { name: 'New', last_updated: at(1) });
    await pause(true);
    await route(false);
    holding.releaseOne({ status: 400 });
    await hub.settled();
    answers.reply = () => ({});
    t.same((await arrivals(hub, emsp, () => pause(false))).map(shown), []);
    const [part] = await deliveriesOf(hub, '?state=DEAD');
    t.match(part, { method: 'PATCH', reason: 'no routing rule' });
    const replay = { filter: { from_seq: Number.parseInt(part?.id ?? '', 10) }, routing: 'then' };
    t.same((await arrivals(hub, emsp, () => admin(hub, 'POST', '/redrive', replay))).map(shown), []);
    t.match(await deliveriesOf(hub, '?state=DEAD'), [{ reason: 'no whole object to send' }, { method: 'PUT' }]);
  },
);

t.test('a re-drive sends nothing of a private location over what a resync sent of it [REDRIVEN-AS-1]', async (t) => {
  const { hub, emsp, push, redriven } = await scene(t);
  const url = path('locations', 'L1');
  await push('PUT', url, locationBody('L1'));
  await push('PUT', url, locationBody('L1', { publish: false, last_updated: at(1) }));
  await push('PATCH', url, { name: 'Hidden', last_updated: at(2) });
  const came = await arrivals(hub, emsp, () => admin(hub, 'POST', '/parties/NL-EMS/resync', { module: 'locations' }));
  t.match(came.map(shown), [['PATCH', { publish: false }]]);
  t.match(await redriven({ filter: { state: 'DELIVERED', to_seq: 1_000 } }), {
    plan: { matched: 3, stale: 2 },
    came: [['PATCH', { publish: false }]],
  });
});

t.test('a re-drive sends no digest of an erased person, nor does the next change', async (t) => {
  const { hub, emsp, push, refused, redriven } = await scene(t);
  const url = path('sessions', 'S1');
  await push('PUT', url, sessionBody('S1'));
  await refused('PATCH', url, { kwh: 5, last_updated: at(1) });
  await admin(hub, 'POST', '/erase', { uid: 'CARD1' });
  t.same(await redriven(), { plan: { matched: 1, stale: 1 }, came: [] });
  const came = await arrivals(hub, emsp, () => push('PATCH', url, { kwh: 6, last_updated: at(2) }));
  t.same(came.map(shown), [['PATCH', { kwh: 6, last_updated: at(2) }]]);
});

const card = (country_code: string, party_id: string) => ({
  cdr_token: { country_code, party_id, uid: 'CARD2', type: 'RFID', contract_id: 'SECRET' },
});

for (const [whose, changed] of [
  ['an eMSP without a rule', card('NL', 'EMC')],
  ['an unknown eMSP', card('NL', 'XXX')],
  ['the hub', card('XX', 'HUB')],
  ['no party', { cdr_token: { uid: 'CARD2', type: 'RFID', contract_id: 'SECRET' } }],
] as const) {
  t.test(`nothing of a session whose card is now that of ${whose} [D62]`, async (t) => {
    const { hub, emsp, push, refused, redriven } = await scene(t);
    await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMC' });
    for (const id of ['S1', 'S2', 'S3', 'S4']) {
      // Of S3 and S4 the eMSP refuses already the whole.
      await (id < 'S3' ? push : refused)('PUT', path('sessions', id), sessionBody(id));
      await refused('PATCH', path('sessions', id), { kwh: 2, last_updated: at(1) });
      const now = { ...changed, kwh: 3, last_updated: at(2) };
      if (id === 'S1' || id === 'S3') await push('PATCH', path('sessions', id), now);
      else await push('PUT', path('sessions', id), sessionBody(id, now));
    }
    const dead = await deliveriesOf(hub, '?state=DEAD');
    t.equal(dead.length, 6);
    const headers = { Authorization: `Bearer ${hub.adminToken}` };
    const came = await arrivals(hub, emsp, async () => {
      for (const { id } of dead)
        t.equal((await callOnce('POST', `${hub.url}/admin/v1/deliveries/${id}/redrive`, {}, headers)).status, 409, id);
    });
    t.same(came, []);
    t.same(await redriven(), { plan: { matched: 6, stale: 6 }, came: [] });
  });
}

t.test('a replay to the receivers of then sends a session whose card is still theirs', async (t) => {
  const { push, refused, route, redriven } = await scene(t);
  const url = path('sessions', 'S1');
  await push('PUT', url, sessionBody('S1'));
  await refused('PATCH', url, { kwh: 5, last_updated: at(1) });
  await route(false);
  await push('PATCH', url, { kwh: 6, last_updated: at(2) });
  const { came } = await redriven({ routing: 'then' });
  t.same(came, [['PATCH', { kwh: 5, last_updated: at(1) }]]);
});
