/** Commands through a door beside the owner, in one process: the door forwards and relays, and the owner keeps every wait. [COMMANDS-5] */
import { sharedBy } from '../../src/cluster/tenure.ts';
import { type CreatedHub, createHub } from '../../src/hub/create-hub.ts';
import type { Caller } from '../../src/hub/ports/hub.ts';
import type { HubKind, HubPorts } from '../../src/hub/ports/ports.ts';
import type { Clock } from '../../src/kit/clock.ts';
import { nextTurn } from '../../src/kit/system-clock.ts';
import { withMethods } from '../../src/kit/with-methods.ts';
import { partnerClient } from '../../src/partners/client.ts';
import { egressGuard } from '../../src/partners/egress.ts';
import { type Store, StoreUnavailable } from '../../storage/contract.ts';
import { sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, eventually, type PlainPartner, type Reply } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { storeWith } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

const limitMs = 5_000;
const trace = { requestId: 'r', correlationId: 'c' };

interface Scene {
  readonly hub: TestHub;
  readonly clock: SimulatedClock;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  /** Holds the CPO's answers back until it is called. */
  readonly hold: () => () => void;
}

async function scene(t: Test): Promise<Scene> {
  const clock = new SimulatedClock('2026-03-01T10:00:00Z');
  const env = { HUB_COMMAND_TIMEOUT_MS: String(limitMs), HUB_CALLBACK_TIMEOUT_MS: String(limitMs) };
  const hub = await hubFor(t, { ...env, HUB_PROBE_INTERVAL_S: '3600' }, { clock });
  let held: Promise<void> | null = null;
  const answer = async (): Promise<Reply> => {
    await held;
    return { body: { result: 'ACCEPTED', timeout: 25 } };
  };
  const modules = [['commands', 'RECEIVER']] as const;
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO', modules, answer });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  const token = { country_code: 'NL', party_id: 'EMS', uid: 'CARD1', type: 'RFID', contract_id: 'C1' };
  const session = sessionBody('S1', { status: 'ACTIVE', cdr_token: token });
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', session);
  const hold = () => {
    let go = () => {};
    held = new Promise((resolve) => {
      go = resolve;
    });
    t.teardown(go);
    return go;
  };
  return { hub, clock, cpo, emsp, hold };
}

/** The owner learns at once of what it writes. */
async function nodeOf(
  t: Test,
  scenery: Scene,
  kind: HubKind,
  methods: Partial<Store> = {},
  own: Partial<HubPorts> = {},
): Promise<CreatedHub> {
  const node = madeOf(t, scenery, kind, methods, own);
  await node.recover();
  return node;
}

function madeOf(
  t: Test,
  { hub }: Scene,
  kind: HubKind,
  methods: Partial<Store> = {},
  own: Partial<HubPorts> = {},
): CreatedHub {
  const { created } = hub;
  const { store, ports, settings } = created.context;
  const having = {
    held: () => (kind === 'door' ? null : store.held()),
    onHealth: () => {},
    appended: (_commit: unknown, { last }: { last: number }) => created.follow(last),
  };
  const node = createHub(storeWith(sharedBy(store, having), methods), { ...ports, ...own }, settings, 'test', kind);
  t.teardown(() => node.close());
  return node;
}

function callerAt(node: CreatedHub, { id, hubToken }: PlainPartner): Caller {
  const credential = node.hub.authenticate(hubToken, '127.0.0.1');
  const party = credential?.partner.roles[0];
  if (!credential || !party) throw new Error('the door does not know it');
  return { partner: credential.partner, party, id, trace };
}

const stop = (node: CreatedHub, emsp: PlainPartner) =>
  node.hub.command(
    callerAt(node, emsp),
    {
      ...({ command: 'STOP_SESSION', to: null, responseUrl: `${emsp.url}/ocpi/result`, sessionId: 'S1' } as const),
      ...{ locationId: null, reservationId: null, tokenUid: null, authorizationReference: null },
      bodyFor: (response_url) => JSON.stringify({ response_url, session_id: 'S1' }),
    },
    (_characters, read) => read(),
  );

async function commandOf(hub: TestHub): Promise<{ id: string; state: string; reason: string | null }> {
  const [found] = await itemsOf(hub, '/commands');
  if (!found) throw new Error('no command');
  return found as Awaited<ReturnType<typeof commandOf>>;
}

const actorsOf = ({ context }: CreatedHub) =>
  [...context.supervisor.views()].filter(({ kind }) => kind === 'command' || kind === 'orphan-stop');

/** Resolves when the owner has followed everything that stands in the log. */
async function followed({ created, settled }: TestHub): Promise<void> {
  await created.followed(created.context.store.head());
  await settled();
}

