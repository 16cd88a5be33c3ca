/**
 * Watches one session until the CPO says what is missing: after an accepted STOP_SESSION how it ended, after COMPLETED its CDR.
 * [interface, Orphan handling; D36]
 *
 * `grace`: armed; what was missing disarms it when it comes. `due`: the grace is over; the next sweep opens a case. `open`:
 * flagged for operations, and the CPO is asked once. `resolved`: it came after all, or an operator closed the case.
 * `disarmed`: all was well.
 *
 * ORPHAN-STOP-1  Nothing is invented: no COMPLETED, no CDR, no second stop. A case is a flag for people.
 * ORPHAN-STOP-2  The grace is an instant in the log: a restart neither shortens nor lengthens it.
 */
import { assign, setup } from 'xstate';

export interface OrphanStopContext {
  /** End of the grace, epoch ms; null once it is over. */
  readonly due: number | null;
}

export type OrphanStopEvent =
  | { type: 'orphan.disarmed' | 'orphan.opened' | 'orphan.resolved'; at: number }
  | { type: 'deadline.passed'; at: number }
  | { type: 'sweep'; at: number };

export const orphanStopMachine = setup({
  types: {
    context: {} as OrphanStopContext,
    events: {} as OrphanStopEvent,
    input: {} as { graceEndsAt: number },
  },
  actions: {
    /** Hands: arm the deadline `context.due`, or disarm it when null. */
    arm: () => {},
    /** Hands: record that the case is open. */
    recordOpened: () => {},
    /** Hands: ask the CPO for the true state. */
    askCpo: () => {},
    stopWaiting: assign({ due: null }),
  },
}).createMachine({
  id: 'orphan-stop',
  initial: 'grace',
  context: ({ input }) => ({ due: input.graceEndsAt }),
  states: {
    grace: {
      entry: 'arm',
      on: {
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
