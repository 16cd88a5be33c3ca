/**
 * Announces a change of partners or routes to all doors before it is acknowledged. [NODE-6]
 */
import { withTimeout } from '../kit/clock.ts';
import { systemClock as clock } from '../kit/system-clock.ts';
import type { Membership } from './membership.ts';
import type { NodeParts, Served } from './node-parts.ts';
import type { Having } from './shared.ts';

/** Longest that a change waits for the doors. */
const toldMs = 1000;
/** Back-off: for this long after a door timed out, changes are announced without waiting for answers. */
const unheardMs = 10_000;

/** A hook for commits of the owner; `door` is the one on this node. */
export function changeNotice(
  isForDoors: NodeParts['isForDoors'],
  membership: Pick<Membership, 'tell'>,
  door: () => Served | null,
): Having['appended'] {
  let unheardUntil = 0;
  return async (commit, { last }) => {
    if (!isForDoors(commit)) return;
    const here = withTimeout(clock, toldMs, door()?.followed(last) ?? Promise.resolve());
    const told = Promise.all([here, membership.tell(`directory/${last}`, toldMs)]);
    if (clock.monotonic() < unheardUntil) return;
    const begun = clock.monotonic();
    await told;
    // Of many changes in a row only the first waits for a door that does not answer.
    if (clock.monotonic() - begun >= toldMs) unheardUntil = clock.monotonic() + unheardMs;
  };
}
