/**
 * Limits answers to requests that were not let through: those that no door admitted (refused tokens, pages and health
 * checks that need none, unknown paths [VISITORS-1]), and those of partners beyond their rates and rooms.
 *
 * UNADMITTED-1  Such an answer waits for its address's turn, however many connections the address has. It waits no
 *     longer than its caller: a connection whose caller has ended its side is closed, because that caller may have left.
 * UNADMITTED-2  A refused token ends its connection, so that each further attempt costs its caller a new one, and
 *     requests pipelined behind it are dropped unread.
 * UNADMITTED-3  A party that repeats at once what is refused for its rate (429), or unread because there is no room for it
 *     (503), costs little: of such answers it gets `refusalsPerS` a second, and as many to requests that a driver waits
 *     for. A further one waits for its turn, and holds no room of the partner meanwhile; when the wait would exceed
 *     `refusalMsMax`, it is sent at once and ends its connection. (A proxy counts a connection that is cut as a failure
 *     of the hub.) So does an address at the portal.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../kit/clock.ts';
import { pacer } from '../kit/pacer.ts';
import { isAdmitted, isPassedOn } from '../transport/client-connection.ts';
import type { Visitors } from '../transport/visitors.ts';
import { isBeyondLimits } from './passage.ts';

/** Statuses of a refused token: unknown, or one of too many. */
const refused: ReadonlySet<number> = new Set([401, 429]);
/** [UNADMITTED-3] A longer wait would last into the cut that follows a suspension. [PACE-2] */
const refusalsPerS = 100;
const refusalMsMax = 1_000;

const healthChecks: ReadonlySet<string | undefined> = new Set(['/healthz', '/readyz']);

export function limitUnadmitted(app: FastifyInstance, visitors: Visitors, clock: Clock): void {
  /** For each answer that waits, what cuts its connection. */
  const waiting = new Set<() => void>();
  const ofParties = pacer(refusalsPerS, () => clock.monotonic());
  /** Of the portal, by address: however many addresses ask, parties keep their turns. */
  const ofPortal = pacer(refusalsPerS, () => clock.monotonic());
  /** How long the answer waits, ms; null: it is not sent. */
  const turnOf = (request: FastifyRequest, reply: FastifyReply): number | null => {
    const { raw, ocpi } = request;
    if (!isAdmitted(raw)) return visitors.turn(visitors.of(raw), isHealthCheck(request));
    // The connection of another node carries requests of many callers.
    if (!isBeyondLimits(request, reply.statusCode) || isPassedOn(raw)) return 0;
    if (!ocpi?.credential) return ofPortal.take(visitors.of(raw), refusalMsMax);
    const party = ocpi.caller?.id ?? ocpi.credential.partner.id;
    const isAwaited = request.routeOptions.config.ocpi?.isAwaited === true;
    return ofParties.take(isAwaited ? `${party} driver` : party, refusalMsMax);
  };
  // A stop of the hub waits for none of them, nor for those of requests that are read while it stops.
  let isClosing = false;
  app.addHook('preClose', async () => {
    isClosing = true;
    for (const cut of waiting) cut();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    const { raw } = request;
    // On a connection that has ended, Node would make an error of each write.
    const end = () => done(null, reply.raw.destroyed && isWhole(payload) ? null : payload);
    const waitMs = turnOf(request, reply);
    const isLast = isAdmitted(raw) ? waitMs === null : refused.has(reply.statusCode) && !isPassedOn(raw);
    if (isLast) reply.header('Connection', 'close');
    if (waitMs === 0 || (waitMs === null && isAdmitted(raw))) return end();
    request.ocpi?.pass?.closed();
    request.body = undefined;
    // A caller that left needs its answer at once: Fastify then frees what the answer holds.
    let timer: unknown;
    const cut = () => raw.socket.destroy();
    const send = () => {
      clock.clearTimeout(timer);
      reply.raw.off('close', send);
      raw.socket.off('end', cut);
      waiting.delete(cut);
      end();
    };
    reply.raw.once('close', send);
    raw.socket.once('end', cut);
    waiting.add(cut);
    if (waitMs === null || isClosing || raw.socket.readableEnded) cut();
    else timer = clock.setTimeout(send, waitMs);
  });
}

/** False for a stream: Fastify ends it with the connection. */
const isWhole = (payload: unknown) => typeof payload === 'string' || payload instanceof Buffer;
const isHealthCheck = ({ routeOptions }: FastifyRequest) => healthChecks.has(routeOptions.url);
