/**
 * More is owed to a receiver than memory holds: the rest stays in the log, and all of it arrives in order and once, over restarts.
 */
import { nextTurn } from '../../src/kit/system-clock.ts';
import { StoreUnavailable } from '../../storage/contract.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { closed, hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin, eventually, type PlainPartner, type Received } from '../support/plain-partner.ts';
import { atLength, partOf } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';
import { asyncCircuit, type HubAddress, idOf, kwhOf, watchedMemory } from './watched.ts';

/** Deliveries of one partner in memory. */
const windowMax = partOf(10_000);
/** Of them those of one module that one partner sends. */
const share = Math.floor(windowMax / 5 / 2);
const objects = partOf(600);
const updates = 21;
const workers = 24;

async function push(cpo: PlainPartner, id: string, kwh: number): Promise<void> {
  await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, { kwh }));
}

async function depthOf(hub: HubAddress): Promise<number> {
  return ((await admin(hub, 'GET', '/parties/NL-EMS')) as { queue: { depth: number } }).queue.depth;
}

const memory = watchedMemory(t);

function byObject(received: readonly Received[]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const call of received) found.set(idOf(call), [...(found.get(idOf(call)) ?? []), kwhOf(call)]);
  return found;
}

t.test(
  'more updates than memory holds, for a receiver that is down, arrive in order and once, over three restarts',
  async (t) => {
    const dir = directoryFor(t);
    const env = {
      HUB_RATE_OTHER_PER_MIN: '1000000000',
      HUB_DELIVERY_CONCURRENCY: '8',
    };
    const clock = new SimulatedClock('2026-01-02T03:00:00Z');
    let hub = await hubFor(t, env, { clock, windowMax }, dir);
    let isDown = true;
    const taken: Received[] = [];
    const { cpo, emsp } = await routedPair(t, hub, {
      emsp: (received) => {
        if (isDown) return { isCut: true };
        taken.push(received);
        return {};
      },
    });
    const restart = async () => {
      await hub.close();
      memory.clear();
      hub = await hubFor(t, env, { clock, windowMax }, dir);
      cpo.moveTo(hub);
    };

    await Promise.all(
      Array.from({ length: workers }, async (_, worker) => {
        for (let kwh = 1; kwh <= updates; kwh++) {
          for (let n = worker; n < objects; n += workers) await push(cpo, `S${n}`, kwh);
        }
      }),
    );
    t.equal(await asyncCircuit(hub, 'NL-EMS'), 'open', 'a few were tried, then no more');
    t.ok(emsp.received.length < 20, `${emsp.received.length} attempts`);
    t.equal(memory.size(), share, 'memory holds the share of their module that one sender may take');
    t.equal(await depthOf(hub), objects * updates, 'operators see all that waits, also what the log holds');
    t.comment(`heap with the window full: ${Math.round(process.memoryUsage().heapUsed / 2 ** 20)} MiB`);

    // Down all the while: what was in memory and what was not is found again in the log.
    await restart();
    clock.advance(0);
    const held = memory.size();
    t.ok(held > share / 2 && held <= share, `${held} in memory after a restart`);
    await hub.settled();
    t.equal(await depthOf(hub), objects * updates, 'and what the restart left in the log is counted');

    isDown = false;
    let most = 0;
    let more = 0;
    for (const part of [0.2, 0.6, 1]) {
      clock.advance(120_000);
      await eventually(
        `${part} of all have arrived`,
        async () => {
          most = Math.max(most, memory.size());
          clock.advance(2_000);
          const left = objects * updates - taken.length;
          more = Math.max(more, (await depthOf(hub)) - left);
          return taken.length >= objects * updates * part;
        },
        180_000,
      );
      if (part < 1) await restart();
    }
    await hub.settled(emsp);
    t.equal(taken.length, objects * updates, 'none is missing and none came twice');
    t.ok(most <= windowMax, `never more than ${most} in memory`);
    t.ok(more <= workers, `never ${more} more shown than there were`);
    const expected = Array.from({ length: updates }, (_, n) => n + 1);
    const found = byObject(taken);
    t.equal(found.size, objects);
    const wrong = [...found].filter(([, kwhs]) => kwhs.join() !== expected.join());
    t.same(wrong, [], 'each object in order');
    await hub.settled(emsp);
    t.equal(await depthOf(hub), 0, 'nothing is owed any more');
    await push(cpo, 'S0', 1000);
    await hub.settled(emsp);
    t.equal(taken.length, objects * updates + 1, 'what is new goes out live again');
  },
);

