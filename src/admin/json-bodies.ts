/** The parser of the operators' and the portal's doors. */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { HubError } from '../domain/errors.ts';
import { collectBody } from '../transport/body.ts';
import { Problem } from './problem.ts';

/** Accepts only JSON bodies, regardless of parsers of the outer scope. An empty body counts as absent. */
export function acceptJsonAlone(admin: FastifyInstance): void {
  admin.removeAllContentTypeParsers();
  admin.addContentTypeParser('application/json', async (request: FastifyRequest, payload: IncomingMessage) => {
    const { bodyLimit: limit } = request.routeOptions;
    const received = await new Promise<Buffer | HubError>((tell) => collectBody(payload, { limit }, tell));
    if (received instanceof HubError) throw received;
    try {
      return received.length === 0 ? undefined : JSON.parse(received.toString('utf8'));
    } catch (error) {
      throw new Problem(400, `the body is not JSON: ${(error as Error).message}`);
    }
  });
}
