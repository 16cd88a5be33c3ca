/**
 * Finds the CPO of a command: the owner of the location, session or reservation that the command names. The token that
 * a command names is one of its sender's.
 * Then the rows of a command, by which later steps find it, and its named events.
 * [interface, Commands 1; D5, D26, D27, D45]
 */

import type { Put, RowKey, Store } from '../../../storage/contract.ts';
import { type CommandRecord, isAccepted } from '../../domain/command.ts';
import { HubError } from '../../domain/errors.ts';
import type { CommandEvent } from '../../domain/events.ts';
import { dateMs, type HubObject, readWithin } from '../../domain/object.ts';
import { keyOf, type PartyId } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import { isName, objectsSize, ownersOf, readObject, rowData } from '../kernel/row-codecs.ts';
import type { Caller, CommandRequest, Reading, TokenParty } from '../ports/hub.ts';
import { isStartedBy, startRows } from './attribution.ts';

export interface CommandTarget {
  readonly cpo: PartyId;
  /** The session that a STOP_SESSION names, without its text: the forward may take long. Null for other commands. */
  readonly session: Pick<HubObject, 'owner' | 'key' | 'id'> | null;
}

export async function findCpo(
  context: Context,
  caller: Caller,
  request: CommandRequest,
  named: PartyId | null,
  reading: Reading,
): Promise<CommandTarget> {
  if (request.sessionId !== null) return ownSession(context, caller, request.sessionId, named);
  if (request.locationId !== null) {
    const owners = await ownersOf(context.store, 'locations', request.locationId);
    const narrowed = named === null ? await withEvse(context, caller, request, owners, reading) : owners;
    return { cpo: choose(context, caller, narrowed, named), session: null };
  }
  return { cpo: await reservationCpo(context, caller, request, named), session: null };
}

/**
 * The owners whose location has the EVSE and connector of the command, when several routed CPOs use its location id and
 * one of them alone has it; otherwise all of them. [D68]
 */
async function withEvse(
  { store, directory }: Context,
  caller: Caller,
  { locationId, within = [] }: CommandRequest,
  owners: readonly PartyId[],
  reading: Reading,
): Promise<readonly PartyId[]> {
  const routed = owners.filter((owner) => directory.isRouted(caller.id, owner));
  if (routed.length < 2 || within.length === 0) return owners;
  const key = (locationId ?? '').toLowerCase();
  const having: PartyId[] = [];
  for (const owner of routed) {
    const has = async () => {
      const location = await readObject(store, 'locations', owner, key);
      return location !== null && readWithin(location.body, within) !== null;
    };
    const size = await objectsSize(store, 'locations', [owner], key);
    if (await (size > 0 ? reading(size, has) : has())) having.push(owner);
  }
  return having.length === 1 ? having : owners;
}

/** Treats a session of another eMSP as unknown. [D45] */
async function ownSession(context: Context, caller: Caller, id: string, named: PartyId | null): Promise<CommandTarget> {
  const { store } = context;
  const sessions = new Map<PartyId, Named>();
  for (const owner of await ownersOf(store, 'sessions', id)) {
    const session = await readObject(store, 'sessions', owner, id.toLowerCase());
    const named = session && { owner, key: session.key, id: session.id, facts: session.facts };
    if (named && session.viewer === caller.id) sessions.set(owner, named);
  }
  const owners = named === null ? await meantBy(context, caller, sessions) : [...sessions.keys()];
  const cpo = choose(context, caller, owners, named);
  const session = sessions.get(cpo);
  return { cpo, session: session ? { owner: session.owner, key: session.key, id: session.id } : null };
}

type Named = Pick<HubObject, 'owner' | 'key' | 'id' | 'facts'>;

const ended: ReadonlySet<string | undefined> = new Set(['COMPLETED', 'INVALID']);

/**
 * Of several sessions with one id: those that go on, then those that the eMSP's START_SESSION may have begun. So no CPO can keep an eMSP
 * from stopping a session at another one by using its id.
 */
