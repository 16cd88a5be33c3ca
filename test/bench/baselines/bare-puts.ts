/**
 * Bare PUTs: what undici alone sends to the receivers of a fan-out, as many at once to each as the hub has in flight.
 *
 * It does: PUT the same bytes, made beforehand, to every receiver, and read the whole of each answer.
 *
 * It does not: receive anything, store anything, decide who gets what, look at the answers, or keep an order.
 */
import { Pool } from 'undici';
import type { Part } from '../part.ts';
import { instantMark, microseconds, objectMark, type RequestShape, serialMark } from '../request.ts';

interface Options {
  readonly receivers: readonly string[];
  /** In flight to each. */
  readonly concurrency: number;
}

export interface Sending {
  readonly shape: RequestShape;
  /** Objects, each sent to every receiver. */
  readonly objects: number;
}

export async function start({ receivers, concurrency }: Options): Promise<Part> {
  const pools = receivers.map((url) => new Pool(url, { connections: concurrency, pipelining: 1 }));

  async function send({ shape: { path, headers, body }, objects }: Sending): Promise<void> {
    const instant = String(Math.floor(microseconds())).padStart(instantMark.length, '0');
    const requests = Array.from({ length: objects }, (_, n) => {
      const fill = (text: string) =>
        text
          .replaceAll(objectMark, String(n).padStart(objectMark.length, '0'))
          .replace(serialMark, String(n).padStart(serialMark.length, '0'))
          .replace(instantMark, instant);
      return { path: fill(path), body: Buffer.from(fill(body)) };
    });
    const sendAll = async (pool: Pool) => {
      let next = 0;
      const worker = async () => {
        for (let request = requests[next++]; request; request = requests[next++]) {
          const answer = await pool.request({ method: 'PUT', headers, ...request });
          await answer.body.text();
          if (answer.statusCode !== 200) throw new Error(`a receiver answered ${answer.statusCode}`);
        }
      };
      await Promise.all(Array.from({ length: concurrency }, worker));
    };
    await Promise.all(pools.map(sendAll));
  }

  return { ready: {}, verbs: { send } };
}
