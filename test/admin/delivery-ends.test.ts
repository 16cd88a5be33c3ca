/**
 * A delivery that ends while it is listed: a list by state never shows it in a state that it never had.
 */
import type { RunningHub } from '../../src/main.ts';
import type { DeliveryRow } from '../../storage/contract.ts';
import { sessionBody } from '../support/bodies.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

const refused = { status: 404, text: '{"status_code":2003}' };

/** Something that happens once, and tells that it did. */
function gate(): { readonly open: () => void; readonly opened: Promise<void> } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open: () => open(), opened };
}

/** The eMSP refuses the one session that it is owed, once it may answer. */
async function aboutToDie(t: Test) {
  const hub = await hubFor(t);
  const answer = gate();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => answer.opened.then(() => refused) });
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1'));
  await emsp.gotCalls(1);
  const [pending] = await itemsOf(hub, '/deliveries');
  t.match(pending, { state: 'PENDING', receiver: 'NL-EMS' });
  const id = String(pending?.id);
  return { hub, answer, id, stateNow: async () => (await admin(hub, 'GET', `/deliveries/${id}`)).state };
}

/** Does something when the row of a delivery was looked up once and found missing, before the caller has the answer. */
function afterLooking({ created }: RunningHub, work: () => Promise<void>): () => boolean {
  const { store } = created.context;
  const look = store.delivery;
  let isDone = false;
  store.delivery = async (...of): Promise<DeliveryRow | null> => {
    const row = await look.call(store, ...of);
    if (row === null && !isDone) {
      isDone = true;
      await work();
    }
    return row;
  };
  return () => isDone;
}

for (const query of ['?state=DELIVERED', '?state=DELIVERED&receiver=NL-EMS&limit=1']) {
  t.test(`/deliveries${query} lists nothing that its receiver refuses at that moment`, async (t) => {
    const { hub, answer, stateNow } = await aboutToDie(t);
    const hasEnded = afterLooking(hub, async () => {
      answer.open();
      await hub.settled();
      t.equal(await stateNow(), 'DEAD');
    });
    t.strictSame((await admin(hub, 'GET', `/deliveries${query}`)).items, []);
    t.ok(hasEnded(), 'it ended between the looks');
    t.match(await itemsOf(hub, '/deliveries?state=DEAD'), [{ state: 'DEAD' }]);
  });
}

t.test(
  'a delivery that dies while it is being shown is shown as dead, and a replay of delivered ones omits it',
  async (t) => {
    const { hub, answer, id, stateNow } = await aboutToDie(t);
    const hasEnded = afterLooking(hub, async () => {
      answer.open();
      await hub.settled();
      t.equal(await stateNow(), 'DEAD');
    });
    const plan = await admin(hub, 'POST', '/redrive', { filter: { state: 'DELIVERED' }, dry_run: true });
    t.match(plan, { matched: 0 });
    t.ok(hasEnded());
    t.match(await admin(hub, 'GET', `/deliveries/${id}`), { state: 'DEAD' });
  },
);
