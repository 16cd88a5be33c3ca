/** What the OCPI door knows of a request from its head to its answer. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Trace } from '../domain/events.ts';
import type { Caller, ChangeTurn, Credential } from '../hub/ports/hub.ts';
import { correlationIdHeader, readId, requestIdHeader } from '../transport/headers.ts';
import type { Touch } from './limits.ts';
import type { Answer, OcpiRoute } from './route.ts';

/** One admitted request. */
export interface Pass {
  /** Back-pressure: milliseconds to wait before the body is read. */
  readonly pauseMs: number;
  /** Counts body bytes that are now in memory. False: no room, and the caller must drop the body read so far. */
  hold(bytes: number): boolean;
  /**
   * Reserves room for a large read until the answer has ended, and waits for a read slot, which it keeps until the work
   * has ended. Of several reads the largest counts: work that is repeated reads the same object again. Rejects with `unavailable`
   * when there is no room; resolves to what waits for the turn in which the text may be changed. [ADMISSION-6]
   */
  reserve(bytes: number): Promise<ChangeTurn>;
  /** Like `reserve`, but the room and the slot are free again when `read` has ended: the request goes on without its text. */
  reading<T>(bytes: number, read: () => Promise<T>): Promise<T>;
  /** Counts the bytes of the answer until it has been sent. */
  answer(bytes: number): void;
  /** Call when the answer has been sent or the caller has disconnected. */
  closed(): void;
  /** Runs the request's work; a list first waits for a read slot. */
  work<T>(run: () => T | Promise<T>): Promise<T>;
  /**
   * Parses a large body in pieces, in turns of which the first is that of the work; resolves when it may be checked. Null: it is small, and
   * nothing was done. [ADMISSION-6]
   */
  parse<T>(pieces: () => Generator<void, T>): Promise<T> | null;
}

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
