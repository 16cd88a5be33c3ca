/**
 * What a server says when the system gives it no connections.
 */
import { createServer } from 'node:http';
import { logFailedAccepts } from '../../src/ocpi/http-server.ts';
import { eventually } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';

t.test('connections that cannot be accepted are counted in a line of the log, not each in its own', async (t) => {
  const server = createServer();
  const lines: { count: number }[] = [];
  logFailedAccepts(server, { error: (fields) => void lines.push(fields as { count: number }) });
  for (let n = 0; n < 100; n++) server.emit('error', Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' }));
  t.match(lines, [{ count: 1, err: { code: 'EMFILE' } }], 'the first is logged at once');
  const waiting = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(waiting));
  await eventually('the others are told together', () => lines.length === 2);
  t.equal(lines[1]?.count, 99);
});
