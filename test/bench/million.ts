/**
 * P7 of stored sessions: a million, pushed over HTTP by 50 CPOs and delivered to the eMSP that all of them are routed to. What the hub holds
 * in memory for each when it has started again on them, how long that start takes, and how long its pages take: of one CPO, of all that the
 * eMSP sees, at the beginning and deep in the list.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { callOnce } from '../support/caller.ts';
import { builtHub, type ChildHub } from '../support/child-hub.ts';
import { admin } from '../support/plain-partner.ts';
import { startAround } from './around.ts';
import type { ClosedLoad, LoadOutcome } from './load.ts';
import { cpuS, pinnedTo, undoAtExit } from './processes.ts';
import { objectMark, type RequestShape } from './request.ts';
import type { Bench, Figures } from './run.ts';
import { ownDirectory, register, residentMiB, startMeasuredHub, verifiedWhole } from './scene.ts';
import { rounded } from './statistics.ts';
import { arrival, sessionPush } from './systems.ts';

const cpos = 50;
const limit = 100;
const pagesEach = 300;
const env = {
  HUB_RATE_OTHER_PER_MIN: '100000000',
  HUB_RATE_LISTS_PER_MIN: '100000000',
  HUB_OBJECTS_PER_PARTY: '0',
  HUB_DELIVERY_CONCURRENCY: '64',
};

export const million: Bench = {
  name: 'million',
  goal: 'P7',
  says: `sessions of ${cpos} CPOs: resident memory of each beside its body, the start on them, their pages`,
  async run(progress, { isShort }) {
    const objects = isShort ? 1_000 : 20_000;
    const around = await startAround(1);
    const { load, receiver } = around;
    const [url = ''] = receiver.ready.urls;
    const { directory: dataDir, remove } = ownDirectory();
    const run = [...pinnedTo('measured'), ...builtHub];
    const start = async () => {
      const hub = await startMeasuredHub({ dataDir, port: 0, env, run });
      const settled = undoAtExit(() => process.kill(hub.pid, 'SIGKILL'));
      const stop = async () => {
        settled();
        return hub.stop();
      };
      return { ...hub, stop };
    };
    const first = await start();
    const emsp = await register(first, { role: 'EMSP', partyId: 'EMS', url });
    const senders: { readonly id: string; readonly authorization: string }[] = [];
    for (let n = 0; n < cpos; n++) {
      const id = `C${String(n).padStart(2, '0')}`;
      senders.push({ id, authorization: await register(first, { role: 'CPO', partyId: id, url }) });
      await admin(first, 'PUT', `/routes/NL-EMS/NL-${id}`, { active: true });
    }
    await first.stop();

    const pushing = await start();
    const empty = await atRest(pushing);
    const [cpuBefore, begunAt] = [cpuS(pushing.pid), performance.now()];
    let [most, arrived] = [empty, 0];
    for (const [n, { id, authorization }] of senders.entries()) {
      const shape = sessionPush(authorization, id);
      await receiver.ask('reset');
      const asked = { url: pushing.url, shape, connections: 64, objects, requests: objects, seconds: 3_600 };
      const { accepted, refusal } = await load.ask<LoadOutcome>('closed', asked satisfies ClosedLoad);
      if (accepted !== objects) throw new Error(`${accepted} of ${objects} pushes were accepted: ${refusal}`);
      await arrival(receiver, accepted);
      arrived += await receiver.ask<number>('arrived');
      most = Math.max(most, residentMiB(pushing.pid));
      if ((n + 1) % 10 === 0)
        progress(`${(n + 1) * objects} sessions pushed, ${rounded(most, 0)} MiB resident at most`);
    }
    const all = cpos * objects;
    const pushS = (performance.now() - begunAt) / 1000;
    const pushMicros = ((cpuS(pushing.pid) - cpuBefore) * 1e6) / all;
    await pushing.stop();

    const startedAt = performance.now();
    const hub = await start();
    const readyS = (performance.now() - startedAt) / 1000;
    const full = await atRest(hub);
    const list = '/ocpi/2.2.1/sessions?date_from=2020-01-01T00:00:00Z';
    const pages: Figures[] = [];
    const ofOne = {
      ...{ 'OCPI-from-country-code': 'NL', 'OCPI-from-party-id': 'EMS' },
      ...{ 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': senders[0]?.id ?? '' },
    };
    for (const [name, headers, from, total] of [
      ['one CPO, first', ofOne, 0, objects],
      ['one CPO, deep', ofOne, 0.9 * objects, objects],
      [`all ${cpos} CPOs, first`, {}, 0, all],
      [`all ${cpos} CPOs, deep`, {}, 0.9 * all, all],
    ] as const) {
      const shape = pageAt(list, { Authorization: emsp, ...headers });
      const asked = { url: hub.url, shape, connections: 1, objects: total, from, step: 7, seconds: 600 };
      const answer = await callOnce('GET', `${hub.url}${list}&limit=1`, undefined, shape.headers);
      const counted = Number(answer.headers.get('x-total-count'));
      if (counted !== total) throw new Error(`${name}: ${counted} sessions are listed, not ${total}`);
      const measured: ClosedLoad = { ...asked, requests: pagesEach };
      // Warm before it is measured.
      await load.ask('closed', measured);
      const { refused, refusal, p50Ms, p99Ms } = await load.ask<LoadOutcome>('closed', measured);
      if (refused > 0) throw new Error(`a page was refused: ${refusal}`);
      progress(`pages of ${name}: ${rounded(p50Ms)} ms`);
      pages.push({
        [`a page of ${limit}, ${name}, p50 ms`]: rounded(p50Ms),
        [`the same, p99 ms, ${name}`]: rounded(p99Ms),
      });
    }
    await hub.stop();
    await around.end();
    remove();
    return {
      'sessions pushed': all,
      'delivered to the eMSP': arrived,
      'pushes per second': rounded(all / pushS, 0),
      'CPU per push with its delivery, µs': rounded(pushMicros, 0),
      'resident while they are pushed, MiB at most': rounded(most, 0),
      'resident before the first, MiB': rounded(empty, 0),
      'resident after a start on all of them, MiB': rounded(full, 0),
      'resident for each session, KiB (goal: at most 1.2)': rounded(((full - empty) * 1024) / all),
      'ready, s': rounded(readyS),
      ...Object.assign({}, ...pages),
    };
  },
};

const pageAt = (path: string, headers: RequestShape['headers']): RequestShape => ({
  ...{ method: 'GET', headers, body: '' },
  path: `${path}&limit=${limit}&offset=${objectMark}`,
});

/** MiB, once the whole store is verified and nothing of that is left to do. */
async function atRest(hub: ChildHub): Promise<number> {
  await verifiedWhole(hub);
  await sleep(1_000);
  return residentMiB(hub.pid);
}
