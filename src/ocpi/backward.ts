/**
 * Finds partners that take the link to the page before for the next one: behind the last page they read the one before
 * it again, and so for ever.
 *
 * BACKWARD-1  A partner is found when it asks twice for the page before the last within `soonMs` of the last, and began
 *     the list anew in between neither by its filters nor by its first page. One that reads a list of two pages again
 *     without a pause, from an `offset=0` that it writes out, looks the same.
 * BACKWARD-2  Memory is bounded: of a partner and module the last list alone is remembered.
 */
import type { Clock } from '../kit/clock.ts';
import { type Page, type PageFound, previousOffset } from '../transport/pagination.ts';

/** Within which a link is followed, ms: a later request is rather one that begins anew. */
const soonMs = 60_000;
/** A reader may go back once. */
const timesMin = 2;

interface Read {
  readonly list: string;
  /** Offset of the page before, when the last page was answered; else null. */
  readonly before: number | null;
  readonly at: number;
  /** How often it went back from the last page. */
  readonly times: number;
}

/** Notes each page of a list that a partner is answered; true when it went back again. */
export type BackwardReaders = (
  of: { readonly partner: string; readonly module: string },
  page: Page,
  found: Pick<PageFound, 'total' | 'isLast'>,
) => boolean;

export function backwardReaders(clock: Pick<Clock, 'now'>): BackwardReaders {
  const reads = new Map<string, Read>();
  return ({ partner, module }, page, found) => {
    const key = `${partner} ${module}`;
    const { offset, limit, after } = page.request;
    const list = JSON.stringify([page.filters, limit]);
    const at = clock.now();
    const last = reads.get(key);
    const isBack = last?.list === list && last.before === offset && !after && page.hasOffset && at - last.at <= soonMs;
    const begins = offset === 0 && !isBack;
    const times = (last?.list === list && !begins ? last.times : 0) + (isBack ? 1 : 0);
    reads.set(key, { list, before: found.isLast ? previousOffset(page, found) : null, at, times });
    return isBack && times >= timesMin;
  };
}
