/**
 * Nodes that share the parties: a CPO and an eMSP that live on different nodes, whatever node is asked, and nodes that come, go and die.
 */
import { openPath, sessionPath } from '../../src/sandbox/session-path.ts';
import { inspect } from '../console/inspected.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { admin, eventually, type PlainPartner } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { goesOn, mustAddUp, mustNotFail, startLoad } from './load.ts';
import { adminToken, type Node, type Nodes, nodeOf, shortLease, skip, startNodes } from './nodes.ts';
import { partiesOn, untilOwned, untilShared } from './shares.ts';

const kills = 3;
const env = { HUB_RATE_OTHER_PER_MIN: '1000000' };
/** A node that stands still for a while on a machine that has much else to do stays the owner. */
const patient = { ...env, HUB_LEASE_S: '10' };

t.test('nodes share the parties', { skip }, async (t) => {
  const server = await sharedPostgres();

  t.test('one node has all of the shards', atLength, async (t) => {
    const nodes = await startNodes(t, server, newSchema('alone'), { count: 1 });
    await walk(t, nodes, 'CPO', 'EMS');
    for (const { hub } of nodes.all) t.equal(await hub.stop(), 0, 'SIGTERM ends it in good order');
  });

  t.test('the session path of a CPO and an eMSP of different nodes, each request through the other node', async (t) => {
    const schema = newSchema('path');
    const nodes = await startNodes(t, server, schema, { env });
    await untilShared(nodes);
    const [first, second] = nodes.all as [Node, Node];
    const [one, two] = [await partiesOn(server, schema, first), await partiesOn(server, schema, second)];
    await walk(t, nodes, one(), two());
    await walk(t, nodes, two(), one());
    for (const { hub } of nodes.all) t.equal(await hub.stop(), 0, 'SIGTERM ends it in good order');
  });

  t.test('each node shows the actors of all of them, as they change', atLength, async (t) => {
    const schema = newSchema('watched');
    const nodes = await startNodes(t, server, schema, { env: { ...shortLease, HUB_CIRCUIT_OPEN_MS: '60000' } });
    await untilShared(nodes);
    const partners = (await crossed(t, nodes, server, schema)).flatMap(({ cpo, emsp }) => [cpo.id, emsp.id]);
    for (const node of nodes.all) {
      const { actors, messages } = await inspect(t, { url: node.url, adminToken });
      await eventually('every partner and its courier is shown', async () =>
        partners.every((id) => actors.has(`partner:${id}`) && actors.has(`courier:${id}`)),
      );
      for (const id of partners) {
        t.match(JSON.parse(actors.get(`partner:${id}`)?.definition ?? '{}'), { id: 'partner' }, 'with its machine');
        for (const state of ['open', 'closed']) {
          await admin(nodes, 'POST', `/parties/${id}/circuits/async`, { state });
          await eventually(`the circuit of ${id} is shown as ${state}`, async () => {
            const { snapshot } = actors.get(`partner:${id}`) ?? {};
            return (snapshot?.value as { async?: unknown } | undefined)?.async === state;
          });
        }
        const events = messages.flatMap((one) => (one.sessionId === `partner:${id}` ? (one.event?.type ?? []) : []));
        t.ok(new Set(events).size > 1, `${new Set(events).size} kinds of events of ${id}`);
      }
      await eventually('they are counted', async () => {
        const { actors: counts } = (await admin({ url: node.url, adminToken }, 'GET', '/status')) as unknown as Status;
        return Object.values(counts.partner ?? {}).reduce((sum, count) => sum + count, 0) === partners.length;
      });
    }
    const [first, second] = nodes.all as [Node, Node];
    await second.hub.kill();
    await eventually('of the one that remains all are shown', async () => {
      const still = await inspect(t, { url: first.url, adminToken }).catch(() => null);
      return still !== null && partners.every((id) => still.actors.has(`partner:${id}`));
    });
  });

  t.test(
    'a node dies and comes back, and of the parties of the other one nothing is interrupted',
    atLength,
    async (t) => {
      const schema = newSchema('moved');
      const nodes = await startNodes(t, server, schema, { env: patient });
      await untilShared(nodes);
      // Readers of the inspector are with the node of the first shard.
      const stays = (await nodeOf(server, schema, nodes.all, 0)) as Node;
      const dies = nodes.all.find((node) => node !== stays) as Node;
      const [here, there] = [await partiesOn(server, schema, stays), await partiesOn(server, schema, dies)];
      const ours = await paired(t, nodes, here(), here());
      const theirs = await paired(t, nodes, there(), there());
      const { actors, messages, ended } = await inspect(t, { url: stays.url, adminToken });
      const own = [ours.cpo.id, ours.emsp.id].flatMap((id) => [`partner:${id}`, `courier:${id}`]);
      const others = [theirs.cpo.id, theirs.emsp.id].flatMap((id) => [`partner:${id}`, `courier:${id}`]);
      await eventually('all are shown', async () => [...own, ...others].every((id) => actors.has(id)));
      const load = startLoad(stays.url, ours.cpo, 'O', ours.emsp);
      await goesOn(load);
      await dies.hub.kill();
      await untilOwned(stays, 256);
      const moved = startLoad(stays.url, theirs.cpo, 'T', theirs.emsp);
      for (const one of [load, moved]) await goesOn(one);
      const gone = messages.filter(({ sessionId, supervision }) => {
        return own.includes(sessionId) && (supervision?.state === 'ended' || (supervision?.restarts ?? 0) > 0);
      });
      t.strictSame(gone, [], 'no actor of a party that stayed ended or was restarted');
      await dies.start();
      await untilShared(nodes);
      for (const one of [load, moved]) await goesOn(one);
      for (const one of [load, moved]) await one.stop();
      mustNotFail(t, load, 'requests of a party of the node that remained were refused');
      mustNotFail(t, moved, 'of one whose shard came there');
      t.equal(ended(), null, 'whoever watches was not cut off');
      await eventually('those of the node that died are shown', async () => others.every((id) => actors.has(id)));
      for (const { emsp } of [ours, theirs]) await mustAddUp(t, server, schema, [load, moved], emsp);
    },
  );

  t.test('every node is restarted in turn, and no request fails', atLength, async (t) => {
    const told = { ...env, HUB_LOG_LEVEL: 'info' };
    const schema = newSchema('rolling');
    const nodes = await startNodes(t, server, schema, { count: 3, env: told });
    await untilShared(nodes);
    const pairs = await crossed(t, nodes, server, schema);
    const loads = pairs.map(({ cpo, emsp }, i) => startLoad(nodes.url, cpo, `R${i}`, emsp));
    for (const load of loads) await goesOn(load);
    const logs: string[] = [];
    for (const node of nodes.all) {
      t.equal(await node.hub.stop(), 0, 'it ends in good order');
      logs.push(node.hub.log());
      for (const load of loads) await goesOn(load);
      await node.start();
      await untilShared(nodes);
      for (const load of loads) await goesOn(load);
    }
    for (const load of loads) await load.stop();
    logs.push(...nodes.all.map(({ hub }) => hub.log()));
    t.comment(`shards that came to another node were held, ms: ${pauses(logs, 'shards were handed over', 'heldMs')}`);
    t.comment(`what a node had that left was answered after, ms: ${pauses(logs, 'leaving: another node', 'afterMs')}`);
    for (const load of loads) mustNotFail(t, load, 'requests failed');
    const { items } = await admin(nodes, 'GET', '/events?limit=100&order=newest');
    t.equal(new Set((items as { seq: number }[]).map(({ seq }) => seq)).size, 100, 'the log is read over all shards');
    for (const { emsp } of pairs) await mustAddUp(t, server, schema, loads, emsp);
  });

  t.test(`a node is killed under load, ${kills} times`, atLength, async (t) => {
    const schema = newSchema('killed');
    const nodes = await startNodes(t, server, schema, { env: { ...env, ...shortLease } });
    await untilShared(nodes);
    const pairs = await crossed(t, nodes, server, schema);
    const loads = pairs.map(({ cpo, emsp }, i) => startLoad(nodes.url, cpo, `K${i}`, emsp));
    const pauses: number[] = [];
    for (let i = 0; i < kills; i += 1) {
      for (const load of loads) await goesOn(load);
      // At another moment of a write each time.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
      const victim = nodes.all[i % 2] as Node;
      const begun = performance.now();
      await victim.hub.kill();
      await Promise.all(loads.map((load) => goesOn(load, 1)));
      pauses.push(Math.round(performance.now() - begun));
      await victim.start();
      await untilShared(nodes);
    }
    for (const load of loads) await goesOn(load);
    for (const load of loads) await load.stop();
    t.comment(`from each kill to the next acknowledged write of every party: ${pauses.join(', ')} ms`);
    for (const { emsp } of pairs) await mustAddUp(t, server, schema, loads, emsp);
  });
});

