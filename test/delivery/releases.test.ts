/**
 * Sessions and CDRs that were kept because nobody was owed them, and what releases them: a rule, the first registration of their eMSP, the
 * same CDR again, a resync. [D63, D83]
 */
import { cdrBody, locationBody } from '../support/bodies.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair, secretKey } from '../support/hub-in-process.ts';
import { arrivals, ended, idsOf, itemsOf, quiet, statusOf } from '../support/observed.ts';
import { admin, eventually, plainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { runCommand } from '../support/resident-command.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { HeldWrites } from './held-writes.ts';
import { at, deliveriesOf, type HubAddress, putSession } from './watched.ts';

const ofEmsp = (partyId: string) => ({
  cdr_token: { country_code: 'NL', party_id: partyId, uid: 'CARD1', type: 'RFID', contract_id: 'C1' },
});
const setRule = (hub: HubAddress, emsp: string, active = true, cpo = 'NL-CPO') =>
  admin(hub, 'PUT', `/routes/${emsp}/${cpo}`, { active });
const keptOf = async (hub: HubAddress) =>
  (await itemsOf(hub, '/stored-not-forwarded')).map(({ object, reason }) => `${object}: ${reason}`).sort();

async function resync(hub: HubAddress, id: string, module: string): Promise<Record<string, unknown>> {
  const { id: job } = await admin(hub, 'POST', `/parties/${id}/resync`, { module });
  return ended(hub, `/redrives/${job}`);
}

t.test(
  'a rule releases the objects kept for its pair, oldest first, as whole objects, and says how many [D63, D83]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub);
    const [late, other] = await Promise.all(
      ['LAT', 'OTH'].map((partyId) => partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId })),
    );
    if (!late || !other) throw new Error('two eMSPs are needed');
    await putSession(cpo, 'S2', { ...ofEmsp('LAT'), last_updated: at(2) });
    await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C1', { ...ofEmsp('LAT'), session_id: 'S1', last_updated: at(5) }));
    await putSession(cpo, 'S1', { ...ofEmsp('LAT'), last_updated: at(1) });
    await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/S1', { kwh: 9, last_updated: at(3) });
    await putSession(cpo, 'S3', { ...ofEmsp('OTH'), last_updated: at(1) });
    await putSession(cpo, 'S4', { cdr_token: null });
    const off = await setRule(hub, 'NL-LAT', false);
    t.match(off, { active: false, released: 0 }, 'a rule that lets nothing pass releases nothing');
    const came = await arrivals(hub, late, async () => {
      t.same(await setRule(hub, 'NL-LAT'), { emsp: 'NL-LAT', cpo: 'NL-CPO', active: true, released: 3 });
    });
    t.same(came.map(({ method, path }) => `${method} ${path.split('/2.2.1')[1]}`).sort(), [
      'POST /cdrs',
      'PUT /sessions/NL/CPO/S1',
      'PUT /sessions/NL/CPO/S2',
    ]);
    const bodyOf = (end: string) => JSON.parse(came.find(({ path }) => path.endsWith(end))?.body ?? '{}') as object;
    t.match(bodyOf('/S1'), { id: 'S1', kwh: 9, status: 'ACTIVE' }, 'the whole as it stands now');
    const places = came.map(({ path }) => path.split('/').at(-1));
    t.ok(places.indexOf('cdrs') > places.indexOf('S1'), 'the CDR came behind its session');
    const resent = (await itemsOf(hub, '/events?type=object.resent')).map(({ object }) => object);
    t.same(resent.sort(), ['NL-CPO/C1', 'NL-CPO/S1', 'NL-CPO/S2']);
    const bySeq = (await deliveriesOf(hub, '?receiver=NL-LAT')).sort((a, b) => a.seq - b.seq);
    t.same(
      bySeq.map(({ object }) => object),
      ['NL-CPO/S2', 'NL-CPO/S1', 'NL-CPO/C1'],
      'sessions oldest first, then CDRs',
    );
    t.same(await keptOf(hub), ['NL-CPO/S3: not routed', 'NL-CPO/S4: cdr_token missing'], 'no other pair');
    t.same(other.received, []);
    t.same(idsOf(await late.call('GET', '/2.2.1/sessions?date_from=2026-01-01T00:00:00Z')), ['S2', 'S1']);
    const patch = '{"kwh": 10.0, "last_updated": "2026-01-02T04:30:00Z"}';
    const [after] = await arrivals(hub, late, () => cpo.call('PATCH', '/2.2.1/sessions/NL/CPO/S1', patch));
    t.match(after, { method: 'PATCH', body: patch }, 'later changes go as they come');
    const again = await arrivals(hub, late, async () => t.match(await setRule(hub, 'NL-LAT'), { released: 0 }));
    t.same(again, [], 'nothing twice');
  },
);

