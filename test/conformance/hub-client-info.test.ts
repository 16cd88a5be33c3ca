/**
 * Hub client info as partners read it, from a hub whose clock the test moves: each party changes at an instant of its own.
 */
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { type OcpiAnswer, ocpi, type Refused, refused } from '../support/ocpi-call.ts';
import { admin, type PlainPartner, plainPartner, type Reply } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

interface ClientInfo {
  readonly country_code: string;
  readonly party_id: string;
  readonly role: string;
  readonly status: string;
  readonly last_updated: string;
}

const path = '/2.2.1/hubclientinfo';
const minute = 60_000;
/** What the versions of NL-OFF answer; as usual when undefined. */
let offReply: Reply | undefined;

const clock = new SimulatedClock('2026-03-01T10:00:00Z');
const begin = clock.now();
let hub: TestHub;
let reader: PlainPartner;
let leaver: PlainPartner;
let unreachable: PlainPartner;

const at = (minutes: number) => new Date(begin + minutes * minute).toISOString();

async function added(role: 'CPO' | 'EMSP', partyId: string): Promise<string> {
  const roles = [{ role, country_code: 'NL', party_id: partyId }];
  return String((await admin(hub, 'POST', '/parties', { roles })).initial_token);
}

t.before(async () => {
  // No probe comes by itself while the parties are made.
  hub = await hubFor(t, { HUB_PAGE_DEFAULT: '3', HUB_PAGE_MAX: '4', HUB_PROBE_INTERVAL_S: '3600' }, { clock });
  const join = async (
    role: 'CPO' | 'EMSP',
    partyId: string,
    others: { role: 'CPO' | 'EMSP'; country_code: string; party_id: string }[] = [],
  ) => {
    const discovery = () => (partyId === 'OFF' ? offReply : undefined);
    const partner = await plainPartner({ role, countryCode: 'NL', partyId, others, discovery });
    t.teardown(() => partner.close());
    await partner.register(hub);
    clock.advance(minute);
    return partner;
  };
  reader = await join('EMSP', 'EMS');
  await join('CPO', 'CPO');
  unreachable = await join('CPO', 'OFF');
  leaver = await join('CPO', 'GON');
  await added('CPO', 'NEW');
  clock.advance(minute);
  await join('CPO', 'TW1', [{ role: 'EMSP', country_code: 'BE', party_id: 'TW2' }]);
});

const get = (query = '', partner = reader) => ocpi(hub, 'GET', `${path}${query}`, { token: partner.hubToken });
const infos = ({ json }: OcpiAnswer) => json.data as ClientInfo[];
const named = (answer: OcpiAnswer) => infos(answer).map(({ country_code, party_id }) => `${country_code}-${party_id}`);
/** Every entry, by way of `rel="next"`. */
async function all(query = '', partner = reader): Promise<{ entries: ClientInfo[]; pages: OcpiAnswer[] }> {
  const pages: OcpiAnswer[] = [];
  for (let next: string | undefined = query; next !== undefined; ) {
    const page: OcpiAnswer = await get(next, partner);
    pages.push(page);
    next = linkOf(page, 'next');
  }
  return { entries: pages.flatMap(infos), pages };
}

/** The query of a link. */
function linkOf({ headers }: OcpiAnswer, rel: 'next' | 'prev'): string | undefined {
  const links = String(headers.link ?? '').split(', ');
  const url = links.map((link) => /^<(.*)>; rel="(\w+)"$/.exec(link)).find((match) => match?.[2] === rel)?.[1];
  if (url === undefined) return undefined;
  if (!url.startsWith(`${hub.url}/ocpi${path}?`)) throw new Error(`${url} is not under the public url [D33]`);
  return url.slice(url.indexOf('?'));
}

const everybody = ['NL-EMS', 'NL-CPO', 'NL-OFF', 'NL-GON', 'NL-NEW', 'BE-TW2', 'NL-TW1'];

t.test('an entry has exactly its five fields [D30]', async (t) => {
  const { entries } = await all();
  t.ok(entries.length > 0);
  for (const entry of entries) {
    t.same(Object.keys(entry).sort(), ['country_code', 'last_updated', 'party_id', 'role', 'status']);
  }
  t.same(
    entries.find(({ party_id }) => party_id === 'CPO'),
    { country_code: 'NL', party_id: 'CPO', role: 'CPO', status: 'CONNECTED', last_updated: at(1) },
  );
});

