/**
 * A change of a partner is in the log, and the node cannot read what another node wrote before it: the caller is refused after 5 s, or gets
 * the token that only its answer has, and the change takes effect as soon as the log is read.
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
  /** The answer to a call, for which time passes. */
  async function inTime<T>(what: string, asked: Promise<T>): Promise<T> {
    let isAnswered = false;
    const answered = asked.finally(() => {
      isAnswered = true;
    });
    await eventually(`${what} is answered`, () => {
      clock.advance(1_000);
      return isAnswered;
    });
    return answered;
  }
  /** The answer to a change that is in the log and not dispatched. */
  async function late<T>(what: string, change: () => Promise<T>): Promise<T> {
    isAway = true;
    await append(store);
    const before = store.head();
    const asked = change();
    await eventually(`${what} is in the log`, () => store.head() > before);
    const answered = await inTime(what, asked);
    t.ok(recorder.feed.upTo < store.head(), `${what} is answered and not dispatched`);
    return answered;
  }
  async function refused(what: string, change: () => Promise<{ status: number }>): Promise<void> {
    const { status } = await late(what, change);
    t.equal(status, 503, `${what}: its caller waits no longer`);
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
  return { hub, late, inTime, refused, back, state };
}

t.test('[RECORDER-8] a registration that is in the log is answered with its token, and deliveries go on', async (t) => {
  const { hub, late, inTime, back } = await scene(t);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  t.teardown(() => emsp.close());
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS', business_details: { name: 'EMS' } }];
  const { initial_token: initialToken } = await late('the partner', () => admin(hub, 'POST', '/parties', { roles }));
  await back();
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  const registered = await late('the registration', async () => {
    emsp.moveTo(hub);
    emsp.hubToken = String(initialToken);
    const body = { token: emsp.token, url: `${emsp.url}/ocpi/versions`, roles };
    return emsp.call('POST', '/2.2.1/credentials', body);
  });
  t.equal(registered.status, 200);
  emsp.hubToken = (registered.json.data as { token: string }).token;
  const own = () => emsp.call('GET', '/2.2.1/credentials');
  const early = await inTime('the token', own());
  t.match(early, { status: 503 }, '[CALLER-4] meanwhile the token is not refused as unknown');
  t.equal(early.headers.get('retry-after'), '1');
  await back();
  t.match(await own(), { status: 200 }, 'the partner has the token that is in force');
  emsp.hubToken = 'nobodys';
  t.match(await own(), { status: 401 });
  emsp.hubToken = (registered.json.data as { token: string }).token;
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await emsp.got('the location', ({ path }) => path.endsWith('/locations/NL/CPO/L1'));
});

t.test(
  '[RECORDER-8] a token that an operator requested is in the answer, and its partner has its actors',
  async (t) => {
    const { hub, late, back, state } = await scene(t);
    const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'NEW', business_details: { name: 'NEW' } }];
    const added = await late('a new partner', () => admin(hub, 'POST', '/parties', { roles }));
    t.match(added, { id: 'NL-NEW', status: 'REGISTERED', initial_token: String });
    t.equal(state('partner:NL-NEW'), undefined);
    await back();
    t.match(state('partner:NL-NEW'), { connection: 'registered' });
    const issued = await late('a new token', () => admin(hub, 'POST', '/parties/NL-NEW/initial-token'));
    t.match(issued, { initial_token: String });
    await back();
    const pulling = await late('pull only', () => admin(hub, 'PATCH', '/parties/NL-NEW', { pull_only: true }));
    t.match(pulling, { hub_token: String, status: 'CONNECTED' });
    await back();
    const client = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'NEW' });
    t.teardown(() => client.close());
    client.moveTo(hub);
    client.hubToken = String(pulling.hub_token);
    t.match(await client.call('GET', '/versions'), { status: 200 });
  },
);

t.test('[RECORDER-8] a rotation to another host is answered with its token', async (t) => {
  const { hub, late, back } = await scene(t);
  const identity = { role: 'CPO', countryCode: 'NL', partyId: 'CPO' } as const;
  const cpo = await partnerFor(t, hub, identity);
  const elsewhere = await plainPartner(identity);
  t.teardown(() => elsewhere.close());
  const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }];
  const body = { token: elsewhere.token, url: `${elsewhere.url}/ocpi/versions`, roles };
  const rotate = () => cpo.call('PUT', '/2.2.1/credentials', body);
  t.equal((await late('the rotation', rotate)).status, 200);
  const repeated = rotate();
  await back();
  const { status, json } = await repeated;
  t.equal(status, 200, 'one that comes meanwhile is decided on what is in the log');
  elsewhere.moveTo(hub);
  elsewhere.hubToken = (json.data as { token: string }).token;
  t.match(await elsewhere.call('GET', '/2.2.1/credentials'), { status: 200 }, 'its token is in force');
  const host = { from: new URL(cpo.url).host, to: new URL(elsewhere.url).host, state: 'made' };
  t.match(await admin(hub, 'GET', '/parties/NL-CPO'), { status: 'CONNECTED', host_change: host });
  const { items } = (await admin(hub, 'GET', '/events?type=partner.hostChanged')) as { items: object[] };
  t.equal(items.length, 1, 'the change of host is made once');
});

t.test('[RECORDER-7] a suspended partner is sent nothing', async (t) => {
  const { hub, refused, back, state } = await scene(t);
  const { emsp } = await routedPair(t, hub);
  await refused('a suspension', () => asked(hub, 'POST', `/parties/${emsp.id}/suspend`));
  await back();
  t.match(state(`partner:${emsp.id}`), { connection: 'suspended' });
  t.match(state(`courier:${emsp.id}`), { door: 'suspended' });
});

t.test('a suspension after a late answer is answered with the current state', async (t) => {
  const { hub, late, back } = await scene(t);
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'NEW' }];
  await admin(hub, 'POST', '/parties', { roles, pull_only: true });
  await admin(hub, 'POST', '/parties/NL-NEW/suspend');
  await late('pull only again', () => admin(hub, 'PATCH', '/parties/NL-NEW', { pull_only: true }));
  const suspended = asked(hub, 'POST', '/parties/NL-NEW/suspend');
  await back();
  t.match(await suspended, { status: 200 });
  t.match(await admin(hub, 'GET', '/parties/NL-NEW'), { status: 'SUSPENDED' });
});

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

t.test('a party of a partner that is not dispatched yet is not given to another partner', async (t) => {
  const { hub, late, back } = await scene(t);
  const role = (party_id: string) => ({ role: 'EMSP', country_code: 'NL', party_id });
  await late('the first', () => asked(hub, 'POST', '/parties', { roles: [role('AAA'), role('BBB')] }));
  const second = asked(hub, 'POST', '/parties', { roles: [role('BBB')] });
  await back();
  t.same(await second, { status: 409 });
});
