/**
 * Points of history: what passed between the hub and a partner, or all partners, within a minute or an hour. Pure.
 *
 * DOMAIN-HISTORY-1  A point of a longer time is the sum of the points of its parts: counts, seconds and latencies alike, so
 *     nothing is lost or counted twice when minutes become hours and hours a month.
 * DOMAIN-HISTORY-2  A latency is kept as one of four bands for each doubling, so a percentile is at most 10 % beside the
 *     true one, whatever points it is taken from, and a point has at most as many bands as there were deliveries.
 */

export interface Point {
  /** Objects that the partner pushed and the hub took. */
  readonly pushes: number;
  /** Deliveries that the partner took. */
  readonly deliveries: number;
  /** Attempts at deliveries to it that failed. */
  readonly errors: number;
  /** Seconds for which it was OFFLINE or SUSPENDED. */
  readonly down: number;
  /** Seconds for which the hub ran and watched; 0 in points of partners. */
  readonly watched: number;
  /** Deliveries by band of how long their last attempt took: band, count, band, count …, ascending. */
  readonly bands: readonly number[];
}

export type Step = 'minute' | 'hour';

export const nothing: Point = { pushes: 0, deliveries: 0, errors: 0, down: 0, watched: 0, bands: [] };

const bandsPerDoubling = 4;

/** Band of a duration, ms; band b ends at 2^(b/4) ms, and band 0 has all up to 1 ms. */
export const bandOf = (ms: number): number => (ms <= 1 ? 0 : Math.ceil(Math.log2(ms) * bandsPerDoubling));

/** A duration of a band, ms: its middle, by ratio. */
const middleOf = (band: number): number => 2 ** ((band - 0.5) / bandsPerDoubling);

/** The duration, ms, that this share of the deliveries did not exceed; null without a delivery. [DOMAIN-HISTORY-2] */
export function percentile({ bands }: Pick<Point, 'bands'>, share: number): number | null {
  let all = 0;
  for (let at = 1; at < bands.length; at += 2) all += bands[at] ?? 0;
  if (all === 0) return null;
  let left = Math.ceil(all * share);
  for (let at = 0; at < bands.length; at += 2) {
    left -= bands[at + 1] ?? 0;
    if (left <= 0) return Math.round(middleOf(bands[at] ?? 0) * 10) / 10;
  }
  return null;
}

/** [DOMAIN-HISTORY-1] */
export function sumOf(points: Iterable<Point>): Point {
  const sum = { pushes: 0, deliveries: 0, errors: 0, down: 0, watched: 0 };
  const counts = new Map<number, number>();
  for (const { pushes, deliveries, errors, down, watched, bands } of points) {
    sum.pushes += pushes;
    sum.deliveries += deliveries;
    sum.errors += errors;
    sum.down += down;
    sum.watched += watched;
    for (let at = 0; at < bands.length; at += 2) {
      const band = bands[at] ?? 0;
      counts.set(band, (counts.get(band) ?? 0) + (bands[at + 1] ?? 0));
    }
  }
  return { ...sum, bands: [...counts].sort(([a], [b]) => a - b).flat() };
}

/** A point as it is stored: the five numbers in order, then the bands. */
export type StoredPoint = readonly number[];

export const stored = ({ pushes, deliveries, errors, down, watched, bands }: Point): StoredPoint => [
  ...[pushes, deliveries, errors, down, watched],
  ...bands,
];

export function pointOf([pushes = 0, deliveries = 0, errors = 0, down = 0, watched = 0, ...bands]: StoredPoint): Point {
  return { pushes, deliveries, errors, down, watched, bands };
}

/** Points of one minute that is not part of a whole hour yet, by owner; the hub itself has the owner ''. */
export interface MinuteRecord {
  /** Begin of the minute, RFC 3339. */
  readonly at: string;
  readonly points: Readonly<Record<string, StoredPoint>>;
}

/** The minutes of one hour of one owner, by number of the minute. */
export interface HourRecord {
  /** Begin of the hour, RFC 3339. */
  readonly at: string;
  readonly minutes: Readonly<Record<number, StoredPoint>>;
}

/** The hours of one day (UTC) of one owner, by number of the hour. */
export interface DayRecord {
  /** Begin of the day, RFC 3339. */
  readonly at: string;
  readonly hours: Readonly<Record<number, StoredPoint>>;
}

export interface HistoryEvent {
  readonly type: 'history.recorded';
  /** The minute that was written, or the hour that minutes became part of, and how many partners have a point in it. */
  readonly data: { readonly step: Step; readonly at: string; readonly partners: number };
}
