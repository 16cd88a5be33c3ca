/** A person's data is exported whole, and erased from everything that the hub keeps, while lists, deliveries and the log hold. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { impersonalKinds, otherKinds } from '../../src/hub/maintain/person-search.ts';
import { rowKinds } from '../../src/hub/maintain/row-rebuild.ts';
import { restoreBackup, verifyStore } from '../../storage/level/restore.ts';
import { adminToken, longer, startNodes } from '../cluster/nodes.ts';
import { HeldWrites } from '../delivery/held-writes.ts';
import { Holding } from '../delivery/watched.ts';
import { cdrBody, locationBody, sessionBody, tokenBody } from '../support/bodies.ts';
import type { HubAddress } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { closed, hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { ended, idsOf, itemsOf, quiet, statusOf } from '../support/observed.ts';
import { admin, type PlainPartner, type PlainPartnerOptions } from '../support/plain-partner.ts';
import { newSchema, type PostgresServer, sharedPostgres } from '../support/postgres.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { blocksOf } from '../support/table-blocks.ts';
import { type Test, t } from '../support/tap.ts';
import { dayMs, inTime } from './retention-scene.ts';

const [uid, contract, visual] = ['04A1B2C3D4E5F6', 'NL-EMS-C7777777-9', 'EMS 7777 7777'];
const [otherUid, otherContract] = ['04FFEEDDCCBBAA', 'NL-EMS-C8888888-1'];
const names = [uid, contract, visual];

const tokenOf = (of: string, contract_id: string, fields: object = {}) => tokenBody(of, { contract_id, ...fields });
const cdrToken = (of: string, contract_id: string) => ({
  cdr_token: { country_code: 'NL', party_id: 'EMS', uid: of, type: 'RFID', contract_id },
});

/** Everything below a directory, tables decompressed, in one case. */
function filesOf(directory: string): { name: string; text: string }[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => {
      const path = join(parentPath, name);
      const parts = name.endsWith('.ldb') ? blocksOf(path) : [readFileSync(path)];
      return { name, text: Buffer.concat(parts).toString('latin1').toLowerCase() };
    });
}

const namesIn = (directory: string, wanted: readonly string[]): string[] =>
  filesOf(directory).flatMap(({ name, text }) =>
    wanted.filter((each) => text.includes(each.toLowerCase())).map((each) => `${each} in ${name}`),
  );

interface Scene {
  readonly dataDir: string;
  readonly hub: TestHub;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
}

/** Two persons: each has a token, a session that was patched, a CDR, an authorization and a command. */
async function scene(t: Test, cpoAnswers: PlainPartnerOptions['answer'] = () => ({})): Promise<Scene> {
  const dataDir = join(directoryFor(t), 'data');
  const hub = await hubFor(t, {}, {}, dataDir);
  return { dataDir, hub, ...(await twoPersons(t, hub, cpoAnswers)) };
}

