/**
 * That a receiver lacks an object, or a change of it, survives a stop and a kill before the object says so. [D82]
 */
import { StoreUnavailable } from '../../storage/contract.ts';
import { locationBody, sessionBody, tariffBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { arrivals, itemsOf, quiet } from '../support/observed.ts';
import { admin, eventually, type Received, type Reply } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';
import { at, deliveriesOf, Holding } from './watched.ts';

const path = (module: string, id: string) => `/2.2.1/${module}/NL/CPO/${id}`;
const json = ({ body }: Pick<Received, 'body'>) => JSON.parse(body) as Record<string, unknown>;
const methods = (calls: readonly Received[]) => calls.map(({ method }) => method);
const missed = (hub: TestHub) => itemsOf(hub, '/events?type=object.missed');

t.test(
  'an object that its receiver may have taken before it was a dead letter is ended there [MISSED-NOTES-3]',
  async (t) => {
    const hub = await hubFor(t);
    const asked = new Map<string, number>();
    const { cpo, emsp } = await routedPair(t, hub, {
      emsp({ method, path: of }) {
        const times = (asked.get(of) ?? 0) + 1;
        asked.set(of, times);
        if (method !== 'PUT') return {};
        if (times !== (of.endsWith('REDRIVEN') ? 3 : 1) || of.endsWith('REFUSED')) return { status: 400 };
        return of.endsWith('GARBLED') ? { text: '<p>Created</p>' } : { status: 500 };
      },
    });
    const objects = [
      ['tariffs', tariffBody],
      ['locations', locationBody],
    ] as const;
    const ids = ['GARBLED', 'REDRIVEN', 'REFUSED', 'TAKEN'];
    const pushed = async (of: readonly string[], version: number, notes: number) => {
      for (const id of of)
        for (const [module, body] of objects)
          await cpo.push('PUT', path(module, id), { ...body(id), last_updated: at(version) });
      await eventually(`there are ${notes} notes`, async () => (await missed(hub)).length === notes);
    };
    await pushed(['REDRIVEN'], 0, 2);
    const early = await deliveriesOf(hub, '?state=DEAD');
    await pushed(ids, 1, 10);
    for (const { id } of early) await admin(hub, 'POST', `/deliveries/${id}/redrive`);
    await quiet(hub);
    // Of the last versions none can have arrived, and the note of a re-drive said already what that of its end would.
    await pushed(ids, 2, 20);
    const came = await arrivals(hub, emsp, async () => {
      for (const id of ids) await cpo.push('PATCH', path('locations', id), { publish: false, last_updated: at(3) });
      await quiet(hub);
      await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: false });
      for (const id of ids) await cpo.push('DELETE', path('tariffs', id));
    });
    t.same(came.map(({ method, path: of }) => `${method} ${of.split('/').at(-1)}`).sort(), [
      ...['DELETE GARBLED', 'DELETE REDRIVEN', 'DELETE TAKEN'],
      ...['PATCH GARBLED', 'PATCH REDRIVEN', 'PATCH TAKEN'],
    ]);
  },
);

t.test(
  'that a location is private goes to its receiver behind a dead letter that it may have taken [WHOLES-4]',
  async (t) => {
    const hub = await hubFor(t);
    const asked: string[] = [];
    let refuse = () => {};
    const isRefused = new Promise<void>((resolve) => {
      refuse = resolve;
    });
    const { cpo, emsp } = await routedPair(t, hub, {
      async emsp({ method, path: of }) {
        if (method !== 'PUT') return {};
        const isFirst = !asked.includes(of);
        asked.push(of);
        if (isFirst && of.endsWith('TAKEN')) return { status: 500 };
        await isRefused;
        return { status: 400 };
      },
    });
    const came = await arrivals(hub, emsp, async () => {
      for (const id of ['TAKEN', 'REFUSED']) await cpo.push('PUT', path('locations', id), locationBody(id));
      await eventually('both are being refused', async () => asked.length === 3);
      for (const id of ['TAKEN', 'REFUSED'])
        await cpo.push('PATCH', path('locations', id), { publish: false, last_updated: at(1) });
      refuse();
    });
    const ends = came.filter(({ method }) => method === 'PATCH').map(({ path: of }) => of.split('/').at(-1));
    t.same(ends, ['TAKEN']);
  },
);

