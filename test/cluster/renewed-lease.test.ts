/**
 * A lease that is lost and gained again under another token while a hub is made, or before that hub had it: what it has read is older
 * than what another node wrote meanwhile. Another hub is made, and that one answers.
 */
import type { Fence } from '../../storage/contract.ts';
import { openPostgresStore } from '../../storage/postgres/store.ts';
import { event, row } from '../storage/support.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { longer } from './nodes.ts';
import { type StandIn, startOneNode } from './one-node.ts';

const written = row('written by another node');

t.test('a hub whose lease was lost meanwhile answers nothing', longer, async (t) => {
  const server = await sharedPostgres();

  for (const moment of ['after', 'before'] as const) {
    t.test(`it is made ${moment} the lease is held again`, async (t) => {
      const schema = newSchema(moment);
      const url = server.url(schema);
      /** Whether each hub found what another node wrote when it was made. */
      const found = new Map<StandIn, boolean>();
      let goOn = () => {};
      const isMade = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      const { node, store, hubs } = await startOneNode(
        t,
        // It renews so seldom that its lease ends when the test says so.
        { url, node: 'first', ttlMs: 300_000 },
        {
          async make({ store }, hub) {
            found.set(hub, (await store.get(written)) !== null);
            await isMade;
          },
        },
      );
      await eventually('a hub has read', () => found.size === 1);

      await server.query(`update ${schema}.nodes set expires = now() - interval '1 second' where name = 'first'`);
      const other = await openPostgresStore({ url, node: 'other', sole: false, ttlMs: 1000 });
      t.teardown(() => other.close());
      await eventually('another node has the lease', () => other.held() !== null);
      await other.append({ fence: other.held() as Fence, idem: 'other', events: [event()], puts: [written], due: [] });
      if (moment === 'before') {
        await store.poke();
        t.equal(store.held(), null, 'the first one knows that it has lost it');
        goOn();
        await eventually('its hub is put away', () => hubs[0]?.told.includes('close') === true);
      }
      await other.close();
      await eventually('the first one has it again', async () => {
        await store.poke();
        return (store.held()?.token ?? 0) > 2;
      });
      goOn();

      await eventually('requests are answered', () => node.place(false).kind === 'here');
      const [first, second] = hubs;
      t.equal(hubs.length, 2);
      t.strictSame([...found.values()], [false, true]);
      t.strictSame(first?.told, ['close'], 'the first hub brought nothing back');
      t.strictSame(second?.told, ['recover']);
      const place = node.place(false);
      t.ok(place.kind === 'here' && place.hub === second, 'the second one answers');
    });
  }
});