t.test('a change that was decided before a party was registered is decided again, and owed to it', async (t) => {
  const held = new HeldWrites();
  const hub = await hubFor(t, {}, { wrap: held.wrap });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const late = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'LAT' });
  t.teardown(() => late.close());
  const added = await admin(hub, 'POST', '/parties', {
    roles: [{ role: 'EMSP', country_code: 'NL', party_id: 'LAT', business_details: { name: 'Late' } }],
  });
  await setRule(hub, 'NL-LAT');
  const registers = held.hold('partner.registered');
  const registered = late.registerAgain(String(added.initial_token), hub);
  await registers;
  const stores = held.hold('object.put');
  const pushed = cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await stores;
  held.release('partner.registered');
  await registered;
  t.same(idsOf(await late.call('GET', '/2.2.1/locations')), [], 'nobody was told yet that it is stored');
  held.release('object.put');
  await pushed;
  await late.got('the location', ({ path }) => path.endsWith('/locations/NL/CPO/L1'));
});

t.test('a change that was decided before a rule existed is decided again, by that rule', async (t) => {
  const held = new HeldWrites();
  const hub = await hubFor(t, {}, { wrap: held.wrap });
  const { cpo } = await routedPair(t, hub);
  const late = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'LAT' });
  const sets = held.hold('route.set');
  const set = setRule(hub, 'NL-LAT');
  await sets;
  const stores = held.hold('object.put');
  const pushed = putSession(cpo, 'S1', ofEmsp('LAT'));
  await stores;
  held.release('route.set');
  t.match(await set, { released: 0 });
  held.release('object.put');
  await pushed;
  await late.got('the session', ({ path }) => path.endsWith('/sessions/NL/CPO/S1'));
});

t.test('many kept objects are released page by page, in order, while the hub answers [D63]', atLength, async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const late = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'LAT' });
  const ids = Array.from({ length: 330 }, (_, n) => `S${String(n).padStart(4, '0')}`);
  for (let from = 0; from < ids.length; from += 30) {
    await Promise.all(ids.slice(from, from + 30).map((id) => putSession(cpo, id, ofEmsp('LAT'))));
  }
  t.match(await setRule(hub, 'NL-LAT'), { released: ids.length });
  await quiet(hub);
  const order = (await deliveriesOf(hub, '?receiver=NL-LAT')).sort((a, b) => a.seq - b.seq);
  t.same(
    order.map(({ object }) => object),
    ids.map((id) => `NL-CPO/${id}`),
  );
  t.equal(new Set(late.received.map(({ path }) => path)).size, ids.length);
  t.same(await keptOf(hub), []);
});

