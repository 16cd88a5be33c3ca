/**
 * Changes of the parties and roles that an operator assigned to a partner. [D12, D16, D41]
 *
 * PARTY-ROLES-1  A role is removed only when nothing depends on it: no routing rule names it, its party has no stored object in it, and
 *     where the partner loses the party itself, no delivery to it waits or is a dead letter. Nor does a rule that is being set name it
 *     afterwards, and what its partner pushes or is pulled from it is refused; a push that is in the log between the look and the removal
 *     is kept.
 * PARTY-ROLES-2  The party after which the partner is named keeps a role and comes first: streams, actors and acts bear its id.
 * PARTY-ROLES-3  A role that is added after the exchange of credentials is not connected until the next exchange names it. [D30]
 */
import type { Store } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import { isOwned, moduleNames, modules, type ObjectModule } from '../../domain/modules.ts';
import { keyOf, type Partner, type PartyId, type PartyRole, roleName } from '../../domain/party.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { Context } from '../kernel/context.ts';
import type { PartnerDirectory } from '../kernel/directory.ts';
import { ownedShelves } from '../kernel/row-codecs.ts';

interface Changed {
  readonly roles: readonly PartyRole[];
  /** Parties that the partner did not hold before, and those that it holds no longer. */
  readonly gained: readonly PartyId[];
  readonly lost: readonly PartyId[];
}

const partiesOf = (roles: readonly PartyRole[]): PartyId[] => [...new Set(roles.map(keyOf))];

/**
 * The roles of the partner once it has the wanted ones; null when these are what it has. Throws `conflict` when a party is another
 * partner's, or something depends on a role that is left out.
 */
export async function rolesChanged(
  { directory, store }: Pick<Context, 'directory' | 'store'>,
  dispatcher: Pick<Dispatcher, 'owes'>,
  partner: Partner,
  wanted: readonly PartyRole[],
): Promise<Changed | null> {
  const roles = merged(partner, wanted);
  if (JSON.stringify(roles) === JSON.stringify(partner.roles)) return null;
  const [before, after] = [partiesOf(partner.roles), partiesOf(roles)];
  const gained = after.filter((party) => !before.includes(party));
  const lost = before.filter((party) => !after.includes(party));
  const taken = gained.find((party) => party === directory.hub || directory.partnerOf(party) !== undefined);
  if (taken !== undefined) throw new HubError('conflict', { message: `${taken} exists already` });
  if (lost.includes(partner.id))
    throw new HubError('conflict', { message: `the partner is named after ${partner.id}, which keeps a role` });
  const kept = new Set(roles.map(roleName));
  for (const role of partner.roles.filter((one) => !kept.has(roleName(one)))) {
    const owes = lost.includes(keyOf(role)) && (await dispatcher.owes(keyOf(role)));
    const needs = [
      ...rulesOf(directory, role),
      ...(await storedOf(store, role)),
      ...(owes ? ['deliveries to it that wait or are dead letters'] : []),
    ];
    if (needs.length > 0)
      throw new HubError('conflict', { message: `${roleName(role)} stays while there are ${needs.join(', ')}` });
  }
  return { roles, gained, lost };
}

/** A role that the partner has keeps its spelling, and its business details unless others are given. [D12, PARTY-ROLES-3] */
function merged(partner: Partner, wanted: readonly PartyRole[]): PartyRole[] {
  const known = new Map(partner.roles.map((role) => [roleName(role), role]));
  const spelled = new Map(partner.roles.map((role) => [keyOf(role), role]));
  const roles = wanted.map((role): PartyRole => {
    const { country_code, party_id, business_details } = spelled.get(keyOf(role)) ?? role;
    const before = known.get(roleName(role));
    const isUnnamed = before ? before.isUnnamed : partner.url !== null;
    return {
      role: role.role,
      country_code,
      party_id,
      business_details: role.business_details ?? before?.business_details ?? business_details,
      ...(isUnnamed && { isUnnamed }),
    };
  });
  const isFirst = (role: PartyRole) => keyOf(role) === partner.id;
  return [...roles.filter(isFirst), ...roles.filter((role) => !isFirst(role))];
}

function rulesOf(directory: PartnerDirectory, role: PartyRole): string[] {
  const end = role.role === 'EMSP' ? 'emsp' : 'cpo';
  const count = directory.routes().filter((route) => route[end] === keyOf(role)).length;
  return count === 0 ? [] : [`routing rules that name it (${count})`];
}

/** Modules of which the party has objects in this role: its own, and of an eMSP the sessions and CDRs that belong to it. */
async function storedOf(store: Store, role: PartyRole): Promise<string[]> {
  const found: string[] = [];
  for (const module of moduleNames) if (await hasObjects(store, module, role)) found.push(`${module} of it`);
  return found;
}

async function hasObjects(store: Store, module: ObjectModule, role: PartyRole): Promise<boolean> {
  const party = keyOf(role);
  if (modules[module].owner !== role.role) {
    if (!isOwned(module)) return false;
    return (await store.list({ kind: module, shelves: ownedShelves(party), offset: 0, limit: 1 })).total > 0;
  }
  for await (const _ of store.scan(module, party)) return true;
  return false;
}
