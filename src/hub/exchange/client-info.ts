/** Hub client info: every party the hub knows, with its connection status. [interface, Hub client info; D30] */
import type { Position } from '../../../storage/contract.ts';
import { sortableDate } from '../../domain/object.ts';
import { type ConnectionStatus, keyOf } from '../../domain/party.ts';
import type { PartnerDirectory } from '../kernel/directory.ts';
import type { ClientInfo, Listed, ListRequest } from '../ports/hub.ts';

const wireStatus: Record<ConnectionStatus, ClientInfo['status']> = {
  REGISTERED: 'PLANNED',
  CONNECTED: 'CONNECTED',
  OFFLINE: 'OFFLINE',
  SUSPENDED: 'SUSPENDED',
};

export function clientInfo(directory: PartnerDirectory, request: ListRequest): Listed<ClientInfo> {
  const rows = [...directory.partners()].flatMap((partner) =>
    partner.roles.map((role) => {
      const { country_code, party_id } = role;
      const { lastUpdated: last_updated } = partner;
      const isAbsent = role.isUnnamed && partner.status !== 'SUSPENDED';
      const status = wireStatus[isAbsent ? 'REGISTERED' : partner.status];
      const info: ClientInfo = { country_code, party_id, role: role.role, status, last_updated };
      return { info, upd: sortableDate(last_updated) ?? last_updated, owner: keyOf(role), id: role.role };
    }),
  );
  const matching = rows
    .filter(({ upd }) => (!request.from || upd >= request.from) && (!request.to || upd < request.to))
    .sort((a, b) => compare(a, b));
  const { after } = request;
  const offset = after ? matching.filter((row) => compare(row, after) <= 0).length : request.offset;
  const page = matching.slice(offset, offset + request.limit);
  const last = page.at(-1);
  return {
    items: page.map(({ info }) => info),
    total: matching.length,
    isLast: offset + page.length >= matching.length,
    last: last ? { upd: last.upd, owner: last.owner, id: last.id } : null,
  };
}

function compare(a: Position, b: Position): number {
  const [x, y] = [`${a.upd} ${a.owner} ${a.id}`, `${b.upd} ${b.owner} ${b.id}`];
  return x < y ? -1 : x > y ? 1 : 0;
}