t.test(
  'the first registration of an eMSP releases the objects kept for it; the second one does not, its rule does [D63, D51]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub);
    const emsp = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'NEW' });
    t.teardown(() => emsp.close());
    await putSession(cpo, 'BEFORE', ofEmsp('NEW'));
    const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'NEW', business_details: { name: 'New' } }];
    const { initial_token } = await admin(hub, 'POST', '/parties', { roles });
    t.match(await setRule(hub, 'NL-NEW'), { released: 0 }, 'nobody is there yet');
    await putSession(cpo, 'S1', ofEmsp('NEW'));
    await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C1', ofEmsp('NEW')));
    await emsp.registerAgain(String(initial_token), hub);
    await quiet(hub);
    t.same(emsp.received.map(({ method, path }) => `${method} ${path.split('/').at(-1)}`).sort(), [
      'POST cdrs',
      'PUT BEFORE',
      'PUT S1',
    ]);
    const releases = await itemsOf(hub, '/events?type=release.ended&party=NL-NEW');
    t.match(releases, [{ data: { released: 3 } }]);
    t.equal(releases.length, 1);
    await admin(hub, 'POST', '/parties/NL-NEW/suspend');
    await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C2', ofEmsp('NEW')));
    const { initial_token: next } = await admin(hub, 'POST', '/parties/NL-NEW/initial-token');
    const second = await arrivals(hub, emsp, () => emsp.registerAgain(String(next)));
    t.same(second, [], 'registering again sends nothing by itself');
    const third = await arrivals(hub, emsp, async () => t.match(await setRule(hub, 'NL-NEW'), { released: 1 }));
    t.match(third, [{ method: 'POST', body: JSON.stringify(cdrBody('C2', ofEmsp('NEW'))) }]);
    t.equal(third.length, 1, 'once');
  },
);

t.test('a release that a kill cuts off goes on at the next start [D63]', atLength, async (t) => {
  const dataDir = directoryFor(t);
  const first = await startChildHub({ dataDir, port: 0, env: { HUB_SECRET_KEY: secretKey } });
  t.teardown(() => first.kill());
  const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsp = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' });
  t.teardown(() => Promise.all([cpo.close(), emsp.close()]));
  await cpo.register(first);
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'EMS', business_details: { name: 'New' } }];
  const { initial_token } = await admin(first, 'POST', '/parties', { roles });
  await setRule(first, 'NL-EMS');
  const ids = Array.from({ length: 450 }, (_, n) => `S${n}`);
  for (let from = 0; from < ids.length; from += 30) {
    await Promise.all(ids.slice(from, from + 30).map((id) => putSession(cpo, id)));
  }
  await emsp.registerAgain(String(initial_token), first);
  await first.kill();
  const second = await hubFor(t, {}, {}, dataDir);
  await eventually('all of it has come', () => new Set(emsp.received.map(({ path }) => path)).size === ids.length);
  await quiet(second);
  const releases = await itemsOf(second, '/events?type=release.ended');
  t.match(releases, [{ data: { partner: 'NL-EMS' } }]);
  t.equal(releases.length, 1);
  const before = emsp.received.length;
  await second.close();
  await quiet(await hubFor(t, {}, {}, dataDir));
  t.equal(emsp.received.length, before, 'what has ended is not released again');
});

t.test(
  'a CDR that differs only in last_updated is a duplicate; one that was never forwarded is decided again [D63]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub);
    const post = (id: string, fields: object) => cpo.call('POST', '/2.2.1/cdrs', cdrBody(id, fields));
    const sent = await arrivals(hub, emsp, async () => {
      t.equal(statusOf(await post('C1', { last_updated: at(1) })), '201/1000');
      const again = await post('C1', { last_updated: at(2) });
      t.equal(statusOf(again), '200/1000');
      t.equal(again.headers.get('location'), `${hub.url}/ocpi/2.2.1/cdrs/C1`);
      t.equal(statusOf(await post('C1', { last_updated: at(3), total_energy: 99 })), '200/2001');
    });
    t.equal(sent.length, 1);
    await setRule(hub, 'NL-EMS', false);
    t.equal(statusOf(await post('C2', {})), '200/1000');
    t.equal(statusOf(await post('C2', {})), '200/1000', 'still owed to nobody');
    t.same(await keptOf(hub), ['NL-CPO/C2: not routed']);
    t.equal(statusOf(await post('C3', ofEmsp('ZZZ'))), '200/1000');
    const late = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'ZZZ' });
    t.teardown(() => late.close());
    await late.register(hub);
    await setRule(hub, 'NL-ZZZ');
    await quiet(hub);
    t.equal(late.received.length, 1, 'it names a pair that is joined now');
    await setRule(hub, 'NL-EMS');
    await quiet(hub);
    t.same(
      emsp.received.map(({ method }) => method),
      ['POST', 'POST'],
    );
  },
);

