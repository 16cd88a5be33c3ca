/**
 * Formats tables and blocks of fields for people: aligned, as wide as the terminal, with the age beside each instant.
 * Pure: items in, text out.
 *
 * TABLE-1  Output that goes to no terminal is never shortened, so that ids and URLs can be found in it.
 */
import type { Colour, Paint } from '../kit/paint.ts';

export interface Column<T> {
  readonly title: string;
  readonly of: (item: T, now: number) => string | number | null;
  readonly align?: 'right';
  /** The column may shrink to this many characters when the terminal is narrow; without it, never. */
  readonly shrinksTo?: number;
  readonly colour?: (item: T) => Colour | null;
}

export interface Page {
  /** Width of the terminal in characters; Infinity when there is none. */
  readonly width: number;
  readonly paint: Paint;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

const gap = '  ';

/** A header line and one line per item. */
export function table<T>(columns: readonly Column<T>[], items: readonly T[], { width, paint, now }: Page): string[] {
  const cells = items.map((item) => columns.map((column) => plain(column.of(item, now))));
  const wanted = columns.map(({ title }, index) =>
    Math.max(title.length, ...cells.map((row) => lengthOf(row[index] ?? ''))),
  );
  const widths = fitted(columns, wanted, width - gap.length * (columns.length - 1));
  const line = (row: readonly string[], colourOf: (column: Column<T>) => Colour | null) =>
    columns
      .map((column, index) => {
        const room = widths[index] ?? 0;
        const text = shortened(row[index] ?? '', room);
        const blank = ' '.repeat(Math.max(0, room - lengthOf(text)));
        const painted = paint(colourOf(column), text);
        return column.align === 'right' ? blank + painted : painted + blank;
      })
      .join(gap)
      .trimEnd();
  return [
    line(
      columns.map(({ title }) => title.toUpperCase()),
      () => 'dim',
    ),
    ...items.map((item, index) => line(cells[index] ?? [], (column) => column.colour?.(item) ?? null)),
  ];
}

/** Lines of the form `name  value`; a field without a value is left out. */
export function fields({ paint }: Page, pairs: readonly (readonly [name: string, value: string | null])[]): string[] {
  const given = pairs.filter(([, value]) => value !== null && value !== '');
  const room = Math.max(0, ...given.map(([name]) => name.length));
  return given.map(([name, value]) => `${paint('dim', name.padEnd(room))}${gap}${value}`);
}

/** Takes the excess width from the shrinkable columns, one character at a time from the widest. */
function fitted<T>(columns: readonly Column<T>[], wanted: readonly number[], room: number): number[] {
  const widths = [...wanted];
  for (let excess = widths.reduce((sum, width) => sum + width, 0) - room; excess > 0; excess--) {
    const widest = columns
      .map(({ shrinksTo = Infinity }, index) => ({ index, spare: (widths[index] ?? 0) - shrinksTo }))
      .filter(({ spare }) => spare > 0)
      .sort((a, b) => (widths[b.index] ?? 0) - (widths[a.index] ?? 0))[0];
    if (!widest) break;
    widths[widest.index] = (widths[widest.index] ?? 0) - 1;
  }
  return widths;
}

function shortened(text: string, room: number): string {
  return lengthOf(text) <= room ? text : `${[...text].slice(0, Math.max(0, room - 1)).join('')}…`;
}

/** Replaces control and format characters, so that text from partners cannot move the cursor or break a line. */
export function plain(value: string | number | null): string {
  return value === null ? '–' : String(value).replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ');
}

function lengthOf(text: string): number {
  return [...text].length;
}

/** `1 delivery`, `2 deliveries`. */
export const many = (number: number, one: string, more = `${one}s`): string => `${number} ${number === 1 ? one : more}`;

const units = [
  ['day', 86_400],
  ['h', 3600],
  ['min', 60],
] as const;

/** `3 min`, `2 days`. */
export function span(seconds: number): string {
  const s = Math.abs(seconds);
  for (const [unit, size] of units) {
    if (s < size) continue;
    const count = Math.floor(s / size);
    return `${count} ${unit === 'day' && count > 1 ? 'days' : unit}`;
  }
  return s < 1 ? 'less than 1 s' : `${Math.floor(s)} s`;
}

/** `3 min ago`, `in 20 s`, `now`. */
export function age(at: string, now: number): string {
  const seconds = (now - Date.parse(inUtc(at))) / 1000;
  if (Math.abs(seconds) < 1) return 'now';
  return seconds < 0 ? `in ${span(seconds)}` : `${span(seconds)} ago`;
}

/** `2026-01-02T03:04:05Z (3 min ago)`: readable, and the instant can be copied into `--from` and `--to`. */
export function when(at: string | null, now: number): string | null {
  return at === null ? null : `${inUtc(at)} (${age(at, now)})`;
}

/** Truncates to the second and appends `Z`: the hub's instants are UTC even without it. */
function inUtc(at: string): string {
  return at.replace(/(\.\d+)?Z?$/, 'Z');
}
