/** What the commands do while a hub does not answer [CLI-CLIENT-2], and how they read its URL. */
import { once } from 'node:events';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Failure, HubClient } from '../../src/cli/client.ts';
import { type Test, t } from '../support/tap.ts';

/** Where an answer is expected: longer than a busy machine takes for one. */
const patientMs = 1_000;

async function clientOf(t: Test, silenceMs: number, answer: RequestListener): Promise<HubClient> {
  const server = createServer(answer);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => void server.close().closeAllConnections());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return new HubClient({ url, token: 'a token' }, {}, silenceMs);
}

t.test(
  'a hub that accepts connections and answers nothing is reported as unreachable, as one that does not run',
  async (t) => {
    const asked: (string | undefined)[] = [];
    const hub = await clientOf(t, 30, ({ url }) => void asked.push(url));
    const failure = await hub.get('/status').catch((error: unknown) => error);
    t.ok(failure instanceof Failure && failure.isAway, String(failure));
    t.match(String(failure), /cannot be reached \(no answer, and none to \/healthz\)/);
    t.same(asked, ['/admin/v1/status', '/healthz']);
  },
);

t.test('a request waits while the hub answers others', async (t) => {
  let looks = 0;
  let answerNow = () => {};
  const hub = await clientOf(t, patientMs, ({ url }, response) => {
    if (url !== '/healthz') {
      answerNow = () => response.end('{"deleted":1}');
      return;
    }
    response.end();
    if (++looks === 3) answerNow();
  });
  t.same(await hub.send('POST', '/erase', {}), { deleted: 1 });
  t.equal(looks, 3);
});

t.test('an answer that began is read to its end, even if /healthz does not answer', async (t) => {
  let answer: ServerResponse | null = null;
  const hub = await clientOf(t, patientMs, ({ url }, response) => {
    if (url !== '/healthz') {
      answer = response;
      return;
    }
    answer?.write('{"deleted"');
    response.once('close', () => setImmediate(() => answer?.end(':1}')));
  });
  t.same(await hub.send('POST', '/erase', {}), { deleted: 1 });
});

t.test('the scheme of a URL may be in capitals', async (t) => {
  const { url } = await clientOf(t, patientMs, (_, response) => void response.end('{"role":"owner"}'));
  const at = (scheme: string) => new HubClient({ url: url.replace('http', scheme), token: 'a token' }, {});
  t.same(await at('HTTP').get('/status'), { role: 'owner' });
  await t.rejects(at('HTTPS').get('/status'), /does it speak TLS there/);
  t.throws(() => at('FTP'), /expected an http or https URL/);
});
