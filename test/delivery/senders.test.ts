/**
 * Partners that send to one receiver: the flood of one that the receiver cannot take makes no other one's deliveries late, in memory, in
 * the log and after a restart. Deliveries are counted, and no time is measured; sockets and disk are real.
 */
import { cdrBody, sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { closed, hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin, type PlainPartner, type PlainPartnerOptions, type Received } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import type { Test } from '../support/tap.ts';
import { t } from '../support/tap.ts';
import { Holding, idOf, kwhOf, watchedMemory } from './watched.ts';

const slots = 4;
const env = {
  HUB_DELIVERY_CONCURRENCY: String(slots),
  HUB_RATE_OTHER_PER_MIN: '1000000',
};

const pushed = (cpo: PlainPartner, party_id: string, id: string, fields: object = {}) =>
  cpo.push('PUT', `/2.2.1/sessions/NL/${party_id}/${id}`, sessionBody(id, { party_id, ...fields }));

/** An eMSP, and two CPOs that send to it: NL-CPO floods, NL-SML does not. */
async function scene(t: Test, hub: TestHub, emsp: PlainPartnerOptions['answer'], others: readonly string[] = []) {
  const pair = await routedPair(t, hub, { emsp });
  const roles = others.map((party_id) => ({ country_code: 'NL', party_id, role: 'CPO' as const }));
  const small = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'SML', others: roles });
  for (const id of ['SML', ...others]) await admin(hub, 'PUT', `/routes/NL-EMS/NL-${id}`, { active: true });
  return { flooding: pair.cpo, emsp: pair.emsp, small };
}

/** Lets the receiver take one after the other until nothing is held any more. */
async function releasedOneByOne(hub: TestHub, emsp: PlainPartner, holding: Holding): Promise<void> {
  await hub.settled(emsp);
  while (holding.held.length > 0) {
    holding.releaseOne();
    await hub.settled(emsp);
  }
}

/** Deliveries of the flood that arrived before the last of these. */
function floodBefore(received: readonly Received[], isLast: (id: string) => boolean): number {
  const ids = received.map(idOf);
  return ids.slice(0, ids.findLastIndex(isLast)).filter((id) => id.startsWith('F')).length;
}

t.test('the ready lanes of partners take turns, however many one of them has [LANES-2]', async (t) => {
  const hub = await hubFor(t, env);
  const holding = new Holding();
  const { flooding, emsp, small } = await scene(t, hub, holding.answer);
  for (let n = 0; n < 100; n++) await pushed(flooding, 'CPO', `F${n}`);
  for (let n = 0; n < 10; n++) await pushed(small, 'SML', `S${n}`);
  await releasedOneByOne(hub, emsp, holding);
  await quiet(hub);
  t.equal(emsp.received.length, 110);
  const before = floodBefore(emsp.received, (id) => id.startsWith('S'));
  t.ok(before <= slots + 11, `${before} of 100 arrived before the last of 10`);
});

t.test('parties of one partner share its turns [LANES-2]', async (t) => {
  const hub = await hubFor(t, env);
  const holding = new Holding();
  const others = ['SM1', 'SM2', 'SM3'];
  const { flooding, emsp, small } = await scene(t, hub, holding.answer, others);
  for (let n = 0; n < 30; n++) await pushed(flooding, 'CPO', `F${n}`);
  for (let n = 0; n < 10; n++) for (const party of ['SML', ...others]) await pushed(small, party, `S${party}${n}`);
  await releasedOneByOne(hub, emsp, holding);
  await quiet(hub);
  const after = emsp.received.map(idOf).slice(slots, slots + 40);
  t.equal(after.filter((id) => id.startsWith('F')).length, 20, 'every other one is of the one that has one party');
});

t.test('the forwarding lag of a partner is that of its own deliveries [ADMISSION-7]', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:00:00Z');
  // All partners together have one call in flight: while one of them holds it, all else waits for the hub.
  const hub = await hubFor(t, env, { clock, inFlightMax: 1 });
  const { flooding, emsp, small } = await scene(t, hub, undefined);
  const holding = new Holding();
  const other = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'OTH', answer: holding.answer },
  });
  await admin(hub, 'PUT', '/routes/NL-OTH/NL-CPO', { active: true });
  const cdr_token = { ...(sessionBody('').cdr_token as object), party_id: 'OTH' };
  await pushed(flooding, 'CPO', 'O1', { cdr_token });
  await hub.settled(other);
  await pushed(flooding, 'CPO', 'F1');
  clock.advance(20_000);
  await pushed(small, 'SML', 'S1');
  clock.advance(10);
  await hub.settled(other, emsp);
  const lags = [undefined, 'NL-CPO', 'NL-SML', 'NL-EMS'].map((from) => hub.created.forwardingLagMs(from));
  t.strictSame(lags, [20_010, 20_010, 10, 0]);
  const later = [999, 1].map((ms) => {
    clock.advance(ms);
    return hub.created.forwardingLagMs('NL-SML');
  });
  t.strictSame(later, [10, 1_010], 'it is measured once a second');
  holding.releaseAll();
  await quiet(hub);
});

/** Of a module memory holds 20 deliveries, and of one sender half of that. */
const windowMax = 100;
const start = '2026-01-02T03:00:00Z';
const memory = watchedMemory(t);

