/** One partner that would fill the disk: it alone is refused, once it has used up its quota of the day. */
import { join } from 'node:path';
import { getHeapStatistics } from 'node:v8';
import { moduleNames } from '../../src/domain/modules.ts';
import { cdrBody, locationBody, sessionBody, tariffBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { itemsOf, statusOf } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';
import { pushLargeSession } from './attacks.ts';
import { attackedHub, victimOf } from './victim.ts';

t.test('large sessions, one after the other (I7)', atLength, async (t) => {
  const hub = await attackedHub(t, { HUB_QUOTA_MB_PER_DAY: '20' });
  const victim = await victimOf(t, hub);
  const attacker = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
  const statuses: string[] = [];
  await victim.during(t, async () => {
    for (let n = 0; n < (isAtLength ? 40 : 12); n++) {
      statuses.push(await pushLargeSession(attacker, `S${n}`));
    }
  });
  const taken = statuses.filter((status) => status === '200/1000').length;
  t.equal(taken, 10, 'each takes 2 MB: its event and its row');
  t.same([...new Set(statuses.slice(taken))], ['429/2901']);
  const read = await attacker.call('GET', '/2.2.1/sessions/NL/BAD/S0');
  t.equal(read.status, 200, 'it still reads what it has stored');
});

t.test('the quota of a day warns, is shown, counts changes, and starts again the next day (I7)', async (t) => {
  const clock = new SimulatedClock('2026-03-01T22:00:00Z');
  const hub = await hubFor(t, { HUB_QUOTA_MB_PER_DAY: '10', HUB_PROBE_INTERVAL_S: '100000' }, { clock });
  const attacker = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
  const other = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'OTH' });
  const warned = () => itemsOf(hub, '/events?type=quota.warned');
  const share = async () => {
    const { text } = await callOnce('GET', `${hub.url}/metrics`, undefined, {
      authorization: `Bearer ${hub.adminToken}`,
    });
    return Number(/^ocpi_hub_partner_load\{partner="NL-BAD",room="day"\} (\S+)$/m.exec(text)?.[1]);
  };
  const path = '/2.2.1/locations/NL/BAD/L1';
  const patch = async () => statusOf(await attacker.call('PATCH', path, { last_updated: '2026-01-02T03:05:00Z' }));
  await attacker.push('PUT', path, locationBody('L1', { party_id: 'BAD', padding: 'x'.repeat(1_000_000) }));
  for (let n = 0; n < 5; n++) t.equal(await patch(), '200/1000');
  t.ok((await share()) > 0.7 && (await share()) < 0.8, 'a fragment counts the object that it changes');
  t.same(await warned(), []);
  t.equal(await patch(), '200/1000');
  await hub.settled();
  t.match((await warned())[0], { parties: ['NL-BAD'], by: 'hub', data: { party: 'NL-BAD', mb: 8, mb_per_day: 10 } });
  for (let n = 0; n < 2; n++) t.equal(await patch(), '200/1000');
  const refused = await attacker.call('PATCH', path, { last_updated: '2026-01-02T03:05:00Z' });
  t.match([statusOf(refused), refused.json.status_message], ['429/2901', 'Quota of the day is used up']);
  t.equal(refused.headers.get('retry-after'), '7200', 'until midnight');
  t.equal((await warned()).length, 1, 'warned of once');
  const body = locationBody('L1', { party_id: 'OTH' });
  t.equal(statusOf(await other.call('PUT', '/2.2.1/locations/NL/OTH/L1', body)), '200/1000', 'others are served');
  clock.advance(2 * 3_600_000);
  t.equal(await patch(), '200/1000', 'as it is the next day');
});

