/** A rotation that moves a partner to another host: seen by operators, and held back until they confirm it. [D73] [D87] */
import type { RunningHub } from '../../src/main.ts';
import { StoreUnavailable } from '../../storage/contract.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { ocpi, type Refused, refused } from '../support/ocpi-call.ts';
import { admin, type PlainPartner, plainPartner } from '../support/plain-partner.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

const credentials = '/2.2.1/credentials';
const quiet = { HUB_PROBE_INTERVAL_S: '1000000' };
const confirming = { ...quiet, HUB_CONFIRM_HOST_CHANGE: 'true' };
const waits: Refused = [200, 3001, 'change of host waits for the hub operator'];
const id = { role: 'CPO' as const, countryCode: 'NL', partyId: 'CPO' };

const hostOf = ({ url }: PlainPartner) => new URL(url).host;

/** A partner, and where a thief of its hub token would move it: another port is another host. */
async function scene(t: Test, env: Record<string, string>, dataDir = directoryFor(t)) {
  const hub = await hubFor(t, env, {}, dataDir);
  const partner = await partnerFor(t, hub, id);
  const elsewhere = await plainPartner(id);
  t.teardown(() => elsewhere.close());
  return { hub, partner, elsewhere, dataDir };
}

/** PUT of the credentials of `at`, with a hub token. */
const put = (hub: RunningHub, token: string, { url, token: own }: PlainPartner) =>
  ocpi(hub, 'PUT', credentials, {
    token,
    body: { token: own, url: `${url}/ocpi/versions`, roles: [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }] },
  });

const party = (hub: RunningHub) => admin(hub, 'GET', '/parties/NL-CPO');

async function countOf(hub: RunningHub, type: string): Promise<number> {
  const { items } = (await admin(hub, 'GET', `/events?type=${type}`)) as { items: object[] };
  return items.length;
}

async function metric(hub: RunningHub, end: string): Promise<string | undefined> {
  const answer = await fetch(`${hub.url}/metrics`, { headers: { Authorization: `Bearer ${hub.adminToken}` } });
  return new RegExp(`host_changes_total\\{end="${end}"\\} (\\d+)`).exec(await answer.text())?.[1];
}

t.test('a change of host is an event, a metric and a matter for operators until they confirm it [D73]', async (t) => {
  const { hub, partner, elsewhere } = await scene(t, quiet);
  t.equal((await put(hub, partner.hubToken, partner)).json.status_code, 1000);
  t.equal((await party(hub)).host_change, null, 'a rotation on the same host is none');
  t.equal((await put(hub, partner.hubToken, elsewhere)).json.status_code, 1000, 'it is made');
  const change = { from: hostOf(partner), to: hostOf(elsewhere), state: 'made' };
  t.match(await party(hub), { url: `${elsewhere.url}/ocpi/versions`, host_change: change });
  t.match((await admin(hub, 'GET', '/overview')) as object, { rows: [{ id: 'NL-CPO', host_change: change }] });
  t.equal(await countOf(hub, 'partner.hostChanged'), 1);
  t.equal(await metric(hub, 'made'), '1');
  t.match(await admin(hub, 'POST', '/parties/NL-CPO/confirm-host', {}), { host_change: null });
  t.equal(await countOf(hub, 'partner.hostConfirmed'), 1);
});

t.test(
  'with HUB_CONFIRM_HOST_CHANGE a PUT to another host changes nothing until an operator confirms it [D87]',
  async (t) => {
    const { hub, partner, elsewhere, dataDir } = await scene(t, confirming);
    const before = await party(hub);
    for (let n = 0; n < 2; n++) refused(t, await put(hub, partner.hubToken, elsewhere), waits, 'a PUT to another host');
    t.equal(elsewhere.asked.length, 0, 'which is not called');
    const change = { from: hostOf(partner), to: hostOf(elsewhere), state: 'waiting' };
    t.match(await party(hub), { url: before.url, endpoints: before.endpoints, host_change: change });
    t.equal(await countOf(hub, 'partner.hostChangeAsked'), 1, 'recorded once');
    t.equal(await countOf(hub, 'partner.rotated'), 0);
    t.equal(await metric(hub, 'waiting'), '2');
    const same = await put(hub, partner.hubToken, partner);
    t.equal(same.json.status_code, 1000, 'a PUT on the same host goes on');
    await hub.close();

    const again = await hubFor(t, confirming, {}, dataDir);
    t.match(await party(again), { host_change: change }, 'it waits through a restart');
    t.match(await admin(again, 'POST', '/parties/NL-CPO/confirm-host', { host: hostOf(elsewhere) }), {
      host_change: { ...change, state: 'confirmed' },
    });
    const third = await plainPartner(id);
    t.teardown(() => third.close());
    t.equal(
      (await put(again, partner.hubToken, elsewhere)).json.status_code,
      1000,
      'the next PUT to it is let through',
    );
    t.match(await party(again), { url: `${elsewhere.url}/ocpi/versions`, host_change: null });
    refused(t, await put(again, partner.hubToken, third), waits, 'one to a third host waits');
    refused(t, await put(again, partner.hubToken, partner), waits, 'and so does one back');
  },
);

