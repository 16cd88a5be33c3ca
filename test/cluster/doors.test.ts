/** Every node answers pushes, reads, authorizations and commands by itself: also while nobody is the owner, and by the rules that stand. */
import { setTimeout } from 'node:timers/promises';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually, type PlainPartner } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { askAsNode, clusterSecret, type Node, roleOf, shortLease, skip, startNodes } from './nodes.ts';

const path = '/ocpi/2.2.1';
const toEmsp = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };

async function asked({ url }: Node, partner: PlainPartner, method: string, of: string, body?: object) {
  const authorization = `Token ${Buffer.from(partner.hubToken).toString('base64')}`;
  const answer = await fetch(`${url}${path}${of}`, {
    ...{ method, headers: { authorization, 'content-type': 'application/json', ...toEmsp } },
    ...(body && { body: JSON.stringify(body) }),
  });
  const json = (await answer.json()) as { status_code: number; data?: Record<string, unknown> };
  return { code: json.status_code, data: json.data };
}

t.test('every node is a door', { skip }, async (t) => {
  const server = await sharedPostgres();

  t.test(
    'nodes without links between them: what one node accepts is read, decided on and delivered by all',
    async (t) => {
      // They know each other by the database alone.
      const of = (_port: number, index: number) => ({ HUB_CLUSTER_SECRET: `${clusterSecret}-${index}` });
      const nodes = await startNodes(t, server, newSchema('doors'), { here: true, of, env: { HUB_LEASE_S: '9' } });
      const owner = await nodes.owner();
      const { cpo, emsp } = await routedPair(t, owner.hub);
      const [door] = await nodes.standbys();
      if (!door) throw new Error('no standby');
      t.equal(await roleOf(door), 'standby');
      // What each does by itself within a third of a lease.
      const looks = (node: Node) => {
        const secret = `${clusterSecret}-${nodes.all.indexOf(node)}`;
        return askAsNode(node.url, '/cluster/v1/look', { method: 'POST', secret });
      };
      await eventually('the door knows the partners', async () => {
        await looks(door);
        return (await asked(door, cpo, 'GET', '/locations/NL/CPO/L1')).code === 2003;
      });
      t.match(await asked(door, cpo, 'PUT', '/locations/NL/CPO/L1', locationBody('L1', { name: 'at the door' })), {
        code: 1000,
      });
      t.match(await asked(owner, emsp, 'GET', '/locations/L1'), { data: { name: 'at the door' } });
      await looks(owner);
      await emsp.got('it, from the owner', ({ path, body }) => path.endsWith('/L1') && body.includes('at the door'));
      const both = Array.from({ length: 40 }, (_, n) =>
        asked(n % 2 ? owner : door, cpo, 'PATCH', '/locations/NL/CPO/L1', {
          ...{ [n % 2 ? 'city' : 'address']: `${n}`, last_updated: '2026-03-01T00:00:00Z' },
        }),
      );
      t.same(new Set((await Promise.all(both)).map(({ code }) => code)), new Set([1000]), 'both change one object');
      const { data } = await asked(door, emsp, 'GET', '/locations/L1');
      t.match(data, { city: /^\d+$/, address: /^\d+$/ }, 'and neither undoes the other');
      await admin(owner.hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: false });
      const stored = await asked(
        door,
        cpo,
        'PUT',
        '/sessions/NL/CPO/S1',
        sessionBody('S1', { cdr_token: token('EMS') }),
      );
      t.equal(stored.code, 1000);
      const { items } = await admin(owner.hub, 'GET', '/stored-not-forwarded');
      t.match(items, [{ object: 'NL-CPO/S1' }], 'decided on the rule that was just withdrawn');
    },
  );

  t.test('a node that joins knows every issued token from its first answer on', async (t) => {
    const schema = newSchema('joins');
    const first = await startNodes(t, server, schema, { here: true, count: 1 });
    const owner = await first.owner();
    // Beats of such a lease come too late for what follows.
    const second = await startNodes(t, server, schema, { here: true, count: 1 });
    const [door] = second.all;
    if (!door) throw new Error('no second node');
    t.equal(await roleOf(door), 'standby');
    for (const partyId of ['AAA', 'BBB', 'CCC']) {
      const cpo = await partnerFor(t, owner.hub, { role: 'CPO', countryCode: 'NL', partyId });
      t.match(await asked(door, cpo, 'GET', '/hubclientinfo'), { code: 1000 }, partyId);
    }
  });

  t.test(
    '[LIMITS-1, LIMITS-2] nodes share a rate limit: a party gets at most 1.2 times its limit, and never less than it',
    async (t) => {
      const limit = 30;
      const env = { HUB_RATE_LISTS_PER_MIN: `${limit}` };
      const nodes = await startNodes(t, server, newSchema('limits'), { here: true, env });
      const { emsp } = await routedPair(t, nodes);
      let granted = 0;
      for (let tries = 0; tries < 4 * limit; tries++) {
        const { code } = await asked(nodes.all[tries % 2] as Node, emsp, 'GET', '/locations');
        if (code === 1000) granted += 1;
        else t.equal(code, 2901, 'rate limited');
      }
      t.ok(granted >= limit && granted <= 1.2 * limit, `${granted} of ${limit} were granted`);
      for (const message of ['x', Buffer.from('[{"party":1}]').toString('base64url')]) {
        const { status } = await askAsNode(nodes.all[0]?.url ?? '', `/cluster/v1/granted/${message}`, {
          method: 'POST',
        });
        t.equal(status, 400);
      }
    },
  );

  t.test(
    'the owner is killed: pushes, reads, authorizations and commands through the other node go on, and are delivered',
    atLength,
    async (t) => {
      // One of each in every round.
      const env = { ...shortLease, HUB_RATE_COMMANDS_PER_MIN: '100000', HUB_RATE_OTHER_PER_MIN: '100000' };
      const nodes = await startNodes(t, server, newSchema('orphaned'), { here: 'others', env });
      const { cpo, emsp } = await routedPair(t, nodes, {
        cpo: ({ method }) => (method === 'POST' ? { body: { result: 'ACCEPTED', timeout: 30 } } : {}),
        emsp: ({ path }) => (path.includes('/authorize') ? { text: allowed } : {}),
      });
      const owner = await nodes.owner();
      const [door] = await nodes.standbys();
      if (!door) throw new Error('no standby');
      await owner.hub.kill();
      let rounds = 0;
      const codes = new Set<number>();
      while ((await nodes.holder()) !== door) {
        if (!isAtLength) await setTimeout(300);
        const id = `S${++rounds}`;
        const body = sessionBody(id, { cdr_token: token('EMS') });
        codes.add((await asked(door, cpo, 'PUT', `/sessions/NL/CPO/${id}`, body)).code);
        codes.add((await asked(door, cpo, 'GET', `/sessions/NL/CPO/${id}`)).code);
        const { code, data } = await asked(door, cpo, 'POST', '/tokens/CARD1/authorize?type=RFID', {
          location_id: 'L1',
        });
        codes.add(data?.allowed === 'ALLOWED' ? code : -code);
        const stop = { response_url: `${emsp.url}/ocpi/result/${id}`, session_id: id };
        const stopped = await asked(door, emsp, 'POST', '/commands/STOP_SESSION', stop);
        codes.add(stopped.data?.result === 'ACCEPTED' ? stopped.code : -stopped.code);
        const { response_url } = JSON.parse(cpo.received.at(-1)?.body ?? '{}') as { response_url: string };
        const callback = response_url.slice(response_url.indexOf(path) + path.length);
        codes.add((await asked(door, cpo, 'POST', callback, { result: 'ACCEPTED' })).code);
      }
      t.same([...codes], [1000], `${rounds} rounds`);
      t.ok(rounds > 0);
      await emsp.got('the last one', ({ path }) => path.endsWith(`/S${rounds}`));
      t.equal(
        emsp.received.filter(({ path }) => path.startsWith('/ocpi/result/')).length,
        rounds,
        'each result came once',
      );
      await eventually('the owner watches all stopped sessions', async () => {
        const { items } = await admin(door.hub, 'GET', '/orphans?state=GRACE&limit=1000');
        return (items as unknown[]).length === rounds;
      });
      await eventually('all of them', async () => {
        const came = new Set(emsp.received.filter(({ path }) => path.includes('/sessions/')).map(({ path }) => path));
        return came.size === rounds;
      });
    },
  );
});

const allowed = JSON.stringify({ status_code: 1000, timestamp: '2026-03-01T00:00:00Z', data: { allowed: 'ALLOWED' } });
const token = (party_id: string) => ({ country_code: 'NL', party_id, uid: 'CARD1', type: 'RFID', contract_id: 'C1' });
