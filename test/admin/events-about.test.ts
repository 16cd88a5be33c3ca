/**
 * Events of a living hub: each says whom it is about and who acted, and filters find it wherever the log is read.
 */
import { join } from 'node:path';
import type { EventView } from '../../src/api/events.ts';
import { subjects } from '../../src/domain/subject.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { sessionBody, tariffBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { itemsOf, quiet } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

type Hub = Awaited<ReturnType<typeof hubFor>>;

const list = async (hub: Hub, query: string) => (await itemsOf(hub, `/events?${query}`)) as unknown as EventView[];
const typesIn = (events: readonly EventView[]) => [...new Set(events.map(({ type }) => type))].sort();

async function streamed({ url, adminToken }: Hub, query: string): Promise<EventView[]> {
  const headers = { authorization: `Bearer ${adminToken}`, accept: 'application/x-ndjson' };
  const { text } = await callOnce('GET', `${url}/admin/v1/events?${query}`, undefined, headers);
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as EventView]));
}

/** A CPO with a second party, an eMSP that refuses one session, and a third partner that none of it concerns. */
async function scene(t: Parameters<typeof hubFor>[0]) {
  const clock = new SimulatedClock('2026-05-01T10:01:00.000Z');
  const hub = await hubFor(t, {}, { clock });
  const cpo = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO' },
    others: [{ role: 'CPO', country_code: 'NL', party_id: 'TWO' }],
    modules: [
      ['commands', 'RECEIVER'],
      ['sessions', 'SENDER'],
      ['tariffs', 'SENDER'],
    ],
    answer: ({ method }) => (method === 'POST' ? { body: { result: 'ACCEPTED', timeout: 30 } } : { body: [] }),
  });
  const emsp = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    answer: ({ path }) => (path.endsWith('/DEAD') ? { status: 404, text: '{"status_code":2003}' } : {}),
  });
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'DE', partyId: 'ELS' });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  return { hub, clock, cpo, emsp };
}

async function recorded(t: Test, hub: Hub, type: string, count = 1): Promise<void> {
  await hub.settled();
  t.equal((await list(hub, `type=${type}`)).length, count, `${count} ${type}`);
}

t.test(
  'events about partners, deliveries, commands, cases and routes are found by party and by object [D80]',
  async (t) => {
    const { hub, clock, cpo, emsp } = await scene(t);
    for (const id of ['S1', 'DEAD'])
      await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, { status: 'ACTIVE' }));
    await recorded(t, hub, 'delivery.dead');
    await recorded(t, hub, 'object.missed');
    const stop = { response_url: `${emsp.url}/ocpi/result`, session_id: 'S1' };
    await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', stop);
    await recorded(t, hub, 'orphan.armed');
    clock.advance(31_000);
    await recorded(t, hub, 'command.silent');
    clock.advance(300_000);
    await recorded(t, hub, 'orphan.pulled');
    const [found] = await itemsOf(hub, '/orphans');
    await admin(hub, 'POST', `/orphans/${String(found?.id)}/pull`);
    await recorded(t, hub, 'orphan.pulled', 2);
    await admin(hub, 'POST', `/orphans/${String(found?.id)}/resolve`, { note: 'settled' });
    const [dead] = await list(hub, 'type=delivery.dead');
    const { delivery } = (dead?.data ?? { delivery: '' }) as { delivery: string };
    await admin(hub, 'POST', `/deliveries/${delivery}/redrive`, {});
    await recorded(t, hub, 'delivery.dead', 2);
    await admin(hub, 'DELETE', '/routes/NL-EMS/NL-CPO');

    const all = await list(hub, 'limit=1000');
    for (const event of all) {
      t.ok(event.type in subjects, event.type);
      t.match(event.about, /^[a-z-]+:./, event.type);
      if (!['audit.noted', 'history.recorded'].includes(event.type))
        t.not(event.parties.length, 0, `${event.type} concerns somebody`);
    }
    const pair = ['NL-CPO', 'NL-EMS'];
    const expected: Readonly<
      Record<string, readonly [about: RegExp, object: string | null, by: string, data: object]>
    > = {
      'delivery.dead': [/^delivery:\d+-NL-EMS$/, 'NL-CPO/DEAD', 'hub', { sender: 'NL-CPO', class: 'not_found' }],
      'delivery.redriven': [/^delivery:\d+-NL-EMS$/, 'NL-CPO/DEAD', 'operator', { receiver: 'NL-EMS' }],
      'object.missed': [/^session:NL-CPO\/DEAD$/, 'NL-CPO/DEAD', 'hub', { module: 'sessions', sent: [] }],
      'command.silent': [/^command:/, 'NL-CPO/S1', 'hub', { command: 'STOP_SESSION', emsp: 'NL-EMS', cpo: 'NL-CPO' }],
      'orphan.opened': [/^orphan:/, 'NL-CPO/S1', 'hub', { kind: 'stop_without_complete', session: 'S1' }],
      'orphan.resolved': [/^orphan:/, 'NL-CPO/S1', 'operator', { note: 'settled', cpo: 'NL-CPO', emsp: 'NL-EMS' }],
      'route.set': [/^route:NL-EMS\/NL-CPO$/, null, 'operator', { emsp: 'NL-EMS', cpo: 'NL-CPO', active: true }],
      'route.removed': [/^route:NL-EMS\/NL-CPO$/, null, 'operator', { active: false }],
    };
    for (const [type, [about, object, by, data]] of Object.entries(expected)) {
      const event = all.find((one) => one.type === type);
      t.match(event, { about, object, by, data }, type);
      t.strictSame([...(event?.parties ?? [])].sort(), pair, type);
      const { seq = 0, about: subject = '' } = event ?? {};
      const filters = [...pair.map((party) => `party=${party.toLowerCase()}`), `about=${encodeURIComponent(subject)}`];
      if (object !== null) filters.push(`object=${object.toLowerCase()}`);
      for (const filter of filters) {
        t.ok(
          (await list(hub, `${filter}&type=${type}`)).some((one) => one.seq === seq),
          `${type} by ${filter}`,
        );
      }
      t.strictSame(await list(hub, `party=DE-ELS&type=${type}`), [], `${type} does not concern others`);
    }
    const pulled = all.filter(({ type }) => type === 'orphan.pulled');
    t.strictSame(
      pulled.map(({ by }) => by),
      ['hub', 'operator'],
    );
    for (const query of ['party=NL-EMS', 'party=NL-CPO', 'object=NL-CPO/S1', `about=delivery:${delivery}`]) {
      t.strictSame(await streamed(hub, query), await list(hub, query), `${query} as a stream`);
    }
    t.strictSame(
      typesIn(await list(hub, 'object=nl-cpo/dead')),
      ['delivery.dead', 'delivery.redriven', 'object.missed', 'object.put'],
      'the story of one object',
    );
    t.ok((await list(hub, 'party=NL-EMS&type=object.put')).length > 0, 'a push concerns its receiver');
  },
);

