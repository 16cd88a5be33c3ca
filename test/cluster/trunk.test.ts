/**
 * What is passed to another node over the one connection that small requests share: it arrives as it was sent, beside the others and not
 * behind them, and where there is no such connection it arrives all the same.
 */
import { once } from 'node:events';
import http, { type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { WebSocket, WebSocketServer } from 'ws';
import { hopHeader } from '../../src/cluster/hop.ts';
import { Passing } from '../../src/cluster/passing.ts';
import { TrunkEnds, Trunks, trunkPath } from '../../src/cluster/trunk.ts';
import { createFrontServer } from '../../src/ocpi/http-server.ts';
import { Link } from '../support/link.ts';
import { eventually } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

const secret = 'of-the-nodes';
const log = { warn() {} };
const path = '/ocpi/2.2.1/sessions/NL/CPO/S1';

const urlOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

async function listening(t: Test, answer: RequestListener): Promise<Server> {
  const server = createFrontServer({}, answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  /** Of its own, and not of the connection that others share. */
  readonly isSingle: boolean;
}

/** Two nodes, the first of which passes everything on to the second, which answers as `answer` says. */
async function scene(
  t: Test,
  answer: (seen: Seen, response: ServerResponse) => void,
  { takesTrunks = true, isLinked = false, beatMs = 3000 } = {},
) {
  const seen: Seen[] = [];
  /** Bodies of requests that ended there without an answer. */
  const dropped: string[] = [];
  const singles = new Set<Socket>();
  const upgrades = { asked: 0 };
  const handle: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method, url, headers, socket } = request;
      const one = {
        method,
        url,
        headers,
        body: Buffer.concat(chunks).toString('latin1'),
        isSingle: singles.has(socket),
      };
      if (url !== '/healthz') seen.push(one);
      response.on('close', () => response.writableEnded || dropped.push(one.body));
      answer(one, response);
    });
  };
  const second = await listening(t, handle);
  second.on('connection', (socket: Socket) => void singles.add(socket));
  const ends = new TrunkEnds(handle, secret, log, 60_000);
  t.teardown(() => {
    ends.close();
    ends.cut();
  });
  second.on('upgrade', (request, socket, head) => {
    upgrades.asked += 1;
    if (!takesTrunks || request.headers[hopHeader] !== secret || request.url !== trunkPath) {
      return void socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n');
    }
    ends.upgrade(request, socket, head);
  });
  const ended: string[] = [];
  const warned: string[] = [];
  const telling = { warn: ({ err }: { err?: Error }) => void warned.push(err?.message ?? '') };
  const passing = new Passing({ secret, passed: (how) => void ended.push(how), log: telling, beatMs });
  t.teardown(() => passing.close());
  const link = await Link.to(t, (second.address() as AddressInfo).port);
  const target = { id: 'second', url: isLinked ? `http://127.0.0.1:${link.port}` : urlOf(second) };
  const first = await listening(t, (request, response) => passing.pass(request, response, target));
  const put = (body: string | Buffer, fields: Record<string, string | string[]> = {}, to = path) =>
    said(urlOf(first), to, 'PUT', body, fields);
  return {
    ...{ first: urlOf(first), passing, ends, link, seen, dropped, upgrades, ended, warned, put },
    /** Resolves when requests go over the trunk. */
    async joined() {
      await eventually('requests share a connection', async () => {
        await put('{}');
        return seen.at(-1)?.isSingle === false;
      });
      seen.length = 0;
      ended.length = 0;
    },
  };
}

async function said(
  url: string,
  to: string,
  method: string,
  body: string | Buffer = '',
  headers: Record<string, string | string[]> = {},
): Promise<{ status: number; headers: IncomingMessage['headers']; body: string }> {
  const length = String(Buffer.byteLength(body));
  // Not as a part of a URL, which would be normalised.
  const request = http.request(url, { path: to, method, headers: { ...headers, 'content-length': length } });
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: Buffer.concat(chunks).toString('latin1'),
  };
}

const echo = ({ body }: Seen, response: ServerResponse) =>
  void response.writeHead(201, { 'X-Of-Second': 'yes' }).end(Buffer.from(body, 'latin1'));

