/**
 * Statements that read a page of a list and count the list, one for each form of a query, so that none looks for what is
 * not asked.
 *
 * LISTS-1  But for a list of one owner, nothing is counted by walking but the rows of one hour at each bound: table `counts` has months, days and hours.
 *     Of many shelves nothing is looked up for each one: counts are those of the whole kind, less those of shelves that were
 *     not asked for; or those of the asked ones, where these are fewer.
 * LISTS-2  A page begins at its bound, at its position, or in the hour that contains its offset.
 * LISTS-3  Rows of a page are sought in the order of the whole kind (`near`), which suffices where a good part of the kind
 *     is asked for, and on each shelf (`far`) when they were not found so. The first way reads no more than the second may.
 */
import type { ListQuery } from '../contract.ts';
import { DAY, HOUR, MONTH, SHELVES, WHOLE } from './write-sql.ts';

export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

/** At most so many entries of the whole kind are read for each row that a page needs. [LISTS-3] */
const NEAR = 32;
/** Of more shelves than these, those of the whole kind are read, which lie side by side: 32 look-ups cost as much as a hundred of them. */
const FEW = 32;
const ALL = 2 ** 31 - 1;
/** PostgreSQL rejects a limit that is not an int8. */
export const whole = (limit: number): number => Math.max(0, Math.min(ALL, Math.floor(limit)));
/** At least 1, so that the first row, with 0 characters before it, is always returned. */
export const sizeOf = (size = Number.POSITIVE_INFINITY) => (Number.isFinite(size) ? Math.max(1, whole(size)) : null);
/** Sorts behind any `characters` characters. */
const above = (characters: number) => `repeat(chr(1114111), ${characters})`;
export const ROW = 'r.kind, r.owner, r.id, r.shelf, r.upd, r.data, r.body, r.seq';
/** The order of every list. */
const PLACE = 'r.upd, r.owner, r.id';
const LISTED = 'r.kind = $1::text and r.shelf = any ($2::text[])';

/** The shelves of the kind; which counts are summed, and with which sign. `unit`: of their spans. [LISTS-1] */
const TERMS = [
  `known as materialized (
  select c.start as shelf, c.n, c.start in (select unnest($2::text[])) as asked from counts c
    where c.kind = $1::text and c.shelf = ${WHOLE} and c.span = ${SHELVES} and c.n > 0)`,
  'most as materialized (select 2 * count(*) filter (where asked) > count(*) as asked from known)',
  `terms as materialized (
  select k.shelf, 1 as unit, case when k.asked then 1 else -1 end as sign from known k cross join most m where k.asked <> m.asked
  union all select ${WHOLE}, -1, 1 from most where asked)`,
];
/** Counts of the asked shelves by the starts of one length. */
const counts = (isMany: boolean, span: number, where: string) =>
  isMany
    ? `
  select ${span} as span, c.start, sum(t.sign * c.n) as n from terms t cross join lateral (
      select c.start, c.n from counts c where c.kind = $1::text and c.shelf = t.shelf and c.span = ${span} * t.unit and ${where} offset 0) c
    group by c.start`
    : `
  select ${span} as span, c.start, sum(c.n) as n from counts c
    where c.kind = $1::text and c.shelf = any ($2::text[]) and c.span = ${span} and ${where} group by c.start`;
/** Of those from `outer` on, the ones that begin so: none but itself when it is shorter than `length`. */
const within = (outer: string, length: number, span: number) =>
  `c.start <= ${outer} || case when length(${outer}) < ${length} then '' else ${above(span - length)} end`;
/** Counts, in order, of all rows at or above the hour of `upd`: hours of its day, days of its month, and months. */
const countsFrom = (isMany: boolean, upd: string) => `
  ${counts(isMany, HOUR, `c.start >= left(${upd}, ${HOUR}) and ${within(`left(${upd}, ${DAY})`, DAY, HOUR)}`)} union all
  ${counts(isMany, DAY, `c.start > left(${upd}, ${DAY}) and ${within(`left(${upd}, ${MONTH})`, MONTH, DAY)}`)} union all
  ${counts(isMany, MONTH, `c.start > left(${upd}, ${MONTH})`)}`;