t.test('acts of operators are recorded as theirs, and a circuit says why it opened [D80]', async (t) => {
  const { hub, cpo } = await scene(t);
  const put = (circuit: string, state: string) => admin(hub, 'POST', `/parties/NL-CPO/circuits/${circuit}`, { state });
  await put('async', 'open');
  await put('async', 'closed');
  const circuits = () => list(hub, 'type=circuit');
  await hub.settled();
  t.equal((await circuits()).length, 2, 'both are recorded');
  t.match(await circuits(), [
    {
      type: 'circuit.opened',
      ...{ about: 'partner:NL-CPO', by: 'operator', who: 'admin', party: null },
      data: { circuit: 'async', reason: 'opened by an operator' },
    },
    {
      type: 'circuit.closed',
      by: 'operator',
      who: 'admin',
      data: { circuit: 'async', reason: 'closed by an operator' },
    },
  ]);
  for (const party of ['NL-CPO', 'NL-TWO']) {
    t.equal((await list(hub, `party=${party}&type=circuit`)).length, 2, `${party} is a party of this partner`);
  }
  await put('sync', 'open');
  const opened = (await admin(hub, 'GET', '/parties/NL-CPO')) as { circuits: { circuit: string; failures: number }[] };
  t.match(opened.circuits, [{ circuit: 'sync', state: 'open', failures: 0 }, {}], 'and no call failed');

  await admin(hub, 'PATCH', '/parties/NL-CPO', { paused: true });
  await admin(hub, 'PUT', '/parties/NL-CPO/endpoints', {
    endpoints: [{ identifier: 'tariffs', role: 'SENDER', url: `${cpo.url}/ocpi/2.2.1/tariffs` }],
  });
  await admin(hub, 'POST', '/parties/NL-CPO/pull/tariffs', {});
  await recorded(t, hub, 'pull.done');
  const { id: job } = await admin(hub, 'POST', '/parties/NL-EMS/resync', { module: 'tariffs' });
  await recorded(t, hub, 'job.ended');
  await admin(hub, 'POST', '/parties/NL-CPO/suspend', {});
  const by = (events: readonly EventView[]) => Object.fromEntries(events.map((event) => [event.type, event.by]));
  t.match(by(await list(hub, 'party=NL-CPO')), {
    ...{ 'partner.added': 'operator', 'partner.registered': 'partner', 'partner.changed': 'operator' },
    ...{ 'partner.endpointsSet': 'operator', 'partner.suspended': 'operator' },
    ...{ 'route.set': 'operator', 'pull.started': 'operator', 'pull.done': 'hub' },
  });
  t.match(await list(hub, 'party=NL-EMS&type=job'), [
    { type: 'job.started', about: `job:${String(job)}`, by: 'operator' },
    { type: 'job.ended', by: 'hub' },
  ]);
  t.strictSame(
    (await list(hub, 'about=partner:NL-CPO'))
      .map(({ type }) => type)
      .filter((type) => !/^(partner|circuit)\./.test(type)),
    [],
    'the life of a partner is what is about it',
  );
});

