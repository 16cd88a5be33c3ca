/**
 * What the hub's refusals become at the operators' door. A hub that only refuses stands in here: a real one refuses so for
 * reasons (a full disk, a recovery under way) that other tests bring about.
 */
import fastify, { type FastifyInstance } from 'fastify';
import { health } from '../../src/admin/nouns/status.ts';
import { adminRoutes, adminServer } from '../../src/admin/server.ts';
import type { HubStatus } from '../../src/api/hub.ts';
import { HubError } from '../../src/domain/errors.ts';
import type { Hub } from '../../src/hub/ports/hub.ts';
import type { Operations } from '../../src/hub/ports/operator.ts';
import { callOnce, type Said } from '../support/caller.ts';
import { type Test, t } from '../support/tap.ts';
import { welcome } from '../support/visitors.ts';

async function refusing(
  t: Test,
  operations: Partial<Operations>,
  log: object[] = [],
): Promise<(path: string) => Promise<Said>> {
  const app: FastifyInstance = fastify();
  const hub = { publicUrl: 'http://hub.example', operations } as Hub;
  const keep = (fields: object) => void log.push(fields);
  await app.register(
    adminServer(hub, {
      table: adminRoutes(hub.operations),
      adminToken: 'admin',
      viewerToken: null,
      visitors: welcome,
      now: () => 0,
      log: { info: keep, warn: keep, error: keep },
    }),
  );
  await app.register(health(hub.operations));
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => app.close());
  return (path) => callOnce('GET', url + path, undefined, { authorization: 'Bearer admin' });
}

t.test('a refusal of the hub has the status and message of its kind', async (t) => {
  const cases: [HubError, number, RegExp][] = [
    [new HubError('notFound'), 404, /no such thing/],
    [new HubError('notFound', { message: 'no party NL-NIL' }), 404, /^no party NL-NIL$/],
    [new HubError('conflict', { message: 'NL-AAA exists already' }), 409, /^NL-AAA exists already$/],
    [new HubError('invalid', { message: 'roles: at least one' }), 422, /^roles: at least one$/],
    [new HubError('partnerUnusable'), 502, /./],
    [new HubError('unavailable'), 503, /cannot record/],
  ];
  for (const [error, status, detail] of cases) {
    const ask = await refusing(t, {
      parties: () => {
        throw error;
      },
    });
    const answer = await ask('/admin/v1/parties?limit=1');
    t.equal(answer.status, status, `${error.code} is ${status}`);
    t.match(answer.headers.get('content-type'), /^application\/problem\+json/);
    t.equal(answer.headers.get('retry-after'), status === 503 ? '5' : null);
    t.match(JSON.parse(answer.text), { status, detail, instance: '/admin/v1/parties', title: /./, type: /^urn:/ });
  }
});

t.test('an unexpected error is 500 without its message, which the log has', async (t) => {
  for (const error of [new TypeError('password=hunter2'), new HubError('commandTimeout')]) {
    const log: object[] = [];
    const fail = () => {
      throw error;
    };
    const ask = await refusing(t, { parties: fail }, log);
    const answer = await ask('/admin/v1/parties');
    t.equal(answer.status, 500);
    const { text } = answer;
    t.match(text, 'error of its own');
    t.notMatch(text, error.message);
    t.match(log, [{ err: error, path: '/admin/v1/parties' }]);
  }
});

t.test('a request is one log line, without its token', async (t) => {
  const log: object[] = [];
  const ask = await refusing(t, { parties: () => [] }, log);
  await ask('/admin/v1/parties?cursor=eA');
  t.match(log, [{ method: 'GET', path: '/admin/v1/parties', status: 200, durationMs: Number, correlationId: /./ }]);
  t.equal(log.length, 1);
  t.notMatch(JSON.stringify(log), 'Bearer');
});

t.test('readyz is 503 with the reason while the hub is not ready; healthz is 200', async (t) => {
  const cases: [Omit<HubStatus['store'], 'verifying'>, string][] = [
    [{ state: 'open', reason: null }, 'recovering'],
    [{ state: 'failed', reason: 'disk full' }, 'store failed: disk full'],
    [{ state: 'quarantined', reason: 'the log has lost event 26' }, 'store quarantined: the log has lost event 26'],
    [{ state: 'closed', reason: 'closed' }, 'store closed'],
  ];
  for (const [store, reason] of cases) {
    const ask = await refusing(t, { status: () => ({ ready: false, store }) as HubStatus });
    const answer = await ask('/readyz');
    t.equal(answer.status, 503);
    t.match(answer.headers.get('retry-after'), /^\d+$/);
    t.strictSame(JSON.parse(answer.text), { status: 'not ready', store: store.state, reason });
    t.equal((await ask('/healthz')).status, 200);
  }
});