t.test('the events of a party’s refused pushes and authorizations are bounded by its quota (I7)', async (t) => {
  const clock = new SimulatedClock();
  const hub = await hubFor(t, { HUB_QUOTA_MB_PER_DAY: '1' }, { clock });
  const attacker = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
  const answer = () => ({ body: { allowed: 'ALLOWED' } });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS', answer });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-BAD', { active: true });
  /** What comes within a second is recorded together. */
  const recorded = async () => {
    clock.advance(60_000);
    await hub.settled();
  };
  const authorized = async () => {
    const toEmsp = { 'ocpi-to-country-code': 'NL', 'ocpi-to-party-id': 'EMS' };
    const answer = await attacker.call('POST', '/2.2.1/tokens/CARD/authorize', '', toEmsp);
    await recorded();
    return [statusOf(answer), (await itemsOf(hub, '/events?type=token.authorized')).length];
  };
  const refuse = (n: number) =>
    attacker.call('PUT', `/2.2.1/tariffs/NL/BAD/T${n}`, { ...tariffBody('OTHER'), x: '☃'.repeat(60_000) });
  const kept = async () => {
    await recorded();
    const { refused } = (await admin(hub, 'GET', '/parties/NL-BAD/report')) as { refused: { body: string }[] };
    return refused.filter(({ body }) => body.length > 60_000).length;
  };
  t.same(await authorized(), ['200/1000', 1]);
  for (let n = 0; n < 12; n++) t.equal(statusOf(await refuse(n)), '200/2001');
  t.equal(await kept(), 12, 'there was room when they came; it is used up now');
  for (let n = 12; n < 20; n++) t.equal(statusOf(await refuse(n)), '200/2001');
  t.equal(await kept(), 12, 'of further ones the body is left out');
  t.same(await authorized(), ['200/1000', 1], 'a driver is authorized, and nothing is recorded of it');
  t.equal(emsp.received.length, 2);
});

t.test('a party at its limit of objects is refused new ones, it alone, also after a restart (I7)', async (t) => {
  const dataDir = join(t.testdir({}), 'data');
  const lines: string[] = [];
  const logTo = { write: (line: string) => void lines.push(line) };
  const start = () => hubFor(t, { HUB_OBJECTS_PER_PARTY: '10' }, { logTo }, dataDir);
  const hub = await start();
  const full = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
  const other = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'OTH' });
  const put = async (partner: typeof full, id: string, party_id = 'BAD') =>
    statusOf(await partner.call('PUT', `/2.2.1/tariffs/NL/${party_id}/${id}`, { ...tariffBody(id), party_id }));
  const warnings = () => lines.filter((line) => line.includes('a party has most of the objects'));
  for (let n = 0; n < 6; n++) t.equal(await put(full, `T${n}`), '200/1000');
  t.equal(warnings().length, 0);
  for (let n = 6; n < 10; n++) t.equal(await put(full, `T${n}`), '200/1000');
  t.match(warnings(), [/"partyId":"NL-BAD","objects":8,"most":10/], 'warned of');
  t.equal(await put(full, 'T10'), '429/2901');
  t.equal(warnings().length, 1, 'once');
  t.equal(await put(full, 'T9'), '200/1000', 'what it has can be changed');
  t.equal(await put(other, 'T1', 'OTH'), '200/1000', 'others are served');
  t.equal(statusOf(await full.call('DELETE', '/2.2.1/tariffs/NL/BAD/T0')), '200/1000');
  t.equal(await put(full, 'T10'), '200/1000', 'and what it removes makes room');
  await hub.close();
  const again = await start();
  for (const partner of [full, other]) partner.moveTo(again);
  t.equal(await put(full, 'T11'), '200/1000', 'the first push begins the count, and does not wait for it');
  // What is stored while the count runs may be changed ever after, so each is a new one.
  let next = 12;
  await eventually('it is refused again', async () => (await put(full, `T${next++}`)) === '429/2901');
  t.equal(await put(other, 'T2', 'OTH'), '200/1000');
});