t.test('a circuit says whether failures (and how many) or credentials opened it', async (t) => {
  let isIll = true;
  // A retry of one object can come before the first try of another, so the count may be above three.
  const hub = await hubFor(t, { HUB_CIRCUIT_FAILURES: '3', HUB_RETRY_SCHEDULE_S: '0.01' });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    answer: () => (isIll ? { status: 503, text: '{}' } : {}),
  });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await Promise.all(['T1', 'T2', 'T3'].map((id) => cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariffBody(id))));
  await recorded(t, hub, 'circuit.opened');
  t.match(await list(hub, 'party=NL-EMS&type=circuit.opened'), [
    { about: 'partner:NL-EMS', by: 'hub', data: { circuit: 'async', reason: /^[0-9]+ failures in a row$/ } },
  ]);
  isIll = false;
  await admin(hub, 'POST', '/parties/NL-EMS/suspend', {});
  const { initial_token } = await admin(hub, 'POST', '/parties/NL-EMS/initial-token', {});
  await emsp.registerAgain(String(initial_token));
  await recorded(t, hub, 'circuit.closed');
  t.match(await list(hub, 'type=circuit.closed'), [
    { party: 'NL-EMS', by: 'partner', data: { reason: 'the partner exchanged credentials' } },
  ]);
  await quiet(hub);
});

t.test('events of an older store are found by their streams and data', async (t) => {
  const dataDir = join(directoryFor(t), 'data');
  const first = await hubFor(t, {}, {}, dataDir);
  await partnerFor(t, first, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  await first.close();
  const store = await openLevelStore({ directory: join(dataDir, 'store'), node: 'test' });
  const fence = store.held();
  if (fence === null) throw new Error('no fence');
  const old = { party: null, correlationId: null, to: [], body: null, at: new Date().toISOString() };
  await store.append({
    ...{ fence, idem: 'old' },
    events: [
      {
        ...old,
        stream: 'partner:NL-CPO',
        type: 'circuit.opened',
        data: { circuit: 'sync', reason: '1 failures in a row' },
      },
      {
        ...{ ...old, stream: 'delivery:1-NL-CPO', type: 'delivery.dead' },
        data: { delivery: '1-NL-CPO', receiver: 'NL-CPO', class: 'expired', reason: 'late' },
      },
      { ...old, stream: 'command:c', type: 'command.silent', data: {} },
      { ...old, stream: 'orphan:o', type: 'orphan.opened', data: {} },
    ],
  });
  await store.close();
  const hub = await hubFor(t, {}, {}, dataDir);
  t.strictSame(typesIn(await list(hub, 'party=NL-CPO&type=circuit')), ['circuit.opened']);
  t.strictSame(typesIn(await list(hub, 'party=NL-CPO&type=delivery')), ['delivery.dead']);
  for (const about of ['command:c', 'orphan:o']) {
    const found = await list(hub, `type=${about.split(':')[0]}`);
    t.match(found, [{ about, object: null, by: 'hub' }]);
    t.strictSame(
      found.map(({ parties }) => parties),
      [[]],
    );
  }
});

t.test('the list of orphans has only cases, and removing a route twice succeeds [D77]', async (t) => {
  const { hub, cpo, emsp } = await scene(t);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { status: 'ACTIVE' }));
  const stop = { response_url: `${emsp.url}/ocpi/result`, session_id: 'S1' };
  await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', stop);
  await hub.settled();
  t.equal((await itemsOf(hub, '/orphans?state=GRACE')).length, 1, 'it is watched');
  t.strictSame(await itemsOf(hub, '/orphans'), [], 'a watch is no case');

  const remove = async (pair: string) => {
    const headers = { authorization: `Bearer ${hub.adminToken}` };
    return (await callOnce('DELETE', `${hub.url}/admin/v1/routes/${pair}`, undefined, headers)).status;
  };
  t.equal(await remove('NL-EMS/NL-CPO'), 204);
  t.equal(await remove('nl-ems/nl-cpo'), 204, 'once more');
  t.equal(await remove('DE-ELS/NL-CPO'), 204, 'and where there never was one');
  t.equal((await list(hub, 'type=route.removed')).length, 1, 'of which nothing is recorded');
  t.equal(await remove('XX-XXX/NL-CPO'), 404, 'a party that is not known is a slip');
});
