/**
 * Links that fail while both of their ends live: between the owner and the database, and between the nodes. What comes late is refused or
 * found by its key, never written twice; a node that cannot reach the owner is a door all the same, and says that more cannot be done there.
 */
import { sessionBody } from '../support/bodies.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { Link } from '../support/link.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { goesOn, mustAddUp, startLoad } from './load.ts';
import { adminToken, longer, roleOf, shortLease, startNodes } from './nodes.ts';

const env = { ...shortLease, HUB_RATE_OTHER_PER_MIN: '1000000' };
/** A partner waits for so long, and less than a node waits for the answer of another one that is there. */
const patienceMs = 45_000;

t.test('links between nodes and to the database fail', longer, async (t) => {
  const server = await sharedPostgres();

  t.test('the link between the owner and the database freezes for longer than a lease', async (t) => {
    const link = await Link.to(t, server.port);
    const schema = newSchema('late');
    const slow = { HUB_STORE: server.url(schema).replace(`:${server.port}`, `:${link.port}`) };
    const nodes = await startNodes(t, server, schema, { env, of: (_, i) => (i === 0 ? slow : {}) });
    const { cpo, emsp } = await routedPair(t, nodes);
    const [owner, other] = nodes.all;
    if (owner === undefined || other === undefined) throw new Error('two nodes');
    t.equal(await nodes.owner(), owner, 'the first node is the owner');
    const late = startLoad(owner.url, cpo, 'L');
    await goesOn(late);
    // Appends and beats that were sent, or were about to be, are on their way until the link goes on.
    link.pause();
    await eventually('a statement is on its way', () => link.waiting() > 0);
    const underWay = late.writes.filter(({ status }) => status === 0).map(({ body }) => body);
    const load = startLoad(other.url, cpo, 'M');
    await eventually('the other node is the owner', async () => (await roleOf(other)) === 'owner');
    t.not(await roleOf(owner), 'owner', 'the former one knows by its clock that it is not');
    await goesOn(load);
    const [before] = await server.query<{ n: string }>(`select count(*) as n from ${schema}.events`);
    link.deliver();
    await eventually('the former owner stands by', async () => (await roleOf(owner)) === 'standby');
    await eventually('and passes on', async () => (await fetch(`${owner.url}/readyz`)).status === 200);
    await goesOn(load);
    await Promise.all([late.stop(), load.stop()]);
    t.ok((await nodes.token()) > 1, 'under a later token');
    const rows = await server.query<{ body: string }>(
      `select body from ${schema}.events where body = any($1) and seq > $2`,
      [underWay, Number(before?.n)],
    );
    t.strictSame(rows, [], `of ${underWay.length} writes that were under way none came into the log late`);
    await mustAddUp(t, server, schema, [late, load], emsp);
  });

  for (const how of ['cut', 'silent'] as const) {
    t.test(`the link between the nodes is ${how}, and both reach the database`, async (t) => {
      const schema = newSchema(how);
      const links: Link[] = [];
      const of = async (port: number) => {
        const link = await Link.to(t, port);
        links.push(link);
        return { HUB_NODE_URL: `http://127.0.0.1:${link.port}` };
      };
      // Longer than busy cores make a node stand still.
      const nodes = await startNodes(t, server, schema, { env: { ...env, HUB_LEASE_S: '20' }, of });
      const { cpo, emsp } = await routedPair(t, nodes);
      const owner = await nodes.owner();
      const [standby] = await nodes.standbys();
      if (standby === undefined) throw new Error('no standby');
      const authorization = `Token ${Buffer.from(cpo.hubToken).toString('base64')}`;
      const cdr_token = { country_code: 'NL', party_id: 'EMS', uid: 'CARD1', type: 'RFID', contract_id: 'C1' };
      const put = (url: string, id: string) =>
        fetch(`${url}/ocpi/2.2.1/sessions/NL/CPO/${id}`, {
          ...{ method: 'PUT', headers: { authorization, 'content-type': 'application/json' } },
          body: JSON.stringify(sessionBody(id, { cdr_token })),
          signal: AbortSignal.timeout(patienceMs),
        });
      t.equal((await put(standby.url, 'BEFORE')).status, 200);
      const load = startLoad(nodes.url, cpo, how.toUpperCase());
      await goesOn(load);
      for (const link of links) how === 'cut' ? link.sever() : link.pause();
      const ids = ['A', 'B', 'C'];
      for (const answer of await Promise.all(ids.map((id) => put(standby.url, `DOOR-${id}`)))) {
        t.equal(answer.status, 200, 'what needs no owner goes on');
      }
      for (const id of ids) t.equal((await put(owner.url, id)).status, 200, 'as it does at the owner');
      await emsp.got('what a door took', ({ path }) => path.endsWith('/DOOR-C'));
      const isReady = async () => (await fetch(`${standby.url}/readyz`)).status;
      await eventually('a load balancer sees that the rest does not', async () => (await isReady()) === 503);
      await goesOn(load, 100);
      t.strictSame([await roleOf(owner), await roleOf(standby)], ['owner', 'standby'], 'the lease is in the database');
      for (const link of links) how === 'cut' ? link.mend() : link.deliver();
      await eventually('it passes on again', async () => (await isReady()) === 200);
      await goesOn(load);
      await load.stop();
      const figures = await fetch(`${owner.url}/metrics`, { headers: { authorization: `Bearer ${adminToken}` } });
      t.match(await figures.text(), /^ocpi_hub_passed_on_total\{end="answered"\} 0$/m, 'the owner passed nothing on');
      t.equal(await nodes.token(), 1, 'nobody else became the owner');
      await mustAddUp(t, server, schema, [load], emsp);
    });
  }
});
