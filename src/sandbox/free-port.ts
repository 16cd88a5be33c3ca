/** Finds a free port for a server whose port must be known before it listens, or that listens on it again later. */
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Operating systems assign ephemeral ports from 32768 on and container clusters use ports from 30000 on: below that, no
 * other process is assigned the port between this check and its use. Browsers refuse 10080, hence the lower bound.
 */
const [lowest, behind] = [12_000, 30_000];
const triesMax = 100;

/** A port that was free when it was checked. */
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
