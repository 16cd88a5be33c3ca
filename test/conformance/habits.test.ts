/**
 * Partners with one habit each, all at one hub: each walks the full session path with a partner that has none. Nothing
 * is dead, nothing is lost, the report names the habit, and a check finds it with what heals it. [D55 to D75]
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import type { CheckView } from '../../src/api/checks.ts';
import type { ReportView } from '../../src/api/report.ts';
import { checkLines, exitCodeOf } from '../../src/cli/check.ts';
import { type Habit, habits } from '../../src/domain/habits.ts';
import { settingText } from '../../src/domain/partner-settings.ts';
import { newSession, newToken } from '../../src/sandbox/bodies.ts';
import { type Cpo, startCpo } from '../../src/sandbox/cpo.ts';
import type { Emsp } from '../../src/sandbox/emsp.ts';
import { behaviours } from '../../src/sandbox/habits.ts';
import { openPath, type PathContext, traffic } from '../../src/sandbox/session-path.ts';
import { hubFor, type TestHub } from '../support/hub-in-process.ts';
import { ended, itemsOf } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

type Role = 'CPO' | 'EMSP';

/** What the report counts, by name. */
const countedIn = ({ quirks }: ReportView): string[] => [...new Set(quirks.map(({ quirk }) => quirk))].sort();

const reportOf = async (hub: TestHub, id: string) =>
  (await admin(hub, 'GET', `/parties/${id}/report`)) as unknown as ReportView;

async function checked(hub: TestHub, id: string, write = true): Promise<CheckView> {
  const { id: check } = await admin(hub, 'POST', `/parties/${id}/check`, { write });
  return (await ended(hub, `/checks/${String(check)}`)) as unknown as CheckView;
}

const page = { paint: (_: unknown, text: string) => text, width: Number.POSITIVE_INFINITY, now: 0 };

/** What `ocpi-hub check` prints, and its exit code. */
function saysSo(t: Test, check: CheckView, { counted, heals }: Habit): void {
  const remedy = heals === undefined ? '.*' : `${settingText(heals)}(, which is set)?`.replaceAll(/[[\]]/g, '\\$&');
  const said = new RegExp(`(error|warning) ${counted} (.*)\\n(.*\\n){3}  heals it +${remedy}(\\n|$)`);
  t.match(checkLines(check, page).join('\n'), said);
  t.equal(exitCodeOf(check), 1);
}

/** Habits that the hub cannot see: it counts the uses of the settings that make up for them. */
const later: ReadonlySet<string> = new Set(['first-link', 'strict-modules']);

/** Habits that no traffic of these paths shows: the hub always sends a User-Agent, it pulls no list, and its own have one page. */
const ofChecks: ReadonlySet<string> = new Set([
  ...['needs-user-agent', 'no-link', 'bad-link', 'foreign-link'],
  'first-link',
]);

let made = 0;

/** The habit of each side; a side without one is left out. */
type Named = Partial<Record<Role, string>>;

/** A CPO and an eMSP that are registered and routed, each with its habit. */
async function pairWith(t: Test, hub: TestHub, names: Named): Promise<PathContext> {
  const party_id = (1296 + made++).toString(36).slice(-2).toUpperCase();
  const own = (one: Role) => ({ habits: names[one] === undefined ? [] : [names[one]] });
  const { adminToken, url: hubUrl } = hub;
  const context = await openPath({
    ...{ hubUrl, adminToken },
    cpo: { country_code: 'NL', party_id: `C${party_id}`, ...own('CPO') },
    emsp: { country_code: 'NL', party_id: `E${party_id}`, ...own('EMSP') },
  });
  t.teardown(() => context.close());
  for (const partner of [context.cpo, context.emsp]) {
    const { country_code, party_id: id } = partner;
    const name = names[partner.role];
    const settings = name === undefined ? {} : (habitOf(name).heals ?? {});
    const roles = [{ role: partner.role, country_code, party_id: id }];
    const { initial_token } = await admin(hub, 'POST', '/parties', { roles, ...settings });
    await partner.register(String(initial_token));
  }
  const route = () => admin(hub, 'PUT', `/routes/${context.emsp.id}/${context.cpo.id}`, { active: true });
  if (names.CPO === 'early-cdr') await early(context, route);
  else await route();
  return context;
}

const habitOf = (name: string): Habit => habits[name as keyof typeof habits];

/** A CDR that was posted before its rule arrives once the rule is there. [D63] */
async function early({ cpo, emsp }: { cpo: Cpo; emsp: Emsp }, route: () => Promise<unknown>): Promise<void> {
  const location = await cpo.pushLocation();
  const session = await cpo.openSession({
    ...{ id: 'early', command: 'START_SESSION', responseUrl: '', result: 'ACCEPTED', from: emsp },
    body: { token: emsp.driver, location_id: location.id },
  });
  const { id } = await cpo.bill(session);
  await route();
  await emsp.until('the CDR of before', () => emsp.copy('cdrs', cpo, id));
}

