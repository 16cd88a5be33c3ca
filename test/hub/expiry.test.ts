/** Old sessions, CDRs and tokens end, what is owed or just came stays. [interface, HUB_SESSIONS_KEEP_DAYS] */
import { join } from 'node:path';
import { billedKind } from '../../src/hub/kernel/row-codecs.ts';
import type { Replaced } from '../../src/main.ts';
import { cdrBody, locationBody, sessionBody, tokenBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { idsOf, itemsOf, quiet } from '../support/observed.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';
import { dayMs, inTime } from './retention-scene.ts';

const begin = '2026-01-10T08:00:00.000Z';
const at = (days: number) => new Date(Date.parse(begin) + days * dayMs).toISOString();

async function scene(t: Test, env: Record<string, string>, replaced: Replaced = {}) {
  const clock = new SimulatedClock(begin);
  const dataDir = join(directoryFor(t), 'data');
  const hub = await hubFor(t, { HUB_RATE_OTHER_PER_MIN: '1000000', ...env }, { clock, ...replaced }, dataDir);
  let isDown = false;
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => (isDown ? { status: 503 } : {}) });
  const stored = async () => ({
    sessions: idsOf(await emsp.call('GET', '/2.2.1/sessions?date_from=2020-01-01T00:00:00Z')),
    cdrs: idsOf(await emsp.call('GET', '/2.2.1/cdrs')),
    tokens: idsOf(await cpo.call('GET', '/2.2.1/tokens')),
  });
  const ended = async (count: number) => {
    const events = await itemsOf(hub, '/events?type=object.deleted&limit=1000');
    return events.filter(({ data }) => (data as { reason: string }).reason === 'expired').length >= count;
  };
  const push = async (id: string, last_updated: string) => {
    await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/S${id}`, sessionBody(`S${id}`, { last_updated }));
    await cpo.push('POST', '/2.2.1/cdrs', cdrBody(`C${id}`, { session_id: `S${id}`, last_updated }));
    await emsp.push('PUT', `/2.2.1/tokens/NL/EMS/T${id}`, tokenBody(`T${id}`, { last_updated }));
  };
  const fail = (down: boolean) => {
    isDown = down;
  };
  return { clock, hub, cpo, emsp, stored, ended, push, fail };
}

/** Lets the days pass and the sweeps that fall due then. */
async function pass(
  stage: Awaited<ReturnType<typeof scene>>,
  days: number,
  what: string,
  done: () => Promise<boolean>,
) {
  stage.clock.advance(days * dayMs);
  await inTime(stage, 20_000, what, done);
}

t.test('[EXPIRY-1] each kind expires after its own time, by the partner’s date and by that of the hub', async (t) => {
  const keep = { HUB_SESSIONS_KEEP_DAYS: '10', HUB_CDRS_KEEP_DAYS: '20', HUB_TOKENS_KEEP_DAYS: '30' };
  const stage = await scene(t, keep);
  const { push, stored, ended, hub, cpo } = stage;
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1', { last_updated: at(-900) }));
  await push('1', at(0));
  await push('old', at(-900));
  await push('ahead', at(900));
  await quiet(hub);
  const all = { sessions: ['Sold', 'S1', 'Sahead'], cdrs: ['Cold', 'C1', 'Cahead'], tokens: ['Told', 'T1', 'Tahead'] };
  t.strictSame(await stored(), all);
  await pass(stage, 9, 'a sweep too early', async () => true);
  t.strictSame(await stored(), all, 'what the hub stored nine days ago stays, however old it says it is');
  await pass(stage, 2, 'the end of two sessions', () => ended(2));
  t.strictSame(await stored(), { ...all, sessions: ['Sahead'] });
  await pass(stage, 10, 'the end of two CDRs', () => ended(4));
  await pass(stage, 10, 'the end of two tokens', () => ended(6));
  t.strictSame(await stored(), { sessions: ['Sahead'], cdrs: ['Cahead'], tokens: ['Tahead'] });
  // A sweep deletes several at once, in no order.
  const deleted = await itemsOf(hub, '/events?type=object.deleted');
  t.match(
    deleted.filter(({ about }) => about === 'session:NL-CPO/Sold'),
    [{ by: 'hub' }],
  );
  await push('1', at(32));
  await quiet(hub);
  t.strictSame((await stored()).sessions, ['S1', 'Sahead'], 'it may come again');
  t.equal((await cpo.call('GET', '/2.2.1/locations/NL/CPO/LOC1')).status, 200);
});

t.test('[EXPIRY-1] an object that arrived more recently stays, also when its event has been trimmed', async (t) => {
  const keep = { HUB_SESSIONS_KEEP_DAYS: '6', HUB_TOKENS_KEEP_DAYS: '4', HUB_EVENTS_KEEP_DAYS: '1' };
  const stage = await scene(t, keep);
  const { push, hub, stored } = stage;
  const { store } = hub.created.context;
  await push('1', at(-900));
  await quiet(hub);
  const written = store.head();
  await pass(stage, 2, 'the trim of their events', async () => store.horizon() >= written);
  // A sweep comes to the sessions first.
  await pass(stage, 3, 'the end of the token', async () => (await stored()).tokens.length === 0);
  t.strictSame(await stored(), { sessions: ['S1'], cdrs: ['C1'], tokens: [] });
  await pass(stage, 2, 'the end of the session', async () => (await stored()).sessions.length === 0);
  t.strictSame(await stored(), { sessions: [], cdrs: ['C1'], tokens: [] });
});

t.test('the mark that a session was billed is removed with the session, or else with its last CDR', async (t) => {
  const stage = await scene(t, { HUB_CDRS_KEEP_DAYS: '10', HUB_SESSIONS_KEEP_DAYS: '30' });
  const { push, cpo, hub, stored, ended } = stage;
  const marks = async () => {
    const found: string[] = [];
    for await (const { id } of hub.created.context.store.scan(billedKind)) found.push(id);
    return found;
  };
  const bill = (id: string, last_updated: string) =>
    cpo.push('POST', '/2.2.1/cdrs', cdrBody(id, { session_id: 'Sunknown', last_updated }));
  await push('1', at(-5));
  await bill('C2', at(-5));
  await bill('C3', at(8));
  await quiet(hub);
  t.strictSame(await marks(), ['s1', 'sunknown']);
  await pass(stage, 11, 'the end of two CDRs', () => ended(2));
  t.match(await stored(), { sessions: ['S1'], cdrs: ['C3'] });
  t.strictSame(await marks(), ['s1', 'sunknown'], 'of a session that is stored, and of a CDR that is');
  await pass(stage, 8, 'the end of the third', () => ended(3));
  t.strictSame(await marks(), ['s1']);
  await pass(stage, 12, 'the end of the session', () => ended(4));
  t.strictSame(await marks(), []);
});

t.test('[EXPIRY-2] an object stays until it is delivered', async (t) => {
  const stage = await scene(t, { HUB_SESSIONS_KEEP_DAYS: '2', HUB_RETRY_WINDOW_H: '700' });
  const { push, stored, ended, fail, emsp, hub } = stage;
  await push('1', at(-5));
  await quiet(hub);
  fail(true);
  await push('2', at(-5));
  await pass(stage, 3, 'the end of the delivered one', () => ended(1));
  t.strictSame((await stored()).sessions, ['S2']);
  emsp.received.splice(0);
  fail(false);
  await pass(stage, 1, 'the end of the other', () => ended(2));
  t.ok(
    emsp.received.some(({ path }) => path.endsWith('/sessions/NL/CPO/S2')),
    'delivered before',
  );
  t.strictSame((await stored()).sessions, []);
});

t.test('[EXPIRY-2] a sweep reads the events of few objects at a time, in short pages', async (t) => {
  let [atOnce, most, longest] = [0, 0, 0];
  const wrap = wrapStore((store) => ({
    history: async (stream, after, limit = Number.POSITIVE_INFINITY) => {
      if (!stream.startsWith('sessions/')) return store.history(stream, after, limit);
      most = Math.max(most, ++atOnce);
      longest = Math.max(longest, limit);
      return store.history(stream, after, limit).finally(() => atOnce--);
    },
  }));
  const env = { HUB_SESSIONS_KEEP_DAYS: '2', HUB_RETRY_WINDOW_H: '700' };
  const stage = await scene(t, env, { wrap });
  const { stored, ended, fail, cpo, hub } = stage;
  for (let n = 1; n <= 20; n++)
    await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/S${n}`, sessionBody(`S${n}`, { last_updated: at(-5) }));
  for (let n = 0; n < 20; n++) await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/S1', { kwh: n, last_updated: at(-4) });
  await quiet(hub);
  fail(true);
  await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/S1', { kwh: 20, last_updated: at(-4) });
  await pass(stage, 3, 'the end of the delivered ones', () => ended(19));
  t.strictSame((await stored()).sessions, ['S1'], 'its last change is owed');
  t.ok(most <= 4 && longest <= 16, `${most} at once, ${longest} events`);
});
