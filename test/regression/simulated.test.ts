/** Faults that simulated worlds found, each told again as a short scene and shown to stay mended. */
import type { Trace } from '../../src/domain/events.ts';
import type { Hub } from '../../src/hub/ports/hub.ts';
import { ownedBy } from '../simulate/pushed.ts';
import type { Json } from '../simulate/reference.ts';
import { damage } from '../simulate/rot.ts';
import {
  answerOf,
  command,
  cpoOf,
  dateOf,
  emspOf,
  push,
  pushSession,
  receiverOf,
  revive,
  scene,
  stop,
} from '../simulate/scene.ts';
import { fair, weathers } from '../simulate/simulated-partner.ts';
import type { World } from '../simulate/world.ts';
import { poison } from '../support/poison.ts';
import { t } from '../support/tap.ts';

function sessionRow(world: World): Json {
  const row = [...(world.disk.rows.get('sessions')?.values() ?? [])].find(({ id }) => id === 's1');
  return JSON.parse(row?.body ?? '{}') as Json;
}

const actors = (world: World, kind: string) =>
  [...(world.created?.context.supervisor.views() ?? [])].filter((view) => view.kind === kind);

t.test(
  '[D2] a request that needs a read while the store reopens is refused as unavailable, not as an error',
  async (t) => {
    const world = await scene(t);
    await pushSession(world);
    world.isMounted = false;
    world.fates.push({ kind: 'refused', isWritten: false, mendMs: 30_000 });
    t.equal(await pushSession(world, { kwh: 1 }), 'unavailable', 'the write');
    t.equal(await pushSession(world, { kwh: 1 }), 'unavailable', 'the read before the next write');
    await world.pass(40_000);
    t.match(await pushSession(world, { kwh: 1 }), { result: 'updated' });
    t.equal(world.failure, null);
  },
);

t.test('[D19] a PATCH that is sent twice appends its charging periods once', async (t) => {
  const world = await scene(t);
  await pushSession(world, { charging_periods: [{ start_date_time: 'a', n: 1 }] });
  const period = { charging_periods: [{ start_date_time: 'b', n: 2 }] };
  await pushSession(world, period, 'PATCH');
  await pushSession(world, { kwh: 3 }, 'PATCH');
  await pushSession(world, period, 'PATCH');
  t.match(sessionRow(world).charging_periods, [{ n: 1 }, { n: 2 }]);
  t.equal((sessionRow(world).charging_periods as unknown[]).length, 2);
});

t.test('[D36] a stop that was accepted while the store could not write is watched all the same', async (t) => {
  const world = await scene(t);
  await pushSession(world);
  let answer: unknown = null;
  void stop(world).then((value) => {
    answer = value;
  });
  // The record of the command is written; from the call on nothing is, for a while.
  await world.until(() => [...world.judge.commands.stories.values()].some(({ forwards }) => forwards === 1), 60_000);
  for (const partner of world.partners.values()) for (const command of partner.commands.values()) t.ok(command.answer);
  for (let n = 0; n < 3; n++) world.fates.push({ kind: 'refused', isWritten: false, mendMs: 4_000 });
  await world.until(() => answer !== null, 60_000);
  await world.pass(60_000);
  const [story] = world.judge.commands.stories.values();
  t.equal(story?.answer, 'ACCEPTED', 'the scene needs a CPO that accepts');
  t.match(answer, { result: 'ACCEPTED' }, 'the CPO has answered, and the eMSP was told');
  t.equal(actors(world, 'orphan-stop').length, 1, 'the session is watched');
  await world.pass(600_000);
  t.match(actors(world, 'orphan-stop'), [{ snapshot: { value: 'open' } }], 'its case opened when it was due');
  t.equal(world.failure, null);
});

t.test(
  '[interface, Commands 5] a command becomes silent also when the store could not write at that moment',
  async (t) => {
    const world = await scene(t);
    await pushSession(world);
    await stop(world);
    const [story] = world.judge.commands.stories.values();
    t.equal(story?.answer, 'ACCEPTED', 'the scene needs a CPO that accepts');
    const isWaiting = () => actors(world, 'command').length > 0;
    t.ok(isWaiting());
    // Nothing can be written from now on until long after the window.
    for (let n = 0; n < 1_000; n++) world.fates.push({ kind: 'refused', isWritten: false, mendMs: 1_000 });
    await world.pass(120_000);
    world.fates.length = 0;
    await world.pass(120_000);
    t.notOk(isWaiting(), 'nothing is left open');
    t.equal(world.failure, null);
  },
);

