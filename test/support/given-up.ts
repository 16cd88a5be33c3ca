/** An actor that throws each time it comes back, until its supervisor gives it up. */
import type { Clock } from '../../src/kit/clock.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import type { RunningHub } from '../../src/main.ts';
import { eventually } from './plain-partner.ts';
import { poison } from './poison.ts';

/** The longest wait before a restart. */
const backoffMs = 2_000;

/** The system's, on which an actor comes back at once: for hubs whose actors are given up. */
export const hastyClock: Clock = {
  ...systemClock,
  setTimeout: (fn, timeoutMs, ...args) =>
    systemClock.setTimeout(fn, timeoutMs > backoffMs ? timeoutMs : timeoutMs / 20, ...args),
};

export async function giveUp(hub: RunningHub, id: string): Promise<void> {
  const { supervisor } = hub.created.context;
  await eventually('it was given up', () => {
    if (supervisor.view(id)?.status === 'active') supervisor.send(id, poison());
    return supervisor.view(id)?.status === 'quarantined';
  });
}
