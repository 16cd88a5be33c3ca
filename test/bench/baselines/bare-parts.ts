/**
 * The bare parts: the floor that any durable hub on this stack pays.
 *
 * It does: read the body once as text, parse it, check it with zod; commit event, object and a note of what is owed in one synced LevelDB
 * batch, batches chained, with whatever waits going into the next (group commit); answer; forward the same bytes over an undici pool, in
 * order per object; delete the note with a later batch. Buffers of the store are as large as the hub's, and as much is in flight.
 *
 * It does not: look at what is stored, decide whose an object is or who gets it, echo ids, log, index for lists, traces and support, keep
 * checksums, sync the names of new files, limit rates, retry, break circuits, bound what waits, or know more than one sender and one receiver.
 */
import { Level } from 'level';
import { Pool } from 'undici';
import type { Part } from '../part.ts';
import { inOrder } from './in-order.ts';
import { forwardSession, sessionDoor } from './session-door.ts';

interface Options {
  readonly directory: string;
  readonly receiver: string;
  /** Forwards in flight. */
  readonly concurrency: number;
}

interface Commit {
  readonly seq: string;
  readonly object: string;
  readonly text: string;
  readonly resolve: () => void;
}

const groupMax = 256;
const digits = 14;

export async function start({ directory, receiver, concurrency }: Options): Promise<Part> {
  const db = new Level<string, string>(directory, { writeBufferSize: 16 << 20, cacheSize: 32 << 20 });
  await db.open();
  const pool = new Pool(receiver, { connections: concurrency, pipelining: 1 });
  const waiting: Commit[] = [];
  const ended: string[] = [];
  let isCommitting = false;
  let last = 0;

  async function commitAll(): Promise<void> {
    isCommitting = true;
    await new Promise((resolve) => setImmediate(resolve));
    while (waiting.length > 0) {
      const commits = waiting.splice(0, groupMax);
      const batch = db.batch();
      for (const { seq, object, text } of commits) {
        batch.put(`e/${seq}`, `{"type":"object.put","at":"${new Date().toISOString()}","object":"${object}"}\n${text}`);
        batch.put(`o/${object}`, `{"seq":"${seq}"}\n${text}`);
        batch.put(`q/${seq}`, object);
      }
      for (const seq of ended.splice(0)) batch.del(`q/${seq}`);
      await batch.write({ sync: true } as object);
      for (const { resolve } of commits) resolve();
    }
    isCommitting = false;
  }

  const forward = inOrder<Commit>(concurrency, async ({ seq, object, text }) => {
    await forwardSession(pool, object, text);
    ended.push(seq);
  });

  const ready = await sessionDoor(async (object, text) => {
    const seq = String(++last).padStart(digits, '0');
    const commit = await new Promise<Commit>((resolve) => {
      const made: Commit = { seq, object, text, resolve: () => resolve(made) };
      waiting.push(made);
      if (!isCommitting) void commitAll();
    });
    forward(object, commit);
  });
  return { ready, verbs: {} };
}