async function twoPersons(t: Test, hub: HubAddress | TestHub, cpoAnswers: PlainPartnerOptions['answer'] = () => ({})) {
  const { cpo, emsp } = await routedPair(t, hub, {
    cpo: (request) => {
      if (request.path.includes('START_SESSION')) return { body: { result: 'REJECTED', timeout: 30 } };
      // An error page that says what was sent to it: a dead letter.
      if (request.method !== 'PATCH') return cpoAnswers(request);
      const isFirst = request.path.includes(uid);
      return { status: 400, text: `{"oops":"${isFirst ? `${uid} of ${contract}` : 'another'}"}` };
    },
    emsp: ({ path }) => (path.includes('/authorize') ? { body: { allowed: 'ALLOWED' } } : {}),
  });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  for (const [of, at, n] of [
    [uid, contract, 1],
    [otherUid, otherContract, 2],
  ] as const) {
    const visual_number = n === 1 ? visual : 'EMS 8888 8888';
    await emsp.push('PUT', `/2.2.1/tokens/NL/EMS/${of}`, tokenOf(of, at, { visual_number }));
    await emsp.push('PATCH', `/2.2.1/tokens/NL/EMS/${of}`, { valid: true, last_updated: '2026-01-03T00:00:00Z' });
    await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/S${n}`, sessionBody(`S${n}`, cdrToken(of, at)));
    await cpo.push('POST', '/2.2.1/cdrs', cdrBody(`C${n}`, { session_id: `S${n}`, ...cdrToken(of.toLowerCase(), at) }));
    await cpo.push('POST', `/2.2.1/tokens/${of}/authorize?type=RFID`, {}, toEmsp);
    const start = { response_url: `${emsp.url}/result`, token: tokenOf(of, at), location_id: 'LOC1' };
    await emsp.push('POST', '/2.2.1/commands/START_SESSION', start, toCpo);
  }
  await quiet(hub);
  return { cpo, emsp };
}

const toEmsp = { 'ocpi-to-country-code': 'NL', 'ocpi-to-party-id': 'EMS' };
const toCpo = { 'ocpi-to-country-code': 'NL', 'ocpi-to-party-id': 'CPO' };

const erase = (hub: HubAddress, body: object) => admin(hub, 'POST', '/erase', body) as Promise<Record<string, unknown>>;

t.test(
  '[PERSONS-1, PERSONS-2, LEVEL-REWRITE-3] no file on the disk names an erased person, and everything else is intact',
  async (t) => {
    const { dataDir, hub, cpo, emsp } = await scene(t);
    t.ok(namesIn(dataDir, names).length >= names.length, 'before, the files name the person');
    const before = await lists({ cpo, emsp });
    const planned = await erase(hub, { uid, dry_run: true });
    t.match(planned, { state: 'PLANNED', tokens: 1, pending: 0 });
    t.ok(namesIn(dataDir, names).length > 0, 'a dry run changes nothing');

    const done = await erase(hub, { uid: uid.toLowerCase() });
    t.match(done, { state: 'DONE', tokens: 1, pending: 0, until_restart: [] });
    t.ok(Number(done.events) >= 6 && Number(done.rows) >= 4, JSON.stringify(done));
    t.equal((done.digests as string[]).length, 3);
    t.strictSame(namesIn(dataDir, names), []);
    t.ok(namesIn(dataDir, [otherUid, otherContract]).length > 0, 'another person stays');

    const after = await lists({ cpo, emsp });
    t.strictSame(after.sessions, before.sessions);
    t.strictSame(after.cdrs, before.cdrs);
    t.strictSame(after.tokens, [otherUid], 'the CPO gets the token no more');
    const session = await emsp.call('GET', '/2.2.1/sessions?date_from=2020-01-01T00:00:00Z');
    t.match(session.text, (done.digests as string[])[0], 'a digest in its place');
    t.equal(JSON.parse(session.text).data[0].kwh, 1.5);
    const again = await erase(hub, { uid });
    t.match(again, { events: 0, rows: 0, tokens: 0 });
    t.strictSame(namesIn(dataDir, names), []);

    await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/S1', { status: 'COMPLETED', last_updated: '2026-01-04T00:00:00Z' });
    await hub.close();
    const report = await verifyStore(dataDir);
    t.strictSame([report.faults, report.repairs], [[], []], 'the verification of the log holds');
    const restarted = await hubFor(t, {}, {}, dataDir);
    for (const partner of [cpo, emsp]) partner.moveTo(restarted);
    t.strictSame((await lists({ cpo, emsp })).tokens, [otherUid]);
    const backup = join(directoryFor(t), 'backup');
    await admin(restarted, 'POST', '/backup', { directory: backup });
    await quiet(restarted);
    t.strictSame(namesIn(dataDir, names), []);
    t.strictSame(namesIn(backup, names), [], 'nor does the next backup');
  },
);

/** The uid in the names of rows: in the heads of events and in the keys of rows. */
const keysOf = [`"r-${uid}"`, `"nl-cpo","${uid}"`, `"nl-cpo","s-${uid}"`];

/** Verifies a copy of the store, as the next backup. */
async function backedUp(t: Test, hub: HubAddress): Promise<string> {
  const backup = join(directoryFor(t), 'backup');
  const { id } = await admin(hub, 'POST', '/backup', { directory: backup });
  t.match(await ended(hub, `/backups/${String(id)}`), { state: 'DONE', error: null });
  return backup;
}

/** Commands that a callback ended, and a CDR of somebody else's token for a session with the uid in its id. */
async function ranCommands(t: Test, hub: TestHub | HubAddress): Promise<void> {
  const { cpo, emsp } = await routedPair(t, hub, {
    cpo: ({ path }) => (path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 30 } } : {}),
  });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  await emsp.push('PUT', `/2.2.1/tokens/NL/EMS/${uid}`, tokenOf(uid, contract));
  const token = tokenOf(uid, contract);
  const response_url = `${emsp.url}/result`;
  const start = { response_url, token, location_id: 'LOC1', authorization_reference: `R-${uid}` };
  const reserve = { ...start, reservation_id: `R-${uid}`, expiry_date: '2026-01-05T00:00:00Z' };
  for (const [command, body] of [
    ['START_SESSION', start],
    ['RESERVE_NOW', reserve],
  ] as const) {
    await emsp.push('POST', `/2.2.1/commands/${command}`, body, toCpo);
    const sent = cpo.received.findLast(({ path }) => path.endsWith(command));
    const url = new URL((JSON.parse(sent?.body ?? '{}') as { response_url: string }).response_url);
    await cpo.push('POST', url.pathname.slice(url.pathname.indexOf('/2.2.1')), { result: 'ACCEPTED' });
  }
  await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/S-${uid}`, sessionBody(`S-${uid}`, cdrToken(uid, contract)));
  await cpo.push(
    'POST',
    '/2.2.1/cdrs',
    cdrBody('C9', { session_id: `S-${uid}`, ...cdrToken(otherUid, otherContract) }),
  );
  await quiet(hub);
}

