/**
 * Rows and events of a command in the store: its own row, the index rows by which later steps find it, and its named
 * events.
 */
import type { Put, RowKey, Store } from '../../../storage/contract.ts';
import { type CommandRecord, isAccepted } from '../../domain/command.ts';
import type { CommandEvent } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import { isName, rowData } from '../kernel/row-codecs.ts';
import { startRows } from './attribution.ts';

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
export async function reservationsOf(store: Store, id: string, emsps: readonly PartyId[]): Promise<Reservation[]> {
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
