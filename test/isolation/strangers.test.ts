/**
 * Strangers, who have no token: however many requests, connections and guesses they send, nobody else notices, and they get little for it.
 */
import { readdirSync } from 'node:fs';
import { WebSocket } from 'ws';
import { callOnce } from '../support/caller.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { rawClient } from '../support/raw-client.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';
import {
  answers,
  guess,
  onlyHealth,
  open,
  operatorsPaths,
  pages as pageRequests,
  strangeAddress,
  strangers,
  unknownToken,
} from './attacks.ts';
import { attackedHub, pathsMin, sharedScene, victimOf } from './victim.ts';

/** File descriptors of a process. */
const filesOf = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;

/** Each asks for a hundred pages. */
const pageReaders = 100;
const connections = 400;
const requests = 15_000;

const logging = sharedScene({ HUB_LOG_LEVEL: 'info' });

t.test('15,000 requests without a token on 400 connections (I8)', atLength, async (t) => {
  const { hub, victim } = await logging();
  const all = await victim.during(t, async () => {
    const all = strangers(t, hub, connections, unknownToken.repeat(Math.ceil(requests / connections)));
    await eventually('every connection was closed', () => open(all) === 0);
    return all;
  });
  t.ok(answers(all).length <= connections, `${answers(all).length} answers, one a connection at most`);
  t.strictSame([...new Set(answers(all))], ['401']);
  const lines = hub
    .log()
    .split('\n')
    .filter((line) => line.includes(`"address":"${strangeAddress}"`));
  const counted = lines.reduce((sum, line) => sum + (JSON.parse(line) as { count: number }).count, 0);
  t.ok(lines.length > 0 && lines.length < connections / 4, `${lines.length} lines of the log stand for ${counted}`);
});

t.test('idle connections, and pages that need no token (I8)', atLength, async (t) => {
  const hub = await attackedHub(t, { HUB_CONNECTIONS_MAX: `${connections / 2}` });
  const victim = await victimOf(t, hub);
  await victim.during(t, async (walked) => {
    // One that never sent anything ends by itself after 15 s.
    const idle = strangers(t, hub, connections, onlyHealth);
    await eventually('a quarter of the connections is left', () => open(idle) <= connections / 8);
    const pages = strangers(t, hub, pageReaders, pageRequests);
    await walked(pathsMin);
    t.ok(filesOf(hub.pid) < connections, `${filesOf(hub.pid)} files and sockets of the hub are open`);
    t.ok(open(idle) + open(pages) <= connections / 8, 'and no more');
  });
});

t.test('guesses of operators’ tokens, at every door that accepts them (I10)', async (t) => {
  const { hub, victim } = await logging();
  const seen = await victim.during(t, async () => {
    const statuses: string[] = [];
    for (let round = 0; round < (isAtLength ? 20 : 3); round++) {
      const all = operatorsPaths.flatMap((path) => strangers(t, hub, 10, guess(path, round)));
      await eventually('every guess was answered, and its connection closed', () => open(all) === 0);
      statuses.push(...answers(all));
    }
    return statuses;
  });
  const refused = seen.filter((status) => status === '429').length;
  t.strictSame([...new Set(seen)].sort(), ['401', '429']);
  t.ok(refused > 0, `${refused} of ${seen.length} guesses were refused unseen`);
  t.match(hub.log(), `"address":"${strangeAddress}"`, 'the log has the address');
  t.notMatch(hub.log(), 'xxxxxxxx', 'and no guess');
});

t.test('a request to an unknown path is answered with its body unread (I8) [ASSEMBLY-4]', async (t) => {
  const { url } = await hubFor(t);
  const port = Number(new URL(url).port);
  for (const path of ['/x', '/healthz', '/metrics', '/console/x', '/portal/x', '/console/oidc/x']) {
    for (const type of ['application/json', 'text/plain']) {
      const { socket, came } = await rawClient(t, port, false);
      const fields = ['Host: hub', `Content-Type: ${type}`, 'Transfer-Encoding: chunked'];
      socket.write(`POST ${path} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n${'1\r\n1\r\n'.repeat(1_000)}`);
      await eventually('it is answered', () => came() !== '');
      t.match(came(), /^HTTP\/1\.1 404 /, `${path}, ${type}: its body has not ended`);
    }
  }
});

t.test('a body that is read without a token has a bounded number of pieces, too (I8) [BODY-2]', async (t) => {
  const { url } = await hubFor(t);
  const { socket, came } = await rawClient(t, Number(new URL(url).port), false);
  const fields = ['Host: hub', 'Content-Type: application/json', 'Transfer-Encoding: chunked'];
  const head = `POST /portal/v1/session HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`;
  socket.write(head + '1\r\n1\r\n'.repeat(5_000));
  await eventually('it is answered', () => came() !== '');
  t.match(came(), /^HTTP\/1\.1 413 .*connection: close.*the body is in too many pieces/is);
});

t.test('five wrong tokens a second are looked up; a known address may still use its right one (I10)', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:04:05Z');
  const viewerToken = 'viewer-token-of-the-strangers';
  const limits = { HUB_VIEWER_TOKEN: viewerToken, HUB_RATE_FAILED_TOKENS_PER_S: '5' };
  const hub = await hubFor(t, { ...limits, HUB_TRUSTED_PROXIES: '127.0.0.1' }, { clock });
  const from = (address: string, token: string | null, path = '/admin/v1/caller') =>
    callOnce('GET', hub.url + path, undefined, {
      'x-forwarded-for': address,
      ...(token !== null && { authorization: `Bearer ${token}` }),
    }).then(({ status }) => status);
  const knock = (address: string, token: string) =>
    new Promise<number | undefined>((resolve) => {
      const url = `${hub.url.replace('http', 'ws')}/admin/v1/inspector`;
      const socket = new WebSocket(url, ['ocpi-hub.inspector', `bearer.${token}`], {
        headers: { 'x-forwarded-for': address },
      });
      socket.on('open', () => {
        socket.terminate();
        resolve(101);
      });
      socket.on('unexpected-response', (_request, { statusCode }) => resolve(statusCode));
    });
  const wrong = 'wrong-token-of-the-strangers';
  t.equal(await from('192.0.2.1', hub.adminToken), 200, 'the operator signs in');
  for (let n = 0; n < 9; n++) t.equal(await from('192.0.2.1', null), 401, 'no token is no guess');
  t.equal(await from('192.0.2.1', wrong, '/metrics'), 401);
  t.equal(await from('192.0.2.1', wrong, '/admin/v1/nowhere'), 401);
  t.equal(await knock('192.0.2.1', wrong), 401);
  t.equal(await knock('192.0.2.1', wrong), 401);
  t.equal(await from('192.0.2.1', wrong), 401);
  t.equal(await from('192.0.2.1', wrong), 429, 'every door counts');
  t.equal(await knock('192.0.2.1', wrong), 429);
  t.equal(await from('192.0.2.1', viewerToken), 429, 'a right token that was not used from there is not looked at');
  t.equal(await from('192.0.2.1', hub.adminToken), 200, 'one that was is');
  t.equal(await knock('192.0.2.1', hub.adminToken), 101);
  t.equal(await from('192.0.2.2', viewerToken), 200, 'another address may');
  clock.advance(200);
  t.equal(await from('192.0.2.1', viewerToken), 200, 'a fifth of a second later');
  t.match(await admin(hub, 'GET', '/status'), { ready: true });
});