t.test('[PERSON-SEARCH-4] every kind of row is searched unless it names no person', async (t) => {
  for (const kind of impersonalKinds) t.ok(rowKinds.includes(kind), kind);
  t.strictSame([...otherKinds].sort(), [
    ...['commands', 'conditions', 'jobs', 'orphans', 'pulls', 'pulls:last', 'quarantine', 'refused', 'reports'],
    ...['reservations', 'reservations:made', 'starts:reference', 'starts:uid', 'triage', 'views'],
  ]);
});

/** Every row of every table of a schema, as the database tells it. */
async function rowsIn(server: PostgresServer, schema: string): Promise<string> {
  const tables = await server.query<{ name: string }>(
    'select table_name as name from information_schema.tables where table_schema = $1',
    [schema],
  );
  const texts: string[] = [];
  for (const { name } of tables) {
    const rows = await server.query<{ text: string }>(`select one::text as text from ${schema}.${name} one`);
    texts.push(...rows.map(({ text }) => text));
  }
  return texts.join('\n').toLowerCase();
}

t.test(
  '[PERSONS-1, PERSONS-2] no row of a database names an erased person, nor does the next backup, and everything else is intact',
  longer,
  async (t) => {
    const server = await sharedPostgres();
    const schema = newSchema('persons');
    const { all } = await startNodes(t, server, schema, { here: true, count: 1 });
    const [hub] = all.map(({ url }) => ({ url, adminToken }));
    if (hub === undefined) throw new Error('no node');
    const { cpo, emsp } = await twoPersons(t, hub);
    const named = async (wanted: readonly string[]) => {
      const text = await rowsIn(server, schema);
      return wanted.filter((each) => text.includes(each.toLowerCase()));
    };
    t.strictSame(await named(names), names, 'before, the database names the person');
    const before = await lists({ cpo, emsp });
    t.match(await erase(hub, { uid }), { state: 'DONE', tokens: 1, pending: 0 });
    t.strictSame(await named(names), []);
    t.strictSame(await named([otherUid, otherContract]), [otherUid, otherContract], 'another person stays');
    t.strictSame(await lists({ cpo, emsp }), { ...before, tokens: [otherUid] });
    await cpo.push('PATCH', '/2.2.1/sessions/NL/CPO/S1', { status: 'COMPLETED', last_updated: '2026-01-04T00:00:00Z' });
    await emsp.got('the end of the session', ({ path, body }) => path.endsWith('/S1') && body.includes('COMPLETED'));
    await quiet(hub);

    const backup = join(directoryFor(t), 'backup');
    const { id } = await admin(hub, 'POST', '/backup', { directory: backup });
    t.match(await ended(hub, `/backups/${String(id)}`), { state: 'DONE' });
    t.ok(namesIn(backup, [otherUid]).length > 0);
    t.strictSame(namesIn(backup, names), [], 'nor does the next backup');
    const restored = join(directoryFor(t), 'restored');
    await restoreBackup(backup, join(restored, 'store'), { replace: false, now: new Date() });
    const report = await verifyStore(restored);
    t.strictSame([report.faults, report.repairs], [[], []], 'the verification of the log holds');
    t.strictSame(await named(names), []);
  },
);

