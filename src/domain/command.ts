/**
 * The record of a command, folded from its events. Its states have the names of the states of the command machine.
 */
import type { CommandEvent } from './events.ts';

export type CommandState = 'forwarding' | 'rejected' | 'awaiting' | 'relaying' | 'relayed' | 'silent';

type Requested = Extract<CommandEvent, { type: 'command.requested' }>['data'];

export interface CommandRecord extends Readonly<Omit<Requested, 'quirks'>> {
  readonly state: CommandState;
  /** The CPO's immediate answer, then its asynchronous result. */
  readonly result: string | null;
  /** Why the hub rejected the command or could not relay its result. */
  readonly reason: string | null;
  /** There was no usable answer: the first result of ACCEPTED says that the CPO has accepted. Absent then, and where there was one. [D66] */
  readonly isUnanswered?: true;
  /** How many results the CPO has sent; absent: none. */
  readonly results?: number;
  /** RFC 3339. */
  readonly at: string;
}

/** The state as operators see it: of a machine that is `relayed` they ask whether the last result came to the eMSP. */
export type ShownCommandState = CommandState | 'relayFailed';

export const shownState = ({ state, reason }: Pick<CommandRecord, 'state' | 'reason'>): ShownCommandState =>
  state === 'relayed' && reason !== null ? 'relayFailed' : state;

/** Reason of a command whose call was cut off by the end of the process: the CPO may have answered anything. */
export const cutOff = 'the hub was restarted meanwhile';

interface Recorded {
  readonly type: string;
  readonly data: unknown;
}

/** Whether the CPO has accepted a command with this event: by its answer, or by a result before it or after a lost one. [D66] */
export const isAccepted = ({ type, data }: Recorded): boolean =>
  (type === 'command.answered' && (data as { result?: unknown }).result === 'ACCEPTED') ||
  (type === 'command.resultReceived' && (data as { accepts?: unknown }).accepts === true);

/** Like `isAccepted`, or whether it may have: a cut-off call has no known answer. */
export const mayBeAccepted = (event: Recorded): boolean =>
  isAccepted(event) || (event.type === 'command.failed' && (event.data as { reason?: unknown }).reason === cutOff);

type ResultReceived = Extract<CommandEvent, { type: 'command.resultReceived' }>;

/** Whether a result of ACCEPTED would be the first to tell that the CPO has accepted: the answer is lost, or may be yet. */
const mayTell = ({ isUnanswered, state }: CommandRecord): boolean => isUnanswered === true || state === 'forwarding';

/** What is recorded of a result: `accepts` when it is the first to tell that the CPO has accepted. [D66] */
export function withAcceptance(record: CommandRecord, result: ResultReceived): ResultReceived {
  return mayTell(record) && result.data.result === 'ACCEPTED'
    ? { ...result, data: { ...result.data, accepts: true } }
    : result;
}

export function applyToCommand(record: CommandRecord | null, event: CommandEvent, at: string): CommandRecord {
  if (event.type === 'command.requested') {
    const { quirks: _, ...asked } = event.data;
    return { ...asked, state: 'forwarding', result: null, reason: null, at };
  }
  if (record === null) throw new Error(`${event.type} of a command that was never requested`);
  switch (event.type) {
    case 'command.answered': {
      const { isUnanswered, ...answered } = record;
      // A door may record an answer only when the owner has taken the call for cut off. [COMMANDS-5]
      const isAwaited = record.state === 'forwarding' || (record.state === 'rejected' && isUnanswered);
      // The result may come before the answer; then the answer does not change the state. [D29]
      if (!isAwaited) return answered;
      const state = event.data.result === 'ACCEPTED' ? 'awaiting' : 'rejected';
      return { ...answered, state, result: event.data.result, reason: null };
    }
    case 'command.failed':
      if (record.state === 'forwarding')
        return { ...record, state: 'rejected', result: 'REJECTED', reason: event.data.reason, isUnanswered: true };
      return { ...record, isUnanswered: true };
    case 'command.resultReceived': {
      const { isUnanswered, ...answered } = record;
      const { result, accepts } = event.data;
      const results = (record.results ?? 0) + 1;
      const isOpen = mayTell(record) && !accepts;
      return { ...answered, ...(isOpen && { isUnanswered: true }), state: 'relaying', result, results };
    }
    case 'command.relayed':
    case 'command.relayFailed': {
      // Of results that are relayed at the same time, the last one counts.
      if ((event.data.resultNumber ?? Number.POSITIVE_INFINITY) < (record.results ?? 0)) return record;
      return { ...record, state: 'relayed', reason: event.type === 'command.relayed' ? null : event.data.reason };
    }
    case 'command.silent':
      return record.state === 'awaiting' ? { ...record, state: 'silent' } : record;
  }
}

/** The end of a call to a partner that was cut off; null when no call is in flight. [COMMANDS-2] */
export function cutOffOf({ state, result, results }: CommandRecord): CommandEvent | null {
  if (state === 'forwarding') return { type: 'command.failed', data: { reason: cutOff } };
  if (state !== 'relaying') return null;
  const resultNumber = results ?? 1;
  return { type: 'command.relayFailed', data: { result: result ?? '', resultNumber, reason: cutOff } };
}
