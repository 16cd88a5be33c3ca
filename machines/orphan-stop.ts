/**
 * State machine that watches one session until the CPO sends the missing object: COMPLETED after an accepted
 * STOP_SESSION, or the CDR after COMPLETED. [interface, Orphan handling; D36]
 *
 * `grace`: waits for the object. `disarmed` (an end): the object came in time. `due`: the grace is over; the next sweep
 * opens a case. `open`: the case is flagged for operations, and the hub queries the CPO once. `resolved` (an end): the
 * object came after all, or an operator closed the case.
 *
 * ORPHAN-STOP-1  The hub invents nothing: no COMPLETED, no CDR, no second stop. A case is a flag for people.
 * ORPHAN-STOP-2  The end of the grace is an instant in the log: a restart does not shorten the grace, and lengthens it
 *     only when the wall clock was set back since it began, at most by that step. [CLOCK-8]
 */
import { assign, setup } from 'xstate';

export interface OrphanStopContext {
  /** End of the grace, hub time; null once it is over, and before a rebuild has seen `orphan.armed`. */
  readonly due: number | null;
}

export type OrphanStopEvent =
  | { type: 'orphan.armed'; at: number; due: number }
  | { type: 'orphan.disarmed' | 'orphan.opened' | 'orphan.resolved'; at: number }
  | { type: 'deadline.passed'; at: number }
  | { type: 'sweep'; at: number };

export const orphanStopMachine = setup({
  types: {
    context: {} as OrphanStopContext,
    events: {} as OrphanStopEvent,
    input: {} as { due: number | null },
  },
  actions: {
    /** Effect: arms the deadline `context.due`, or disarms it when null. */
    arm: () => {},
    /** Effect: records `orphan.opened`. */
    recordOpened: () => {},
    /** Effect: queries the CPO for the present state of the session. */
    askCpo: () => {},
    stopWaiting: assign({ due: null }),
    keepDue: assign(({ event }) => (event.type === 'orphan.armed' ? { due: event.due } : {})),
  },
}).createMachine({
  id: 'orphan-stop',
  initial: 'grace',
  context: ({ input }) => ({ due: input.due }),
  states: {
    grace: {
      entry: 'arm',
      on: {
        'orphan.armed': { actions: 'keepDue' },
        'deadline.passed': { target: 'due', actions: 'stopWaiting' },
        'orphan.opened': { target: 'open', actions: ['stopWaiting', 'askCpo'] },
        'orphan.disarmed': { target: 'disarmed', actions: ['stopWaiting', 'arm'] },
      },
    },
    due: {
      on: {
        sweep: { actions: 'recordOpened' },
        'orphan.opened': { target: 'open', actions: 'askCpo' },
        'orphan.disarmed': { target: 'disarmed' },
      },
    },
    open: { on: { 'orphan.resolved': { target: 'resolved' } } },
    resolved: { type: 'final' },
    disarmed: { type: 'final' },
  },
});
