/**
 * Connections that nobody uses, more of them than the hub has descriptors: they end nothing and keep nobody out.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { builtHub, startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { admin, eventually, plainPartner } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

const descriptors = 256;
const count = 600;

/** Connections on which `first` was sent and that stay open until the other side ends them. */
async function opened(t: Test, url: string, first: string): Promise<Socket[]> {
  const { hostname: host, port } = new URL(url);
  const sockets: Socket[] = [];
  for (let n = 0; n < count; n++) {
    const socket = connect({ host, port: Number(port) }).on('error', () => socket.destroy());
    sockets.push(socket);
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
    if (first !== '' && !socket.destroyed) socket.write(first);
  }
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  return sockets;
}

t.test('more idle connections than descriptors neither end the hub nor lock a partner out', atLength, async (t) => {
  const hub = await startChildHub({
    dataDir: directoryFor(t),
    port: 0,
    run: ['/bin/sh', '-c', `ulimit -n ${descriptors}; exec "$@"`, 'sh', ...builtHub],
  });
  t.teardown(() => hub.kill());
  const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  t.teardown(() => cpo.close());
  await cpo.register(hub);
  const isServed = async (when: string) => {
    for (let n = 0; n < 20; n++) t.equal((await cpo.call('GET', '/2.2.1/credentials')).status, 200, when);
    t.match(await admin(hub, 'GET', '/status'), { ready: true }, when);
    const metrics = await fetch(`${hub.url}/metrics`, { headers: { authorization: `Bearer ${hub.adminToken}` } });
    t.match(await metrics.text(), /^nodejs_heap_size_used_bytes /m, when);
  };
  await isServed('before');
  const silent = await opened(t, hub.url, '');
  await isServed('with connections that never send anything');
  const left = () => silent.filter(({ destroyed }) => !destroyed).length;
  await eventually('this process has heard which were closed', () => left() < descriptors);
  await opened(t, hub.url, 'GET /healthz HTTP/1.1\r\nHost: hub\r\n\r\n');
  await isServed('with connections that were used once');
  await opened(t, hub.url, 'PUT /ocpi/2.2.1/sessions/NL/CPO/1 HTTP/1.1\r\nHost: hub\r\nContent-Length: 10\r\n\r\n');
  await isServed('with connections of strangers');
  t.equal(await hub.stop(), 0, 'the same process all along, which ends in good order');
});
