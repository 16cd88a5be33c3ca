/** A door beside a whole hub on one store, in one process: what each does when the other has changed what it knows. */
import { sharedBy } from '../../src/cluster/tenure.ts';
import type { ObjectChange } from '../../src/domain/object.ts';
import { applyToPartner, type Partner } from '../../src/domain/party.ts';
import { type CreatedHub, createHub } from '../../src/hub/create-hub.ts';
import { partnerPut } from '../../src/hub/kernel/row-codecs.ts';
import type { Caller } from '../../src/hub/ports/hub.ts';
import type { HubPorts, TokenUse } from '../../src/hub/ports/ports.ts';
import { createSecrets } from '../../src/secrets.ts';
import { type Commit, type Store, smallBody } from '../../storage/contract.ts';
import { append } from '../storage/support.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair, secretKey, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, eventually, type PlainPartner, type Reply } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

/** No ping reaches it: it hears of changes when it meets a conflict, or is followed by the test. */
async function doorOf(t: Test, { created: { context } }: TestHub, own: Partial<HubPorts> = {}): Promise<CreatedHub> {
  const having = { held: () => null, onHealth: () => {}, appended: () => {} };
  const door = createHub(
    sharedBy(context.store, having),
    { ...context.ports, ...own },
    context.settings,
    'test',
    'door',
  );
  await door.recover();
  t.teardown(() => door.close());
  return door;
}

function callerAt(door: CreatedHub, { id, hubToken }: PlainPartner): Caller {
  const credential = door.hub.authenticate(hubToken, '127.0.0.1');
  const party = credential?.partner.roles[0];
  if (!credential || !party) throw new Error('the door does not know it');
  return { partner: credential.partner, party, id, trace: { requestId: 'r', correlationId: 'c' } };
}

const location = (id: string): ObjectChange => {
  const plain = { module: 'locations', method: 'PUT', owner: 'NL-CPO', id, within: [], warnings: [] } as const;
  const body = JSON.stringify(locationBody(id));
  return { ...plain, facts: { publish: true }, lastUpdated: '2026-03-01T00:00:00Z', body };
};

t.test('a partner that was suspended after a door admitted it writes nothing', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const door = await doorOf(t, hub);
  const caller = callerAt(door, cpo);
  t.equal((await door.hub.accept(caller, location('L1'), async () => async () => {})).result, 'created');
  await admin(hub, 'POST', '/parties/NL-CPO/suspend');
  t.equal(door.context.directory.partner('NL-CPO')?.status, 'CONNECTED', 'the door was not told');
  await t.rejects(
    door.hub.accept(caller, location('L2'), async () => async () => {}),
    { code: 'invalidToken' },
  );
  t.equal(door.context.directory.partner('NL-CPO')?.status, 'SUSPENDED', 'and knows by the conflict');
  t.equal(await door.context.store.get({ kind: 'locations', owner: 'NL-CPO', id: 'l2' }), null);
});

t.test(
  'a push asks the store once for the object that it changes, and reads a large one when it has room',
  async (t) => {
    const asked: string[] = [];
    const counted =
      <Args extends unknown[], R>(name: string, method: (...args: Args) => R) =>
      (...args: Args): R => {
        if (JSON.stringify(args).includes('"l1"')) asked.push(name);
        return method(...args);
      };
    const wrap = wrapStore((store) => ({
      getSmall: counted('getSmall', (key) => store.getSmall(key)),
      get: counted('get', (key) => store.get(key)),
      size: counted('size', (keys) => store.size(keys)),
    }));
    const hub = await hubFor(t, {}, { wrap });
    const { cpo } = await routedPair(t, hub);
    const push = async (change: ObjectChange) => {
      asked.length = 0;
      await hub.created.hub.accept(callerAt(hub.created, cpo), change, async () => {
        asked.push('room for a large one');
        return async () => void asked.push('turn of its change');
      });
      return [...asked];
    };
    const large = { ...locationBody('L1'), name: 'x'.repeat(smallBody) };
    t.strictSame(await push(location('L1')), ['getSmall']);
    t.strictSame(await push(location('L1')), ['getSmall']);
    await push({ ...location('L1'), body: JSON.stringify(large) });
    t.strictSame(await push(location('L1')), ['getSmall', 'room for a large one', 'get', 'turn of its change']);
  },
);