/** Number of rows in the hour of `upd` that are below it. */
const below = (upd: string) =>
  `(select count(*) from rows r where ${LISTED} and r.upd >= left(${upd}, ${HOUR}) and r.upd < ${upd})`;
const sum = (of: string) => `(select coalesce(sum(s.n), 0) from (${of}) s)`;
const CUMULATED = 'f.span, f.start, sum(f.n) over (order by f.start) - f.n as before';
/** A query as SQL: placeholders of what it has, null for what it has not. */
interface Form {
  /** The bounds on `upd`. */
  readonly low: string | null;
  readonly high: string | null;
  /** The position to begin after: its columns. */
  readonly after: string | null;
  readonly offset: string | null;
  readonly limit: string;
  readonly size: string;
  /** Whether the whole kind is counted. */
  readonly isMany: boolean;
}

/** The count in which row `offset` is, one length below that of `outer` if that has the length `length`. */
const into = (outer: string, length: number, span: number, offset: string, { isMany }: Form) => `
  select i.* from ${outer} o cross join whole w cross join lateral (
      select f.span, f.start, o.before + f.before as before
        from (select ${CUMULATED} from (${counts(isMany, span, `c.start >= o.start and ${within('o.start', length, span)}`)}) f) f) i
    where o.span = ${length} and ${lastBefore(offset)}`;
const lastBefore = (offset: string) => `i.before <= w.below + ${offset} order by i.start desc limit 1`;
/** `upd` from which row `offset` is sought, how many rows are skipped from there, and how many are `wanted` behind them. */
const place = (offset: string, form: Form) => [
  `outermost as (select i.* from (select ${CUMULATED} from spans f) i cross join whole w where ${lastBefore(offset)})`,
  `day as (${into('outermost', MONTH, DAY, offset, form)})`,
  `hour as (${into('(select * from outermost union all select * from day)', DAY, HOUR, offset, form)})`,
  `place as materialized (
  select greatest(h.start, ${form.low ?? "''"}) as upd, s.skipped,
      case when ${offset} < w.total then least(${form.limit} + 1, w.total - ${offset}) else 0 end as wanted
    from whole w cross join (select * from outermost where span = ${HOUR} union all select * from hour) h
    cross join lateral (select (${offset} - case when h.start > ${form.low ?? "''"} then h.before - w.below else 0 end)::int8 as skipped) s)`,
];

/** The number of rows within the bounds, and how many are `below` the lower one in its hour. */
const total = ({ low, high, isMany }: Form) => [
  ...(isMany ? TERMS : []),
  `spans as materialized (${low ? countsFrom(isMany, low) : counts(isMany, MONTH, 'true')})`,
  `whole as materialized (
  select f.below, greatest(0, ${sum(isMany && !low ? 'select n from known where asked' : 'select n from spans')} - f.below${high ? ` - ${sum(countsFrom(isMany, high))} + ${below(high)}` : ''})::int8 as total
    from (select ${low ? below(low) : '0'} as below offset 0) f)`,
];

const all = (...conditions: readonly (string | false | null)[]) => conditions.filter(Boolean).join(' and ');
const behind = ({ after }: Form) => after && `(${PLACE}) > (${after})`;
/** The page, and a row more, from rows that may be on it. */
const paged = (rows: string, { limit }: Form, skipped: string | null) =>
  `page as materialized (${rows} order by ${PLACE} ${skipped ? `offset ${skipped} ` : ''}limit ${limit} + 1)`;

/** No list is sorted by owner: every row within the bounds is read. */
const ofOwner = (owner: string, form: Form) => [
  `matching as materialized (select ${PLACE} from rows r where ${all(LISTED, `r.owner = ${owner}`, ...bounds(form))})`,
  'whole as (select count(*) as total from matching)',
  paged(`select * from matching r where ${behind(form) ?? 'true'}`, form, form.offset),
];
const bounds = ({ low, high }: Form) => [low && `r.upd >= ${low}`, high && `r.upd < ${high}`];

