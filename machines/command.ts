/**
 * State machine of one command that an eMSP sends to a CPO through the hub.
 *
 * `forwarding`: the hub has sent the command and waits for the CPO's answer. `rejected` (an end): the CPO refused it,
 * or the forward failed, or was taken for cut off until its answer is recorded. `awaiting`: the CPO accepted; the hub waits for the asynchronous result until `due`.
 * `relaying`: a result came and is being sent to the eMSP. `relayed`: the relay of the last one has succeeded or failed; a
 * further result (a reservation cancelled later) may still come. `silent` (an end): no result came in time.
 *
 * COMMAND-1  A command is forwarded at most once: no state and no transition of the machine sends it, so neither does a
 *     restored actor. The hub forwards it between the record of the command and the one of its answer.
 * COMMAND-2  A result may come before the forward has returned, late, and more than once; each one is relayed. [D29]
 * COMMAND-3  The hub invents no result; it tells nobody of `silent`.
 */
import { assign, setup } from 'xstate';

export interface CommandContext {
  /** End of the wait for a result, epoch ms; null while the command does not wait. */
  readonly due: number | null;
  readonly result: string | null;
  /** How many results have come. */
  readonly results: number;
  /** The CPO's immediate answer. */
  readonly accepted: boolean;
}

export type CommandMachineEvent =
  | { type: 'command.answered'; at: number; data: { result: string; timeoutS: number } }
  | { type: 'command.failed'; at: number; data: { reason: string } }
  | { type: 'command.resultReceived'; at: number; data: { result: string } }
  | { type: 'command.relayed'; at: number; data: { result: string; resultNumber?: number } }
  | { type: 'command.relayFailed'; at: number; data: { result: string; resultNumber?: number; reason: string } }
  | { type: 'command.silent'; at: number }
  | { type: 'deadline.passed'; at: number };

export const commandMachine = setup({
  types: { context: {} as CommandContext, events: {} as CommandMachineEvent },
  actions: {
    /** Effect: arms the deadline `context.due`, or disarms it when null. */
    arm: () => {},
    /** Effect: records `command.silent`. */
    recordSilent: () => {},
    keepAnswer: assign(({ event }) =>
      event.type === 'command.answered'
        ? { accepted: event.data.result === 'ACCEPTED', due: event.at + event.data.timeoutS * 1000 }
        : {},
    ),
    keepResult: assign(({ context: { results }, event }) =>
      event.type === 'command.resultReceived' ? { result: event.data.result, results: results + 1 } : {},
    ),
    stopWaiting: assign({ due: null }),
  },
  guards: {
    accepts: ({ event }) => event.type === 'command.answered' && event.data.result === 'ACCEPTED',
    /** Whether it is the last result, of several, that has been relayed. */
    isLast: ({ context: { results }, event }) =>
      (event.type === 'command.relayed' || event.type === 'command.relayFailed') &&
      (event.data.resultNumber ?? results) >= results,
  },
}).createMachine({
  id: 'command',
  initial: 'forwarding',
  context: { due: null, result: null, results: 0, accepted: false },
  on: {
    'command.resultReceived': { target: '.relaying', actions: ['keepResult', 'stopWaiting', 'arm'] },
  },
  states: {
    forwarding: {
      on: {
        'command.answered': [
          { guard: 'accepts', target: 'awaiting', actions: ['keepAnswer', 'arm'] },
          { target: 'rejected' },
        ],
        'command.failed': { target: 'rejected' },
      },
    },
    rejected: {
      on: {
        // A door may record the answer only after the owner has taken the forward for cut off. [COMMANDS-5]
        'command.answered': { guard: 'accepts', target: 'awaiting', actions: ['keepAnswer', 'arm'] },
      },
    },
    awaiting: {
      on: {
        'deadline.passed': { actions: 'recordSilent' },
        'command.silent': { target: 'silent', actions: 'stopWaiting' },
      },
    },
    relaying: {
      on: {
        // The answer to the forward may come after the result, which already counts: the state stays. [COMMAND-2]
        'command.answered': { actions: assign({ accepted: true }) },
        'command.relayed': { guard: 'isLast', target: 'relayed' },
        'command.relayFailed': { guard: 'isLast', target: 'relayed' },
      },
    },
    relayed: {},
    silent: {},
  },
});

/** States in which the actor waits for nothing and may be stopped; a later event restores it from the log. */
export const commandEnds: ReadonlySet<string> = new Set(['rejected', 'relayed', 'silent']);
