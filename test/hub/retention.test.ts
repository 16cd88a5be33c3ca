/** The log is trimmed when it is old enough, and everything that the hub has and owes goes on. [interface, HUB_EVENTS_KEEP_DAYS] */
import { join } from 'node:path';
import { applyToPartner, type Partner, type PartnerEvent } from '../../src/domain/party.ts';
import { partnerPut } from '../../src/hub/kernel/row-codecs.ts';
import { tariffBody, tokenBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { callsTo, itemsOf, quiet } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength, partOf } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';
import {
  damageRows,
  dayMs,
  days,
  inTime,
  passDays,
  patched,
  type Scene,
  scene,
  storedTexts,
  storeOfEach,
  trimmed,
} from './retention-scene.ts';

t.test('stored objects, registrations and routes outlive their events, through restarts and damage', async (t) => {
  const stage = await scene(t);
  await storeOfEach(stage);
  const before = await storedTexts(stage);
  const { store } = stage.hub.created.context;
  const head = store.head();
  await trimmed(stage);
  t.ok(store.horizon() >= head, `trimmed up to ${store.horizon()}`);
  t.strictSame(await storedTexts(stage), before);

  const page = (await admin(stage.hub, 'GET', '/events?after=3')) as { kept_from: number; items: { seq: number }[] };
  t.equal(page.kept_from, store.horizon() + 1, 'a reader before the horizon gets the first kept sequence');
  t.ok(page.items.every(({ seq }) => seq >= page.kept_from));
  const { steps } = (await admin(stage.hub, 'GET', '/trace/NL-CPO%2FLOC1')) as {
    steps: { type: string; summary: string }[];
  };
  t.match(steps, [{ type: 'object.base', summary: /older than what is kept/ }]);
  await t.rejects(admin(stage.hub, 'GET', '/trace/never'), { message: /older than what is kept/ });

  await stage.restart();
  t.match(stage.hub.created.context.store.health(), { state: 'open', damagedRows: { length: 0 } });
  t.strictSame(await storedTexts(stage), before);

  await stage.hub.close();
  const rows = [
    { kind: 'locations', owner: 'NL-CPO', id: 'loc1' },
    { kind: 'sessions', owner: 'NL-CPO', id: 's1' },
    { kind: 'cdrs', owner: 'NL-CPO', id: 'c1' },
    { kind: 'tariffs', owner: 'NL-CPO', id: 't1' },
    { kind: 'partners', owner: 'NL-EMS', id: 'NL-EMS' },
    { kind: 'routes', owner: 'NL-CPO', id: 'NL-EMS/NL-CPO' },
  ];
  await damageRows(stage.dataDir, rows);
  await stage.restart();
  t.match(stage.hub.created.context.store.health(), { state: 'open', damagedRows: { length: 0 } });
  t.strictSame(await storedTexts(stage), before, 'damaged rows were made again, to the byte');
  t.equal((await itemsOf(stage.hub, '/events?type=row.rebuilt')).length, rows.length);

  stage.emsp.received.splice(0);
  await stage.cpo.call('PATCH', '/2.2.1/locations/NL/CPO/LOC1', patched(30, { name: 'After' }));
  await quiet(stage.hub);
  t.equal(callsTo(stage.emsp, 'locations').length, 1, 'and what comes now is delivered');
  await trimmed(stage);
  const after = await storedTexts(stage);
  await stage.hub.close();
  await damageRows(stage.dataDir, rows.slice(0, 1));
  await stage.restart();
  t.strictSame(await storedTexts(stage), after, 'a base is folded with what came after it into the next one');
  t.match(after[0], /After/);
});

t.test('of initial tokens the newest stay in the log, as many as a partner remembers', async (t) => {
  const stage = await scene(t);
  const { operations } = stage.hub.created.hub;
  for (let n = 0; n < 110; n++) await operations.issueInitialToken('NL-EMS', { requestId: 'R', correlationId: 'C' });
  const { store } = stage.hub.created.context;
  const issued = async () =>
    (await store.history('partner:NL-EMS')).filter(({ type }) => type === 'partner.initialTokenIssued').length;
  t.equal(await issued(), 110);
  const row = async () => {
    const found = await stage.hub.created.context.store.get({ kind: 'partners', owner: 'NL-EMS', id: 'NL-EMS' });
    return found?.data as { spentDigests: string[]; initialTokenDigest: string };
  };
  await trimmed(stage);
  const before = await row();
  t.equal(await issued(), 103);
  t.equal(before.spentDigests.length, 100);
  await stage.hub.close();
  await damageRows(stage.dataDir, [{ kind: 'partners', owner: 'NL-EMS', id: 'NL-EMS' }]);
  await stage.restart();
  t.equal((await itemsOf(stage.hub, '/events?type=row.rebuilt')).length, 1);
  t.strictSame(await row(), before, 'the row that is made again is the same');
});

