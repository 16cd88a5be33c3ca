/**
 * Pagination of lists: reads the query, writes the headers of a page and the cursor of the next one. [D31–D33]
 *
 * PAGINATION-1  A next link has cursor, offset and limit: clients that follow it miss nothing, and clients that count
 *     offsets work, too. Beside a cursor the offset only says how many items the pages before had, and is below the
 *     total. [D32]
 * PAGINATION-2  `rel="next"` precedes `rel="prev"`, for clients that take the first link. [D32]
 * PAGINATION-3  Links begin with the public URL and keep `date_from` and `date_to` as the caller wrote them. [D33]
 * PAGINATION-4  `X-Total-Count` of a page that continues another one by its offset is above the next offset while items
 *     follow: a client that counts offsets stops there.
 */
import { HubError } from '../domain/errors.ts';
import { isRfcDate, sortableDate } from '../domain/object.ts';

/** Position of an object in a list; the same shape as the hub's own type. */
export interface CursorPosition {
  readonly upd: string;
  readonly owner: string;
  readonly id: string;
}

export interface PageLimits {
  readonly pageDefault: number;
  readonly pageMax: number;
  /** Size limit of the objects on a page, characters, since a page is held in memory as a whole; absent: none. */
  readonly sizeMax?: number;
  /** False: the links have no `rel="prev"`. */
  readonly hasPrev?: boolean;
}

export interface PageQuery {
  /** Sortable bounds: inclusive, exclusive. */
  readonly from?: string;
  readonly to?: string;
  readonly offset: number;
  /** Applied page size, items. */
  readonly limit: number;
  /** Size limit, characters: the page ends when its items have this many together. */
  readonly size?: number;
  readonly after?: CursorPosition;
}

export interface Page {
  readonly request: PageQuery;
  /** Filters as the caller wrote them, for the links. */
  readonly filters: readonly (readonly [name: string, value: string])[];
  /** Whether the links include `rel="prev"`. */
  readonly hasPrev: boolean;
  /** Whether the caller wrote the offset. */
  readonly hasOffset: boolean;
  /** Whether the caller wrote the limit. */
  readonly hasLimit: boolean;
  /** Page size that the caller wrote, else the default one, items; may be above the applied one. */
  readonly wanted: number;
  /**
   * A page without a cursor that begins behind another one: its offset counts the items of the pages before, or the limits that the caller
   * wrote; `both` behind a page as full as the caller asked for.
   */
  readonly continues?: 'items' | 'limits' | 'both';
}

type Query = Readonly<Record<string, unknown>>;

const invalid = (name: string, expected: string) =>
  new HubError('invalid', { message: `${name}: expected ${expected}` });

/** Reads the query of a list; refuses with `invalid`. */
export function readPage(query: Query, limits: PageLimits, demands: { dateFrom?: boolean } = {}): Page {
  const from = readDate(query, 'date_from');
  const to = readDate(query, 'date_to');
  if (demands.dateFrom && !from) throw invalid('date_from', 'RFC 3339 date-time');
  const cursor = readOne(query, 'cursor');
  const offset = readCount(query, 'offset');
  const ownLimit = readCount(query, 'limit');
  const wanted = ownLimit ?? limits.pageDefault;
  return {
    request: {
      offset: offset ?? 0,
      limit: Math.min(wanted, limits.pageMax),
      ...(limits.sizeMax !== undefined && { size: limits.sizeMax }),
      ...(from && { from: from.sortable }),
      ...(to && { to: to.sortable }),
      ...(cursor !== undefined && { after: readCursor(cursor) }),
    },
    hasPrev: limits.hasPrev ?? true,
    hasOffset: offset !== undefined,
    hasLimit: ownLimit !== undefined,
    wanted,
    filters: [from, to].flatMap((date) => (date ? [[date.name, date.text] as const] : [])),
  };
}

/** A parameter without a value counts as absent. [D71] */
function readOne(query: Query, name: string): string | undefined {
  const value = query[name];
  if (value === undefined || typeof value === 'string') return value || undefined;
  throw invalid(name, 'one value');
}

function readCount(query: Query, name: string): number | undefined {
  const text = readOne(query, name);
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text)) throw invalid(name, 'non-negative integer');
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER);
}

