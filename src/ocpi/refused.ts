/**
 * Tells the hub which push, command or authorization was refused, so that its reason is found without the partner's own log. Refusals for reasons
 * of the hub, such as a rate limit or a full store, are not the push's fault and are left out. [D69]
 */
import type { FastifyRequest } from 'fastify';
import * as z from 'zod';
import type { ErrorCode } from '../domain/errors.ts';
import { isModule, type ObjectModule } from '../domain/modules.ts';
import { objectName } from '../domain/object.ts';
import { partyKey } from '../domain/party.ts';
import type { RefusedPush } from '../domain/report.ts';
import type { OcpiRoute } from './route.ts';
import { meantBy, pathOf, shownPath } from './unknown-path.ts';

const faultsOfTheHub: ReadonlySet<ErrorCode> = new Set([
  'rateLimited',
  'quotaExceeded',
  'objectsExceeded',
  'unavailable',
  'outcomeUnknown',
  'internal',
]);

/**
 * The refused push, command, malformed authorization, or request in a form that no route has, without its partner; null for
 * another request, or whose refusal is not its own fault.
 */
export function refusedPush(
  request: Pick<FastifyRequest, 'method' | 'url' | 'params' | 'body'>,
  route: OcpiRoute | undefined,
  { code, reason }: { readonly code: ErrorCode; readonly reason: string },
): (Omit<RefusedPush, 'partner'> & { readonly body: string | null }) | null {
  if (!route) return unknownForms.has(code) ? refusedForm(request, { code, reason }) : null;
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