/** Rotations of the CPO's token, each first used, and made with a change of host; the last one issues the token that the CPO has. */
async function rotate({ hub, cpo }: Scene, count: number): Promise<void> {
  const { recorder, directory, ports } = hub.created.context;
  for (let done = 0; done < count; ) {
    const at = recorder.instant();
    const events: PartnerEvent[] = [];
    let partner = directory.partner('NL-CPO') as Partner;
    for (const upTo = Math.min(done + 100, count); done < upTo; ) {
      done += 1;
      const { url, roles, endpoints, partnerToken, hubTokenDigest } = partner;
      const data = {
        url: url ?? '',
        roles,
        discovered: endpoints.filter(({ source }) => source === 'discovered'),
        hubTokenDigest: ports.secrets.digest(done === count ? cpo.hubToken : `token-${done}`),
        partnerToken: partnerToken ?? '',
        formerDigest: hubTokenDigest ?? '',
        formerUntil: at,
      };
      const made: PartnerEvent[] = [
        { type: 'partner.hostChanged', data: { from: `host-${done}:443`, to: `host-${done + 1}:443` } },
        { type: 'partner.rotated', data },
        { type: 'partner.tokenConfirmed', data: {} },
      ];
      for (const event of made) partner = applyToPartner(partner, event, at);
      events.push(...made);
    }
    const facts = events.map((event) => ({ stream: 'partner:NL-CPO', event, party: 'NL-CPO' }));
    await recorder.recordDirectory({ facts, puts: [partnerPut(partner)], trace: null, at });
  }
}

t.test('of rotations and changes of host the newest stay in the log, as many as a partner’s row needs', async (t) => {
  const stage = await scene(t);
  const count = partOf(20_000);
  await rotate(stage, count);
  const key = { kind: 'partners', owner: 'NL-CPO', id: 'NL-CPO' };
  const row = async () => (await stage.hub.created.context.store.get(key))?.data as Partner;
  const tokens = ({ spentDigests, hubTokenDigest, formerToken, hostChange }: Partner) => {
    return { spentDigests, hubTokenDigest, formerToken, hostChange };
  };
  const counts = async () => {
    const types = (await stage.hub.created.context.store.history('partner:NL-CPO')).map(({ type }) => type);
    const countOf = (kind: string) => types.filter((type) => type === `partner.${kind}`).length;
    return ['rotated', 'tokenConfirmed', 'hostChanged'].map(countOf);
  };
  const before = tokens(await row());
  t.strictSame(await counts(), [count, count, count]);
  await stage.restart();
  const { store } = stage.hub.created.context;
  const head = store.head();
  await passDays(stage, days + 1, async () => store.horizon() >= head);
  t.strictSame(await counts(), [103, 104, 100], '[LOG-COMPACTION-4]');
  const trimmedRow = await row();
  t.strictSame(tokens(trimmedRow), before);
  await stage.hub.close();
  await damageRows(stage.dataDir, [key]);
  await stage.restart();
  t.equal((await itemsOf(stage.hub, '/events?type=row.rebuilt')).length, 1);
  t.strictSame(await row(), trimmedRow, 'the row that is made again is the same [LOG-COMPACTION-1]');
  const kindOf = (n: number) => stage.hub.created.hub.authenticate(`token-${n}`, '127.0.0.1')?.kind ?? null;
  t.strictSame([count - 1, count - 100, count - 101].map(kindOf), ['spent', 'spent', null]);
  t.equal((await stage.cpo.call('GET', '/2.2.1/credentials')).status, 200, 'the hub token is good');
});

