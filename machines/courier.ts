/**
 * State machine of one receiving partner: whether its deliveries may be sent, and how many at a time. The hub owns the
 * lanes and sends.
 *
 * Door. `flowing`: deliveries are sent. `suspended`: the partner has no registration, nothing is sent; owed deliveries
 * are taken out of their lanes and end as dead letters. Hold. `none`, or `paused` by an operator.
 * Circuit. `closed`: up to `slots` in flight; after the breaker was open `slots` starts at 1 and doubles with each
 * success (slow start). `backingOff`: none until the breaker half-opens. `trying`: one.
 *
 * COURIER-1  `allowance` alone says how many deliveries one partner's state allows in flight. The limit for all
 *     partners together may leave less.
 * COURIER-2  Every transition that may let more deliveries go names the effect `pump`; the hub sends only when it runs.
 */
import { assign, type SnapshotFrom, setup } from 'xstate';

export interface CourierContext {
  /** Deliveries in flight at most, now. */
  readonly slots: number;
  /** Deliveries in flight at most, when the partner is healthy. */
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
    /** Effect: sends the deliveries that `allowance` permits. */
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

/** Whether the circuit is closed and no operator has paused the partner. */
export const isFlowing = ({ value }: SnapshotFrom<typeof courierMachine>): boolean =>
  value.hold !== 'paused' && value.circuit === 'closed';

/** Whether a success raises the number of slots. */
export const isGrowing = ({ value, context }: SnapshotFrom<typeof courierMachine>): boolean =>
  value.circuit === 'closed' && context.slots < context.slotsMax;

/** How many deliveries may be in flight; for a suspended partner, how many are taken out at a time. [COURIER-1] */
export function allowance(snapshot: SnapshotFrom<typeof courierMachine>): number {
  const { door, hold, circuit } = snapshot.value;
  if (door === 'suspended') return snapshot.context.slotsMax;
  if (hold === 'paused' || circuit === 'backingOff') return 0;
  return circuit === 'trying' ? 1 : snapshot.context.slots;
}
