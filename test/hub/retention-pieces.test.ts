/** The log is trimmed in pieces: wherever between two of them a hub ends, the next one goes on, and nothing is missing. */
import { join } from 'node:path';
import type { Row, Store } from '../../storage/contract.ts';
import { sessionBody, tariffBody } from '../support/bodies.ts';
import { copyDataDirectory } from '../support/directory.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { itemsOf, quiet } from '../support/observed.ts';
import { admin, eventually, type PlainPartner } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import {
  damageRows,
  dayMs,
  days,
  inTime,
  patched,
  type Scene,
  scene,
  storeOfEach,
  trimmed,
} from './retention-scene.ts';

const kinds = ['sessions', 'locations', 'tariffs', 'cdrs', 'tokens', 'partners', 'routes'];
/** Of a sweep that begins. */
const pieceMax = 128;

/** Every row that outlives its events, by its name, as it is read. */
async function rowsIn(store: Store): Promise<Map<string, string>> {
  const found: Row[] = [];
  for (const kind of kinds) for await (const row of store.scan(kind)) found.push(row);
  return new Map(
    found.map(({ kind, owner, id, data, body }) => [`${kind}/${owner}/${id}`, JSON.stringify([data, body])]),
  );
}

const keysOf = (rows: ReadonlyMap<string, string>) =>
  [...rows.keys()].map((name) => {
    const [kind = '', owner = '', ...id] = name.split('/');
    return { kind, owner, id: id.join('/') };
  });

/** Dead letters that are still there, and those of which the log says that they ended. */
async function deadLetters(hub: Scene['hub']): Promise<number> {
  const left = await itemsOf(hub, '/deliveries?receiver=NL-EMS&state=DEAD');
  const told = await itemsOf(hub, '/events?type=log.trimmed');
  return told.reduce(
    (sum, { data }) => sum + ((data as { dead: Record<string, number> }).dead['NL-EMS'] ?? 0),
    left.length,
  );
}

