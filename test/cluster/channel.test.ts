/** Channels between nodes: who gets one, what a tap sees of it, and what arrives that is none. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import http, { type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ChannelClient, ChannelDoor, channelPath, channelProtocol, refuseOutside } from '../../src/cluster/channel.ts';
import { createFrontServer } from '../../src/ocpi/http-server.ts';
import { isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { sentTo, tapOn } from '../support/tap-on.ts';

const [secret, former, other] = ['present', 'former', 'other'].map((name) => `${name}-secret`.padEnd(40, '.'));

async function nodeWith(t: Test, secrets: readonly (string | undefined)[]) {
  const refused: string[] = [];
  const inside = createFrontServer({}, (request, response) => void response.end(`${channels.isNode(request)}`));
  const known = secrets.flatMap((one) => one ?? []);
  const channels = new ChannelDoor(known, inside, ({ url = '' }) => void refused.push(url));
  const server = createFrontServer({}, refuseOutside).listen(0, '127.0.0.1') as Server;
  server.on('upgrade', (request, socket, head) => channels.accept(request, socket, head));
  await once(server, 'listening');
  t.teardown(() => {
    channels.destroy();
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, url: `http://127.0.0.1:${port}`, refused, channels };
}

async function asks(url: string, secrets: readonly (string | undefined)[], path = '/'): Promise<string> {
  const agent = new ChannelClient(secrets.flatMap((one) => one ?? [])).agent();
  try {
    const headers = { host: 'node', authorization: 'Token of-a-partner' };
    const [answer] = await once(http.get({ agent, channelTo: url, path, headers } as http.RequestOptions), 'response');
    const chunks: Buffer[] = [];
    for await (const chunk of answer as IncomingMessage) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).toString();
  } catch (error) {
    return (error as Error).message;
  } finally {
    agent.destroy();
  }
}

const refusal = 'the peer refused the channel with 401';

t.test('nodes with the same secret have a channel, also during a change of the secret', async (t) => {
  const node = await nodeWith(t, [secret]);
  t.equal(await asks(node.url, [secret]), 'true', 'what comes through it is of a node');
  t.equal(await asks(node.url, [other]), refusal);
  t.equal(await asks(node.url, [secret, former]), 'true');
  t.equal(await asks(node.url, [other, secret]), 'true', 'a node that has a newer secret asks with the former one');
  const changed = await nodeWith(t, [secret, former]);
  t.equal(await asks(changed.url, [former]), 'true', 'and accepts it');
  t.equal(await asks(changed.url, [secret]), 'true');
  t.equal(await asks(changed.url, [other]), refusal);
});

t.test('a tap on the network reads nothing, and its recording opens no channel', async (t) => {
  const node = await nodeWith(t, [secret]);
  const tap = await tapOn(t, node.port);
  t.equal(await asks(tap.url, [secret], '/of-a-path'), 'true');
  const seen = tap.seen();
  t.match(seen, channelPath, 'it saw the connection');
  for (const hidden of [`${secret}`, 'of-a-partner', '/of-a-path']) t.notOk(seen.includes(hidden), hidden);
  const [recorded] = tap.toServer();
  if (recorded === undefined) throw new Error('nothing was recorded');
  t.match(await sentTo(node.port, recorded), /^HTTP\/1\.1 401 /, 'the whole recording, sent again');
  const opening = recorded.subarray(0, recorded.indexOf('\r\n\r\n') + 4).toString('latin1');
  t.match(await sentTo(node.port, opening), /^HTTP\/1\.1 401 /, 'the opening request, sent again');
  const [, id = '', time = '', , mac = ''] = /x-ocpi-hub-node: (\S+) (\S+) (\S+) (\S+)/.exec(opening) ?? [];
  const forged = [
    `${id} ${time} ${randomBytes(16).toString('base64url')} ${mac}`,
    `${id} ${Number(time) + 1} fresh ${mac}`,
    `${id} ${time} fresh`,
    'unknown 1 2 3',
    '',
  ];
  for (const value of forged) {
    const request = opening.replace(/x-ocpi-hub-node: .*/, `x-ocpi-hub-node: ${value}`);
    t.match(await sentTo(node.port, request), /^HTTP\/1\.1 401 /, value);
  }
  t.match(await sentTo(node.port, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'), /^HTTP\/1\.1 401 /, 'as is everything else');
  t.equal(node.refused.length, 7, 'and each is counted');
});

t.test('a signed request that is too old is refused', async (t) => {
  const node = await nodeWith(t, [secret]);
  const now = Date.now;
  t.teardown(() => (Date.now = now));
  Date.now = () => now() - 6 * 60_000;
  const agent = new ChannelClient([secret ?? '']);
  const opening = new Promise((resolve) => agent.open(node.url, resolve));
  // The request is signed; it is judged by the true clock.
  Date.now = now;
  t.match(await opening, { status: 401 });
});

t.test('connections with random bytes, on and before a channel, 10,000 at length, end no process', async (t) => {
  const node = await nodeWith(t, [secret]);
  const head = `GET ${channelPath} HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: ${channelProtocol}\r\n`;
  const forms = [
    () => randomBytes(64),
    () => `GET /${randomBytes(8).toString('latin1')} HTTP/1.1\r\nHost: x\r\n\r\n`,
    () => `${head}x-ocpi-hub-node: ${randomBytes(20).toString('base64')}\r\n\r\n`,
    () => `${head}x-ocpi-hub-node: ${randomBytes(4).toString('hex')} 1 ${'n'.repeat(4000)} %\r\n\r\n`,
    () => `POST ${channelPath} HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n`,
    () => `CONNECT %:% HTTP/1.1\r\nHost: x\r\n\r\n`,
  ];
  const open = (n: number) => sentTo(node.port, forms[n % forms.length]?.() ?? '');
  const many = isAtLength ? 9_900 : 200;
  for (let from = 0; from < many; from += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, n) => open(from + n)));
  }
  // What a node with the secret may send: garbage for TLS, and garbage inside it.
  const garbage = (socket: { write(bytes: Buffer): unknown; destroy(): unknown }) => {
    socket.write(randomBytes(200));
    socket.destroy();
  };
  for (let n = 0; n < 100; n += 1) {
    await new Promise<void>((resolve) => {
      new ChannelClient([secret ?? '']).open(node.url, (_error, socket) => {
        if (socket)
          garbage(n % 2 === 0 ? socket : ((socket as unknown as { _parent?: typeof socket })._parent ?? socket));
        resolve();
      });
    });
  }
  t.equal(await asks(node.url, [secret]), 'true', 'the node goes on');
});