const paused = (hub: TestHub, isPaused: boolean) => admin(hub, 'PATCH', '/parties/NL-EMS', { paused: isPaused });

for (const isRestarted of [false, true]) {
  const over = isRestarted ? ', over a restart' : '';
  t.test(
    `a flood that only the log can hold keeps nothing of others there${over} [WINDOW-2]`,
    isRestarted ? atLength : {},
    async (t) => {
      const dir = directoryFor(t);
      const clock = new SimulatedClock(start);
      let hub = await hubFor(t, env, { clock, windowMax }, dir);
      const holding = new Holding();
      const { flooding, emsp, small } = await scene(t, hub, holding.answer);
      await paused(hub, true);
      for (let n = 0; n < 200; n++) await pushed(flooding, 'CPO', `F${n}`);
      t.equal(memory.size(), windowMax / 5 / 2);
      for (let n = 0; n < 5; n++) await pushed(small, 'SML', `S${n}`);
      if (isRestarted) {
        await closed(hub, clock);
        memory.clear();
        hub = await hubFor(t, env, { clock, windowMax }, dir);
        for (const cpo of [flooding, small]) cpo.moveTo(hub);
        // What a restart left in the log is read as far as there is room.
        await hub.settled();
      }
      for (let n = 5; n < 10; n++) await pushed(small, 'SML', `S${n}`);
      await paused(hub, false);
      await releasedOneByOne(hub, emsp, holding);
      const ids = emsp.received.map(idOf);
      t.equal(ids.length, 210, 'all arrive');
      t.equal(new Set(ids).size, 210, 'once');
      const before = floodBefore(emsp.received, (id) => id.startsWith('S'));
      t.ok(before <= slots + 11, `${before} of 200 arrived before the last of 10`);
    },
  );
}

t.test('a CDR waits for its session in the log, and for no flood of another session there', async (t) => {
  const clock = new SimulatedClock(start);
  const hub = await hubFor(t, { ...env, HUB_DELIVERY_CONCURRENCY: '32' }, { clock, windowMax });
  const holding = new Holding();
  const answer = (call: Received) => (call.path.includes('/sessions') ? holding.answer(call) : {});
  const { flooding, emsp, small } = await scene(t, hub, answer);
  const putCdr = (cpo: PlainPartner, party_id: string, session_id: string) =>
    cpo.push('POST', '/2.2.1/cdrs', cdrBody(`C${party_id}`, { party_id, session_id }));
  const cdrs = () => emsp.received.filter(({ path }) => path.includes('/cdrs')).map(({ body }) => JSON.parse(body).id);
  for (let n = 0; n < 30; n++) await pushed(flooding, 'CPO', `F${n}`);
  await putCdr(small, 'SML', 'S0');
  await putCdr(flooding, 'CPO', 'F29');
  await hub.settled(emsp);
  t.same(cdrs(), ['CSML'], 'the clock stands still');
  await releasedOneByOne(hub, emsp, holding);
  t.same(cdrs(), ['CSML'], 'the other one is held as long as a CDR waits');
  clock.advance(10_000);
  await hub.settled();
  t.same(cdrs(), ['CSML', 'CCPO']);
});

t.test(
  'floods of many arrive once and in order, over a restart, and memory has room for each [WINDOW-2] [PROGRESS-2]',
  async (t) => {
    const dir = directoryFor(t);
    const clock = new SimulatedClock(start);
    const [senders, objects, updates, windowMax] = [12, 4, 4, 50];
    let hub = await hubFor(t, env, { clock, windowMax }, dir);
    const { emsp } = await routedPair(t, hub);
    const cpos: (readonly [PlainPartner, string])[] = [];
    for (let n = 0; n < senders; n++) {
      const partyId = `X${String(n).padStart(2, '0')}`;
      cpos.push([await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId }), partyId]);
      await admin(hub, 'PUT', `/routes/NL-EMS/NL-${partyId}`, { active: true });
    }
    await paused(hub, true);
    for (let kwh = 1; kwh <= updates; kwh++) {
      if (kwh === updates / 2) {
        await closed(hub, clock);
        memory.clear();
        hub = await hubFor(t, env, { clock, windowMax }, dir);
        for (const [cpo] of cpos) cpo.moveTo(hub);
      }
      // One after the other: each has a stretch of the log for itself.
      for (const [cpo, party] of cpos)
        for (let n = 0; n < objects; n++) await pushed(cpo, party, `${party}-${n}`, { kwh });
    }
    await hub.settled();
    const [share, held] = [windowMax / 5, memory.size()];
    t.ok(
      held >= senders && held <= share + senders,
      `${held} in memory: of each sender one, beside a share of ${share}`,
    );
    await paused(hub, false);
    await hub.settled();
    const total = senders * objects * updates;
    t.equal(emsp.received.length, total);
    const found = new Map<string, number[]>();
    for (const call of emsp.received) found.set(idOf(call), [...(found.get(idOf(call)) ?? []), kwhOf(call)]);
    const inOrder = Array.from({ length: updates }, (_, n) => n + 1).join();
    t.same(
      [...found].filter(([, kwhs]) => kwhs.join() !== inOrder),
      [],
      'each object in order and once',
    );
  },
);