t.test('a door tells all token uses of a second at once, of each token the last one [TOKEN-USES-1]', async (t) => {
  const clock = new SimulatedClock('2026-03-01T00:00:00Z');
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  const told: TokenUse[] = [];
  const door = await doorOf(t, hub, { clock, tellUse: (use) => void told.push(use) });
  callerAt(door, cpo);
  clock.advance(400);
  for (const partner of [emsp, cpo, cpo]) callerAt(door, partner);
  clock.advance(500);
  t.strictSame(told, []);
  clock.advance(100);
  const plain = told.map(({ party, count, ageMs }) => ({ party, count, ageMs }));
  t.strictSame(plain, [
    { party: 'NL-CPO', count: 3, ageMs: 600 },
    { party: 'NL-EMS', count: 1, ageMs: 600 },
  ]);
  callerAt(door, emsp);
  clock.advance(1000);
  t.match(told.slice(2), [{ party: 'NL-EMS', count: 1, ageMs: 1000 }], 'and goes on');
});

/** Seals the token of a partner under a key that the hub does not have, as another node may. */
async function sealedElsewhere({ created: { context } }: TestHub, { id, token }: PlainPartner): Promise<void> {
  const before = context.directory.partner(id);
  if (!before) throw new Error('no partner');
  const data = { partnerToken: createSecrets('another key').seal(token, id) };
  const event = { type: 'partner.resealed', data } as const;
  const at = context.recorder.instant();
  await context.recorder.recordDirectory(
    {
      ...{ facts: [{ stream: `partner:${id}`, event, party: id }], trace: null, at },
      ...{ puts: [partnerPut(applyToPartner(before, event, at))], seen: [context.directory.seenOf(id)] },
    },
    () => {},
  );
}

t.test(
  'a door that cannot open the token of a partner refuses as if the partner were away, and reports it',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub);
    const { context } = hub.created;
    let reports = 0;
    const unopened = () => {
      reports += 1;
    };
    const door = await doorOf(t, hub, { secrets: createSecrets(secretKey), unopened });
    await sealedElsewhere(hub, emsp);
    t.equal(reports, 0);
    await door.followed(context.store.head());
    t.equal(reports, 1, 'before a request needs it');
    const request = { uid: 'CARD1', type: 'RFID', to: { country_code: 'NL', party_id: 'EMS' }, body: null } as const;
    await t.rejects(door.hub.authorizeAtEmsp(callerAt(door, cpo), request), { code: 'authorizeUnavailable' });
    t.equal(reports, 2);
    t.notOk(emsp.received.some(({ path }) => path.includes('authorize')));
  },
);

t.test(
  'an operation that needs a token that the hub cannot open says so: probe, check, pull and delivery',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub);
    for (const partner of [cpo, emsp]) await sealedElsewhere(hub, partner);
    const words = 'the hub cannot open the token of';
    for (const act of ['probe', 'check']) {
      const refusal = new RegExp(`: 409 .*${words} NL-EMS`);
      await t.rejects(admin(hub, 'POST', `/parties/NL-EMS/${act}`), refusal, act);
    }
    t.strictSame(await itemsOf(hub, '/checks'), [], 'no check runs for ever');
    await admin(hub, 'POST', '/parties/NL-CPO/pull/locations');
    await eventually('the pull ends', async () => (await itemsOf(hub, '/pulls'))[0]?.state === 'FAILED');
    t.match(await itemsOf(hub, '/pulls'), [{ error: `${words} NL-CPO` }]);
    await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
    const attempted = async () => ((await itemsOf(hub, '/deliveries'))[0]?.attempts as unknown[])?.length > 0;
    await eventually('the delivery was tried', attempted);
    const [delivery] = await itemsOf(hub, '/deliveries');
    t.match(JSON.stringify(delivery?.attempts), `a fault of the hub: ${words} NL-EMS`);
    t.equal(delivery?.state, 'PENDING', 'and is tried again');
  },
);

