/**
 * Nodes that are restarted in good order, and a database that goes away: no request fails in the first case, nothing is acknowledged
 * falsely in the second, and neither needs a hand.
 */
import { sessionBody } from '../support/bodies.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres, startPostgres, startStandby } from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { goesOn, mustAddUp, mustNotFail, restartInTurn, startLoad } from './load.ts';
import { adminToken, askAsNode, type Node, roleOf, shortLease, skip, startNodes, untilJoined } from './nodes.ts';

const env = { HUB_RATE_OTHER_PER_MIN: '1000000' };

t.test('upkeep', { skip }, async (t) => {
  t.test('every node is restarted in turn, and no request fails', async (t) => {
    const server = await sharedPostgres();
    const schema = newSchema('rolling');
    const nodes = await startNodes(t, server, schema, { env, here: 'others' });
    await untilJoined(nodes.all);
    const { cpo, emsp } = await routedPair(t, nodes);
    const load = startLoad(nodes.url, cpo, 'R');
    await restartInTurn(t, nodes.all, load);
    mustNotFail(t, load, 'requests failed');
    await mustAddUp(t, server, schema, [load], emsp);
  });

  t.test('the database goes away and comes back', atLength, async (t) => {
    const server = await startPostgres(t);
    const nodes = await startNodes(t, server, 'away', { env: { ...env, ...shortLease } });
    const { cpo, emsp } = await routedPair(t, nodes, {
      emsp: ({ path }) => (path.includes('/authorize') ? { body: { allowed: 'ALLOWED' } } : {}),
    });
    const authorization = `Token ${Buffer.from(cpo.hubToken).toString('base64')}`;
    const toEmsp = { 'ocpi-to-country-code': 'NL', 'ocpi-to-party-id': 'EMS' };
    const load = startLoad(nodes.url, cpo, 'D');
    await untilJoined(nodes.all);
    await goesOn(load);
    await server.stop();
    const refusals = () => load.failed().filter(({ status }) => status === 503).length;
    await eventually('the owner is isolated, for its lease has run out', async () => {
      const roles = await Promise.all(nodes.all.map(roleOf));
      return roles.includes('isolated') && !roles.includes('owner');
    });
    const before = refusals();
    await eventually('pushes are refused', () => refusals() >= before + 50);
    for (const { url } of nodes.all) {
      const answer = await fetch(`${url}/ocpi/2.2.1/sessions/NL/CPO/AWAY`, {
        ...{ method: 'PUT', headers: { authorization, 'content-type': 'application/json' } },
        body: JSON.stringify(sessionBody('AWAY')),
      });
      t.equal(answer.status, 503);
      t.equal(answer.headers.get('retry-after'), '1');
      t.match(await answer.json(), { status_code: 3000 });
      t.equal((await fetch(`${url}/healthz`)).status, 200, 'it lives');
      t.equal((await fetch(`${url}/readyz`)).status, 200, 'and can answer something');
      const allowed = await fetch(`${url}/ocpi/2.2.1/tokens/TOK1/authorize?type=RFID`, {
        ...{ method: 'POST', headers: { authorization, ...toEmsp } },
      });
      t.match(await allowed.json(), { status_code: 1000, data: { allowed: 'ALLOWED' } }, 'authorize goes on');
      for (const path of ['/ocpi/versions', '/ocpi/2.2.1', '/ocpi/2.2.1/hubclientinfo']) {
        t.equal((await fetch(`${url}${path}`, { headers: { authorization } })).status, 200, `${path} goes on`);
      }
      const list = await fetch(`${url}/ocpi/2.2.1/sessions/NL/CPO/AWAY`, { headers: { authorization } });
      t.equal(list.status, 503, 'what has to be read is refused');
    }
    const told = emsp.received.filter(({ method, path }) => method !== 'POST' || !path.includes('/authorize')).length;
    const owner = nodes.all[(await Promise.all(nodes.all.map(roleOf))).indexOf('isolated')];
    const first = nodes.all.find((node) => node !== owner);
    t.equal(await first?.hub.stop(), 0, 'a node can be stopped meanwhile');
    t.equal(
      emsp.received.filter(({ method, path }) => method !== 'POST' || !path.includes('/authorize')).length,
      told,
      'nothing else is sent',
    );
    await server.start();
    await goesOn(load);
    await first?.start();
    await goesOn(load);
    await load.stop();
    await mustAddUp(t, server, 'away', [load], emsp);
  });

  t.test('a standby without the last acknowledged writes becomes the primary', atLength, async (t) => {
    const former = await startPostgres(t);
    const standby = await startStandby(t, former, 's1');
    const url = (schema: string) =>
      former.url(schema).replace(/127[^/]*/, `127.0.0.1:${former.port},127.0.0.1:${standby.port}`);
    const nodes = await startNodes(t, { ...former, url }, 'lossy', { env: { ...env, ...shortLease } });
    await untilJoined(nodes.all);
    const { cpo, emsp } = await routedPair(t, nodes);
    const isThere = (path: string) => emsp.received.some((received) => received.path.endsWith(path));
    const push = async (name: string, count: number) => {
      const pushed: string[] = [];
      for (let n = 0; n < count; n++) {
        const { status } = await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${name}${n}`, sessionBody(`${name}${n}`));
        if (status === 200) pushed.push(`/${name}${n}`);
      }
      return pushed;
    };
    await push('KEPT', 3);
    const row = "select from lossy.rows where id like '%kept2'";
    await eventually('the standby has them', async () => (await standby.query(row)).length === 1);
    await standby.stop();
    const lost = await push('LOST', 20);
    await eventually('all were delivered', () => lost.every(isThere));
    await former.kill();
    await standby.start();
    await standby.query('select pg_promote()');
    const next: string[] = [];
    await eventually('writes are acknowledged', async () => next.push(...(await push(`NEXT${next.length}-`, 5))) >= 30);
    await eventually('what was acknowledged since is delivered', () => next.every(isThere));
    for (const node of nodes.all) {
      const ready = await (await fetch(`${node.url}/readyz`)).json();
      t.match(ready, { warning: /the database has lost the end of the log/ });
    }
  });

  t.test('an isolated node answers from memory for a minute and no longer', atLength, async (t) => {
    const server = await startPostgres(t);
    const nodes = await startNodes(t, server, 'minute', { count: 1, env: { ...env, ...shortLease } });
    const [node] = nodes.all as [Node];
    const { cpo, emsp } = await routedPair(t, nodes);
    const versions = async () => (await cpo.call('GET', '/versions')).status;
    await server.stop();
    await eventually('it is isolated', async () => (await roleOf(node)) === 'isolated');
    t.equal(await versions(), 200, 'memory answers');
    await eventually('it stands by', async () => (await roleOf(node)) === 'standby', 120_000);
    t.equal(await versions(), 503, 'nothing is answered any more');
    await server.start();
    await eventually('it is the owner again', async () => (await roleOf(node)) === 'owner');
    t.equal((await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/BACK', sessionBody('BACK'))).status, 200);
    await eventually('what is new is forwarded', () => emsp.received.some(({ path }) => path.endsWith('/BACK')));
  });

  t.test('a standby without an owner', atLength, async (t) => {
    const server = await sharedPostgres();
    const schema = newSchema('ownerless');
    const nodes = await startNodes(t, server, schema, { env: { ...env, ...shortLease } });
    const { cpo } = await routedPair(t, nodes);
    const owner = await nodes.owner();
    const [standby] = await nodes.standbys();
    if (standby === undefined) throw new Error('no standby');
    // Its lease stands for an hour, so that nobody becomes the owner.
    process.kill(owner.hub.pid, 'SIGSTOP');
    await server.query(`update ${schema}.nodes set expires = clock_timestamp() + interval '1 hour' where url = $1`, [
      owner.url,
    ]);
    await owner.hub.kill();
    const ask = (path: string, headers: Record<string, string> = {}) => fetch(`${standby.url}${path}`, { headers });
    const authorization = `Token ${Buffer.from(cpo.hubToken).toString('base64')}`;
    t.equal((await ask('/ocpi/2.2.1/hubclientinfo', { authorization })).status, 200, 'a door goes on');
    const ocpi = await ask('/ocpi/versions', { authorization, 'x-request-id': 'r1' });
    t.equal(ocpi.status, 503);
    t.equal(ocpi.headers.get('retry-after'), '1');
    t.equal(ocpi.headers.get('x-request-id'), 'r1');
    t.match(await ocpi.json(), { status_code: 3000, status_message: 'Temporarily unavailable' });
    const problem = await ask('/admin/v1/status', { authorization: `Bearer ${adminToken}` });
    t.equal(problem.status, 503);
    t.match(problem.headers.get('content-type'), 'application/problem+json');
    t.equal((await ask('/healthz')).status, 200);
    // The owner lives, as the database has it, and has not answered for a lease.
    await eventually('it is not ready', async () => (await ask('/readyz')).status === 503);
    t.match(await (await ask('/readyz')).json(), { role: 'standby', reason: 'no owner that is ready can be reached' });
    t.equal(
      (await ask('/admin/v1/cluster', { authorization: `Bearer ${adminToken}` })).status,
      200,
      'but says who is there',
    );
    t.equal((await askAsNode(standby.url, '/ocpi/versions')).status, 503);
    await server.query(`update ${schema}.nodes set expires = clock_timestamp() where url = $1`, [owner.url]);
    await eventually('it becomes the owner', async () => (await ask('/readyz')).status === 200);
  });
});