/** Paths that are walked at a time: the hub serves few drivers' requests in one turn of its event loop. */
const atOnce = 6;

/** What came of one habit. */
interface Walked {
  readonly name: string;
  readonly role: Role;
  readonly check: CheckView;
  /** Before the check, which adds to it what it finds. */
  readonly report: ReportView;
}

async function walked(t: Test, hub: TestHub, names: Named): Promise<Walked[]> {
  const context = await pairWith(t, hub, names);
  const { cpo, emsp } = context;
  await emsp.pushToken(emsp.driver);
  // Its lists have a second page.
  emsp.addToken(newToken(emsp, emsp.stamp()));
  await cpo.pushTariff();
  for (const step of traffic) {
    await step.run(context).catch((error: unknown) => {
      throw new Error(`${step.name}: ${String(error)}`);
    });
  }
  const found: Walked[] = [];
  for (const { role, id } of [cpo, emsp]) {
    const name = names[role];
    if (name === undefined) continue;
    const report = await reportOf(hub, id);
    found.push({ name, role, report, check: await checked(hub, id) });
  }
  return found;
}

t.test('the full session path works with each habit, and the check of the partner finds the habit', async (t) => {
  const hub = await hubFor(t);
  const rows = Object.entries(behaviours).flatMap(([name, { only }], index) => {
    const able = (['CPO', 'EMSP'] as const).filter((role) => (only ?? role) === role);
    // At length a habit is walked in both roles, else in one of them by turns.
    const roles = isAtLength ? able : [able[index % able.length] as Role];
    return roles.map((role) => ({ name, role }));
  });
  t.ok(new Set(rows.map(({ name }) => name)).size > 0, `${rows.length} rows`);
  const of = (side: Role) => rows.filter(({ role }) => role === side).map(({ name }) => name);
  const [cpos, emsps] = [of('CPO'), of('EMSP')];
  // At length a partner with a habit meets one without, else both sides of a path have one.
  const paths: Named[] = isAtLength
    ? rows.map(({ name, role }) => ({ [role]: name }))
    : Array.from({ length: Math.max(cpos.length, emsps.length) }, (_, n) => ({
        ...(cpos[n] !== undefined && { CPO: cpos[n] }),
        ...(emsps[n] !== undefined && { EMSP: emsps[n] }),
      }));
  const all: { names: Named; result: PromiseSettledResult<Walked[]> }[] = [];
  for (let from = 0; from < paths.length; from += atOnce) {
    const some = paths.slice(from, from + atOnce);
    const results = await Promise.allSettled(some.map((names) => walked(t, hub, names)));
    for (const [n, result] of results.entries()) all.push({ names: some[n] ?? {}, result });
  }
  for (const { name, role } of rows) {
    t.test(`${role}: ${name}`, async (t) => {
      const result = all.find(({ names }) => names[role] === name)?.result;
      if (result?.status !== 'fulfilled') throw result?.reason;
      const own = result.value.find((one) => one.role === role);
      if (!own) throw new Error('no such path');
      const { counted, heals } = habitOf(name);
      const { check, report } = own;
      const found = check.findings.find((one) => one.name === counted);
      saysSo(t, check, habitOf(name));
      const others = check.findings.map((one) => `${one.name} (${one.module}: ${one.seen})`);
      t.ok(found, `the check finds ${counted}, not only ${others.join(', ')}`);
      t.equal(found?.heals, heals && settingText(heals));
      t.ok(found?.source);
      const errors = check.findings.filter((one) => one.severity === 'error').map((one) => `${one.name}: ${one.seen}`);
      t.same(errors, [], 'nothing breaks: what the habit needs is set');
      t.ok(
        ofChecks.has(name) || countedIn(report).includes(counted),
        `the report counts ${counted}, not only ${countedIn(report).join(', ')}`,
      );
      t.same([report.refused, report.dead_letters], [[], []]);
    });
  }
  await hub.settled();
  t.same(await itemsOf(hub, '/deliveries?state=DEAD'), []);
  t.same(await itemsOf(hub, '/deliveries?state=PENDING'), []);
});

