/**
 * A connection that stays open keeps nothing of what was asked and answered on it, neither its first request nor its last: partners keep
 * hundreds of them open for hours.
 */
import { Agent, request } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createHttpServer } from '../../src/ocpi/http-server.ts';
import { t } from '../support/tap.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

for (const connectionsMax of [undefined, 8]) {
  t.test(`with ${connectionsMax ?? 'no'} limit of connections`, async (t) => {
    const app = createHttpServer(connectionsMax === undefined ? {} : { connectionsMax });
    const answered: WeakRef<object>[] = [];
    const sockets = new Set<unknown>();
    app.put('/object', async ({ raw, body }, reply) => {
      answered.push(new WeakRef(reply.raw), new WeakRef(body as object));
      sockets.add(raw.socket);
      return {};
    });
    const url = await app.listen({ host: '127.0.0.1', port: 0 });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.teardown(() => {
      agent.destroy();
      return app.close();
    });
    const put = () =>
      new Promise<void>((resolve, reject) => {
        const headers = { 'content-type': 'application/json' };
        const sent = request(`${url}/object`, { agent, method: 'PUT', headers }, (answer) =>
          answer.resume().once('end', resolve),
        );
        sent.once('error', reject).end('{"id":"S1"}');
      });
    const asked = 5;
    for (let count = 0; count < asked; count++) await put();
    t.equal(sockets.size, 1, 'all came on one connection');
    t.equal(answered.length, 2 * asked);
    // The last may still be at hand for whatever ends it.
    const kept = () => answered.slice(0, -2).filter((one) => one.deref() !== undefined).length;
    for (let turn = 0; turn < 100 && kept() > 0; turn++) {
      await nextTurn();
      collect();
    }
    t.equal(kept(), 0, 'none of what was answered is kept');
  });
}