t.test(
  '[RETENTION-1] nothing owed is trimmed, however old; [RETENTION-2] dead letters go with their events, and the log counts them',
  async (t) => {
    const stage = await scene(t);
    const other = await partnerFor(t, stage.hub, { role: 'EMSP', countryCode: 'NL', partyId: 'OTH' });
    await admin(stage.hub, 'PUT', '/routes/NL-OTH/NL-CPO', { active: true });
    await storeOfEach(stage);
    await admin(stage.hub, 'PATCH', '/parties/NL-OTH', { paused: true });
    const { store } = stage.hub.created.context;
    const owedFrom = store.head();
    await stage.cpo.call('PATCH', '/2.2.1/locations/NL/CPO/LOC1', patched(40, { name: 'Waits' }));
    await stage.hub.settled();
    t.ok(callsTo(stage.emsp, 'locations').length > 7, 'the other one has it');
    const waiting = (await itemsOf(stage.hub, '/deliveries?receiver=NL-OTH&state=PENDING')) as { seq: number }[];
    t.equal(waiting.length, 1);
    const seq = waiting[0]?.seq ?? 0;
    await passDays(stage, days + 1, async () => store.horizon() >= seq - 1);
    t.equal(store.horizon(), seq - 1, `${seq} is owed, and stays`);
    t.ok(seq > owedFrom);
    stage.clock.advance(3 * dayMs);
    t.equal(store.horizon(), seq - 1);
    const held = async () =>
      ((await admin(stage.hub, 'GET', '/overview')) as { totals: { log_held: unknown } }).totals.log_held;
    const { at: since } = (await store.event(seq)) ?? {};
    t.strictSame(await held(), { since, by: ['NL-OTH'] }, 'operators see who holds the log back, and since when');
    const age = stage.hub.created.hub.operations.vitals().log_held_age_s;
    t.equal(stage.hub.created.hub.operations.vitals().retention_lag_s, 0, 'retention itself is not behind');
    t.strictSame(age, { 'NL-OTH': (stage.clock.now() - Date.parse(since ?? '')) / 1000 });

    await admin(stage.hub, 'PATCH', '/parties/NL-OTH', { paused: false });
    await inTime(stage, 1000, 'it has ended as expired', async () => {
      return (await itemsOf(stage.hub, '/deliveries?receiver=NL-OTH&state=DEAD')).length === 1;
    });
    const party = async () => (await admin(stage.hub, 'GET', '/parties/NL-OTH')) as { queue: { dead: number } };
    t.match(JSON.stringify(await party()), /"dead":1/);
    await passDays(stage, 1, async () => store.horizon() >= seq);
    await inTime(stage, 1000, 'the sweep has told', async () => {
      const told = await itemsOf(stage.hub, '/events?type=log.trimmed');
      return told.some(({ data }) => (data as { dead: Record<string, number> }).dead['NL-OTH'] === 1);
    });
    t.match(JSON.stringify(await party()), /"dead":0/);
    t.strictSame(await itemsOf(stage.hub, '/deliveries?receiver=NL-OTH&state=DEAD'), []);
    t.equal(callsTo(other, 'locations').filter(({ body }) => body.includes('Waits')).length, 0);
    stage.clock.advance(1000);
    t.equal(await held(), null, 'nobody holds the log back any more');
  },
);

t.test('pulls, their quarantine, jobs and backups go with their events, once they have ended', async (t) => {
  const stage = await scene(t, { cpo: ({ method }) => (method === 'GET' ? { body: [{ id: 'no location' }] } : {}) });
  await storeOfEach(stage);
  const { id } = await admin(stage.hub, 'POST', '/parties/NL-CPO/pull/locations', { full: true });
  await stage.hub.settled();
  t.not((await admin(stage.hub, 'GET', `/pulls/${String(id)}`)).state, 'RUNNING', 'the pull has ended');
  const job = await admin(stage.hub, 'POST', '/parties/NL-EMS/resync', { module: 'tariffs' });
  const backup = await admin(stage.hub, 'POST', '/backup', { directory: join(stage.dataDir, '..', 'backup') });
  await inTime(stage, 1000, 'both have ended', async () => {
    const states = [`/redrives/${String(job.id)}`, `/backups/${String(backup.id)}`].map((path) =>
      admin(stage.hub, 'GET', path),
    );
    return (await Promise.all(states)).every(({ state }) => state === 'DONE');
  });
  await quiet(stage.hub);
  t.equal((await itemsOf(stage.hub, '/quarantine')).length, 1);
  await trimmed(stage);
  t.strictSame(await itemsOf(stage.hub, '/quarantine'), []);
  t.strictSame(await itemsOf(stage.hub, '/pulls'), []);
  for (const path of [`/redrives/${String(job.id)}`, `/backups/${String(backup.id)}`]) {
    await t.rejects(admin(stage.hub, 'GET', path), { message: /404/ });
  }
  await stage.restart();
  t.match(stage.hub.created.context.store.health(), { state: 'open', damagedRows: { length: 0 } });
});

