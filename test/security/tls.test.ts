/**
 * TLS of the hub's own: what it speaks, and that a renewed certificate is served without a restart.
 */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ConnectionOptions, connect } from 'node:tls';
import { freePort } from '../../src/sandbox/free-port.ts';
import { startChildHub } from '../support/child-hub.ts';
import { eventually } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';
import { otherCert, otherKey, testCert, testKey } from '../support/tls.ts';

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
