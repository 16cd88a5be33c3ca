/**
 * A change of a partner is in the log, and the node cannot read what another node wrote before it: the caller is refused after 5 s, and the
 * change takes effect as soon as the log is read.
 */
import { StoreUnavailable } from '../../storage/contract.ts';
import { append } from '../storage/support.ts';
import { locationBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually, plainPartner } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

/** One call of the admin API that may be refused. */
const asked = (...call: Parameters<typeof admin>): Promise<{ status: number }> =>
  admin(...call).then(
    () => ({ status: 200 }),
    ({ message }: Error) => ({ status: Number(/: (\d{3}) /.exec(message)?.[1]) }),
  );

/** A hub whose log cannot be read on demand, and has an event of another node then. */
async function scene(t: Test) {
  const clock = new SimulatedClock('2026-03-01T00:00:00Z');
  let isAway = false;
  const wrap = wrapStore((store) => ({
    read: async (query) => {
      if (isAway) throw new StoreUnavailable('the log is away');
      return store.read(query);
    },
  }));
  const hub = await hubFor(t, {}, { clock, wrap });
  const { store, recorder } = hub.created.context;
  /** The change is refused, and in the log. */
  async function refused(what: string, change: () => Promise<{ status: number }>): Promise<void> {
    isAway = true;
    await append(store);
    const before = store.head();
    let status = 0;
    const answered = change().then((answer) => {
      status = answer.status;
    });
    await eventually(`${what} is in the log`, () => store.head() > before);
    await eventually(`${what} is answered`, () => {
      clock.advance(1_000);
      return status !== 0;
    });
    await answered;
    t.equal(status, 503, `${what}: its caller waits no longer`);
    t.ok(recorder.feed.upTo < store.head(), 'and it is not dispatched');
  }
  async function back(): Promise<void> {
    isAway = false;
    const head = store.head();
    await eventually('the log is read', () => {
      clock.advance(200);
      return recorder.feed.upTo >= head;
    });
  }
  const state = (id: string) => hub.created.context.supervisor.view(id)?.snapshot?.value;
  return { hub, refused, back, state };
}

t.test('[RECORDER-7] a registration that was refused late lets deliveries go', async (t) => {
  const { hub, refused, back } = await scene(t);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  t.teardown(() => emsp.close());
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS', business_details: { name: 'EMS' } }];
  const { initial_token: initialToken } = await admin(hub, 'POST', '/parties', { roles });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await refused('the registration', async () => {
    emsp.moveTo(hub);
    emsp.hubToken = String(initialToken);
    const body = { token: emsp.token, url: `${emsp.url}/ocpi/versions`, roles };
    return emsp.call('POST', '/2.2.1/credentials', body);
  });
  await back();
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await emsp.got('the location', ({ path }) => path.endsWith('/locations/NL/CPO/L1'));
});

t.test(
  '[RECORDER-7] a partner that was added has its actors, and one that was suspended is sent nothing',
  async (t) => {
    const { hub, refused, back, state } = await scene(t);
    const { emsp } = await routedPair(t, hub);
    const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'NEW', business_details: { name: 'NEW' } }];
    await refused('a new partner', () => asked(hub, 'POST', '/parties', { roles }));
    t.equal(state('partner:NL-NEW'), undefined);
    await back();
    t.match(state('partner:NL-NEW'), { connection: 'registered' });
    await refused('a suspension', () => asked(hub, 'POST', `/parties/${emsp.id}/suspend`));
    await back();
    t.match(state(`partner:${emsp.id}`), { connection: 'suspended' });
    t.match(state(`courier:${emsp.id}`), { door: 'suspended' });
  },
);

t.test('[RECORDER-7] a pause holds deliveries', async (t) => {
  const { hub, refused, back } = await scene(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await refused('a pause', () => asked(hub, 'PATCH', `/parties/${emsp.id}`, { paused: true }));
  await back();
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  const [waiting] = (await admin(hub, 'GET', `/deliveries?receiver=${emsp.id}`)).items as { state: string }[];
  t.match(waiting, { state: 'PENDING' });
  t.same(emsp.received, []);
});

t.test('a party of a partner that is not dispatched yet is not given to another', async (t) => {
  const { hub, refused, back } = await scene(t);
  const role = (party_id: string) => ({ role: 'EMSP', country_code: 'NL', party_id });
  await refused('the first', () => asked(hub, 'POST', '/parties', { roles: [role('AAA'), role('BBB')] }));
  const second = asked(hub, 'POST', '/parties', { roles: [role('BBB')] });
  await back();
  t.same(await second, { status: 409 });
});
