/**
 * `ocpi-hub cluster`, and the way of an embedded hub into a database with `ocpi-hub store copy`, as operators use them: built commands in
 * processes of their own, their output and how they end.
 */
import { join } from 'node:path';
import { freePort } from '../../src/sandbox/free-port.ts';
import { adminToken, leaseS, longer, startNodes } from '../cluster/nodes.ts';
import { sessionBody } from '../support/bodies.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { startPostgres } from '../support/postgres.ts';
import { runCommand as run } from '../support/resident-command.ts';
import { t } from '../support/tap.ts';

t.test('a hub and its database', longer, async (t) => {
  const server = await startPostgres(t);

  t.test('cluster shows every node and the owner, whichever node is queried', async (t) => {
    const nodes = await startNodes(t, server, 'shown');
    const owner = await nodes.owner();
    const [standby] = await nodes.standbys();
    if (standby === undefined) throw new Error('no standby');
    const ask = ({ url }: { url: string }, ...words: string[]) =>
      run(['cluster', '--url', url, ...words], { HUB_ADMIN_TOKEN: adminToken });
    const line = (node: { url: string }, isOwner: string, answers: string) =>
      new RegExp(`^\\S+ +${node.url} +yes +yes +${isOwner} +${answers}\\s*$`, 'm');
    await eventually('each has seen and reached the other one', async () => {
      const views = await Promise.all(nodes.all.map(({ url }) => admin({ url, adminToken }, 'GET', '/cluster')));
      const seen = views.flatMap((view) => view.nodes as { reached: string }[]);
      return seen.length === 4 && seen.every(({ reached }) => reached === 'itself');
    });
    for (const [node, role] of [
      [owner, 'owner'],
      [standby, 'standby'],
    ] as const) {
      const { code, out, err } = await ask(node);
      t.equal(code, 0, err);
      t.match(out, /^store +PostgreSQL$/m);
      t.match(out, new RegExp(`^this node +${role}$`, 'm'));
      t.match(out, new RegExp(`^lease +${leaseS} s$`, 'm'));
      t.match(out, /^head of the log +\d+$/m);
      t.match(out, line(owner, 'yes', node === owner ? 'yes' : 'no'));
      t.match(out, line(standby, 'no', node === standby ? 'yes' : 'no'));
    }
    const json = await ask(standby, '--json');
    t.match(JSON.parse(json.out), { store: 'postgres', role: 'standby', nodes: [{ alive: true }, { alive: true }] });
    await owner.hub.stop();
    await standby.hub.stop();
    const away = await ask(standby);
    t.equal(away.code, 1);
    t.match(away.err, standby.url);
  });

  t.test('store copy copies an embedded hub into the database, and a hub there continues with it', async (t) => {
    const dataDir = join(directoryFor(t), 'data');
    const keys = { HUB_ADMIN_TOKEN: adminToken, HUB_SECRET_KEY: 'the-key-of-both-hubs' };
    const port = await freePort();
    const hub = await startChildHub({ dataDir, port, env: keys });
    t.teardown(() => hub.kill());
    const { cpo } = await routedPair(t, hub);
    for (let i = 0; i < 20; i += 1) await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/S${i}`, sessionBody(`S${i}`));
    const embedded = await run(['cluster', '--url', hub.url], keys);
    t.match(embedded.out, /^store +embedded: one process, no other nodes$/m);
    const to = server.url('moved');
    const copy = (...words: string[]) => run(['store', 'copy', '--data-dir', dataDir, ...words]);

    const running = await copy('--to', to);
    t.equal(running.code, 1);
    t.match(running.err, 'is in use by another process');
    t.equal(await hub.stop(), 0);

    const copied = await copy('--to', to);
    t.equal(copied.code, 0, copied.err);
    t.match(
      copied.out,
      /holds the store of .* up to event \d+, read back and the same:\n\d+ events, \d+ rows, .*SHA-256 \w{64}/,
    );
    const head = Number(/up to event (\d+)/.exec(copied.out)?.[1]);
    const [log] = await server.query<{ n: string }>('select count(*) as n from moved.events');
    t.equal(Number(log?.n), head, 'the log is there');

    const again = await copy('--to', to);
    t.equal(again.code, 1);
    t.match(again.err, 'is not empty: a copy goes into a new one');
    const nowhere = await copy();
    t.equal(nowhere.code, 2);
    t.match(nowhere.err, '--to names the database');
    const away = await copy('--to', 'postgres://hub@127.0.0.1:1/postgres?single=1');
    t.equal(away.code, 1);
    t.match(away.err, /no database server takes writes: 127\.0\.0\.1:1 /);
    const [after] = await server.query<{ n: string }>('select count(*) as n from moved.events');
    t.equal(Number(after?.n), head, 'a copy that was refused changed nothing');

    const moved = await startChildHub({ dataDir: '/nowhere', port, env: { ...keys, HUB_STORE: to } });
    t.teardown(() => moved.kill());
    t.equal(moved.url, hub.url);
    const got = await cpo.call('GET', '/2.2.1/sessions/NL/CPO/S7');
    t.match(got.json, { status_code: 1000, data: { id: 'S7' } }, 'the partner goes on with the token that it had');
    t.equal((await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/NEW', sessionBody('NEW'))).status, 200);
    const shown = await run(['cluster', '--url', moved.url], keys);
    t.match(shown.out, /^this node +owner$/m);
    t.equal(await moved.stop(), 0);
  });
});
