/** Mail over TLS: the certificate of the mail server is verified, and a password leaves this machine over TLS alone. */
import { join } from 'node:path';
import { freePort } from '../../src/sandbox/free-port.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { type SmtpSink, smtpSink } from '../support/smtp-sink.ts';
import { type Test, t } from '../support/tap.ts';
import { testCert } from '../support/tls.ts';

const password = 'the-password-of-the-mail';

const mailTo = ({ port }: SmtpSink, scheme: string, host: string) => ({
  HUB_SMTP_URL: `${scheme}://hub:${password}@${host}:${port}`,
  HUB_MAIL_FROM: 'hub@example.com',
  HUB_MAIL_TO: 'ops@example.com',
});

/** A hub that trusts the certificates of a file besides those of its system: Node reads them at the start of a process. */
async function trusting(t: Test, env: Record<string, string>, file: string | null) {
  const dataDir = directoryFor(t);
  const trusts = file === null ? {} : { NODE_EXTRA_CA_CERTS: file };
  const hub = await startChildHub({ dataDir, port: await freePort(), env: { ...env, ...trusts } });
  t.teardown(() => hub.kill());
  return hub;
}

for (const [scheme, tls] of [
  ['smtps', 'smtps'],
  ['smtp', 'starttls'],
] as const) {
  t.test(
    `a mail goes over ${tls} to a server whose certificate is trusted, and to no other`,
    tls === 'starttls' ? {} : atLength,
    async (t) => {
      const sink = await smtpSink(t, password, { tls });
      const env = mailTo(sink, scheme, 'localhost');
      const ca = join(t.testdir({ 'ca.pem': testCert }), 'ca.pem');
      const [knows, knowsNot] = await Promise.all([trusting(t, env, ca), trusting(t, env, null)]);

      const refused = await admin(knowsNot, 'POST', '/webhooks/mail/test');
      t.match(refused, { ok: false, answer: /self-signed certificate/ });
      t.strictSame(sink.passwords, [], 'no password was sent');

      t.match(await admin(knows, 'POST', '/webhooks/mail/test'), { ok: true });
      t.match(sink.mails, [{ from: 'hub@example.com', to: ['ops@example.com'], text: /this is a test/ }]);
      t.strictSame(sink.passwords, [{ given: password, isOverTls: true }]);
    },
  );
}

t.test('a password goes to another machine over TLS or not at all', async (t) => {
  const sink = await smtpSink(t, password);
  // The hub takes 0.0.0.0 for another machine; this system connects it with itself.
  const hub = await hubFor(t, mailTo(sink, 'smtp', '0.0.0.0'));
  const tested = await admin(hub, 'POST', '/webhooks/mail/test');
  t.match(tested, { ok: false, answer: /STARTTLS/ });
  t.strictSame(sink.passwords, [], 'no password was sent');
  const local = await hubFor(t, mailTo(sink, 'smtp', '127.0.0.1'));
  t.match(await admin(local, 'POST', '/webhooks/mail/test'), { ok: true });
  t.strictSame(sink.passwords, [{ given: password, isOverTls: false }], 'this machine gets it plain');
});