t.test(
  'a duplicate of a CDR that was kept during a suspension is forwarded, and a resync sends kept objects, too [D63, D83]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub);
    await admin(hub, 'POST', '/parties/NL-EMS/suspend');
    for (const id of ['C1', 'C2']) await cpo.call('POST', '/2.2.1/cdrs', cdrBody(id, { last_updated: at(1) }));
    await putSession(cpo, 'S1');
    const { initial_token } = await admin(hub, 'POST', '/parties/NL-EMS/initial-token');
    await emsp.registerAgain(String(initial_token));
    const body = JSON.stringify(cdrBody('C1', { last_updated: at(2) }));
    const came = await arrivals(hub, emsp, async () => {
      t.equal(statusOf(await cpo.call('POST', '/2.2.1/cdrs', body)), '200/1000');
    });
    t.match(came, [{ method: 'POST', body }]);
    t.equal(came.length, 1, 'once');
    const again = await arrivals(hub, emsp, () => cpo.call('POST', '/2.2.1/cdrs', body));
    t.same(again, [], 'once forwarded it is a duplicate');
    for (const [module, queued] of [
      ['cdrs', 2],
      ['sessions', 1],
    ] as const) {
      const resent = await arrivals(hub, emsp, async () => {
        t.match(await resync(hub, 'NL-EMS', module), { state: 'DONE', queued });
      });
      t.equal(resent.length, queued, module);
    }
    const patch = '{"kwh": 2, "last_updated": "2026-01-02T05:00:00Z"}';
    const [next] = await arrivals(hub, emsp, () => cpo.call('PATCH', '/2.2.1/sessions/NL/CPO/S1', patch));
    t.match(next, { method: 'PATCH', body: patch }, 'the row knows that it was sent');
    const [dead] = await deliveriesOf(hub, '?module=cdrs');
    const redriven = await arrivals(hub, emsp, () =>
      admin(hub, 'POST', `/deliveries/${dead?.id}/redrive`, { force: true }),
    );
    t.equal(redriven.length, 1, 'a re-drive sends it again');
  },
);

t.test('a resync overwrites nothing with the digest of an erased person [RESENDS-6]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  for (const [id, uid] of [
    ['S1', 'CARD-ERASED'],
    ['S2', 'CARD2'],
  ] as const) {
    const cdr_token = { country_code: 'NL', party_id: 'EMS', uid, type: 'RFID', contract_id: `NL-EMS-${uid}` };
    await putSession(cpo, id, { cdr_token });
    await cpo.push('POST', '/2.2.1/cdrs', cdrBody(`C-${id}`, { cdr_token, session_id: id }));
  }
  await quiet(hub);
  await admin(hub, 'POST', '/erase', { uid: 'CARD-ERASED' });
  const came = await arrivals(hub, emsp, async () => {
    for (const module of ['sessions', 'cdrs'])
      t.match(await resync(hub, 'NL-EMS', module), { state: 'DONE', matched: 2, queued: 1, skipped_stale: 1 }, module);
  });
  t.strictSame(
    came.map(({ body }) => (JSON.parse(body) as { id: string }).id),
    ['S2', 'C-S2'],
  );
  const env = { HUB_URL: hub.url, HUB_ADMIN_TOKEN: hub.adminToken };
  const { out } = await runCommand(['parties', 'resync', 'NL-EMS', 'sessions'], env);
  t.match(out, /\n1 skipped: deleted or changed meanwhile, or a person's names in the object were erased\n/);
});

