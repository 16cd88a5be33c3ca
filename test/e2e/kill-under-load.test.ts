/**
 * The hub is killed again and again, at random moments, while a CPO pushes as fast as it can. The oracle sees only HTTP: what was
 * acknowledged, what the eMSP received, what the hub serves afterwards.
 */
import t from 'tap';
import { type ChildHub, freePort, startChildHub } from '../support/child-hub.ts';
import { admin, eventually, plainPartner } from '../support/plain-partner.ts';

const kills = 50;
const workers = 8;

t.test('50 kills under load: nothing acknowledged is lost, nothing owed is missing, no order is broken', async (t) => {
  const dataDir = t.testdir();
  const port = await freePort();
  const env = { HUB_RATE_OTHER_PER_MIN: '1000000', HUB_RETRY_SCHEDULE_S: '0.1,0.2,0.5,1' };
  const start = () => startChildHub({ dataDir, port, env });
  let hub: ChildHub = await start();
  t.teardown(() => hub.kill());
  const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  t.teardown(() => Promise.all([cpo.close(), emsp.close()]));
  await cpo.register(hub);
  await emsp.register(hub);
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });

  /** Session → the counters that were acknowledged, in order. */
  const acknowledged = new Map<string, number[]>();
  let pushing = true;
  async function push(worker: number): Promise<void> {
    for (let counter = 1; pushing; counter++) {
      const id = `S${worker}-${counter % 3}`;
      await pushUntilAcknowledged(id, counter);
      acknowledged.set(id, [...(acknowledged.get(id) ?? []), counter]);
    }
  }
  async function pushUntilAcknowledged(id: string, counter: number): Promise<void> {
    for (;;) {
      try {
        const answer = await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, session(id, counter));
        if (answer.status === 200 && answer.json.status_code === 1000) return;
        if (answer.status !== 503) throw new Error(`unexpected answer ${answer.status} ${answer.text}`);
      } catch (error) {
        // Undici says "fetch failed" for a refused or reset connection, "terminated" when it ends within the answer.
        if (!(error instanceof TypeError)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  const load = Promise.all(Array.from({ length: workers }, (_, worker) => push(worker)));
  for (let round = 0; round < kills; round++) {
    await new Promise((resolve) => setTimeout(resolve, 20 + Math.random() * 250));
    await hub.kill();
    hub = await start();
  }
  pushing = false;
  await load;

  const pushes = [...acknowledged.values()].flat().length;
  const received = new Map<string, number[]>();
  const readReceived = () => {
    received.clear();
    for (const { path, body } of emsp.received) {
      const id = path.split('/').at(-1) ?? '';
      received.set(id, [...(received.get(id) ?? []), (JSON.parse(body) as { kwh: number }).kwh]);
    }
  };
  const missing = () => {
    readReceived();
    return [...acknowledged].flatMap(([id, counters]) => {
      const seen = new Set(received.get(id));
      return counters.filter((counter) => !seen.has(counter)).map((counter) => `${id}:${counter}`);
    });
  };
  await eventually('every acknowledged push has arrived', () => missing().length === 0, 120_000).catch(() => {});
  t.same(missing(), [], 'owed deliveries missing: 0');

  const disordered = [...received].filter(([, counters]) => {
    const first = [...new Set(counters)];
    return first.some((counter, index) => index > 0 && counter < (first[index - 1] ?? 0));
  });
  t.same(disordered, [], 'objects whose first deliveries came out of order: 0');

  const lost: string[] = [];
  for (const [id, counters] of acknowledged) {
    const { json } = await cpo.call('GET', `/2.2.1/sessions/NL/CPO/${id}`);
    if ((json.data as { kwh: number }).kwh !== counters.at(-1)) lost.push(id);
  }
  t.same(lost, [], 'acknowledged writes lost: 0');
  const repeated = emsp.received.length - new Set(emsp.received.map(({ path, body }) => path + body)).size;
  t.comment(
    `${pushes} pushes acknowledged over ${kills} kills, ${emsp.received.length} received, ${repeated} of them repeats`,
  );
  t.ok(pushes > kills, 'there was load');
});

function session(id: string, counter: number): object {
  return {
    ...{ country_code: 'NL', party_id: 'CPO', id, start_date_time: '2026-01-01T00:00:00Z', kwh: counter },
    cdr_token: { country_code: 'NL', party_id: 'EMS', uid: 'U1', type: 'RFID', contract_id: 'C1' },
    ...{ auth_method: 'COMMAND', location_id: 'L1', evse_uid: 'E1', connector_id: '1', currency: 'EUR' },
    ...{ status: 'ACTIVE', last_updated: '2026-01-01T00:00:00Z' },
  };
}
