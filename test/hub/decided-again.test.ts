/** An object that another writer of the store changes between a decision and its commit: the change is decided on what stands there then. */
import type { Commit, Store } from '../../storage/contract.ts';
import { locationBody, tariffBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { ended } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

/** Before the next commit of a type, once, the row that it writes first gets another body from elsewhere. */
function elsewhere() {
  let [type, wanted] = ['', ''];
  let written = 0;
  const meddle = async (store: Store, { fence, events, puts = [] }: Commit) => {
    const [event] = events;
    const row = puts[0] && (await store.get(puts[0]));
    if (!event || !row) throw new Error('nothing is stored');
    const put = { ...row, gone: false, body: wanted } as const;
    await store.append({
      fence,
      idem: `elsewhere ${++written}`,
      events: [{ ...event, to: [], body: wanted }],
      puts: [put],
    });
  };
  const wrap = wrapStore((store) => ({
    append: async (commit) => {
      if (commit.events[0]?.type === type) {
        type = '';
        await meddle(store, commit);
      }
      return store.append(commit);
    },
  }));
  return {
    wrap,
    written: () => written,
    writes: (body: object, before: string) => ([wanted, type] = [JSON.stringify(body), before]),
  };
}

async function scene(t: Test) {
  const other = elsewhere();
  const hub = await hubFor(t, {}, { wrap: other.wrap });
  return { hub, other, ...(await routedPair(t, hub)) };
}

t.test('a PATCH is merged into the row that is there when it is written [RECORDER-6]', async (t) => {
  const { cpo, emsp, other } = await scene(t);
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1', { name: 'first', city: 'Utrecht' }));
  other.writes(locationBody('L1', { name: 'first', city: 'Delft' }), 'object.patched');
  const patch = { name: 'second', last_updated: '2026-03-01T00:00:00Z' };
  const { json } = await cpo.call('PATCH', '/2.2.1/locations/NL/CPO/L1', patch);
  t.match([json.status_code, other.written()], [1000, 1]);
  const { json: read } = await emsp.call('GET', '/2.2.1/locations/L1');
  t.match(read.data, { ...patch, city: 'Delft' }, 'neither change is lost');
});

t.test('a resync sends the row that is there when it is written [RECORDER-6]', async (t) => {
  const { hub, cpo, other } = await scene(t);
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1', { currency: 'EUR' }));
  const late = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'LAT' });
  await admin(hub, 'PUT', '/routes/NL-LAT/NL-CPO', { active: true });
  other.writes(tariffBody('T1', { currency: 'SEK' }), 'object.resent');
  const { id } = await admin(hub, 'POST', `/parties/${late.id}/resync`, { module: 'tariffs' });
  await ended(hub, `/redrives/${id}`);
  const sent = (await hub.created.context.store.history('tariffs/NL-CPO/t1')).at(-1);
  t.match([sent?.type, sent?.to, other.written()], ['object.resent', ['NL-LAT'], 1]);
  t.match(JSON.parse(sent?.body ?? ''), { currency: 'SEK' });
});
