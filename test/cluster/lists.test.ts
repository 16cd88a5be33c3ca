/**
 * Lists as operators ask for them, each request through the other node than the one before: what happened last comes first, page by page,
 * and whoever follows the log misses nothing while the owner changes.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import type { Page } from '../../src/api/common.ts';
import type { DeliveryView } from '../../src/api/deliveries.ts';
import type { EventPage, EventView } from '../../src/api/events.ts';
import { tariffBody } from '../support/bodies.ts';
import { partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually, type PlainPartner } from '../support/plain-partner.ts';
import { newSchema, type PostgresServer, sharedPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { goesOn, startLoad } from './load.ts';
import { adminToken, longer, type Nodes, startNodes, untilJoined } from './nodes.ts';

type Hub = Pick<Nodes, 'url' | 'adminToken'>;

t.test('lists through two nodes', longer, async (t) => {
  const server = await sharedPostgres();

  t.test('are ordered by time, page by page', async (t) => {
    const nodes = await startNodes(t, server, newSchema('lists'));
    await untilJoined(nodes.all);
    const { cpos, emsps } = await partners(t, nodes);
    const following = follow(nodes, '--type object.put --follow --after 0');
    const pushed = await pushBy(cpos, 12);
    // What a door took the owner reads a moment later.
    await eventually('the owner has read all', async () => {
      return (await pages<EventView>(nodes, '/events?type=object.put&limit=1000')).length === 12;
    });
    const events = await pages<EventView>(nodes, '/events?type=object.put&order=newest&limit=5');
    t.strictSame(
      events.map(({ object }) => object),
      [...pushed].reverse(),
    );
    const oldest = await pages<EventView>(nodes, '/events?type=object.put&limit=5');
    t.strictSame([...oldest].reverse(), events, 'the same the other way round');
    for (const { url } of nodes.all) {
      t.strictSame(await stream({ url, adminToken }, '/events?type=object.put'), oldest, 'and as a stream');
    }

    const settled = async () => {
      const all = await pages<DeliveryView>(nodes, '/deliveries?limit=1000');
      return all.length === 24 && all.every(({ state }) => state !== 'PENDING');
    };
    await eventually('all deliveries have ended', settled);
    const owed = pushed.toReversed().flatMap((object) => emsps.map(({ id }) => `${object} to ${id}`));
    for (const limit of [1, 5, 1000]) {
      const found = await pages<DeliveryView>(nodes, `/deliveries?limit=${limit}`);
      t.strictSame(found.map(named), owed, `${limit} a page`);
      const dead = await pages<DeliveryView>(nodes, `/deliveries?state=DEAD&limit=${limit}`);
      const refused = owed.filter((name) => /[05] to/.test(name));
      t.strictSame(dead.map(named), refused, `dead ones, ${limit} a page`);
    }

    await eventually('the last one is followed', () => following.out().includes(pushed.at(-1) ?? ''));
    pushed.push(...(await pushBy(cpos, 6, 'F')));
    await eventually('what comes then', () => following.out().includes(pushed.at(-1) ?? ''));
    const { code, items } = await following.stop();
    t.equal(code, 0);
    t.strictSame(
      items.map(({ object }) => object),
      pushed,
      'each once',
    );
  });

  t.test('are followed while the owner changes', async (t) => {
    const schema = newSchema('moving');
    const nodes = await startNodes(t, server, schema, { env: { HUB_RATE_OTHER_PER_MIN: '1000000' } });
    await untilJoined(nodes.all);
    const { cpo } = await routedPair(t, nodes);
    let after: EventPage['last_seq'] = 0;
    const seen: number[] = [];
    let running = true;
    const look = async () => {
      const page = await pageAfter(nodes, after);
      if (!page) return null;
      seen.push(...page.items.map(({ seq }) => seq));
      after = page.last_seq;
      return page;
    };
    const following = (async () => {
      while (running) await look();
    })();
    const load = startLoad(nodes.url, cpo, 'M');
    await goesOn(load);
    const owner = await nodes.owner();
    t.equal(await owner.hub.stop(), 0);
    await goesOn(load);
    await owner.start();
    await untilJoined(nodes.all);
    await goesOn(load);
    await load.stop();
    running = false;
    await following;
    // Notes of what was done come a moment later, so the log is looked at when it stands still.
    let logged: number[] = [];
    await eventually('everything is read', async () => {
      const page = await look();
      logged = await log(server, schema);
      return page?.next_cursor === null && page.items.length === 0 && seen.length >= logged.length;
    });
    t.ok(logged.length > 100, `${logged.length} events`);
    t.strictSame(seen, logged, 'each event once, in order');
  });
});

const named = ({ object, receiver }: DeliveryView) => `${object} to ${receiver}`;

/** Three CPOs and two eMSPs, of which the routes let all through; objects that end in 0 or 5 are refused. */
async function partners(t: Test, hub: Hub) {
  const refused = { status: 404, text: '{"status_code":2003}' };
  const answer = ({ path }: { path: string }) => (/[05]$/.test(path) ? refused : {});
  const of = (role: 'CPO' | 'EMSP', partyId: string) =>
    partnerFor(t, hub, { countryCode: 'NL', role, partyId, answer });
  const cpos = [await of('CPO', 'CPA'), await of('CPO', 'CPB'), await of('CPO', 'CPC')];
  const emsps = [await of('EMSP', 'EMA'), await of('EMSP', 'EMB')];
  for (const cpo of cpos) {
    for (const emsp of emsps) await admin(hub, 'PUT', `/routes/${emsp.id}/${cpo.id}`, { active: true });
  }
  return { cpos, emsps };
}

