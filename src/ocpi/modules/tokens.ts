/**
 * The Tokens module: eMSPs push tokens for whitelisting, CPOs pull them; both sides can authorize a token in real time.
 * [interface, Token authorization; D24, D43, D48]
 */
import { HubError } from '../../domain/errors.ts';
import type { ObjectFacts } from '../../domain/object.ts';
import { keyOf } from '../../domain/party.ts';
import type { AuthorizeRequest, Hub } from '../../hub/ports/hub.ts';
import { token } from '../../transport/shapes.ts';
import {
  type Checked,
  check,
  ciString,
  fragment,
  identifier,
  list,
  may,
  must,
  object,
  should,
} from '../../transport/types.ts';
import { cpo, owningEmsp, owningEmspOrCpo, pathParty } from '../caller.ts';
import { answerObject, listRoute, pathId, pushOf, wholeObject } from '../objects.ts';
import { type Answer, type Exchange, type OcpiModule, stored, version } from '../route.ts';

/** A token of a list; its `uid` is its id. */
const wholeToken = wholeObject(object({ ...token.shape, id: must(identifier(36)) }), () => ({}));

const locationReferences = object({
  location_id: should(ciString(36)),
  evse_uids: may(list(ciString(36))),
  type: may(ciString(36)),
  connector_ids: may(list(ciString(36))),
});
const anyObject = object({ type: may(ciString(36)) });

const all = `/${version}/tokens`;
const one = `${all}/:country_code/:party_id/:uid`;

const pushed = { path: one, by: owningEmsp, budget: 'other' } as const;
const awaited = { budget: 'other', isAwaited: true } as const;

export const tokens: OcpiModule = {
  identifier: 'tokens',
  roles: ['SENDER', 'RECEIVER'],
  readWhole: (value, text) => wholeToken({ ...(value as object), id: (value as { uid?: unknown }).uid }, text),
  routes: [
    listRoute('tokens', cpo),
    { method: 'GET', path: one, by: owningEmspOrCpo, budget: 'other', handle: readToken },
    { ...pushed, method: 'PUT', handle: pushOf('tokens', 'PUT', token, factsOf, 'uid') },
    { ...pushed, method: 'PATCH', handle: pushOf('tokens', 'PATCH', fragment(token), factsOf, 'uid') },
    { ...awaited, method: 'POST', path: `${all}/:uid/authorize`, by: cpo, handle: authorizeAtEmsp },
    { ...awaited, method: 'PUT', path: `${one}/authorize`, by: owningEmsp, handle: authorizeAtCpo },
  ],
};

function factsOf({ body }: { body: { type?: string | null | undefined } }, exchange: Exchange): ObjectFacts {
  return { tokenType: typeOf(exchange, body.type ?? undefined) };
}

const typeForm = /^[A-Za-z_]{1,36}$/;

/** The token type, part of the key and of a receiver's URL: from the query, else the body, else RFID. [D24, D48, D71] */
function typeOf({ query }: Pick<Exchange, 'query'>, inBody = ''): string {
  const inQuery = query.type || inBody || 'RFID';
  if (typeof inQuery !== 'string' || !typeForm.test(inQuery)) {
    throw new HubError('invalid', { message: 'type: expected a token type' });
  }
  const type = inQuery.toUpperCase();
  if (inBody !== '' && inBody.toUpperCase() !== type) {
    throw new HubError('invalid', { message: `type: expected "${type}", as in the query` });
  }
  return type;
}

async function readToken(hub: Hub, exchange: Exchange): Promise<Answer> {
  const { params } = exchange;
  const owner = keyOf(pathParty(params));
  const query = { module: 'tokens', owner, id: params.uid ?? '', within: [], tokenType: typeOf(exchange) } as const;
  return answerObject(hub, exchange, query);
}

async function authorizeAtEmsp(hub: Hub, exchange: Exchange): Promise<Answer> {
  const request = authorizeRequest(exchange, locationReferences);
  if (request.to === null && exchange.caller.partner.settings.authorize_to_hub === 'refuse') {
    throw new HubError('invalid', { message: 'OCPI-to-party-id: expected the eMSP that owns the token' });
  }
  return stored((await hub.authorizeAtEmsp(exchange.caller, request)).text);
}

async function authorizeAtCpo(hub: Hub, exchange: Exchange): Promise<Answer> {
  return stored((await hub.authorizeAtCpo(exchange.caller, authorizeRequest(exchange, anyObject))).text);
}

/** PHP writes an object without members as `[]`. */
const isEmpty = (value: unknown) => value === null || value === '' || (Array.isArray(value) && value.length === 0);

/** The body is optional, as `null`, `""` and `[]` are read; if present, it is checked and forwarded unchanged. [D71] */
function authorizeRequest(exchange: Exchange, type: Checked<object>): AuthorizeRequest {
  const body = isEmpty(exchange.body?.value) ? null : exchange.body;
  const checked = body === null ? {} : check(type, body.value).body;
  const inBody = 'type' in checked && typeof checked.type === 'string' ? checked.type : undefined;
  const tokenType = typeOf(exchange, inBody);
  return { uid: pathId(exchange.params, 'uid'), type: tokenType, to: exchange.to(), body: body?.text ?? null };
}
