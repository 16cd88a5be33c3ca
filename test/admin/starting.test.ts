/** What a hub answers, and logs, while its store opens. */
import type { AddressInfo } from 'node:net';
import { loadConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { startHub } from '../../src/main.ts';
import { createEarlyServer, createHttpServer } from '../../src/ocpi/http-server.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { Starting } from '../../src/starting.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

t.test('before its store is open a hub is alive, is not ready, says how far it is, and refuses the rest', async (t) => {
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
  t.match(await ask('/ocpi/versions'), { status: 503, text: /"status_code":\d+/ });

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
});

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
