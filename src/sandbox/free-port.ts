/** A port for somebody who has to know it before he listens, or listens there again. */
import { once } from 'node:events';
import { createServer } from 'node:net';

/** One that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
