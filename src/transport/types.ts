/**
 * Building blocks of the OCPI schemas. Each has a zod schema, which refuses, and optionally a note, which only records
 * a deviation for the trace. [D3, D17]
 *
 * TYPES-1  A known field that is present must have its type; null counts as absent for fields that may be absent.
 * TYPES-2  Unknown fields are ignored: the hub stores the text of a body, and reads only the fields of its type.
 * TYPES-3  A missing field that the specification requires and the hub does not (`should`), an unknown enum value, also
 *     an empty one of a field that is no `must`, and a string that is too long are noted for the trace, never refused.
 * TYPES-4  Every building block states what it expects, so that a refusal reads `evses[0].connectors[1].id: expected
 *     string`.
 * TYPES-5  A list is read up to its first item that is refused: what a body costs does not depend on how much is wrong with it.
 * TYPES-6  `isPlain` holds only for a value that the schema accepts and that gets no note. Such a value is its own checked view, with
 *     its unknown fields, unchecked; a view that a schema made has none. No schema reads a plain value: nearly every push is plain,
 *     and its schemas cost twenty times as much.
 */
import * as z from 'zod';
import { HubError } from '../domain/errors.ts';
import { isPlainDate, isRfcDate, sortableDate } from '../domain/object.ts';
import { blankInDate, notRfcDate, notUpperCase } from '../domain/quirks.ts';
import { parsedHttpUrl } from '../kit/url.ts';
import { isToken } from './headers.ts';

type Note = (value: unknown, path: string, notes: string[]) => void;

export interface Checked<T> {
  readonly schema: z.ZodType<T>;
  readonly note?: Note;
  /** False also where only the schema can tell. [TYPES-6] */
  readonly isPlain: (value: unknown) => boolean;
  /** Of an object: its fields. */
  readonly names?: readonly string[];
}

/** Notes per body at most. */
const notesMax = 20;

/** The checked view of a value and its notes; refuses with `invalid`, naming the first offending field. */
export function check<T>(type: Checked<T>, value: unknown): { body: T; notes: string[] } {
  if (type.isPlain(value)) return { body: value as T, notes: [] };
  const result = type.schema.safeParse(value);
  if (!result.success) throw new HubError('invalid', { message: firstOffence(result.error) });
  const notes: string[] = [];
  type.note?.(value, '', notes);
  return { body: result.data, notes };
}

/** `within`: the path of the value that was parsed. */
function firstOffence(error: z.ZodError, within = ''): string {
  const issue = error.issues[0];
  const path = (issue?.path ?? []).reduce<string>(
    (text, step) => (typeof step === 'number' ? `${text}[${step}]` : join(text, String(step))),
    within,
  );
  return `${path || 'body'}: ${issue?.message ?? 'expected another value'}`;
}

const join = (path: string, key: string) => (path === '' ? key : `${path}.${key}`);

// Values

const aString = z.string({ error: 'expected string' });

type Test = (text: string) => boolean;

/** `isTaken`: what the schema demands of a string, or more. */
function noted(
  schema: z.ZodType<string>,
  isUsual: Test,
  expected: string,
  isTaken: Test = () => true,
): Checked<string> {
  const note: Note = (value, path, notes) => {
    if (typeof value === 'string' && !isUsual(value)) notes.push(`${path}: ${expected}`);
  };
  return { schema, note, isPlain: (value) => typeof value === 'string' && isTaken(value) && isUsual(value) };
}

/** A string that is refused when it does not pass the test. */
function tested(isTaken: Test, error: string): Checked<string> {
  return {
    schema: aString.refine(isTaken, { error }),
    isPlain: (value) => typeof value === 'string' && isTaken(value),
  };
}

/** CiString: printable ASCII; a note when it is longer than `max`. Only keys are refused for their length. [D64] */
export function ciString(max: number): Checked<string> {
  const error = `expected at most ${ciStringMax} printable ASCII characters`;
  const isTaken = (value: string) => ciStringForm.test(value);
  const schema = aString.refine(isTaken, { error });
  return noted(schema, (value) => value.length <= max, `expected at most ${max} characters`, isTaken);
}

/** Some of these strings become keys by which later requests find a session or a command. */
const ciStringMax = 1024;
const ciStringForm = new RegExp(`^[\\x20-\\x7e]{0,${ciStringMax}}$`);

/** An identifier: a CiString that is not empty. */
export function identifier(max: number): Checked<string> {
  const form = new RegExp(`^[\\x20-\\x7e]{1,${max}}$`);
  return tested((value) => form.test(value), `expected 1 to ${max} printable ASCII characters`);
}

/** A string for people; a note when it is longer than the specification allows. */
export function text(max: number): Checked<string> {
  return noted(aString, (value) => value.length <= max, `expected at most ${max} characters`);
}

/** An enum of a `must`: any string but an empty one; a note when the specification lacks the value, or this case of it. */
export function oneOf(...values: readonly string[]): Checked<string> {
  return enumOf(aString.min(1, { error: `expected one of ${values.join(', ')}` }), values);
}

