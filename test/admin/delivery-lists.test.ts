/**
 * Lists of deliveries by state: whatever is asked for, page by page, is what the whole list has of it.
 */
import type { Page } from '../../src/api/common.ts';
import type { DeliveryView } from '../../src/api/deliveries.ts';
import { sessionBody, tariffBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { ended } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { runCommand } from '../support/resident-command.ts';
import { atLength } from '../support/share.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';

const refused = { status: 404, text: '{"status_code":2003}' };

t.test('each state is listed completely, newest first, in pages of any size', atLength, async (t) => {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' });
  const { cpo } = await routedPair(t, hub, { emsp: ({ path }) => (/[37]$/.test(path) ? refused : {}) });
  const away = { status: 503, text: '{}' };
  for (const [partyId, answer] of [
    ['ABC', ({ path }: { path: string }) => (path.includes('/T') ? refused : {})],
    ['DEF', ({ path }: { path: string }) => (path.endsWith('T5') ? away : {})],
    ['GHI', () => ({})],
  ] as const) {
    await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, answer });
    await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  }
  await admin(hub, 'PATCH', '/parties/NL-GHI', { paused: true });
  for (let index = 0; index < 9; index++) {
    await cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/T${index}`, tariffBody(`T${index}`));
    await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/S${index}`, sessionBody(`S${index}`));
  }
  const ask = async (query: string) =>
    (await admin(hub, 'GET', `/deliveries?${query}`)) as unknown as Page<DeliveryView>;
  const pages = async (query: string, limit: number) => {
    const found: string[] = [];
    for (let cursor = ''; ; ) {
      const page = await ask(`${query}&limit=${limit}${cursor}`);
      t.ok(page.items.length <= limit);
      found.push(...page.items.map(({ id }) => id));
      if (page.next_cursor === null) return found;
      cursor = `&cursor=${page.next_cursor}`;
    }
  };
  const whole = async () => (await ask('limit=1000')).items;
  const sizeOf = (state: string, items: readonly DeliveryView[]) => items.filter((one) => one.state === state).length;
  // 9 tariffs to 4 receivers and 9 sessions to one: 9 + 4 are refused, 9 are held back and one waits for its next attempt.
  await hub.settled();
  const all = await whole();
  const sizes = ['DEAD', 'PENDING', 'DELIVERED'].map((state) => sizeOf(state, all));
  t.strictSame(sizes, [13, 10, 22], 'everything has come to rest');
  const conditions: readonly [string, (one: DeliveryView) => boolean][] = [
    ['', () => true],
    ['&receiver=NL-ABC', ({ receiver }) => receiver === 'NL-ABC'],
    ['&sender=nl-cpo', ({ sender }) => sender === 'NL-CPO'],
    ['&sender=NL-EMS', ({ sender }) => sender === 'NL-EMS'],
    ['&module=sessions', ({ module }) => module === 'sessions'],
    ['&object=nl-cpo/t7', ({ object }) => object === 'NL-CPO/T7'],
  ];
  for (const state of ['DEAD', 'PENDING', 'DELIVERED']) {
    for (const [query, fits] of conditions) {
      const wanted = all.filter((one) => one.state === state && fits(one)).map(({ id }) => id);
      for (const limit of [1, 2, 7]) {
        const found = await pages(`state=${state}${query}`, limit);
        t.strictSame(found, wanted, `${state}${query}, ${limit} a page`);
        const oldest = await pages(`state=${state}${query}&order=oldest`, limit);
        t.strictSame(oldest, oldestFirst(wanted), `${state}${query}, oldest first, ${limit} a page`);
      }
    }
  }
  const [first] = all.filter(({ state }) => state === 'DEAD');
  t.strictSame(
    (await ask(`state=DEAD&from=${first?.accepted_at}`)).items.map(({ id }) => id),
    [first?.id],
  );
});