t.test(
  '[PERSONS-4] after an erasure of commands in a database the next backup is complete and names nobody',
  longer,
  async (t) => {
    const server = await sharedPostgres();
    const { all } = await startNodes(t, server, newSchema('commands'), { here: true, count: 1 });
    const [hub] = all.map(({ url }) => ({ url, adminToken }));
    if (hub === undefined) throw new Error('no node');
    await ranCommands(t, hub);
    t.match(await erase(hub, { uid }), { state: 'DONE' });
    t.match(await erase(hub, { uid, dry_run: true }), { events: 0, rows: 0 });
    t.strictSame(namesIn(await backedUp(t, hub), keysOf), []);
  },
);

async function lists({ cpo, emsp }: Pick<Scene, 'cpo' | 'emsp'>) {
  const [sessions, cdrs, tokens] = await Promise.all([
    emsp.call('GET', '/2.2.1/sessions?date_from=2020-01-01T00:00:00Z'),
    emsp.call('GET', '/2.2.1/cdrs'),
    cpo.call('GET', '/2.2.1/tokens'),
  ]);
  return { sessions: idsOf(sessions), cdrs: idsOf(cdrs), tokens: idsOf(tokens) };
}

t.test(
  '[PERSONS-4] after an erasure of commands and of a session that another person paid, the store is intact',
  async (t) => {
    const dataDir = join(directoryFor(t), 'data');
    const hub = await hubFor(t, {}, {}, dataDir);
    await ranCommands(t, hub);
    t.match(await erase(hub, { uid }), { state: 'DONE' });
    t.match(await erase(hub, { uid, dry_run: true }), { events: 0, rows: 0 });
    t.strictSame(namesIn(await backedUp(t, hub), keysOf), []);
    await hub.close();
    const { faults, repairs } = await verifyStore(dataDir);
    t.strictSame([faults, repairs], [[], []]);
  },
);

t.test('[PERSON-SEARCH-2] an erasure by contract covers all its tokens, one by uid leaves the others', async (t) => {
  const { dataDir, hub, emsp } = await scene(t);
  const second = '04999999999999';
  await emsp.push('PUT', `/2.2.1/tokens/NL/EMS/${second}`, tokenOf(second, contract));
  await quiet(hub);
  t.match(await erase(hub, { uid }), { tokens: 1 });
  t.strictSame(namesIn(dataDir, [uid]), []);
  t.ok(namesIn(dataDir, [second, contract]).length > 0);
  t.match(await erase(hub, { contract: contract.toLowerCase() }), { tokens: 1 });
  t.strictSame(namesIn(dataDir, [uid, second, contract]), []);
});

t.test(
  'a CDR that is sent again after its person was erased is a duplicate, and leaves no name [D22] [D63]',
  async (t) => {
    const { dataDir, hub, cpo } = await scene(t);
    t.match(await erase(hub, { uid }), { tokens: 1 });
    const again = (fields: object = {}) =>
      cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1', { session_id: 'S1', ...cdrToken(uid, contract), ...fields }));
    const { json, headers } = await again();
    t.match([json.status_code, headers.get('location')], [1000, /C1/]);
    await quiet(hub);
    t.strictSame(namesIn(join(dataDir, 'store'), [uid, contract]), []);
    t.match((await again({ total_energy: 99 })).json, { status_code: 2001, status_message: 'CDR already exists' });
    t.match((await again(cdrToken(otherUid, otherContract))).json, { status_code: 2001 });
  },
);

