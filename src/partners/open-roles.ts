/**
 * Interface roles of endpoints that come without one: some partners list a module once and leave its role out. [D74]
 *
 * OPEN-ROLES-1  Such an endpoint takes the roles that a partner of these parties has in the module and that no other
 *     endpoint of the module states. When several endpoints would share several roles, none is guessed.
 */
import { isModule, modules } from '../domain/modules.ts';
import type { InterfaceRole, PartyRole, Role } from '../domain/party.ts';

/** An endpoint as the partner lists it; `role` is null when it has none. */
export interface ListedEndpoint {
  readonly identifier: string;
  readonly role: InterfaceRole | null;
  readonly url: string;
}

/** Modules without stored objects, by the role of their sender. The hub sends `hubclientinfo`. */
const senders: Readonly<Record<string, Role | 'HUB'>> = {
  commands: 'EMSP',
  chargingprofiles: 'EMSP',
  hubclientinfo: 'HUB',
};

/** The endpoints that had no role, with those that they take: none, one or both. */
export function openRoles(
  listed: readonly ListedEndpoint[],
  parties: readonly Pick<PartyRole, 'role'>[],
): (ListedEndpoint & { readonly role: InterfaceRole })[] {
  const byModule = new Map<string, ListedEndpoint[]>();
  for (const endpoint of listed) {
    const same = byModule.get(endpoint.identifier);
    if (same) same.push(endpoint);
    else byModule.set(endpoint.identifier, [endpoint]);
  }
  return [...byModule].flatMap(([identifier, all]) => {
    const without = all.filter(({ role }) => role === null);
    const stated = new Set(all.map(({ role }) => role));
    const open = rolesIn(identifier, parties).filter((role) => !stated.has(role));
    if (without.length > 1 && open.length > 1) return [];
    return without.flatMap((endpoint) => open.map((role) => ({ ...endpoint, role })));
  });
}

/** The interface roles that a partner of these parties has in a module; none when the hub does not know the module. */
function rolesIn(identifier: string, parties: readonly Pick<PartyRole, 'role'>[]): InterfaceRole[] {
  const sender = isModule(identifier) ? modules[identifier].owner : senders[identifier];
  if (sender === undefined) return [];
  return [...new Set(parties.map(({ role }) => (role === sender ? 'SENDER' : 'RECEIVER')))];
}
