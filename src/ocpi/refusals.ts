/** Answers of the OCPI door that refuse a request. */
import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify';
import { HubError } from '../domain/errors.ts';
import type { Hub } from '../hub/ports/hub.ts';
import { refusalText } from '../transport/envelope.ts';
import { refusal } from '../transport/status-codes.ts';
import { type Passage, passageOf, send } from './passage.ts';
import { refusedPush } from './refused.ts';

/** Receives the line of each request. */
export interface RequestLog {
  info(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Additional headers of a refusal. */
const refusalHeaders: Partial<Record<HubError['code'], Record<string, string>>> = {
  invalidToken: { 'WWW-Authenticate': 'Token' },
  notRegistered: { Allow: 'POST' },
  alreadyRegistered: { Allow: 'GET, PUT, DELETE' },
  // The pieces that follow are not read. [BODY-2]
  tooFragmented: { Connection: 'close' },
};

export function answerErrors(app: FastifyInstance, hub: Hub, log: RequestLog): void {
  app.setNotFoundHandler(() => {
    throw new HubError('pathNotFound');
  });
  app.setErrorHandler<FastifyError | HubError | Error>((error, request, reply) => {
    // A server-wide hook may have refused the request before this door's hooks ran.
    const passage = passageOf(request, reply);
    const { trace } = passage;
    const refused = error instanceof HubError ? error : refusalFor(error);
    if (refused.code === 'internal') log.error({ err: error, ...trace }, 'request failed');
    const { inside: reason } = refused.detail;
    if (reason !== undefined) log.info({ reason, ...trace }, 'the reason of a refusal, which its caller is not told');
    // A refusal promises that nothing was changed. [RECORDER-4]
    if (refused.code === 'outcomeUnknown') {
      reply.hijack().raw.destroy();
      return;
    }
    const { http, ocpi, message, data, retryAfterS } = refusal(refused);
    passage.reason = message;
    tell(hub, request, passage, refused.code, message);
    const headers = {
      ...refusalHeaders[refused.code],
      ...(retryAfterS !== undefined && { 'Retry-After': String(retryAfterS) }),
    };
    // Not returned: Fastify would await the reply, and Node makes an error of each awaited reply that is never sent.
    send(request, reply, { http, ocpi, headers, body: refusalText({ ocpi, message, data }) });
  });
}

/** Notes a refused push in the report of its partner. */
function tell(
  hub: Hub,
  request: FastifyRequest,
  { credential, caller, trace }: Passage,
  code: HubError['code'],
  reason: string,
): void {
  const push = credential && refusedPush(request, request.routeOptions.config.ocpi, { code, reason });
  if (!push) return;
  const { body, ...rest } = push;
  hub.refused({ ...rest, partner: credential.partner.id }, body, trace, caller?.id);
}

/** Maps a refusal of the HTTP server itself; any other error is a bug of the hub. */
function refusalFor(error: FastifyError | Error): HubError {
  const status = 'statusCode' in error ? error.statusCode : undefined;
  if (status === 413) return new HubError('tooLarge');
  if (status === 415) return new HubError('unsupportedMediaType');
  return new HubError(status === 400 ? 'notJson' : 'internal');
}
