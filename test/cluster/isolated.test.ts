/**
 * A node that the database is away from answers from memory when everything recorded was in it, and nothing when it had brought back half
 * of it.
 */
import type { Passing } from '../../src/cluster/passing.ts';
import type { Tenure } from '../../src/cluster/tenure.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { skip } from './nodes.ts';
import { type Steps, startOneNode } from './one-node.ts';

/** It ends when the test says so. */
const ttlMs = 300_000;

t.test('a node that cannot reach the database', { skip }, async (t) => {
  const server = await sharedPostgres();

  const scene = async (t: Test, schema: string, steps: Steps) => {
    const running = await startOneNode(t, { url: server.url(schema), node: 'first', ttlMs }, steps);
    const { node, store, hubs } = running;
    const { isFresh } = store;
    const lose = () => Object.assign(store, { held: () => null, isFresh: () => false });
    await eventually('it takes over', () => hubs[0]?.told.includes('recover') === true);
    return {
      ...{ node, hubs, lose },
      /** As when the database gives no answer until the lease has run out. */
      isolate() {
        lose();
        node.look();
      },
      /** As when it answers again, and another node has the lease. */
      reach: () => Object.assign(store, { isFresh }),
    };
  };

  t.test('it is the owner', async (t) => {
    let tenure: Tenure | undefined;
    const make: Steps['make'] = async (of) => {
      tenure = of;
    };
    const { node, hubs, lose, isolate, reach } = await scene(t, newSchema('whole'), { make });
    await eventually('it answers', () => node.place(false).kind === 'here');
    lose();
    t.notOk(tenure?.isHeld());
    t.ok(tenure && node.mayCallUnwritten(tenure), 'it goes on asking before it has noticed');
    isolate();
    t.equal(node.role, 'isolated');
    t.ok(tenure && node.mayCallUnwritten(tenure), 'and afterwards');
    const place = node.place(false);
    t.ok(place.kind === 'here' && place.hub === hubs[0], 'it answers from memory');
    t.strictSame(hubs[0]?.told, ['recover'], 'the hub goes on');
    reach();
    node.look();
    t.equal(node.role, 'standby', 'until the database answers');
    t.notOk(tenure && node.mayCallUnwritten(tenure));
    t.not(node.place(false).kind, 'here');
    t.strictSame(hubs[0]?.told, ['recover', 'close']);
  });

  t.test('another node was the owner: requests go there until this one knows the owner', async (t) => {
    const passing = { ask: async () => null, keepOnly() {}, endUpgrades() {}, close() {} };
    const options = { url: server.url(newSchema('former')), node: 'first', ttlMs };
    const { node, store } = await startOneNode(t, options, {}, passing as unknown as Passing);
    const other = { id: 'other', name: 'other', url: 'http://127.0.0.1:9', alive: true };
    const { isFresh } = store;
    Object.assign(store, { held: () => null, owner: () => other });
    await eventually('its door is open', () => node.door !== null);
    const { id, url } = other;
    const there = { kind: 'peer', target: { id, url } };
    t.strictSame(node.place(false), there);
    Object.assign(store, { isFresh: () => false, owner: () => null });
    t.equal(node.door, null, 'the database is back, and the lease is not renewed');
    t.strictSame(node.place(false), there);
    node.look();
    t.strictSame(node.place(false), there, 'also after a look');
    Object.assign(store, { isFresh });
    t.ok(node.door);
    t.strictSame(node.place(false), { kind: 'nowhere' });
  });

  for (const end of ['fails', 'succeeds'] as const) {
    t.test(`it has half taken over, and bringing back what is recorded ${end}`, async (t) => {
      let goOn = () => {};
      let refuse = () => {};
      const recovered = new Promise<void>((resolve, reject) => {
        goOn = resolve;
        refuse = () => reject(new Error('the database is away'));
      });
      const { node, hubs, isolate } = await scene(t, newSchema('half'), { recover: () => recovered });
      t.equal(node.place(false).kind, 'wait');
      isolate();
      t.equal(node.role, 'standby');
      if (end === 'fails') refuse();
      else goOn();
      await eventually('the hub is stopped', () => hubs[0]?.told.includes('close') === true);
      t.equal(node.place(false).kind, 'nowhere', 'nothing is answered');
      t.equal(hubs.length, 1);
    });
  }
});
