/** Operators have names and roles, and every act of theirs is an entry of the audit log. [AUDIT-1 to 3, TOKENS-2] */
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditCheck, AuditEntry } from '../../src/api/audit.ts';
import { dayMs, inTime } from '../hub/retention-scene.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { operatorsFile, tokenOf } from '../support/operators.ts';
import { admin } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

const named = [
  { name: 'vera', role: 'viewer' },
  { name: 'sam', role: 'support' },
  { name: 'olga', role: 'operator' },
  { name: 'ada', role: 'admin' },
];

async function send(hub: TestHub, token: string, method: string, path: string, body?: object) {
  const response = await fetch(`${hub.url}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json().catch(() => null)) as Record<string, unknown> };
}

async function staffed(t: Test, env: Record<string, string> = {}, clock?: SimulatedClock) {
  const place = directoryFor(t);
  const file = operatorsFile(join(place, 'operators.json'), named);
  const dataDir = join(place, 'data');
  const settings = { HUB_OPERATORS_FILE: file, ...env };
  const hub = await hubFor(t, settings, clock ? { clock } : {}, dataDir);
  const as = (name: string) => (method: string, path: string, body?: object) =>
    send(hub, tokenOf(name), method, path, body);
  return { hub, as, file, dataDir, settings };
}

const entriesOf = async (hub: TestHub, query = '') =>
  ((await admin(hub, 'GET', `/audit?limit=1000${query}`)) as { items: AuditEntry[] }).items.reverse();
const checkOf = (hub: TestHub) => admin(hub, 'GET', '/audit/check') as Promise<AuditCheck>;

t.test(
  'three operators act, and the audit log has who, what, why and from where, refused acts included [D91]',
  async (t) => {
    const { hub, as } = await staffed(t);
    await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
    await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    const begun = (await entriesOf(hub)).length;
    const [vera, sam, olga, ada] = ['vera', 'sam', 'olga', 'ada'].map(as);
    const acts = [
      [vera, 'POST', '/parties/NL-EMS/probe', undefined, 403],
      [sam, 'POST', '/parties/NL-EMS/probe?reason=ticket%2012', undefined, 200],
      [sam, 'POST', '/parties/NL-EMS/suspend', { reason: 'just so' }, 403],
      [olga, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true, reason: 'contract 7' }, 200],
      [olga, 'PATCH', '/parties/NL-EMS', { paused: true }, 200],
      [olga, 'PATCH', '/parties/NL-EMS', { pause: true }, 422],
      [olga, 'POST', '/parties/NL-EMS/initial-token', undefined, 403],
      [olga, 'POST', '/parties/NL-EMS/connect', { versions_url: 'http://127.0.0.1:9/versions', token: 'hers' }, 403],
      [ada, 'POST', '/parties/NL-EMS/suspend?reason=it%20left', undefined, 200],
      [ada, 'POST', '/parties/NL-EMS/initial-token', { reason: 'it is back' }, 201],
      [ada, 'DELETE', '/redrives/none', undefined, 404],
    ] as const;
    for (const [act, method, path, body, status] of acts) {
      const met = await act?.(method, path, body);
      t.equal(met?.status, status, `${method} ${path}: ${JSON.stringify(met?.body)}`);
    }
    const entries = (await entriesOf(hub)).slice(begun);
    t.match(
      entries.map(({ operator, role, verb, about, reason, status }) => [operator, role, verb, about, reason, status]),
      [
        ['vera', 'viewer', 'POST /parties/{id}/probe', '/parties/NL-EMS/probe', null, 403],
        ['sam', 'support', 'POST /parties/{id}/probe', '/parties/NL-EMS/probe', 'ticket 12', 200],
        ['sam', 'support', 'POST /parties/{id}/suspend', '/parties/NL-EMS/suspend', null, 403],
        ['olga', 'operator', 'PUT /routes/{emsp}/{cpo}', '/routes/NL-EMS/NL-CPO', 'contract 7', 200],
        ['olga', 'operator', 'PATCH /parties/{id}', '/parties/NL-EMS', null, 200],
        ['olga', 'operator', 'PATCH /parties/{id}', '/parties/NL-EMS', null, 422],
        ['olga', 'operator', 'POST /parties/{id}/initial-token', '/parties/NL-EMS/initial-token', null, 403],
        ['olga', 'operator', 'POST /parties/{id}/connect', '/parties/NL-EMS/connect', null, 403],
        ['ada', 'admin', 'POST /parties/{id}/suspend', '/parties/NL-EMS/suspend', 'it left', 200],
        ['ada', 'admin', 'POST /parties/{id}/initial-token', '/parties/NL-EMS/initial-token', 'it is back', 201],
        ['ada', 'admin', 'DELETE /redrives/{id}', '/redrives/none', null, 404],
      ],
    );
    t.ok(entries.every(({ address }) => address === '127.0.0.1'));
    t.same(await entriesOf(hub, '&operator=sam').then(({ length }) => length), 2, 'filtered by name');
    t.same(await entriesOf(hub, '&verb=suspend&about=nl-ems').then(({ length }) => length), 2, 'by verb and path');
    t.match(await itemsOf(hub, '/events?type=route.set'), [{ by: 'operator', who: 'olga' }], 'the fact says who');
    t.match(await itemsOf(hub, '/events?type=partner.suspended'), [{ by: 'operator', who: 'ada' }]);
    t.notMatch(
      JSON.stringify(await itemsOf(hub, '/events?type=audit')),
      /127\.0\.0\.1|it left/,
      'for its readers alone',
    );
    t.match(await checkOf(hub), { broken: null, last: begun + acts.length });
    t.equal((await as('olga')('GET', '/audit')).status, 403, 'an admin alone reads it');
    t.same((await as('sam')('GET', '/caller')).body, { name: 'sam', role: 'support' });
  },
);

t.test('reading a body is audited, reading anything else is not', async (t) => {
  const { hub, as } = await staffed(t);
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const begun = (await entriesOf(hub)).length;
  for (const path of ['/status', '/parties', '/parties/NL-CPO', '/events', '/trace/NL-CPO/S1'])
    await as('vera')('GET', path);
  t.equal((await entriesOf(hub)).length, begun);
  await as('vera')('GET', '/parties/NL-CPO/report');
  t.match((await entriesOf(hub)).slice(begun), [{ operator: 'vera', verb: 'GET /parties/{id}/report', status: 200 }]);
});

t.test('[AUDIT-4] repeated reads by one page are one audited reading in 15 minutes', async (t) => {
  const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
  const { hub, as } = await staffed(t, {}, clock);
  await as('ada')('POST', '/parties', { roles: [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }] });
  const read = async (name: string, id: string) => {
    for (let n = 0; n < 3; n += 1) await as(name)('GET', `/parties/${id}/report`);
    return (await entriesOf(hub, '&verb=report')).length;
  };
  t.equal(await read('vera', 'NL-CPO'), 1);
  t.equal(await read('vera', 'NL-XXX'), 2, 'something else, refused');
  t.equal(await read('sam', 'NL-CPO'), 3, 'another operator');
  clock.advance(15 * 60_000 - 1);
  t.equal(await read('vera', 'NL-CPO'), 3);
  clock.advance(1);
  t.equal(await read('vera', 'NL-CPO'), 4);
  t.match(await checkOf(hub), { broken: null });
});

t.test('[AUDIT-2] a removed or changed audit entry is detected, also after a restart', async (t) => {
  const { hub, as, dataDir, settings } = await staffed(t);
  for (let n = 0; n < 6; n += 1) await as('olga')('PUT', `/routes/NL-E${n}0/NL-CPO`, { active: true });
  t.match(await checkOf(hub), { entries: 6, first: 1, last: 6, broken: null });
  const { recorder, store } = hub.created.context;
  const keyOf = (n: number) => ({ kind: 'audit', owner: '', id: String(n).padStart(12, '0') });
  const tamper = async (n: number, change: object | null) => {
    const row = await store.get(keyOf(n));
    const put =
      change === null ? { ...keyOf(n), gone: true as const } : { ...keyOf(n), shelf: 'audit', upd: row?.upd ?? '' };
    const data = { ...(row?.data as object), ...change };
    const puts = [change === null ? put : { ...put, data, body: null }] as Parameters<
      typeof recorder.record
    >[0]['puts'];
    const event = { type: 'release.ended', data: { partner: 'NL-XXX', released: 0 } } as const;
    await recorder.record({
      facts: [{ stream: 'x', event, party: null }],
      ...(puts && { puts }),
      trace: null,
      at: recorder.instant(),
    });
    return row;
  };
  const third = await tamper(3, { operator: 'nobody' });
  t.match(await checkOf(hub), { broken: { n: 3, reason: 'changed' } });
  await tamper(3, third?.data as object);
  t.match(await checkOf(hub), { broken: null });
  await tamper(6, null);
  t.match(await checkOf(hub), { broken: { n: 6, reason: 'missing' } }, 'the last one');
  await as('olga')('DELETE', '/routes/NL-E00/NL-CPO');
  t.match(await checkOf(hub), { broken: { n: 6, reason: 'missing' } }, 'its number is not given again');
  await tamper(1, null);
  t.match(await checkOf(hub), { broken: { n: 1, reason: 'missing' } }, 'the first one');
  await hub.close();
  const again = await hubFor(t, settings, {}, dataDir);
  t.match(await checkOf(again), { broken: { n: 1, reason: 'missing' } });
});

t.test('[AUDIT-2] writes and removals during a verification cause no missing entries', async (t) => {
  const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
  const acts: (() => Promise<unknown>)[] = [];
  // As of a database, whose scan is several reads: here of one row each.
  const wrap = wrapStore((store) => ({
    async *scan(...of) {
      for await (const row of store.scan(...of)) {
        if (await store.get(row)) yield row;
        if (of[0] === 'audit') await acts.shift()?.();
      }
    },
  }));
  const hub = await hubFor(t, { HUB_AUDIT_KEEP_DAYS: '20' }, { clock, wrap });
  const note = () => admin(hub, 'POST', '/parties', { roles: [] }).catch(() => null);
  for (let n = 0; n < 3; n += 1) await note();
  acts.push(note, note);
  t.match(await checkOf(hub), { entries: 5, first: 1, last: 5, broken: null }, 'they are looked at, too');
  clock.advance(15 * dayMs);
  await note();
  acts.push(async () => {
    clock.advance(6 * dayMs);
    await inTime({ clock, hub }, 20_000, 'a sweep', async () => (await entriesOf(hub)).length < 6);
  });
  t.match(await checkOf(hub), { last: 7, broken: null }, 'entries 1 to 5 are gone');
  t.match(await checkOf(hub), { entries: 2, first: 6, last: 7, broken: null });
});

t.test(
  '[AUDIT-3] audit entries outlive the log and expire after their own time, and the expiry is audited',
  async (t) => {
    const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
    const { hub, as } = await staffed(t, { HUB_EVENTS_KEEP_DAYS: '2', HUB_AUDIT_KEEP_DAYS: '20' }, clock);
    const pass = async (days: number, done: () => Promise<boolean>) => {
      clock.advance(days * dayMs);
      await inTime({ clock, hub }, 20_000, 'a sweep', done);
    };
    for (let n = 0; n < 3; n += 1) await as('olga')('PUT', `/routes/NL-E${n}0/NL-CPO`, { active: true });
    await pass(5, async () => (await itemsOf(hub, '/events?type=log.trimmed')).length > 0);
    t.match(await itemsOf(hub, '/events?type=log.trimmed'), [{}], 'the log was trimmed');
    t.match(await checkOf(hub), { entries: 3, first: 1, broken: null });
    await as('ada')('DELETE', '/routes/NL-E00/NL-CPO');
    await pass(16, async () => (await checkOf(hub)).first !== 1);
    t.match(await checkOf(hub), { entries: 2, first: 4, last: 5, broken: null });
    t.match((await entriesOf(hub)).at(-1), { operator: 'hub', role: null, about: 'entries 1 to 3' });
  },
);

t.test('HUB_REQUIRE_REASON=true: no act without a reason [D91]', async (t) => {
  const { as, hub } = await staffed(t, { HUB_REQUIRE_REASON: 'true' });
  const olga = as('olga');
  t.match(await olga('PUT', '/routes/NL-EMS/NL-CPO', { active: true }), { status: 422, body: { detail: /^reason: / } });
  t.equal((await olga('PUT', '/routes/NL-EMS/NL-CPO', { active: true, reason: ' ' })).status, 422, 'blanks are none');
  t.equal((await olga('PUT', '/routes/NL-EMS/NL-CPO', { active: true, reason: 'x'.repeat(501) })).status, 422);
  t.equal(
    (await olga('PUT', '/routes/NL-EMS/NL-CPO', { active: true, reason: 'x' })).status,
    404,
    'the pair is not known',
  );
  t.equal((await olga('DELETE', '/routes/NL-EMS/NL-CPO?reason=x')).status, 404);
  t.equal((await olga('GET', '/routes')).status, 200, 'reading needs none');
  t.same(
    (await entriesOf(hub)).map(({ status }) => status),
    [422, 422, 422, 404, 404],
  );
});

t.test(
  '[TOKENS-2] a token expires, works from its networks alone, and the operators file can be re-read',
  async (t) => {
    const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
    const { hub, as, file } = await staffed(t, {}, clock);
    const statusOf = async (name: string) => (await as(name)('GET', '/caller')).status;
    operatorsFile(file, [
      { name: 'vera', role: 'admin', expires_at: '2026-01-10T09:00:00Z' },
      { name: 'near', role: 'viewer', networks: ['127.0.0.0/8'] },
      { name: 'far', role: 'viewer', networks: ['192.0.2.0/24'] },
    ]);
    t.equal(await statusOf('near'), 401, 'not read yet');
    t.equal(hub.reloadOperators(), 3);
    t.same(await Promise.all(['vera', 'near', 'far', 'sam'].map(statusOf)), [200, 200, 401, 401]);
    clock.advance(3_600_000);
    t.equal(await statusOf('vera'), 401, 'it has ended');
    chmodSync(file, 0o644);
    t.throws(() => hub.reloadOperators(), { message: /others may read or write it/ });
    t.equal(await statusOf('near'), 200, 'those in use stay [OPERATORS-1]');
  },
);

t.test('[OPERATORS-1] an operators file that is not valid stops the start with the reason', async (t) => {
  const place = directoryFor(t);
  const path = join(place, 'operators.json');
  const twice = [named[0], named[0]].map((one) => one ?? { name: '', role: '' });
  const refused: readonly (readonly [string, () => void, RegExp])[] = [
    ['readable by others', () => operatorsFile(path, named, 0o644), /chmod 600/],
    ['an unknown role', () => operatorsFile(path, [{ name: 'a', role: 'king' }]), /operators\.0\.role/],
    ['a name of the hub', () => operatorsFile(path, [{ name: 'admin', role: 'viewer' }]), /taken by the hub/],
    ['a name twice', () => operatorsFile(path, twice), /stands twice/],
    ['no network', () => operatorsFile(path, [{ name: 'a', role: 'viewer', networks: ['x'] }]), /network/],
  ];
  for (const [what, write, reason] of refused) {
    write();
    chmodSync(path, what === 'readable by others' ? 0o644 : 0o600);
    await t.rejects(hubFor(t, { HUB_OPERATORS_FILE: path }), { name: 'ConfigError', message: reason }, what);
  }
  await t.rejects(hubFor(t, { HUB_OPERATORS_FILE: join(place, 'none') }), { message: /HUB_OPERATORS_FILE/ });
});
