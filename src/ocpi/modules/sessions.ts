/**
 * The Sessions module: CPOs push whole sessions and parts (PATCH); an eMSP pulls the sessions that it owns, by their
 * `cdr_token` or by attribution.
 * [interface, Sessions]
 */
import type { ObjectFacts } from '../../domain/object.ts';
import { keyOf } from '../../domain/party.ts';
import type { Hub } from '../../hub/ports/hub.ts';
import { chargeFields, price } from '../../transport/shapes.ts';
import {
  type Checked,
  ciString,
  dateTime,
  fragment,
  identifier,
  may,
  must,
  number,
  object,
  oneOf,
  should,
} from '../../transport/types.ts';
import { emsp, owningCpo, owningCpoOrEmsp, pathParty } from '../caller.ts';
import {
  accept,
  answerObject,
  type CheckedBody,
  cdrTokenFact,
  checkedBody,
  checkedPatch,
  listRoute,
  pathId,
  sameIds,
  textFact,
  wholeObject,
} from '../objects.ts';
import { type Answer, done, type Exchange, type OcpiModule, version } from '../route.ts';

const session = object({
  ...chargeFields,
  id: must(identifier(36)),
  end_date_time: may(dateTime),
  kwh: should(number),
  location_id: should(ciString(36)),
  evse_uid: should(ciString(36)),
  connector_id: should(ciString(36)),
  total_cost: may(price),
  status: must(oneOf('ACTIVE', 'COMPLETED', 'INVALID', 'PENDING', 'RESERVATION')),
});
const sessionFragment = fragment(session);

type AnySession = CheckedBody<{
  last_updated: string;
  status?: string | null | undefined;
  authorization_reference?: string | null | undefined;
}>;

const one = `/${version}/sessions/:country_code/:party_id/:id`;

export const sessions: OcpiModule = {
  identifier: 'sessions',
  roles: ['SENDER', 'RECEIVER'],
  readWhole: wholeObject(session, (body, value) => wholeFacts({ body, value })),
  routes: [
    listRoute('sessions', emsp, { dateFrom: true }),
    { method: 'GET', path: one, by: owningCpoOrEmsp, budget: 'other', handle: readSession },
    { method: 'PUT', path: one, by: owningCpo, budget: 'other', handle: push('PUT', session, wholeFacts) },
    {
      method: 'PATCH',
      path: one,
      by: owningCpo,
      budget: 'other',
      handle: push('PATCH', sessionFragment, changedFacts),
    },
  ],
};

function push<T extends AnySession['body']>(
  method: 'PUT' | 'PATCH',
  type: Checked<T>,
  factsOf: (session: AnySession) => ObjectFacts,
) {
  return async (hub: Hub, exchange: Exchange): Promise<Answer> => {
    const id = pathId(exchange.params, 'id');
    const checked = method === 'PATCH' ? checkedPatch(exchange, type) : checkedBody(exchange, type);
    sameIds({ id, ...pathParty(exchange.params) }, checked.value);
    await accept(hub, exchange, { module: 'sessions', method, id, facts: factsOf(checked) }, checked);
    return done();
  };
}

function wholeFacts({ body, value }: Pick<AnySession, 'body' | 'value'>): ObjectFacts {
  const status = textFact(body.status);
  return {
    cdrToken: cdrTokenFact(value.cdr_token),
    authorizationReference: body.authorization_reference ?? null,
    // Some CPOs write enums in lower case; the text keeps what they wrote.
    ...(status !== null && { status: status.toUpperCase() }),
  };
}

/** Only the facts that the fragment carries; the stored session keeps the others, as it does where the fragment says null. [OBJECT-2] */
function changedFacts(session: AnySession): ObjectFacts {
  const { cdrToken = null, authorizationReference = null, status } = wholeFacts(session);
  return {
    ...((session.value.cdr_token ?? null) !== null && { cdrToken }),
    ...(authorizationReference !== null && { authorizationReference }),
    ...(status !== undefined && { status }),
  };
}

async function readSession(hub: Hub, exchange: Exchange): Promise<Answer> {
  const { params } = exchange;
  const owner = keyOf(pathParty(params));
  return answerObject(hub, exchange, { module: 'sessions', owner, id: params.id ?? '', within: [] });
}