/** Any other enum: any string, with the notes of `oneOf`. Some clients write "" for a value that they do not have. */
export function anyOf(...values: readonly string[]): Checked<string> {
  return enumOf(aString, values);
}

function enumOf(schema: z.ZodType<string>, values: readonly string[]): Checked<string> {
  const known: ReadonlySet<unknown> = new Set(values);
  // Some values have lower-case letters by themselves, as `IEC_60309_2_single_16`.
  const inUpperCase = new Set(values.map((value) => value.toUpperCase()));
  const note: Note = (value, path, notes) => {
    if (typeof value !== 'string' || known.has(value)) return;
    const upper = value.toUpperCase();
    if (!inUpperCase.has(upper)) notes.push(`${path}: value unknown to OCPI 2.2.1`);
    else if (value !== upper) notes.push(`${path}: ${notUpperCase}`);
  };
  return { schema, note, isPlain: (value) => known.has(value) };
}

/** A token of at most 64 printable ASCII characters without spaces. [D8] */
export const tokenText = tested(isToken, 'expected 1 to 64 printable ASCII characters without spaces');

/** A string that should match; a note when it does not. */
export function pattern(form: RegExp, expected: string): Checked<string> {
  return noted(aString, (value) => form.test(value), expected);
}

/** Judged by its text: a body may have tens of thousands, and to parse one takes up to a millisecond. */
const linkForm = /^(?:https?:\/\/[^\s/?#\\<>^|]{1,255}(?![^/?#\\])|(?!https?:)[a-z][a-z\d+.-]{0,31}:\S)/i;

/** A URL for people's browsers. */
export const link = pattern(linkForm, 'expected URL');

/** A URL that the hub itself will call. */
export const httpUrl = tested(isHttpUrl, 'expected http or https URL');

function isHttpUrl(value: string): boolean {
  return value.length <= 2048 && parsedHttpUrl(value) !== null;
}

/** A date; a note for a blank between date and time, and for other forms that RFC 3339 lacks: they are read all the same. [D71] */
export const dateTime: Checked<string> = {
  schema: aString.refine((value) => sortableDate(value) !== undefined, { error: 'expected RFC 3339 date-time' }),
  note: (value, path, notes) => {
    if (typeof value !== 'string') return;
    if (value[10] === ' ') notes.push(`${path}: ${blankInDate}`);
    if (!isRfcDate(value)) notes.push(`${path}: ${notRfcDate}`);
  },
  isPlain: (value) => typeof value === 'string' && isPlainDate(value) && value[10] !== ' ',
};

export const flag: Checked<boolean> = {
  schema: z.boolean({ error: 'expected boolean' }),
  isPlain: (value) => typeof value === 'boolean',
};
export const number: Checked<number> = { schema: z.number({ error: 'expected number' }), isPlain: Number.isFinite };
export const integer: Checked<number> = {
  schema: z.number({ error: 'expected integer' }).refine(Number.isInteger, { error: 'expected integer' }),
  isPlain: Number.isSafeInteger,
};

export function list<T>(of: Checked<T>): Checked<T[]> {
  const isPlain = (value: unknown) => Array.isArray(value) && value.every((item) => of.isPlain(item));
  // `z.array` would copy every item before the first check runs. [TYPES-5]
  const array = z.custom<unknown[]>(Array.isArray, { error: 'expected array', abort: true });
  const schema = array.superRefine((items, context) => {
    for (const [index, item] of items.entries()) {
      if (of.isPlain(item)) continue;
      const [issue] = of.schema.safeParse(item).error?.issues ?? [];
      if (issue === undefined) continue;
      context.addIssue({ code: 'custom', message: issue.message, path: [index, ...issue.path] });
      return;
    }
  }) as unknown as z.ZodType<T[]>;
  const noteItem = of.note;
  if (!noteItem) return { schema, isPlain };
  const note: Note = (value, path, notes) => {
    if (!Array.isArray(value)) return;
    for (const [index, item] of value.entries()) {
      if (notes.length >= notesMax) return;
      noteItem(item, `${path}[${index}]`, notes);
    }
  };
  return { schema, note, isPlain };
}

/** A list that should have items: a note when it is empty. */
export function filled<T>(type: Checked<T[]>): Checked<T[]> {
  const note: Note = (value, path, notes) => {
    if (Array.isArray(value) && value.length === 0) notes.push(`${path}: expected at least one`);
    type.note?.(value, path, notes);
  };
  const isPlain = (value: unknown) => Array.isArray(value) && value.length > 0 && type.isPlain(value);
  return { schema: type.schema, note, isPlain };
}

/** A part that the hub only passes on: what does not match the type is noted, never refused. [D64] */
export function snapshot(type: Checked<unknown>): Checked<unknown> {
  const note: Note = (value, path, notes) => {
    if (type.isPlain(value)) return;
    const { error } = type.schema.safeParse(value);
    if (error) notes.push(firstOffence(error, path));
    else type.note?.(value, path, notes);
  };
  return { schema: z.unknown(), note, isPlain: type.isPlain };
}

/** A value that is refused when `isForeign`: a later version of OCPI means something else by it. [D64] */
export function foreign(isForeign: (value: unknown) => boolean, error: string): Checked<unknown> {
  const isOurs = (value: unknown) => !isForeign(value);
  return { schema: z.unknown().refine(isOurs, { error }), isPlain: isOurs };
}

// Objects

interface Field<T, Need extends 'must' | 'should' | 'may'> {
  readonly need: Need;
  readonly type: Checked<T>;
}
type AnyField = Field<unknown, 'must' | 'should' | 'may'>;
type Shape = Readonly<Record<string, AnyField>>;

type Present<F> = F extends Field<infer T, 'must' | 'should' | 'may'> ? T : never;
type MustKeys<S extends Shape> = { [K in keyof S]: S[K]['need'] extends 'must' ? K : never }[keyof S];
type BodyOf<S extends Shape> = { [K in MustKeys<S>]: Present<S[K]> } & {
  [K in Exclude<keyof S, MustKeys<S>>]?: Present<S[K]> | null | undefined;
};
type FragmentOf<S extends Shape> = { last_updated: string } & { [K in keyof S]?: Present<S[K]> | null | undefined };

export interface ObjectType<S extends Shape> extends Checked<BodyOf<S>> {
  readonly shape: S;
}

/** A field that the hub relies on: refused when missing. */
export const must = <T>(type: Checked<T>): Field<T, 'must'> => ({ need: 'must', type });
/** A field that only the specification requires: noted when missing. */
export const should = <T>(type: Checked<T>): Field<T, 'should'> => ({ need: 'should', type });
/** An optional field. */
export const may = <T>(type: Checked<T>): Field<T, 'may'> => ({ need: 'may', type });

/** An object with these fields and any others. [TYPES-2] */
export function object<S extends Shape>(shape: S): ObjectType<S> {
  const schema = zodObject(shape, (field) => (field.need === 'must' ? field.type.schema : field.type.schema.nullish()));
  const names = Object.keys(shape);
  const isPlain = plainFields(shape, ({ need }) => (need === 'may' ? 'absent or null' : null));
  return { shape, names, schema: schema as unknown as z.ZodType<BodyOf<S>>, note: noteFields(shape, true), isPlain };
}

/**
 * The body of a PATCH: any of the object's fields, and always `last_updated`. [D18] A `must` field cannot become null.
 */
export function fragment<S extends Shape>(type: ObjectType<S>): Checked<FragmentOf<S>> {
  const schema = zodObject(type.shape, (field, name) => {
    if (name === 'last_updated') return field.type.schema;
    return field.need === 'must' ? field.type.schema.optional() : field.type.schema.nullish();
  });
  const names = Object.keys(type.shape);
  const isPlain = plainFields(type.shape, ({ need }, name) => {
    if (name === 'last_updated') return null;
    return need === 'must' ? 'absent' : 'absent or null';
  });
  return { names, schema: schema as unknown as z.ZodType<FragmentOf<S>>, note: noteFields(type.shape, false), isPlain };
}

function zodObject(shape: Shape, schemaOf: (field: AnyField, name: string) => z.ZodType): z.ZodType {
  const fields = Object.entries(shape).map(([name, field]) => [name, schemaOf(field, name)]);
  // Not a loose object: copying unknown fields into the view, where nothing reads them, costs 50 % more. [TYPES-2]
  return z.object(Object.fromEntries(fields), { error: 'expected object' });
}

/** `lack`: how a field may be missing without a note. */
function plainFields(
  shape: Shape,
  lack: (field: AnyField, name: string) => 'absent' | 'absent or null' | null,
): (value: unknown) => boolean {
  const fields = Object.entries(shape).map(([name, field]) => ({
    name,
    isPlain: field.type.isPlain,
    mayBeAbsent: lack(field, name) !== null,
    mayBeNull: lack(field, name) === 'absent or null',
  }));
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const object = value as Record<string, unknown>;
    for (const { name, isPlain, mayBeAbsent, mayBeNull } of fields) {
      const own = object[name];
      const isFine = own === undefined ? mayBeAbsent : own === null ? mayBeNull : isPlain(own);
      if (!isFine) return false;
    }
    return true;
  };
}

function noteFields(shape: Shape, isWhole: boolean): Note {
  const fields = Object.entries(shape)
    .filter(([, field]) => field.type.note || (isWhole && field.need === 'should'))
    .map(([name, field]) => ({ name, note: field.type.note, isExpected: isWhole && field.need === 'should' }));
  return (value, path, notes) => {
    if (typeof value !== 'object' || value === null) return;
    const object = value as Record<string, unknown>;
    for (const { name, note, isExpected } of fields) {
      if (notes.length >= notesMax) return;
      const own = object[name];
      if (own !== undefined && own !== null) note?.(own, join(path, name), notes);
      else if (isExpected) notes.push(`${join(path, name)}: missing`);
    }
  };
}
