/**
 * Objects of the largest size: pages of them, and a backlog of them that is read from the log, stay within what memory has.
 */
import { largeTurn } from '../../src/kit/turns.ts';
import { sessionBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { arrivals, idsOf, linksOf } from '../support/observed.ts';
import { type Answer, admin, type PlainPartner } from '../support/plain-partner.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';

const padding = 'x'.repeat(1_000_000);
const count = isAtLength ? 20 : 12;
const ids = Array.from({ length: count }, (_, n) => `S${String(n).padStart(2, '0')}`);
const list = '/2.2.1/sessions?date_from=2020-01-01T00:00:00Z';

async function pushAll(cpo: PlainPartner): Promise<void> {
  for (const id of ids) {
    const answer = await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, { padding }));
    if (answer.status !== 200) throw new Error(answer.text);
  }
}

t.test('a page of large objects ends early, and the next page misses nothing [D31, D32]', atLength, async (t) => {
  const { cpo, emsp } = await routedPair(t, await hubFor(t));
  await pushAll(cpo);
  const pages = async (next: (page: Answer, seen: number) => string | undefined): Promise<string[]> => {
    const seen: string[] = [];
    for (let path: string | undefined = list; path; ) {
      const page = await emsp.call('GET', path);
      t.equal(page.headers.get('x-total-count'), String(count));
      t.ok(page.text.length < 10_000_000, `a page of ${page.text.length} characters`);
      seen.push(...idsOf(page));
      path = next(page, seen.length);
    }
    return seen;
  };
  const byLink = await pages((page) =>
    linksOf(page)
      .get('next')
      ?.replace(/^.*(?=\/2\.2\.1\/)/, ''),
  );
  t.strictSame(byLink, ids, 'by the link');
  let offset = 0;
  const byLimit = await pages((page) => {
    offset += Number(page.headers.get('x-limit'));
    return offset < count ? `${list}&offset=${offset}` : undefined;
  });
  t.strictSame(byLimit, ids, 'by counting X-Limit');
  const byCount = await pages((_, seen) => (seen < count ? `${list}&offset=${seen}` : undefined));
  t.strictSame(byCount, ids, 'by counting what came');
  const small = await emsp.call('GET', `${list}&limit=3`);
  t.strictSame(
    [idsOf(small).length, small.headers.get('x-limit')],
    [3, '3'],
    'a page that fits is as long as asked for',
  );
});

t.test('a large body is checked in another turn than the one in which it is parsed [ADMISSION-6]', async (t) => {
  const order: string[] = [];
  const wrap = wrapStore((store) => ({
    append: (commit) => {
      if (commit.events[0]?.type === 'object.put') order.push('checked');
      return store.append(commit);
    },
  }));
  const { cpo } = await routedPair(t, await hubFor(t, {}, { wrap }));
  const { parse } = JSON;
  t.teardown(() => {
    JSON.parse = parse;
  });
  JSON.parse = (text, reviver) => {
    if (text.includes('"id":"S1"')) {
      JSON.parse = parse;
      order.push('parsed');
      void largeTurn('NL-OTH')?.then(() => order.push('another large text'));
    }
    return parse(text, reviver);
  };
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { padding }));
  t.strictSame(order, ['parsed', 'another large text', 'checked']);
});

t.test(
  'a large object is changed in another turn than the one in which it is read [ADMISSION-6, INGEST-6]',
  async (t) => {
    const order: string[] = [];
    let isWatched = false;
    const wrap = wrapStore((store) => ({
      async get(key) {
        const row = await store.get(key);
        if (isWatched && key.kind === 'sessions') {
          order.push('read');
          void largeTurn('NL-OTH')?.then(() => order.push('another large text'));
        }
        return row;
      },
      append: (commit) => {
        if (isWatched) order.push('changed');
        return store.append(commit);
      },
    }));
    const { cpo } = await routedPair(t, await hubFor(t, {}, { wrap }));
    await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { padding }));
    isWatched = true;
    await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/S1', { last_updated: '2026-01-02T03:05:00Z', kwh: 2 });
    isWatched = false;
    t.strictSame(order.slice(0, 3), ['read', 'another large text', 'changed']);
  },
);

t.test(
  'changes of one large object that arrive together are worked out one after the other, each on the result of the one before [RECORDER-2, INGEST-6]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub);
    const path = '/2.2.1/sessions/NL/CPO/S1';
    const periods = Array.from({ length: 6_000 }, (_, n) => ({
      start_date_time: new Date(n).toISOString(),
      dimensions: [],
    }));
    await cpo.push('PUT', path, sessionBody('S1', { charging_periods: periods }));
    const added = Array.from({ length: 5 }, (_, n) => ({ ...periods[n], cost: `p${n}` }));
    // The last of those that are there is left out, and the others go to the end.
    const patches = added.map((period) =>
      cpo.call('PATCH', path, {
        last_updated: '2026-01-02T03:05:00Z',
        charging_periods: [periods[0], period, periods[1]],
      }),
    );
    const kwh = cpo.call('PATCH', path, { last_updated: '2026-01-02T03:05:00Z', kwh: 77 });
    for (const { status } of await Promise.all([...patches, kwh])) t.equal(status, 200);
    const { store } = hub.created.context;
    const logged = await store.history('sessions/NL-CPO/s1', 0, 100);
    const order = logged.flatMap(({ body }) => /"cost":"(p\d)"/.exec(body ?? '')?.slice(1) ?? []);
    const { body } = (await store.get({ kind: 'sessions', owner: 'NL-CPO', id: 's1' })) ?? {};
    const session = JSON.parse(body ?? '') as { kwh: number; charging_periods: { cost?: string }[] };
    t.strictSame([order.toSorted(), session.kwh], [['p0', 'p1', 'p2', 'p3', 'p4'], 77]);
    t.equal(session.charging_periods.length, 6_005);
    t.strictSame(
      session.charging_periods.slice(6_000).map(({ cost }) => cost),
      order,
      'in the order of the log',
    );
  },
);

t.test(
  'the log is read in pieces of bounded size, and a backlog of large bodies arrives complete and in order',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub);
    await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
    await pushAll(cpo);
    const { store } = hub.created.context;
    const head = store.head();
    const read = (size: number) => store.read({ after: head - count, limit: 100, size });
    t.strictSame(
      (await read(1)).map(({ seq }) => seq),
      [head - count + 1],
      'at least one comes',
    );
    t.equal((await read(3_500_000)).length, 4, 'and no more once they are so long together');
    t.equal((await read(Number.POSITIVE_INFINITY)).length, count);
    const came = await arrivals(hub, emsp, () => admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false }));
    t.strictSame(came.map(({ path }) => path.split('/').at(-1)).sort(), ids);
    t.ok(came.every(({ body }) => body.length > padding.length));
  },
);
