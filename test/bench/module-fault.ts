/**
 * Sessions beside a backlog of 20,000 locations to the same receiver, whose locations answer 500 or 429: how long a session takes from its
 * push to its arrival. In the first rows nothing is broken and nothing waits.
 */
import { Pool } from 'undici';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { admin, plainPartner, type Reply } from '../support/plain-partner.ts';
import type { Bench, Figures } from './run.ts';
import { scene } from './scene.ts';
import { quantile, rounded } from './statistics.ts';

const locations = 20_000;
const connections = 32;
const sessionsPerS = 20;
const goalMs = 1_000;
/** What has not arrived so long after the last push is not coming. */
const silenceMs = 5_000;

const faults: readonly (readonly [name: string, reply: Reply | null])[] = [
  ['nothing is broken', null],
  ['locations answer 500', { status: 500 }],
  ['locations answer 429', { status: 429, headers: { 'retry-after': '60' } }],
];

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function round(reply: Reply | null, seconds: number): Promise<Figures> {
  const { hub, end } = await scene({ HUB_RATE_OTHER_PER_MIN: '100000000' });
  const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const pushedAt = new Map<string, number>();
  const took: number[] = [];
  const emsp = await plainPartner({
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    answer: ({ path }) => {
      if (path.includes('/locations/')) return reply ?? {};
      const at = pushedAt.get(path.split('/').at(-1) ?? '');
      if (at !== undefined) took.push(performance.now() - at);
      return {};
    },
  });
  for (const partner of [cpo, emsp]) await partner.register(hub);
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  const pool = new Pool(hub.url, { connections, pipelining: 1 });
  const headers = {
    authorization: `Token ${Buffer.from(cpo.hubToken).toString('base64')}`,
    'content-type': 'application/json',
  };
  const put = async (path: string, body: object) => {
    const request = { method: 'PUT', path: `/ocpi/2.2.1/${path}`, headers, body: JSON.stringify(body) } as const;
    const answer = await pool.request(request);
    await answer.body.dump();
    if (answer.statusCode !== 200) throw new Error(`push answered ${answer.statusCode}`);
  };
  const push = async (worker: number) => {
    for (let n = worker; n < locations; n += connections) {
      await put(`locations/NL/CPO/L${n}`, locationBody(`L${n}`));
      emsp.received.length = 0;
    }
  };
  if (reply) await Promise.all(Array.from({ length: connections }, (_, worker) => push(worker)));
  const sessions = sessionsPerS * seconds;
  for (let n = 0; n < sessions; n++) {
    pushedAt.set(`S${n}`, performance.now());
    const pushed = put(`sessions/NL/CPO/S${n}`, sessionBody(`S${n}`));
    await Promise.all([pushed, pause(1_000 / sessionsPerS)]);
  }
  const until = performance.now() + silenceMs;
  while (took.length < sessions && performance.now() < until) await pause(50);
  await pool.close();
  await end();
  await Promise.all([cpo.close(), emsp.close()]);
  return {
    'sessions that arrived, %': rounded((100 * took.length) / sessions, 1),
    'accept to receiver p50, ms': rounded(quantile(took, 0.5), 1),
    'accept to receiver p95, ms': rounded(quantile(took, 0.95), 1),
  };
}

export const moduleFault: Bench = {
  name: 'module-fault',
  says: `${sessionsPerS} sessions/s beside ${locations} locations that wait for the same receiver (goal: p95 < ${goalMs} ms)`,
  async run(progress, { isShort }) {
    const figures: Record<string, Figures[string]> = {};
    for (const [name, reply] of faults) {
      const found = await round(reply, isShort ? 5 : 20);
      for (const [what, value] of Object.entries(found)) figures[`${name}: ${what}`] = value;
      progress(`${name}: ${JSON.stringify(found)}`);
    }
    return figures;
  },
};
