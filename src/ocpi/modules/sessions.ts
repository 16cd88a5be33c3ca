/**
 * The Sessions module: CPOs push whole sessions and parts (PATCH); an eMSP pulls the sessions that it owns, by their
 * `cdr_token` or by attribution.
 * [interface, Sessions]
 */
import type { ObjectFacts } from '../../domain/object.ts';
import { chargeFields, price } from '../../transport/shapes.ts';
import {
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
import { emsp, owningCpo, owningCpoOrEmsp } from '../caller.ts';
import { type CheckedBody, cdrTokenFact, listRoute, pushOf, readOf, textFact, wholeObject } from '../objects.ts';
import { type OcpiModule, version } from '../route.ts';

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

type AnySession = CheckedBody<{
  last_updated: string;
  status?: string | null | undefined;
  authorization_reference?: string | null | undefined;
}>;

const one = `/${version}/sessions/:country_code/:party_id/:id`;
const pushed = { path: one, by: owningCpo, budget: 'other' } as const;

export const sessions: OcpiModule = {
  identifier: 'sessions',
  roles: ['SENDER', 'RECEIVER'],
  readWhole: wholeObject(session, (body, value) => wholeFacts({ body, value })),
  routes: [
    listRoute('sessions', emsp, { dateFrom: true }),
    { method: 'GET', path: one, by: owningCpoOrEmsp, budget: 'other', handle: readOf('sessions') },
    { ...pushed, method: 'PUT', handle: pushOf('sessions', 'PUT', session, wholeFacts) },
    { ...pushed, method: 'PATCH', handle: pushOf('sessions', 'PATCH', fragment(session), changedFacts) },
  ],
};

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