t.test(
  'a habit that no call shows is found once an operator has set what heals it; a partner without habits has no finding',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await pairWith(t, hub, {});
    const clean = await checked(hub, cpo.id);
    t.same([clean.findings, exitCodeOf(clean)], [[], 0]);
    t.match(checkLines(clean, page), [/^NL-C.. answers as OCPI 2\.2\.1 says: nothing found in \d+ calls\.$/]);
    t.ok(clean.steps.every(({ state, findings }) => state === 'done' && findings === 0));
    for (const name of later) {
      await admin(hub, 'PATCH', `/parties/${cpo.id}`, { ...habitOf(name).heals });
      const check = await checked(hub, cpo.id, false);
      const [found] = check.findings.filter((one) => one.name === name);
      t.match(found, { tried: 'its settings', severity: 'warning', healed: true, settings: habitOf(name).heals });
      saysSo(t, check, habitOf(name));
    }
    const { items } = (await admin(hub, 'GET', `/checks?party=${cpo.id.toLowerCase()}`)) as { items: CheckView[] };
    t.equal(items.length, 3);
    t.equal(items.at(-1)?.id, clean.id, 'newest first');
  },
);

t.test(
  'a habit is an error until its setting is made, and the check says who made up for it [operators, check] [D70]',
  async (t) => {
    const hub = await hubFor(t);
    const { emsp } = await pairWith(t, hub, { EMSP: 'gzip' });
    emsp.at(/^PUT .*locations/).answer(200, '');
    const healsOf = async () => {
      const { findings } = await checked(hub, emsp.id);
      const { severity, heals, settings, healed } = findings.find(({ name }) => name === 'empty-2xx') ?? {};
      return { severity, heals, settings, healed };
    };
    const heals = { heals: 'empty_2xx_ok: true', settings: { empty_2xx_ok: true } };
    const sources = async () => (await reportOf(hub, emsp.id)).quirks.map(({ quirk, source }) => `${quirk} ${source}`);
    t.same(await healsOf(), { severity: 'error', ...heals, healed: false });
    t.ok((await sources()).includes('empty-2xx learnt'));
    await admin(hub, 'PATCH', `/parties/${emsp.id}`, heals.settings);
    t.same(await healsOf(), { severity: 'warning', ...heals, healed: true });
    t.same([...new Set(await sources())].sort(), ['empty-2xx operator', 'gzip learnt', 'patch-refused learnt']);
    t.match(await admin(hub, 'GET', `/parties/${emsp.id}`), {
      quirks: [{ setting: 'empty_2xx_ok', value: 'true', source: 'operator' }],
    });
  },
);