t.test('while memory is full, a re-drive of many waits for room, and pushes keep their order', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  const hub = await hubFor(t, { HUB_RATE_OTHER_PER_MIN: '1000000000' }, { clock, windowMax });
  let isIll = true;
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => (isIll ? { status: 404 } : {}) });
  for (let n = 1; n <= 3; n++) await push(cpo, `D${n}`, 1);
  await hub.settled(emsp);
  t.equal(await deadOf(hub), 3, 'three are dead');
  isIll = false;
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  await Promise.all(
    Array.from({ length: workers }, async (_, worker) => {
      for (let kwh = 1; kwh <= 3; kwh++) for (let n = worker; n < share; n += workers) await push(cpo, `S${n}`, kwh);
    }),
  );
  t.equal(memory.size(), share);
  const { id } = await admin(hub, 'POST', '/redrive', { filter: {}, rate_per_s: 1000 });
  clock.advance(5_000);
  await hub.settled(emsp);
  t.match(await admin(hub, 'GET', `/redrives/${String(id)}`), { state: 'RUNNING', queued: 0 });
  t.equal(memory.size(), share);
  t.equal(await depthOf(hub), 3 * share);
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: false });
  await eventually(
    'all is done',
    async () => {
      clock.advance(1_000);
      const { state } = await admin(hub, 'GET', `/redrives/${String(id)}`);
      return state === 'DONE' && (await depthOf(hub)) === 0;
    },
    180_000,
  );
  t.equal(await deadOf(hub), 0);
  const sessions = byObject(emsp.received.filter(({ path }) => path.includes('/S')));
  for (const [object, kwhs] of sessions)
    t.same(
      kwhs,
      kwhs.map((_, n) => n + 1),
      `${object} in order and once`,
    );
});

async function deadOf(hub: HubAddress): Promise<number> {
  return ((await admin(hub, 'GET', '/parties/NL-EMS')) as { queue: { dead: number } }).queue.dead;
}

/** Counts the pages that a start reads of the log for all receivers together. */
function countedScan() {
  const scan = { pages: 0 };
  const wrap = wrapStore((store) => ({
    read: (query) => {
      if (query.limit === 500 && query.to === undefined) scan.pages++;
      return store.read(query);
    },
  }));
  return { scan, wrap };
}

