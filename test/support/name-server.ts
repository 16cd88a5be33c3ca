/** A name server of the test's own, on a UDP port of this machine. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import ipaddr from 'ipaddr.js';
import type { Test } from './tap.ts';
import { Changes, within } from './within.ts';

/** Addresses of both families; `silence`: no answer ever comes; `absent`: there is no such name; `ill`: it cannot say. */
export type NameAnswer = readonly string[] | 'silence' | 'absent' | 'ill';

export interface NameServer {
  /** As `HUB_DNS_SERVERS` takes it. */
  readonly address: string;
  /** Names of which the IPv4 addresses were asked for, in order. */
  readonly asked: string[];
  /** Resolves when it was asked so often. */
  askedTimes(count: number): Promise<void>;
}

interface Options {
  readonly ttlS?: number;
}

const codes = { absent: 3, ill: 2 } as const;
const types = [
  [1, 'ipv4'],
  [28, 'ipv6'],
] as const;

export async function nameServer(
  t: Pick<Test, 'teardown'>,
  answer: (name: string) => NameAnswer,
  { ttlS = 0 }: Options = {},
): Promise<NameServer> {
  const asked: string[] = [];
  const changes = new Changes();
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const { name, type, end } = questionOf(query);
    if (type === 1) {
      asked.push(name);
      changes.tell();
    }
    const told = answer(name);
    if (told === 'silence') return;
    const kind = types.find(([number]) => number === type)?.[1];
    const found =
      typeof told === 'string' ? [] : told.map((one) => ipaddr.parse(one)).filter((one) => one.kind() === kind);
    const head = Buffer.from(query.subarray(0, 12));
    head.writeUInt16BE(0x8180 | (typeof told === 'string' ? codes[told] : 0), 2);
    for (const [at, count] of [found.length, 0, 0].entries()) head.writeUInt16BE(count, 6 + 2 * at);
    socket.send(
      Buffer.concat([head, query.subarray(12, end), ...found.map((one) => record(type, ttlS, one))]),
      port,
      address,
    );
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  t.teardown(() => socket.close());
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    async askedTimes(count) {
      while (asked.length < count)
        await within(60_000, changes.next(), () => `asked ${asked.length} times, not ${count}`);
    },
  };
}

function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** A resource record whose name is that of the question. [RFC 1035, 4.1.3] */
function record(type: number, ttlS: number, address: ipaddr.IPv4 | ipaddr.IPv6): Buffer {
  const bytes = address.toByteArray();
  const head = Buffer.alloc(12);
  for (const [at, value] of [0xc00c, type, 1].entries()) head.writeUInt16BE(value, 2 * at);
  head.writeUInt32BE(ttlS, 6);
  head.writeUInt16BE(bytes.length, 10);
  return Buffer.concat([head, Buffer.from(bytes)]);
}