async function meantBy(
  { store, directory }: Context,
  caller: Caller,
  sessions: ReadonlyMap<PartyId, Named>,
): Promise<readonly PartyId[]> {
  const routed = [...sessions.values()].filter(({ owner }) => directory.isRouted(caller.id, owner));
  const goingOn = routed.filter(({ facts }) => !ended.has(facts.status));
  const started: Named[] = [];
  if (goingOn.length > 1) {
    for (const one of goingOn) if (await isStartedBy(store, caller.id, one)) started.push(one);
  }
  const [meant = []] = [started, goingOn, routed].filter(({ length }) => length > 0);
  return meant.length > 0 ? meant.map(({ owner }) => owner) : [...sessions.keys()];
}

async function reservationCpo(
  context: Context,
  caller: Caller,
  request: CommandRequest,
  named: PartyId | null,
): Promise<PartyId> {
  const { store, directory } = context;
  const emsps = [...directory.partners()].flatMap(({ roles }) => roles).filter(({ role }) => role === 'EMSP');
  const made = await reservationsOf(store, request.reservationId ?? '', emsps.map(keyOf));
  const own = made.filter(({ emsp }) => emsp === caller.id);
  if (own.length > 0) {
    const meant = named === null && own.length > 1 ? await running(context, own) : own;
    const cpos = meant.map(({ cpo }) => cpo);
    return choose(context, caller, cpos, named);
  }
  // Another eMSP made it, at the CPO that is named if one is. [D66, D94]
  if (made.some(({ cpo }) => named === null || cpo === named)) throw new HubError('locationNotFound');
  if (named === null) {
    throw new HubError('invalid', { message: 'reservation_id: unknown reservation, and OCPI-to-* names no CPO' });
  }
  if (!directory.party(named, 'CPO')) throw new HubError('notRouted');
  return named;
}

/** Those that have not run out, and that neither their CPO nor their eMSP has ended; all of them when none is left. */
async function running({ store, ports }: Context, made: readonly Reservation[]): Promise<readonly Reservation[]> {
  const wall = ports.clock.wall();
  const left: Reservation[] = [];
  for (const one of made) {
    if (one.isCancelled) continue;
    const record = one.command ? await rowData<CommandRecord>(store, commandKey(one.command)) : null;
    const isOver = record && (record.result !== 'ACCEPTED' || dateMs(record.expiryDate ?? '') <= wall);
    if (!isOver) left.push(one);
  }
  return left.length > 0 ? left : made;
}

/**
 * Chooses among the owners of one id: the one that `OCPI-to-*` names, else the only routed one. Without any, the first,
 * which the routing check then refuses.
 */
function choose(context: Context, caller: Caller, owners: readonly PartyId[], named: PartyId | null): PartyId {
  const [only] = owners;
  if (only === undefined) throw new HubError('locationNotFound');
  if (named !== null) {
    if (owners.includes(named)) return named;
    throw new HubError('invalid', { message: 'OCPI-to-country-code, OCPI-to-party-id: not the CPO of this object' });
  }
  const routed = owners.filter((owner) => context.directory.isRouted(caller.id, owner));
  if (routed.length > 1) throw new HubError('invalid', { message: `ambiguous: ${routed.length} CPOs use this id` });
  return routed[0] ?? only;
}

/** Throws unless the token names no party, or an eMSP of the caller's partner that is routed to the CPO. [D16, D26, D65] */
export function refuseForeignToken(
  { directory }: Context,
  { partner }: Caller,
  { country_code, party_id }: TokenParty,
  cpo: PartyId,
): void {
  const fits = (named: string | null | undefined, own: string) => !named || named.toUpperCase() === own.toUpperCase();
  const named = partner.roles.filter(
    (own) => own.role === 'EMSP' && fits(country_code, own.country_code) && fits(party_id, own.party_id),
  );
  if (named.length === 0) throw new HubError('invalid', { message: 'token.party_id: expected a party of the caller' });
  if (!named.some((own) => directory.isRouted(keyOf(own), cpo))) throw new HubError('notRouted');
}

