/**
 * Lists as files: every list of the admin API also answers all of its items as lines of JSON or as CSV.
 *
 * LIST-FILES-1  A file has what the pages have, from the cursor on, read a page at a time as fast as it is taken: only that
 *     page is in memory. With `limit` it ends after so many items. An answer that is no page has its `rows` as a file.
 * LIST-FILES-2  The first page is read before the answer begins, so that a wrong filter is refused as for a page. When a later
 *     page fails the connection is cut: no file ends too early without that being seen.
 * LIST-FILES-3  CSV has one column for each field of an item, of objects in it too (`circuits.sync`). A list inside an item is
 *     JSON in its cell. What a spreadsheet would take for a formula is marked with `'`, also behind `;`, a tab or a line break,
 *     where some begin a cell; texts with these are quoted.
 */
import { pipeline, Readable } from 'node:stream';
import { stringify } from 'csv-stringify';
import * as z from 'zod';
import type { Page } from '../api/common.ts';
import type { AdminRoute, RawRequest } from './route.ts';

/** Items of the pages that a file is made of. */
const pageItems = 500;

type Shown = (item: unknown) => unknown;

/** What lists answer besides JSON pages, by media type. */
const formats: Readonly<Record<string, (items: AsyncIterable<unknown>, item: z.core.$ZodType) => Readable>> = {
  'application/x-ndjson': (items) => Readable.from(asLines(items)),
  'text/csv': asCsv,
};
export const fileTypes = Object.keys(formats);
const fileTypeIn = (accept: string | undefined) => fileTypes.find((each) => accept?.includes(each));

/** Whether an `Accept` header asks for a file. */
export const isFile = (accept: string | undefined): boolean => fileTypeIn(accept) !== undefined;

export interface File {
  readonly type: string;
  readonly content: Readable;
}

/** The field whose items are a file, and their schema; null unless the route answers a list. */
export function listIn({
  answer,
  rows,
}: Pick<AdminRoute, 'answer' | 'rows'>): { field: string; item: z.core.$ZodType } | null {
  if (!(answer instanceof z.ZodObject)) return null;
  const field = rows ?? 'items';
  const list = answer.shape[field];
  const isList = rows !== undefined || answer.shape.next_cursor !== undefined;
  return isList && list instanceof z.ZodArray ? { field, item: list.element } : null;
}

/** The list as the file that the `Accept` header asks for; null when it asks for none. Rejects as the route does. [LIST-FILES-2] */
export async function fileOf(
  route: AdminRoute,
  raw: RawRequest,
  accept: string | undefined,
  shown: Shown,
): Promise<File | null> {
  const type = fileTypeIn(accept);
  const list = listIn(route);
  if (type === undefined || list === null) return null;
  const { field, item } = list;
  if (route.rows !== undefined) {
    const all = ((await route.run(raw)) as Readonly<Record<string, readonly unknown[]>>)[field] ?? [];
    return { type, content: formats[type]?.(shownOf(all, shown), item) as Readable };
  }
  const query = raw.query as Readonly<Record<string, unknown>>;
  const pageAt = async (cursor: unknown, limit: unknown) => {
    const asked = { ...query, limit, ...(cursor !== undefined && { cursor }) };
    return (await route.run({ ...raw, query: asked })) as Page<unknown>;
  };
  const { cursor, limit = pageItems } = query;
  const first = await pageAt(cursor, limit);
  const wanted = query.limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
  async function* items(): AsyncGenerator<unknown> {
    let left = wanted - first.items.length;
    for (let page = first; ; left -= page.items.length) {
      for (const each of page.items) yield await shown(each);
      // A page of a search may have fewer items, or none, before the end of the list.
      if (page.next_cursor === null || left <= 0) return;
      page = await pageAt(page.next_cursor, Math.min(left, pageItems));
    }
  }
  return { type, content: formats[type]?.(items(), item) as Readable };
}

async function* shownOf(items: readonly unknown[], shown: Shown): AsyncGenerator<unknown> {
  for (const item of items) yield await shown(item);
}

async function* asLines(items: AsyncIterable<unknown>): AsyncGenerator<string> {
  for await (const item of items) yield `${JSON.stringify(item)}\n`;
}

function asCsv(items: AsyncIterable<unknown>, item: z.core.$ZodType): Readable {
  const columns = columnsOf(item);
  async function* rows(): AsyncGenerator<unknown[]> {
    for await (const each of items) yield columns.map((path) => cellOf(each, path));
  }
  const header = columns.map((path) => path.join('.'));
  const lines = stringify({ header: true, columns: header, quoted_match: /[;\t\r]/ });
  // A page that fails destroys the answer with it. [LIST-FILES-2]
  return pipeline(Readable.from(rows()), lines, () => {});
}

/** The path of each field that is no object. */
function columnsOf(schema: z.core.$ZodType, path: readonly string[] = []): (readonly string[])[] {
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodOptional) return columnsOf(schema.unwrap(), path);
  if (!(schema instanceof z.ZodObject)) return [path];
  return Object.entries(schema.shape).flatMap(([name, field]) => columnsOf(field, [...path, name]));
}

/** What begins a formula, in its wide forms, too. [LIST-FILES-3] */
const formula = /(^|[;\t\r\n])(?=[=+\-@\t\r\uFF1D\uFF0B\uFF0D\uFF20])/g;

function cellOf(item: unknown, path: readonly string[]): unknown {
  const value = path.reduce<unknown>((inside, name) => (inside as Record<string, unknown> | null)?.[name], item);
  if (typeof value === 'number' || value === null || value === undefined) return value;
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return text.replaceAll(formula, "$1'");
}