t.test(
  'a resync sends objects that never arrived, even if a person was erased from them since, once [RESENDS-6, D63]',
  async (t) => {
    const hub = await hubFor(t);
    const answers = { reply: (_: Received): Reply => ({}) };
    const { cpo, emsp } = await routedPair(t, hub, { emsp: (received) => answers.reply(received) });
    const refusing = async (work: () => Promise<unknown>) => {
      answers.reply = () => ({ status: 400 });
      await work();
      await quiet(hub);
      answers.reply = () => ({});
    };
    const card = {
      cdr_token: { country_code: 'NL', party_id: 'EMS', uid: 'CARD-ERASED', type: 'RFID', contract_id: 'C1' },
    };
    const ofId = (id: string) => deliveriesOf(hub, `?object=NL-CPO/${id}`);
    await refusing(async () => {
      await putSession(cpo, 'NEVER', card);
      await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C-NEVER', { ...card, session_id: 'NEVER' }));
    });
    await putSession(cpo, 'ONCE', card);
    await putSession(cpo, 'AGAIN', card);
    await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C-AGAIN', { ...card, session_id: 'AGAIN' }));
    await quiet(hub);
    await refusing(async () => {
      await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/ONCE', { kwh: 9, last_updated: at(3) });
      for (const id of ['AGAIN', 'C-AGAIN'])
        for (const { id: delivery } of await ofId(id)) await admin(hub, 'POST', `/deliveries/${delivery}/redrive`);
    });
    await admin(hub, 'POST', '/erase', { uid: 'CARD-ERASED' });
    const plan = await admin(hub, 'POST', '/redrive', { filter: {}, dry_run: true });
    t.match(plan, { matched: 5, stale: 5 }, 'a re-drive brings none of them');
    const came = await arrivals(hub, emsp, async () => {
      t.match(await resync(hub, 'NL-EMS', 'sessions'), { state: 'DONE', matched: 3, queued: 1, skipped_stale: 2 });
      t.match(await resync(hub, 'NL-EMS', 'cdrs'), { state: 'DONE', matched: 2, queued: 1, skipped_stale: 1 });
    });
    t.strictSame(
      came.map(({ body }) => (JSON.parse(body) as { id: string }).id),
      ['NEVER', 'C-NEVER'],
    );
    t.match(came[1]?.body, /"uid":\s*"erased-/);
    for (const module of ['sessions', 'cdrs'])
      t.match(await resync(hub, 'NL-EMS', module), { state: 'DONE', queued: 0 }, `${module}: not again`);
  },
);

t.test('objects kept for a suspended eMSP are listed with their reason until they are sent [D23, D63]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await putSession(cpo, 'SENT');
  await putSession(cpo, 'NONE', ofEmsp('WHO'));
  await quiet(hub);
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await putSession(cpo, 'S1', { last_updated: at(1) });
  await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C1', { last_updated: at(2) }));
  await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/SENT', { kwh: 9, last_updated: at(3) });
  const unsent = 'receiver not registered';
  const all = [`NL-CPO/C1: ${unsent}`, 'NL-CPO/NONE: unknown eMSP', `NL-CPO/S1: ${unsent}`, `NL-CPO/SENT: ${unsent}`];
  t.same(await keptOf(hub), all);
  const ofReason = await itemsOf(hub, `/stored-not-forwarded?limit=1&reason=${encodeURIComponent(unsent)}`);
  t.match(
    ofReason.map(({ module, object, cpo: owner, emsp: of }) => [module, object, owner, of]),
    [
      ['sessions', 'NL-CPO/SENT', 'NL-CPO', 'NL-EMS'],
      ['sessions', 'NL-CPO/S1', 'NL-CPO', 'NL-EMS'],
      ['cdrs', 'NL-CPO/C1', 'NL-CPO', 'NL-EMS'],
    ],
  );
  const { initial_token } = await admin(hub, 'POST', '/parties/NL-EMS/initial-token');
  await emsp.registerAgain(String(initial_token));
  t.same(await keptOf(hub), all, 'registering again sends nothing by itself');
  const list = await emsp.call('GET', '/2.2.1/sessions?date_from=2026-01-01T00:00:00Z');
  t.same(idsOf(list).sort(), ['S1', 'SENT'], 'and its eMSP reads it meanwhile');
  t.match(await setRule(hub, 'NL-EMS'), { released: 3 });
  t.same(await keptOf(hub), ['NL-CPO/NONE: unknown eMSP']);
  t.same(idsOf(await emsp.call('GET', '/2.2.1/sessions?date_from=2026-01-01T00:00:00Z')).sort(), ['S1', 'SENT']);
});

