/**
 * State machine of one circuit breaker, which stops calls while they fail: each partner has one for the calls that
 * somebody waits for (`sync`), and one for the deliveries of each module.
 *
 * `closed`: calls are sent, up to `slots` in flight; after the circuit was open `slots` starts at 1 and doubles with
 * each success (slow start). `open`: no call is sent until `until`. `halfOpen`: one call at a time is sent; two
 * successes close the circuit, one failure opens it for twice as long.
 *
 * CIRCUIT-1  Only outcomes of calls, operators and an exchange of credentials change a circuit.
 * CIRCUIT-2  A circuit opens after `failuresMax` failures in a row, or when half of at least `sampleMin` calls within
 *     `sampleMs` failed, if these failures are of at least `objectsMin` different objects.
 * CIRCUIT-3  An open circuit always has an instant at which it half-opens; one that is folded from the log as open
 *     starts half-open.
 * CIRCUIT-4  Every transition that may let more calls go names the effect `circuitMayFlow`, `circuitHalfOpened` or
 *     `circuitClosed`.
 */
import { assign, type SnapshotFrom, setup } from 'xstate';
import type { Trace } from '../src/domain/events.ts';

export interface CircuitRules {
  readonly failuresMax: number;
  /** Different objects of which failures must be, at least; 0: calls count, whatever they are about. */
  readonly objectsMin: number;
  readonly openMs: number;
  readonly openMsMax: number;
  /** Calls in flight at most, when the partner is healthy. */
  readonly slotsMax: number;
}

export interface CircuitContext {
  readonly rules: CircuitRules;
  /** Calls in flight at most, now. */
  readonly slots: number;
  /** Failures in a row. */
  readonly failures: number;
  /** Calls and failures since `sampledFrom`. */
  readonly calls: number;
  readonly failed: number;
  readonly sampledFrom: number;
  /** Different objects of the failures in a row, and of those of the sample; no more than `objectsMin` of each. */
  readonly objects: readonly string[];
  readonly sampledObjects: readonly string[];
  /** Duration of the next opening, ms; doubles up to `openMsMax`. */
  readonly openMs: number;
  /** Successes while half-open. */
  readonly successes: number;
  /** The partner on whose behalf all calls were that failed before it opened; null: failures of several, or an operator. */
  readonly failingSource: string | null;
  /** When the circuit half-opens, epoch ms; null unless it is open. */
  readonly until: number | null;
}

export type CircuitEvent =
  /** `object`: of the delivery that failed. `onlySource`: the partner on whose behalf the call was, if no other one's latest call failed. */
  | { type: 'call.failed'; at: number; object?: string | undefined; onlySource?: string | null }
  /** `calls`: number of successes that the event stands for; 1 when absent. */
  | { type: 'call.reached'; at: number; calls?: number }
  | { type: 'call.began' | 'call.neutral'; at: number }
  | { type: 'circuit.due' | 'circuit.wasOpened' | 'circuit.wasClosed'; at: number }
  /** `trace`: names the operator. */
  | { type: 'operator.opened' | 'operator.closed'; at: number; trace: Trace }
  /** Credentials were exchanged: resets the circuit to closed. */
  | { type: 'partner.renewed'; at: number };

/** Window, ms, in which a circuit counts calls and failures; the first call after it starts a new one. [CIRCUIT-2] */
export const sampleMs = 30_000;
const sampleMin = 10;
const successesToClose = 2;

const rested = (rules: CircuitRules, at: number): CircuitContext => ({
  rules,
  slots: rules.slotsMax,
  failures: 0,
  calls: 0,
  failed: 0,
  sampledFrom: at,
  objects: [],
  sampledObjects: [],
  openMs: rules.openMs,
  successes: 0,
  failingSource: null,
  until: null,
});

function counted(context: CircuitContext, event: CircuitEvent): CircuitContext {
  const { at } = event;
  const isFailure = event.type === 'call.failed';
  const calls = event.type === 'call.reached' ? (event.calls ?? 1) : 1;
  const isFresh = at - context.sampledFrom > sampleMs;
  const { objectsMin } = context.rules;
  const withObject = (objects: readonly string[]) =>
    !isFailure || event.object === undefined || objects.length >= objectsMin || objects.includes(event.object)
      ? objects
      : [...objects, event.object];
  return {
    ...context,
    failures: isFailure ? context.failures + 1 : 0,
    calls: (isFresh ? 0 : context.calls) + calls,
    failed: (isFresh ? 0 : context.failed) + (isFailure ? 1 : 0),
    sampledFrom: isFresh ? at : context.sampledFrom,
    objects: isFailure ? withObject(context.objects) : [],
    sampledObjects: withObject(isFresh ? [] : context.sampledObjects),
  };
}