function readDate(query: Query, name: string): { name: string; text: string; sortable: string } | undefined {
  // An unencoded `+` arrives as a space; in a date it can only be the sign of the time zone.
  const text = readOne(query, name)?.replace(/ (?=\d\d:\d\d$)/, '+');
  if (text === undefined) return undefined;
  const sortable = sortableDate(text);
  if (sortable === undefined || !isRfcDate(text)) throw invalid(name, 'RFC 3339 date-time');
  return { name, text, sortable };
}

export function writeCursor(position: CursorPosition): string {
  const { upd, owner, id } = position;
  return Buffer.from(JSON.stringify({ upd, owner, id }), 'utf8').toString('base64url');
}

/** Refuses with `invalid` a cursor that `writeCursor` cannot have written. */
export function readCursor(cursor: string): CursorPosition {
  const refused = invalid('cursor', 'a cursor taken from a Link header');
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
  } catch {
    throw refused;
  }
  if (typeof value !== 'object' || value === null) throw refused;
  const { upd, owner, id } = value as Record<string, unknown>;
  if (typeof upd !== 'string' || typeof owner !== 'string' || typeof id !== 'string') throw refused;
  return { upd, owner, id };
}

/** The result of a list query, as far as the headers need it. */
export interface PageFound {
  /** Items on this page. */
  readonly count: number;
  /** Matching items in all. */
  readonly total: number;
  /** Whether no matching item follows the page. */
  readonly isLast: boolean;
  readonly last: CursorPosition | null;
}

/** Headers of a list's answer; `url` is the absolute URL of the list without query. */
export function pageHeaders(url: string, page: Page, found: PageFound): Record<string, string> {
  // A page cut short because its objects are large reports its own count as limit, so clients that add it to the offset
  // miss nothing.
  const isCut = found.count > 0 && found.count < page.request.limit && !found.isLast;
  const links = [nextLink(url, page, found), prevLink(url, page, found)].filter((link) => link !== null);
  return {
    'X-Total-Count': String(totalOf(page, found)),
    'X-Limit': String(isCut ? found.count : page.request.limit),
    ...(links.length > 0 && { Link: links.join(', ') }),
  };
}

/** PAGINATION-4. */
function totalOf({ request, wanted, continues }: Page, { count, total, isLast }: PageFound): number {
  if (!continues || isLast) return total;
  return Math.max(total, request.offset + (continues === 'items' ? count : wanted) + 1);
}

function nextLink(url: string, page: Page, found: PageFound): string | null {
  if (found.last === null || found.isLast) return null;
  // Items that moved or were taken back meanwhile may make the pages longer than the list.
  const offset = Math.min(page.request.offset + found.count, Math.max(0, found.total - 1));
  const query = [
    ...page.filters,
    ['cursor', writeCursor(found.last)],
    ['offset', offset],
    ['limit', page.request.limit],
  ];
  return link(url, query, 'next');
}

/** Whether there is a page before this one. */
const isLater = ({ request }: Page, { total }: Pick<PageFound, 'total'>) =>
  request.offset !== 0 && total !== 0 && request.limit !== 0;

/** Whether the caller's setting leaves out a link to the page before. */
export const isWithoutPrev = (page: Page, found: Pick<PageFound, 'total'>): boolean =>
  !page.hasPrev && isLater(page, found);

/** Offset to which the link to the page before leads; null when there is none. */
export function previousOffset(page: Page, { total }: Pick<PageFound, 'total'>): number | null {
  if (!page.hasPrev || !isLater(page, { total })) return null;
  return Math.max(0, Math.min(page.request.offset, total) - page.request.limit);
}

function prevLink(url: string, page: Page, found: PageFound): string | null {
  const offset = previousOffset(page, found);
  if (offset === null) return null;
  return link(url, [...page.filters, ['offset', offset], ['limit', page.request.limit]], 'prev');
}

function link(url: string, query: readonly (readonly (string | number)[])[], rel: string): string {
  const pairs = query.map(([name = '', value = '']) => `${name}=${encodeURIComponent(value)}`);
  return `<${url}?${pairs.join('&')}>; rel="${rel}"`;
}
