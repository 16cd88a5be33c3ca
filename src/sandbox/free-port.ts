/** A port for somebody who has to know it before he listens, or listens there again. */
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Systems give ports from 32768 on to whoever asks for any, clusters of containers from 30000: below, nobody else comes by one between
 * here and its use. Browsers refuse 10080.
 */
const [lowest, behind] = [12_000, 30_000];
const triesMax = 100;

/** One that was free a moment ago. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < triesMax; tries++) {
    const port = lowest + Math.floor(Math.random() * (behind - lowest));
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port in ${triesMax} tries`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return false;
    throw error;
  }
  server.close();
  await once(server, 'close');
  return true;
}
