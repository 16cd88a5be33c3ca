/**
 * Limits answers to requests that were not let through: those that no door admitted (refused tokens, pages and health
 * checks that need none, unknown paths [VISITORS-1]), and those of partners beyond their rates.
 *
 * UNADMITTED-1  Such an answer waits for its address's turn, however many connections the address has.
 * UNADMITTED-2  A refused token ends its connection, so that each further attempt costs its caller a new one, and
 *     requests pipelined behind it are dropped unread.
 * UNADMITTED-3  A partner that repeats at once what is refused for its rate (429) costs little: of such answers it gets
 *     `refusalsPerS` a second. A further one waits for its turn, and holds no room of the partner meanwhile; when the
 *     wait would exceed `refusalMsMax`, its connection is closed without an answer.
 */
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../kit/clock.ts';
import { pacer } from '../kit/pacer.ts';
import { isPassedOn } from '../transport/client-address.ts';
import { isAdmitted, markEnding } from '../transport/trusted.ts';
import type { Visitors } from '../transport/visitors.ts';

/** Statuses of a refused token: unknown, or one of too many. */
const refused: ReadonlySet<number> = new Set([401, 429]);
/** [UNADMITTED-3] */
const refusalsPerS = 100;
const refusalMsMax = 5_000;

const healthChecks: ReadonlySet<string | undefined> = new Set(['/healthz', '/readyz']);

export function limitUnadmitted(app: FastifyInstance, visitors: Visitors, clock: Clock): void {
  const waiting = new Set<Socket>();
  const refusals = pacer(refusalsPerS, () => clock.monotonic());
  /** How long the answer waits, ms; null: it is not sent. */
  const turnOf = (request: FastifyRequest, reply: FastifyReply): number | null => {
    const { raw, ocpi } = request;
    if (!isAdmitted(raw)) return visitors.turn(visitors.of(raw), isHealthCheck(request));
    // The connection of another node carries requests of many callers.
    if (reply.statusCode !== 429 || !ocpi?.credential || isPassedOn(raw)) return 0;
    return refusals.take(ocpi.credential.partner.id, refusalMsMax);
  };
  // A stop of the hub does not wait for them.
  app.addHook('preClose', async () => {
    for (const socket of waiting) socket.destroy();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    const { raw } = request;
    if (!isAdmitted(raw) && refused.has(reply.statusCode) && !isPassedOn(raw)) {
      reply.header('Connection', 'close');
      markEnding(raw.socket);
    }
    const waitMs = turnOf(request, reply);
    if (waitMs === 0) return done(null, payload);
    request.ocpi?.pass?.closed();
    request.body = undefined;
    // A caller that left needs its answer at once: Fastify then frees what the answer holds.
    let timer: unknown;
    const send = () => {
      clock.clearTimeout(timer);
      reply.raw.off('close', send);
      waiting.delete(raw.socket);
      done(null, payload);
    };
    reply.raw.once('close', send);
    waiting.add(raw.socket);
    if (waitMs === null) {
      // What is pipelined behind it was read with it.
      markEnding(raw.socket);
      raw.socket.destroy();
    } else timer = clock.setTimeout(send, waitMs);
  });
}

const isHealthCheck = ({ routeOptions }: FastifyRequest) => healthChecks.has(routeOptions.url);
