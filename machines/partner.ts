/**
 * State machine of one partner: its connection, and its two circuit breakers, which stop calls while they fail.
 *
 * Connection. `registered`: an operator has added the partner; it has not exchanged credentials yet. `connected`: it
 * has, and probes reach it. `offline`: probes have failed for longer than `offlineAfterMs`; calls are still tried.
 * `suspended`: it unregistered or was suspended; nothing is sent until it registers again.
 *
 * Circuit (`sync` for authorize, commands and callbacks, `async` for deliveries). `closed`: calls are sent. `open`: no
 * call is sent until `until`. `halfOpen`: one call at a time is sent; two successes close the circuit, one failure
 * opens it for twice as long.
 *
 * PARTNER-1  Only recorded facts change the connection (a probe only requests such a record); outcomes of calls and
 *     operators change the circuits.
 * PARTNER-2  A circuit opens after `failuresMax` failures in a row, or when half of at least `sampleMin` calls within
 *     `sampleMs` failed.
 * PARTNER-3  An open circuit always has an instant at which it half-opens; one that is folded from the log as open
 *     starts half-open.
 */
import { assign, setup } from 'xstate';

export type CircuitName = 'sync' | 'async';

export interface PartnerRules {
  readonly failuresMax: number;
  readonly openMs: number;
  readonly openMsMax: Readonly<Record<CircuitName, number>>;
  /** A partner whose probes have failed for longer than this, ms, becomes offline. */
  readonly offlineAfterMs: number;
}

interface CircuitMemory {
  /** Failures in a row. */
  readonly failures: number;
  /** Calls and failures since `sampledFrom`. */
  readonly calls: number;
  readonly failed: number;
  readonly sampledFrom: number;
  /** Duration of the next opening, ms; doubles up to `openMsMax`. */
  readonly openMs: number;
  /** Successes while half-open. */
  readonly successes: number;
  /** When the circuit half-opens, epoch ms; null unless it is open. */
  readonly until: number | null;
}

export interface PartnerContext {
  readonly rules: PartnerRules;
  readonly sync: CircuitMemory;
  readonly async: CircuitMemory;
  /** First of the consecutive failed probes, epoch ms; null when the last probe succeeded. */
  readonly failingSince: number | null;
}

type CircuitEvent<Name extends CircuitName> =
  | { type: `${Name}.failed` | `${Name}.trying` | `${Name}.due` | `${Name}.neutral`; at: number }
  /** `calls`: number of successes that the event stands for; 1 when absent. */
  | { type: `${Name}.reached`; at: number; calls?: number }
  | { type: `${Name}.operatorOpened` | `${Name}.operatorClosed`; at: number }
  /** Credentials were exchanged: resets the circuit to closed. */
  | { type: `${Name}.renewed`; at: number };

export type PartnerMachineEvent =
  | CircuitEvent<'sync'>
  | CircuitEvent<'async'>
  | { type: 'partner.registered' | 'partner.rotated' | 'partner.suspended'; at: number }
  | { type: 'partner.online' | 'partner.offline'; at: number }
  | { type: 'probe.succeeded' | 'probe.failed'; at: number }
  | { type: 'sync.wasOpened' | 'sync.wasClosed' | 'async.wasOpened' | 'async.wasClosed'; at: number };

/** Window, ms, in which a circuit counts calls and failures; the first call after it starts a new one. [PARTNER-2] */
export const sampleMs = 30_000;
const sampleMin = 10;
const successesToClose = 2;

const rested = (openMs: number, at: number): CircuitMemory => ({
  failures: 0,
  calls: 0,
  failed: 0,
  sampledFrom: at,
  openMs,
  successes: 0,
  until: null,
});

function counted(memory: CircuitMemory, at: number, failed: boolean, calls = 1): CircuitMemory {
  const fresh = at - memory.sampledFrom > sampleMs;
  return {
    ...memory,
    failures: failed ? memory.failures + 1 : 0,
    calls: (fresh ? 0 : memory.calls) + calls,
    failed: (fresh ? 0 : memory.failed) + (failed ? 1 : 0),
    sampledFrom: fresh ? at : memory.sampledFrom,
  };
}

/** Whether one more failure opens the circuit. [PARTNER-2] */
function trips(memory: CircuitMemory, at: number, rules: PartnerRules): boolean {
  const next = counted(memory, at, true);
  return next.failures >= rules.failuresMax || (next.calls >= sampleMin && next.failed * 2 >= next.calls);
}