t.test(
  'ocpi-hub check exits with 1 and names what heals, or with 0; one check at a time [operators, check]',
  atLength,
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await pairWith(t, hub, {});
    const { emsp } = await pairWith(t, hub, { EMSP: 'empty-2xx' });
    const run = async (...args: string[]) => {
      const words = ['check', ...args, '--url', hub.url, '--token', hub.adminToken];
      const child = spawn(process.execPath, ['dist/bin/ocpi-hub.js', ...words], {
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      const [out, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
      return { out, code: code as number };
    };
    const clean = await run(cpo.id, '--write');
    t.equal(clean.out, `${cpo.id} answers as OCPI 2.2.1 says: nothing found in 15 calls.\n`);
    t.equal(clean.code, 0);
    const empty = await run(emsp.id, '--write');
    t.equal(empty.code, 1);
    t.match(
      empty.out,
      /^warning empty-2xx \(locations\)\n +tried +PUT .*\n +seen +it answers a success without a body\n +expected .*\[.*\]\n +heals it +empty_2xx_ok: true, which is set$/m,
    );
    const { findings } = JSON.parse((await run(emsp.id, '--json')).out) as CheckView;
    t.ok(findings.some(({ name, heals }) => name === 'empty-2xx' && heals === 'empty_2xx_ok: true'));

    emsp.at('versions').hang();
    const path = `/parties/${emsp.id}/check`;
    await admin(hub, 'POST', path, {});
    await t.rejects(admin(hub, 'POST', path, {}), { message: /409 .*is being checked/ });
    await t.rejects(admin(hub, 'GET', '/checks/none'), { message: /404/ });
  },
);

t.test(
  'a refused PATCH that is followed by the whole object is no error, whichever way it is refused [operators, check]',
  async (t) => {
    const hub = await hubFor(t);
    const { emsp } = await pairWith(t, hub, {});
    for (const [status, text] of [
      [501, ''],
      [422, '{"detail":[]}'],
      [400, '{"status_code":2001,"timestamp":"2026-05-01T10:00:00Z"}'],
      [400, '{"status_code":3000,"timestamp":"2026-05-01T10:00:00Z"}'],
    ] as const) {
      emsp.at(/^PATCH /).answer(status, text);
      const { findings } = await checked(hub, emsp.id);
      const named = findings.map(({ name, severity }) => `${name} ${severity}`);
      t.same([...new Set(named)], ['patch-refused warning'], `${status} ${text}`);
    }
  },
);

t.test('a habit that breaks traffic is an error, and nothing is written without --write', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await pairWith(t, hub, {});
  const writes = () => emsp.transcript.received().filter(({ method }) => !/GET|POST/.test(method)).length;
  const before = writes();
  await checked(hub, emsp.id, false);
  t.equal(writes(), before);
  await checked(hub, emsp.id, true);
  t.ok(writes() > before);
  const envelope = (data: unknown) => ({ data, status_code: 1000, timestamp: '2026-05-01T10:00:00Z' });
  cpo.at('locations').answer(500, 'out of order');
  cpo.at('tariffs').answer(200, envelope([{ id: 'T1' }, { id: 'T2' }]), { headers: { 'x-total-count': '2' } });
  cpo.at('commands').answer(200, envelope({ result: 'ACCEPTED' }));
  emsp.at(/authorize/).answer(200, envelope({ allowed: 'ALLOWED' }));
  emsp.at(/^GET .*sessions/).answer(404, 'no such page');
  const named = async (id: string) => (await checked(hub, id)).findings.map(({ name, module }) => `${module} ${name}`);
  t.same((await named(cpo.id)).sort(), [
    ...['commands command-accepted', 'locations list-failed', 'tariffs limit-ignored', 'tariffs no-limit'],
    'tariffs object-refused',
  ]);
  t.same((await named(emsp.id)).sort(), ['sessions no-envelope', 'tokens allows-anyone']);
  await cpo.hangUp();
  t.match(await named(cpo.id), ['versions unreachable', 'versions versions-unusable']);
});

t.test('refusals that a setting would have avoided are findings under the name of the habit', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await pairWith(t, hub, {});
  const send = ['patch-without-date', 'authorize-to-hub'];
  const own = await startCpo({ hubUrl: hub.url, country_code: 'NL', party_id: 'ODD', habits: send });
  t.teardown(() => own.close());
  const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'ODD' }];
  await own.register(String((await admin(hub, 'POST', '/parties', { roles })).initial_token));
  const session = newSession(
    own,
    own.stamp(),
    { ...cpo, uid: 'CARD1', type: 'RFID', contract_id: 'C1' },
    own.nextLocation(),
  );
  await own.pushSession(session);
  await t.rejects(own.meter(session, 1), /last_updated/);
  for (const uid of ['CARD1', 'CARD2']) await t.rejects(own.authorize(uid, cpo), /OCPI-to-party-id/);
  const { refused } = await reportOf(hub, own.id);
  t.same(
    refused.map(({ method, path, count }) => `${method} ${path} ${count}`).sort(),
    [`PATCH /ocpi/2.2.1/sessions/NL/ODD/${session.id} 1`, 'POST /ocpi/2.2.1/tokens/:uid/authorize 2'],
    'authorizations of all tokens are one',
  );
  const check = await checked(hub, own.id, false);
  for (const name of send) saysSo(t, check, habitOf(name));
  t.same(
    check.findings.map(({ name, severity }) => `${severity} ${name}`).sort(),
    send.map((name) => `error ${name}`).sort(),
  );
  await admin(hub, 'PATCH', `/parties/${own.id}`, {
    patch_without_last_updated: 'accept',
    authorize_to_hub: 'resolve',
  });
  const after = await checked(hub, own.id, false);
  t.same(
    after.findings.map(({ severity }) => severity),
    ['warning', 'warning'],
  );
});

t.test(
  'a token form that an operator fixed and the partner refuses is healed without another exchange [D58]',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await pairWith(t, hub, { EMSP: 'plain-token' });
    const found = async () => (await checked(hub, emsp.id, false)).findings.find(({ name }) => name === 'plain-token');
    t.match(await found(), { severity: 'warning', heals: 'token_encoding: auto', healed: true });
    await admin(hub, 'PATCH', `/parties/${emsp.id}`, { token_encoding: 'base64' });
    await cpo.pushTariff();
    await hub.settled();
    t.equal((await itemsOf(hub, '/deliveries?state=DEAD')).length, 1);
    const error = {
      severity: 'error',
      heals: 'token_encoding: plain',
      settings: { token_encoding: 'plain' },
      healed: false,
    };
    t.match(await found(), error);
    await admin(hub, 'PATCH', `/parties/${emsp.id}`, { token_encoding: 'auto' });
    t.match(await found(), error, 'auto goes on from the form in use until the next exchange');
    await admin(hub, 'PATCH', `/parties/${emsp.id}`, (await found())?.settings ?? {});
    t.match(await found(), { severity: 'warning', heals: 'token_encoding: plain', healed: true });
    await admin(hub, 'POST', '/redrive', { filter: { receiver: emsp.id }, force: true });
    await hub.settled();
    t.same(await itemsOf(hub, '/deliveries?state=DEAD'), [], 'nothing is dead any more');
  },
);