t.test('every caller sees every party, routed or not, one entry per role [D30] [D16]', async (t) => {
  t.same(
    (await all()).entries.map(({ country_code, party_id }) => `${country_code}-${party_id}`),
    everybody,
  );
  const ofCpo = (await all('', unreachable)).entries;
  t.same(
    ofCpo.map(({ country_code, party_id }) => `${country_code}-${party_id}`),
    everybody,
    'a CPO too',
  );
  t.same(
    ofCpo.slice(-2).map(({ role, party_id }) => `${role} ${party_id}`),
    ['EMSP TW2', 'CPO TW1'],
    'a platform has an entry for each of its parties',
  );
});

t.test('a party that never registered is PLANNED [D30]', async (t) => {
  const { entries } = await all();
  t.same(
    entries.filter(({ status }) => status !== 'CONNECTED').map(({ party_id, status }) => `${party_id} ${status}`),
    ['NEW PLANNED'],
  );
});

t.test(
  'a party that its partner leaves out of its credentials is PLANNED until they name it [D30] [D16]',
  async (t) => {
    const other = await hubFor(t);
    const roles = (ids: readonly string[]) => ids.map((party_id) => ({ role: 'CPO', country_code: 'NL', party_id }));
    const others = [{ role: 'CPO', country_code: 'NL', party_id: 'TWO' }] as const;
    const platform = await partnerFor(t, other, { role: 'CPO', countryCode: 'NL', partyId: 'ONE', others });
    const statuses = async () => {
      const { json } = await platform.call('GET', path);
      return (json.data as ClientInfo[]).map(({ party_id, status }) => `${party_id} ${status}`);
    };
    t.same(await statuses(), ['ONE CONNECTED', 'TWO CONNECTED']);
    const put = async (ids: readonly string[]) => {
      const body = { token: platform.token, url: `${platform.url}/ocpi/versions`, roles: roles(ids) };
      const { json } = await platform.call('PUT', '/2.2.1/credentials', body);
      platform.hubToken = (json.data as { token: string }).token;
    };
    await put(['ONE']);
    t.same(await statuses(), ['ONE CONNECTED', 'TWO PLANNED']);
    const { roles: shown, left_out } = await admin(other, 'GET', '/parties/NL-ONE');
    t.match([shown, left_out], [roles(['ONE', 'TWO']), ['NL-TWO']], 'operators see which');
    t.notOk('isUnnamed' in ((shown as object[])[1] ?? {}), 'in the words of the admin API');
    await put(['TWO', 'ONE']);
    t.same(await statuses(), ['ONE CONNECTED', 'TWO CONNECTED']);
    await put(['ONE']);
    await admin(other, 'POST', '/parties/NL-ONE/suspend');
    const reader = await partnerFor(t, other, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
    const infos = (await reader.call('GET', path)).json.data as ClientInfo[];
    t.same(
      infos.filter(({ role }) => role === 'CPO').map(({ status }) => status),
      ['SUSPENDED', 'SUSPENDED'],
    );
  },
);

t.test('pages: default, maximum, counts and links [interface, Pagination] [D31] [D32]', async (t) => {
  const rows: [query: string, names: string[], limit: string][] = [
    ['', everybody.slice(0, 3), '3'],
    ['?limit=2', everybody.slice(0, 2), '2'],
    ['?limit=1000', everybody.slice(0, 4), '4'],
    ['?limit=2&offset=3', everybody.slice(3, 5), '2'],
    ['?offset=6', everybody.slice(6), '3'],
    ['?offset=7', [], '3'],
    ['?offset=1000', [], '3'],
    ['?limit=0', [], '0'],
  ];
  for (const [query, names, limit] of rows) {
    const answer = await get(query);
    t.same(named(answer), names, `names of ${query}`);
    t.equal(answer.headers['x-limit'], limit, `X-Limit of ${query}`);
    t.equal(answer.headers['x-total-count'], '7', `X-Total-Count of ${query}`);
  }
  const middle = await get('?limit=2&offset=2');
  t.match(middle.headers.link, /rel="next".*rel="prev"/, 'next stands before prev');
  t.same(named(await get(linkOf(middle, 'next'))), everybody.slice(4, 6));
  t.same(named(await get(linkOf(middle, 'prev'))), everybody.slice(0, 2));
  t.equal(linkOf(await get(), 'prev'), undefined, 'the first page has no previous one');
  const { pages } = await all('?limit=3');
  t.same(
    pages.map((page) => named(page).length),
    [3, 3, 1],
  );
  t.equal(linkOf(await get('?offset=6'), 'next'), undefined, 'the last page has no next one');
});

t.test('date_from is inclusive, date_to exclusive, and links keep both [interface, Pagination] [D31]', async (t) => {
  const rows: [query: string, names: string[]][] = [
    [`?date_from=${at(1)}&date_to=${at(3)}`, ['NL-CPO', 'NL-OFF']],
    [`?date_from=${at(3)}`, everybody.slice(3)],
    [`?date_to=${at(1)}`, ['NL-EMS']],
    [`?date_from=${at(60)}`, []],
    [`?date_from=${at(1).slice(0, 19)}&date_to=${at(2).slice(0, 19)}`, ['NL-CPO']],
    [`?date_from=2026-03-01T11:01:00%2B01:00&date_to=2026-03-01T11:02:00%2B01:00`, ['NL-CPO']],
  ];
  for (const [query, names] of rows) {
    const { entries, pages } = await all(`${query}&limit=2`);
    t.same(
      entries.map(({ country_code, party_id }) => `${country_code}-${party_id}`),
      names,
      query,
    );
    t.equal(pages[0]?.headers['x-total-count'], String(names.length), `total of ${query}`);
  }
});

t.test('a query that cannot be read is refused by name [D31]', async (t) => {
  const rows: [query: string, message: string][] = [
    ['?limit=-1', 'limit: expected non-negative integer'],
    ['?limit=ten', 'limit: expected non-negative integer'],
    ['?offset=1.5', 'offset: expected non-negative integer'],
    ['?limit=1&limit=2', 'limit: expected one value'],
    ['?date_from=yesterday', 'date_from: expected RFC 3339 date-time'],
    ['?date_to=2026-02-30T00:00:00Z', 'date_to: expected RFC 3339 date-time'],
    ['?cursor=nonsense', 'cursor: expected a cursor taken from a Link header'],
  ];
  for (const [query, message] of rows) refused(t, await get(query), [200, 2001, message], query);
});

t.test('the list needs a hub token [interface, Authentication 1] [D9]', async (t) => {
  const invalidToken: Refused = [401, 2000, 'Invalid token'];
  refused(t, await ocpi(hub, 'GET', path), invalidToken, 'none');
  refused(t, await ocpi(hub, 'GET', path, { token: await added('CPO', 'ZZZ') }), invalidToken, 'an initial one');
});

t.test(
  'a partner that unregisters is SUSPENDED, one that returns CONNECTED, each with its instant [interface, States] [D30]',
  async (t) => {
    const entryOf = async (partyId: string) => (await all()).entries.find(({ party_id }) => party_id === partyId);
    clock.advance(minute);
    const left = new Date(clock.now()).toISOString();
    await leaver.call('DELETE', '/2.2.1/credentials');
    t.match(await entryOf('GON'), { status: 'SUSPENDED', last_updated: left });
    clock.advance(minute);
    const fresh = await admin(hub, 'POST', '/parties/NL-GON/initial-token');
    t.match(await entryOf('GON'), { status: 'SUSPENDED', last_updated: left }, 'a new initial token alone is no news');
    const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'GON' }];
    const body = { token: leaver.token, url: `${leaver.url}/ocpi/versions`, roles };
    await ocpi(hub, 'POST', '/2.2.1/credentials', { token: String(fresh.initial_token), body });
    t.match(await entryOf('GON'), { status: 'CONNECTED', last_updated: new Date(clock.now()).toISOString() });
  },
);

t.test(
  'a partner whose probes keep failing is OFFLINE until one succeeds [interface, What the service does 5] [D30] [D34]',
  async (t) => {
    const { operations } = hub.created.hub;
    const statusOf = async () => (await all()).entries.find(({ party_id }) => party_id === 'OFF')?.status;
    offReply = { status: 500, text: 'ill' };
    t.match(await operations.probe('NL-OFF'), { status: 'unreachable' });
    t.equal(await statusOf(), 'CONNECTED', 'one failure is none');
    clock.advance(minute);
    await operations.probe('NL-OFF');
    t.equal(await statusOf(), 'CONNECTED', 'nor is a minute of them');
    clock.advance(1);
    await operations.probe('NL-OFF');
    await hub.settled();
    t.equal(await statusOf(), 'OFFLINE');
    t.equal((await get('', unreachable)).status, 200, 'its own calls are served all the same');
    t.equal(await statusOf(), 'OFFLINE', 'and prove nothing about reaching it');
    offReply = undefined;
    await operations.probe('NL-OFF');
    await hub.settled();
    t.equal(await statusOf(), 'CONNECTED');
  },
);