t.test('an operator confirms only the host that was requested [D87]', async (t) => {
  const { hub, partner, elsewhere } = await scene(t, confirming);
  const confirm = async (host?: string) => {
    const answer = await fetch(`${hub.url}/admin/v1/parties/NL-CPO/confirm-host`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${hub.adminToken}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(host === undefined ? {} : { host }),
    });
    return answer.status;
  };
  t.equal(await confirm(), 409, 'nothing waits');
  await put(hub, partner.hubToken, elsewhere);
  t.equal(await confirm('thief.example:443'), 409);
  t.equal(await confirm(), 200);
  const third = await plainPartner(id);
  t.teardown(() => third.close());
  refused(t, await put(hub, partner.hubToken, third), waits, 'another host than the confirmed one');
  refused(t, await put(hub, partner.hubToken, elsewhere), waits, 'whose confirmation has gone then');
  const initial = String((await admin(hub, 'POST', '/parties/NL-CPO/initial-token')).initial_token);
  third.moveTo(hub);
  await third.registerAgain(initial);
  t.match(
    await party(hub),
    { url: `${third.url}/ocpi/versions`, host_change: null },
    'an initial token is the word of an operator',
  );
});

t.test('a host is confirmed with its port, in any case of letters [D87]', async (t) => {
  const { hub } = await scene(t, confirming);
  const confirm = (host: string) => admin(hub, 'POST', '/parties/NL-CPO/confirm-host', { host });
  for (const host of ['new.example', 'https://new.example', 'new.example.:443', 'new.example:', ''])
    await t.rejects(confirm(host), /422 .*expected host and port/, host);
  t.equal((await party(hub)).host_change, null, 'nothing is confirmed that no PUT could match');
  t.match(await confirm('New.EXAMPLE:443'), { host_change: { state: 'confirmed', to: 'new.example:443' } });
  t.match(await confirm('new.example:443'), { host_change: { state: 'confirmed', to: 'new.example:443' } });
  t.match(await confirm('other.example:443'), { host_change: { state: 'confirmed', to: 'other.example:443' } });
});

t.test('each change of host that waits counts against the quota of its partner [QUOTA-7]', async (t) => {
  const { hub, partner, elsewhere } = await scene(t, confirming);
  const third = await plainPartner(id);
  t.teardown(() => third.close());
  const used = () => hub.created.hub.operations.vitals().quota['NL-CPO'] ?? 0;
  for (const at of [elsewhere, third, elsewhere]) {
    const before = used();
    refused(t, await put(hub, partner.hubToken, at), waits, 'it waits');
    t.ok(used() > before, `${before} of the day, then ${used()}`);
  }
  t.equal(await countOf(hub, 'partner.hostChangeAsked'), 3, 'each is recorded');
});

t.test('a rotation uses up a confirmation; one that the store refused does not [PARTNER-RECORDER-2]', async (t) => {
  let refusals = 0;
  const wrap = wrapStore((store) => ({
    append: async (commit) => {
      if (refusals === 0 || !commit.events.some(({ type }) => type === 'partner.rotated')) return store.append(commit);
      refusals -= 1;
      throw new StoreUnavailable('no room');
    },
  }));
  const hub = await hubFor(t, confirming, { wrap });
  const partner = await partnerFor(t, hub, id);
  const elsewhere = await plainPartner(id);
  t.teardown(() => elsewhere.close());
  await admin(hub, 'POST', '/parties/NL-CPO/confirm-host', { host: hostOf(elsewhere) });
  refusals = 1;
  t.equal((await put(hub, partner.hubToken, elsewhere)).status, 503);
  t.match(await party(hub), { host_change: { state: 'confirmed' } });
  t.equal(await countOf(hub, 'partner.hostChanged'), 0);
  t.equal(await metric(hub, 'made'), '0');
  t.equal((await put(hub, partner.hubToken, elsewhere)).json.status_code, 1000, 'the partner repeats its request');
  t.match(await party(hub), { url: `${elsewhere.url}/ocpi/versions`, host_change: null });
  t.equal(await metric(hub, 'made'), '1');
});
