/** Exchanges of credentials: one at a time and ten a minute for each partner, and nothing else of the partner waits for them. */
import type { RunningHub } from '../../src/main.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { type OcpiAnswer, ocpi, refused } from '../support/ocpi-call.ts';
import { admin, eventually, type PlainPartner, plainPartner, type Reply } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { within } from '../support/within.ts';

const credentials = '/2.2.1/credentials';
const quiet = { HUB_PROBE_INTERVAL_S: '1000000', HUB_RATE_EXCHANGES_PER_MIN: '10' };
const roles = [
  { role: 'CPO' as const, country_code: 'NL', party_id: 'CPO' },
  { role: 'EMSP' as const, country_code: 'NL', party_id: 'EMS' },
];

/** A registered partner of two parties, which keeps back what it tells of its versions while it is held. */
async function heldPartner(t: Test, hub: RunningHub) {
  const kept = new Set<(reply: undefined) => void>();
  let isHeld = false;
  const discovery = () => (isHeld ? new Promise<Reply | undefined>((resolve) => kept.add(resolve)) : undefined);
  const [, ...others] = roles;
  const partner = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO', others, discovery });
  const release = () => {
    isHeld = false;
    for (const resolve of kept) resolve(undefined);
    kept.clear();
  };
  t.teardown(async () => {
    release();
    await partner.close();
  });
  await partner.register(hub);
  partner.asked.length = 0;
  const hold = () => {
    isHeld = true;
  };
  return { partner, hold, release };
}

const put = (hub: RunningHub, { token, url, hubToken }: PlainPartner, headers = {}) =>
  ocpi(hub, 'PUT', credentials, {
    token: hubToken,
    body: { token, url: `${url}/ocpi/versions`, roles },
    headers,
  });

/** Resolves when the partner was asked for its versions so often. */
async function isAsked({ asked, changed }: PlainPartner, count = 1): Promise<void> {
  while (asked.length < count) await within(60_000, changed(), () => `asked ${asked.length} times, not ${count}`);
}

/** Fails when it does not come, instead of waiting for ever. */
const answered = <T>(what: string, work: Promise<T>): Promise<T> =>
  within(30_000, work, () => `it never came to: ${what}`);

t.test('300 exchanges that hang delay no operator, in particular no suspension', async (t) => {
  const hub = await hubFor(t, quiet);
  const { partner, hold, release } = await heldPartner(t, hub);
  hold();
  const hanging = Array.from({ length: 300 }, () => put(hub, partner));
  await isAsked(partner);
  t.equal((await ocpi(hub, 'GET', credentials, { token: partner.hubToken })).status, 200, 'all have arrived');
  const of = '/parties/NL-CPO';
  await answered('settings are answered', admin(hub, 'PATCH', of, { paused: true }));
  await answered('an initial token is answered', admin(hub, 'POST', `${of}/initial-token`));
  await answered('a suspend is answered', admin(hub, 'POST', `${of}/suspend`));
  release();
  const answers = await Promise.all(hanging);
  t.equal(answers.filter(({ json }) => json.status_code === 1000).length, 0, 'no exchange changed anything');
  const ends = new Set(answers.map(({ json }) => json.status_code));
  for (const code of ends) t.ok([2000, 2901, 3001].includes(code), `refused with ${code}`);
  t.match(await admin(hub, 'GET', of), { status: 'SUSPENDED' });
  t.equal((await ocpi(hub, 'GET', '/versions', { token: partner.hubToken })).status, 401);
});

for (const by of ['an operator', 'the partner’s DELETE'])
  t.test(`an exchange that is overtaken by a suspend of ${by} is refused and changes nothing [D10]`, async (t) => {
    const hub = await hubFor(t, quiet);
    const { partner, hold, release } = await heldPartner(t, hub);
    hold();
    const overtaken = put(hub, partner);
    await isAsked(partner);
    if (by === 'an operator') await answered('suspended', admin(hub, 'POST', '/parties/NL-CPO/suspend'));
    else await answered('left', ocpi(hub, 'DELETE', credentials, { token: partner.hubToken }));
    release();
    refused(t, await overtaken, [405, 2000, 'Not registered'], 'the PUT');
    t.match(await admin(hub, 'GET', '/parties/NL-CPO'), { status: 'SUSPENDED' });
    const { items } = (await admin(hub, 'GET', '/events?type=partner.rotated')) as { items: object[] };
    t.equal(items.length, 0);
  });

t.test('a POST whose initial token is replaced while its versions are read is refused [D9]', async (t) => {
  const hub = await hubFor(t, quiet);
  const { partner, hold, release } = await heldPartner(t, hub);
  const issue = async () => String((await admin(hub, 'POST', '/parties/NL-CPO/initial-token')).initial_token);
  const { token, url } = partner;
  const post = (initial: string) =>
    ocpi(hub, 'POST', credentials, { token: initial, body: { token, url: `${url}/ocpi/versions`, roles } });
  const first = await issue();
  hold();
  const overtaken = post(first);
  await isAsked(partner);
  const second = await answered('a new initial token', issue());
  release();
  refused(
    t,
    await overtaken,
    [405, 2000, /^Already registered: .* ocpi-hub parties initial-token NL-CPO$/],
    'with the replaced one',
  );
  t.equal((await post(second)).json.status_code, 1000);
});