t.test('[PERSON-SEARCH-1, PERSON-SEARCH-3, PERSON-SEARCH-4] pushes of others link no two persons', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, {
    cpo: ({ path }) => (path.includes('/commands/') ? { body: { result: 'REJECTED', timeout: 30 } } : {}),
  });
  const other = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'DE', partyId: 'ABC' });
  await admin(hub, 'PUT', '/routes/DE-ABC/NL-CPO', { active: true });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  const start = (of: string, from: PlainPartner) => ({
    ...{ response_url: `${from.url}/result`, location_id: 'LOC1' },
    token: { ...tokenOf(of, 'C-OF-A-START'), ...(from === other && { country_code: 'DE', party_id: 'ABC' }) },
  });
  const theirs = 'DE-ABC-CPPPP0002';
  const as = { country_code: 'DE', party_id: 'ABC' };
  await emsp.push('PUT', `/2.2.1/tokens/NL/EMS/${uid}`, tokenOf(uid, contract, { visual_number: visual }));
  // The same uid at another eMSP, and a session that has the uid of one person and the contract of another.
  await other.push('PUT', `/2.2.1/tokens/DE/ABC/${uid}`, tokenOf(uid, theirs, as));
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/SV', sessionBody('SV', cdrToken(uid, contract)));
  const mixed = { cdr_token: { ...cdrToken(otherUid, theirs).cdr_token, ...as } };
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/MIX', sessionBody('MIX', mixed));
  await emsp.push('PUT', `/2.2.1/tokens/NL/EMS/${otherUid}`, tokenOf(otherUid, otherContract));
  await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/MIX2', sessionBody('MIX2', cdrToken(uid, otherContract)));
  await emsp.push('POST', '/2.2.1/commands/START_SESSION', start(uid, emsp), toCpo);
  await other.push('POST', '/2.2.1/commands/START_SESSION', start(uid, other), toCpo);
  await quiet(hub);

  const found = await admin(hub, 'POST', '/subject', { contract: theirs });
  const rows = (found.rows as { kind: string; owner: string; id: string }[]).map(
    ({ kind, owner }) => `${kind} ${owner}`,
  );
  t.strictSame(found.uids, [uid.toLowerCase()]);
  t.strictSame(rows.sort(), ['commands ', 'sessions NL-CPO', 'tokens DE-ABC']);
  t.notMatch(JSON.stringify(found), visual);
  t.notMatch(JSON.stringify(found), otherContract);
  t.match(await erase(hub, { uid, dry_run: true }), { tokens: 2, tokens_of: { length: 2 } });
  t.match(await erase(hub, { uid, party: 'NL-EMS', dry_run: true }), { tokens: 1, tokens_of: [{ emsp: 'NL-EMS' }] });
  t.match(await erase(hub, { contract: theirs, party: 'NL-EMS', dry_run: true }), { events: 0, rows: 0, tokens: 0 });
  const planned = await erase(hub, { contract: theirs, dry_run: true });
  t.match(planned, { tokens: 1, tokens_of: [{ emsp: 'DE-ABC', tokens: 1 }] });
  t.match(await erase(hub, { contract: theirs }), { tokens: 1 });
  const kept = await admin(hub, 'POST', '/subject', { uid, party: 'NL-EMS' });
  t.strictSame((kept.rows as { kind: string; owner: string }[]).map(({ kind, owner }) => `${kind} ${owner}`).sort(), [
    'commands ',
    'sessions NL-CPO',
    'sessions NL-CPO',
    'tokens NL-EMS',
  ]);
  t.strictSame(kept.contracts, [contract.toLowerCase()], 'the contract of somebody else is not among them');
  t.strictSame(idsOf(await cpo.call('GET', '/2.2.1/tokens')), [uid, otherUid]);
  const sessions = await emsp.call('GET', '/2.2.1/sessions?date_from=2020-01-01T00:00:00Z');
  t.match(sessions.text, uid, 'the session of the other eMSP is as it was');
  t.notMatch(JSON.stringify(await itemsOf(hub, '/events?limit=200')), theirs);
});

t.test('[RETENTION-6] an erasure waits for a running trim, and leaves no name behind it', async (t) => {
  const held = new HeldWrites();
  const clock = new SimulatedClock('2026-01-02T03:04:05Z');
  const dataDir = join(directoryFor(t), 'data');
  const hub = await hubFor(t, { HUB_EVENTS_KEEP_DAYS: '1' }, { clock, wrap: held.wrap }, dataDir);
  await twoPersons(t, hub);
  let hasBegun = false;
  void held.hold('trim').then(() => {
    hasBegun = true;
  });
  clock.advance(5 * dayMs);
  await inTime({ clock, hub }, 20_000, 'a trim', () => hasBegun);
  const erased = erase(hub, { uid });
  await Promise.race([erased, hub.settled(...hub.partners)]);
  held.release('trim');
  t.match(await erased, { state: 'DONE' });
  await hub.settled(...hub.partners);
  t.strictSame(namesIn(dataDir, names), []);
  t.match(await erase(hub, { uid, dry_run: true }), { events: 0, rows: 0 });
});

