/** What one partner may do to others by its portal: it has turns there, and each turn has an end. */
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { HubError } from '../../src/domain/errors.ts';
import { portalTurns } from '../../src/ocpi/portal-turns.ts';
import { deliveriesOf } from '../delivery/watched.ts';
import { locationBody, tariffBody } from '../support/bodies.ts';
import { Caller, callOnce } from '../support/caller.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { statusOf } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

const ids = ['NL-ONE', 'NL-TWO', 'NL-SIX'];

/** The headers of a session of a partner. */
async function sessionOf(hub: TestHub, id: string) {
  const { url } = await admin(hub, 'POST', `/parties/${id}/portal-link`);
  const { text } = await callOnce('POST', `${hub.url}/portal/v1/session`, { link: String(url).split('#')[1] });
  return { Authorization: `Bearer ${(JSON.parse(text) as { token: string }).token}` };
}

async function partnersOf(t: Test, hub: TestHub) {
  for (const id of ids) await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: id.slice(3) });
}

t.test(
  'a partner has one read at a time in its portal, all portals have two, and operators wait for none',
  async (t) => {
    const begun: string[] = [];
    let open = () => {};
    const isOpen = new Promise<void>((resolve) => (open = resolve));
    const wrap = wrapStore((store) => ({
      async list(query) {
        const found = await store.list(query);
        if (query.kind !== 'refused') return found;
        begun.push(String(query.shelves[0]));
        await isOpen;
        return found;
      },
    }));
    const hub = await hubFor(t, {}, { wrap });
    await partnersOf(t, hub);
    const sessions = await Promise.all(ids.map((id) => sessionOf(hub, id)));
    const caller = new Caller();
    t.teardown(() => caller.close());
    const report = (at: number) =>
      caller
        .send('GET', `${hub.url}/portal/v1/parties/${ids[at]}/report`, undefined, sessions[at])
        .then(({ status }) => status);
    const first = report(0);
    await eventually('it has begun', () => begun.length === 1);
    const refused: number[] = [];
    const later = Array.from({ length: 25 }, () =>
      report(0).then((status) => {
        if (status === 429) refused.push(status);
        return status;
      }),
    );
    await eventually('twenty wait, and no more', () => refused.length === 5);
    const second = report(1);
    await eventually('another partner has begun', () => begun.length === 2);
    const third = report(2);
    const operator = admin(hub, 'GET', '/parties/NL-ONE/report');
    await eventually('an operator has begun', () => begun.length === 3);
    t.same(begun, ['NL-ONE', 'NL-TWO', 'NL-ONE'], 'the third portal waits');
    open();
    t.same(await Promise.all([first, second, third]), [200, 200, 200]);
    await operator;
    t.same((await Promise.all(later)).sort(), [...Array(20).fill(200), ...Array(5).fill(429)]);
  },
);

t.test(
  'the next request of a partner waits until the previous answer has been taken, and for three times its work',
  async (t) => {
    const clock = new SimulatedClock();
    const watched: unknown[] = [];
    const inTurn = portalTurns(clock, { watch: (response) => void watched.push(response) });
    const answer = () => Object.assign(new EventEmitter(), { closed: false }) as unknown as ServerResponse;
    const taken = (response: ServerResponse) => {
      Object.assign(response, { closed: true });
      response.emit('close');
    };
    const done: number[] = [];
    const ask = (n: number, response: ServerResponse, ms = 0, partner = 'NL-ONE') =>
      inTurn(partner, response, async () => {
        clock.advance(ms);
        done.push(n);
      });
    const [one, two, three, gone] = [answer(), answer(), answer(), answer()];
    await ask(1, one, 100);
    const leaves = ask(8, gone);
    const second = ask(2, two);
    taken(gone);
    await t.rejects(leaves, { code: 'rateLimited' }, 'a caller that has left is no more waited for');
    await ask(9, answer(), 0, 'NL-TWO');
    t.same(done, [1, 9], 'others are not held up');
    taken(one);
    clock.advance(299);
    await new Promise(setImmediate);
    t.same(done, [1, 9]);
    clock.advance(1);
    await second;
    t.same(done, [1, 9, 2]);
    taken(two);
    await ask(3, three);
    t.same(done, [1, 9, 2, 3]);
    t.equal(watched.length, 4, 'the pace of each reader is watched');
    const fails = inTurn('NL-SIX', one, () => Promise.reject(new HubError('notFound')));
    await t.rejects(fails, { code: 'rateLimited' }, 'the caller has left');
  },
);