t.test('a result of an ended command leaves no actor behind when it cannot be recorded', async (t) => {
  const world = await scene(t);
  await pushSession(world);
  await stop(world);
  await world.pass(300_000);
  t.equal(actors(world, 'command').length, 0, 'it is over');
  const [id = ''] = world.judge.commands.stories.keys();
  const partner = world.partners.get(world.cast.cpos[0]?.host ?? '');
  const callback = () => {
    const body = JSON.stringify({ result: 'ACCEPTED', n: world.newId('n') });
    world.judge.commands.called(id, body);
    return answerOf(world, async (hub, trace) => {
      const credential = hub.authenticate(partner?.hubToken ?? '', '127.0.0.1');
      if (!credential) throw new Error('no credential');
      await hub.callback(credential, id, body, 'ACCEPTED', trace);
      return 'relayed';
    });
  };
  world.fates.push({ kind: 'refused', isWritten: false, mendMs: 500 });
  t.equal(await callback(), 'unavailable');
  t.equal(actors(world, 'command').length, 0);
  await world.pass(2_000);
  t.equal(await callback(), 'relayed', 'a later one is relayed');
  t.equal(actors(world, 'command').length, 0);
});

t.test('[D53] an older version is not re-driven behind a newer one that is still in flight', async (t) => {
  const world = await scene(t);
  const emsp = emspOf(world);
  const receiver = receiverOf(world);
  receiver.weather = { http404: 1 };
  await pushSession(world, { kwh: 1 });
  await world.pass(5_000);
  const [dead] = [...world.judge.deliveries.owed.values()].filter(({ row }) => row === 'DEAD');
  t.ok(dead, 'the first is dead');
  receiver.weather = weathers.down;
  await pushSession(world, { kwh: 2 });
  await world.pass(3_000);
  const redrive = () =>
    answerOf(world, (hub, trace) => hub.operations.redriveOne(`${dead?.fact.seq}-${emsp}`, false, trace));
  t.equal(await redrive(), 'conflict', 'while the second waits');
  receiver.weather = fair;
  await world.pass(120_000);
  t.equal(await redrive(), 'conflict', 'and when it has arrived');
  t.equal((receiver.copies.get(`${emsp} sessions/${cpoOf(world)}/s1`) as Json).kwh, 2);
  t.equal(world.failure, null);
});

t.test(
  '[D53] a dead change of an EVSE is stale when the whole arrived in place of a later change of another one',
  async (t) => {
    const world = await scene(t);
    const emsp = emspOf(world);
    const receiver = receiverOf(world);
    const evse = (uid: string) => ({ uid, status: 'AVAILABLE', connectors: [], last_updated: dateOf(world) });
    const base = { module: 'locations', id: 'L1' } as const;
    const whole = { ...ownedBy(cpoOf(world)), id: 'L1', publish: true, evses: [evse('A'), evse('B')] };
    await push(world, { ...base, method: 'PUT', body: { ...whole, last_updated: dateOf(world) } });
    await world.pass(1_000);
    receiver.weather = { http404: 1 };
    await push(world, { ...base, method: 'PUT', within: ['A'], body: evse('A') });
    await world.pass(1_000);
    receiver.weather = fair;
    await push(world, { ...base, method: 'PUT', within: ['B'], body: evse('B') });
    await world.pass(1_000);
    const [dead] = [...world.judge.deliveries.owed.values()].filter(({ row }) => row === 'DEAD');
    const id = `${dead?.fact.seq}-${emsp}`;
    t.equal(await answerOf(world, (hub, trace) => hub.operations.redriveOne(id, false, trace)), 'conflict');
  },
);

t.test('an object that was hidden after a resync read its list is not sent', async (t) => {
  const world = await scene(t);
  const emsp = emspOf(world);
  for (const id of ['L1', 'L2', 'L3']) {
    const body = { ...ownedBy(cpoOf(world)), id, publish: true, evses: [], last_updated: dateOf(world) };
    await push(world, { module: 'locations', method: 'PUT', id, body });
    await world.pass(10);
  }
  await world.pass(5_000);
  void answerOf(world, (hub, trace) => hub.operations.resync(emsp, 'locations', trace));
  const resent = () => world.judge.facts.log.filter(({ type }) => type === 'object.resent').map(({ stream }) => stream);
  await world.until(() => resent().length === 1, 5_000);
  // The first was sent; the last, which was read with it, is hidden now.
  const hidden = { publish: false, last_updated: dateOf(world) };
  await push(world, { module: 'locations', method: 'PATCH', id: 'L3', body: hidden });
  await world.pass(10_000);
  t.equal(world.failure, null);
  t.notOk(
    resent().some((stream) => stream.endsWith('/l3')),
    'it is owed to nobody',
  );
});

