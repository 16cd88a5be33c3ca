/** A resync also takes from its receiver what ended while nothing was owed to it. [RESENDS-5] */
import { locationBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { arrivals, ended, quiet } from '../support/observed.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';
import { at, type HubAddress } from './watched.ts';

const suspend = (hub: HubAddress, id: string) => admin(hub, 'POST', `/parties/${id}/suspend`);

async function resume(hub: HubAddress, id: string, partner: PlainPartner): Promise<void> {
  const { initial_token } = await admin(hub, 'POST', `/parties/${id}/initial-token`);
  await partner.registerAgain(String(initial_token), hub);
}

/** What a resync of a module sends to a partner, and the job at its end. */
async function resynced(hub: HubAddress, id: string, partner: PlainPartner, module: string) {
  let job: Record<string, unknown> = {};
  const came = await arrivals(hub, partner, async () => {
    const { id: name } = await admin(hub, 'POST', `/parties/${id}/resync`, { module });
    job = await ended(hub, `/redrives/${name}`);
  });
  const sent = came.map(({ method, path, body }) => ({ line: `${method} ${path.split(`/${module}`)[1]}`, body }));
  return { job, lines: sent.map(({ line }) => line).sort(), sent };
}

const putTariff = (cpo: PlainPartner, id: string, fields: object = {}) =>
  cpo.push('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariffBody(id, fields));
const deleteTariff = (cpo: PlainPartner, id: string) => cpo.push('DELETE', `/2.2.1/tariffs/NL/CPO/${id}`);

t.test(
  'a tariff that was deleted while its receiver was suspended is deleted there by a resync, once [D62]',
  async (t) => {
    const dataDir = directoryFor(t);
    const hub = await hubFor(t, {}, {}, dataDir);
    const { cpo, emsp } = await routedPair(t, hub);
    for (const id of ['KEPT', 'GONE', 'BACK', 'TWICE']) await putTariff(cpo, id);
    await quiet(hub);
    await suspend(hub, 'NL-EMS');
    await putTariff(cpo, 'NEVER-SENT');
    for (const id of ['GONE', 'BACK', 'TWICE', 'NEVER-SENT']) await deleteTariff(cpo, id);
    await putTariff(cpo, 'BACK', { currency: 'SEK' });
    await putTariff(cpo, 'TWICE', { currency: 'SEK' });
    await deleteTariff(cpo, 'TWICE');
    t.same((await cpo.call('DELETE', '/2.2.1/tariffs/NL/CPO/GONE')).status, 404, 'for its owner it is gone');
    await hub.close();
    const next = await hubFor(t, {}, {}, dataDir);
    await resume(next, 'NL-EMS', emsp);
    const first = await resynced(next, 'NL-EMS', emsp, 'tariffs');
    t.same(first.lines, ['DELETE /NL/CPO/GONE', 'DELETE /NL/CPO/TWICE', 'PUT /NL/CPO/BACK', 'PUT /NL/CPO/KEPT']);
    t.match(first.job, { state: 'DONE', matched: 4, queued: 4 });
    const again = await resynced(next, 'NL-EMS', emsp, 'tariffs');
    t.same(again.lines, ['PUT /NL/CPO/BACK', 'PUT /NL/CPO/KEPT'], 'what was deleted there is not deleted again');
    const { steps } = (await admin(next, 'GET', '/trace/NL-CPO%2FGONE')) as { steps: { summary: string }[] };
    t.match(steps.at(-1)?.summary, /^the end of tariffs GONE was sent to NL-EMS/);
  },
);

t.test(
  'a deletion that one receiver still misses delays no other receiver, and a resync needs no rule for it',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub);
    const other = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'OTH' });
    await admin(hub, 'PUT', '/routes/NL-OTH/NL-CPO', { active: true });
    await putTariff(cpo, 'T1');
    await quiet(hub);
    await suspend(hub, 'NL-EMS');
    const came = await arrivals(hub, other, () => deleteTariff(cpo, 'T1'));
    t.match(came, [{ method: 'DELETE' }]);
    t.same((await resynced(hub, 'NL-OTH', other, 'tariffs')).lines, [], 'it was told');
    await admin(hub, 'DELETE', '/routes/NL-EMS/NL-CPO');
    await resume(hub, 'NL-EMS', emsp);
    t.same((await resynced(hub, 'NL-EMS', emsp, 'tariffs')).lines, ['DELETE /NL/CPO/T1']);
  },
);