t.test('a small change arrives as it was sent, and so does its answer', async (t) => {
  const { put, seen, ended, joined } = await scene(t, echo);
  await joined();
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const to = '/ocpi/2.2.1/sessions/NL/CPO/../a%2Fb//c?x=%00&y=é'.replace('é', '%e9');
  const answer = await put(bytes, { Authorization: 'Token abc', 'X-Request-ID': 'r1', constructor: 'one' }, to);
  t.match(answer, { status: 201, body: bytes.toString('latin1'), headers: { 'x-of-second': 'yes' } });
  const [one] = seen;
  t.match(one, { method: 'PUT', url: to, body: bytes.toString('latin1'), isSingle: false });
  t.match(one?.headers, { authorization: 'Token abc', 'x-request-id': 'r1', constructor: 'one', [hopHeader]: secret });
  t.strictSame(ended, ['answered']);
  t.equal((await put('')).body, '', 'nor does it need a body');
});

t.test('many that come together share a connection, and none waits for another', async (t) => {
  let goOn = () => {};
  const { put, seen, upgrades, joined } = await scene(t, (one, response) => {
    if (one.body === 'slow') goOn = () => echo(one, response);
    else echo(one, response);
  });
  await joined();
  const slow = put('slow');
  const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => put(`${i}`, {}, `${path}${i}`)));
  t.strictSame(
    answers.map(({ body }) => body),
    Array.from({ length: 200 }, (_, i) => `${i}`),
  );
  t.equal(seen.filter(({ isSingle }) => isSingle).length, 0);
  t.equal(upgrades.asked, 1);
  goOn();
  t.equal((await slow).body, 'slow');
});

t.test('what is large, has a field twice, reads, or is not of a partner goes by itself', async (t) => {
  const { first, put, seen, joined } = await scene(t, echo);
  await joined();
  const large = 'x'.repeat(65_537);
  t.equal((await put(large)).body, large);
  t.equal((await put('{}', { 'x-twice': ['1', '2'] })).status, 201);
  t.equal((await said(first, path, 'GET')).status, 201);
  t.equal((await said(first, '/admin/v1/parties', 'POST', '{}')).status, 201);
  t.strictSame(
    seen.map(({ isSingle }) => isSingle),
    [true, true, true, true],
  );
});

t.test('with a node that takes no such connection everything goes singly', async (t) => {
  const { put, seen, upgrades } = await scene(t, echo, { takesTrunks: false });
  for (let i = 0; i < 5; i++) t.equal((await put(`${i}`)).body, `${i}`);
  t.ok(seen.every(({ isSingle }) => isSingle));
  t.ok(upgrades.asked > 0 && upgrades.asked < 5, 'it is asked, and not each time');
});

t.test('when the connection ends, what is under way is refused and not sent again; the next ones go on', async (t) => {
  const { put, seen, ends, ended, joined } = await scene(t, (one, response) => {
    if (one.body !== 'never') echo(one, response);
  });
  await joined();
  const under = put('never');
  await eventually('it is under way', () => seen.length === 1);
  ends.cut();
  t.match(await under, { status: 503, headers: { 'retry-after': '1' } });
  t.strictSame(ended, ['failed']);
  t.equal((await put('next')).body, 'next');
  t.equal(seen.filter(({ body }) => body === 'never').length, 1);
  await joined();
});

t.test('an answer that is cut off there is a refusal here', async (t) => {
  const { put, joined } = await scene(t, ({ body }, response) => {
    if (body === 'cut') response.destroy();
    else response.end();
  });
  await joined();
  t.equal((await put('cut')).status, 503);
});

/** A request of which one byte of two has been sent. */
function half(url: string): http.ClientRequest {
  const request = http.request(url, { path, method: 'PUT', headers: { 'content-length': '2' } });
  request.on('error', () => {});
  request.write('1');
  return request;
}

t.test(
  'nothing is sent of what does not come whole, and what does is sent after the connection has ended, too',
  async (t) => {
    const { first, ends, put, seen, joined } = await scene(t, echo);
    await joined();
    const [gone, late] = [half(first), half(first)];
    await put('{}');
    gone.destroy();
    ends.cut();
    await eventually('it goes singly', async () => {
      await put('{}');
      return seen.at(-1)?.isSingle === true;
    });
    late.end('2');
    const [answer] = (await once(late, 'response')) as [IncomingMessage];
    t.equal(answer.statusCode, 201);
    t.strictSame([...new Set(seen.map(({ body }) => body))].sort(), ['12', '{}']);
  },
);