for (const method of ['read', 'reclaim'] as const) {
  t.test(
    `[PERSONS-4] an erasure that waits for the store (${method}) does not keep the hub from closing`,
    async (t) => {
      const clock = new SimulatedClock('2026-01-02T03:04:05Z');
      let isErasing = false;
      let wait = () => {};
      const waits = new Promise<void>((resolve) => {
        wait = resolve;
      });
      /** Waits as for a backup, for the compaction of a large store, or for its verification in the background. */
      const held = () => {
        wait();
        return new Promise<never>(() => {});
      };
      const wrap = wrapStore((store) =>
        method === 'reclaim'
          ? { reclaim: held }
          : { read: (query) => (isErasing && query.kept ? held() : store.read(query)) },
      );
      const hub = await hubFor(t, {}, { clock, wrap });
      isErasing = true;
      const erasing = t.rejects(erase(hub, { uid }));
      await waits;
      await closed(hub, clock);
      await erasing;
    },
  );
}

t.test('[PERSONS-3] an owed delivery is erased only by force', async (t) => {
  let isDown = false;
  const { dataDir, hub, cpo, emsp } = await scene(t, ({ path }) =>
    isDown && path.includes('/tokens/') ? { status: 503 } : {},
  );
  isDown = true;
  t.teardown(() => {
    isDown = false;
  });
  await emsp.push(
    'PUT',
    `/2.2.1/tokens/NL/EMS/${uid}`,
    tokenOf(uid, contract, { last_updated: '2026-02-01T00:00:00Z' }),
  );
  const refused = await fetch(`${hub.url}/admin/v1/erase`, {
    method: 'POST',
    headers: { authorization: `Bearer ${hub.adminToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ uid }),
  });
  t.equal(refused.status, 409);
  t.match(await refused.text(), /still owed/);
  t.ok(namesIn(dataDir, [uid]).length > 0);
  await erase(hub, { uid, force: true });
  t.strictSame(namesIn(dataDir, names), []);
  t.equal(statusOf(await cpo.call('GET', '/2.2.1/tokens')), '200/1000');
});

t.test('[WINDOW-6] of a token that is erased by force each owed change arrives, in order', async (t) => {
  let isHeld = false;
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const isOfToken = ({ path }: { path: string }) => path.includes('/tokens/');
  const { hub, cpo, emsp } = await scene(t, async (received) => {
    if (isHeld && isOfToken(received)) await opened;
    return {};
  });
  t.teardown(open);
  isHeld = true;
  const before = cpo.received.length;
  const push = (day: number) => {
    const last_updated = `2026-02-${day}T00:00:00Z`;
    return emsp.push('PUT', `/2.2.1/tokens/NL/EMS/${uid}`, tokenOf(uid, contract, { last_updated }));
  };
  for (let day = 10; day < 22; day++) await push(day);
  await erase(hub, { uid, force: true });
  for (let day = 22; day < 25; day++) await push(day);
  open();
  await quiet(hub);
  const puts = cpo.received.slice(before).filter((received) => isOfToken(received) && received.method === 'PUT');
  t.strictSame(
    puts.map(({ body }) => Number(/2026-02-(\d\d)/.exec(body)?.[1])),
    Array.from({ length: 15 }, (_, n) => 10 + n),
  );
  t.strictSame(
    puts.map(({ body }) => names.some((name) => body.includes(name))),
    puts.map((_, n) => n === 0 || n > 11),
    'the one in flight and those pushed after the erasure alone have the names',
  );
});

t.test(
  'the export has the token, the session, the CDR, the authorization and the command, and nobody else’s',
  async (t) => {
    const { hub } = await scene(t);
    const found = (await admin(hub, 'POST', '/subject', { contract })) as {
      uids: string[];
      rows: { kind: string }[];
      events: { type: string; body: string | null }[];
    };
    t.strictSame(found.uids, [uid.toLowerCase()]);
    t.strictSame([...new Set(found.rows.map(({ kind }) => kind))].sort(), ['cdrs', 'commands', 'sessions', 'tokens']);
    const types = new Set(found.events.map(({ type }) => type));
    for (const type of ['object.put', 'object.patched', 'token.authorized', 'command.requested'])
      t.ok(types.has(type), type);
    t.notMatch(JSON.stringify(found), otherUid);
    for (const body of [{}, { uid: 'abc' }, { uid, contract: 'abc' }])
      await t.rejects(admin(hub, 'POST', '/subject', body));
  },
);

t.test('[PERSON-SEARCH-3] an erasure by uid finds what a refused push alone says of the person', async (t) => {
  const dataDir = join(directoryFor(t), 'data');
  const hub = await hubFor(t, {}, {}, dataDir);
  const { cpo, emsp } = await routedPair(t, hub);
  const own = (n: number) => ({ contract_id: `${contract}-${n}`, visual_number: `${visual} ${n}` });
  const start = { response_url: `${emsp.url}/result`, location_id: 'NOWHERE' };
  await emsp.call('PUT', `/2.2.1/tokens/NL/EMS/${uid}`, { ...tokenOf(uid, ''), ...own(1), last_updated: 1 });
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', {
    ...sessionBody('S1', { last_updated: undefined }),
    cdr_token: { ...cdrToken(uid, '').cdr_token, ...own(2) },
  });
  const others = { ...tokenOf(otherUid, otherContract) };
  for (const command of [
    { ...start, token: { ...tokenOf(uid, ''), ...own(3) } },
    { ...start, token: others, evse_uid: 1 },
  ])
    await emsp.call('POST', '/2.2.1/commands/START_SESSION', command, toCpo);
  await emsp.call('PUT', `/2.2.1/tokens/NL/EMS/${uid}`, `{"uid": "${uid}", "contract_id":"${contract}-4", oops`);
  const wanted = [1, 2, 3].flatMap((n) => Object.values(own(n)));
  t.match(await erase(hub, { uid }), { state: 'DONE' });
  t.strictSame(namesIn(dataDir, [uid, contract, visual, ...wanted]), []);
  const { refused } = (await admin(hub, 'GET', '/parties/NL-EMS/report')) as { refused: { body: string }[] };
  t.equal(refused.length, 4);
  t.ok(
    refused.some(({ body }) => body.includes(otherContract)),
    'another person is left as it was',
  );
});

t.test(
  '[ERASURES-1] deliveries in memory no longer name an erased person when they are retried and expire',
  async (t) => {
    const dataDir = join(directoryFor(t), 'data');
    const clock = new SimulatedClock('2026-01-02T03:04:05Z');
    const hub = await hubFor(t, { HUB_RETRY_SCHEDULE_S: '60', HUB_RETRY_JITTER: '0' }, { clock }, dataDir);
    const holding = new Holding();
    const down = { status: 500, text: `{"oops":"${uid} of ${contract}"}` };
    const { cpo, emsp } = await routedPair(t, hub, { cpo: () => down, emsp: holding.answer });
    await emsp.push('PUT', `/2.2.1/tokens/NL/EMS/${uid}`, tokenOf(uid, contract));
    await cpo.push('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', cdrToken(uid, contract)));
    await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S2', sessionBody('S1', cdrToken(uid, contract)));
    await hub.settled(emsp);
    t.match(
      await admin(hub, 'POST', '/subject', { uid }),
      { rows: { length: 3 } },
      'a push that was refused is shown, too',
    );
    const shown = async () => JSON.stringify(await admin(hub, 'GET', '/parties/NL-CPO'));
    t.match(await shown(), contract, 'the last error names the person');
    t.match(await erase(hub, { uid, force: true }), { state: 'DONE', pending: 2 });
    t.notMatch(await shown(), contract);
    t.strictSame(namesIn(dataDir, names), []);
    holding.releaseAll(down);
    await hub.settled();
    for (const hours of [1, 12, 13]) {
      clock.advance(hours * 3_600_000);
      await hub.settled();
    }
    t.match(await itemsOf(hub, '/events?type=delivery.dead'), [
      { data: { class: 'expired' } },
      { data: { class: 'expired' } },
    ]);
    t.strictSame(namesIn(dataDir, names), []);
    t.notMatch(emsp.received.at(-1)?.body ?? uid, uid);
  },
);