t.test('objects that a pull-only eMSP reads by itself are not listed as kept [D89] [RESENDS-4]', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub);
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await admin(hub, 'PATCH', '/parties/NL-EMS', { pull_only: true });
  await putSession(cpo, 'S1');
  t.same(await keptOf(hub), []);

  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await admin(hub, 'PATCH', '/parties/NL-EMS', { pull_only: false });
  const { initial_token } = await admin(hub, 'POST', '/parties/NL-EMS/initial-token');
  const came = await arrivals(hub, emsp, () => emsp.registerAgain(String(initial_token)));
  t.match(came, [{ method: 'PUT', path: /\/sessions\/NL\/CPO\/S1$/ }], 'it is sent when the eMSP exchanges again');
});

t.test('a release ends when its receiver is suspended [D63, D50]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const late = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'LAT' });
  for (const id of ['S1', 'S2']) await putSession(cpo, id, ofEmsp('LAT'));
  const { recorder, directory } = hub.created.context;
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  // Somebody pushes one of the objects: the release waits for its turn.
  const turn = recorder.inTurn('sessions/NL-CPO/s1', () => gate);
  const set = setRule(hub, 'NL-LAT');
  await eventually('the rule is set', () => directory.isRouted('NL-LAT', 'NL-CPO'));
  await admin(hub, 'GET', '/status');
  await admin(hub, 'POST', '/parties/NL-LAT/suspend');
  open();
  await turn;
  t.match(await set, { released: 0 });
  t.same(await itemsOf(hub, '/events?type=object.resent'), []);
  t.same(late.received, []);
  t.equal((await keptOf(hub)).length, 2, 'both are kept');
});

t.test('a rule that is set again releases objects stored while its eMSP was not registered [D63]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const emsp = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'NEW' });
  t.teardown(() => emsp.close());
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'NEW', business_details: { name: 'New' } }];
  const { initial_token } = await admin(hub, 'POST', '/parties', { roles });
  await setRule(hub, 'NL-NEW');
  await putSession(cpo, 'S1', ofEmsp('NEW'));
  await setRule(hub, 'NL-NEW', false);
  await emsp.registerAgain(String(initial_token), hub);
  await quiet(hub);
  t.same(emsp.received, [], 'no rule joins them');
  const came = await arrivals(hub, emsp, async () => t.match(await setRule(hub, 'NL-NEW'), { released: 1 }));
  t.match(came, [{ method: 'PUT' }]);
  t.equal(came.length, 1, 'once');
  const resent = await itemsOf(hub, '/events?type=object.resent');
  t.match(resent, [{ object: 'NL-CPO/S1', by: 'operator' }]);
  t.equal(resent.length, 1);
});

t.test('a rule that is set while its eMSP registers releases kept objects, as an act of the hub [D63]', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  await putSession(cpo, 'S1', ofEmsp('NEW'));
  const emsp = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'NEW' });
  t.teardown(() => emsp.close());
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'NEW', business_details: { name: 'New' } }];
  const { initial_token } = await admin(hub, 'POST', '/parties', { roles });
  const { recorder } = hub.created.context;
  const record = recorder.record.bind(recorder);
  recorder.record = async (recording) => {
    const isExchange = recording.facts.some(({ event }) => event.type === 'partner.registered');
    if (isExchange) t.match(await setRule(hub, 'NL-NEW'), { released: 0 }, 'nobody is there yet');
    return record(recording);
  };
  await emsp.registerAgain(String(initial_token), hub);
  await hub.settled();
  t.equal(emsp.received.length, 1, 'it has come');
  const resent = await itemsOf(hub, '/events?type=object.resent');
  t.match(resent, [{ object: 'NL-CPO/S1', by: 'hub', parties: ['NL-CPO', 'NL-NEW'] }]);
  t.equal(resent.length, 1, 'once');
  const { steps } = (await admin(hub, 'GET', '/trace/NL-CPO%2FS1')) as { steps: { summary: string }[] };
  t.match(steps.at(-1)?.summary, /was kept for NL-NEW, and was sent when it registered/);
});
