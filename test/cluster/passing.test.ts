/** What is passed to another node arrives as it was sent, once, and not for a caller who has gone. */

import { once } from 'node:events';
import http, { type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { WebSocket } from 'ws';
import { ChannelDoor } from '../../src/cluster/channel.ts';
import { Membership } from '../../src/cluster/membership.ts';
import type { SharedStore } from '../../src/cluster/node-parts.ts';
import { Passing } from '../../src/cluster/passing.ts';
import { createFrontServer, type HttpServerOptions } from '../../src/ocpi/http-server.ts';
import { clientAddresses, isTrusted } from '../../src/transport/client-connection.ts';
import { eventually } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';
import { welcome } from '../support/visitors.ts';
import { within } from '../support/within.ts';

const secret = 'of-the-nodes';
const path = '/ocpi/2.2.1/credentials';

const urlOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

async function listening(t: Test, answer: RequestListener, options: HttpServerOptions = {}): Promise<Server> {
  const server = createFrontServer(options, answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

/** A node that its peers reach by channels. */
async function listeningToNodes(t: Test, answer: RequestListener): Promise<Server> {
  const channels = new ChannelDoor([secret], createFrontServer({ isAmongNodes: true }, answer), () => {});
  const server = await listening(t, (_, response) => void response.writeHead(404).end());
  server.on('upgrade', (request, socket, head) => channels.accept(request, socket, head));
  t.teardown(() => channels.destroy());
  return server;
}

interface Seen extends Pick<IncomingMessage, 'method' | 'url' | 'headers'> {
  readonly body: string;
}

/** Two nodes, the first of which passes everything on to the second, which answers as `answer` says. */
async function scene(t: Test, answer: (seen: Seen, response: ServerResponse) => void, options: HttpServerOptions = {}) {
  const seen: Seen[] = [];
  /** Bodies of requests that ended there without an answer. */
  const dropped: string[] = [];
  const second = await listeningToNodes(t, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method, url, headers } = request;
      const one = { method, url, headers, body: Buffer.concat(chunks).toString('latin1') };
      seen.push(one);
      response.on('close', () => response.writableEnded || dropped.push(one.body));
      answer(one, response);
    });
  });
  const ended: string[] = [];
  const passing = new Passing({
    secrets: [secret],
    visitors: clientAddresses(['127.0.0.1']),
    passed: (how) => void ended.push(how),
    log: { warn() {} },
  });
  t.teardown(() => passing.close());
  const target = { id: 'second', url: urlOf(second) };
  /** Whether the connection of the last request is trusted. */
  let isLastTrusted = () => false;
  const pass: RequestListener = (request, response) => {
    isLastTrusted = () => isTrusted(request.socket);
    passing.pass(request, response, target);
  };
  const first = await listening(t, pass, options);
  return { first: urlOf(first), passing, seen, dropped, ended, isLastTrusted: () => isLastTrusted() };
}

function asking(url: string, to: string, length: number, headers: Record<string, string> = {}): http.ClientRequest {
  // The path as it is, and not as a part of a URL, which would be normalised.
  return http.request(url, { path: to, method: 'PUT', headers: { ...headers, 'content-length': length } });
}

async function answered(request: http.ClientRequest) {
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks).toString('latin1') };
}

const said = (url: string, body: string | Buffer, to = path, headers: Record<string, string> = {}) =>
  answered(asking(url, to, Buffer.byteLength(body), headers).end(body));

const echo = ({ body }: Seen, response: ServerResponse) =>
  void response.writeHead(201, { 'X-Of-Second': 'yes' }).end(Buffer.from(body, 'latin1'));

t.test('a request of any size arrives unchanged, and so does its answer', async (t) => {
  const { first, seen, ended } = await scene(t, echo);
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const to = '/ocpi/2.2.1/credentials/../a%2Fb//c?x=%00&y=%e9';
  const fields = { Authorization: 'Token abc', 'X-Request-ID': 'r1', constructor: 'one', Connection: 'keep-alive' };
  const answer = await said(first, bytes, to, fields);
  t.match(answer, { status: 201, body: bytes.toString('latin1'), headers: { 'x-of-second': 'yes' } });
  t.match(seen[0], { method: 'PUT', url: to, body: bytes.toString('latin1') });
  t.match(seen[0]?.headers, {
    authorization: 'Token abc',
    'x-request-id': 'r1',
    constructor: 'one',
    'x-ocpi-hub-client': '127.0.0.1',
  });
  const large = 'x'.repeat(1_000_000);
  t.ok((await said(first, large)).body === large);
  t.equal((await said(first, '')).body, '', 'nor does it need a body');
  t.strictSame(ended, ['answered', 'answered', 'answered']);
});

