/**
 * Answers of the OCPI door that refuse a request, and what the hub records of it: which push, command or authorization was refused and
 * why, so that the reason is found without the partner's own log. [D69]
 */
import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { type ErrorCode, HubError } from '../domain/errors.ts';
import { isModule, type ObjectModule } from '../domain/modules.ts';
import { objectName } from '../domain/object.ts';
import { partyKey } from '../domain/party.ts';
import type { RefusedPush } from '../domain/report.ts';
import type { Hub } from '../hub/ports/hub.ts';
import { refusalText } from '../transport/envelope.ts';
import { refusal } from '../transport/status-codes.ts';
import { type Passage, passageOf, send } from './passage.ts';
import type { OcpiRoute } from './route.ts';
import { meantBy, pathOf, shownPath } from './unknown-path.ts';

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

/** Refusals for reasons of the hub, such as a rate limit or a full store, are not the push's fault and are left out. */
const faultsOfTheHub: ReadonlySet<ErrorCode> = new Set([
  'rateLimited',
  'quotaExceeded',
  'objectsExceeded',
  'unavailable',
  'outcomeUnknown',
  'internal',
]);

/**
 * The refused push, command, exchange of credentials, malformed authorization, or request in a form that no route has, without its partner; null for
 * another request, or whose refusal is not its own fault.
 */
function refusedPush(
  request: Pick<FastifyRequest, 'method' | 'url' | 'params' | 'body'>,
  route: OcpiRoute | undefined,
  { code, reason }: { readonly code: ErrorCode; readonly reason: string },
): (Omit<RefusedPush, 'partner'> & { readonly body: string | null }) | null {
  if (!route) return unknownForms.has(code) ? refusedForm(request, { code, reason }) : null;
  // The body has a token.
  if (route.budget === 'exchanges' && exchangeFaults.has(code))
    return { module: null, method: request.method, path: `/ocpi${route.path}`, object: null, code, reason, body: null };
  const module = pushedModule(route);
  const isCommand = commandFaults.has(code) && route.path.endsWith('/commands/:command');
  if ((!module && !isCommand) || faultsOfTheHub.has(code)) return null;
  const { method, url } = request;
  // One for all tokens: a CPO that never names the eMSP must not displace its other refusals.
  if (module && route.isAwaited)
    return code === 'invalid'
      ? { module, method, path: `/ocpi${route.path}`, object: null, code, reason, body: null }
      : null;
  const { body: read } = request;
  const object =
    objectOf(request.params as Record<string, string>) ?? (typeof read === 'string' ? objectIn(read) : null);
  // Bytes are what no JSON could be read from.
  const body = typeof read === 'string' ? read : read instanceof Buffer ? read.toString('utf8', 0, readMax) : null;
  return { module, method, path: url.slice(0, pathMax), object, code, reason, body };
}

/** Refusals of a command before it is recorded: `commands` lists those that came later. */
const commandFaults: ReadonlySet<ErrorCode> = new Set([
  ...(['notJson', 'tooDeep', 'tooLarge', 'unsupportedMediaType', 'invalid', 'emspOnly'] as const),
  ...(['unknownCommand', 'locationNotFound', 'notRouted'] as const),
]);

/** Refusals of an exchange of credentials that the partner or an operator has to mend. */
const exchangeFaults: ReadonlySet<ErrorCode> = new Set([
  ...(['alreadyRegistered', 'hostChangeWaits', 'invalid'] as const),
  ...(['partnerUnusable', 'versionUnsupported', 'endpointsMissing'] as const),
]);

const unknownForms: ReadonlySet<ErrorCode> = new Set(['pathNotFound', 'methodNotAllowed']);

/** Without the query, so that a list that is asked for again and again counts as one refusal. */
function refusedForm(request: Pick<FastifyRequest, 'method' | 'url'>, why: Pick<RefusedPush, 'code' | 'reason'>) {
  const path = pathOf(request);
  return { ...meantBy(path), method: request.method, path: shownPath(path).slice(0, pathMax), ...why, body: null };
}

const pathMax = 512;
/** Bytes of a body that are read for the report: more than the characters that it keeps can have. */
const readMax = 256 * 1024;
const names = z.object({ country_code: z.string(), party_id: z.string(), id: z.string() });

function pushedModule({ method, path }: OcpiRoute): ObjectModule | null {
  const [, , module = ''] = path.split('/', 3);
  return method !== 'GET' && isModule(module) ? module : null;
}

/** The object that the path names. */
function objectOf({ country_code, party_id, id, uid = id }: Readonly<Record<string, string>>): string | null {
  if (!country_code || !party_id || !uid) return null;
  return objectName({ owner: partyKey(country_code, party_id), id: uid });
}

/** The object that the body names: the path of a CDR need not name one. */
function objectIn(text: string): string | null {
  const named = names.safeParse(JSON.parse(text));
  return named.success ? objectOf(named.data) : null;
}