t.test('a start does not read the whole log for a receiver whose window is full', atLength, async (t) => {
  const dir = directoryFor(t);
  const hub = await hubFor(t, { HUB_RATE_OTHER_PER_MIN: '1000000' }, { windowMax: 100 }, dir);
  const { cpo } = await routedPair(t, hub);
  await admin(hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  const pushed = 600;
  const each = async (_: unknown, worker: number) => {
    for (let n = worker; n < pushed; n += workers) await push(cpo, `S${n}`, n);
  };
  await Promise.all(Array.from({ length: workers }, each));
  await hub.close();
  memory.clear();
  const { scan, wrap } = countedScan();
  const next = await hubFor(t, {}, { windowMax: 100, wrap }, dir);
  t.equal(scan.pages, 1, 'the first stretch fills it');
  t.equal(memory.size(), 10);
  await next.settled();
  t.equal(await depthOf(next), pushed);
});

t.test(
  '[OUTBOX-WRITER-4] while the store accepts no row, as many deliveries as memory holds are made, and the rest when it does',
  async (t) => {
    const [rowsMax, pushed] = [10, 25];
    let isFull = false;
    const wrap = wrapStore((store) => ({
      settle: async (...of) => {
        if (isFull) throw new StoreUnavailable('the disk is full');
        return store.settle(...of);
      },
    }));
    const clock = new SimulatedClock('2026-01-02T03:00:00Z');
    const hub = await hubFor(t, { HUB_DELIVERY_CONCURRENCY: '1' }, { clock, windowMax: rowsMax, wrap });
    const { cpo, emsp } = await routedPair(t, hub);
    await hub.settled();
    isFull = true;
    for (let n = 0; n < pushed; n++) await push(cpo, `S${n}`, 1);
    await hub.settled();
    t.equal(emsp.received.length, rowsMax);
    isFull = false;
    clock.advance(1_000);
    await quiet(hub);
    t.strictSame([...byObject(emsp.received).values()], Array(pushed).fill([1]), 'each once');
  },
);

t.test(
  '[WINDOW-4] deliveries that wait for a retry keep no others out of memory while there is room for one',
  async (t) => {
    const env = { HUB_RETRY_SCHEDULE_S: '3600', HUB_RETRY_JITTER: '0' };
    const hub = await hubFor(t, env, { clock: new SimulatedClock('2026-01-02T03:00:00Z'), windowMax: 25 });
    let answer = () => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const { cpo, emsp } = await routedPair(t, hub, {
      emsp: async (received) => {
        if (idOf(received) === 'STUCK') return { status: 500 };
        if (idOf(received) === 'S0') await answered;
        return {};
      },
    });
    // Of the three that memory holds of a sender two wait for an hour, and one is in flight.
    for (const kwh of [1, 2]) await push(cpo, 'STUCK', kwh);
    await push(cpo, 'S0', 1);
    await emsp.got('the one in flight', (received) => idOf(received) === 'S0');
    await push(cpo, 'S1', 1);
    answer();
    await emsp.got('the one that was left in the log', (received) => idOf(received) === 'S1');
    t.equal(emsp.received.length, 3);
  },
);

t.test(
  'a start does not wait for a receiver with an object far behind, and sends it nothing twice',
  atLength,
  async (t) => {
    const dir = directoryFor(t);
    const env = { HUB_RATE_OTHER_PER_MIN: '1000000', HUB_RETRY_SCHEDULE_S: '3600', HUB_RETRY_JITTER: '0' };
    const clock = new SimulatedClock('2026-01-02T03:00:00Z');
    const hub = await hubFor(t, env, { clock, windowMax: 25 }, dir);
    let isStuck = true;
    const { cpo, emsp } = await routedPair(t, hub, {
      emsp: (received) => (isStuck && idOf(received) === 'STUCK' ? { status: 500 } : {}),
    });
    for (const kwh of [1, 2]) await push(cpo, 'STUCK', kwh);
    for (let n = 0; n < 210; n++) await push(cpo, `S${n}`, 1);
    await hub.settled();
    t.equal(emsp.received.length, 211);
    await closed(hub, clock);
    const { scan, wrap } = countedScan();
    const next = await hubFor(t, env, { clock, windowMax: 25, wrap }, dir);
    t.equal(scan.pages, 0, 'nothing is read of the log before it serves');
    cpo.moveTo(next);
    for (const id of ['S99', 'STUCK']) await push(cpo, id, 3);
    await emsp.got('the new one', ({ body, path }) => path.includes('/S99') && kwhOf({ body }) === 3);
    isStuck = false;
    clock.advance(3_600_000);
    await emsp.gotCalls(215);
    await next.settled();
    const found = byObject(emsp.received);
    t.same(
      [found.get('STUCK'), found.get('S99')],
      [
        [1, 1, 2, 3],
        [1, 3],
      ],
    );
    t.equal(emsp.received.length, 215);
  },
);

t.test('a start reads the events of several waiting deliveries at the same time', atLength, async (t) => {
  const dir = directoryFor(t);
  const env = { HUB_RETRY_SCHEDULE_S: '3600' };
  const hub = await hubFor(t, env, {}, dir);
  const { cpo } = await routedPair(t, hub, { emsp: () => ({ status: 500 }) });
  for (let n = 0; n < 4; n++) await push(cpo, `S${n}`, 1);
  await hub.settled();
  await hub.close();
  let reading = 0;
  let most = 0;
  const wrap = wrapStore((store) => ({
    event: async (seq) => {
      most = Math.max(most, ++reading);
      await nextTurn();
      return store.event(seq).finally(() => void reading--);
    },
  }));
  const next = await hubFor(t, env, { wrap }, dir);
  t.equal(most, 4);
  t.equal(await depthOf(next), 4);
});

t.test('while the backlog of a restart is being counted, deliveries go on [WINDOW-5]', async (t) => {
  const dir = directoryFor(t);
  // Of a share of 10 locations for each receiver.
  const replaced = { windowMax: 50 };
  const hub = await hubFor(t, {}, replaced, dir);
  const { cpo } = await routedPair(t, hub);
  const more = Array.from({ length: 8 }, (_, n) => `EM${n}`);
  for (const partyId of more) {
    await partnerFor(t, hub, { countryCode: 'NL', role: 'EMSP', partyId });
    await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  }
  const receivers = hub.partners.slice(1);
  const pause = async (of: HubAddress, paused: boolean) => {
    for (const partyId of ['EMS', ...more]) await admin(of, 'PATCH', `/parties/NL-${partyId}`, { paused });
  };
  await pause(hub, true);
  for (let n = 0; n < 15; n++) await cpo.push('PUT', `/2.2.1/locations/NL/CPO/L${n}`, locationBody(`L${n}`));
  await hub.close();
  let count = () => {};
  const mayCount = new Promise<void>((resolve) => {
    count = resolve;
  });
  t.teardown(() => count());
  let counts = 0;
  const wrap = wrapStore((store) => ({
    deliveries: async (query) => {
      if (query.toSeq !== undefined && ++counts > 0) await mayCount;
      return store.deliveries(query);
    },
  }));
  const next = await hubFor(t, {}, { ...replaced, wrap }, dir);
  await pause(next, false);
  await next.settled(...receivers);
  t.same(
    receivers.map(({ received }) => received.length),
    receivers.map(() => 15),
  );
  t.equal(counts, 1, 'one page at a time is counted');
});
