/**
 * One receiving partner's deliveries: whether they flow, and how many at a time. The lanes themselves are the hub's.
 *
 * Door. `flowing`: deliveries go out. `suspended`: it unregistered, nothing more is sent; what was still owed is taken out and
 * ends as dead letters. Hold. `none`, or `paused`: the operator keeps deliveries back.
 * Circuit. `closed`: as many at a time as `slots`, which double from 1 after an illness. `backingOff`: none until the circuit
 * half-opens. `trying`: one.
 *
 * COURIER-1  `allowance` alone says how many deliveries the state of one partner allows at a time. What all partners together have left may be less.
 * COURIER-2  Whatever may let more go out names the effect `pump`; the hands do nothing unless it is named.
 */
import { assign, type SnapshotFrom, setup } from 'xstate';

export interface CourierContext {
  /** In flight at most, now and when well. */
  readonly slots: number;
  readonly slotsMax: number;
}

export type CourierEvent =
  | { type: 'circuit.opened' }
  | { type: 'circuit.halfOpened' }
  | { type: 'circuit.closed' }
  | { type: 'delivered' }
  | { type: 'pause' }
  | { type: 'resume' }
  | { type: 'suspend' }
  | { type: 'connect' };

export const courierMachine = setup({
  types: {
    context: {} as CourierContext,
    events: {} as CourierEvent,
    input: {} as { slotsMax: number },
  },
  actions: {
    /** Hands: send what may be sent. */
    pump: () => {},
    startSmall: assign({ slots: 1 }),
    grow: assign({ slots: ({ context }) => Math.min(context.slots * 2, context.slotsMax) }),
  },
  guards: {
    growing: ({ context }) => context.slots < context.slotsMax,
  },
}).createMachine({
  id: 'courier',
  type: 'parallel',
  context: ({ input }) => ({ slots: input.slotsMax, slotsMax: input.slotsMax }),
  states: {
    door: {
      initial: 'flowing',
      states: {
        flowing: { on: { suspend: { target: 'suspended', actions: 'pump' } } },
        suspended: { on: { connect: { target: 'flowing', actions: 'pump' } } },
      },
    },
    hold: {
      initial: 'none',
      states: {
        none: { on: { pause: { target: 'paused' } } },
        paused: { on: { resume: { target: 'none', actions: 'pump' } } },
      },
    },
    circuit: {
      initial: 'closed',
      on: {
        'circuit.opened': { target: '.backingOff' },
        'circuit.halfOpened': { target: '.trying', actions: 'pump' },
        'circuit.closed': { target: '.closed', actions: ['startSmall', 'pump'] },
      },
      states: {
        closed: { on: { delivered: { guard: 'growing', actions: ['grow', 'pump'] } } },
        backingOff: {},
        trying: {},
      },
    },
  },
});

/** Whether a success lets more go out. */
export const isGrowing = ({ value, context }: SnapshotFrom<typeof courierMachine>): boolean =>
  value.circuit === 'closed' && context.slots < context.slotsMax;

/** How many deliveries may be in flight (of a suspended partner: may be taken out at a time). [COURIER-1] */
export function allowance(snapshot: SnapshotFrom<typeof courierMachine>): number {
  const { door, hold, circuit } = snapshot.value;
  if (door === 'suspended') return snapshot.context.slotsMax;
  if (hold === 'paused' || circuit === 'backingOff') return 0;
  return circuit === 'trying' ? 1 : snapshot.context.slots;
}