t.test('a tariff that returns reaches those who have the old one, and so does its deletion', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await putTariff(cpo, 'T1');
  await quiet(hub);
  await suspend(hub, 'NL-EMS');
  await deleteTariff(cpo, 'T1');
  await putTariff(cpo, 'T1', { currency: 'SEK' });
  await resume(hub, 'NL-EMS', emsp);
  await admin(hub, 'DELETE', '/routes/NL-EMS/NL-CPO');
  const came = await arrivals(hub, emsp, () => deleteTariff(cpo, 'T1'));
  t.match(came, [{ method: 'DELETE' }], 'it was sent the tariff once, and no rule joins them');
  t.same((await resynced(hub, 'NL-EMS', emsp, 'tariffs')).lines, [], 'there is nothing left to end');
});

t.test('a location that was hidden meanwhile is hidden at its receiver, without its body [D21]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  for (const id of ['L1', 'L2', 'L3', 'L4']) await cpo.push('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id));
  await quiet(hub);
  await suspend(hub, 'NL-EMS');
  const hidden = { publish: false, last_updated: at(1) };
  await cpo.push('PATCH', '/2.2.1/locations/NL/CPO/L1', hidden);
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L2', locationBody('L2', { ...hidden, name: 'Intern' }));
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L5', locationBody('L5', hidden));
  await cpo.push('PATCH', '/2.2.1/locations/NL/CPO/L3/EVSE1', { status: 'REMOVED', last_updated: at(1) });
  await resume(hub, 'NL-EMS', emsp);
  const { lines, sent, job } = await resynced(hub, 'NL-EMS', emsp, 'locations');
  t.same(lines, ['PATCH /NL/CPO/L1', 'PATCH /NL/CPO/L2', 'PUT /NL/CPO/L3', 'PUT /NL/CPO/L4']);
  t.match(job, { queued: 4 });
  const bodyOf = (line: string) => JSON.parse(sent.find((one) => one.line === line)?.body ?? '{}') as object;
  for (const id of ['L1', 'L2']) t.same(bodyOf(`PATCH /NL/CPO/${id}`), hidden, 'no more than that it is hidden');
  t.match(bodyOf('PUT /NL/CPO/L3'), { evses: [{ uid: 'EVSE1', status: 'REMOVED' }] });
  t.same((await resynced(hub, 'NL-EMS', emsp, 'locations')).lines, ['PUT /NL/CPO/L3', 'PUT /NL/CPO/L4'], 'once');
  const shown = { publish: true, last_updated: at(3) };
  const came = await arrivals(hub, emsp, () => cpo.push('PATCH', '/2.2.1/locations/NL/CPO/L2', shown));
  t.match(came, [{ method: 'PUT' }], 'when it is shown again it comes whole');
  await suspend(hub, 'NL-EMS');
  await cpo.push('PATCH', '/2.2.1/locations/NL/CPO/L2', { publish: false, last_updated: at(4) });
  await resume(hub, 'NL-EMS', emsp);
  await admin(hub, 'DELETE', '/routes/NL-EMS/NL-CPO');
  t.same((await resynced(hub, 'NL-EMS', emsp, 'locations')).lines, [], 'without a rule nothing of it goes there [D21]');
});

t.test('a token that became invalid meanwhile is sent whole to a CPO', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  const path = '/2.2.1/tokens/NL/EMS/CARD1?type=RFID';
  await emsp.push('PUT', path, tokenBody('CARD1'));
  await quiet(hub);
  await suspend(hub, 'NL-CPO');
  await emsp.push('PATCH', path, { valid: false, last_updated: at(1) });
  await resume(hub, 'NL-CPO', cpo);
  const { sent } = await resynced(hub, 'NL-CPO', cpo, 'tokens');
  t.match(JSON.parse(sent[0]?.body ?? '{}'), { uid: 'CARD1', valid: false });
});

t.test('deletions of a full pull without forwarding are left to a resync', async (t) => {
  const hub = await hubFor(t);
  const listed = { body: [tariffBody('T2')], headers: { 'X-Total-Count': '1' } };
  const cpo = await partnerFor(t, hub, {
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'CPO', modules: [['tariffs', 'SENDER']], answer: () => listed },
  });
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  await putTariff(cpo, 'T1');
  await quiet(hub);
  const { id } = await admin(hub, 'POST', '/parties/NL-CPO/pull/tariffs', { full: true });
  t.match(await ended(hub, `/pulls/${id}`), { state: 'DONE', deleted: 1 });
  await quiet(hub);
  t.same((await resynced(hub, 'NL-EMS', emsp, 'tariffs')).lines, ['DELETE /NL/CPO/T1', 'PUT /NL/CPO/T2']);
});
