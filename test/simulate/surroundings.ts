/** What the judge of a simulated world is told of the world. */
import type { Cast } from './cast.ts';
import type { Sometimes } from './counters.ts';

export interface Surroundings {
  readonly cast: Cast;
  readonly now: () => number;
  /** The world's own time of a fact that the hub recorded about now. */
  readonly recordedAt: (text: string) => number;
  /** The latest instant until then that the time of day which the hub recorded may name; -Infinity when there is none. */
  readonly latestOf: (text: string, until: number) => number;
  /** The earliest instant in the world's own time that the hub may have meant by what it wrote down about now. */
  readonly earliestOf: (text: string) => number;
  /** Deliveries of one module to one partner that the hub has in memory at most. */
  readonly windowShare: number;
  /** The time of day was never set. */
  readonly isSteady: () => boolean;
  readonly hit: (name: Sometimes) => void;
}