const machineSetup = setup({
  types: {
    context: {} as PartnerContext,
    events: {} as PartnerMachineEvent,
    input: {} as { rules: PartnerRules; at: number },
  },
  actions: {
    /**
     * Effect: arms the instant at which the circuit half-opens, notifies the courier, and records the opening unless
     * the circuit was half-open (`again`).
     */
    circuitOpened: (_, _params: { circuit: CircuitName; again: boolean }) => {},
    circuitHalfOpened: (_, _params: { circuit: CircuitName }) => {},
    circuitClosed: (_, _params: { circuit: CircuitName }) => {},
    /** Effect: records `partner.offline`. */
    recordOffline: () => {},
    /** Effect: records `partner.online`. */
    recordOnline: () => {},
    startFailing: assign(({ context, event }) => ({ failingSince: context.failingSince ?? event.at })),
    stopFailing: assign({ failingSince: null }),
    count: assign(({ context, event }, { circuit, failed }: { circuit: CircuitName; failed: boolean }) => ({
      [circuit]: counted(context[circuit], event.at, failed, 'calls' in event ? event.calls : 1),
    })),
    open: assign(({ context, event }, { circuit }: { circuit: CircuitName }) => {
      // Opening by an operator does not count as a failed call.
      const memory = event.type.endsWith('.operatorOpened')
        ? context[circuit]
        : counted(context[circuit], event.at, true);
      const openMs = Math.min(memory.openMs * 2, context.rules.openMsMax[circuit]);
      return { [circuit]: { ...memory, successes: 0, until: event.at + memory.openMs, openMs } };
    }),
    halfOpen: assign(({ context }, { circuit }: { circuit: CircuitName }) => ({
      [circuit]: { ...context[circuit], until: null },
    })),
    countSuccess: assign(({ context }, { circuit }: { circuit: CircuitName }) => ({
      [circuit]: { ...context[circuit], successes: context[circuit].successes + 1 },
    })),
    rest: assign(({ context, event }, { circuit }: { circuit: CircuitName }) => ({
      [circuit]: rested(context.rules.openMs, event.at),
    })),
  },
  guards: {
    failsTooLong: ({ context, event }) =>
      context.failingSince !== null && event.at - context.failingSince > context.rules.offlineAfterMs,
    trips: ({ context, event }, { circuit }: { circuit: CircuitName }) =>
      trips(context[circuit], event.at, context.rules),
    lastSuccess: ({ context }, { circuit }: { circuit: CircuitName }) =>
      context[circuit].successes + 1 >= successesToClose,
  },
});

function circuit<Name extends CircuitName>(name: Name) {
  const params = { circuit: name };
  const act = <Action extends string>(type: Action) => ({ type, params }) as const;
  const opening = (again: boolean) =>
    [act('open'), { type: 'circuitOpened', params: { circuit: name, again } }] as const;
  const closing = [act('rest'), act('circuitClosed')] as const;
  return {
    initial: 'closed',
    on: {
      [`${name}.operatorOpened`]: { target: `.open`, actions: opening(false) },
      [`${name}.operatorClosed`]: { target: `.closed`, actions: closing },
      [`${name}.renewed`]: { target: `.closed`, actions: closing },
      [`${name}.wasOpened`]: { target: `.halfOpen` },
      [`${name}.wasClosed`]: { target: `.closed` },
    },
    states: {
      closed: {
        on: {
          [`${name}.failed`]: [
            { guard: act('trips'), target: 'open', actions: opening(false) },
            { actions: { type: 'count', params: { circuit: name, failed: true } } },
          ],
          [`${name}.reached`]: { actions: { type: 'count', params: { circuit: name, failed: false } } },
        },
      },
      open: {
        on: {
          // Ends of calls that were in flight when the circuit opened are ignored.
          [`${name}.due`]: { target: 'halfOpen', actions: [act('halfOpen'), act('circuitHalfOpened')] },
        },
      },
      halfOpen: {
        initial: 'ready',
        on: {
          [`${name}.failed`]: { target: 'open', actions: opening(true) },
          [`${name}.reached`]: [
            { guard: act('lastSuccess'), target: 'closed', actions: closing },
            { target: '.ready', actions: [act('countSuccess'), act('circuitHalfOpened')] },
          ],
          [`${name}.neutral`]: { target: '.ready', actions: act('circuitHalfOpened') },
        },
        states: {
          ready: { on: { [`${name}.trying`]: { target: 'trying' } } },
          trying: {},
        },
      },
    },
  } as const;
}

export const partnerMachine = machineSetup.createMachine({
  id: 'partner',
  type: 'parallel',
  context: ({ input }) => ({
    rules: input.rules,
    sync: rested(input.rules.openMs, input.at),
    async: rested(input.rules.openMs, input.at),
    failingSince: null,
  }),
  states: {
    connection: {
      initial: 'registered',
      on: {
        'partner.registered': { target: '.connected', actions: 'stopFailing' },
        'partner.rotated': { target: '.connected', actions: 'stopFailing' },
        'partner.suspended': { target: '.suspended' },
      },
      states: {
        registered: {},
        connected: {
          on: {
            'partner.offline': { target: 'offline' },
            'probe.failed': [{ guard: 'failsTooLong', actions: 'recordOffline' }, { actions: 'startFailing' }],
            'probe.succeeded': { actions: 'stopFailing' },
          },
        },
        offline: {
          on: {
            'partner.online': { target: 'connected', actions: 'stopFailing' },
            'probe.succeeded': { actions: 'recordOnline' },
          },
        },
        suspended: {},
      },
    },
    sync: circuit('sync'),
    async: circuit('async'),
  },
});