t.test('a door without pings learns of a new token before it refuses one [CALLER-4]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const door = await doorOf(t, hub);
  t.equal(await door.hub.caughtUp(), false, 'there is nothing to learn');
  const { token, url } = cpo;
  const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }];
  const { json } = await cpo.call('PUT', '/2.2.1/credentials', { token, url: `${url}/ocpi/versions`, roles });
  const { token: hubToken } = json.data as { token: string };
  t.equal(door.hub.authenticate(hubToken, '127.0.0.1'), null, 'it was not told');
  t.same(await Promise.all([door.hub.caughtUp(), door.hub.caughtUp()]), [true, true]);
  t.match(door.hub.authenticate(hubToken, '127.0.0.1'), { kind: 'hub' });
});

t.test('a first use at a door and a change at an owner without pings do not undo each other', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const { store, directory } = hub.created.context;
  const { token, url } = cpo;
  const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }];
  const { json } = await cpo.call('PUT', '/2.2.1/credentials', { token, url: `${url}/ocpi/versions`, roles });
  const door = await doorOf(t, hub);
  t.ok(directory.partner('NL-CPO')?.formerToken, 'the former token goes on');
  t.ok(door.hub.authenticate((json.data as { token: string }).token, '127.0.0.1'));
  const row = async () => (await store.get({ kind: 'partners', owner: 'NL-CPO', id: 'NL-CPO' }))?.data as Partner;
  await eventually('the first use is recorded', async () => (await row()).formerToken === null);
  await admin(hub, 'PATCH', '/parties/NL-CPO', { empty_2xx_ok: true });
  t.match(await row(), { formerToken: null, settings: { empty_2xx_ok: true } });
  t.strictSame(JSON.parse(JSON.stringify(directory.partner('NL-CPO'))), await row(), 'memory and row agree');
});

t.test('a write of a door while a new owner reads the log is delivered once, after what was owed before', async (t) => {
  const directory = directoryFor(t);
  const hub = await hubFor(t, {}, {}, directory);
  const { cpo, emsp } = await routedPair(t, hub);
  const put = (name: string) => cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1', { name }));
  await put('v0');
  await emsp.got('it', ({ body }) => body.includes('"v0"'));
  const [sample] = await hub.created.context.store.history('locations/NL-CPO/l1');
  if (!sample) throw new Error('nothing is stored');
  await hub.close();
  let isFirst = true;
  const atDoor = async (store: Store) => {
    for (const name of ['v1', 'v2']) {
      await append(store, { events: [{ ...sample, body: JSON.stringify(locationBody('L1', { name })) }] });
    }
  };
  const wrap = wrapStore((store) => ({
    async floors() {
      const floors = await store.floors();
      if (isFirst) await atDoor(store);
      isFirst = false;
      // Something of before is still owed, so that the log is read.
      return floors.map((floor) => ({ ...floor, seq: floor.seq - 1 }));
    },
  }));
  const next = await hubFor(t, {}, { wrap }, directory);
  await next.created.followed(next.created.context.store.head());
  await emsp.got('the last one', ({ body }) => body.includes('"v2"'));
  await next.settled();
  const came = emsp.received.filter(({ path }) => path.endsWith('/L1')).map(({ body }) => /"v\d"/.exec(body)?.[0]);
  t.same(came.slice(1), ['"v1"', '"v2"']);
});

