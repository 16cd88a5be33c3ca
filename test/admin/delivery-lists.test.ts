/**
 * Lists of deliveries by state: whatever is asked for, page by page, is what the whole list has of it.
 */
import type { Page } from '../../src/api/common.ts';
import type { DeliveryView } from '../../src/api/deliveries.ts';
import { sessionBody, tariffBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';

t.test('each state is listed whole, newest first, in pages of any size', atLength, async (t) => {
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' });
  const refused = { status: 404, text: '{"status_code":2003}' };
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

t.test('a dead letter that is written while its list is read is in the list', async (t) => {
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
