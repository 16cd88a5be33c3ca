/**
 * A bare fastify server that answers every GET with the same bytes and headers, from memory: what a page costs when nobody has to find,
 * read or check anything.
 */
import fastify from 'fastify';
import type { Part, Serving } from '../part.ts';

export interface Answered {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export async function start(): Promise<Part> {
  const app = fastify({ logger: false });
  let answered: Answered = { headers: {}, body: '' };
  app.get('/*', (_request, reply) => reply.headers(answered.headers).send(answered.body));
  const ready: Serving = { url: await app.listen({ host: '127.0.0.1', port: 0 }) };
  const hold = (answer: Answered) => {
    answered = answer;
  };
  return { ready, verbs: { hold } };
}
