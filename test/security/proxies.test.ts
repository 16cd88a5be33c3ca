/**
 * nginx and HAProxy in front of a hub, with the very files that the docs offer: partners reach their endpoints and nothing else, from the
 * address that they have; operators and their inspector are reached from their network alone; slow and oversized requests end at the proxy.
 */
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import WebSocket from 'ws';
import { freePort } from '../../src/sandbox/free-port.ts';
import { locationBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { admin, plainPartner } from '../support/plain-partner.ts';
import { adapted, offered, startProxy } from '../support/proxies.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { tapOn } from '../support/tap-on.ts';
import { testCert, testKey } from '../support/tls.ts';

/** Ports: of the proxy for partners and operators, and of the hub for them. */
interface Ports {
  readonly partners: number;
  readonly operators: number;
  readonly hub: number;
  readonly hubOperators: number;
}

/** The only one that is an operator. */
const [operator, partner, stranger] = ['127.0.0.1', '127.0.0.2', '127.0.0.3'];
const network = `${operator}/32`;

/** Files are written to the directory; the command that serves by them. */
type Rendered = (directory: string, ports: Ports) => [string, ...string[]];

const nginx: Rendered = (directory, ports) => {
  const at = (name: string) => join(directory, name);
  writeFileSync(at('hub.crt'), testCert);
  writeFileSync(at('hub.key'), testKey);
  const site = adapted(offered('nginx.conf'), {
    'listen 443 ssl': `listen 127.0.0.1:${ports.partners} ssl`,
    'listen 10.0.0.10:8443 ssl': `listen 127.0.0.1:${ports.operators} ssl`,
    'server 127.0.0.1:8080': `server 127.0.0.1:${ports.hub}`,
    'server 127.0.0.1:8081': `server 127.0.0.1:${ports.hubOperators}`,
    '/etc/nginx/hub.crt': at('hub.crt'),
    '/etc/nginx/hub.key': at('hub.key'),
    '/etc/nginx/operators.crt': at('hub.crt'),
    '/etc/nginx/operators.key': at('hub.key'),
    'allow 10.0.0.0/24': `allow ${network}`,
  });
  writeFileSync(at('ocpi-hub.conf'), site);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const main = [
    ...(process.getuid?.() === 0 ? ['user root;'] : []),
    ...['daemon off;', 'worker_processes 1;', `pid ${at('pid')};`, 'error_log stderr error;'],
    'events { worker_connections 512; }',
    'http {',
    'access_log off;',
    ...temporary.map((name) => `${name}_temp_path ${at(name)};`),
    `include ${at('ocpi-hub.conf')};`,
    '}',
  ];
  writeFileSync(at('nginx.conf'), main.join('\n'));
  return ['/usr/sbin/nginx', '-e', 'stderr', '-c', at('nginx.conf')];
};

const haproxy: Rendered = (directory, ports) => {
  const at = (name: string) => join(directory, name);
  writeFileSync(at('hub.pem'), testCert + testKey);
  const config = adapted(offered('haproxy.cfg'), {
    'bind :443': `bind 127.0.0.1:${ports.partners}`,
    'bind 10.0.0.10:8443': `bind 127.0.0.1:${ports.operators}`,
    '/etc/haproxy/hub.pem': at('hub.pem'),
    '/etc/haproxy/operators.pem': at('hub.pem'),
    'src 10.0.0.0/24': `src ${network}`,
    '10.0.0.11:8080': `127.0.0.1:${ports.hub}`,
    '10.0.0.12:8080': `127.0.0.1:${ports.hub}`,
    '10.0.0.11:8081': `127.0.0.1:${ports.hubOperators}`,
    '10.0.0.12:8081': `127.0.0.1:${ports.hubOperators}`,
    'log stdout format raw local0 info': 'log stdout format raw local0 err',
  });
  writeFileSync(at('haproxy.cfg'), config);
  return ['/usr/sbin/haproxy', '-f', at('haproxy.cfg')];
};

interface Sent {
  readonly from: string;
  readonly port: number;
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** The path is sent as it is. */
async function send({ from, port, method = 'GET', path, headers = {}, body }: Sent) {
  const to = { host: '127.0.0.1', port, localAddress: from, ca: testCert, servername: 'localhost', agent: false };
  const sent = request({ ...to, method, path, headers: { host: 'hub.example', ...headers } });
  sent.on('error', () => {});
  if (body !== undefined) sent.end(body);
  else if (headers['content-length'] === undefined) sent.end();
  else sent.flushHeaders();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  const pieces: Buffer[] = [];
  for await (const piece of answer) pieces.push(piece as Buffer);
  sent.destroy();
  return { status: answer.statusCode, text: Buffer.concat(pieces).toString() };
}

/** Sends bytes, and leaves the connection open. */
async function begin(t: Test, { from, port }: Pick<Sent, 'from' | 'port'>, bytes: string): Promise<void> {
  const plain = connect({ host: '127.0.0.1', port, localAddress: from });
  const socket = connectTls({ socket: plain, servername: 'localhost', ca: testCert });
  t.teardown(() => plain.destroy());
  await once(socket, 'secureConnect');
  await new Promise((resolve) => socket.write(bytes, resolve));
}

async function inspected(url: string, origin: string, token: string): Promise<string> {
  const socket = new WebSocket(url, ['ocpi-hub.inspector', `bearer.${token}`], { ca: testCert, origin });
  const refused = new Promise<string>((resolve) => {
    socket.on('error', () => {});
    socket.once('unexpected-response', (_, { statusCode }) => resolve(String(statusCode)));
  });
  const watched = new Promise<string>((resolve) => socket.once('message', (data) => resolve(String(data))));
  return Promise.race([refused, watched]).finally(() => socket.terminate());
}

for (const [name, program, rendered] of [
  ['nginx', '/usr/sbin/nginx', nginx],
  ['HAProxy', '/usr/sbin/haproxy', haproxy],
] as const) {
  const runs = existsSync(program) ? atLength : { skip: `${name} is not installed here` };
  t.test(`${name} in front of a hub, by the file that the docs offer`, runs, async (t) => {
    const hub = await hubFor(t, {
      ...{ HUB_ADMIN_PORT: '0', HUB_TRUSTED_PROXIES: operator, HUB_PUBLIC_URL: 'https://hub.example' },
      HUB_EGRESS_ALLOW: 'loopback',
    });
    const wire = await tapOn(t, Number(new URL(hub.url).port));
    const ports: Ports = {
      ...{ partners: await freePort(), operators: await freePort() },
      ...{ hub: wire.port, hubOperators: Number(new URL(hub.adminUrl).port) },
    };
    const operators = { url: hub.adminUrl, adminToken: hub.adminToken };
    const register = async (role: 'CPO' | 'EMSP', partyId: string, answer?: object) => {
      const roles = [{ role, country_code: 'NL', party_id: partyId }];
      const { id, initial_token: token } = await admin(operators, 'POST', '/parties', { roles });
      const own = { role, countryCode: 'NL', partyId };
      const one = await plainPartner({ ...own, ...(answer && { answer: () => ({ body: answer }) }) });
      t.teardown(() => one.close());
      await one.registerAgain(String(token), hub);
      return { id: String(id), authorization: `Token ${Buffer.from(one.hubToken).toString('base64')}` };
    };
    const cpo = await register('CPO', 'CPO');
    await register('EMSP', 'EMS', { allowed: 'ALLOWED' });
    await admin(operators, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
    const asOperator = { authorization: `Bearer ${hub.adminToken}` };
    const ready = { from: operator, port: ports.operators, path: '/readyz' };
    await startProxy(t, rendered(directoryFor(t), ports), async () => {
      if ((await send(ready)).status !== 200) throw new Error('not ready');
    });
    const { authorization } = cpo;
    const ocpi = { from: partner, port: ports.partners, headers: { authorization } };

    t.test('a partner calls, and a driver is authorized', async (t) => {
      t.match(await send({ ...ocpi, path: '/ocpi/versions' }), { status: 200, text: /https:\/\/hub\.example\/ocpi/ });
      const headers = { authorization, 'ocpi-to-country-code': 'NL', 'ocpi-to-party-id': 'EMS' };
      const path = '/ocpi/2.2.1/tokens/CARD1/authorize';
      t.match(await send({ ...ocpi, method: 'POST', path, headers, body: '' }), { status: 200, text: /"ALLOWED"/ });
    });

    t.test('the hub sees the address of the caller, whatever headers the caller sends', async (t) => {
      await admin(operators, 'PATCH', `/parties/${cpo.id}`, { allow_from: [`${partner}/32`] });
      const spoofed = { authorization, 'x-forwarded-for': partner };
      t.equal((await send({ ...ocpi, path: '/ocpi/versions' })).status, 200);
      t.equal((await send({ ...ocpi, from: stranger, path: '/ocpi/versions', headers: spoofed })).status, 401);
      const hidden = { authorization, 'x-forwarded-for': `${stranger}, ${operator}` };
      t.equal((await send({ ...ocpi, path: '/ocpi/versions', headers: hidden })).status, 200);
    });

    t.test(
      'partners reach /ocpi and /portal, and nothing else; operators are reached from their network alone',
      async (t) => {
        t.match(await send({ ...ocpi, path: '/portal/' }), { status: 200, text: /id="portal"/ });
        t.match(await send({ ...ocpi, path: '/portal/v1/caller', headers: asOperator }), { status: 401, text: /link/ });
        for (const path of [
          ...['/', '/admin/v1/status', '/console/', '/metrics', '/readyz', '/cluster/v1/channel', '/ocpiX', '/portalX'],
          ...['/%6fcpi/versions', '//ocpi/versions', '/ocpi/../admin/v1/status', '/./ocpi/versions'],
        ]) {
          const { status } = await send({ from: operator, port: ports.partners, path, headers: asOperator });
          t.equal(status, 404, path);
        }
        const status = { from: operator, port: ports.operators, path: '/admin/v1/status', headers: asOperator };
        t.equal((await send(status)).status, 200);
        t.equal((await send({ ...status, path: '/console/' })).status, 200);
        t.equal((await send({ ...status, path: '/cluster/v1/channel' })).status, 404);
        t.equal((await send({ ...status, from: partner })).status, 403);
      },
    );

    t.test('the inspector is reached through the operators’ address alone, by pages of its own', async (t) => {
      const at = (port: number) => `wss://127.0.0.1:${port}/admin/v1/inspector`;
      const own = `https://127.0.0.1:${ports.operators}`;
      t.match(await inspected(at(ports.operators), own, hub.adminToken), /^\{/);
      t.equal(await inspected(at(ports.operators), 'https://elsewhere.example', hub.adminToken), '403');
      t.equal(await inspected(at(ports.partners), own, hub.adminToken), '404');
    });

    t.test('a location of 4 MiB passes; the hub refuses larger ones, and the proxy far larger ones', async (t) => {
      const path = '/ocpi/2.2.1/locations/NL/CPO/L1';
      const body = (bytes: number) => JSON.stringify(locationBody('L1', { padding: 'x'.repeat(bytes) }));
      const put = (text: string) => {
        const headers = { authorization, 'content-type': 'application/json', 'content-length': `${text.length}` };
        return send({ ...ocpi, method: 'PUT', path, headers, body: text });
      };
      const mebibyte = 1024 * 1024;
      t.match(await put(body(4 * mebibyte - 2048)), { status: 200, text: /"status_code":1000/ });
      t.match(await put(body(4 * mebibyte)), { status: 413, text: /"status_code":/ });
      const announced = { authorization, 'content-length': `${6 * mebibyte}` };
      const refused = await send({ ...ocpi, method: 'PUT', path, headers: announced });
      t.equal(refused.status, 413);
      t.notMatch(refused.text, 'status_code');
    });

    t.test('slow heads, slow bodies and heads that are too large do not reach the hub', async (t) => {
      const mark = 'never-whole';
      const to = { from: stranger, port: ports.partners };
      const head = 'POST /ocpi/versions HTTP/1.1\r\nHost: hub.example\r\n';
      const heads = Array.from({ length: 20 }, () => begin(t, to, `${head}X-Slow: ${mark}`));
      await Promise.all([...heads, begin(t, to, `${head}X-Slow: ${mark}\r\nContent-Length: 100\r\n\r\nslow`)]);
      const large = { authorization, 'x-large': mark.repeat(4_000) };
      t.equal((await send({ ...ocpi, path: '/ocpi/versions', headers: large })).status, 400);
      t.equal((await send({ ...ocpi, path: '/ocpi/versions' })).status, 200, 'others are served meanwhile');
      t.match(wire.seen(), '/ocpi/versions');
      t.notMatch(wire.seen(), mark);
    });
  });
}
