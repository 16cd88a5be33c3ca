/**
 * Converts read models to and from rows of the store, and stored events to the events of state machines.
 *
 * ROW-CODECS-1  Only lists of events show it: what is folded or dispatched has no such field, so that rows and memory do not
 *     depend on who acted.
 */
import type { Put, Row, RowKey, Seen, Store, StoredEvent } from '../../../storage/contract.ts';
import type { Actor, ObjectEventData } from '../../domain/events.ts';
import { applyToObject } from '../../domain/fold.ts';
import { isOwned, modules, type ObjectModule } from '../../domain/modules.ts';
import { type HubObject, sortableDate, streamOf } from '../../domain/object.ts';
import { notRegistered } from '../../domain/ownership.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import type { Route } from '../../domain/routing.ts';
import type { Clock } from '../../kit/clock.ts';
import { routeKey } from './directory.ts';

/** Shelf of sessions and CDRs without an owning eMSP. It has no hyphen, so no party id can equal it. [D23] */
export const unownedShelf = 'unowned';

/** Shelves of the sessions and CDRs of an eMSP; the second one is of those that were kept for it. [D23] */
export const ownedShelves = (emsp: PartyId): string[] => [emsp, keptShelf(emsp)];
const keptShelf = (emsp: PartyId): string => `kept:${emsp}`;

/** Shelf of what was deleted or made private while nothing was owed to a receiver that has it. [RESENDS-5] */
export const endedShelf = 'ended';
const endedSuffix = ':ended';
/** Rows of deleted objects, apart from the present ones. */
export const endedKind = (module: ObjectModule): string => `${module}${endedSuffix}`;

/** All shelves on which objects of these parties may be. */
export const shelvesOf = (parties: Iterable<PartyId>): string[] => [
  unownedShelf,
  ...[...parties].flatMap(ownedShelves),
];

/** Shelves of all sessions and CDRs that are stored and not forwarded. */
export const keptShelves = (parties: Iterable<PartyId>): string[] => [unownedShelf, ...[...parties].map(keptShelf)];

/** A row that is in no list. */
export const unlisted = ({ kind, owner, id }: RowKey, data: unknown): Put => ({
  kind,
  owner,
  id,
  shelf: null,
  upd: '',
  data,
  body: null,
});

/** A row of the list of its kind, by the instant `upd`. */
export const listed = (kind: string, id: string, upd: string, data: unknown): Put => ({
  kind,
  owner: '',
  id,
  shelf: kind,
  upd,
  data,
  body: null,
});

export function partnerPut(partner: Partner): Put {
  return unlisted({ kind: 'partners', owner: partner.id, id: partner.id }, partner);
}

export function routePut(route: Route): Put {
  return unlisted({ kind: 'routes', owner: route.cpo, id: routeKey(route.emsp, route.cpo) }, route);
}

/** The part of an object that a row stores as `data`, beside the body. */
type ObjectData = Omit<HubObject, 'body' | 'module' | 'owner' | 'key' | 'ended'>;

function shelfOf(object: HubObject): string | null {
  const { viewer, reason } = object;
  if (isOwned(object.module))
    return viewer === null ? unownedShelf : reason === notRegistered ? keptShelf(viewer) : viewer;
  if (!object.ended && object.facts.publish !== false) return object.owner;
  return object.ended || object.outdated ? endedShelf : null;
}

export function objectPut(object: HubObject): Put {
  const { body, module, owner, key, id, lastUpdated, facts, viewer, reason, forwarded, sent, outdated } = object;
  const data: ObjectData = {
    id,
    lastUpdated,
    facts,
    viewer,
    reason,
    forwarded,
    ...(sent && { sent }),
    ...(outdated && { outdated }),
  };
  const upd = sortableDate(object.lastUpdated) ?? object.lastUpdated;
  const kind = object.ended ? endedKind(module) : module;
  return { kind, owner, id: key, shelf: shelfOf(object), upd, data, body };
}

export function objectFromRow(row: Row): HubObject {
  const { id, lastUpdated, facts, viewer, reason, forwarded, sent, outdated } = row.data as ObjectData;
  const { kind, owner, id: key, body } = row;
  const ended = kind.endsWith(endedSuffix);
  const module = (ended ? kind.slice(0, -endedSuffix.length) : kind) as ObjectModule;
  const lists = sent && { sent, ...(outdated && { outdated }), ...(ended && { ended }) };
  return { module, owner, key, id, lastUpdated, facts, viewer, reason, forwarded, body: body ?? '', ...lists };
}

/** Removes the row of an object. */
export function goneOf(object: HubObject): Put {
  const { kind, owner, id } = objectPut(object);
  return { kind, owner, id, gone: true };
}

/** Reads a row for a decision and adds its version to `seen`. [RECORDER-6] */
export async function rowSeen(store: Store, key: RowKey, seen: Seen[]): Promise<Row | null> {
  const row = await store.get(key);
  seen.push({ kind: key.kind, owner: key.owner, id: key.id, seq: row?.seq ?? null });
  return row;
}

/** Whether the store accepts this name (no U+0000, no unpaired surrogate). A lookup of any other name finds nothing. */
export const isName = (text: string): boolean => !/[\0\p{Surrogate}]/u.test(text);

/** Characters kept of a refused text, at most. [D69] */
const keptChars = 65_536;

/**
 * Cuts to `keptChars`, never inside a surrogate pair: the store accepts whole characters only. What is cut is a copy, because a
 * part of a string keeps all of it in memory.
 */
