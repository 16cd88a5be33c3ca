/**
 * The log of nodes that share the parties is trimmed by each node for its own shards, on a simulated clock: never beyond what is still owed
 * to a receiver of another node, and what is stored stays.
 */
import { loadConfig } from '../../src/config.ts';
import { type ServingHub, startServing } from '../../src/main.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { sessionBody } from '../support/bodies.ts';
import { calmGauge, partnerFor } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, type PostgresServer, sharedPostgres } from '../support/postgres.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { adminToken, longer, settingsOf, shared } from './nodes.ts';
import { partiesOn, untilShared } from './shares.ts';

const keepDays = 30;
const dayMs = 86_400_000;
const schema = newSchema('kept');

async function startNode(t: Test, server: PostgresServer, clock: SimulatedClock): Promise<ServingHub> {
  const port = await freePort();
  const own = {
    ...{ HUB_PORT: String(port), HUB_EVENTS_KEEP_DAYS: String(keepDays), HUB_LOG_LEVEL: 'silent' },
    // No leap of time cuts what is in flight.
    HUB_DELIVERY_TIMEOUT_MS: String(dayMs),
  };
  const env = settingsOf(`http://127.0.0.1:${port}`, port, server.url(schema, shared), own);
  const node = await startServing(loadConfig({ env, flags: {} }), { clock, gauge: calmGauge, headMs: dayMs });
  t.teardown(() => node.close());
  return node;
}

t.test('the log of shared parties is trimmed, and what is owed stays', longer, async (t) => {
  const server = await sharedPostgres();
  const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
  // Nodes look at each other again and again: between leaps time goes on as it does.
  const ticking = setInterval(() => clock.advance(20), 20);
  t.teardown(() => clearInterval(ticking));
  const first = await startNode(t, server, clock);
  const second = await startNode(t, server, clock);
  await untilShared({ all: [first, second] });
  const hub = { url: first.url, adminToken };
  const [one, two] = [await partiesOn(server, schema, first), await partiesOn(server, schema, second)];
  const scenes = await Promise.all(
    [
      { cpoId: one(), emspId: two() },
      { cpoId: two(), emspId: one() },
    ].map(async ({ cpoId, emspId }) => {
      const cpo = await partnerFor(t, hub, { countryCode: 'NL', role: 'CPO', partyId: cpoId });
      const emsp = await partnerFor(t, hub, { countryCode: 'NL', role: 'EMSP', partyId: emspId });
      await admin(hub, 'PUT', `/routes/${emsp.id}/${cpo.id}`, { active: true });
      const cdr_token = { country_code: 'NL', party_id: emspId, uid: 'CARD1', type: 'RFID', contract_id: 'C1' };
      const push = (id: string) => {
        const body = sessionBody(id, { party_id: cpoId, cdr_token });
        return cpo.call('PUT', `/2.2.1/sessions/NL/${cpoId}/${id}`, body);
      };
      const stored = async () =>
        (await emsp.call('GET', '/2.2.1/sessions?date_from=2020-01-01T00:00:00Z')).text.replace(/,"status_code".*/, '');
      const horizon = async () => {
        const [row] = await server.query<{ head: string; horizon: string }>(
          `select max(head) as head, max(horizon) as horizon from ${schema}.shards where id in
            (select shard from ${schema}.events where party = $1 and type = 'object.put'
              union select shard from ${schema}.rows where kind = 'sessions' and owner = $1)`,
          [cpo.id],
        );
        return { head: Number(row?.head), horizon: Number(row?.horizon) };
      };
      return { cpo, emsp, push, stored, horizon };
    }),
  );
  const [well, paused] = scenes;
  if (well === undefined || paused === undefined) throw new Error('two scenes');
  for (const { push } of scenes) for (const id of ['S1', 'S2']) t.equal((await push(id)).status, 200);
  await eventually('all arrived', () => scenes.every(({ emsp }) => emsp.received.length === 2));
  await admin(hub, 'PATCH', `/parties/${paused.emsp.id}`, { paused: true });
  t.equal((await paused.push('S3')).status, 200);
  const before = await Promise.all(scenes.map(({ stored }) => stored()));
  const { head } = await well.horizon();

  const pass = async (what: string, done: () => Promise<boolean>) =>
    eventually(what, async () => {
      clock.advance(60_000);
      return done();
    });
  clock.advance((keepDays + 1) * dayMs);
  await pass('the log of the one who is well is trimmed', async () => (await well.horizon()).horizon >= head);
  await pass('so is that of the other one, up to what is owed', async () => {
    const { head: last, horizon } = await paused.horizon();
    return horizon >= last - 1;
  });
  clock.advance(dayMs);
  t.strictSame(await Promise.all(scenes.map(({ stored }) => stored())), before, 'what is stored is the same');
  const held = await paused.horizon();
  t.equal(held.horizon, held.head - 1, 'up to what is owed to the other node');

  await admin(hub, 'PATCH', `/parties/${paused.emsp.id}`, { paused: false });
  await pass('when that has ended the rest goes', async () => (await paused.horizon()).horizon >= held.head);
  t.strictSame(await Promise.all(scenes.map(({ stored }) => stored())), before, 'what is stored is still the same');
});
