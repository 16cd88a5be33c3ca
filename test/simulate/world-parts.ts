/** What a simulated world needs to know of the hub beside its verbs. */
import type { CreatedHub } from '../../src/hub/create-hub.ts';
import type { HubSettings } from '../../src/hub/ports/ports.ts';
import type { Random } from './random.ts';

/** Partners and routes as they stand in memory. */
export function rememberedBy({ context: { directory } }: CreatedHub): string {
  const partners = [...directory.partners()].sort((a, b) => (a.id < b.id ? -1 : 1));
  return JSON.stringify([
    partners,
    directory
      .routes()
      .map((route) => JSON.stringify(route))
      .sort(),
  ]);
}

/** Where two texts part. */
export function difference(before: string, after: string): string {
  const at = [...before].findIndex((letter, index) => after[index] !== letter);
  const around = (text: string) => text.slice(Math.max(0, at - 80), at + 80);
  return `…${around(before)}… became …${around(after)}…`;
}

/** The store was away, or the hub refused because of it: no fault of the hub's own. */
export function isStoreTrouble(error: unknown): boolean {
  const { name, code } = error as { name?: string; code?: string };
  if (name === 'HubError') return code !== 'internal';
  return name === 'StoreUnavailable' || name === 'OutcomeUnknown';
}

/** Short windows and few slots, so that a world meets their ends. */
export function settingsOf(random: Random): HubSettings {
  return {
    ...{ publicUrl: 'http://hub', countryCode: 'XX', partyId: 'HUB', name: 'Simulated hub' },
    ...{ commandTimeoutMs: 20_000, commandResultWindowS: 30, authorizeTimeoutMs: 10_000 },
    ...{ callbackTimeoutMs: 10_000, deliveryTimeoutMs: 15_000 },
    retryScheduleS: [1, 2, 5, 15, 30, 60, 120],
    retryJitter: 0.2,
    retryWindowH: random.pick([0.1, 0.2, 0.5]),
    retryWindowCdrH: random.pick([0.2, 0.4, 1]),
    deliveryConcurrency: random.pick([2, 4, 8]),
    circuitFailures: random.pick([3, 5]),
    circuitOpenMs: 5_000,
    compatibilityWindowH: random.pick([0.01, 0.1]),
    ...{
      probeIntervalS: 60,
      offlineAfterS: 60,
      orphanGraceS: 120,
      orphanSweepS: 300,
      orphanCdrAfterS: 0,
      silentAfterH: 12,
      notifyBacklogS: 0,
      notifyDiskPercent: 0,
    },
    ...{ initialTokenDays: 14, auditKeepDays: 0, sessionsKeepDays: 0, cdrsKeepDays: 0, tokensKeepDays: 0 },
    quotaMbPerDay: 0,
    objectsPerParty: 0,
    // In some worlds events are kept for six minutes, and go at the next full hour.
    confirmHostChange: false,
    eventsKeepDays: random.chance(0.2) ? 0.004 : 0,
  };
}
