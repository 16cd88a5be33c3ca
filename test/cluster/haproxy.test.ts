/**
 * HAProxy in front of two nodes, with the very file that the docs offer: nodes are restarted under load, the owner hangs, and partners reach
 * what is theirs and nothing else.
 */
import { execFile } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Balancer } from '../../src/sandbox/balancer.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { sessionBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { adapted, offered, startProxy } from '../support/proxies.ts';
import { type Test, t } from '../support/tap.ts';
import { testCert, testKey } from '../support/tls.ts';
import { mustAddUp, mustNotFail, restartInTurn, startLoad } from './load.ts';
import { longer, startNodes, untilJoined } from './nodes.ts';

const program = '/usr/sbin/haproxy';
const runs = existsSync(program) ? longer : { skip: 'HAProxy is not installed here' };

/** HAProxy by the offered file, without TLS, in front of two ports at which operators are served, too. */
async function startHaproxy(t: Test, ports: readonly number[]): Promise<Balancer & { readonly operators: string }> {
  const [partners, operators] = [await freePort(), await freePort()];
  const file = join(directoryFor(t), 'haproxy.cfg');
  const config = adapted(offered('haproxy.cfg'), {
    ':443 ssl crt /etc/haproxy/hub.pem alpn http/1.1': `127.0.0.1:${partners}`,
    '10.0.0.10:8443 ssl crt /etc/haproxy/operators.pem alpn http/1.1': `127.0.0.1:${operators}`,
    'src 10.0.0.0/24': 'src 127.0.0.0/8',
    '10.0.0.11:8080': `127.0.0.1:${ports[0]}`,
    '10.0.0.12:8080': `127.0.0.1:${ports[1]}`,
    '10.0.0.11:8081': `127.0.0.1:${ports[0]}`,
    '10.0.0.12:8081': `127.0.0.1:${ports[1]}`,
  });
  writeFileSync(file, config);
  const url = `http://127.0.0.1:${partners}`;
  const haproxy = await startProxy(t, [program, '-f', file], () => fetch(url));
  return { url, operators: `http://127.0.0.1:${operators}`, close: () => haproxy.kill('SIGKILL') };
}

t.test('HAProxy accepts the provided file unchanged, certificates aside', runs, async (t) => {
  const directory = directoryFor(t);
  const [pem, file] = [join(directory, 'hub.pem'), join(directory, 'haproxy.cfg')];
  writeFileSync(pem, testCert + testKey);
  writeFileSync(
    file,
    adapted(offered('haproxy.cfg'), { '/etc/haproxy/hub.pem': pem, '/etc/haproxy/operators.pem': pem }),
  );
  const { stderr } = await promisify(execFile)(program, ['-c', '-f', file]);
  t.equal(stderr, '', 'without a warning');
});

t.test('behind HAProxy', runs, async (t) => {
  const server = await sharedPostgres();
  const schema = newSchema('haproxy');
  let operators = '';
  const front = async (ports: readonly number[]) => {
    const haproxy = await startHaproxy(t, ports);
    operators = haproxy.operators;
    return haproxy;
  };
  const nodes = await startNodes(t, server, schema, { front, env: { HUB_RATE_OTHER_PER_MIN: '1000000' } });
  await untilJoined(nodes.all);
  await eventually('HAProxy has found both ready', () => fetch(`${operators}/readyz`).then(({ ok }) => ok));
  // Operators of a test come by the partners' address; here they have one of their own.
  const { cpo, emsp } = await routedPair(t, { ...nodes, url: operators });
  cpo.moveTo(nodes);

  t.test('partners reach their paths and nothing else', async (t) => {
    const statusOf = async (url: string) => (await fetch(url, { redirect: 'manual' })).status;
    t.equal(await statusOf(`${nodes.url}/ocpi/versions`), 401);
    t.equal(await statusOf(`${nodes.url}/portal/`), 200);
    t.equal(await statusOf(`${nodes.url}/portal/v1/caller`), 401);
    for (const path of [
      '/',
      '/admin/v1/status',
      '/console/',
      '/metrics',
      '/cluster/v1/look',
      '/ocpiX',
      '/portalX',
      '/%6fcpi/versions',
    ]) {
      t.equal(await statusOf(`${nodes.url}${path}`), 404, path);
    }
    t.equal(await statusOf(`${operators}/console/`), 200);
    t.equal(await statusOf(`${operators}/cluster/v1/look`), 404);
  });

  t.test('each node is restarted in turn, and no request fails', async (t) => {
    const load = startLoad(nodes.url, cpo, 'H');
    await restartInTurn(t, nodes.all, load);
    t.comment(`${load.writes.length} requests, ${load.failed().length} failed`);
    mustNotFail(t, load, 'requests failed');
    await mustAddUp(t, server, schema, [load], emsp);
  });

  t.test('the owner hangs, and HAProxy sends partners to the other node [FRONT-6]', async (t) => {
    await untilJoined(nodes.all);
    const { hub } = await nodes.owner();
    const authorization = `Token ${Buffer.from(cpo.hubToken).toString('base64')}`;
    const put = (id: string) =>
      fetch(`${nodes.url}/ocpi/2.2.1/sessions/NL/CPO/${id}`, {
        ...{ method: 'PUT', headers: { authorization, 'content-type': 'application/json' } },
        body: JSON.stringify(sessionBody(id)),
        signal: AbortSignal.timeout(5000),
      }).then(
        ({ status }) => status,
        () => 0,
      );
    process.kill(hub.pid, 'SIGSTOP');
    t.teardown(() => process.kill(hub.pid, 'SIGCONT'));
    // By turns: as long as the owner has its turn, one of them hangs.
    const four = () => Promise.all(['A', 'B', 'C', 'D'].map((id) => put(`HANG-${id}`)));
    await eventually('HAProxy has given the owner up', async () => (await four()).every((status) => status === 200));
    const statuses = new Set<number>();
    for (let i = 0; i < 40; i += 1) {
      statuses.add(await put(`ALONE-${i}`));
      await setTimeout(50);
    }
    t.strictSame([...statuses], [200], 'the other node stays in service');
  });
});
