/**
 * What a server says when the system gives it no connections.
 */
import { createServer } from 'node:http';
import { logFailedAccepts } from '../../src/ocpi/http-server.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

t.test('connections that cannot be accepted are counted in one log line', async (t) => {
  const server = createServer();
  const lines: { count: number }[] = [];
  const clock = new SimulatedClock();
  logFailedAccepts(server, { error: (fields) => void lines.push(fields as { count: number }) }, clock);
  for (let n = 0; n < 100; n++) server.emit('error', Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' }));
  t.match(lines, [{ count: 1, err: { code: 'EMFILE' } }], 'the first is logged at once');
  clock.advance(999);
  t.equal(lines.length, 1);
  clock.advance(1);
  t.equal(lines.length, 2, 'the others are told together');
  t.equal(lines[1]?.count, 99);
});