t.test(
  'the portal serves no files, accepts no large bodies, and shows only the beginning of refused ones',
  async (t) => {
    const events: number[] = [];
    const wrap = wrapStore((store) => ({
      event(seq) {
        events.push(seq);
        return store.event(seq);
      },
    }));
    const hub = await hubFor(t, {}, { wrap });
    await partnersOf(t, hub);
    const bad = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
    const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-BAD', { active: true });
    const auth = await sessionOf(hub, 'NL-BAD');
    const ask = async (method: string, path: string, headers = {}, body?: object) => {
      const { status, text } = await callOnce(method, `${hub.url}/portal/v1${path}`, body, { ...auth, ...headers });
      return { status, json: JSON.parse(text) };
    };
    for (const accept of ['text/csv', 'application/x-ndjson']) {
      t.equal((await ask('GET', '/deliveries', { accept })).status, 406, accept);
      t.equal((await ask('GET', '/deliveries?limit=1', { accept })).status, 406, accept);
    }
    t.equal((await ask('GET', '/deliveries', { accept: '*/*' })).status, 200);
    t.equal((await ask('POST', '/parties/NL-BAD/check', {}, { write: false, x: 'x'.repeat(9_000) })).status, 413);
    await bad.call('PUT', '/2.2.1/tariffs/NL/BAD/T1', { ...tariffBody('OTHER'), x: 'x'.repeat(60_000) });
    const { refused } = (await ask('GET', '/parties/NL-BAD/report')).json;
    t.match([refused.length, refused[0].body.length], [1, 1024]);
    const known = (await admin(hub, 'GET', '/parties/NL-BAD/report')) as { refused: { body: string }[] };
    t.ok((known.refused[0]?.body.length ?? 0) > 60_000, 'an operator sees all that is kept');
    await bad.push('PUT', '/2.2.1/locations/NL/BAD/L1', locationBody('L1', { party_id: 'BAD' }));
    await hub.settled();
    const [delivery] = await deliveriesOf(hub, `?receiver=${emsp.id}`);
    events.length = 0;
    t.equal((await ask('GET', `/deliveries/${delivery?.id}`)).status, 404);
    t.equal((await ask('POST', `/deliveries/${delivery?.id}/redrive`)).status, 404);
    t.same(events, [], 'of what is not its own nothing is read');
  },
);

t.test('a partner issues itself ten initial tokens an hour, operators any number', async (t) => {
  const clock = new SimulatedClock('2026-03-01T10:00:00Z');
  const hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '1000000' }, { clock });
  await partnersOf(t, hub);
  const [one, two] = [await sessionOf(hub, 'NL-ONE'), await sessionOf(hub, 'NL-TWO')];
  const issue = (id: string, auth: Record<string, string>) =>
    callOnce('POST', `${hub.url}/portal/v1/parties/${id}/initial-token`, undefined, auth);
  for (let n = 0; n < 10; n++) {
    t.equal((await issue('NL-ONE', one)).status, 201);
    clock.advance(60_000);
  }
  const refused = await issue('NL-ONE', one);
  t.same([refused.status, refused.headers.get('retry-after')], [429, '3000']);
  t.equal((await issue('NL-TWO', two)).status, 201, 'another one has its own');
  await admin(hub, 'POST', '/parties/NL-ONE/initial-token');
  clock.advance(3_000_000);
  t.equal((await issue('NL-ONE', one)).status, 201);
  t.equal((await issue('NL-ONE', one)).status, 429, 'one has run out, and no more');
});

t.test('an exchange of credentials counts against the quota of the day, and its names are cut', async (t) => {
  const hub = await hubFor(t, { HUB_QUOTA_MB_PER_DAY: '1' });
  const bad = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
  const name = 'N'.repeat(100_000);
  const website = `https://example.com/${'w'.repeat(9_000)}`;
  const role = { role: 'CPO', country_code: 'NL', party_id: 'BAD', business_details: { name, website } };
  const rotate = () =>
    bad.call('PUT', '/2.2.1/credentials', { token: bad.token, url: `${bad.url}/ocpi/versions`, roles: [role] });
  const rotated = await rotate();
  t.equal(statusOf(rotated), '200/1000');
  const { roles } = (await admin(hub, 'GET', '/parties/NL-BAD')) as { roles: { business_details: object }[] };
  t.strictSame(roles[0]?.business_details, { name: name.slice(0, 100) });
  bad.hubToken = (rotated.json.data as { token: string }).token;
  for (let n = 0; n < 3; n++)
    await bad.push(
      'PUT',
      `/2.2.1/locations/NL/BAD/L${n}`,
      locationBody(`L${n}`, { party_id: 'BAD', x: 'x'.repeat(200_000) }),
    );
  t.equal(statusOf(await rotate()), '429/2901', 'the quota is used up');
});
