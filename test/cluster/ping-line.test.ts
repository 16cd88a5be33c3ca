/** Pings go over one channel for as long as it serves, and what cannot be answered holds up none that follows. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { Pings } from '../../src/cluster/announcements.ts';
import { ChannelClient, ChannelDoor } from '../../src/cluster/channel.ts';
import { PingLine } from '../../src/cluster/ping-line.ts';
import { nextTurn } from '../../src/kit/system-clock.ts';
import { createFrontServer } from '../../src/ocpi/http-server.ts';
import { eventually } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

const secret = 'of-the-nodes';
const long = 60_000;

/** A node that answers pings by `answer`. */
async function nodeOf(t: Test) {
  const node = {
    url: '',
    got: [] as string[],
    channels: new Set<Duplex>(),
    opened: 0,
    answer: answered,
    cut: () => {},
  };
  const inside = createFrontServer({ isAmongNodes: true }, ({ method, url }, response) => {
    node.got.push(`${method} ${url}`);
    node.answer(response);
  });
  inside.on('connection', () => (node.opened += 1));
  const door = new ChannelDoor([secret], inside, () => {});
  const server = createFrontServer({}, (_, response) => void response.writeHead(404).end()).listen(0, '127.0.0.1');
  server.on('upgrade', (request, socket, head) => {
    node.channels.add(socket);
    door.accept(request, socket, head);
  });
  await once(server, 'listening');
  node.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  node.cut = () => {
    for (const channel of node.channels) channel.destroy();
    node.channels.clear();
  };
  t.teardown(() => {
    node.cut();
    server.close();
  });
  return node;
}

const answered = (response: ServerResponse): void => void response.end('{}');

function lineOf(t: Test): PingLine {
  const line = new PingLine(new ChannelClient([secret]));
  t.teardown(() => line.close());
  return line;
}

/** Pings to a node; `last` resolves when the ping that was sent last has ended. */
function pingsOn(line: PingLine, url: string) {
  let ended = Promise.resolve();
  const pings = new Pings((head) => {
    ended = line.ping(url, `/${head}`, long);
    return ended;
  });
  return { pings, last: () => ended };
}

t.test('pings to one node share a channel; another node gets one of its own [PING-LINE-1]', async (t) => {
  const [first, second] = [await nodeOf(t), await nodeOf(t)];
  const line = lineOf(t);
  for (const seq of [1, 2, 3]) await line.ping(first.url, `/cluster/v1/head/${seq}`, long);
  t.strictSame(
    first.got,
    [1, 2, 3].map((seq) => `POST /cluster/v1/head/${seq}`),
  );
  t.equal(first.opened, 1);
  await line.ping(second.url, '/cluster/v1/head/4', long);
  t.strictSame(second.got, ['POST /cluster/v1/head/4']);
});

t.test('a channel that ends is opened again; the ping on it is lost at most [PING-LINE-2]', async (t) => {
  const node = await nodeOf(t);
  const line = lineOf(t);
  await line.ping(node.url, '/1', long);
  node.answer = () => node.cut();
  await line.ping(node.url, '/2', long);
  node.answer = answered;
  await line.ping(node.url, '/3', long);
  t.strictSame([node.got, node.opened], [['POST /1', 'POST /2', 'POST /3'], 2]);
});

t.test('a ping without an answer in time ends its channel, and the next one goes [PING-LINE-2]', async (t) => {
  const node = await nodeOf(t);
  const line = lineOf(t);
  node.answer = () => {};
  await line.ping(node.url, '/1', 500);
  node.answer = answered;
  await line.ping(node.url, '/2', long);
  t.same([node.got.at(-1), node.opened], ['POST /2', 2]);
});

t.test('what is written while a ping is in flight opens no channel after the close [PING-LINE-3]', async (t) => {
  const node = await nodeOf(t);
  const line = lineOf(t);
  const { pings, last } = pingsOn(line, node.url);
  node.answer = () => {};
  pings.written(1);
  await eventually('the ping has come', async () => node.got.length === 1);
  const first = last();
  node.answer = answered;
  pings.written(2);
  line.close();
  await first;
  await nextTurn();
  await last();
  t.strictSame([node.got, node.opened], [['POST /1'], 1]);
});

t.test('a node that refuses the channel, or is not there, holds up nothing', async (t) => {
  const node = await nodeOf(t);
  const stranger = new PingLine(new ChannelClient(['another secret']));
  await stranger.ping(node.url, '/1', long);
  await stranger.ping(node.url, '/2', long);
  t.strictSame(node.got, []);
  const line = lineOf(t);
  await line.ping('http://127.0.0.1:1', '/1', long);
  await line.ping(node.url, '/2', long);
  t.strictSame(node.got, ['POST /2']);
});

t.test(
  'after the log went back its heads are sent again, those of one message once [ANNOUNCEMENTS-1, ANNOUNCEMENTS-2]',
  async (t) => {
    const node = await nodeOf(t);
    const line = lineOf(t);
    const { pings, last } = pingsOn(line, node.url);
    for (const head of [98, 99, 100]) pings.written(head);
    await eventually('the ping has come', async () => node.got.length === 2);
    await last();
    await nextTurn();
    pings.written(91);
    await last();
    t.strictSame(node.got, ['POST /98', 'POST /100', 'POST /91']);
  },
);
