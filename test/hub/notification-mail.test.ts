/** Mail to operators: grouped, durable as webhooks are, and without the password anywhere. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { WebhookDetail } from '../../src/api/webhooks.ts';
import { loadConfig } from '../../src/config/config.ts';
import { inFlightGraceMs } from '../../src/listeners.ts';
import { locationBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, type TestHub } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type SmtpSink, smtpSink } from '../support/smtp-sink.ts';
import { t } from '../support/tap.ts';
import { webhookReceiver, webhookSet } from '../support/webhook-receiver.ts';
import { within } from '../support/within.ts';

const password = 'pass/word of the mail';
const quiet = { HUB_PROBE_INTERVAL_S: '864000', HUB_SILENT_AFTER_H: '0', HUB_NOTIFY_DISK_PERCENT: '0' };
const mailTo = ({ port }: Pick<SmtpSink, 'port'>, secret = password) => ({
  HUB_SMTP_URL: `smtp://hub:${encodeURIComponent(secret)}@127.0.0.1:${port}`,
  HUB_MAIL_FROM: 'hub@example.com',
  HUB_MAIL_TO: 'ops@example.com, night@example.com',
});
const standing = async (hub: TestHub) => (await admin(hub, 'GET', '/webhooks/mail')) as unknown as WebhookDetail;

t.test(
  'mail has all new notifications, at most once a minute, and nothing is lost while the server is down',
  async (t) => {
    const sink = await smtpSink(t, password);
    const clock = new SimulatedClock('2026-02-03T04:05:06Z');
    const dataDir = directoryFor(t);
    const hub = await hubFor(t, { ...quiet, ...mailTo(sink) }, { clock }, dataDir);
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    const fails = async (partyId: string) => {
      const answer = () => ({ status: 400, text: '{}' });
      await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, answer });
      await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
      await cpo.push('PUT', `/2.2.1/locations/NL/CPO/${partyId}`, locationBody(partyId));
      await hub.settled();
      clock.advance(2_000);
      await hub.settled();
    };
    await fails('E01');
    await sink.got(1);
    t.match(sink.mails[0], { from: 'hub@example.com', to: ['ops@example.com', 'night@example.com'] });
    t.match(sink.mails[0]?.text, /Subject: \[OCPI hub\] a delivery to NL-E01 is a dead letter/);
    t.match(sink.mails[0]?.text, /console\/partners\/NL-E01/);
    await fails('E02');
    await fails('E03');
    t.match(await standing(hub), { owed: 2, last: { ok: true }, url: 'mailto:ops@example.com,night@example.com' });
    t.equal(sink.offered, 1, 'a minute has not passed');
    sink.isDown = true;
    clock.advance(60_000);
    await sink.wasOffered(2);
    await hub.close();
    sink.isDown = false;
    const again = await hubFor(t, { ...quiet, ...mailTo(sink) }, { clock }, dataDir);
    await sink.got(2);
    t.match(sink.mails[1]?.text, /Subject: \[OCPI hub\] 2 notifications/);
    t.match(sink.mails[1]?.text, /NL-E02[\s\S]*NL-E03/);
    t.match(await admin(again, 'POST', '/webhooks/mail/test'), { ok: true });
    t.match(sink.mails[2]?.text, /this is a test/);
    await t.rejects(admin(again, 'PUT', '/webhooks/mail', { url: 'http://127.0.0.1:1/' }), /409/);
    await t.rejects(admin(again, 'DELETE', '/webhooks/mail'), /409/);
  },
);

t.test('a webhook that is added after the mail gets the present conditions, although the mail had them', async (t) => {
  const sink = await smtpSink(t, password);
  const clock = new SimulatedClock('2026-02-03T04:05:06Z');
  const dataDir = directoryFor(t);
  const full = { ...quiet, HUB_NOTIFY_DISK_PERCENT: '100' };
  const mailed = await hubFor(t, { ...full, ...mailTo(sink) }, { clock }, dataDir);
  await mailed.settled();
  clock.advance(1_000);
  await sink.got(1);
  await mailed.close();
  const hub = await hubFor(t, full, { clock }, dataDir);
  const receiver = await webhookReceiver(t);
  await webhookSet(hub, 'on-call', receiver);
  await hub.settled();
  clock.advance(1_000);
  await receiver.took(1);
  t.match(receiver.taken, [{ body: { type: 'disk.low' } }]);
});

t.test('a password that the server refuses appears in no answer and no log line', async (t) => {
  const sink = await smtpSink(t, 'another one');
  const lines: string[] = [];
  const logTo = { write: (line: string) => void lines.push(line) };
  const env = { ...quiet, ...mailTo(sink), HUB_NOTIFY_DISK_PERCENT: '100', HUB_LOG_LEVEL: 'debug' };
  const clock = new SimulatedClock('2026-02-03T04:05:06Z');
  const hub = await hubFor(t, env, { logTo, clock });
  const tested = await admin(hub, 'POST', '/webhooks/mail/test');
  t.match(tested, { ok: false, answer: /hub may not in with …/ });
  t.notOk(JSON.stringify([tested, await standing(hub)]).includes(password));
  t.notOk(lines.join('').includes(password));
});

t.test(
  'mail needs a server, a sender and a recipient, and an error never shows the address of the server',
  async (t) => {
    const refused = (env: Record<string, string>) => {
      try {
        loadConfig({ env, flags: {} });
        return '';
      } catch (error) {
        return (error as Error).message;
      }
    };
    t.match(refused({ HUB_SMTP_URL: 'smtp://a:pw@h' }), /^HUB_MAIL_FROM .* is not set: .* HUB_SMTP_URL is set$/);
    t.match(refused({ HUB_MAIL_TO: 'a@b' }), /^HUB_SMTP_URL .* is not set/);
    t.match(refused({ HUB_MAIL_TO: 'nobody' }), /HUB_MAIL_TO .* a comma-separated list of at most 20 mail addresses/);
    for (const url of ['http://a:pw@h', 'smtp://a:p%w@h', 'smtp://a:pw@h/path', 'smtp:']) {
      const said = refused({ HUB_SMTP_URL: url });
      t.match(said, /^HUB_SMTP_URL \(--smtp-url\) is not usable/, url);
      t.notMatch(said, /pw/);
    }
  },
);

/** Tells when the grace of what is in flight begins. */
class ClosingClock extends SimulatedClock {
  onGrace = () => {};

  override setTimeout<A extends unknown[]>(fn: (...args: A) => void, timeoutMs: number, ...args: A) {
    if (timeoutMs === inFlightGraceMs) this.onGrace();
    return super.setTimeout(fn, timeoutMs, ...args);
  }
}

t.test('a hub closes after its grace although the mail server does not answer, and cuts the connection', async (t) => {
  const server = createServer();
  const connection = once(server, 'connection') as Promise<[Socket]>;
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const clock = new ClosingClock('2026-02-03T04:05:06Z');
  const hub = await hubFor(t, { ...quiet, ...mailTo({ port }), HUB_NOTIFY_DISK_PERCENT: '100' }, { clock });
  await hub.settled();
  clock.advance(60_000);
  const [socket] = await within(30_000, connection, () => 'no mail is sent');
  t.teardown(() => socket.destroy());
  const cut = once(socket.resume(), 'close');
  const grace = new Promise<void>((resolve) => {
    clock.onGrace = resolve;
  });
  const closing = hub.close();
  await grace;
  clock.advance(inFlightGraceMs);
  await within(30_000, closing, () => 'the hub waits for the mail server');
  await within(30_000, cut, () => 'the connection stays');
});