t.test('a dead letter that is written while its list is being read is in the list', async (t) => {
  let isHeld = false;
  const [mayWrite, write] = gate();
  const [isWritten, written] = gate();
  /** The list is read before the row is written, and is answered afterwards. */
  const wrap = wrapStore((store) => ({
    settle: async (...ends) => {
      if (isHeld) await mayWrite;
      await store.settle(...ends);
      if (isHeld) written();
    },
    deliveries: async (query) => {
      const rows = await store.deliveries(query);
      if (!isHeld || query.dest !== 'NL-EMS') return rows;
      write();
      await isWritten;
      return rows;
    },
  }));
  const hub = await hubFor(t, {}, { wrap });
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ status: 400, text: '{}' }) });
  isHeld = true;
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await emsp.gotCalls(1);
  await eventually('it is dead', async () => {
    const { queue } = (await admin(hub, 'GET', '/parties/NL-EMS')) as { queue: { dead: number } };
    return queue.dead === 1;
  });
  const { items } = await admin(hub, 'GET', '/deliveries?state=DEAD');
  t.match(items, [{ state: 'DEAD', object: 'NL-CPO/S1' }]);
});

t.test(
  'filters by a partner match all of its parties: in lists, re-drives, discards and the command line',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub, { emsp: () => refused });
    await partnerFor(t, hub, {
      ...{ role: 'EMSP', countryCode: 'NL', partyId: 'AAA', answer: () => refused },
      others: [{ role: 'EMSP', country_code: 'NL', party_id: 'BBB' }],
    });
    await admin(hub, 'PUT', '/routes/NL-BBB/NL-CPO', { active: true });
    await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1'));
    await hub.settled();
    t.match(await admin(hub, 'GET', '/parties/NL-AAA'), { queue: { dead: 1 } });

    for (const state of ['state=DEAD&', '', 'class=not_found&']) {
      for (const [query, wanted] of [
        ['partner=NL-AAA', ['NL-BBB']],
        ['partner=nl-bbb', ['NL-BBB']],
        ['partner=NL-AAA&receiver=NL-BBB', ['NL-BBB']],
        ['partner=NL-AAA&receiver=NL-AAA', []],
        ['partner=NL-AAA&receiver=NL-EMS', []],
        ['receiver=NL-AAA', []],
      ] as const) {
        const { items } = await admin(hub, 'GET', `/deliveries?${state}${query}`);
        const found = (items as DeliveryView[]).map(({ receiver }) => receiver);
        t.strictSame(found, wanted, `${state}${query}`);
      }
    }
    const filter = { partner: 'NL-AAA' };
    const ofBbb = { matched: 1, by_receiver: { 'NL-BBB': 1 } };
    t.match(await admin(hub, 'POST', '/discard', { filter, dry_run: true }), ofBbb);
    for (const state of ['DEAD', 'ANY'])
      t.match(await admin(hub, 'POST', '/redrive', { filter: { ...filter, state }, dry_run: true }), ofBbb);

    const env = { HUB_URL: hub.url, HUB_ADMIN_TOKEN: hub.adminToken };
    const listed = await runCommand(['deliveries', '--partner', 'NL-AAA', '--json'], env);
    t.match(JSON.parse(listed.out).items, [{ receiver: 'NL-BBB' }]);
    t.match((await runCommand(['redrive', '--partner', 'NL-AAA', '--dry-run'], env)).out, '1 matched');

    for (const path of ['/redrive', '/discard']) {
      const { id } = await admin(hub, 'POST', path, { filter });
      t.match(await ended(hub, `/redrives/${id}`), { state: 'DONE', queued: 1 }, path);
      await hub.settled();
    }
    t.match((await admin(hub, 'GET', '/deliveries?state=DISCARDED')).items, [{ receiver: 'NL-BBB' }]);

    t.match(await admin(hub, 'GET', '/parties/NL-BBB'), { id: 'NL-AAA' }, 'a party leads to its partner');
    const bearer = { Authorization: `Bearer ${hub.adminToken}` };
    for (const [method, path, body] of [
      ['POST', '/parties/NL-BBB/suspend', {}],
      ['GET', '/deliveries?partner=NL-CCC', undefined],
      ['POST', '/redrive', { filter: { partner: 'NL-CCC' } }],
      ['POST', '/discard', { filter: { partner: 'NL-CCC' } }],
    ] as const)
      t.equal((await callOnce(method, `${hub.url}/admin/v1${path}`, body, bearer)).status, 404, path);
  },
);

/** The deliveries of an event stay in the order of its receivers. */
function oldestFirst(ids: readonly string[]): string[] {
  const sequenceOf = (id: string) => Number(id.split('-', 1)[0]);
  return [...ids].sort((a, b) => sequenceOf(a) - sequenceOf(b));
}

function gate(): [opened: Promise<void>, open: () => void] {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return [opened, () => open()];
}
