/**
 * Authentication and authorization of OCPI requests: which partner owns the token, whether the token may use the route,
 * and which of the partner's parties makes the call. [interface, Authentication; D5, D7, D9, D10, D16]
 *
 * CALLER-1  A token that is not valid for a path gets 401 before any 404 or 405, so the answer does not reveal which
 *     paths exist.
 * CALLER-2  A wrong role gets 403; a path party that is not the caller's gets 404, which does not reveal whether the
 *     object exists. [D7]
 * CALLER-3  For a partner with several parties, the path decides which one calls, then `OCPI-from-*`, then the first
 *     party with the role.
 * CALLER-4  Before a token is refused as unknown, the hub has dispatched every change of partners that is in the log:
 *     another node may just have issued it, and a partner takes 401 for good. While it cannot, the answer is 503.
 */
import { HubError } from '../domain/errors.ts';
import { alreadyRegistered, isRegistered, keyOf, type Partner, type PartyRole, type Role } from '../domain/party.ts';
import type { Caller, Credential, Hub } from '../hub/ports/hub.ts';
import { authorizationTokens, type IncomingHeaders, type RoutingParty, readRouting } from '../transport/headers.ts';

/** Input of a `CallerRule`. */
export interface Asking {
  readonly partner: Partner;
  /** `OCPI-from-*`. */
  readonly from: RoutingParty | null;
  readonly params: Readonly<Record<string, string>>;
}

/** Selects the partner's party that makes the call; refuses when none may. */
export type CallerRule = (asking: Asking) => PartyRole;

/** The credential behind an Authorization header of a request from this address; refuses with `invalidToken`. [D8] */
export function authenticate(hub: Hub, authorization: string | undefined, address: string): Credential {
  for (const token of authorizationTokens(authorization ?? '')) {
    const credential = hub.authenticate(token, address);
    if (credential) return credential;
  }
  throw new HubError('invalidToken');
}

/**
 * How a route treats tokens other than hub tokens. `open`: initial tokens are accepted. `begins`: the route begins a
 * registration and accepts initial tokens. `changes`: the route changes a registration.
 */
export type Onboarding = 'open' | 'begins' | 'changes';

/** Accepts hub tokens on every route, and other tokens where the route's `onboarding` allows them. [D9, D10, REGISTRATION-8] */
export function admit(credential: Credential, onboarding: Onboarding | undefined): void {
  const registered = isRegistered(credential.partner);
  switch (credential.kind) {
    case 'hub':
      if (onboarding === 'begins' && registered) throw alreadyRegistered(credential.partner, credential.kind);
      return;
    case 'initial':
      if (onboarding === 'open' || onboarding === 'begins') return;
      if (credential.isSettling) throw new HubError('unavailable', { retryAfterS: 1 });
      throw new HubError(onboarding === 'changes' ? 'notRegistered' : 'invalidToken');
    case 'spent':
      if (onboarding === 'begins' && registered) throw alreadyRegistered(credential.partner, credential.kind);
      throw new HubError(onboarding === 'changes' && !registered ? 'notRegistered' : 'invalidToken');
  }
}

export function callerOf(
  credential: Credential,
  rule: CallerRule,
  request: { headers: IncomingHeaders; params: Readonly<Record<string, string>> } & Pick<Caller, 'trace' | 'isStale'>,
): Caller {
  const { partner } = credential;
  const party = rule({ partner, from: readRouting(request.headers, 'from'), params: request.params });
  const { trace, isStale } = request;
  return { partner, party, id: keyOf(party), trace, ...(isStale && { isStale }) };
}

/** `OCPI-to-*`; null when absent, and when it names the hub or the caller itself. [D5] */
export function receiverNamed(hub: Hub, caller: Caller, headers: IncomingHeaders): RoutingParty | null {
  const to = readRouting(headers, 'to');
  if (to === null) return null;
  const named = keyOf(to);
  return named === keyOf(hub.party) || named === caller.id ? null : to;
}

/** Whether `OCPI-to-*` names the hub. */
export function namesHub(hub: Hub, headers: IncomingHeaders): boolean {
  const to = readRouting(headers, 'to');
  return to !== null && keyOf(to) === keyOf(hub.party);
}

