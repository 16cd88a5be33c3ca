/**
 * A partner that is dead for long: twenty thousand updates queue for it, and the owner is killed in the middle. Others are served as usual
 * meanwhile, and it catches up in order.
 */
import { Agent, request } from 'undici';
import { sessionBody } from '../support/bodies.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { mustAddUp, type Write } from './load.ts';
import { longer, startNodes, untilJoined } from './nodes.ts';
import { startTraffic } from './traffic.ts';

const env = {
  ...{ HUB_LEASE_S: '6', HUB_RATE_OTHER_PER_MIN: '10000000', HUB_RATE_COMMANDS_PER_MIN: '1000000' },
  HUB_LOG_LEVEL: 'info',
  ...{ HUB_CIRCUIT_OPEN_MS: '500', HUB_PROBE_INTERVAL_S: '1' },
};
const [owed, objects, senders] = [20_000, 500, 50];
/** Two busy cores write slowly. */
const patienceMs = 900_000;

t.test(`a partner is dead while ${owed} updates queue for it`, longer, async (t) => {
  const server = await sharedPostgres();
  const schema = newSchema('outage');
  const nodes = await startNodes(t, server, schema, { count: 3, env });
  await untilJoined(nodes.all);
  const urls = nodes.all.map(({ url }) => url);
  let turn = 0;
  let ready = urls;
  const choose = () => ready[turn++ % ready.length] ?? '';
  const others = await startTraffic(t, nodes, { choose });
  let isDead = true;
  const dead = await partnerFor(t, nodes, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'DED' },
    answer: () => (isDead ? { isCut: true } : {}),
  });
  await admin(nodes, 'PUT', '/routes/NL-DED/NL-CPO', { active: true });
  const agent = new Agent();
  t.teardown(() => agent.destroy());
  const headers = {
    authorization: `Token ${Buffer.from(others.cpo.hubToken).toString('base64')}`,
    'content-type': 'application/json',
  };
  const cdr_token = { country_code: 'NL', party_id: 'DED', uid: 'CARD1', type: 'RFID', contract_id: 'C1' };
  const writes: Write[] = [];
  let acknowledged = 0;

  async function send(sender: number): Promise<void> {
    for (let n = sender; n < owed; n += senders) {
      const id = `OWED-${n % objects}`;
      const last_updated = new Date(Date.UTC(2026, 0, 1) + n * 1000).toISOString();
      let body = '';
      for (let [isTaken, attempt] = [false, 0]; !isTaken; attempt += 1) {
        // One that got no answer may be in the log.
        body = JSON.stringify(sessionBody(id, { cdr_token, kwh: n + attempt / 1000, last_updated }));
        const path = `/ocpi/2.2.1/sessions/NL/CPO/${id}`;
        const answer = await request(`${choose()}${path}`, { method: 'PUT', dispatcher: agent, headers, body }).catch(
          () => null,
        );
        await answer?.body.dump();
        isTaken = answer?.statusCode === 200;
      }
      acknowledged += 1;
      writes.push({ object: `sessions/NL-CPO/${id}`, body, begunAt: 0, endedAt: 1, status: 200 });
    }
  }

  await others.goesOn();
  const begun = performance.now();
  const sending = Promise.all(Array.from({ length: senders }, (_, sender) => send(sender)));
  await eventually('half of them are owed', () => acknowledged >= owed / 2, patienceMs);
  t.comment(`others, ${acknowledged} owed: ${others.summary(begun)}`);
  const owner = await nodes.owner();
  const killed = performance.now();
  ready = urls.filter((url) => url !== owner.url);
  await owner.hub.kill();
  await eventually('another one is the owner', async () => (await nodes.owner()) !== owner, patienceMs);
  const taken = (await nodes.owner()).hub
    .log()
    .split('\n')
    .filter((line) => line.includes('this node is the owner'));
  const { afterMs } = JSON.parse(taken.at(-1) ?? '{}') as { afterMs?: number };
  t.comment(
    `another one is the owner ${Math.round(performance.now() - killed)} ms after the kill, of which it took ${afterMs} ms to bring back what is recorded`,
  );
  await sending;
  t.comment(`all ${acknowledged} acknowledged after ${Math.round((performance.now() - begun) / 1000)} s`);
  const back = performance.now();
  t.comment(`others, after the kill: ${others.summary(killed)}`);
  dead.received.splice(0);
  isDead = false;
  await eventually('it has got as many', () => dead.received.length >= owed, patienceMs);
  t.comment(`it caught up in ${Math.round((performance.now() - back) / 1000)} s, ${dead.received.length} deliveries`);
  t.comment(`others, while it catches up: ${others.summary(back)}`);
  await others.stop();
  await mustAddUp(t, server, schema, [{ writes, acknowledged: () => writes }], dead);
  await mustAddUp(t, server, schema, [others.pushes], others.emsp);
  const failed = others
    .failed(begun)
    .filter(({ kind, url }) => (kind === 'push' || kind === 'authorize') && url !== owner.url);
  // A hub that has no time left asks senders to come again.
  const isRefused = ({ kind, status }: { kind: string; status: number }) => kind === 'push' && status === 503;
  t.strictSame(
    failed.filter((one) => !isRefused(one)),
    [],
    'no push and no authorization of others fails through the other nodes',
  );
  t.comment(`${failed.length} pushes of others were to come again`);
  t.strictSame((await admin(nodes, 'GET', '/deliveries?state=DEAD')).items, [], 'nothing ended as a dead letter');
});
