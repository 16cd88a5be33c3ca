/**
 * Counts what passes between the hub and each partner until the next point of the history takes it.
 *
 * TRAFFIC-1  Memory is bounded by partners and bands: what is not taken is added up.
 */
import { bandOf, type Point } from '../../domain/history.ts';
import type { PartyId } from '../../domain/party.ts';

export type Tally = Pick<Point, 'pushes' | 'deliveries' | 'errors' | 'bands'>;

class Counts {
  pushes = 0;
  deliveries = 0;
  errors = 0;
  readonly #bands = new Map<number, number>();

  took(ms: number): void {
    const band = bandOf(ms);
    this.deliveries += 1;
    this.#bands.set(band, (this.#bands.get(band) ?? 0) + 1);
  }

  get tally(): Tally {
    const { pushes, deliveries, errors } = this;
    return { pushes, deliveries, errors, bands: [...this.#bands].sort(([a], [b]) => a - b).flat() };
  }
}

export class Traffic {
  #counts = new Map<PartyId, Counts>();
  #begun: () => void = () => {};

  /** Called at the first count since the last `take`. */
  onBegun(listener: () => void): void {
    this.#begun = listener;
  }

  pushed(partner: PartyId): void {
    this.#countsOf(partner).pushes += 1;
  }

  /** The partner took a delivery; its last attempt lasted `ms`. */
  delivered(partner: PartyId, ms: number): void {
    this.#countsOf(partner).took(ms);
  }

  /** An attempt at a delivery to the partner failed. */
  failed(partner: PartyId): void {
    this.#countsOf(partner).errors += 1;
  }

  /** What was counted since the last call. */
  take(): Map<PartyId, Tally> {
    const taken = this.#counts;
    this.#counts = new Map();
    return new Map([...taken].map(([partner, counts]) => [partner, counts.tally]));
  }

  #countsOf(partner: PartyId): Counts {
    const known = this.#counts.get(partner);
    if (known) return known;
    const counts = new Counts();
    this.#counts.set(partner, counts);
    if (this.#counts.size === 1) this.#begun();
    return counts;
  }
}
