/**
 * State machine of one receiving partner: whether its deliveries may be sent. The hub owns the lanes and sends; how many
 * deliveries of a module may go is what the module's circuit says (`circuit.ts`).
 *
 * Door. `flowing`: deliveries are sent. `suspended`: the partner has no registration, nothing is sent; owed deliveries
 * are taken out of their lanes and end as dead letters. Hold. `none`, or `paused` by an operator.
 *
 * COURIER-1  `allowance` says how many deliveries one partner's state allows in flight, of all modules together. Its
 *     circuits and the limit for all partners together may leave less.
 * COURIER-2  Every transition that may let more deliveries go names the effect `pump`; the hub sends only when it runs.
 */
import { type SnapshotFrom, setup } from 'xstate';

export type CourierEvent = { type: 'pause' } | { type: 'resume' } | { type: 'suspend' } | { type: 'connect' };

export const courierMachine = setup({
  types: {
    /** `slotsMax`: deliveries in flight at most. */
    context: {} as { readonly slotsMax: number },
    events: {} as CourierEvent,
    input: {} as { slotsMax: number },
  },
  actions: {
    /** Effect: sends the deliveries that `allowance` permits. */
    pump: () => {},
  },
}).createMachine({
  id: 'courier',
  type: 'parallel',
  context: ({ input: { slotsMax } }) => ({ slotsMax }),
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
  },
});

type CourierSnapshot = SnapshotFrom<typeof courierMachine>;

export const isPaused = ({ value }: CourierSnapshot): boolean => value.hold === 'paused';

/** Whether owed deliveries are taken out and end as dead letters, whatever the circuits say. */
export const isSuspended = ({ value }: CourierSnapshot): boolean => value.door === 'suspended';

/** How many deliveries may be in flight; for a suspended partner, how many are taken out at a time. [COURIER-1] */
export function allowance(courier: CourierSnapshot): number {
  return isPaused(courier) && !isSuspended(courier) ? 0 : courier.context.slotsMax;
}
