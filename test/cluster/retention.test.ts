/**
 * The log is trimmed by the owner, on a simulated clock: never beyond what is still owed, and what is stored stays, whichever node is asked.
 */
import { loadConfig } from '../../src/config/config.ts';
import { type ServingHub, startServing } from '../../src/main.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { sessionBody } from '../support/bodies.ts';
import { calmGauge, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, type PostgresServer, sharedPostgres } from '../support/postgres.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { adminToken, longer, settingsOf, untilJoined } from './nodes.ts';

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
  const env = settingsOf(`http://127.0.0.1:${port}`, port, server.url(schema), own);
  const node = await startServing(loadConfig({ env, flags: {} }), { clock, gauge: calmGauge, headMs: dayMs });
  t.teardown(() => node.close());
  return node;
}

t.test('the log is trimmed up to what is owed', longer, async (t) => {
  const server = await sharedPostgres();
  const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
  // Nodes look at each other again and again: between leaps time goes on as it does.
  const ticking = setInterval(() => clock.advance(20), 20);
  t.teardown(() => clearInterval(ticking));
  const first = await startNode(t, server, clock);
  const second = await startNode(t, server, clock);
  await untilJoined([first, second]);
  // What is asked of the one that stands by comes to the owner.
  const hub = { url: second.url, adminToken };
  const { cpo, emsp } = await routedPair(t, hub);
  const push = (id: string) => cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
  const stored = () =>
    Promise.all(
      [first, second].map(async ({ url }) => {
        const headers = { authorization: `Token ${Buffer.from(emsp.hubToken).toString('base64')}` };
        const answer = await fetch(`${url}/ocpi/2.2.1/sessions?date_from=2020-01-01T00:00:00Z`, { headers });
        return (await answer.text()).replace(/,"status_code".*/, '');
      }),
    );
  const horizon = async () => {
    const [row] = await server.query<{ horizon: string }>(`select horizon from ${schema}.log`);
    return Number(row?.horizon);
  };
  for (const id of ['S1', 'S2']) t.equal((await push(id)).status, 200);
  await eventually('both arrived', () => emsp.received.length === 2);
  await admin(hub, 'PATCH', `/parties/${emsp.id}`, { paused: true });
  t.equal((await push('S3')).status, 200);
  const [{ seq } = { seq: 0 }] = await server.query<{ seq: string }>(
    `select seq from ${schema}.events where type = 'object.put' order by seq desc limit 1`,
  );
  const owed = Number(seq);
  const before = await stored();
  t.equal(before[0], before[1]);

  const pass = async (what: string, done: () => Promise<boolean>) =>
    eventually(what, async () => {
      clock.advance(60_000);
      return done();
    });
  clock.advance((keepDays + 1) * dayMs);
  await pass('the log is trimmed up to what is owed', async () => (await horizon()) >= owed - 1);
  clock.advance(dayMs);
  t.strictSame(await stored(), before, 'what is stored is the same');
  t.equal(await horizon(), owed - 1, 'and what is owed is in the log');

  await admin(hub, 'PATCH', `/parties/${emsp.id}`, { paused: false });
  await pass('when that has ended the rest goes', async () => (await horizon()) >= owed);
  const [ended] = await server.query<{ data: string }>(
    `select data from ${schema}.events where stream = 'delivery:${owed}-NL-EMS' and type = 'delivery.dead'`,
  );
  t.match(ended?.data, 'expired', 'as a dead letter: its time was over');
  t.strictSame(await stored(), before, 'what is stored is still the same');
});