/** A dead letter of v1, and a door that changes the object to v2 at a point of its re-drive. */
async function redriveScene(t: Test, point: (meet: () => Promise<void>) => (store: Store) => Partial<Store>) {
  let isMet = true;
  let meeting = async () => {};
  const meet = async () => {
    if (isMet) return;
    isMet = true;
    await meeting();
  };
  const hub = await hubFor(t, {}, { wrap: wrapStore(point(meet)) });
  let reply: Reply = { status: 404 };
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => reply });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1', { name: 'v1' }));
  await hub.settled();
  const door = await doorOf(t, hub);
  const { context } = hub.created;
  const [dead] = await itemsOf(hub, '/deliveries?state=DEAD');
  meeting = async () => {
    const change = { ...location('L1'), body: JSON.stringify(locationBody('L1', { name: 'v2' })) };
    await door.hub.accept(callerAt(door, cpo), change, async () => async () => {});
    await hub.created.followed(context.store.head());
  };
  reply = {};
  isMet = false;
  emsp.received.length = 0;
  const answer = await admin(hub, 'POST', `/deliveries/${dead?.id}/redrive`).catch(({ message }: Error) => message);
  await hub.settled();
  return { answer, came: emsp.received.map(({ body }) => /"v\d"/.exec(body)?.[0]) };
}

t.test('a re-drive that a push through a door overtakes before it is recorded is stale [REDRIVE-7]', async (t) => {
  const { answer, came } = await redriveScene(t, (meet) => (store) => ({
    append: async (commit) => {
      if (commit.events[0]?.type === 'delivery.redriven') await meet();
      return store.append(commit);
    },
  }));
  t.match([answer, came], [/409/, ['"v2"']]);
});

t.test('a push through a door while the row of a re-drive is written is delivered after it [REDRIVE-7]', async (t) => {
  const { came } = await redriveScene(t, (meet) => (store) => ({
    settle: async (fence, rows, floors) => {
      if (rows.some(({ state }) => state === 'PENDING')) await meet();
      return store.settle(fence, rows, floors);
    },
  }));
  t.strictSame(came, ['"v1"', '"v2"']);
});

const uid = '04A1B2C3D4E5F6';
const token = { country_code: 'NL', party_id: 'EMS', uid, type: 'RFID', contract_id: 'NL-EMS-C1' };

/** Holds the first commit whose first event has this type until it is released. */
function holding(type: string) {
  let release = () => {};
  let isHeld = false;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const held = async ({ events: [event] }: Commit): Promise<void> => {
    if (event?.type !== type || isHeld) return;
    isHeld = true;
    await gate;
  };
  return { held, isHeld: () => isHeld, release };
}

/** A session of a person, stored, and a door that the owner notifies of changes; `held` holds what the hub or the door appends. */
async function erasureScene(t: Test, held: (commit: Commit) => Promise<void> = async () => {}) {
  let door: CreatedHub | null = null;
  const wrap = wrapStore((store) => ({
    append: async (commit) => {
      await held(commit);
      const appended = await store.append(commit);
      if (commit.puts?.some(({ kind }) => kind === 'directory')) await door?.followed(appended.last);
      return appended;
    },
  }));
  const hub = await hubFor(t, {}, { wrap, clock: new SimulatedClock('2026-03-01T00:00:00Z') });
  const { cpo, emsp } = await routedPair(t, hub, { cpo: () => ({ body: { result: 'REJECTED', timeout: 30 } }) });
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { cdr_token: token }));
  await hub.settled();
  door = await doorOf(t, hub);
  const { store } = hub.created.context;
  /** Where the uid stands, in rows and events. */
  async function left(): Promise<string[]> {
    const found: string[] = [];
    const note = (where: string, what: unknown) => JSON.stringify(what).includes(uid) && found.push(where);
    for (const kind of ['sessions', 'refused', 'commands']) for await (const row of store.scan(kind)) note(kind, row);
    for (const event of await store.read({ after: 0, limit: 1000 })) note(event.type, event);
    return found;
  }
  const erase = () => admin(hub, 'POST', '/erase', { uid, force: true });
  return { hub, cpo, emsp, door, left, erase };
}

