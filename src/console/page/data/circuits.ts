/**
 * The circuits of a partner as live actors: one for authorize and commands, one for results of commands, and one for the
 * deliveries of each module. The hub starts the actor of a circuit with its first failure.
 */
import { moduleNames } from '../../../domain/modules.ts';
import { presentActor, type Watch } from './actors.ts';

export const circuitNames = ['sync', 'results', ...moduleNames] as const;

export const circuitActor = (partner: string, circuit: string) => `circuit:${partner}/${circuit}`;

export const actorsOf = (partner: string): string[] => [
  ...[`partner:${partner}`, `courier:${partner}`],
  ...circuitNames.map((circuit) => circuitActor(partner, circuit)),
];

const states = ['open', 'halfOpen', 'closed'] as const;

/** The worst live state of some circuits of a partner; null when none of them has an actor, or the connection is lost. */
export function liveState(watch: Watch, partner: string, circuits: readonly string[]): string | null {
  const live = circuits.flatMap((circuit) => {
    const value = presentActor(watch, circuitActor(partner, circuit))?.snapshot.value;
    return value === undefined ? [] : [typeof value === 'string' ? value : 'halfOpen'];
  });
  return states.find((state) => live.includes(state)) ?? null;
}
