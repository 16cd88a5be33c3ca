/**
 * The CDRs module: a CPO posts each CDR once, and CDRs never change. [interface, CDRs; D22, D40]
 */
import type { z } from 'zod';
import { HubError } from '../../domain/errors.ts';
import type { ObjectFacts } from '../../domain/object.ts';
import { keyOf, type PartyRole } from '../../domain/party.ts';
import type { Quirk } from '../../domain/quirks.ts';
import type { Caller, Hub } from '../../hub/ports/hub.ts';
import {
  chargeFields,
  chargingPeriod,
  connectorFormat,
  connectorType,
  geoLocation,
  powerType,
  price,
  tariffSnapshot,
} from '../../transport/shapes.ts';
import {
  anyOf,
  ciString,
  dateTime,
  filled,
  flag,
  foreign,
  identifier,
  list,
  may,
  must,
  number,
  object,
  pattern,
  should,
  snapshot,
  text,
} from '../../transport/types.ts';
import { anyParty, cpo, emsp, owningCpo } from '../caller.ts';
import { accept, cdrTokenFact, checkedBody, listRoute, pathId, readText, sameIds, wholeObject } from '../objects.ts';
import { type Answer, addressOf, done, type Exchange, type OcpiModule, stored, version } from '../route.ts';

const cdrLocation = object({
  id: should(ciString(36)),
  name: may(text(255)),
  address: should(text(255)),
  city: should(text(45)),
  postal_code: may(text(10)),
  state: may(text(45)),
  country: should(pattern(/^[A-Za-z]{3}$/, 'expected three letters, ISO 3166-1 alpha-3')),
  coordinates: should(geoLocation),
  evse_uid: should(ciString(36)),
  evse_id: should(ciString(48)),
  connector_id: should(ciString(36)),
  connector_standard: should(connectorType),
  connector_format: should(anyOf(...connectorFormat)),
  connector_power_type: should(anyOf(...powerType)),
});

const signedData = object({
  encoding_method: should(ciString(36)),
  encoding_method_version: may(number),
  public_key: may(text(512)),
  signed_values: should(
    list(object({ nature: should(ciString(32)), plain_data: should(text(5000)), signed_data: should(text(5000)) })),
  ),
  url: may(text(512)),
});

/** The price of a 2.3.0 CDR would be billed wrongly. [D64] */
const cdrCost = object({
  ...price.shape,
  before_taxes: may(foreign(() => true, 'expected excl_vat and incl_vat, as in OCPI 2.2.1')),
});

/** Characters of an id: those of a session's and a suffix. */
const idMax = 39;

const cdr = object({
  ...chargeFields,
  charging_periods: should(snapshot(filled(list(chargingPeriod)))),
  id: must(identifier(idMax)),
  end_date_time: should(dateTime),
  session_id: may(ciString(36)),
  cdr_location: should(snapshot(cdrLocation)),
  tariffs: may(snapshot(list(tariffSnapshot))),
  signed_data: may(snapshot(signedData)),
  total_cost: should(cdrCost),
  total_fixed_cost: may(price),
  total_energy: should(number),
  total_energy_cost: may(price),
  total_time: should(number),
  total_time_cost: may(price),
  total_parking_time: may(number),
  total_parking_cost: may(price),
  total_reservation_cost: may(price),
  remark: may(text(255)),
  invoice_reference_id: may(ciString(39)),
  credit: may(flag),
  credit_reference_id: may(ciString(39)),
  home_charging_compensation: may(flag),
});

const all = `/${version}/cdrs`;

/** Forms of the path of a POST that OCPI does not have: some CPOs use that of other objects. */
const atOwner = { method: 'POST', by: owningCpo, budget: 'other', isLenient: true, handle: postCdr } as const;

export const cdrs: OcpiModule = {
  identifier: 'cdrs',
  roles: ['SENDER', 'RECEIVER'],
  readWhole: wholeObject(cdr, factsOf),
  routes: [
    listRoute('cdrs', emsp),
    { method: 'POST', path: all, by: cpo, budget: 'other', handle: postCdr },
    { ...atOwner, path: `${all}/:country_code/:party_id` },
    { ...atOwner, path: `${all}/:country_code/:party_id/:id` },
    { method: 'GET', path: `${all}/:id`, by: anyParty, budget: 'other', handle: readCdr },
  ],
};

async function postCdr(hub: Hub, exchange: Exchange): Promise<Answer> {
  const { params } = exchange;
  if (params.id !== undefined) pathId(params, 'id', idMax);
  const { body, value, text, notes } = checkedBody(exchange, cdr);
  sameIds(params, value);
  const quirks: Quirk[] = params.party_id === undefined ? [] : ['cdr-path'];
  const { id } = body;
  const facts = factsOf(body);
  const owner = { ...exchange, caller: ownerNamed(exchange.caller, body) };
  const push = { module: 'cdrs', method: 'POST', id, facts } as const;
  const { result, object } = await accept(hub, owner, push, { body, value, text, notes, quirks });
  // 201 only for a CDR that can reach its eMSP. [D40]
  const http = result === 'created' && object.viewer !== null ? 201 : 200;
  return done(http, { Location: addressOf(hub, `/cdrs/${encodeURIComponent(object.id)}`) });
}

function factsOf({ cdr_token, session_id, authorization_reference }: z.output<typeof cdr.schema>): ObjectFacts {
  return {
    cdrToken: cdrTokenFact(cdr_token),
    sessionId: session_id ?? null,
    authorizationReference: authorization_reference ?? null,
  };
}

/** The path of a CDR need not name a party, so the party in the body decides which of the partner's CPOs calls. */
function ownerNamed(caller: Caller, body: Pick<PartyRole, 'country_code' | 'party_id'>): Caller {
  const party = caller.partner.roles.find((role) => role.role === 'CPO' && keyOf(role) === keyOf(body));
  if (!party) throw new HubError('invalid', { message: 'party_id: expected a party of the caller' });
  return { ...caller, party, id: keyOf(party) };
}

/**
 * The path of a GET names no party. The caller's own CDR, of any of its CPOs, is the one at the `Location` that it was given;
 * otherwise it is that of any of its eMSPs. Refuses with `invalid` when several of its parties have one. [D22, D27]
 */
async function readCdr(hub: Hub, exchange: Exchange): Promise<Answer> {
  const id = exchange.params.id ?? '';
  for (const role of ['CPO', 'EMSP']) {
    const found: string[] = [];
    for (const party of exchange.parties().filter((one) => one.role === role)) {
      const caller = { ...exchange.caller, party, id: keyOf(party) };
      const owner = role === 'CPO' ? caller.id : null;
      try {
        found.push(await readText(hub, { ...exchange, caller }, { module: 'cdrs', owner, id, within: [] }));
      } catch (error) {
        if (!(error instanceof HubError) || error.code !== 'notFound') throw error;
      }
      if (found.length > 1)
        throw new HubError('invalid', {
          message: `ambiguous: several CDRs have id ${id}; OCPI-from-* names the party`,
        });
    }
    const [text] = found;
    if (text !== undefined) return stored(text);
  }
  throw new HubError('notFound');
}
