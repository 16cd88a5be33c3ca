/**
 * One command of an eMSP on its way through the hub.
 *
 * `forwarding`: sent to the CPO, its answer is awaited. `rejected`: the CPO refused it or could not be asked; the end.
 * `awaiting`: the CPO accepted; its asynchronous result is awaited until `due`. `relaying`: a result came and is being
 * forwarded. `relayed`: the eMSP has a result; a further one (a reservation cancelled later) may still come. `silent`: no
 * result came in time; the end, and nothing is invented.
 *
 * COMMAND-1  A command is forwarded once: `forwardToCpo` is named only when it starts, never when it is restored.
 * COMMAND-2  A result may come before the forward has returned, late, and more than once; each is relayed. [D29]
 * COMMAND-3  The hub makes no result of its own; `silent` is told to nobody.
 */
import { assign, setup } from 'xstate';

export interface CommandContext {
  /** When the wait for a result ends, epoch ms; null while there is none. */
  readonly due: number | null;
  readonly result: string | null;
  /** The CPO's immediate answer. */
  readonly accepted: boolean;
}

export type CommandMachineEvent =
  | { type: 'command.answered'; at: number; data: { result: string; timeoutS: number } }
  | { type: 'command.failed'; at: number; data: { reason: string } }
  | { type: 'command.resultReceived'; at: number; data: { result: string } }
  | { type: 'command.relayed'; at: number; data: { result: string } }
  | { type: 'command.relayFailed'; at: number; data: { result: string; reason: string } }
  | { type: 'command.silent'; at: number }
  | { type: 'deadline.passed'; at: number };

export const commandMachine = setup({
  types: { context: {} as CommandContext, events: {} as CommandMachineEvent },
  actions: {
    /** Hands: send the command to the CPO and report how it was answered. */
    forwardToCpo: () => {},
    /** Hands: arm the deadline `context.due`, or disarm it when null. */
    arm: () => {},
    /** Hands: record that no result came. */
    recordSilent: () => {},
    keepAnswer: assign(({ event }) =>
      event.type === 'command.answered'
        ? { accepted: event.data.result === 'ACCEPTED', due: event.at + event.data.timeoutS * 1000 }
        : {},
    ),
    keepResult: assign(({ event }) => (event.type === 'command.resultReceived' ? { result: event.data.result } : {})),
    stopWaiting: assign({ due: null }),
  },
  guards: {
    accepts: ({ event }) => event.type === 'command.answered' && event.data.result === 'ACCEPTED',
  },
}).createMachine({
  id: 'command',
  initial: 'forwarding',
  context: { due: null, result: null, accepted: false },
  on: {
    'command.resultReceived': { target: '.relaying', actions: ['keepResult', 'stopWaiting', 'arm'] },
  },
  states: {
    forwarding: {
      entry: 'forwardToCpo',
      on: {
        'command.answered': [
          { guard: 'accepts', target: 'awaiting', actions: ['keepAnswer', 'arm'] },
          { target: 'rejected' },
        ],
        'command.failed': { target: 'rejected' },
      },
    },
    rejected: {},
    awaiting: {
      on: {
        'deadline.passed': { actions: 'recordSilent' },
        'command.silent': { target: 'silent', actions: 'stopWaiting' },
      },
    },
    relaying: {
      on: {
        // The answer to the forward may come after the result: it ends nothing, the result already counts. [COMMAND-2]
        'command.answered': { actions: assign({ accepted: true }) },
        'command.relayed': { target: 'relayed' },
        'command.relayFailed': { target: 'relayed' },
      },
    },
    relayed: {},
    silent: {},
  },
});

/** States in which an actor has nothing left to wait for and may be let go; a later event brings it back from the log. */
export const commandEnds: ReadonlySet<string> = new Set(['rejected', 'relayed', 'silent']);
