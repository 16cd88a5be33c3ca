/**
 * The bare proxy: an authorize request goes on over an undici pool, with the pool's own limits of time, and the answer comes back.
 *
 * It does: take the body as text, forward method, path, query and body, read the whole answer, pass on status and text.
 *
 * It does not: parse or check anything, know who calls, decide who is asked, rewrite ids or tokens, break circuits, log or keep a trace.
 */
import fastify from 'fastify';
import { Pool } from 'undici';
import type { Part, Serving } from '../part.ts';

interface Options {
  readonly receiver: string;
  readonly concurrency: number;
}

const limitMs = 10_000;

export async function start({ receiver, concurrency }: Options): Promise<Part> {
  const limits = { headersTimeout: limitMs, bodyTimeout: limitMs };
  const pool = new Pool(receiver, { connections: concurrency, pipelining: 1, ...limits });
  const app = fastify({ logger: false });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_, text, done) => done(null, text));
  app.post('/ocpi/2.2.1/tokens/:uid/authorize', async (request, reply) => {
    const answer = await pool.request({
      method: 'POST',
      path: `/EMSP${request.url.slice('/ocpi'.length)}`,
      headers: { authorization: 'Token b3V0', 'content-type': 'application/json' },
      body: request.body as string,
    });
    const text = await answer.body.text();
    return reply.code(answer.statusCode).header('Content-Type', 'application/json').send(text);
  });
  const ready: Serving = { url: await app.listen({ host: '127.0.0.1', port: 0 }) };
  return { ready, verbs: {} };
}