t.test('the end of an earlier call is not taken for the end of a trial', async (t) => {
  const world = await scene(t);
  const [cpo] = world.cast.cpos;
  const [emsp] = world.cast.emsps;
  const partner = world.partners.get(emsp?.host ?? '');
  if (!cpo || !emsp || !partner) throw new Error('nobody');
  const ends = new Map<string, string>();
  const ask = (name: string) => {
    const verb = async (hub: Hub, trace: Trace) => {
      const caller = world.callerOf(hub, cpo, trace);
      const [country_code = '', party_id = ''] = emsp.party.split('-');
      const to = { country_code, party_id };
      return caller && hub.authorizeAtEmsp(caller, { uid: 'U', type: 'RFID', to, body: null });
    };
    world.ask(name, verb, { ok: () => ends.set(name, 'ok'), failed: (code) => ends.set(name, code) });
  };
  const circuit = () =>
    world.hub?.operations.party(partner.company.id).circuits.find(({ circuit: name }) => name === 'sync')?.state;
  // One call hangs; five fail meanwhile and open the circuit, which half-opens before the first has ended.
  partner.weather = weathers.hanging;
  ask('before');
  await world.pass(1);
  partner.weather = weathers.down;
  for (let n = 0; n < 5; n++) ask(`failing ${n}`);
  await world.pass(100);
  t.equal(circuit(), 'open');
  await world.until(() => circuit() === 'halfOpen', 6_000);
  partner.weather = weathers.hanging;
  ask('trial');
  await world.until(() => ends.has('before'), 10_000);
  t.equal(ends.get('before'), 'authorizeTimeout');
  t.notOk(ends.has('trial'), 'the trial is under way');
  t.equal(circuit(), 'halfOpen', 'the call from before says nothing of the trial');
  await world.until(() => ends.has('trial'), 10_000);
  t.equal(circuit(), 'open', 'its own end does');
  t.equal(world.failure, null);
});

t.test('thirty-three receivers that hang leave room for one that does not', async (t) => {
  const world = await scene(t, 34);
  const [well, ...ill] = world.cast.emsps;
  for (const { host } of ill) {
    const partner = world.partners.get(host);
    if (partner) partner.weather = weathers.hanging;
  }
  for (let n = 1; n <= 20; n++) {
    const body = { ...ownedBy(cpoOf(world)), id: `L${n}`, publish: true, evses: [], last_updated: dateOf(world) };
    await push(world, { module: 'locations', method: 'PUT', id: `L${n}`, body });
  }
  await world.pass(1_000);
  const taken = [...world.judge.deliveries.owed.values()].filter(({ isDelivered }) => isDelivered);
  t.equal(taken.filter(({ receiver }) => receiver === well?.party).length, 20, 'all arrived within a second');
  t.equal(world.failure, null);
});

t.test('an actor that cannot be rebuilt while the store is away is not quarantined', async (t) => {
  const world = await scene(t);
  const [company] = world.cast.companies;
  const id = `partner:${company?.id}`;
  world.isMounted = false;
  world.fates.push({ kind: 'refused', isWritten: false, mendMs: 40_000 });
  await pushSession(world);
  world.created?.context.supervisor.send(id, poison());
  await world.pass(30_000);
  t.match(world.created?.context.supervisor.view(id), { status: 'restarting' });
  await world.pass(20_000);
  t.match(world.created?.context.supervisor.view(id), { status: 'active' });
  t.equal(world.failure, null);
});

t.test('[CONTRACT-8] the row of a job that was damaged at rest is rebuilt as it was', async (t) => {
  const world = await scene(t);
  await pushSession(world);
  const options = { ratePerS: 50, force: false, routing: 'then' } as const;
  const started = await answerOf(world, (hub, trace) => hub.operations.redrive({ state: 'ANY' }, options, trace));
  const { id } = started as { id: string };
  await world.pass(5_000);
  const job = () => answerOf(world, (hub) => hub.operations.job(id));
  const before = await job();
  t.match(before, { state: 'DONE' });
  const row = world.disk.rows.get('jobs')?.values().next().value;
  if (!row) throw new Error('the job has no row');
  damage(world, row);
  await revive(world);
  t.equal(world.disk.damaged.size, 0, 'it is whole again');
  t.strictSame(await job(), before);
  t.equal(world.failure, null);
});

