/** What the OCPI door knows of a request from its head to its answer. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Trace } from '../domain/events.ts';
import type { Caller, Credential } from '../hub/ports/hub.ts';
import { correlationIdHeader, readId, requestIdHeader } from '../transport/headers.ts';
import type { Pass } from './admission.ts';
import type { Touch } from './limits.ts';
import type { Answer, OcpiRoute } from './route.ts';

/** State of a request during its processing. */
export interface Passage {
  readonly trace: Trace;
  credential: Credential | null;
  caller: Caller | null;
  ocpiStatus: number | null;
  /** Why the request was refused; null when it was not. */
  reason: string | null;
  pass: Pass | null;
  touch: Touch;
}

declare module 'fastify' {
  interface FastifyRequest {
    ocpi: Passage | null;
  }
  interface FastifyContextConfig {
    ocpi?: OcpiRoute;
  }
}

/** The state of a request. The first call reads or generates both ids and sets them on the answer. [D14] */
export function passageOf(request: FastifyRequest, reply: FastifyReply): Passage {
  if (request.ocpi) return request.ocpi;
  const trace = { requestId: request.id, correlationId: readId(request.headers['x-correlation-id']) };
  reply.header(requestIdHeader, trace.requestId);
  reply.header(correlationIdHeader, trace.correlationId);
  request.ocpi = {
    trace,
    credential: null,
    caller: null,
    ocpiStatus: null,
    reason: null,
    pass: null,
    touch: () => {},
  };
  return request.ocpi;
}

/** Whether an answer of this status refuses what exceeds the rate of a party, or the room that it or the hub has for requests. */
export const isBeyondLimits = ({ ocpi }: FastifyRequest, status: number): boolean =>
  status === 429 || (status === 503 && ocpi?.credential != null && ocpi.pass === null);

/** With a serializer of its own Fastify adds no charset, which JSON has not, and for which some clients refuse an answer. */
const asItIs = (body: unknown) => body as string;

/** Sends an answer of a route, or a refusal. */
export function send(request: FastifyRequest, reply: FastifyReply, answer: Answer): FastifyReply {
  const { http, ocpi, headers, body, size } = answer;
  if (request.ocpi) request.ocpi.ocpiStatus = ocpi;
  request.ocpi?.pass?.answer(size ?? (typeof body === 'string' ? body.length : 0));
  return reply.code(http).headers(headers).header('Content-Type', 'application/json').serializer(asItIs).send(body);
}