t.test('suspending a suspended partner ends an initial token issued since, and a POST in progress [D10]', async (t) => {
  const hub = await hubFor(t, quiet);
  const { partner, hold, release } = await heldPartner(t, hub);
  const suspend = () => admin(hub, 'POST', '/parties/NL-CPO/suspend');
  const suspensions = async () =>
    ((await admin(hub, 'GET', '/events?type=partner.suspended')) as { items: object[] }).items.length;
  await suspend();
  const { last_updated } = await suspend();
  t.equal(await suspensions(), 1, 'there was nothing to end');
  const initial = String((await admin(hub, 'POST', '/parties/NL-CPO/initial-token')).initial_token);
  const { token, url } = partner;
  const post = () =>
    ocpi(hub, 'POST', credentials, { token: initial, body: { token, url: `${url}/ocpi/versions`, roles } });
  hold();
  const overtaken = post();
  await isAsked(partner);
  t.match(await answered('suspended again', suspend()), { status: 'SUSPENDED', last_updated });
  release();
  refused(t, await overtaken, [401, 2000, 'Invalid token'], 'the POST under way');
  refused(t, await post(), [401, 2000, 'Invalid token'], 'a later POST');
  t.match(await admin(hub, 'GET', '/parties/NL-CPO'), { status: 'SUSPENDED' });
  t.equal(await suspensions(), 2);
});

t.test('one exchange runs and two wait; another one is refused at once', async (t) => {
  const hub = await hubFor(t, quiet);
  const { partner, hold, release } = await heldPartner(t, hub);
  hold();
  const all = Array.from({ length: 4 }, () => put(hub, partner));
  const fourth = await answered('one is answered', Promise.race(all));
  refused(t, fourth, [429, 2901, 'Rate limited'], 'the fourth');
  t.equal(fourth.headers['retry-after'], '20');
  await isAsked(partner);
  t.equal(partner.asked.length, 1, 'the others wait');
  release();
  const codes = (await Promise.all(all)).map(({ json }) => json.status_code);
  t.strictSame(codes.sort(), [1000, 1000, 1000, 2901]);
  t.equal(partner.asked.length, 6, 'two calls each');
});

t.test('an exchange waits for its turn as long as one may take, and is refused then', async (t) => {
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  const hub = await hubFor(t, quiet, { clock });
  const { partner, hold, release } = await heldPartner(t, hub);
  hold();
  const first = put(hub, partner);
  await isAsked(partner);
  const before = clock.pending;
  const done: OcpiAnswer[] = [];
  const others = [put(hub, partner), put(hub, partner)];
  for (const other of others) void other.then((answer) => done.push(answer));
  await eventually('both wait', () => clock.pending >= before + 2);
  // Each of its two calls takes almost as long as one may.
  for (const calls of [2, 3]) {
    clock.advance(9_500);
    release();
    hold();
    await isAsked(partner, calls);
  }
  t.equal((await first).json.status_code, 1000, 'the first took 19 s');
  t.equal(done.length, 0, 'the others wait, or have begun');
  clock.advance(1_000);
  const waited = await answered('the last one is answered', Promise.race(others));
  refused(t, waited, [429, 2901, 'Rate limited'], 'the one that waited');
  release();
  const ends = (await Promise.all(others)).map(({ json }) => json.status_code).sort();
  t.strictSame(ends, [1000, 2901], 'the one before it goes on');
  t.equal(partner.asked.length, 4, 'the partner is not called for one that was refused');
  t.equal((await put(hub, partner)).json.status_code, 1000, 'and the place is free');
});

t.test('a partner has ten exchanges a minute, counted over all of its parties', async (t) => {
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  const hub = await hubFor(t, quiet, { clock });
  const { partner } = await heldPartner(t, hub);
  const as = (party: string) => ({ 'OCPI-from-country-code': 'NL', 'OCPI-from-party-id': party });
  // Its registration was the first.
  for (let n = 2; n <= 10; n++) {
    const { json } = await put(hub, partner, as(n % 2 ? 'CPO' : 'EMS'));
    t.equal(json.status_code, 1000, `exchange ${n}`);
  }
  clock.advance(15_000);
  for (const party of ['CPO', 'EMS']) {
    const answer = await put(hub, partner, as(party));
    refused(t, answer, [429, 2901, 'Rate limited'], `one more, as ${party}`);
    t.equal(answer.headers['retry-after'], '45');
  }
  t.equal((await ocpi(hub, 'GET', credentials, { token: partner.hubToken })).status, 200, 'GET is no exchange');
  clock.advance(45_000);
  t.equal((await put(hub, partner)).json.status_code, 1000, 'the next minute');
});