t.test(
  'a door forwards, the owner waits for the result and watches the session; the result may arrive at the owner',
  async (t) => {
    const scenery = await scene(t);
    const { hub, cpo, emsp } = scenery;
    const door = await nodeOf(t, scenery, 'door');
    t.match(await stop(door, emsp), { result: 'ACCEPTED', timeout: 25 });
    await followed(hub);
    t.same(actorsOf(door), [], 'nothing is left to wait for at the door');
    await eventually('both actors live at the owner', async () => actorsOf(hub.created).length === 2);
    t.match(actorsOf(hub.created), [{ kind: 'command' }, { kind: 'orphan-stop' }]);
    const { id, state } = await commandOf(hub);
    t.equal(state, 'awaiting');
    const credential = hub.created.hub.authenticate(cpo.hubToken, '127.0.0.1');
    if (!credential) throw new Error('the owner does not know the CPO');
    await hub.created.hub.callback(credential, id, '{"result":"ACCEPTED"}', 'ACCEPTED', trace);
    t.match(emsp.received.at(-1), { path: '/ocpi/result', body: '{"result":"ACCEPTED"}' });
    t.equal((await commandOf(hub)).state, 'relayed');
  },
);

t.test('a result that arrives at a door ends the wait of the owner', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, cpo, emsp } = scenery;
  const door = await nodeOf(t, scenery, 'door');
  t.match(
    await emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { response_url: `${emsp.url}/r`, session_id: 'S1' }),
    {
      json: { data: { result: 'ACCEPTED' } },
    },
  );
  const { id } = await commandOf(hub);
  const credential = door.hub.authenticate(cpo.hubToken, '127.0.0.1');
  if (!credential) throw new Error('the door does not know the CPO');
  await door.hub.callback(credential, id, '{"result":"TIMEOUT"}', 'TIMEOUT', trace);
  t.match(emsp.received.at(-1), { path: '/r', body: '{"result":"TIMEOUT"}' });
  await followed(hub);
  await eventually('its actor has ended', async () => actorsOf(hub.created).every(({ kind }) => kind !== 'command'));
  clock.advance(26_000);
  await hub.settled();
  t.match(await commandOf(hub), { state: 'relayed' });
});

t.test('without a result for a forward of a door, the owner ends the wait', async (t) => {
  const scenery = await scene(t);
  const { hub, clock, emsp } = scenery;
  const door = await nodeOf(t, scenery, 'door');
  await stop(door, emsp);
  await door.close();
  await followed(hub);
  await eventually('the owner waits', async () => actorsOf(hub.created).length === 2);
  clock.advance(26_000);
  await hub.settled();
  t.match(await commandOf(hub), { state: 'silent' });
});

for (const apartS of [-30, 30]) {
  t.test(`a door whose clock is ${apartS} s apart forwards: the owner waits for as long as the CPO said`, async (t) => {
    const scenery = await scene(t);
    const { hub, clock, emsp } = scenery;
    const moved = (ms: number) => ms + apartS * 1000;
    const apart = withMethods(clock as Clock, {
      now: () => moved(clock.now()),
      wall: () => moved(clock.wall()),
      stamp: (at) => clock.stamp(at),
    });
    const door = await nodeOf(t, scenery, 'door', {}, { clock: apart });
    t.match(await stop(door, emsp), { result: 'ACCEPTED', timeout: 25 });
    await followed(hub);
    await eventually('the owner waits', async () => actorsOf(hub.created).length === 2);
    const graces: unknown[] = [];
    for await (const { data } of hub.created.context.store.scan('orphans')) graces.push(data);
    const graceEndsAt = new Date(clock.wall() + 120_000).toISOString();
    t.match(graces, [{ graceEndsAt }], 'and gives the session its whole grace [ORPHAN-FOLLOW-UPS-2]');
    clock.advance(24_000);
    await hub.settled();
    t.match(await commandOf(hub), { state: 'awaiting' });
    clock.advance(2_000);
    await hub.settled();
    t.match(await commandOf(hub), { state: 'silent' });
  });
}

