/** Answers that take longer than a connection may be silent: real sockets. [CLIENT-CONNECTION-4] */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import * as z from 'zod';
import { AuditTrail } from '../../src/admin/audit-trail.ts';
import { route } from '../../src/admin/route.ts';
import { serveRoutes } from '../../src/admin/serve-routes.ts';
import { createHttpServer } from '../../src/ocpi/http-server.ts';
import { eventually } from '../support/plain-partner.ts';
import { rawClient } from '../support/raw-client.ts';
import { type Test, t } from '../support/tap.ts';
import { testCert, testKey } from '../support/tls.ts';
import { welcome } from '../support/visitors.ts';

/** More than the buffers of a connection take. */
const large = 'x'.repeat(32 * 1024 * 1024);

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: hub\r\n\r\n`;

async function scene(t: Test, isTls: boolean) {
  const tls = { cert: testCert, key: testKey };
  const app = createHttpServer({ silenceMaxMs: 250, ...(isTls && { tls }) });
  const held: (() => void)[] = [];
  const slow = route({
    ...{ method: 'GET', path: '/slow', summary: 'slow' },
    answer: z.string(),
    run: () => new Promise<string>((resolve) => held.push(() => resolve('done'))),
  });
  const whole = route({ method: 'GET', path: '/large', summary: 'large', answer: z.string(), run: () => large });
  const served = {
    table: [slow, whole],
    ...({ allow: () => ({ name: 'ops', role: 'admin' }) as const, least: 'viewer', shutForS: () => null } as const),
    ...{
      trail: new AuditTrail({ noteAct: () => Promise.reject(new Error('no act')) }, { visitors: welcome }),
      shutBecause: '',
    },
  };
  await app.register(serveRoutes(served), { prefix: '/admin/v1' });
  app.get('/other', () => new Promise(() => {}));
  await app.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => {
    app.server.closeAllConnections();
    return app.close();
  });
  const { port } = app.server.address() as { port: number };
  const open = async (path: string) => {
    const taken = once(app.server, isTls ? 'secureConnection' : 'connection');
    const client = await rawClient(t, port, isTls, true);
    const [ofServer] = (await taken) as [Socket];
    client.socket.write(get(path));
    return { ...client, ofServer };
  };
  /** Resolves when the silence limit has cut a connection that began to be silent at the call. */
  const limitPassed = async () => {
    const { ofServer } = await open('/other');
    await eventually('its connection is cut', () => ofServer.destroyed);
  };
  return { held, open, limitPassed };
}

for (const isTls of [false, true]) {
  const suffix = isTls ? ', with TLS' : '';

  t.test(`an operator gets an answer that takes longer than a connection may be silent${suffix}`, async (t) => {
    const { held, open, limitPassed } = await scene(t, isTls);
    const client = await open('/admin/v1/slow');
    for (const answers of [1, 2]) {
      await eventually('it is under way', () => held.length === 1);
      await limitPassed();
      t.notOk(client.ofServer.destroyed, `request ${answers} is not cut`);
      held.pop()?.();
      await eventually('it is answered', () => client.came().match(/done/g)?.length === answers);
      if (answers === 1) client.socket.write(get('/admin/v1/slow'));
    }
    client.socket.write(get('/other'));
    await eventually('another request of its connection is cut', () => client.ofServer.destroyed);
  });

  t.test(`a client that has ended its side while it waits is cut by the silence limit${suffix}`, async (t) => {
    const { held, open, limitPassed } = await scene(t, isTls);
    const client = await open('/admin/v1/slow');
    await eventually('it is under way', () => held.length === 1);
    await limitPassed();
    t.notOk(client.ofServer.destroyed);
    client.socket.end();
    await eventually('its connection is cut', () => client.ofServer.destroyed);
    t.equal(client.came(), '');
  });

  t.test(`a client that takes nothing of an answer is cut by the silence limit${suffix}`, async (t) => {
    const { open } = await scene(t, isTls);
    const client = await open('/admin/v1/large');
    await eventually('the answer begins', () => client.came() !== '');
    client.socket.pause();
    client.plain.pause();
    await eventually('its connection is cut', () => client.ofServer.destroyed);
    t.ok(client.came().length < large.length);
  });
}