t.test('what nobody waits for any more is not done later', async (t) => {
  const { first, ends, put, dropped, joined } = await scene(t, ({ body }, response) => {
    if (body !== '11' && body !== 'held') response.end();
  });
  await joined();
  const gone = half(first);
  gone.end('1');
  await eventually('it is under way', async () => (await put('{}')).status === 200);
  gone.destroy();
  await eventually('it was dropped there', () => dropped.includes('11'));
  t.equal((await put('{}')).status, 200, 'the others go on');
  const held = put('held');
  await put('{}');
  ends.cut();
  t.equal((await held).status, 503);
  await eventually('it was dropped there, too', () => dropped.includes('held'));
});

t.test('a body that nobody has read is read no more when nobody waits', async (t) => {
  const read: string[] = [];
  const waiting: (() => void)[] = [];
  const second = await listening(t, (_, response) => void response.end());
  const ends = new TrunkEnds(
    (request, response) => {
      if (request.headers['x-wait'] === undefined) return void response.end();
      // As a door does that makes a push wait.
      waiting.push(() => {
        request.on('data', (chunk: Buffer) => read.push(String(chunk)));
        request.on('end', () => response.end());
        request.on('error', () => {});
      });
    },
    secret,
    log,
  );
  t.teardown(() => ends.cut());
  second.on('upgrade', (request, socket, head) => ends.upgrade(request, socket, head));
  const trunks = new Trunks(secret, log);
  t.teardown(() => trunks.close());
  const target = { id: 'second', url: urlOf(second) };
  await eventually('it is open', () => trunks.to(target) !== null);
  const ask = (body: string, fields: string[] = ['x-wait', '1']) => {
    const asked = trunks.to(target)?.ask({ method: 'PUT', url: path, fields, body: Buffer.from(body) });
    if (asked === undefined) throw new Error('it is not open');
    return asked;
  };
  const [gone, kept] = [ask('gone'), ask('kept')];
  await eventually('both wait', () => waiting.length === 2);
  gone.forget();
  await ask('', []).answer;
  for (const goOn of waiting.splice(0)) goOn();
  t.equal((await kept.answer).status, 200);
  const last = ask('last');
  last.answer.catch(() => {});
  await eventually('it waits', () => waiting.length === 1);
  ends.cut();
  await t.rejects(last.answer);
  await new Promise((resolve) => setImmediate(resolve));
  for (const goOn of waiting) goOn();
  await new Promise((resolve) => setTimeout(resolve, 100));
  t.strictSame(read, ['kept']);
});

t.test('an end that closes answers first what is under way', async (t) => {
  let goOn = () => {};
  const { ends, put, seen, joined } = await scene(t, (one, response) => {
    if (one.body === 'slow') goOn = () => echo(one, response);
    else echo(one, response);
  });
  await joined();
  const slow = put('slow');
  await eventually('it is under way', () => seen.length === 1);
  ends.close();
  goOn();
  t.match(await slow, { status: 201, body: 'slow' });
  await eventually('it has ended', async () => {
    await put('{}');
    return seen.at(-1)?.isSingle === true;
  });
});

t.test('a connection on which nothing comes through is given up, though the node is there', async (t) => {
  const { put, link, seen, warned, joined } = await scene(t, echo, { isLinked: true, beatMs: 100 });
  await joined();
  link.hold('both');
  t.equal((await put('lost')).status, 503);
  t.strictSame(warned, ['the connection to the peer ended'], 'this end has noticed');
  // Those that were kept for single requests are held up as well.
  link.lose();
  await eventually('the next ones go on', async () => (await put('next')).status === 201);
  t.notOk(seen.some(({ body }) => body === 'lost'));
});

