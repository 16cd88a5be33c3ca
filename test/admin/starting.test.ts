/** What a hub answers, and logs, while its store opens. */
import { existsSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/config.ts';
import { createLog } from '../../src/log.ts';
import { startHub } from '../../src/main.ts';
import { createEarlyServer, createHttpServer } from '../../src/ocpi/http-server.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { Starting } from '../../src/starting.ts';
import { fill, mounted, unmount } from '../faults/full-disk.ts';
import { callOnce } from '../support/caller.ts';
import { spawnChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

t.test(
  'before its store is open a hub is alive, not ready, shows its progress, and refuses everything else',
  async (t) => {
    const lines: { msg: string }[] = [];
    const log = createLog('info', { write: (line) => void lines.push(JSON.parse(line)) });
    const clock = new SimulatedClock();
    const starting = new Starting(log, clock);
    const early = createEarlyServer({}, starting.answer);
    await new Promise<void>((resolve) => void early.server.listen(0, '127.0.0.1', resolve));
    const app = createHttpServer({}, early);
    t.teardown(() => app.close());
    const { port } = early.server.address() as AddressInfo;
    const ask = (path: string, method = 'GET') => callOnce(method, `http://127.0.0.1:${port}${path}`, undefined, {});
    const body = async (path: string) => JSON.parse((await ask(path)).text) as object;

    t.match(await ask('/healthz'), { status: 200, text: '{"status":"alive"}' });
    const opening = { status: 'not ready', store: 'opening', reason: 'opening the store', verified: 0, events: null };
    t.strictSame(await body('/readyz'), opening);
    starting.progress({ step: 'verifying', verified: 1000, events: 3000 });
    const ready = await ask('/readyz');
    t.equal(ready.status, 503);
    t.equal(ready.headers.get('retry-after'), '1');
    t.match(JSON.parse(ready.text), { reason: 'verifying, 33 %', verified: 1000, events: 3000 });
    t.equal((await ask('/readyz', 'HEAD')).text, '');
    t.match(await ask('/admin/v1/status'), { status: 503, text: /"detail":"the hub is opening its store"/ });
    const refusal = await ask('/ocpi/versions');
    t.match(refusal, { status: 503, text: /"status_code":\d+/ });
    t.equal(refusal.headers.get('content-type'), 'application/json');

    clock.advance(5000);
    t.match(lines.at(-1), { msg: 'the store is not open yet', step: 'verifying', verified: 1000, events: 3000 });
    starting.opened();
    t.match(lines.at(-1), { msg: 'the store is open', verified: 1000, seconds: 5 });
    const said = lines.length;
    clock.advance(60_000);
    t.equal(lines.length, said, 'nothing is said any more');

    app.get('/healthz', async () => 'the app');
    await app.ready();
    t.match(await ask('/healthz'), { text: '{"status":"alive"}' }, 'not before it is handed over');
    early.handOver();
    t.equal((await ask('/healthz')).text, 'the app');
  },
);

t.test('a hub listens before it opens its store [MAIN-1]', async (t) => {
  const port = await freePort();
  const env = { HUB_DATA_DIR: directoryFor(t), HUB_LOG_LEVEL: 'silent', HUB_PORT: String(port) };
  const asked: Promise<number>[] = [];
  const ask = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status;
  const onPoint = (name: string) => {
    if (name === 'verify.before') asked.push(ask('/healthz'), ask('/readyz'));
  };
  const hub = await startHub(loadConfig({ env, flags: {} }), { onPoint });
  t.teardown(() => hub.close());
  const [alive, ready] = await Promise.all(asked);
  t.equal(alive, 200);
  t.ok(ready === 503 || ready === 200, 'it answers, and is ready only if the answer came after the recovery');
});

t.test('a hub that cannot open its store stops listening', async (t) => {
  const port = await freePort();
  const dataDir = directoryFor(t);
  const config = (at: number) =>
    loadConfig({ env: { HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent', HUB_PORT: String(at) }, flags: {} });
  const hub = await startHub(config(0));
  t.teardown(() => hub.close());
  await t.rejects(startHub(config(port)), { message: /in use by another process/ });
  await t.rejects(fetch(`http://127.0.0.1:${port}/healthz`));
});

t.test(
  'a start that fails for a passing reason is retried, any other is not; a stop ends the retries [STARTING-4]',
  async (t) => {
    const lines: { msg: string; reason?: string }[] = [];
    const log = createLog('warn', { write: (line) => void lines.push(JSON.parse(line)) });
    const clock = new SimulatedClock();
    const ending = new AbortController();
    const starting = new Starting(log, clock, ending.signal);
    t.teardown(() => starting.close());
    const failures = ['full', 'full', 'away', 'damaged'].map((why) => new Error(why));
    let tries = 0;
    const work = async () => {
      const failure = failures[tries++];
      if (failure !== undefined) throw failure;
      return 'open';
    };
    const passes = (error: unknown) => error !== failures[3];
    const first = starting.until(work, passes);
    first.catch(() => {});
    const all = () => {
      clock.advance(2000);
      return tries === failures.length;
    };
    await eventually('it has tried until the last', all);
    await t.rejects(first, { message: 'damaged' });
    t.strictSame(
      lines.map(({ reason }) => reason),
      ['full', 'away'],
      'each reason is logged once',
    );
    t.equal(await starting.until(work, passes), 'open');
    failures.push(new Error('not reached'), new Error('full'));
    const last = starting.until(work, passes);
    ending.abort();
    await t.rejects(last, { name: 'StartStopped' });
  },
);

t.test('a first start on a full disk answers 503 with the reason, and becomes ready once there is room', async (t) => {
  const disk = mounted();
  if (disk === null) return void t.plan(0, 'mounting a small file system is not allowed here');
  t.teardown(() => unmount(disk));
  const [port, filler] = [await freePort(), join(disk, 'filler')];
  fill(filler, disk, 0);
  const env = { HUB_DATA_DIR: join(disk, 'data'), HUB_LOG_LEVEL: 'silent', HUB_PORT: String(port) };
  const start = startHub(loadConfig({ env, flags: {} }), { ballastBytes: 1 << 20 });
  start.catch(() => {});
  const ready = () => callOnce('GET', `http://127.0.0.1:${port}/readyz`, undefined, {}).catch(() => null);
  await eventually('it says why', async () => /waiting: .*No space left/.test((await ready())?.text ?? ''));
  t.equal((await ready())?.status, 503);
  t.notOk(existsSync(join(disk, 'data', 'admin-token')));
  rmSync(filler);
  const hub = await start;
  t.teardown(() => hub.close());
  t.equal((await ready())?.status, 200);
});

t.test(
  'a hub whose database is away listens and waits, and exits with 0 on SIGTERM [STARTING-4]',
  atLength,
  async (t) => {
    const port = await freePort();
    const keys = { HUB_ADMIN_TOKEN: 'admin-token-of-the-start', HUB_SECRET_KEY: 'key-of-the-start-0123456789' };
    const env = { ...keys, HUB_STORE: 'postgres://hub@127.0.0.1:1/ocpi?single=1' };
    const hub = spawnChildHub({ dataDir: directoryFor(t), port, env });
    t.teardown(() => hub.kill());
    hub.listening.catch(() => {});
    const ask = (path: string) => callOnce('GET', `http://127.0.0.1:${port}${path}`, undefined, {}).catch(() => null);
    await eventually('it says why', async () =>
      /takes writes: 127\.0\.0\.1:1 /.test((await ask('/readyz'))?.text ?? ''),
    );
    t.equal((await ask('/healthz'))?.status, 200);
    t.equal((await ask('/readyz'))?.status, 503);
    t.equal(await ask('/cluster/v1/self/x'), null, 'other nodes find nobody there');
    process.kill(hub.pid, 'SIGTERM');
    t.equal(await hub.gone, 0);
  },
);