/** A store that records a note only when `refusal` has nothing against it. */
const withNotes = (refusal: (stream: string) => Error | null) =>
  wrapStore((store) => ({
    append: async (commit) => {
      const [first] = commit.events;
      const refused = first?.type === 'object.missed' ? refusal(first.stream) : null;
      if (refused) throw refused;
      return store.append(commit);
    },
  }));

/** As after a kill just before, the rows of the dead letters are all that is left. */
const withoutNotes = withNotes(() => new StoreUnavailable('no note is recorded here'));

async function scene(t: Test, replaced: Parameters<typeof hubFor>[2] = { wrap: withoutNotes }) {
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, {}, replaced, dataDir);
  const answers = { reply: (_: Received): Reply => ({}) };
  const { cpo, emsp } = await routedPair(t, hub, { emsp: (received) => answers.reply(received) });
  const restarted = async (of: TestHub, again: typeof replaced) => {
    await of.close();
    return hubFor(t, { HUB_PORT: new URL(of.url).port }, again, dataDir);
  };
  /** The eMSP gets these objects, and refuses a change of each. */
  const refuses = async (module: string, bodies: readonly Record<string, unknown>[], change: object) => {
    const pathOf = ({ id }: Record<string, unknown>) => path(module, String(id));
    for (const body of bodies) await cpo.push('PUT', pathOf(body), { ...body, last_updated: at(0) });
    await quiet(hub);
    answers.reply = () => ({ status: 400 });
    for (const body of bodies) await cpo.push('PATCH', pathOf(body), { ...change, last_updated: at(1) });
    await quiet(hub);
    answers.reply = () => ({});
  };
  return { hub, cpo, emsp, refuses, restarted };
}

for (const [module, id, body, change] of [
  ['locations', 'L1', locationBody('L1'), { address: 'Neue Straße 1' }],
  ['sessions', 'S1', sessionBody('S1'), { total_cost: { excl_vat: 7 } }],
] as const) {
  const isWhole = (call: Received | undefined) => [call && json(call), { id, ...change }] as const;

  t.test(
    `${module}: a note that a restart finds owed is recorded once, and the next change goes as a whole [D82]`,
    module === 'locations' ? {} : atLength,
    async (t) => {
      const { hub, cpo, emsp, refuses, restarted } = await scene(t);
      await refuses(module, [body], change);
      t.equal((await missed(hub)).length, 0);
      const second = await restarted(hub, {});
      await second.settled(emsp);
      t.match(await missed(second), [{ object: `NL-CPO/${id}`, data: { receiver: 'NL-EMS' } }]);
      const came = await arrivals(second, emsp, () =>
        cpo.push('PATCH', path(module, id), { x: 2, last_updated: at(2) }),
      );
      t.same(methods(came), ['PUT']);
      t.match(...isWhole(came[0]));
      const third = await restarted(second, {});
      await third.settled(emsp);
      t.equal((await missed(third)).length, 1, 'the row of the dead letter no longer owes it');
      t.match(await deliveriesOf(third, '?state=DEAD'), [
        { receiver: 'NL-EMS', attempts: [{ class: 'client_error' }] },
      ]);
      const after = await arrivals(third, emsp, () =>
        cpo.push('PATCH', path(module, id), { x: 3, last_updated: at(3) }),
      );
      t.same(methods(after), ['PATCH']);
    },
  );

  t.test(
    `${module}: until the note is recorded a restart sends what was owed as a part as a whole, once [D82]`,
    module === 'sessions' ? {} : atLength,
    async (t) => {
      const { hub, cpo, emsp, refuses, restarted } = await scene(t);
      await refuses(module, [body], change);
      const second = await restarted(hub, { wrap: withoutNotes });
      const came = await arrivals(second, emsp, async () => {
        for (const n of [2, 3]) await cpo.push('PATCH', path(module, id), { x: n, last_updated: at(n) });
      });
      t.same(methods(came), ['PUT', 'PATCH']);
      t.match(...isWhole(came[0]));
      const third = await restarted(second, {});
      await third.settled(emsp);
      t.equal((await missed(third)).length, 0, 'the whole has made up for it');
      const after = await arrivals(third, emsp, () =>
        cpo.push('PATCH', path(module, id), { x: 4, last_updated: at(4) }),
      );
      t.same(methods(after), ['PATCH']);
    },
  );
}