t.test(
  'a door loses the store while it forwards: after the time limit the owner counts the call as cut off until the answer is recorded',
  async (t) => {
    const scenery = await scene(t);
    const { hub, clock, cpo, emsp, hold } = scenery;
    let isLost = false;
    let refused = 0;
    const append: Store['append'] = async (commit) => {
      if (isLost) {
        refused += 1;
        throw new StoreUnavailable('it is lost');
      }
      const written = await hub.created.context.store.append(commit);
      hub.created.follow(written.last);
      return written;
    };
    const door = await nodeOf(t, scenery, 'door', { append });
    const go = hold();
    const asked = stop(door, emsp);
    await cpo.got('the command', ({ path }) => path.endsWith('/STOP_SESSION'));
    isLost = true;
    go();
    t.match(await asked, { result: 'ACCEPTED' }, 'the CPO had it');
    await followed(hub);
    const next = await nodeOf(t, scenery, 'owner');
    await next.followed(next.context.store.head());
    t.match(await commandOf(hub), { state: 'forwarding' }, 'the door may live');
    clock.advance(limitMs + 5_000);
    await hub.settled();
    t.match(await commandOf(hub), { state: 'rejected', reason: 'the hub was restarted meanwhile' });
    await eventually('the door has tried again', () => refused === 2);
    isLost = false;
    clock.advance(1_000);
    const isAwaiting = async () => (await commandOf(hub)).state === 'awaiting';
    await eventually('the door has recorded the answer', isAwaiting);
    t.match(await commandOf(hub), { result: 'ACCEPTED', reason: null });
    await eventually('the owner waits for the result', () => actorsOf(hub.created).length === 2);
    // The owner waits from when it has read the answer.
    await eventually('no result came', async () => {
      clock.advance(26_000);
      return (await commandOf(hub)).state === 'silent';
    });
  },
);

t.test(
  'a door is closed while a CPO answers a stop: the CPO may have accepted it, and the session is watched',
  async (t) => {
    const scenery = await scene(t);
    const { hub, cpo, emsp, hold } = scenery;
    const client = partnerClient({ egress: egressGuard(['127.0.0.0/8']) });
    const door = await nodeOf(t, scenery, 'door', {}, { client });
    hold();
    const cut = t.rejects(stop(door, emsp), { code: 'commandUnavailable' });
    await cpo.got('the command', ({ path }) => path.endsWith('/STOP_SESSION'));
    await client.close();
    await cut;
    await followed(hub);
    t.match(await commandOf(hub), { state: 'rejected', reason: 'the hub was restarted meanwhile' });
    await eventually('the owner watches', async () => actorsOf(hub.created).some(({ kind }) => kind === 'orphan-stop'));
  },
);

t.test('an owner that recovers while a command comes through a door follows the command afterwards', async (t) => {
  const scenery = await scene(t);
  const { hub, emsp } = scenery;
  const { store } = hub.created.context;
  const door = await nodeOf(t, scenery, 'door');
  const due: Store['due'] = async () => {
    const found = await store.due();
    await stop(door, emsp);
    // As when it writes something itself meanwhile.
    await next.followed(store.head());
    return found;
  };
  const next = madeOf(t, scenery, 'owner', { due });
  await next.recover();
  await eventually('both actors live at the next owner', async () => actorsOf(next).length === 2);
  t.same(
    actorsOf(next)
      .map(({ kind }) => kind)
      .sort(),
    ['command', 'orphan-stop'],
  );
});

t.test('a hub closes only after its follow-up of an event of another node has ended', async (t) => {
  const scenery = await scene(t);
  const { hub, emsp } = scenery;
  const { store } = hub.created.context;
  const get: Store['get'] = store.get.bind(store);
  let isAsked = false;
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const door = await nodeOf(t, scenery, 'door', { get });
  const held: Store['get'] = async (key) => {
    if (key.kind === 'sessions') {
      isAsked = true;
      await released;
    }
    return get(key);
  };
  Object.assign(store, { get: held });
  await stop(door, emsp);
  await eventually('the owner follows the answer of the CPO', () => isAsked);
  const order: string[] = [];
  const closing = hub.created.close().then(() => order.push('closed'));
  for (let turns = 0; turns < 2000; turns += 1) await nextTurn();
  order.push('followed');
  release();
  await closing;
  t.strictSame(order, ['followed', 'closed']);
  const watches: unknown[] = [];
  for await (const { data } of store.scan('orphans')) watches.push(data);
  t.match(watches, [{ state: 'GRACE', session: 'S1' }], 'the session is watched');
});

t.test('an authorize does not wait for a store that hangs: the uid is forwarded as received [D12]', async (t) => {
  const scenery = await scene(t);
  const { clock, cpo, emsp } = scenery;
  let isAsked = false;
  const door = await nodeOf(t, scenery, 'door', {
    get: (key) => {
      isAsked = key.kind === 'tokens';
      return isAsked ? new Promise(() => {}) : scenery.hub.created.context.store.get(key);
    },
    peek: () => undefined,
  });
  const request = { uid: 'Card1', type: 'RFID', to: { country_code: 'NL', party_id: 'EMS' }, body: null } as const;
  const answered = t.rejects(door.hub.authorizeAtEmsp(callerAt(door, cpo), request), { code: 'authorizeIncomplete' });
  await eventually('the token is looked up', async () => isAsked);
  clock.advance(250);
  await answered;
  t.match(emsp.received.at(-1)?.path, /\/Card1\/authorize/);
});