t.test('by default the objects of a party take at most a quarter of the heap, as the start says (I7)', async (t) => {
  const mostOf = async (env: Record<string, string>) => {
    const lines: string[] = [];
    const hub = await hubFor(
      t,
      { HUB_LOG_LEVEL: 'info', ...env },
      { logTo: { write: (line) => void lines.push(line) } },
    );
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
    await cpo.push('PUT', '/2.2.1/tariffs/NL/BAD/T1', { ...tariffBody('T1'), party_id: 'BAD' });
    await hub.settled();
    const said = lines.map((line) => JSON.parse(line) as { objectsPerParty?: number });
    const isCounted = 'NL-BAD' in hub.created.hub.operations.vitals().objects;
    return { said: said.find(({ objectsPerParty }) => objectsPerParty !== undefined)?.objectsPerParty, isCounted };
  };
  const most = Math.floor(getHeapStatistics().heap_size_limit / 4 / 256);
  t.strictSame(await mostOf({}), { said: most, isCounted: true });
  t.strictSame(await mostOf({ HUB_OBJECTS_PER_PARTY: '0' }), { said: 0, isCounted: false }, 'no limit');
});

t.test('an object that is stored while its party’s objects are being counted counts once (I7)', async (t) => {
  let stored = () => {};
  let counted = () => {};
  const isStored = new Promise<void>((resolve) => (stored = resolve));
  const isCounted = new Promise<void>((resolve) => (counted = resolve));
  const wrap = wrapStore((store) => ({
    async append(commit) {
      const appended = await store.append(commit);
      if (commit.puts?.some(({ kind }) => kind === 'tariffs')) {
        stored();
        await isCounted;
      }
      return appended;
    },
    async count(kind, owner) {
      if (owner === 'NL-BAD') await isStored;
      const count = await store.count(kind, owner);
      if (owner === 'NL-BAD' && kind === moduleNames.at(-1)) setImmediate(counted);
      return count;
    },
  }));
  const hub = await hubFor(t, { HUB_OBJECTS_PER_PARTY: '2' }, { wrap });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
  const statuses: string[] = [];
  for (const id of ['T1', 'T2', 'T3']) {
    const body = { ...tariffBody(id), party_id: 'BAD' };
    statuses.push(statusOf(await cpo.call('PUT', `/2.2.1/tariffs/NL/BAD/${id}`, body)));
  }
  t.same(statuses, ['200/1000', '200/1000', '429/2901']);
});

t.test(
  'fields that the hub copies out of sessions and CDRs are short, whatever their length in the body (I7)',
  async (t) => {
    const copied: string[] = [];
    const wrap = wrapStore((store) => ({
      append: async (commit) => {
        copied.push(
          JSON.stringify([
            commit.events.map(({ data }) => data),
            (commit.puts ?? []).map((put) => 'data' in put && put.data),
          ]),
        );
        return store.append(commit);
      },
    }));
    const hub = await hubFor(t, {}, { wrap });
    const { cpo, emsp } = await routedPair(t, hub, {});
    const long = 'x'.repeat(20_000);
    const named = (fields: object) => ({ cdr_token: { ...(sessionBody('S').cdr_token as object), ...fields } });
    copied.length = 0;
    await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', {
      ...sessionBody('S1'),
      ...named({ uid: long }),
    });
    await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S2', {
      ...sessionBody('S2'),
      ...named({ party_id: long, country_code: long }),
    });
    await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/S1', { status: long, last_updated: '2026-06-01T00:00:00Z' });
    await cpo.push('POST', '/2.2.1/cdrs', { ...cdrBody('C1'), ...named({ uid: long }) });
    await hub.settled(emsp);
    t.same(copied.filter((text) => text.includes('x'.repeat(300))).length, 0);
    const came = emsp.received.filter(({ body }) => body.includes(long));
    t.same(
      came.map(({ method }) => method).sort(),
      ['PATCH', 'POST', 'PUT'],
      'lengths alone keep nothing from the eMSP [D64]',
    );
    t.match(await itemsOf(hub, '/stored-not-forwarded'), [{ object: 'NL-CPO/S2', reason: 'cdr_token names no party' }]);
  },
);
