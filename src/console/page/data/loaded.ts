/**
 * The loaded part of the list of deliveries, and how the next answer changes it.
 */
import type { Page } from '../../../api/common.ts';
import type { DeliveryView } from '../../../api/deliveries.ts';
export interface Loaded {
  readonly items: readonly DeliveryView[];
  readonly cursor: string | null;
  /** Whether more than the first page was loaded. */
  readonly isDeep: boolean;
}

export const ofPage = ({ items, next_cursor: cursor }: Page<DeliveryView>): Loaded => ({
  items,
  cursor,
  isDeep: false,
});

/** Merges a fresh first page: it replaces the range that it covers, and the deliveries loaded below stay. */
export function refreshed(before: Loaded, page: Page<DeliveryView>): Loaded {
  if (!before.isDeep || page.next_cursor === null) return ofPage(page);
  const known = new Set(page.items.map(({ id }) => id));
  const last = page.items.at(-1);
  const below = before.items.filter((item) => !(last && isNewer(item, last)) && !known.has(item.id));
  return { ...before, items: [...page.items, ...below] };
}

const isNewer = (a: DeliveryView, b: DeliveryView): boolean =>
  a.accepted_at === b.accepted_at ? a.seq > b.seq : a.accepted_at > b.accepted_at;

export function grown(before: Loaded | undefined, page: Page<DeliveryView>): Loaded {
  const known = new Set(before?.items.map(({ id }) => id));
  const items = [...(before?.items ?? []), ...page.items.filter(({ id }) => !known.has(id))];
  return { items, cursor: page.next_cursor, isDeep: true };
}
