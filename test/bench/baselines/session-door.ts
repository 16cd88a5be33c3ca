/**
 * What the baselines of a push do alike, so that they differ in how they store and hand on alone: take a session over HTTP and check it,
 * and forward it to the receiver.
 */
import fastify from 'fastify';
import type { Pool } from 'undici';
import type { Serving } from '../part.ts';
import { baselineToken } from '../request.ts';
import { isSession } from './session-schema.ts';

/** Answers a push when `take` has resolved. */
export async function sessionDoor(take: (object: string, text: string) => Promise<void>): Promise<Serving> {
  const app = fastify({ logger: false });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_, text, done) => done(null, text));
  app.put('/ocpi/2.2.1/sessions/:country_code/:party_id/:id', async (request, reply) => {
    const path = request.params as { country_code: string; party_id: string; id: string };
    const text = request.body as string;
    reply.header('Content-Type', 'application/json');
    if (request.headers.authorization !== baselineToken) return reply.code(401).send('{"status_code":2000}');
    if (!isSession(JSON.parse(text), path)) return reply.code(200).send('{"status_code":2001}');
    await take(`${path.country_code}/${path.party_id}/${path.id}`, text);
    return reply.send(`{"status_code":1000,"timestamp":"${new Date().toISOString()}"}`);
  });
  return { url: await app.listen({ host: '127.0.0.1', port: 0 }) };
}

/** Throws unless the receiver took it. */
export async function forwardSession(pool: Pool, object: string, text: string): Promise<void> {
  const headers = { authorization: 'Token b3V0', 'content-type': 'application/json' };
  const path = `/EMSP/2.2.1/sessions/${object}`;
  const answer = await pool.request({ method: 'PUT', path, headers, body: text });
  const { status_code } = (await answer.body.json()) as { status_code: number };
  if (answer.statusCode !== 200 || status_code !== 1000) throw new Error(`the receiver answered ${answer.statusCode}`);
}
