/**
 * Reads by partners: one object, or the list of the objects that the caller is entitled to; and
 * hub client info.
 * [interface, Routing and ownership]
 */
import type { ListPage, Position, Row } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import { isOwned, modules, type ObjectModule } from '../../domain/modules.ts';
import { type HubObject, objectKey, readWithin, sortableDate } from '../../domain/object.ts';
import { type ConnectionStatus, keyOf, type PartyId } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import type { PartnerDirectory } from '../kernel/directory.ts';
import { objectsSize, ownedShelves, ownersOf, readObject } from '../kernel/row-codecs.ts';
import type { Caller, ClientInfo, Listed, ListRequest, ObjectQuery, Reserve } from '../ports/hub.ts';

export function readObjects({ store, directory }: Context) {
  /**
   * Whether the caller may see the object: its own always, others' sessions and CDRs by `cdr_token`, catalogue objects
   * by routing and `publish`. Tokens of an eMSP that left are absent: their eMSP can no longer be billed.
   */
  function maySee(caller: Caller, object: HubObject): boolean {
    if (object.owner === caller.id) return true;
    if (isOwned(object.module)) return object.viewer === caller.id;
    const [emsp, cpo] = caller.party.role === 'EMSP' ? [caller.id, object.owner] : [object.owner, caller.id];
    const isThere = modules[object.module].owner === 'CPO' || directory.isRegistered(object.owner);
    return isThere && object.facts.publish !== false && directory.isRouted(emsp, cpo);
  }

  /** Whether a rule routes the caller to this party, in the roles that the module gives them. */
  function isCounterpart(caller: Caller, named: PartyId): boolean {
    const [emsp, cpo] = caller.party.role === 'EMSP' ? [caller.id, named] : [named, caller.id];
    return directory.isRouted(emsp, cpo);
  }

  /** Whether the object is between the caller and the counterpart that it names, if it names one. [D68] */
  function isBetween(caller: Caller, object: HubObject, named: PartyId | undefined): boolean {
    if (named === undefined) return true;
    const other = object.owner === caller.id ? object.viewer : object.owner;
    return isCounterpart(caller, named) && (other === named || other === null);
  }

  /** Owners to search when the query does not name one. */
  async function candidates(caller: Caller, query: ObjectQuery): Promise<readonly PartyId[]> {
    if (query.owner !== null) return [query.owner];
    if (caller.party.role === 'CPO' && modules[query.module].owner === 'CPO') return [caller.id];
    const counterparts = directory.counterparts(caller.id, caller.party.role);
    if (!modules[query.module].isFoundById) return counterparts;
    // One read, where a look at each counterpart would cost as many reads as there are counterparts.
    const owners = await ownersOf(store, query.module, query.id);
    // A CDR belongs to its eMSP for ever, whatever the present routing. [D22]
    return modules[query.module].hasPath ? owners.filter((owner) => isCounterpart(caller, owner)) : owners;
  }

  async function read(caller: Caller, query: ObjectQuery, reserve: Reserve): Promise<string> {
    const key = objectKey(query.module, query.id, query.tokenType ? { tokenType: query.tokenType } : {});
    const owners = await candidates(caller, query);
    const size = await objectsSize(store, query.module, owners, key);
    if (size > 0) await reserve(size);
    let first: string | null = null;
    let count = 0;
    for (const owner of owners) {
      const object = await readObject(store, query.module, owner, key);
      const isFound = object && maySee(caller, object) && isBetween(caller, object, query.to);
      const text = isFound ? readWithin(object.body, query.within) : null;
      if (text === null) continue;
      first ??= text;
      count += 1;
    }
    if (first === null) throw new HubError('notFound');
    if (count > 1) throw new HubError('invalid', { message: `ambiguous: ${count} owners use id ${query.id}` });
    return first;
  }

  async function list(
    caller: Caller,
    module: ObjectModule,
    request: ListRequest,
    named?: PartyId,
  ): Promise<Listed<string>> {
    const counterparts = (): readonly PartyId[] =>
      modules[module].owner === 'CPO'
        ? directory.counterparts(caller.id, caller.party.role)
        : directory.emspsOf(caller.id);
    const all = isOwned(module) ? ownedShelves(caller.id) : counterparts();
    const isNamed = named !== undefined && isCounterpart(caller, named);
    const shelves = named === undefined || (isOwned(module) && isNamed) ? all : all.filter((id) => id === named);
    const owner = isOwned(module) && isNamed ? { owner: named } : {};
    const page = await store.list({ kind: module, shelves, ...owner, ...request, bodiesOnly: true });
    return listed(page, (row) => row.body ?? '');
  }

  return { read, list };
}

function listed<T>(page: ListPage, item: (row: Row) => T): Listed<T> {
  const last = page.rows.at(-1);
  return {
    items: page.rows.map(item),
    total: page.total,
    isLast: page.isLast,
    last: last ? { upd: last.upd, owner: last.owner, id: last.id } : null,
  };
}

// Hub client info: every party the hub knows, with its connection status. [interface, Hub client info; D30]

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