t.test('[CONTRACT-6] deliveries that a crash forgot are sent again, in the order of the log', async (t) => {
  const world = await scene(t);
  const receiver = receiverOf(world);
  const owed = () => [...world.judge.deliveries.owed.values()];
  receiver.weather = weathers.down;
  await pushSession(world, { kwh: 1 });
  await world.until(() => owed()[0]?.row === 'PENDING', 5_000);
  await pushSession(world, { kwh: 2 });
  // From here on nothing can be written: the first is refused for good, the second arrives, and both are forgotten.
  for (let n = 0; n < 100; n++) world.fates.push({ kind: 'refused', isWritten: false, mendMs: 100 });
  receiver.weather = { ocpi2001: 1 };
  t.ok(await world.until(() => world.tail.at(-1)?.endsWith(' ocpi2001') === true, 10_000), 'refused');
  receiver.weather = fair;
  t.ok(await world.until(() => owed()[1]?.isDelivered === true, 10_000), 'arrived');
  t.strictSame(
    owed().map(({ row }) => row),
    ['PENDING', null],
    'neither end is on the disk',
  );
  world.fates.length = 0;
  await revive(world);
  await world.pass(60_000);
  const life = world.tail.slice(world.tail.findIndex((line) => line.endsWith('start 2')));
  const sent = life.filter((line) => line.includes(' call delivery ')).map((line) => line.split(' ').at(-2));
  t.strictSame(
    sent,
    owed().map(({ fact }) => fact.correlationId),
    'both, the older first',
  );
  t.equal((receiver.copies.get(`${emspOf(world)} sessions/${cpoOf(world)}/s1`) as Json).kwh, 2);
  t.equal(world.failure, null);
});

t.test(
  '[CONTRACT-9] dead letters that were removed by a trim of unknown outcome are not counted for ever',
  async (t) => {
    const world = await scene(t, 2, { eventsKeepDays: 0.004, compatibilityWindowH: 0.01 });
    const receiver = receiverOf(world);
    const dead = () => world.hub?.operations.party(emspOf(world)).queue.dead;
    const hourMs = 3_600_000;
    receiver.weather = { http404: 1 };
    await pushSession(world);
    await world.pass(5_000);
    receiver.weather = fair;
    t.equal(dead(), 1);
    await world.pass(hourMs - (world.agenda.now % hourMs) - 1);
    // `log.trimmed` is recorded; then the outcome of the trim is unknown.
    world.fates.push({ kind: 'done' }, { kind: 'open', isWritten: true, mendMs: 100 });
    await world.pass(1_000);
    t.ok(world.disk.horizon > 0, 'it was made');
    await world.pass(hourMs);
    t.equal(dead(), 0);
    t.equal(world.failure, null);
  },
);

t.test('a route that may have been removed decides nothing until that is known', async (t) => {
  const world = await scene(t);
  const [emsp, cpo] = [emspOf(world), cpoOf(world)];
  world.fates.push({ kind: 'open', isWritten: true, mendMs: 150 });
  world.ask('route gone', (hub, trace) => hub.operations.removeRoute(emsp, cpo, trace));
  t.ok(
    await world.until(() => [...world.disk.events.values()].at(-1)?.type === 'route.removed', 1_000),
    'it is written',
  );
  await world.pass(160);
  const body = { ...ownedBy(cpo), id: 'L1', last_updated: dateOf(world) };
  t.match(await push(world, { module: 'locations', method: 'PUT', id: 'L1', body }), { result: 'created' });
  t.notOk([...world.disk.events.values()].at(-1)?.to.includes(emsp), 'owed to those who are still routed');
  t.equal(world.failure, null);
});

t.test('the row by which a command is found is rebuilt from the events that a trimmed log has kept', async (t) => {
  const world = await scene(t, 2, { eventsKeepDays: 0.004, compatibilityWindowH: 0.01 });
  const hourMs = 3_600_000;
  const started = () => [...(world.disk.rows.get('starts:uid')?.values() ?? [])];
  t.match(
    await command(world, 'START_SESSION', { tokenUid: 'CARD' }),
    { result: 'ACCEPTED' },
    'the scene needs a CPO that accepts',
  );
  receiverOf(world).weather = { http500: 1 };
  await pushSession(world);
  await world.pass(hourMs);
  t.ok(world.disk.horizon > 0, 'the log was trimmed up to what is owed');
  const [row] = started();
  t.ok(row, 'the command goes on behind that, and can be found');
  if (row) damage(world, row);
  await revive(world);
  t.strictSame(
    started().map(({ data }) => data),
    [row?.data],
  );
  t.equal(world.failure, null);
});
