/**
 * Rows and events of a command in the store: its own row, the index rows by which later steps find it, and its named
 * events.
 */
import type { Put, RowKey } from '../../../storage/contract.ts';
import { type CommandRecord, isAccepted } from '../../domain/command.ts';
import type { CommandEvent } from '../../domain/events.ts';
import { startRows } from './attribution.ts';

export const commandKey = (id: string): RowKey => ({ kind: 'commands', owner: '', id });

export function commandRow(record: CommandRecord) {
  return { ...commandKey(record.id), shelf: 'commands', upd: record.at, data: record, body: null };
}

/** Index rows of an accepted command: from a reservation to its CPO, and from a START_SESSION to its eMSP. */
export function foundAgainBy(record: CommandRecord, event: CommandEvent, at: string): Put[] {
  const { command, reservationId, emsp: owner, cpo } = record;
  if (!isAccepted(event)) return [];
  if (command === 'RESERVE_NOW' && reservationId !== null) {
    const key = { kind: 'reservations', owner, id: reservationId.toLowerCase() };
    return [{ ...key, shelf: null, upd: at, data: { cpo }, body: null }];
  }
  return command === 'START_SESSION' ? startRows(record, at) : [];
}

/** Adds the command's name, parties and session to an event, so that the event can be understood alone. */
export function named(event: CommandEvent, { command, emsp, cpo, sessionId }: CommandRecord): CommandEvent {
  if (event.type === 'command.requested') return event;
  return { ...event, data: { ...event.data, command, emsp, cpo, sessionId } } as CommandEvent;
}