t.test('a COMPLETED session whose eMSP is corrected through a door waits for its CDR, once', async (t) => {
  const clock = new SimulatedClock('2026-03-01T10:01:00Z');
  const hub = await hubFor(t, { HUB_ORPHAN_CDR_AFTER_S: '600' }, { clock });
  const { cpo } = await routedPair(t, hub);
  const door = await doorOf(t, hub);
  const completed = async (id: string, party = 'NL-EMS') => {
    const plain = { module: 'sessions', method: 'PUT', owner: 'NL-CPO', id, within: [], warnings: [] } as const;
    const facts = { status: 'COMPLETED', cdrToken: { party, uid: 'CARD1' } };
    const body = JSON.stringify(sessionBody(id, { status: 'COMPLETED' }));
    const change = { ...plain, facts, lastUpdated: '2026-03-01T10:00:00Z', body };
    await door.hub.accept(callerAt(door, cpo), change, async () => async () => {});
    await hub.created.followed(hub.created.context.store.head());
  };
  const watched = async (id: string) => {
    await eventually(`${id} is watched`, () => hub.created.context.supervisor.has(`orphan-cdr:NL-CPO/${id}`));
    await hub.settled();
  };
  await completed('s1', 'XX-XXX');
  await completed('s1');
  await watched('s1');
  for (const minutes of [10, 5]) clock.advance(minutes * 60_000);
  await hub.settled();
  const [found] = await itemsOf(hub, '/orphans');
  await admin(hub, 'POST', `/orphans/${found?.id}/resolve`);
  for (const id of ['s1', 's2']) await completed(id);
  await watched('s2');
  const waiting = (await itemsOf(hub, '/orphans?state=GRACE')).map(({ session }) => session);
  t.strictSame(waiting, ['NL-CPO/s2']);
});

t.test('an erasure covers the refused pushes that a door holds [PERSONS-5]', async (t) => {
  const { door, left, erase } = await erasureScene(t);
  const push = {
    code: 'invalid',
    module: 'sessions',
    method: 'PUT',
    path: '/sessions/NL/CPO/S2',
    reason: 'no',
  } as const;
  door.hub.refused({ ...push, partner: 'NL-CPO', object: null }, JSON.stringify({ uid }), { correlationId: 'c' });
  t.match(await erase(), { state: 'DONE' });
  await door.close();
  t.strictSame(await left(), []);
});

t.test('a PATCH that a door decided on before an erasure does not bring the name back [PERSONS-5]', async (t) => {
  const { held, isHeld, release } = holding('object.patched');
  const { cpo, door, left, erase, hub } = await erasureScene(t, held);
  const body = JSON.stringify({ kwh: 7, last_updated: '2026-03-01T00:00:00Z' });
  const plain = { module: 'sessions', method: 'PATCH', owner: 'NL-CPO', id: 'S1', within: [], warnings: [] } as const;
  const change: ObjectChange = { ...plain, facts: {}, lastUpdated: '2026-03-01T00:00:00Z', body };
  const patched = door.hub.accept(callerAt(door, cpo), change, async () => async () => {});
  await eventually('it is decided', isHeld);
  t.match(await erase(), { state: 'DONE' });
  release();
  await patched;
  await hub.settled();
  t.strictSame(await left(), []);
  const row = await hub.created.context.store.get({ kind: 'sessions', owner: 'NL-CPO', id: 's1' });
  t.match(JSON.parse(row?.body ?? ''), { kwh: 7 });
});

t.test('a late result that a door decided on before an erasure does not bring the name back [PERSONS-5]', async (t) => {
  const { held, isHeld, release } = holding('command.resultReceived');
  const { cpo, emsp, door, left, erase, hub } = await erasureScene(t, held);
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  const start = { response_url: `${emsp.url}/result`, token, location_id: 'LOC1' };
  await emsp.push('POST', '/2.2.1/commands/START_SESSION', start);
  const [command] = await itemsOf(hub, '/commands');
  t.match(command, { state: 'rejected' }, 'it has ended');
  const credential = door.hub.authenticate(cpo.hubToken, '127.0.0.1');
  if (!credential) throw new Error('the door does not know the CPO');
  const trace = { requestId: 'r', correlationId: 'c' };
  const relayed = door.hub.callback(credential, String(command?.id), '{"result":"FAILED"}', 'FAILED', trace);
  await eventually('it is decided', isHeld);
  t.match(await erase(), { state: 'DONE' });
  release();
  await relayed;
  await hub.settled();
  t.strictSame(await left(), []);
  t.match(await itemsOf(hub, '/commands'), [{ state: 'relayed', result: 'FAILED' }], 'and counts');
});
