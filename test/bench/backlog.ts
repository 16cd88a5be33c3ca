/**
 * A receiver that is down while 100,000 deliveries become owed to it, then back: whether all arrive, in order, and what memory the hub
 * takes meanwhile.
 */
import { Pool } from 'undici';
import { sessionBody } from '../support/bodies.ts';
import { admin, eventually, plainPartner } from '../support/plain-partner.ts';
import type { Bench } from './run.ts';
import { residentMiB, scene } from './scene.ts';
import { rounded } from './statistics.ts';

const deliveries = 100_000;
const objects = 10_000;
const connections = 32;

export const backlog: Bench = {
  name: 'backlog',
  says: 'a receiver that was down while 100,000 deliveries became owed to it',
  async run(progress) {
    const { hub, end } = await scene({ HUB_RETRY_SCHEDULE_S: '1' });
    const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    let isDown = true;
    const seen = new Map<string, number[]>();
    let arrived = 0;
    const emsp = await plainPartner({
      ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
      answer: ({ body }) => {
        if (isDown) return { isCut: true };
        const { id, kwh } = JSON.parse(body) as { id: string; kwh: number };
        const counters = seen.get(id) ?? [];
        if (!counters.includes(kwh)) arrived++;
        seen.set(id, [...counters, kwh]);
        return {};
      },
    });
    for (const partner of [cpo, emsp]) await partner.register(hub);
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
    const atRest = residentMiB(hub.pid);
    let peak = atRest;
    const watch = setInterval(() => {
      peak = Math.max(peak, residentMiB(hub.pid));
    }, 250);

    const pool = new Pool(hub.url, { connections, pipelining: 1 });
    const authorization = `Token ${Buffer.from(cpo.hubToken).toString('base64')}`;
    const startedAt = performance.now();
    let next = 0;
    async function push(worker: number): Promise<void> {
      // A worker has objects of its own, so each object's pushes are one after the other.
      const own = objects / connections;
      for (let n = 0; n < deliveries / connections; n++) {
        const id = `S${worker}-${n % own}`;
        const body = JSON.stringify(sessionBody(id, { kwh: Math.floor(n / own) }));
        const headers = { authorization, 'content-type': 'application/json' };
        const answer = await pool.request({ method: 'PUT', path: `/ocpi/2.2.1/sessions/NL/CPO/${id}`, headers, body });
        await answer.body.dump();
        if (answer.statusCode !== 200) throw new Error(`push answered ${answer.statusCode}`);
        if (++next % 10_000 === 0) progress(`${next} pushed, ${rounded(residentMiB(hub.pid), 0)} MiB`);
      }
    }
    await Promise.all(Array.from({ length: connections }, (_, worker) => push(worker)));
    const pushedS = (performance.now() - startedAt) / 1000;
    const owed = Math.floor(deliveries / connections) * connections;
    const whileDown = peak;
    isDown = false;
    emsp.received.length = 0;
    const backAt = performance.now();
    let said = 0;
    await eventually(
      'everything has arrived',
      () => {
        if (arrived - said >= 20_000) {
          said = arrived;
          progress(`${arrived} arrived, ${rounded(residentMiB(hub.pid), 0)} MiB`);
        }
        emsp.received.length = 0;
        return arrived >= owed;
      },
      600_000,
    );
    const drainedS = (performance.now() - backAt) / 1000;
    clearInterval(watch);
    const disordered = [...seen.values()].filter((counters) => {
      const first = [...new Set(counters)];
      return first.some((counter, index) => index > 0 && counter < (first[index - 1] ?? 0));
    }).length;
    const repeats = [...seen.values()].reduce((sum, counters) => sum + counters.length - new Set(counters).size, 0);
    await pool.close();
    await end();
    await Promise.all([cpo.close(), emsp.close()]);
    return {
      'deliveries owed while it was down': owed,
      'pushes accepted per second meanwhile': rounded(owed / pushedS, 0),
      'arrived after it was back': arrived,
      'objects whose first deliveries came out of order': disordered,
      'arrived more than once': repeats,
      'drained in, s (the circuit half-opens first)': rounded(drainedS, 1),
      'hub at rest, MiB resident': rounded(atRest, 0),
      'hub at most while the receiver was down, MiB resident': rounded(whileDown, 0),
      'hub at most in the whole run, MiB resident': rounded(peak, 0),
    };
  },
};