export function cut(text: string): string {
  if (text.length <= keptChars) return text;
  const isSplit = (text.charCodeAt(keptChars - 1) & 0xfc00) === 0xd800;
  return Buffer.from(text.slice(0, isSplit ? keptChars - 1 : keptChars), 'utf16le').toString('utf16le');
}

export async function readObject(
  store: Store,
  module: ObjectModule,
  owner: PartyId,
  key: string,
  seen: Seen[] = [],
): Promise<HubObject | null> {
  if (!isName(owner) || !isName(key)) return null;
  const row = await rowSeen(store, { kind: module, owner, id: key }, seen);
  return row && objectFromRow(row);
}

/** What `readObject` resolves with, unless the object is large: then at least how many characters it has, and nothing of it is read. */
export async function readSmallObject(
  store: Store,
  module: ObjectModule,
  owner: PartyId,
  key: string,
  seen: Seen[],
): Promise<HubObject | number | null> {
  if (!isName(owner) || !isName(key)) return null;
  const found = await store.getSmall({ kind: module, owner, id: key });
  if (typeof found === 'number') return found;
  seen.push({ kind: module, owner, id: key, seq: found?.seq ?? null });
  return found && objectFromRow(found);
}

/** What `readObject` would resolve with, where the store tells without a wait; else undefined. */
export function peekObject(
  store: Store,
  module: ObjectModule,
  owner: PartyId,
  key: string,
): HubObject | null | undefined {
  if (!isName(owner) || !isName(key)) return null;
  const row = store.peek?.({ kind: module, owner, id: key });
  return row && objectFromRow(row);
}

/** What is stored of a deleted object; null when no receiver has it any more. */
export async function readEnded(
  store: Store,
  module: ObjectModule,
  owner: PartyId,
  key: string,
  seen: Seen[],
): Promise<HubObject | null> {
  if (!modules[module].isDeletable || !isName(key)) return null;
  const row = await rowSeen(store, { kind: endedKind(module), owner, id: key }, seen);
  return row && objectFromRow(row);
}

/**
 * At least as many characters as the large bodies of these objects have together; it reads no body, and small ones may
 * count 0.
 */
export async function objectsSize(
  store: Store,
  module: ObjectModule,
  owners: readonly PartyId[],
  key: string,
): Promise<number> {
  if (!isName(key)) return 0;
  return store.size(owners.filter(isName).map((owner) => ({ kind: module, owner, id: key })));
}

export const ownersKind = (module: ObjectModule): string => `${module}:owners`;

/** Index row by which the owners of a location, session or CDR are found from its id alone. [D27] */
export function ownerPut(module: ObjectModule, key: string, owner: PartyId): Put {
  return unlisted({ kind: ownersKind(module), owner: key, id: owner }, null);
}

export async function ownersOf(store: Store, module: ObjectModule, id: string): Promise<PartyId[]> {
  const owners: PartyId[] = [];
  if (!isName(id)) return owners;
  for await (const row of store.scan(ownersKind(module), id.toLowerCase())) owners.push(row.id);
  return owners;
}

export const billedKind = 'cdrs:sessions';

/** Index row by which the hub finds that a CDR of a session is stored. */
export function billedKey(cpo: PartyId, session: string): RowKey {
  return { kind: billedKind, owner: cpo, id: session.toLowerCase() };
}

export function billedPut(key: RowKey): Put {
  return unlisted(key, null);
}

export async function rowData<T>(store: Store, key: RowKey): Promise<T | null> {
  if (!isName(key.owner) || !isName(key.id)) return null;
  const row = await store.get(key);
  return row && (row.data as T);
}

/** A stored event as the event of the state machine of its stream; machines know hub time alone. */
export function heard(clock: Clock, event: StoredEvent): { type: string; at: number; data: unknown; seq: number } {
  return { type: event.type, at: clock.steady(Date.parse(event.at)), data: event.data, seq: event.seq };
}

// The name of the operator who caused an event, which the log keeps in the event's data. [D80]

export const whoField = 'who';

/** The data as the log keeps them. */
export const signed = (data: object, operator: string): object => ({ ...data, [whoField]: operator });

/** [ROW-CODECS-1] */
export function withoutWho(event: StoredEvent): StoredEvent {
  const recorded = (event.data ?? {}) as Record<string, unknown>;
  if (!(whoField in recorded)) return event;
  const { [whoField]: _, ...data } = recorded;
  return { ...event, data };
}

/** Body of a PATCH that changes nothing. */
const nothing = '{}';

/** What says of an object that a receiver lacks it or a change of it; `by`: that a re-drive sends it after all. [REDRIVEN-AS-6] */
export function noteOf(
  object: HubObject,
  receiver: PartyId,
  sent: readonly PartyId[],
  outdated: readonly PartyId[],
  by?: Actor,
) {
  const { module, owner, key, id, lastUpdated, viewer, reason } = object;
  const plain = { module, method: 'PATCH', owner, id, within: [], lastUpdated, facts: {}, viewer, reason } as const;
  const data: ObjectEventData = { ...plain, owed: null, sent, outdated, receiver, warnings: [], ...(by && { by }) };
  const event = { type: 'object.missed' as const, data };
  const after = applyToObject(object, { ...event, body: nothing, to: [] });
  const facts = [{ stream: streamOf(module, owner, key), event, party: null, body: nothing }];
  return { facts, puts: after ? [objectPut(after)] : [] };
}