t.test('every dead letter whose note a stop left undone is noted, also a discarded one [D82]', async (t) => {
  const { hub, emsp, refuses, restarted } = await scene(t);
  const bodies = Array.from({ length: 12 }, (_, n) => locationBody(`L${n}`));
  await refuses('locations', bodies, { name: 'Neu' });
  const [dead] = await deliveriesOf(hub, '?state=DEAD&limit=1');
  await admin(hub, 'POST', `/deliveries/${dead?.id}/discard`);
  const again = await restarted(hub, {});
  await again.settled(emsp);
  const noted = new Set((await missed(again)).map(({ object }) => object));
  t.equal(noted.size, bodies.length);
});

t.test(
  'deliveries behind a dead first one of an object go as a whole object after a restart [D82, MISSED-NOTES-5]',
  async (t) => {
    const dataDir = directoryFor(t);
    const hub = await hubFor(t, {}, {}, dataDir);
    const holding = new Holding();
    let answer: (received: Received) => Reply | Promise<Reply> = holding.answer;
    const { cpo, emsp } = await routedPair(t, hub, { emsp: (received) => answer(received) });
    await cpo.push('PUT', path('locations', 'L1'), locationBody('L1'));
    await hub.settled(emsp);
    await cpo.push('PATCH', path('locations', 'L1'), { name: 'Neu', last_updated: at(1) });
    await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
    holding.releaseOne({ status: 400 });
    await hub.settled();
    await hub.close();
    answer = () => ({});
    const again = await hubFor(t, { HUB_PORT: new URL(hub.url).port }, {}, dataDir);
    await again.settled();
    const came = await arrivals(again, emsp, () => admin(again, 'PATCH', '/parties/NL-EMS', { paused: false }));
    t.same(methods(came), ['PUT']);
    t.match(came[0] && json(came[0]), { id: 'L1', name: 'Neu' });
    t.equal((await missed(again)).length, 0, 'it has made up for the first');
    const [dead] = await deliveriesOf(again, '?state=DEAD');
    t.notMatch(JSON.stringify(await again.created.context.store.delivery('NL-EMS', Number(dead?.seq))), /unnoted/);
  },
);

t.test('a dead letter that was re-driven and arrived needs no note [D82]', async (t) => {
  const { hub, emsp, refuses, restarted } = await scene(t);
  await refuses('locations', [locationBody('L1')], { name: 'Neu' });
  const [dead] = await deliveriesOf(hub, '?state=DEAD');
  await arrivals(hub, emsp, () => admin(hub, 'POST', `/deliveries/${dead?.id}/redrive`));
  const again = await restarted(hub, {});
  await again.settled(emsp);
  t.equal((await missed(again)).length, 0);
});