/** `near`: how many entries of the whole kind are read at most for each row that is needed. [LISTS-3] */
function ofShelves(near: string | null, form: Form): string[] {
  const { offset, limit } = form;
  const begin = bounds(offset ? { ...form, low: '(select upd from place)' } : form);
  const onward = (shelf: string) => all('r.kind = $1', shelf, ...begin, behind(form));
  const before = [...total(form), ...(offset ? place(offset, form) : [])];
  const skipped = offset && '(select skipped from place)';
  if (near === null)
    return [...before, paged(`select ${PLACE} from rows r where ${onward('r.shelf = ($2)[1]')}`, form, skipped)];
  const wanted = offset ? '(select wanted from place)' : `(${limit} + 1)`;
  const needed = offset ? '(select skipped + wanted from place)' : wanted;
  const isFound = `(select count(*) from near) = ${wanted}`;
  return [
    ...before,
    `near as materialized (
  select r.upd, r.owner, r.id from (
      select ${PLACE}, r.shelf from rows r where ${onward('r.shelf is not null')} order by ${PLACE} limit ${needed} * ${near}) r
    where (r.shelf in (select unnest($2))) is true order by ${PLACE} ${skipped ? `offset ${skipped} ` : ''}limit ${wanted})`,
    `far as (
  select r.* from unnest($2) s(shelf) cross join lateral (
      select ${PLACE} from rows r where ${onward('r.shelf = s.shelf')} order by ${PLACE} limit ${needed}) r
    where not ${isFound})`,
    `found as (select * from near where ${isFound} union all select * from far)`,
    paged('select * from found r', form, skipped && `case when ${isFound} then 0 else ${skipped} end`),
  ];
}

/** Rows of the page up to its size. */
const cut = ({ limit, size }: Form) => `cut as (
  select ${ROW}, sum(r.chars) over o - r.chars as before, row_number() over o as place
    from page p join rows r on r.kind = $1 and r.owner = p.owner and r.id = p.id window o as (order by ${PLACE}))
select w.total, (select count(*) from page) as reached, r.*
  from whole w left join cut r on r.place <= ${limit} and (${size} is null or r.before < ${size}) order by r.place`;

/**
 * Its rows have `total`, `reached` (how many rows the page has, and one more if one is behind them) and the columns of a
 * row of the page, which are null when it has none.
 */
export function listing({ kind, shelves, owner, from, to, offset, limit, size, after }: ListQuery): Statement {
  const names = [...new Set(shelves)];
  const values: unknown[] = [kind, names];
  const given = (value: unknown, type: 'text' | 'int8') => `$${values.push(value)}::${type}`;
  const form: Form = {
    low: from === undefined ? null : given(from, 'text'),
    high: to === undefined ? null : given(to, 'text'),
    after: after ? [after.upd, after.owner, after.id].map((part) => given(part, 'text')).join(', ') : null,
    offset: after || offset <= 0 ? null : given(whole(offset), 'int8'),
    limit: given(whole(limit), 'int8'),
    size: given(sizeOf(size), 'int8'),
    isMany: names.length > FEW,
  };
  const isOne = names.length === 1;
  const near = () => (isOne ? null : given(Math.max(0, Math.min(NEAR, names.length - 1)), 'int8'));
  const parts = owner === undefined ? ofShelves(near(), form) : ofOwner(given(owner, 'text'), form);
  const has = (['low', 'high', 'after', 'offset'] as const).filter((part) => form[part] !== null);
  const some = isOne ? 'one' : form.isMany ? 'many' : 'few';
  const name = ['list', owner === undefined ? some : 'owner', ...has].join(' ');
  return { name, text: `with ${[...parts, cut(form)].join(',\n')}`, values };
}