async function ok(partner: PlainPartner, method: string, path: string, body: object): Promise<unknown> {
  const { json } = await partner.call(method, path, body);
  if (json.status_code !== 1000) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`);
  return json.data;
}

const callbackIn = (stage: Scene): string => {
  const call = stage.cpo.received.find(({ path }) => path.includes('/commands/'));
  const { response_url } = JSON.parse(call?.body ?? '{}') as { response_url: string };
  return new URL(response_url).pathname.slice('/ocpi'.length);
};

/** Several pieces of events: objects that change in all of them, dead letters in each, a command that begins in one and ends in another. */
async function fillPieces(stage: Scene, count: number): Promise<string> {
  const { cpo, emsp, hub } = stage;
  await storeOfEach(stage);
  let id = '';
  for (let n = 0; n < count; n += 1) {
    const last_updated = new Date(Date.UTC(2026, 0, 10, 9) + n * 1000).toISOString();
    await ok(cpo, 'PATCH', '/2.2.1/locations/NL/CPO/LOC1', { last_updated, name: `Plein ${n}` });
    await ok(cpo, 'PATCH', '/2.2.1/sessions/NL/CPO/S1', { last_updated, kwh: n });
    await ok(cpo, 'PUT', `/2.2.1/sessions/NL/CPO/R${n % 5}`, sessionBody(`R${n % 5}`, { last_updated, kwh: n }));
    if (n % 12 === 0) await ok(cpo, 'PUT', '/2.2.1/tariffs/NL/CPO/DEAD', tariffBody('DEAD', { last_updated }));
    if (n === 5) {
      await ok(emsp, 'POST', '/2.2.1/commands/STOP_SESSION', {
        response_url: `${emsp.url}/ocpi/result`,
        session_id: 'R1',
      });
      id = String((await itemsOf(hub, '/commands'))[0]?.id);
    }
    if (n === count - 5) await ok(cpo, 'POST', callbackIn(stage), { result: 'ACCEPTED' });
    if (n === count - 4)
      await ok(cpo, 'PUT', '/2.2.1/sessions/NL/CPO/R1', sessionBody('R1', { last_updated, status: 'COMPLETED' }));
  }
  await quiet(hub);
  return id;
}

const refusing: Parameters<typeof scene>[1] = {
  emsp: ({ path }) => (path.includes('DEAD') ? { status: 400, text: '{"status_code":2001}' } : {}),
};

/** Lets one piece be trimmed. */
async function nextPiece(scene: Pick<Scene, 'hub' | 'clock'>): Promise<void> {
  const { store } = scene.hub.created.context;
  const before = store.horizon();
  await scene.hub.settled();
  if (store.horizon() === before) await inTime(scene, 20, 'a piece is trimmed', () => store.horizon() > before);
}

/** A hub on a copy of the directory as it is now: what a kill at this moment leaves. */
async function afterKill(t: Test, stage: Scene, name: string, rows: ReadonlyMap<string, string>) {
  const copy = join(stage.dataDir, '..', name);
  copyDataDirectory(stage.dataDir, copy);
  await damageRows(copy, keysOf(rows));
  const clock = new SimulatedClock(new Date(stage.clock.now()).toISOString());
  const hub = await hubFor(t, { ...stage.env, HUB_PORT: '0' }, { clock }, copy);
  return { hub, clock, store: hub.created.context.store };
}

t.test(
  '[RETENTION-2, RETENTION-4] after a kill between any two pieces all rows can be rebuilt, and the next sweep continues',
  atLength,
  async (t) => {
    const stage = await scene(t, refusing);
    const command = await fillPieces(stage, 60);
    const { store } = stage.hub.created.context;
    const before = await rowsIn(store);
    const told = (await store.history(`command:${command}`)).map(({ type }) => type);
    t.ok(told.includes('command.relayed'), `the command has its end: ${told}`);
    const dead = await deadLetters(stage.hub);
    t.equal(dead, 5);
    const head = store.head();
    stage.clock.advance((days + 1) * dayMs);
    const horizons: number[] = [];
    while (store.horizon() < head) {
      await nextPiece(stage);
      horizons.push(store.horizon());
      const { hub, clock, store: left } = await afterKill(t, stage, `kill-${horizons.length}`, before);
      const where = `killed at ${left.horizon()}`;
      t.equal(left.horizon(), store.horizon(), where);
      t.match(left.health(), { state: 'open', damagedRows: { length: 0 } });
      t.strictSame(await rowsIn(left), before, `${where}: every row was made again from what the log keeps`);
      t.equal(await deadLetters(hub), dead, `${where}: each dead letter is there, or the log says that it ended`);
      const steps = (await left.history(`command:${command}`)).map(({ type }) => type);
      const row = await left.get({ kind: 'commands', owner: '', id: command });
      t.strictSame(steps, row ? told : [], `${where}: of the command all is there, or nothing`);
      clock.advance(3_600_000);
      while (left.horizon() < head) await nextPiece({ hub, clock });
      t.strictSame(await rowsIn(left), before, `${where}, and trimmed to the end`);
      t.equal(await deadLetters(hub), dead, `${where}: and those that ended after it were told, too`);
      await hub.close();
    }
    t.ok(horizons.length >= 3, `there were several pieces: ${horizons}`);
    t.ok(
      horizons.every((horizon, n) => horizon - (horizons[n - 1] ?? 0) <= pieceMax),
      'each of them was small',
    );
  },
);

t.test('[RETENTION-5] a command whose result arrives when it is about to be trimmed stays as a whole', async (t) => {
  const stage = await scene(t);
  await storeOfEach(stage);
  const { store, recorder } = stage.hub.created.context;
  await ok(stage.emsp, 'POST', '/2.2.1/commands/STOP_SESSION', {
    response_url: `${stage.emsp.url}/ocpi/result`,
    session_id: 'S1',
  });
  const [{ id } = {}] = await itemsOf(stage.hub, '/commands');
  const stream = `command:${String(id)}`;
  await inTime(stage, 60_000, 'its result is not awaited any more', async () => {
    return (await itemsOf(stage.hub, '/commands'))[0]?.state === 'silent';
  });
  const head = store.head();
  let turns = 0;
  const inTurn = recorder.inTurn.bind(recorder);
  recorder.inTurn = (key, work) => {
    if (key === stream) turns += 1;
    return inTurn(key, work);
  };
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const before = recorder.inTurn(stream, () => held);
  const result = ok(stage.cpo, 'POST', callbackIn(stage), { result: 'ACCEPTED' });
  await eventually('the result waits for its turn', () => turns === 2);
  stage.clock.advance((days + 1) * dayMs);
  await stage.hub.settled();
  t.equal(turns, 3, 'the log is about to be trimmed');
  t.equal(store.horizon(), 0, 'and waits for its turn, too');
  release();
  await Promise.all([before, result]);
  await inTime(stage, 1_000, 'the log is trimmed', () => store.horizon() >= head);
  const types = (await store.history(stream)).map(({ type }) => type);
  t.strictSame(types[0], 'command.requested', `its beginning is there: ${types}`);
  t.ok(types.includes('command.relayed'));
  await stage.restart();
  t.match(stage.hub.created.context.store.health(), { state: 'open', damagedRows: { length: 0 } });
  const { state } = (await itemsOf(stage.hub, '/commands'))[0] ?? {};
  t.equal(state, 'relayed');
  t.match(await admin(stage.hub, 'GET', '/overview'), { totals: { quarantined: { length: 0 } } });
});

t.test(
  '[LOG-COMPACTION-2] a watch that ends in a later piece than it began in is trimmed with that piece',
  atLength,
  async (t) => {
    const stage = await scene(t);
    await storeOfEach(stage);
    await ok(stage.emsp, 'POST', '/2.2.1/commands/STOP_SESSION', {
      response_url: `${stage.emsp.url}/ocpi/result`,
      session_id: 'S1',
    });
    const [armed] = await itemsOf(stage.hub, '/events?type=orphan.armed');
    const { id } = (armed?.data ?? {}) as { id: string };
    for (let n = 0; n < pieceMax; n += 1) await ok(stage.cpo, 'PATCH', '/2.2.1/locations/NL/CPO/LOC1', patched(n % 60));
    const { hub, dataDir } = stage;
    await hub.close();
    await damageRows(dataDir, [{ kind: 'orphans', owner: 'NL-CPO', id }]);
    await stage.restart();
    await ok(stage.cpo, 'PATCH', '/2.2.1/sessions/NL/CPO/S1', patched(59, { status: 'COMPLETED' }));
    await quiet(stage.hub);
    const { store } = stage.hub.created.context;
    const told = async () => (await store.history(`orphan:${id}`)).map(({ type }) => type);
    t.strictSame(await told(), ['orphan.armed', 'orphan.disarmed']);
    t.equal((await itemsOf(stage.hub, '/events?type=row.rebuilt')).length, 1);
    stage.clock.advance((days + 1) * dayMs);
    await nextPiece(stage);
    t.strictSame(await told(), ['orphan.armed', 'orphan.disarmed'], `all of it, below ${store.horizon()}`);
    await trimmed(stage);
    t.strictSame(await told(), [], 'nothing of it');
  },
);
