/**
 * Rows and events of a command in the store: its own row, the index rows by which later steps find it, and its named
 * events.
 */
import type { Put, RowKey } from '../../../storage/contract.ts';
import type { CommandRecord } from '../../domain/command.ts';
import type { CommandEvent } from '../../domain/events.ts';
import { startRows } from './attribution.ts';

export const commandKey = (id: string): RowKey => ({ kind: 'commands', owner: '', id });

export function commandRow(record: CommandRecord) {
  return { ...commandKey(record.id), shelf: 'commands', upd: record.at, data: record, body: null };
}

/** Index rows of a command that was accepted, by the answer or by the result [D66]: from a reservation to its CPO, and from a START_SESSION to its eMSP. */
export function foundAgainBy(record: CommandRecord, event: CommandEvent, at: string): Put[] {
  const { command, reservationId, emsp: owner, cpo } = record;
  // A result renews no start that its answer began: only one whose forward had failed begins with it.
  const isLate = event.type === 'command.resultReceived' && record.reason !== null;
  const isAnswer = event.type === 'command.answered' || isLate;
  if (!isAnswer || event.data.result !== 'ACCEPTED') return [];
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