t.test('what is asked in one turn is one message, up to a size', async (t) => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', path: trunkPath });
  t.teardown(() => server.close());
  await once(server, 'listening');
  const sizes: number[] = [];
  server.on('connection', (socket) =>
    socket.on('message', (data) => {
      const questions = JSON.parse(String(data)) as [number][];
      sizes.push(questions.length);
      socket.send(JSON.stringify(questions.map(([id]) => [id, 200, [], `${id}`]).reverse()));
    }),
  );
  const trunks = new Trunks(secret, log);
  t.teardown(() => trunks.close());
  const target = { id: 'second', url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/a/path` };
  await eventually('it is open', () => trunks.to(target) !== null);
  const ask = (body: string) =>
    trunks.to(target)?.ask({ method: 'PUT', url: path, fields: [], body: Buffer.from(body) });
  const asked = Array.from({ length: 50 }, () => ask('{}')?.answer);
  const answers = await Promise.all(asked);
  t.strictSame(sizes, [50]);
  t.strictSame(
    answers.map((answer) => String(answer?.body)),
    Array.from({ length: 50 }, (_, i) => `${i + 1}`),
  );
  const large = 'x'.repeat(600_000);
  await Promise.all([ask(large)?.answer, ask(large)?.answer, ask('{}')?.answer]);
  t.strictSame(sizes.slice(1), [2, 1]);
  const many = Array.from({ length: 300 }, () => ask('{}')?.answer);
  t.equal(many.filter(Boolean).length, 256, 'more than it takes go another way');
  await Promise.all(many);
});

t.test('an answer that cannot be given on is a refusal', async (t) => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', path: trunkPath });
  t.teardown(() => server.close());
  await once(server, 'listening');
  let answer: unknown[] = [];
  server.on('connection', (socket) =>
    socket.on('message', (data) => {
      for (const [id] of JSON.parse(String(data)) as [number][]) socket.send(JSON.stringify([[id, ...answer]]));
    }),
  );
  const ended: string[] = [];
  const passing = new Passing({ secret, passed: (how) => void ended.push(how), log });
  t.teardown(() => passing.close());
  const target = { id: 'second', url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  const first = await listening(t, (request, response) => passing.pass(request, response, target));
  const status = async () => (await said(urlOf(first), path, 'PUT', '{}')).status;
  answer = [201, [], ''];
  // Singly it meets what is no hub.
  await eventually('requests go over the trunk', async () => (await status()) === 201);
  ended.length = 0;
  const wrong = [
    [20, [], ''],
    [201, ['a b', 'c'], ''],
    [201, ['a', 'b\n'], ''],
    [0, [], ''],
  ];
  for (answer of wrong) t.equal(await status(), 503, JSON.stringify(answer));
  t.strictSame(ended, ['failed', 'failed', 'failed', 'failed']);
  answer = [201, [], ''];
  t.equal(await status(), 201, 'the connection goes on');
});

t.test('what nodes alone ask of each other is passed on for nobody', async (t) => {
  const { first, seen, joined } = await scene(t, echo);
  await joined();
  for (const to of ['/cluster/v1/leaving/x', 'http://hub/cluster/v1/owns', trunkPath]) {
    t.equal((await said(first, to, 'POST', '{}')).status, 503, to);
  }
  t.strictSame(seen, []);
});

t.test('an upgrade that is cut before the peer has taken it is refused', async (t) => {
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

t.test('who says what is no list of requests, or shows no life, is cut off', async (t) => {
  const warned: string[] = [];
  const telling = { warn: (_: object, message: string) => void warned.push(message) };
  const ends = new TrunkEnds((_, response) => void response.end(), secret, telling, 400);
  const server = await listening(t, (_, response) => void response.end());
  server.on('upgrade', (request, socket, head) => ends.upgrade(request, socket, head));
  const cutOff = async (text: string) => {
    const socket = new WebSocket(urlOf(server).replace('http', 'ws'));
    await once(socket, 'open');
    socket.send(text);
    await once(socket, 'close');
    return warned.splice(0).length;
  };
  for (const text of ['{', '{}', '1', '[1]', '[[1,2,3,4,5]]']) t.equal(await cutOff(text), 1, `${text} is told`);
  t.equal(await cutOff('[]'), 0, 'there is nothing to be told of silence');
  const living = new WebSocket(urlOf(server).replace('http', 'ws'));
  t.teardown(() => living.terminate());
  await once(living, 'open');
  for (let i = 0; i < 20; i++) {
    living.ping();
    await once(living, 'pong');
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  t.equal(living.readyState, WebSocket.OPEN, 'who does is not');
});
