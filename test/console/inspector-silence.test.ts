/** Readers that show no life, do not say goodbye, or may not watch any more: of the inspector alone, on a server of the test, with beats that come fast. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { createInspector, type Inspector } from '../../src/console/inspector.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { inspect, path } from './inspected.ts';

interface Alone {
  readonly inspector: Inspector;
  readonly url: string;
  readonly adminToken: string;
  readonly readers: () => number;
  /** Of every token from now on; null: none counts. */
  role: 'admin' | 'viewer' | null;
}

async function alone(t: Test, isReady = true): Promise<Alone> {
  const hub = await hubFor(t);
  await routedPair(t, hub);
  let readers = 0;
  const inspector = createInspector(hub.created.hub.operations, {
    allow: () => {
      if (own.role === null) throw refusal(401, 'no such token');
      return own.role;
    },
    masked: (message: object) => message,
    isHere: () => true,
    refusal,
    ...{ isReady: () => isReady, publicUrl: hub.url, clock: systemClock, beatMs: 250 },
    meter: {
      readers: (count) => {
        readers = count;
      },
      sent: () => {},
      missed: () => {},
    },
    log: { info: () => {}, error: (fields) => t.fail('a bug', fields) },
  });
  const server = createServer().on('upgrade', inspector.upgrade).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    await inspector.close();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const own: Alone = { inspector, url, adminToken: 'any', readers: () => readers, role: 'admin' };
  return own;
}

const refusal = (status: number, detail: string, { headers } = { headers: {} }) => ({
  status,
  headers,
  toJson: () => ({ status, detail }),
});

/** Shakes hands and says nothing more; it answers no ping. */
async function silent(
  t: Test,
  { url }: Alone,
): Promise<{ socket: Socket; isClosed: () => boolean; head: () => string }> {
  const { host, port } = new URL(url);
  const socket = connect(Number(port), '127.0.0.1');
  t.teardown(() => socket.destroy());
  let head = '';
  let isClosed = false;
  socket.on('data', (data) => {
    head ||= String(data);
  });
  socket.on('close', () => {
    isClosed = true;
  });
  const key = 'AAAAAAAAAAAAAAAAAAAAAA==';
  const lines = [
    ...[`GET ${path} HTTP/1.1`, `Host: ${host}`, 'Connection: Upgrade', 'Upgrade: websocket'],
    ...['Sec-WebSocket-Version: 13', `Sec-WebSocket-Key: ${key}`],
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  await eventually('it is answered', () => head !== '');
  return { socket, isClosed: () => isClosed, head: () => head };
}

t.test('a reader that answers no ping is cut, one that does stays connected', atLength, async (t) => {
  const door = await alone(t);
  const living = await inspect(t, door);
  const dead = await silent(t, door);
  t.match(dead.head(), /^HTTP\/1\.1 101 /);
  t.equal(door.readers(), 2);
  await eventually('it is cut', () => dead.isClosed() && door.readers() === 1);
  let pings = 0;
  living.socket.on('ping', () => pings++);
  await eventually('many beats later', () => pings > 5);
  t.equal(living.ended(), null, 'who answers is still there');
});

t.test('[INSPECTOR-5] a reader whose token has expired, or whose role has changed, is cut', async (t) => {
  const door = await alone(t);
  for (const role of ['viewer', null] as const) {
    const reader = await inspect(t, door);
    door.role = role;
    await eventually('it is cut', () => reader.ended() !== null);
    t.match(reader.ended(), { code: 4001, reason: /token has ended or has another role/ });
    door.role = 'admin';
  }
});

t.test('a reader that does not answer the close frame does not delay the stop of the hub', async (t) => {
  const door = await alone(t);
  const paused = await inspect(t, door);
  paused.socket.pause();
  await door.inspector.close();
  t.equal(door.readers(), 0);
  const late = await silent(t, door);
  t.match(late.head(), /^HTTP\/1\.1 503 /, 'nobody is let in any more');
  await eventually('and it is closed', () => late.isClosed());
});

t.test('no reader is admitted while the hub starts', async (t) => {
  const door = await alone(t, false);
  const early = await silent(t, door);
  t.match(early.head(), /^HTTP\/1\.1 503 Service Unavailable\r\n/);
  t.match(early.head(), /retry-after: 1\r\n/i);
});