t.test('ended commands go with their events; the log is kept for ever when the setting is 0', async (t) => {
  const stage = await scene(t);
  await storeOfEach(stage);
  const command = { response_url: `${stage.emsp.url}/ocpi/result`, session_id: 'S1' };
  await stage.emsp.call('POST', '/2.2.1/commands/STOP_SESSION', command);
  await inTime(stage, 60_000, 'its result is not awaited any more', async () => {
    const [item] = await itemsOf(stage.hub, '/commands');
    return item?.state === 'silent';
  });
  const watches = await itemsOf(stage.hub, '/orphans?state=GRACE');
  t.equal(watches.length, 1, 'the session that was stopped is watched');
  await inTime(stage, 60_000, 'the watch has become a case', async () => {
    return (await itemsOf(stage.hub, '/orphans?state=OPEN')).length === 1;
  });
  await trimmed(stage);
  t.strictSame(await itemsOf(stage.hub, '/commands'), []);
  t.equal((await itemsOf(stage.hub, '/orphans?state=OPEN')).length, 1, 'a case that is open stays, however old');
  await stage.restart();
  const [open] = await itemsOf(stage.hub, '/orphans?state=OPEN');
  await admin(stage.hub, 'POST', `/orphans/${String(open?.id)}/resolve`, { note: 'by hand' });
  await trimmed(stage);
  t.strictSame(await itemsOf(stage.hub, '/orphans'), [], 'once it is resolved it goes');
  await stage.restart();
  t.match(stage.hub.created.context.store.health(), { state: 'open', damagedRows: { length: 0 } });

  const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
  const forever = await hubFor(t, { HUB_EVENTS_KEEP_DAYS: '0' }, { clock }, join(directoryFor(t), 'forever'));
  await routedPair(t, forever);
  clock.advance(4000 * dayMs);
  t.equal(forever.created.context.store.horizon(), 0);
  t.equal(((await admin(forever, 'GET', '/events?limit=1')) as { items: { seq: number }[] }).items[0]?.seq, 1);
});

t.test('rebuilt rows go with their subject, though they are younger', async (t) => {
  const stage = await scene(t);
  await storeOfEach(stage);
  await stage.emsp.call('POST', '/2.2.1/commands/RESERVE_NOW', {
    ...{ response_url: `${stage.emsp.url}/ocpi/result`, token: tokenBody('CARD1'), location_id: 'LOC1' },
    ...{ expiry_date: '2026-01-10T09:00:00Z', reservation_id: 'R1' },
  });
  await inTime(stage, 60_000, 'its result is not awaited any more', async () => {
    const [item] = await itemsOf(stage.hub, '/commands');
    return item?.state === 'silent';
  });
  const [command] = await itemsOf(stage.hub, '/commands');
  const rows = [
    { kind: 'commands', owner: '', id: String(command?.id) },
    { kind: 'reservations:made', owner: 'r1', id: 'NL-EMS/NL-CPO' },
    { kind: 'reservations', owner: 'NL-EMS', id: 'r1' },
  ];
  // More than one piece of a trim.
  for (let n = 0; n < 70; n++) {
    await stage.cpo.call('PATCH', '/2.2.1/locations/NL/CPO/LOC1', patched(n % 60, { name: `Plein ${n}` }));
  }
  await quiet(stage.hub);
  await stage.hub.close();
  await damageRows(stage.dataDir, rows);
  await stage.restart();
  const stored = () => Promise.all(rows.map((row) => stage.hub.created.context.store.get(row)));
  const [one, made, latest] = await stored();
  t.match(one?.data, { reservationId: 'R1' }, 'all were made again');
  t.strictSame(made?.data, { emsp: 'NL-EMS', cpo: 'NL-CPO', command: command?.id });
  t.strictSame(latest?.data, { cpo: 'NL-CPO' });
  await trimmed(stage);
  t.strictSame(await stored(), [null, null, null], 'and ended');
});

t.test(
  'a resync that changes no row leaves the store intact when its events are trimmed [RETENTION-1]',
  atLength,
  async (t) => {
    const stage = await scene(t);
    await storeOfEach(stage);
    const before = await storedTexts(stage);
    for (const module of ['locations', 'sessions']) {
      const { id } = await admin(stage.hub, 'POST', '/parties/NL-EMS/resync', { module });
      await inTime(stage, 1_000, 'the resync ended', async () => {
        return (await admin(stage.hub, 'GET', `/redrives/${String(id)}`)).state === 'DONE';
      });
    }
    await quiet(stage.hub);
    await trimmed(stage);
    const { store } = stage.hub.created.context;
    t.ok((await store.backup(join(directoryFor(t), 'copy'))).events > 0, 'a backup is whole');
    await stage.restart();
    const { state, damagedRows } = stage.hub.created.context.store.health();
    t.strictSame([state, damagedRows], ['open', []]);
    t.strictSame(await storedTexts(stage), before);
  },
);

