/**
 * TLS of the hub's own: what it speaks, and that a renewed certificate is served without a restart.
 */
import { spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type ConnectionOptions, connect } from 'node:tls';
import { freePort } from '../../src/sandbox/free-port.ts';
import { startChildHub } from '../support/child-hub.ts';
import { command } from '../support/command.ts';
import { eventually } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';
import { endedCert, otherCert, otherKey, testCert, testKey } from '../support/tls.ts';

interface Met {
  readonly protocol: string | null;
  readonly fingerprint: string;
  readonly cipher: string;
}

/** What a handshake comes to; its error when none does. */
async function handshake(port: number, options: ConnectionOptions = {}): Promise<Met | string> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options });
  try {
    await once(socket, 'secureConnect');
    const { fingerprint256: fingerprint } = socket.getPeerCertificate();
    return { protocol: socket.getProtocol(), fingerprint, cipher: socket.getCipher().name };
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  } finally {
    socket.destroy();
  }
}

t.test('TLS 1.2 with forward secrecy or better, and a renewed certificate on SIGHUP', async (t) => {
  const directory = t.testdir({ 'cert.pem': testCert, 'key.pem': testKey });
  const [cert, key] = [join(directory, 'cert.pem'), join(directory, 'key.pem')];
  const port = await freePort();
  const env = { HUB_TLS_CERT: cert, HUB_TLS_KEY: key };
  const hub = await startChildHub({ dataDir: join(directory, 'data'), port, env });
  t.teardown(() => hub.kill());
  t.match(hub.url, /^https:/);
  const served = (pem: string) => ({ fingerprint: new X509Certificate(pem).fingerprint256 });

  t.match(await handshake(port), { protocol: 'TLSv1.3', ...served(testCert) });
  t.match(await handshake(port, { maxVersion: 'TLSv1.2' }), { protocol: 'TLSv1.2', cipher: /^ECDHE-.*(GCM|POLY1305)/ });
  const refused = (name: string, options: ConnectionOptions) =>
    handshake(port, options).then((met) => t.match(met, /^(ERR_SSL|ECONNRESET)/, `${name} is refused`));
  const old = 'ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384:AES128-GCM-SHA256:AES128-SHA@SECLEVEL=0';
  await refused('a cipher of the past', { maxVersion: 'TLSv1.2', ciphers: old });
  await refused('a key exchange with a large prime, a tenth of a second of the thread', { ecdhCurve: 'ffdhe8192' });
  const ciphers = 'DEFAULT@SECLEVEL=0';
  await refused('TLS 1.1', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers });

  writeFileSync(cert, otherCert);
  process.kill(hub.pid, 'SIGHUP');
  await eventually('it has looked', () => hub.log().includes('the certificate in use stays'));
  t.match(
    hub.log(),
    /HUB_TLS_KEY .* expected a file with the private key of HUB_TLS_CERT/,
    'half a renewal is no renewal',
  );
  t.match(await handshake(port), served(testCert), 'the old one is served on');

  writeFileSync(key, otherKey);
  process.kill(hub.pid, 'SIGHUP');
  await eventually('it has read it', () => hub.log().includes('certificate re-read'));
  t.match(await handshake(port), { protocol: 'TLSv1.3', ...served(otherCert) });
  t.match(
    await handshake(port, { maxVersion: 'TLSv1.2', ciphers: old }),
    /^(ERR_SSL|ECONNRESET)/,
    'under the same rules',
  );
  t.equal(await hub.stop(), 0);
});

t.test('an expired certificate is named in the log of the start, on SIGHUP and by a command', async (t) => {
  const directory = t.testdir({ 'cert.pem': endedCert, 'key.pem': testKey, 'trusted.pem': testCert });
  const [cert, key] = [join(directory, 'cert.pem'), join(directory, 'key.pem')];
  const port = await freePort();
  const env = { HUB_TLS_CERT: cert, HUB_TLS_KEY: key };
  const hub = await startChildHub({ dataDir: join(directory, 'data'), port, env });
  t.teardown(() => hub.kill());
  const ended =
    'the certificate of HUB_TLS_CERT ended on 2021-01-01: callers refuse the connection until it is renewed';
  t.ok(hub.log().includes(`"level":"warn"`) && hub.log().includes(`"msg":"${ended}"`));
  process.kill(hub.pid, 'SIGHUP');
  await eventually('it says so again', () => hub.log().includes(`ocpi-hub: certificate re-read: ${ended}\n`));

  const status = async (url: string, trusted?: string) => {
    const env = { PATH: process.env.PATH, ...(trusted && { NODE_EXTRA_CA_CERTS: join(directory, trusted) }) };
    const args = [command, 'status', '--url', url, '--token', hub.adminToken];
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    const [said] = await Promise.all([text(child.stderr), once(child, 'close')]);
    return said;
  };
  const refused = `ocpi-hub: the certificate of the hub at ${hub.url} is not accepted`;
  const renew = 'it has ended: renew that of the hub (HUB_TLS_CERT), or of its proxy';
  t.equal(await status(hub.url, 'cert.pem'), `${refused} (CERT_HAS_EXPIRED): ${renew}\n`);
  writeFileSync(cert, testCert);
  process.kill(hub.pid, 'SIGHUP');
  await eventually('the renewed one is served', () => hub.log().endsWith('ocpi-hub: certificate re-read\n'));
  const untrusted = 'NODE_EXTRA_CA_CERTS names a file with the CA that signed it';
  t.equal(await status(hub.url), `${refused} (DEPTH_ZERO_SELF_SIGNED_CERT): ${untrusted}\n`);
  t.match(
    await status(hub.url.replace('https:', 'http:')),
    /\(ECONNRESET\): does it run there, without TLS\? --url or/,
  );
  t.equal(await status(hub.url, 'trusted.pem'), '', 'one that is valid and trusted is taken');
});
