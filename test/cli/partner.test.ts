/** Two `ocpi-hub partner` processes with a habit each: a whole session, from the card to the CDR, with nobody at hand. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ReportView } from '../../src/api/report.ts';
import { newSession } from '../../src/sandbox/bodies.ts';
import { startCpo } from '../../src/sandbox/cpo.ts';
import { hubFor, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

interface Running {
  readonly child: ChildProcess;
  said: string;
}

async function partnerProcess(t: Test, hub: TestHub, role: 'CPO' | 'EMSP', words: string): Promise<Running> {
  const roles = [{ role, country_code: 'NL', party_id: role.slice(0, 3) }];
  const { initial_token } = await admin(hub, 'POST', '/parties', { roles });
  const args = ['partner', '--role', role, '--hub', hub.url, '--token', String(initial_token), ...words.split(' ')];
  const child = spawn(process.execPath, ['dist/bin/ocpi-hub.js', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const over = once(child, 'close');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await over;
  });
  const running = { child, said: '' };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      running.said += text;
    });
  }
  return running;
}

t.test(
  'partners with habits charge, stop and bill by themselves, also when their rule comes late',
  atLength,
  async (t) => {
    const hub = await hubFor(t);
    const emsp = await partnerProcess(t, hub, 'EMSP', '--answer not-subscribed --start-session NL-CPO --stop-after 0');
    await eventually('it looks for a location', () => emsp.said.includes('It starts a session'));
    const cpo = await partnerProcess(
      t,
      hub,
      'CPO',
      '--send lower-case --send early-cdr --driver-of NL-EMS --sessions 2/s',
    );
    await eventually('the CPO stands', () => cpo.said.includes('It answers what it is asked'));
    await eventually('its early CDR is kept', async () => {
      const kept = (await itemsOf(hub, '/stored-not-forwarded?cpo=NL-CPO')) as { module: string; reason: string }[];
      return kept.some(({ module, reason }) => module === 'cdrs' && reason === 'not routed');
    });
    t.match(await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true }), { released: 1 });
    await eventually('the session is billed', () => emsp.said.includes(' is billed by CDR-'));
    t.match((await itemsOf(hub, '/commands')).reverse(), [
      { command: 'START_SESSION', state: 'relayed', result: 'ACCEPTED' },
      { command: 'STOP_SESSION', state: 'relayed', result: 'ACCEPTED' },
    ]);
    const authorized = () => itemsOf(hub, '/events?type=token.authorized');
    await eventually('a card is authorized', async () => (await authorized()).length > 0);
    t.match((await authorized())[0], { parties: ['NL-CPO', 'NL-EMS'] });
    t.same(await itemsOf(hub, '/deliveries?state=DEAD'), []);
    const quirksOf = async (id: string) =>
      new Set(
        ((await admin(hub, 'GET', `/parties/${id}/report`)) as unknown as ReportView).quirks.map((one) => one.quirk),
      );
    t.same([...(await quirksOf('NL-CPO'))].sort(), ['early-cdr', 'lower-case']);
    const pushed = (emsp.said.match(/PUT +\/tokens/g) ?? []).length;
    t.equal(pushed, 2, 'two drivers, so that its list of tokens has a second page');
    for (const { child } of [cpo, emsp]) child.kill('SIGINT');
    await eventually('both end', () => [cpo, emsp].every(({ child }) => child.exitCode === 0));
  },
);

t.test('an eMSP stops only the session that its own command started', atLength, async (t) => {
  const hub = await hubFor(t);
  const name = { country_code: 'NL', party_id: 'CPO' };
  const { initial_token } = await admin(hub, 'POST', '/parties', { roles: [{ role: 'CPO', ...name }] });
  const cpo = await startCpo({ ...name, hubUrl: hub.url, initialToken: String(initial_token) });
  t.teardown(() => cpo.close());
  await cpo.register();
  const location = await cpo.pushLocation();
  const emsp = await partnerProcess(t, hub, 'EMSP', '--start-session NL-CPO --stop-after 0');
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  const command = await cpo.until('the command', () => cpo.commands[0]);
  const token = command.body.token as Parameters<typeof newSession>[2];
  const of = newSession(cpo, cpo.stamp(), token, location);
  await cpo.startCharging({ ...of, id: 'CARD', auth_method: 'AUTH_REQUEST' });
  await cpo.startCharging({ ...of, id: 'EARLIER', authorization_reference: 'of-another-command' });
  await eventually('it has both', () => (emsp.said.match(/PUT +\/sessions/g) ?? []).length === 2);
  const { id } = await cpo.openSession(command);
  await cpo.startCharging(cpo.sessions.get(id) ?? of);
  await eventually('it charges', () => emsp.said.includes('charges in session'));
  t.match(emsp.said, `charges in session NL-CPO/${id}`);
  await cpo.until('the stop', () => cpo.commands.find(({ body }) => body.session_id === id));
});