/** What the lines of a kind say in a field, the least first. */
function pauses(logs: readonly string[], kind: string, field: 'heldMs' | 'afterMs'): string {
  const lines = logs.flatMap((log) => log.split('\n')).filter((line) => line.includes(kind));
  const found = lines.map((line) => Number((JSON.parse(line) as Record<string, unknown>)[field]));
  return found.sort((a, b) => a - b).join(', ');
}

interface Status {
  readonly actors: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** Two CPOs, one on each node, and an eMSP of the other node for each. */
async function crossed(t: Test, nodes: Nodes, server: Parameters<typeof partiesOn>[0], schema: string) {
  const [first, second] = nodes.all as [Node, Node];
  const [one, two] = [await partiesOn(server, schema, first), await partiesOn(server, schema, second)];
  const pairs: { cpo: PlainPartner; emsp: PlainPartner }[] = [];
  for (const [cpoId, emspId] of [
    [one(), two()],
    [two(), one()],
  ] as const) {
    pairs.push(await paired(t, nodes, cpoId, emspId));
  }
  return pairs;
}

async function paired(t: Test, nodes: Nodes, cpoId: string, emspId: string) {
  const cpo = await partnerFor(t, nodes, { countryCode: 'NL', role: 'CPO', partyId: cpoId });
  const emsp = await partnerFor(t, nodes, { countryCode: 'NL', role: 'EMSP', partyId: emspId });
  await admin(nodes, 'PUT', `/routes/${emsp.id}/${cpo.id}`, { active: true });
  return { cpo, emsp };
}

async function walk(t: Test, { url: hubUrl }: Nodes, cpoId: string, emspId: string): Promise<void> {
  const context = await openPath({
    ...{ hubUrl, adminToken, retryUntilAnswered: false },
    cpo: { party_id: cpoId },
    emsp: { country_code: 'NL', party_id: emspId },
  });
  t.teardown(() => context.close());
  for (const step of sessionPath) await t.resolves(step.run(context), `${cpoId} and ${emspId}: ${step.name}`);
}