t.test(
  'a note that cannot be recorded delays no other lane, and is recorded 10 s later [MISSED-NOTES-6]',
  async (t) => {
    const { clock, refused, refuses, missedOf } = await failing(t, (id) => (id === 'l0' ? new Error('damaged') : null));
    await refuses(
      'locations',
      ['L0', 'L1', 'L2'].map((id) => locationBody(id)),
      { name: 'Neu' },
    );
    t.same(await missedOf(), ['L1', 'L2']);
    clock.advance(9_999);
    t.same(await missedOf(), ['L1', 'L2']);
    refused.by = () => null;
    clock.advance(1);
    t.same(await missedOf(), ['L0', 'L1', 'L2']);
  },
);

t.test('a store that accepts no writes holds all notes for 10 s [MISSED-NOTES-6]', async (t) => {
  const { clock, refused, refuses, missedOf } = await failing(t, () => new StoreUnavailable('away'));
  await refuses(
    'locations',
    ['L0', 'L1', 'L2'].map((id) => locationBody(id)),
    { name: 'Neu' },
  );
  t.same(await missedOf(), []);
  t.equal(refused.count, 1);
  refused.by = () => null;
  clock.advance(10_000);
  t.same(await missedOf(), ['L0', 'L1', 'L2']);
});

/** A hub on a simulated clock whose store refuses notes; `missedOf`: ids of the objects that were noted. */
async function failing(t: Test, by: (id: string) => Error | null) {
  const clock = new SimulatedClock('2026-01-02T05:00:00Z');
  const refused = { by, count: 0 };
  // Keys compare without case, and are stored in lower case.
  const wrap = withNotes((stream) => {
    const error = refused.by(stream.split('/').at(-1) ?? '');
    if (error) refused.count += 1;
    return error;
  });
  const { hub, emsp, refuses } = await scene(t, { wrap, clock });
  const missedOf = async () => {
    await hub.settled(emsp);
    return (await missed(hub)).map(({ object }) => String(object).split('/')[1]).sort();
  };
  return { clock, refused, refuses, missedOf };
}

for (const module of ['locations', 'sessions'] as const)
  t.test(
    `${module}: the next refusal costs no more reads than the one before [MISSED-NOTES-7]`,
    module === 'sessions' ? atLength : {},
    async (t) => {
      let reads = 0;
      const counted = wrapStore((store) => ({
        delivery: (...asked) => {
          reads += 1;
          return store.delivery(...asked);
        },
        history: async (...asked) => {
          const read = await store.history(...asked);
          reads += read.length;
          return read;
        },
      }));
      const hub = await hubFor(t, {}, { wrap: counted });
      let reply: Reply = { status: 400 };
      const { cpo, emsp } = await routedPair(t, hub, { emsp: () => reply });
      const [id, body] = module === 'locations' ? ['L1', locationBody('L1')] : ['S1', sessionBody('S1')];
      let n = 0;
      const pushed = async () => {
        const before = reads;
        n += 1;
        await cpo.push(n === 1 ? 'PUT' : 'PATCH', path(module, id), { ...(n === 1 && body), last_updated: at(n) });
        await hub.settled(emsp);
        return reads - before;
      };
      for (let early = 0; early < 4; early++) await pushed();
      const few = await pushed();
      for (let more = 0; more < 8; more++) await pushed();
      t.ok((await pushed()) <= few, `at the fifth refusal ${few} reads`);
      if (module === 'sessions') return;
      const lastNote = async () => (await missed(hub)).at(-1)?.data;
      t.match(await lastNote(), { sent: [], outdated: [] }, 'nothing has arrived');
      // The first of all arrives now.
      reply = {};
      const dead = await deliveriesOf(hub, '?state=DEAD&limit=100');
      const first = dead.reduce((one, other) => (Number(other.seq) < Number(one.seq) ? other : one));
      await admin(hub, 'POST', `/deliveries/${first.id}/redrive`);
      await hub.settled(emsp);
      reply = { status: 400 };
      await pushed();
      t.match(await lastNote(), { sent: ['NL-EMS'], outdated: ['NL-EMS'] }, 'a version has arrived');
    },
  );
