/**
 * A port for a server that comes back on it. Between its stop and its next start nothing else may take it: not a connection that the
 * system gives a port of its own to (those begin at 32768), and not another process of the tests, which all take theirs elsewhere.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';

const first = 10_000;
const perProcess = 100;
const processes = 220;

let taken = 0;

/** Free on 127.0.0.1 now. Rejects when this process has none left. */
export async function keptPort(): Promise<number> {
  while (taken < perProcess) {
    const port = first + (process.pid % processes) * perProcess + taken++;
    if (await isFree(port)) return port;
  }
  throw new Error(`${perProcess} ports are all that a process of tests has`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  const isListening = await once(server, 'listening').then(
    () => true,
    () => false,
  );
  if (isListening) await new Promise((resolve) => server.close(resolve));
  return isListening;
}