// Rows and events of a command in the store: its own row, the index rows by which later steps find it, and its named
// events.

export const commandKey = (id: string): RowKey => ({ kind: 'commands', owner: '', id });

export function commandRow(record: CommandRecord) {
  return { ...commandKey(record.id), shelf: 'commands', upd: record.at, data: record, body: null };
}

/** Index rows of an accepted command: from a reservation to its CPO and whether it was cancelled, and from a START_SESSION to its eMSP. */
export function foundAgainBy(record: CommandRecord, event: CommandEvent, at: string): Put[] {
  const { command, reservationId } = record;
  if (command === 'CANCEL_RESERVATION' && reservationId !== null && isDone(event))
    return [madeRow(record, reservationId, at, { isCancelled: true })];
  if (!isAccepted(event)) return [];
  if (command === 'RESERVE_NOW' && reservationId !== null) return reservationRows(record, reservationId, at);
  return command === 'START_SESSION' ? startRows(record, at) : [];
}

/** Whether the CPO has done what it accepted. */
const isDone = ({ type, data }: CommandEvent): boolean =>
  type === 'command.resultReceived' && data.result === 'ACCEPTED';

/** An accepted RESERVE_NOW. An id is unique to its eMSP at one CPO: two eMSPs, or one at two CPOs, may use the same. */
export interface Reservation {
  readonly emsp: PartyId;
  readonly cpo: PartyId;
  /** Id of the command that wrote the row. Absent in rows of earlier versions. */
  readonly command?: string;
  /** The eMSP cancelled it, and the CPO said that it is done. */
  readonly isCancelled?: true;
}

const nameOf = ({ emsp, cpo }: Pick<Reservation, 'emsp' | 'cpo'>) => `${emsp}/${cpo}`;
const reservationsOfId = 'reservations:made';
const latestKey = (owner: PartyId, id: string): RowKey => ({ kind: 'reservations', owner, id: id.toLowerCase() });

const row = (key: RowKey, at: string, data: object): Put => ({ ...key, shelf: null, upd: at, data, body: null });

function madeRow({ id: command, emsp, cpo }: CommandRecord, id: string, at: string, cancelled: object = {}): Put {
  const key = { kind: reservationsOfId, owner: id.toLowerCase(), id: nameOf({ emsp, cpo }) };
  return row(key, at, { emsp, cpo, command, ...cancelled });
}

function reservationRows(record: CommandRecord, id: string, at: string): Put[] {
  const { emsp, cpo } = record;
  // The second is the row of 2026-11-22, one for all CPOs: a damaged one of that time is rebuilt in this form.
  return [madeRow(record, id, at), row(latestKey(emsp, id), at, { cpo })];
}

/** All reservations of an id. `emsps`: those whose rows of earlier versions are read, too. */
async function reservationsOf(store: Store, id: string, emsps: readonly PartyId[]): Promise<Reservation[]> {
  if (!isName(id)) return [];
  const latest = await Promise.all(
    emsps.map(async (emsp): Promise<Reservation[]> => {
      const row = await rowData<{ cpo: PartyId }>(store, latestKey(emsp, id));
      return row ? [{ emsp, cpo: row.cpo }] : [];
    }),
  );
  const made = new Map(latest.flat().map((one) => [nameOf(one), one]));
  for await (const { data } of store.scan(reservationsOfId, id.toLowerCase())) {
    made.set(nameOf(data as Reservation), data as Reservation);
  }
  return [...made.values()];
}

/** Adds the command's name, parties and session to an event, so that the event can be understood alone. */
export function named(event: CommandEvent, { command, emsp, cpo, sessionId }: CommandRecord): CommandEvent {
  if (event.type === 'command.requested') return event;
  return { ...event, data: { ...event.data, command, emsp, cpo, sessionId } } as CommandEvent;
}
