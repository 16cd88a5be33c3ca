/**
 * Warns of a Node that gets no security fixes any more.
 *
 * NODE-RELEASE-1  A release is past its end of life from the day after the one in the table; one that the table does not have is not.
 */
import { type Clock, dayMs } from './kit/clock.ts';

/** Last day of each major release, as the Node project publishes it (nodejs/Release, `schedule.json`, read in November 2026). */
export const lastDays: Readonly<Record<string, string>> = {
  20: '2026-04-30',
  21: '2024-06-01',
  22: '2027-04-30',
  23: '2025-06-01',
  24: '2028-04-30',
  25: '2026-06-01',
  26: '2029-04-30',
};

/** The release that the container file has, too. */
export const advised = '24';

/** What to tell people of a version, e.g. `20.20.2`; null when it still gets security fixes. [NODE-RELEASE-1] */
export function endOfNode(version: string, clock: Pick<Clock, 'wall'>): string | null {
  const lastDay = lastDays[version.split('.', 1)[0] ?? ''];
  if (lastDay === undefined || clock.wall() < Date.parse(lastDay) + dayMs) return null;
  return `Node ${version} gets no security fixes since ${lastDay}: install Node ${advised}`;
}