t.test('the peer receives the full address of an IPv6 caller', async (t) => {
  const { first, seen } = await scene(t, echo);
  await said(first, '', path, { 'X-Forwarded-For': '2001:db8:1:2:3:4:5:6' });
  t.equal(seen[0]?.headers['x-ocpi-hub-client'], '2001:db8:1:2:3:4:5:6');
});

t.test('a connection is trusted once the peer has accepted a token on it, but not one of a page', async (t) => {
  const { first, isLastTrusted } = await scene(t, (_, response) => void response.end());
  const open = ['/', '/console/', '/portal', '/portal/', '/portal/portal.js', '/portal/v1/session', '/readyz'];
  for (const [to, is] of [
    ...open.map((path) => [path, false] as const),
    ...['/admin/v1/status', '/portal/v1/caller', '/ocpi/versions'].map((path) => [path, true] as const),
  ]) {
    await said(first, '', to);
    t.equal(isLastTrusted(), is, to);
  }
});

t.test('a request without a body arrives without one, whether or not its caller says so', async (t) => {
  const { first, seen } = await scene(t, echo);
  for (const method of ['POST', 'DELETE', 'GET']) {
    const socket = connect(Number(new URL(first).port), '127.0.0.1');
    socket.write(`${method} ${path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n`);
    const chunks: Buffer[] = [];
    for await (const chunk of socket) chunks.push(chunk as Buffer);
    t.match(Buffer.concat(chunks).toString(), /^HTTP\/1\.1 201 /, method);
  }
  t.strictSame(
    seen.map(({ method, headers }) => [method, headers['content-length'], headers['transfer-encoding']]),
    [
      ['POST', '0', undefined],
      ['DELETE', '0', undefined],
      ['GET', undefined, undefined],
    ],
  );
});

t.test('a request whose answer is cut off is refused, and not sent again', async (t) => {
  const { first, seen, ended } = await scene(t, (_, response) => response.destroy());
  t.match(await said(first, 'cut'), { status: 503, headers: { 'retry-after': '1' } });
  t.equal(seen.length, 1);
  t.strictSame(ended, ['failed']);
});

t.test('requests do not wait for each other, and those in progress at a former owner are refused', async (t) => {
  const { first, passing, seen } = await scene(t, (one, response) => {
    if (one.body !== 'never') echo(one, response);
  });
  const under = said(first, 'never');
  await eventually('it is under way', () => seen.length === 1);
  t.equal((await said(first, 'next')).body, 'next');
  passing.keepOnly('another');
  t.equal((await under).status, 503);
});

t.test('an incomplete request is not executed, and one whose caller has gone is dropped', async (t) => {
  const { first, seen, dropped, ended } = await scene(t, ({ body }, response) => {
    if (body !== 'held') response.end();
  });
  const half = asking(first, path, 2);
  half.on('error', () => {});
  half.write('1');
  await said(first, '{}');
  half.destroy();
  await eventually('it has failed', () => ended.includes('failed'));
  const held = asking(first, path, 4);
  held.on('error', () => {});
  held.end('held');
  await eventually('it is under way', () => seen.some(({ body }) => body === 'held'));
  held.socket?.resetAndDestroy();
  await eventually('it was dropped there', () => dropped.includes('held'));
  t.strictSame(
    seen.map(({ body }) => body),
    ['{}', 'held'],
  );
});

t.test('an operator gets an answer even if it takes longer than a connection may be idle', async (t) => {
  const held: (() => void)[] = [];
  const hold = (one: Seen, response: ServerResponse) => void held.push(() => echo(one, response));
  const { first } = await scene(t, hold, { silenceMaxMs: 250 });
  const operator = said(first, 'operator', '/admin/v1/parties');
  await eventually('it is under way', () => held.length === 1);
  await t.rejects(said(first, 'partner'), { code: 'ECONNRESET' }, 'the limit has passed');
  held[0]?.();
  t.match(await operator, { status: 201, body: 'operator' });
});