/** Whether `OCPI-from-*` names a party that is not the partner's. Refuses with `invalid` when one half is missing. */
export function namesOther({ roles }: Partner, headers: IncomingHeaders): boolean {
  const from = readRouting(headers, 'from');
  return from !== null && !roles.some(samePartyAs(from));
}

/** The parties of a partner for which a request may speak. Refuses with `invalidToken`. */
export const partiesNamed = (partner: Partner, headers: IncomingHeaders): readonly PartyRole[] =>
  ownParties({ partner, from: readRouting(headers, 'from'), params: {} });

// Rules that the route tables name

/** Any party of the partner. */
export const anyParty: CallerRule = (asking) => first(ownParties(asking), 'invalidToken');

export const cpo: CallerRule = (asking) => speaking(asking, 'CPO');
export const emsp: CallerRule = (asking) => speaking(asking, 'EMSP');

/** The CPO named in the path. */
export const owningCpo: CallerRule = (asking) => owning(asking, 'CPO');
/** The eMSP named in the path. */
export const owningEmsp: CallerRule = (asking) => owning(asking, 'EMSP');

/** The CPO named in the path, or any eMSP; the hub decides whether that eMSP may see the object. [D20] */
export const owningCpoOrEmsp: CallerRule = (asking) => owningOr(asking, 'CPO', 'EMSP');
/** The eMSP named in the path, or any CPO. [D20] */
export const owningEmspOrCpo: CallerRule = (asking) => owningOr(asking, 'EMSP', 'CPO');

/**
 * A CPO of the partner: the one that `OCPI-from-*` names, else the first; a partner without one gets `invalidToken`.
 * [interface, Authentication 7] Another partner's party in `OCPI-from-*` is no reason to refuse: the token and the
 * command decide whose result it is, and a driver waits for it.
 */
export const cpoElseInvalidToken: CallerRule = ({ partner, from }) => {
  const own = withRole(partner.roles, 'CPO');
  return (from && own.find(samePartyAs(from))) ?? first(own, 'invalidToken');
};

/** The party that a path names by its first two segments. */
export function pathParty(params: Readonly<Record<string, string>>): RoutingParty {
  const { country_code = '', party_id = '' } = params;
  return { country_code, party_id };
}

const withRole = (parties: readonly PartyRole[], role: Role) => parties.filter((party) => party.role === role);
const samePartyAs = (named: RoutingParty) => (party: PartyRole) => keyOf(party) === keyOf(named);

function first(
  parties: readonly PartyRole[],
  otherwise: 'invalidToken' | 'cpoOnly' | 'emspOnly' | 'notFound',
): PartyRole {
  const [party] = parties;
  if (!party) throw new HubError(otherwise);
  return party;
}

/** The parties that the caller may act as: all of its partner's, or the one that `OCPI-from-*` names. [D5] */
function ownParties({ partner, from }: Asking): readonly PartyRole[] {
  if (from === null) return partner.roles;
  const named = partner.roles.filter(samePartyAs(from));
  if (named.length === 0)
    throw new HubError('invalid', { message: 'OCPI-from-party-id: expected a party of the caller' });
  return named;
}

function speaking(asking: Asking, role: Role): PartyRole {
  const wrongRole = role === 'CPO' ? 'cpoOnly' : 'emspOnly';
  first(withRole(asking.partner.roles, role), wrongRole);
  return first(withRole(ownParties(asking), role), wrongRole);
}

function owning(asking: Asking, role: Role): PartyRole {
  first(withRole(asking.partner.roles, role), role === 'CPO' ? 'cpoOnly' : 'emspOnly');
  ownParties(asking);
  return first(withRole(asking.partner.roles, role).filter(samePartyAs(pathParty(asking.params))), 'notFound');
}

function owningOr(asking: Asking, owner: Role, counterpart: Role): PartyRole {
  const speakers = ownParties(asking);
  const own = withRole(asking.partner.roles, owner).find(samePartyAs(pathParty(asking.params)));
  return own ?? first(withRole(speakers, counterpart), 'notFound');
}