/** One after the other, by turns; each in a millisecond of its own. Resolves with the objects. */
async function pushBy(cpos: readonly PlainPartner[], count: number, prefix = 'T'): Promise<string[]> {
  const pushed: string[] = [];
  for (let i = 0; i < count; i += 1) {
    const cpo = cpos[i % cpos.length] as PlainPartner;
    const [, party_id = ''] = cpo.id.split('-');
    const id = `${prefix}${i}`;
    const { json } = await cpo.call('PUT', `/2.2.1/tariffs/NL/${party_id}/${id}`, tariffBody(id, { party_id }));
    if (json.status_code !== 1000) throw new Error(JSON.stringify(json));
    pushed.push(`${cpo.id}/${id}`);
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  return pushed;
}

async function pages<T>(hub: Hub, path: string): Promise<T[]> {
  const found: T[] = [];
  for (let cursor = ''; ; ) {
    const page = (await admin(hub, 'GET', path + cursor)) as unknown as Page<T>;
    found.push(...page.items);
    if (page.next_cursor === null || found.length > 200) return found;
    cursor = `&cursor=${page.next_cursor}`;
  }
}

async function stream({ url, adminToken: token }: Hub, path: string): Promise<EventView[]> {
  const headers = { authorization: `Bearer ${token}`, accept: 'application/x-ndjson' };
  return parsed(await (await fetch(`${url}/admin/v1${path}`, { headers })).text());
}

const parsed = (text: string): EventView[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as EventView);

/** Null: it was not answered. */
async function pageAfter(hub: Hub, after: EventPage['last_seq']): Promise<EventPage | null> {
  try {
    return (await admin(hub, 'GET', `/events?after=${after}&limit=50`)) as unknown as EventPage;
  } catch {
    return null;
  }
}

async function log(server: PostgresServer, schema: string): Promise<number[]> {
  const rows = await server.query<{ seq: string }>(`select seq from ${schema}.events order by seq`);
  return rows.map(({ seq }) => Number(seq));
}

function command(url: string, line: string) {
  const env = { PATH: process.env.PATH, HUB_URL: url, HUB_ADMIN_TOKEN: adminToken };
  return spawn(process.execPath, [resolve('dist/bin/ocpi-hub.js'), ...line.split(' ')], { env });
}

/** The built command, as it follows. */
function follow({ url }: Hub, flags: string) {
  const child = command(url, `events list ${flags}`);
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  return {
    out: () => out,
    async stop() {
      child.kill('SIGINT');
      const [code] = (await once(child, 'close')) as [number | null];
      return { code, items: parsed(out) };
    },
  };
}