t.test('routes between nodes are not reachable through a door', async (t) => {
  const { first, seen } = await scene(t, echo);
  for (const to of ['/cluster/v1/leaving/x', 'http://hub/cluster/v1/owns']) {
    t.equal((await said(first, '{}', to)).status, 503, to);
  }
  t.strictSame(seen, []);
});

t.test('the owner is found although another node never answers', async (t) => {
  let isOwner = true;
  const silent = await listeningToNodes(t, (_, response) => void (isOwner || response.destroy()));
  const owner = await listeningToNodes(t, (_, response) => void response.writeHead(isOwner ? 200 : 404).end());
  const { passing } = await scene(t, echo);
  const nodes = [silent, owner].map((server, i) => ({ id: `${i}`, name: '', url: urlOf(server), alive: true }));
  const membership = new Membership({ id: 'here', nodes: () => nodes } as unknown as SharedStore, passing);
  const hasOwner = () => within(30_000, membership.hasOwner(120_000), () => 'it waits for the silent node');
  t.ok(await hasOwner());
  isOwner = false;
  t.notOk(await hasOwner(), 'until both have ended');
});

t.test('[CHANNEL-4] a node whose URL in the database cannot be read is one that does not answer', async (t) => {
  for (const url of ['node-b:8082', 'http://192.0.2.256:8082']) {
    const { passing } = await scene(t, echo);
    const target = { id: 'odd', url };
    const front = await listening(t, (request, response) => passing.pass(request, response, target));
    front.on('upgrade', (request, socket, head) => passing.upgrade(request, socket, head, target));
    t.equal((await said(urlOf(front), '{}')).status, 503, url);
    const asked = new WebSocket(`${urlOf(front).replace('http', 'ws')}/admin/v1/inspector`);
    t.match((await once(asked, 'unexpected-response'))[1], { statusCode: 503 });
    t.equal(await passing.ask(target, 'GET', '/cluster/v1/owns', 60_000), null);
    await passing.ping(target, '/cluster/v1/head/1', 60_000);
    const store = { id: 'here', nodes: () => [{ ...target, name: '', alive: true }] };
    await new Membership(store as unknown as SharedStore, passing).tell('look');
  }
});

t.test('an upgrade that is cut before the peer accepted it is refused', async (t) => {
  const { passing } = await scene(t, echo);
  // It accepts the connection, and says nothing to it.
  const silent = createServer(() => {}).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.teardown(() => silent.close());
  const target = { id: 'silent', url: `https://127.0.0.1:${(silent.address() as AddressInfo).port}` };
  const front = await listening(t, (_, response) => void response.end());
  front.on('upgrade', (request, socket, head) => passing.upgrade(request, socket, head, target));
  const reached = once(silent, 'connection');
  const asked = new WebSocket(`${urlOf(front).replace('http', 'ws')}/admin/v1/inspector`);
  const refused = once(asked, 'unexpected-response');
  const [peer] = (await reached) as [Socket];
  t.teardown(() => peer.destroy());
  passing.endUpgrades();
  const [, answer] = (await refused) as [unknown, IncomingMessage];
  t.equal(answer.statusCode, 503);
});

t.test(
  'a peer answers before the whole request has arrived: the next request on that connection is answered, too',
  async (t) => {
    const second = await listeningToNodes(
      t,
      (_, response) => void response.writeHead(401, { 'Content-Length': 2 }).end('no'),
    );
    const passing = new Passing({ secrets: [secret], visitors: welcome, passed: () => {}, log: { warn() {} } });
    t.teardown(() => passing.close());
    const target = { id: 'second', url: urlOf(second) };
    const first = await listening(t, (request, response) => passing.pass(request, response, target));
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    t.teardown(() => agent.destroy());
    const body = Buffer.alloc(3_000_000);
    for (let i = 0; i < 5; i += 1) {
      const request = http.request(urlOf(first), {
        agent,
        path,
        method: 'PUT',
        headers: { 'content-length': body.length },
      });
      t.equal((await answered(request.end(body))).status, 401);
    }
  },
);