t.test(
  'the receivers of a deleted tariff are known after its events were trimmed, and after its row was damaged',
  async (t) => {
    const stage = await scene(t);
    await storeOfEach(stage);
    await admin(stage.hub, 'POST', '/parties/NL-EMS/suspend');
    await stage.cpo.call('DELETE', '/2.2.1/tariffs/NL/CPO/T1');
    await trimmed(stage);
    await stage.hub.close();
    await damageRows(stage.dataDir, [{ kind: 'tariffs:ended', owner: 'NL-CPO', id: 't1' }]);
    await stage.restart();
    t.match(
      stage.hub.created.context.store.health(),
      { state: 'open', damagedRows: { length: 0 } },
      'it is made again',
    );
    const { initial_token } = await admin(stage.hub, 'POST', '/parties/NL-EMS/initial-token');
    await stage.emsp.registerAgain(String(initial_token), stage.hub);
    const { id } = await admin(stage.hub, 'POST', '/parties/NL-EMS/resync', { module: 'tariffs' });
    await inTime(stage, 1000, 'the resync ended', async () => {
      return (await admin(stage.hub, 'GET', `/redrives/${String(id)}`)).state === 'DONE';
    });
    await quiet(stage.hub);
    t.match(callsTo(stage.emsp, 'tariffs').at(-1), { method: 'DELETE', path: /T1$/ });
    await trimmed(stage);
    t.strictSame(await stage.hub.created.context.store.history('tariffs/NL-CPO/t1'), [], 'told, nothing of it is kept');
    await stage.restart();
    t.match(stage.hub.created.context.store.health(), { state: 'open', damagedRows: { length: 0 } });
  },
);

t.test('the hub logs that the log was trimmed only after the trim', async (t) => {
  const logged: string[] = [];
  const stage = await scene(t, {
    emsp: ({ path }) => (path.includes('DEAD') ? { status: 400, text: '{"status_code":2001}' } : {}),
    logTo: { write: (line) => void logged.push(line) },
  });
  await storeOfEach(stage);
  await stage.cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/DEAD', tariffBody('DEAD'));
  await quiet(stage.hub);
  const { store } = stage.hub.created.context;
  const isLogged = () => logged.some((line) => line.includes('the log was trimmed'));
  const trim = store.trim.bind(store);
  const early: boolean[] = [];
  Object.assign(store, {
    trim: (of: Parameters<typeof trim>[0]) => {
      early.push(isLogged());
      return trim(of);
    },
  });
  await trimmed(stage);
  t.strictSame(early.slice(0, 1), [false]);
  t.ok(isLogged());
  t.ok(
    logged.some((line) => line.includes('dead letters are trimmed with their expired events')),
    'a piece with dead letters',
  );
});

t.test('a sweep on a node that has lost the log neither reads the outbox nor waits for it', async (t) => {
  const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
  let mayWrite = true;
  let reads = 0;
  const wrap = wrapStore((store) => ({
    held: () => (mayWrite ? store.held() : null),
    floors: () => {
      reads += 1;
      return store.floors();
    },
  }));
  const hub = await hubFor(t, { HUB_EVENTS_KEEP_DAYS: '1' }, { clock, wrap });
  const { cpo } = await routedPair(t, hub);
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1'));
  await quiet(hub);
  mayWrite = false;
  reads = 0;
  clock.advance(2 * dayMs);
  await hub.close();
  t.equal(reads, 0);
});

t.test('the hub closes while the store does not end a trim', async (t) => {
  const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
  let trims = 0;
  const wrap = wrapStore(() => ({
    trim: () => {
      trims += 1;
      return new Promise<void>(() => {});
    },
  }));
  const hub = await hubFor(t, { HUB_EVENTS_KEEP_DAYS: '1' }, { clock, wrap });
  const { cpo } = await routedPair(t, hub);
  await cpo.push('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1'));
  await quiet(hub);
  clock.advance(2 * dayMs);
  await inTime({ clock, hub }, 20_000, 'a trim', async () => trims > 0);
  let isClosed = false;
  void hub.close().then(() => {
    isClosed = true;
  });
  await eventually('the hub is closed', async () => {
    clock.advance(1000);
    return isClosed;
  });
  t.equal(trims, 1);
});
