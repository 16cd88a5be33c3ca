/**
 * A database that fails as a cluster of servers fails, under load: its primary is killed, a standby that it waits for is killed, all of them
 * stand still. What was acknowledged is there, once; what waits is not acknowledged; nothing has to be restarted but what was killed.
 */
import { routedPair } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { startPostgres, startStandby } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { goesOn, mustAddUp, startLoad } from './load.ts';
import { longer, shortLease, startNodes, untilJoined } from './nodes.ts';

t.test('a primary and two standbys, of which a commit waits for one', longer, async (t) => {
  const server = await startPostgres(t);
  const names = ['s1', 's2'];
  const standbys = await Promise.all(names.map((name) => startStandby(t, server, name)));
  const [first, second] = standbys;
  if (first === undefined || second === undefined) throw new Error('two standbys');
  await server.query(`alter system set synchronous_standby_names = 'ANY 1 (s1, s2)'`);
  await server.query('select pg_reload_conf()');
  const inQuorum = async (count: number) => {
    const rows = await server.query("select 1 from pg_stat_replication where sync_state = 'quorum'");
    return rows.length === count;
  };
  await eventually('both are in the quorum', () => inQuorum(2));

  const scene = async (t: Test, name: string, lease = shortLease.HUB_LEASE_S) => {
    const HUB_STORE = server.url(name).replace('single=1&', '');
    const env = { HUB_RATE_OTHER_PER_MIN: '1000000', HUB_LEASE_S: lease, HUB_STORE };
    const nodes = await startNodes(t, server, name, { env });
    await untilJoined(nodes.all);
    const { cpo, emsp } = await routedPair(t, nodes);
    const load = startLoad(nodes.url, cpo, name.toUpperCase());
    await goesOn(load);
    const end = async () => {
      await goesOn(load);
      await load.stop();
      await mustAddUp(t, server, name, [load], emsp);
      await Promise.all(nodes.all.map(({ hub }) => hub.stop()));
    };
    return { nodes, load, end };
  };

  t.test('the primary is killed and restarted: the owner keeps its lease', async (t) => {
    // Longer than a server takes to come back.
    const { nodes, load, end } = await scene(t, 'killed', '20');
    const [owner, token] = [await nodes.owner(), await nodes.token()];
    await server.kill();
    const begun = performance.now();
    await server.start();
    await goesOn(load, 1);
    t.comment(
      `from the start of the primary to the next acknowledged write: ${Math.round(performance.now() - begun)} ms`,
    );
    t.equal(await nodes.owner(), owner, 'the owner stayed it');
    t.equal(await nodes.token(), token, 'nobody was judged dead');
    await end();
  });

  t.test('one standby is killed, and then the other one', async (t) => {
    await eventually('both are in the quorum', () => inQuorum(2));
    const { load, end } = await scene(t, 'standby');
    const pauses: number[] = [];
    for (const standby of standbys) {
      await standby.kill();
      const begun = performance.now();
      await goesOn(load, 1);
      pauses.push(Math.round(performance.now() - begun));
      await goesOn(load);
      await standby.start();
      await eventually('both are in the quorum', () => inQuorum(2));
    }
    t.comment(`from each kill of a standby to the next acknowledged write: ${pauses.join(', ')} ms`);
    await end();
  });

  t.test('all standbys freeze: writes wait, and nothing is acknowledged', async (t) => {
    const { nodes, load, end } = await scene(t, 'frozen', '6');
    const waiting = () =>
      server.query<{ pid: number }>(
        "select pid from pg_stat_activity where wait_event = 'SyncRep' and application_name like 'ocpi-hub%'",
      );
    for (const standby of standbys) standby.freeze();
    await eventually('a commit waits for a standby', async () => (await waiting()).length > 0);
    const before = load.acknowledged().length;
    // PITFALL: a wait that is cancelled is answered with success.
    for (const { pid } of await waiting()) await server.query('select pg_cancel_backend($1)', [pid]);
    const refused = () => load.failed().filter(({ status }) => status === 503);
    await eventually('a write that was not sent is refused', () => refused().length > 0);
    t.ok((await waiting()).length > 0, 'what was sent waits');
    t.equal(load.acknowledged().length, before, 'nothing is acknowledged meanwhile');
    for (const standby of standbys) standby.thaw();
    await goesOn(load);
    await nodes.owner();
    await end();
  });
});
