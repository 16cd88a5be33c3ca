/**
 * What was still to be written of deliveries when their shard went is not written when the shard is back: not how
 * they went, since another hub knows that better, and not how far a receiver had come, since that would pass over
 * what it is owed now.
 */
import type { Fence } from '../../storage/contract.ts';
import { deliveriesOf, Holding } from '../delivery/watched.ts';
import { sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const shards: ReadonlySet<number> = new Set([0]);
/** After which what could not be written is tried again. */
const againMs = 1000;

/**
 * A hub whose store lets ends of deliveries in as the test says; an eMSP that holds what it is sent, and one that
 * takes all.
 */
async function scene(t: Test) {
  const clock = new SimulatedClock('2024-05-01T10:00:00Z');
  const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '3600' }, { clock });
  const { core, drop, gain } = hub.created;
  const holding = new Holding();
  const { cpo, emsp } = await routedPair(t, hub, { emsp: holding.answer });
  t.teardown(() => holding.releaseAll());
  const other = await partnerFor(t, hub, { countryCode: 'NL', role: 'EMSP', partyId: 'EM2' });
  await admin(hub, 'PUT', '/routes/NL-EM2/NL-CPO', { active: true });

  const settle = core.store.settle;
  const writes = { begun: 0, mayGoOn: () => Promise.resolve() };
  core.store.settle = async (...ends) => {
    writes.begun += 1;
    await writes.mayGoOn();
    return settle(...ends);
  };
  /** A write that waits to be let in has not reached the store: it is not under way. */
  const settled = () => hub.settled(emsp);
  const push = async (id: string, receiver: 'EMS' | 'EM2' = 'EMS') => {
    const card = { country_code: 'NL', party_id: receiver, uid: 'C', type: 'RFID', contract_id: 'C' };
    const { status } = await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, { cdr_token: card }));
    t.equal(status, 200);
    return core.store.head(0);
  };
  const floorOf = async (receiver: string) =>
    (await core.store.floors()).find(({ dest }) => dest === receiver)?.seq ?? 0;
  return {
    ...{ clock, core, holding, emsp, settle, writes, push, floorOf },
    /** The end of a delivery to the eMSP is known, written or not. */
    async ended(seq: number) {
      await settled();
      t.match(
        (await deliveriesOf(hub, '?receiver=NL-EMS')).find((item) => item.seq === seq),
        { state: 'DELIVERED' },
      );
    },
    async sent(count: number) {
      await settled();
      t.equal(emsp.received.length, count, `${count} were sent`);
    },
    /** An end of a delivery could be written if the store let it in. */
    async isWriting() {
      await settled();
      t.ok(writes.begun > 0, 'an end is to be written');
    },
    async moves() {
      drop(shards);
      await gain(shards);
    },
    /** Resolves when everything is written that waits. */
    async allIsWritten() {
      writes.mayGoOn = () => Promise.resolve();
      const seq = await push('of another one', 'EM2');
      await settled();
      t.equal(other.received.length, 1, 'the other one has it');
      clock.advance(againMs);
      await settled();
      t.ok((await floorOf('NL-EM2')) >= seq, 'it is written');
    },
  };
}

/** A promise that the test ends. */
function gate() {
  let open = () => {};
  let refuse = () => {};
  const passed = new Promise<void>((resolve, reject) => {
    open = resolve;
    refuse = () => reject(new Error('the store is away'));
  });
  return { open, refuse, mayGoOn: () => passed };
}

t.test(
  'how far a receiver had come, that could not be written, is not how far it is when its shard is back',
  async (t) => {
    const { holding, writes, push, sent, isWriting, moves, allIsWritten, floorOf } = await scene(t);
    writes.mayGoOn = () => Promise.reject(new Error('the store is away'));
    const seq = await push('S1');
    await sent(1);
    holding.releaseOne();
    await isWriting();
    await moves();
    await sent(2);
    await allIsWritten();
    t.ok((await floorOf('NL-EMS')) < seq, 'what is under way is still owed');
    await moves();
    await sent(3);
  },
);

t.test('nor what was added to it while a part of it was being written', async (t) => {
  const { holding, writes, push, sent, ended, isWriting, moves, allIsWritten, floorOf } = await scene(t);
  const { open, mayGoOn } = gate();
  writes.mayGoOn = mayGoOn;
  await push('S1');
  await sent(1);
  holding.releaseOne();
  await isWriting();
  const next = await push('S2');
  await sent(2);
  holding.releaseOne();
  await ended(next);
  await moves();
  await sent(4);
  const seq = await push('S3');
  await sent(5);
  open();
  await allIsWritten();
  t.ok((await floorOf('NL-EMS')) < seq, 'what is under way is still owed');
});

for (const moment of ['waits to be written', 'is being written']) {
  t.test(`how a delivery went, that ${moment}, is not written over what another hub knows of it`, async (t) => {
    const { core, clock, holding, settle, writes, push, sent, isWriting, moves, allIsWritten } = await scene(t);
    const { refuse, mayGoOn } = gate();
    writes.mayGoOn = mayGoOn;
    const seq = await push('S1');
    await sent(1);
    holding.releaseOne({ status: 503 });
    await isWriting();
    const isRefused = moment === 'waits to be written';
    if (isRefused) {
      refuse();
      await new Promise((resolve) => setImmediate(resolve));
    }
    // As the hub would that has the shard meanwhile.
    const fence = core.store.held(0) as Fence;
    await settle(fence, [{ dest: 'NL-EMS', shard: 0, seq, state: 'DELIVERED', data: { attempts: [] } }], []);
    await moves();
    if (!isRefused) refuse();
    await allIsWritten();
    clock.advance(againMs);
    t.match(await core.store.delivery('NL-EMS', 0, seq), { state: 'DELIVERED' });
  });
}
