/**
 * The same push on a queue that many would take: fastify, BullMQ and a Redis that syncs its append-only file before it answers.
 *
 * It does: read the body once as text, parse it, check it with the same zod schema as the bare parts; store event (a Redis stream) and object
 * in one transaction and the delivery as a BullMQ job, both sent at once and both on the disk before the answer; a worker in the same process
 * forwards the same bytes over an undici pool, as many at once as the others. Commands are pipelined, finished jobs are removed, the file
 * is not rewritten meanwhile.
 *
 * It does not: write event and job in one transaction, keep the order of an object's deliveries, look at what is stored, or do anything else
 * that the bare parts leave out. All of that is in its favour.
 */
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { Pool } from 'undici';
import type { Part } from '../part.ts';
import { forwardSession, sessionDoor } from './session-door.ts';

interface Options {
  readonly redisPort: number;
  readonly receiver: string;
  readonly concurrency: number;
}

interface Delivery {
  readonly object: string;
  readonly text: string;
}

export async function start({ redisPort, receiver, concurrency }: Options): Promise<Part> {
  const address = { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null };
  const redis = new Redis({ ...address, enableAutoPipelining: true });
  const queue = new Queue<Delivery>('deliveries', {
    connection: new Redis({ ...address, enableAutoPipelining: true }),
    defaultJobOptions: { removeOnComplete: true, attempts: 3 },
  });
  const pool = new Pool(receiver, { connections: concurrency, pipelining: 1 });

  const connection = new Redis(address);
  const worker = new Worker<Delivery>('deliveries', ({ data }) => forwardSession(pool, data.object, data.text), {
    connection,
    concurrency,
  });
  worker.on('error', (error) => {
    throw error;
  });
  await worker.waitUntilReady();

  const ready = await sessionDoor(async (object, text) => {
    const stored = redis
      .multi()
      .xadd('events', '*', 'object', object, 'body', text)
      .set(`object:${object}`, text)
      .exec();
    await Promise.all([stored, queue.add('delivery', { object, text })]);
  });
  return { ready, verbs: {} };
}
