/** The loaded part of a list, and how the next answer changes it. */
import type { Page } from '../../../api/common.ts';

/** How the items of a list are distinguished, and in which order the hub lists them. */
export interface ListOrder<T> {
  readonly idOf: (item: T) => string;
  /** Items are listed in order of this place; items of one answer may share it. */
  readonly placeOf: (item: T) => string;
  readonly isDescending: boolean;
}

export interface Loaded<T> {
  readonly items: readonly T[];
  /** Null when the whole list is loaded. */
  readonly cursor: string | null;
  /** Whether more than the first page was loaded. */
  readonly isDeep: boolean;
}

export function ofPage<T>({ items, next_cursor: cursor }: Page<T>, isDeep = false): Loaded<T> {
  return { items, cursor, isDeep };
}

/**
 * Merges a fresh first page: it replaces the range that it covers, and the items loaded below stay. A page that ends before they
 * begin replaces them: items between the two may be missing.
 */
export function refreshed<T>(before: Loaded<T>, page: Page<T>, order: ListOrder<T>): Loaded<T> {
  const [first, last] = [before.items[0], page.items.at(-1)];
  const isApart = first !== undefined && last !== undefined && comesBefore(last, first, order);
  if (!before.isDeep || page.next_cursor === null || isApart) return ofPage(page);
  const known = new Set(page.items.map(order.idOf));
  const isCovered = (item: T) => last !== undefined && comesBefore(item, last, order);
  const below = before.items.filter((item) => !isCovered(item) && !known.has(order.idOf(item)));
  return { ...before, items: [...page.items, ...below] };
}

function comesBefore<T>(a: T, b: T, { placeOf, isDescending }: ListOrder<T>): boolean {
  return isDescending ? placeOf(a) > placeOf(b) : placeOf(a) < placeOf(b);
}

export function grown<T>(before: Loaded<T> | undefined, page: Page<T>, { idOf }: ListOrder<T>): Loaded<T> {
  const known = new Set(before?.items.map(idOf));
  const items = [...(before?.items ?? []), ...page.items.filter((item) => !known.has(idOf(item)))];
  return { items, cursor: page.next_cursor, isDeep: true };
}
