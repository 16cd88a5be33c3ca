import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { type Habit, habits } from '../../src/domain/habits.ts';
import { settingText } from '../../src/domain/partner-settings.ts';
import { newToken } from '../../src/sandbox/bodies.ts';
import { behaviours } from '../../src/sandbox/habits.ts';
import { runSessions } from '../../src/sandbox/traffic.ts';
import { someOf } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { pair } from './pair.ts';

t.test('every habit can be rehearsed, and docs/PARTNERS.md lists it', async (t) => {
  t.same(Object.keys(behaviours).sort(), Object.keys(habits).sort());
  const rows = readFileSync('docs/PARTNERS.md', 'utf8').match(/^\| `.*$/gm) ?? [];
  const expected = Object.entries<Habit>(habits).map(([name, { does, counted, heals, expected, source }]) => {
    return `| \`${name}\` | ${does} | \`${counted}\` | ${heals === undefined ? 'nothing' : `\`${settingText(heals)}\``} | ${source}: ${expected} |`;
  });
  t.same(rows, expected);
});

t.test('a CPO charges by itself, and its CDRs have charging periods', async (t) => {
  const { cpo, emsp } = await pair(t);
  const invalid = { ...newToken(emsp, emsp.stamp()), valid: false };
  cpo.keepToken(invalid);
  cpo.keepToken(emsp.driver);
  const problems: string[] = [];
  const stop = runSessions(cpo, { everyMs: 20, stepMs: 1, onProblem: (problem) => problems.push(problem) });
  t.teardown(stop);
  const cdrs = await emsp.until('two CDRs', () => {
    const all = emsp.copies.of('cdrs');
    return all.length > 1 ? all : null;
  });
  t.same(problems, []);
  for (const { state } of cdrs) {
    t.match(state, { charging_periods: { length: 3 } });
    t.match(state?.cdr_token, { uid: emsp.driver.uid }, 'of a token that the eMSP lists, and that is valid');
    t.match(state, { auth_method: 'AUTH_REQUEST', authorization_reference: /./ }, 'which the eMSP allowed');
  }
  const session = await cpo.openSession({
    ...{ id: '1', command: 'START_SESSION', responseUrl: '', result: 'ACCEPTED' },
    from: { country_code: 'DE', party_id: 'EMS' },
    body: { token: emsp.driver, location_id: [...cpo.locations.keys()][0] },
  });
  t.equal((await cpo.bill(session)).charging_periods.length, 1, 'also of a session without a meter reading');
});

t.test('a token that its eMSP refuses is not charged; without an answer the whitelist decides', async (t) => {
  const { cpo, emsp } = await pair(t);
  cpo.keepToken(emsp.driver);
  emsp.blocked.add(emsp.driver.uid);
  const problems: string[] = [];
  const blocked = runSessions(cpo, { everyMs: 20, stepMs: 1, onProblem: (problem) => problems.push(problem) });
  await cpo.until('a refusal', () => problems.length > 0);
  blocked();
  t.match(problems[0], /may not charge: its eMSP does not allow it/);
  t.same(emsp.copies.of('sessions'), []);
  emsp.at(/authorize/).answer(500, 'out of order');
  t.teardown(runSessions(cpo, { everyMs: 20, stepMs: 1, onProblem: (problem) => problems.push(problem) }));
  const session = await emsp.until('a session', () => emsp.copies.of('sessions')[0]);
  t.match(session.state, { auth_method: 'WHITELIST' });
});

t.test('an unknown name, or one of the other role, is refused with the known ones', async (t) => {
  const refusals: [args: string, said: RegExp][] = [
    ['--role EMSP --answer 418', /--answer 418: expected of an eMSP one of 401, 404, .*gzip, hang.*patch-404/],
    ['--role CPO --answer patch-404', /--answer patch-404: expected of a CPO one of/],
    ['--role CPO --send gzip', /--send gzip: expected of a CPO one of .*blank-date/],
    ['--role EMSP --sessions 1/s', /only a CPO takes --sessions/],
    ['--role CPO --sessions often', /expected a rate such as 1\/s, 30\/m or 5\/h/],
  ];
  for (const [args, said] of someOf(refusals, 2)) {
    const words = ['partner', '--hub', 'http://127.0.0.1:1', '--token', 'x', ...args.split(' ')];
    const { status, stderr } = spawnSync(process.execPath, ['dist/bin/ocpi-hub.js', ...words], { encoding: 'utf8' });
    t.equal(status, 2, args);
    t.match(stderr, said, args);
  }
});
