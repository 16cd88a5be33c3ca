/**
 * State machine of one partner's connection.
 *
 * `registered`: an operator has added the partner; it has not exchanged credentials yet. `connected`: it has, and probes
 * reach it. `offline`: probes have failed for longer than `offlineAfterMs`; calls are still tried. `suspended`: it
 * unregistered or was suspended; nothing is sent until it registers again. Of a partner that is pull only, each look at
 * its last call counts as a probe.
 *
 * PARTNER-1  Only recorded facts change the connection (a probe only requests such a record).
 */
import { assign, setup } from 'xstate';

export interface PartnerRules {
  /** A partner whose probes have failed for longer than this, ms, becomes offline. */
  readonly offlineAfterMs: number;
}

interface PartnerContext {
  readonly rules: PartnerRules;
  /** First of the consecutive failed probes, epoch ms; null when the last probe succeeded. */
  readonly failingSince: number | null;
}

export type PartnerMachineEvent =
  | { type: 'partner.registered' | 'partner.rotated' | 'partner.hubTokenIssued' | 'partner.suspended'; at: number }
  | { type: 'partner.online' | 'partner.offline'; at: number }
  | { type: 'probe.succeeded' | 'probe.failed'; at: number };

export const partnerMachine = setup({
  types: {
    context: {} as PartnerContext,
    events: {} as PartnerMachineEvent,
    input: {} as { rules: PartnerRules },
  },
  actions: {
    /** Effect: records `partner.offline`. */
    recordOffline: () => {},
    /** Effect: records `partner.online`. */
    recordOnline: () => {},
    startFailing: assign(({ context, event }) => ({ failingSince: context.failingSince ?? event.at })),
    stopFailing: assign({ failingSince: null }),
  },
  guards: {
    failsTooLong: ({ context, event }) =>
      context.failingSince !== null && event.at - context.failingSince > context.rules.offlineAfterMs,
  },
}).createMachine({
  id: 'partner',
  type: 'parallel',
  context: ({ input }) => ({ rules: input.rules, failingSince: null }),
  states: {
    connection: {
      initial: 'registered',
      on: {
        'partner.registered': { target: '.connected', actions: 'stopFailing' },
        'partner.rotated': { target: '.connected', actions: 'stopFailing' },
        'partner.hubTokenIssued': { target: '.connected', actions: 'stopFailing' },
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
  },
});