/** Whether the failures in a row suffice to open the circuit. */
export const failsInRow = ({ failures, objects, rules: { failuresMax, objectsMin } }: CircuitContext): boolean =>
  failures >= failuresMax && objects.length >= objectsMin;

const failsInSample = ({ calls, failed, sampledObjects, rules: { objectsMin } }: CircuitContext): boolean =>
  calls >= sampleMin && failed * 2 >= calls && sampledObjects.length >= objectsMin;

export const circuitMachine = setup({
  types: {
    context: {} as CircuitContext,
    events: {} as CircuitEvent,
    input: {} as { rules: CircuitRules; at: number },
  },
  actions: {
    /** Effect: arms the instant at which the circuit half-opens; records the opening unless it was half-open (`again`). */
    circuitOpened: (_, _params: { again: boolean }) => {},
    circuitHalfOpened: () => {},
    circuitClosed: () => {},
    circuitMayFlow: () => {},
    count: assign(({ context, event }) => counted(context, event)),
    open: assign(({ context, event }) => {
      // Opening by an operator does not count as a failed call.
      const memory = event.type === 'operator.opened' ? context : counted(context, event);
      const openMs = Math.min(memory.openMs * 2, context.rules.openMsMax);
      const failingSource = event.type === 'call.failed' ? (event.onlySource ?? null) : null;
      return { ...memory, successes: 0, failingSource, until: event.at + memory.openMs, openMs };
    }),
    halfOpen: assign({ until: null }),
    countSuccess: assign({ successes: ({ context }) => context.successes + 1 }),
    startSmall: assign(({ context, event }) => ({ ...rested(context.rules, event.at), slots: 1 })),
    grow: assign({ slots: ({ context }) => Math.min(context.slots * 2, context.rules.slotsMax) }),
  },
  guards: {
    /** One more failure opens the circuit. [CIRCUIT-2] */
    trips: ({ context, event }) => {
      const next = counted(context, event);
      return failsInRow(next) || failsInSample(next);
    },
    lastSuccess: ({ context }) => context.successes + 1 >= successesToClose,
    growing: ({ context }) => context.slots < context.rules.slotsMax,
  },
}).createMachine({
  id: 'circuit',
  initial: 'closed',
  context: ({ input }) => rested(input.rules, input.at),
  on: {
    'operator.opened': { target: '.open', actions: ['open', { type: 'circuitOpened', params: { again: false } }] },
    'operator.closed': { target: '.closed', actions: ['startSmall', 'circuitClosed'] },
    'partner.renewed': { target: '.closed', actions: ['startSmall', 'circuitClosed'] },
    'circuit.wasOpened': { target: '.halfOpen' },
    'circuit.wasClosed': { target: '.closed' },
  },
  states: {
    closed: {
      on: {
        'call.failed': [
          {
            guard: 'trips',
            target: 'open',
            actions: ['open', { type: 'circuitOpened', params: { again: false } }],
          },
          { actions: 'count' },
        ],
        'call.reached': [{ guard: 'growing', actions: ['count', 'grow', 'circuitMayFlow'] }, { actions: 'count' }],
      },
    },
    open: {
      on: {
        // Ends of calls that were in flight when the circuit opened are ignored.
        'circuit.due': { target: 'halfOpen', actions: ['halfOpen', 'circuitHalfOpened'] },
      },
    },
    halfOpen: {
      initial: 'ready',
      on: {
        'call.failed': { target: 'open', actions: ['open', { type: 'circuitOpened', params: { again: true } }] },
        'call.reached': [
          { guard: 'lastSuccess', target: 'closed', actions: ['startSmall', 'circuitClosed'] },
          { target: '.ready', actions: ['countSuccess', 'circuitHalfOpened'] },
        ],
        'call.neutral': { target: '.ready', actions: 'circuitHalfOpened' },
      },
      states: {
        ready: { on: { 'call.began': { target: 'trying' } } },
        trying: {},
      },
    },
  },
});

type CircuitSnapshot = SnapshotFrom<typeof circuitMachine>;

/** Closed and growing no more, without a failure in a row: a success changes nothing but the count. */
export const isWell = ({ value, context }: CircuitSnapshot): boolean =>
  value === 'closed' && context.failures === 0 && context.slots === context.rules.slotsMax;

/** How many deliveries may be in flight. */
export function slotsOf({ value, context }: CircuitSnapshot): number {
  if (value === 'open') return 0;
  return value === 'closed' ? context.slots : 1;
}
