/**
 * Finds what names a person in stored records, and replaces it: the uids, contract ids and visual numbers of the
 * person's tokens.
 *
 * PERSON-1  A person is found only where OCPI names a token: in tokens, in `cdr_token` and in the token of a command.
 *     Another field with an equal value does not make a record the person's.
 * PERSON-2  In a record of the person every occurrence is replaced, in any case and however it is escaped (JSON,
 *     percent-encoding). A name of fewer than 8 characters is replaced only where it is a whole word.
 * PERSON-3  JSON stays JSON: only inside texts is anything replaced, never in a literal, a date or a number, but for a number that is a
 *     uid, contract id or visual number.
 * PERSON-4  The time of a search grows with the text, not with the number of names.
 * PERSON-5  No name is missed that occurs in the text in any case, as JSON escapes, as JSON within JSON or percent-encoded. One that
 *     does not occur there may be given as well.
 */

import type { ObjectModule } from './modules.ts';
import { type PartyId, partyKey } from './party.ts';

export interface Person {
  /** Uid of a token; null when the person is given by contract alone. */
  readonly uid: string | null;
  /** Contract id; null when the person is given by uid alone. */
  readonly contract: string | null;
  /** The eMSP whose tokens are meant; null for any. */
  readonly party: PartyId | null;
}

/** The names in one token, as received; absent where the token does not have it. */
export interface TokenNames {
  readonly uid?: string;
  readonly contract?: string;
  readonly visual?: string;
  /** The eMSP that it names. */
  readonly party?: PartyId;
}

/** The shortest name that can be distinguished from other text. */
export const nameMin = 4;
/** From this length on a name is replaced inside longer words, too. [PERSON-2] */
const unmistakable = 8;

/** The tokens that a record of an object names. `isToken`: the object is itself one. [PERSON-1] */
export function tokensIn(isToken: boolean, data: unknown, body: string | null): TokenNames[] {
  const { id, facts } = fieldsOf(data);
  const object = fieldsOf(parsed(body));
  const own = isToken ? { ...namesOf(object), ...(typeof id === 'string' && { uid: id }) } : {};
  const fact = fieldsOf(fieldsOf(facts).cdrToken);
  const inFacts = { ...namesOf(fact), ...(typeof fact.party === 'string' && { party: fact.party }) };
  const stated = statedToken(object.cdr_token);
  const { country_code: country, party_id: party } = stated;
  const isParty = typeof country === 'string' && typeof party === 'string';
  const inBody = { ...namesOf(stated), ...(isParty && { party: partyKey(country, party) }) };
  return [own, inFacts, inBody].filter((names) => Object.keys(names).length > 0);
}

/** The tokens that a refused push names, or a refused command (`module` null). Of a body that is no JSON that of its only uid. */
export function tokensRefused(module: string | null, body: string | null): TokenNames[] {
  const read = parsed(body);
  if (read === undefined) {
    const fields = [...(body ?? '').matchAll(field)].map(([, name = '', value = '']) => [name, value] as const);
    const isAlone = fields.filter(([name]) => name === 'uid').length === 1;
    return isAlone ? [namesOf(Object.fromEntries(fields))] : [];
  }
  if (module !== null) return tokensIn(module === 'tokens', {}, body);
  return [namesOf(fieldsOf(fieldsOf(read).token))];
}

/** A `cdr_token` of any shape is stored: one that is a text is JSON or a uid. */
function statedToken(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== 'string') return typeof value === 'number' ? { uid: value } : fieldsOf(value);
  const object = parsed(value);
  return typeof object === 'object' && object !== null ? fieldsOf(object) : { uid: value };
}

function namesOf({ uid, contract_id, visual_number }: Readonly<Record<string, unknown>>): TokenNames {
  const [name, contract, visual] = [uid, contract_id, visual_number].map((one) =>
    typeof one === 'number' ? String(one) : one,
  );
  return {
    ...(typeof name === 'string' && { uid: name }),
    ...(typeof contract === 'string' && { contract }),
    ...(typeof visual === 'string' && { visual }),
  };
}

const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? { ...value } : {};

/** Undefined for text that is not JSON. */
function parsed(text: string | null): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return undefined;
  }
}

/** The eMSPs at which a uid is the person's; null: at any. */
export type Emsps = ReadonlySet<PartyId> | null;
/** Whether an eMSP is one of these; null, where it is not known, is one only of any. */
export const isAmong = (emsps: Emsps, emsp: PartyId | null): boolean =>
  emsps === null || (emsp !== null && emsps.has(emsp));

/** An object that names tokens. */
export interface Naming {
  readonly module: ObjectModule;
  readonly owner: PartyId;
  /** The eMSPs that have the object. */
  readonly viewers: readonly PartyId[];
}

/** The eMSPs whose token it names: those that have the object where it names none. */
export const emspsIn = ({ party }: TokenNames, { viewers }: Pick<Naming, 'viewers'>): readonly PartyId[] =>
  party === undefined ? viewers : [party];

export type IsTheirs = (token: TokenNames, of: Naming) => boolean;

/** Whether a token, or what names one, is the person's. [PERSON-SEARCH-1] */
export function theirs({ contract: given, party }: Person, emspsOf: ReadonlyMap<string, Emsps>): IsTheirs {
  const contract = given?.toLowerCase();
  return (token, { module, owner, viewers }) => {
    const emsps = module === 'tokens' ? [owner] : emspsIn(token, { viewers });
    const isAt = (wanted: Emsps) => wanted === null || emsps.some((emsp) => wanted.has(emsp));
    if (
      contract !== undefined &&
      token.contract?.toLowerCase() === contract &&
      isAt(party === null ? null : new Set([party]))
    )
      return true;
    const wanted = token.uid === undefined ? undefined : emspsOf.get(token.uid.toLowerCase());
    return wanted !== undefined && isAt(wanted);
  };
}

export interface Replacer {
  /** Whether the text contains one of the names. */
  finds(text: string): boolean;
  findsAny(texts: readonly string[]): boolean;
  /** A plain text with the names replaced. */
  inName(text: string): string;
  /** A JSON text, or a plain one, with the names replaced. [PERSON-3] */
  inText(text: string): string;
}

/** A name in the place of an erased one, as `Secrets.pseudonym` makes it. */
const pseudonymForm = /erased-[0-9a-f]{24}/i;

/** Whether a body, or the name of an object, has lost a person's names to an erasure. */
export const hasPseudonym = (text: string): boolean => pseudonymForm.test(text);

/** The body with those names of its tokens replaced that are replaced in another one, so that the two can be compared. */
export function erasedAs(other: string, body: string, nameFor: (name: string) => string): string {
  if (!hasPseudonym(other)) return body;
  const names = tokensIn(false, null, body).flatMap(({ uid, contract, visual }) => [uid, contract, visual]);
  const isErased = (name: string | undefined): name is string => name !== undefined && other.includes(nameFor(name));
  return replacerOf(names.filter(isErased), nameFor).inText(body);
}

/** `nameFor` gives the replacement of a name, in lower case. */
export function replacerOf(names: Iterable<string>, nameFor: (name: string) => string): Replacer {
  // The longest first: a visual number often begins with the contract id.
  const known = [...new Set([...names].map((name) => name.toLowerCase()))].sort((a, b) => b.length - a.length);
  const search = nameSearch(known);
  const patterns = new Map<string, Pattern>();
  /** A pattern of the names that may stand in the text, for one of all names takes time in proportion to their number. [PERSON-4] */
  const patternFor = (text: string): Pattern | null => {
    const those = search(text);
    if (those.length === 0) return null;
    const key = those.join('\0');
    const pattern = patterns.get(key) ?? patternAll(those, nameFor);
    if (patterns.size >= patternsMax) patterns.clear();
    patterns.set(key, pattern);
    return pattern;
  };
  const finds = (text: string): boolean => {
    const pattern = patternFor(text);
    return pattern !== null && text.search(pattern.searched) !== -1;
  };
  const inName = (text: string): string => {
    const pattern = patternFor(text);
    return pattern === null ? text : text.replace(pattern.searched, pattern.replacementOf);
  };
  const inString = (quoted: string): string => {
    const text = JSON.parse(quoted) as string;
    if (date.test(text)) return quoted;
    const after = inName(text);
    return after === text ? quoted : JSON.stringify(after);
  };
  const inText = (text: string): string => {
    if (!finds(text)) return text;
    if (parsed(text) === undefined) return inName(text);
    return text.replace(strings, inString).replace(numbered, (whole: string, field: string, number: string) => {
      const after = inName(number);
      return after === number ? whole : `${field}${JSON.stringify(after)}`;
    });
  };
  return { finds, findsAny: (texts) => texts.some(finds), inName, inText };
}

interface Pattern {
  readonly searched: RegExp;
  replacementOf(found: string): string;
}

/** Patterns that are kept; a record has few names, so few of them occur. */
const patternsMax = 500;

function patternAll(names: readonly string[], nameFor: (name: string) => string): Pattern {
  const whole = names.map((name) => [new RegExp(`^(?:${escaped(name)})$`, 'iu'), nameFor(name)] as const);
  return {
    searched: new RegExp(names.map(patternOf).join('|'), 'giu'),
    replacementOf: (found) => whole.find(([pattern]) => pattern.test(found))?.[1] ?? found,
  };
}

const strings = /"(?:[^"\\]|\\.)*"/g;
/** A name that was written as a number. A text has no such quotes without backslashes. */
const numbered = /("(?:uid|contract_id|visual_number|cdr_token)"\s*:\s*)(\d+)(?=\s*[,}])/g;
/** A name in a text that is no JSON. */
const field = /"(uid|contract_id|visual_number)"\s*:\s*"?([^"{}[\],]+)/g;
const date = /^\d{4}-\d\d-\d\dT/;
/** A word begins behind no letter or digit, unless these end an escape. */
const wordStart = String.raw`(?:(?<![\p{L}\p{N}])|(?<=%[0-9a-f]{2})|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))`;
const wordEnd = String.raw`(?![\p{L}\p{N}])`;

const patternOf = (name: string): string =>
  name.length >= unmistakable ? escaped(name) : `${wordStart}(?:${escaped(name)})${wordEnd}`;

/**
 * What begins an escape: one backslash in JSON, more in JSON within JSON. All of a run are taken: were a run to match in
 * several ways, one name could take time without end.
 */
const escapeStart = String.raw`(?<!\\)\\+`;
/** Behind a backslash of the name, which has taken those of the escape, too. */
const laterStart = String.raw`(?:${escapeStart}|(?<=\\))`;

/** Each character plain, as a JSON escape or percent-encoded, in either case. */
function escaped(name: string): string {
  const parts = name.match(/\\+|[^\\]/gu) ?? [];
  return parts.map((part, i) => `(?:${[...formsOf(part, i > 0 && isRun(parts[i - 1]))].join('|')})`).join('');
}

const isRun = (part = ''): boolean => part.startsWith('\\');

/** The forms of a character, or of a run of backslashes. */
function formsOf(part: string, isAfterRun: boolean): Set<string> {
  const { length } = part;
  if (isRun(part)) return new Set([String.raw`(?<!\\)\\{${length},}`, `(?:${escapeStart}u005c|%5c){${length}}`]);
  const start = isAfterRun ? laterStart : escapeStart;
  const cases = new Set([part, part.toLowerCase(), part.toUpperCase()]);
  const plain = new RegExp(`^${literal(part)}$`, 'iu');
  return new Set(
    [...cases].flatMap((form) => {
      const units = Array.from({ length: form.length }, (_, i) => form.charCodeAt(i).toString(16).padStart(4, '0'));
      const bytes = [...new TextEncoder().encode(form)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`);
      const mark = form === '/' || form === '"' ? [`${escapeStart}${literal(form)}`] : [];
      const isOther = form === part || !plain.test(form);
      return [
        ...(isOther ? [literal(form)] : []),
        ...mark,
        units.map((unit) => `${start}u${unit}`).join(''),
        bytes.join(''),
      ];
    }),
  );
}

const literal = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

// Which of many names may stand in a text, in time that grows with the text and not with the number of names: the few that may
// are then searched for exactly (`person.ts`).

/** Names of one class of length: a short one would make the window of all others short, and so of little use. */
interface Group {
  /** Length of the shortest. */
  readonly window: number;
  /** Weight of the first character of a window in its hash. */
  readonly top: number;
  /** Lengths of those that begin with this window, by its hash. */
  readonly lengths: ReadonlyMap<number, readonly number[]>;
}

/** The longest name of each class. */
const classes = [3, 7, 11, Number.POSITIVE_INFINITY];
const base = 0x01000193;

/** Returns the names that may stand in a text, in the order in which they were given. */
function nameSearch(names: readonly string[]): (text: string) => readonly string[] {
  const places = new Map<string, Set<number>>();
  for (const [place, name] of names.entries()) {
    for (const form of new Set([folded(name), folded(name.replaceAll('\\', '')), plain(name)])) {
      if (form !== '') places.set(form, (places.get(form) ?? new Set()).add(place));
    }
  }
  const groups = classes.flatMap((longest, i) => groupOf([...places.keys()], (classes[i - 1] ?? 0) + 1, longest));
  const collect = (text: string, found: Set<number>) => {
    for (const group of groups)
      for (const form of formsIn(text, group, places)) for (const place of places.get(form) ?? []) found.add(place);
  };
  return (text) => {
    const found = new Set<number>();
    collect(folded(text), found);
    if (/[\\%]/.test(text)) collect(plain(text), found);
    return [...found].sort((a, b) => a - b).map((place) => names[place] ?? '');
  };
}

function groupOf(forms: readonly string[], shortest: number, longest: number): Group[] {
  const those = forms.filter(({ length }) => length >= shortest && length <= longest);
  if (those.length === 0) return [];
  const window = Math.min(...those.map(({ length }) => length));
  const lengths = new Map<number, number[]>();
  for (const form of those) {
    const hash = hashOf(form, window);
    const known = lengths.get(hash) ?? [];
    if (!known.includes(form.length)) known.push(form.length);
    lengths.set(hash, known);
  }
  let top = 1;
  for (let i = 1; i < window; i++) top = Math.imul(top, base);
  return [{ window, top, lengths }];
}

function hashOf(text: string, length: number): number {
  let hash = 0;
  for (let i = 0; i < length; i++) hash = (Math.imul(hash, base) + text.charCodeAt(i)) | 0;
  return hash;
}

/** Moves a window over the text, whose hash follows from the one before. */
function formsIn(text: string, { window, top, lengths }: Group, forms: ReadonlyMap<string, unknown>): Set<string> {
  const found = new Set<string>();
  if (text.length < window) return found;
  let hash = hashOf(text, window);
  for (let start = 0; ; start++) {
    for (const length of lengths.get(hash) ?? []) {
      const form = text.slice(start, start + length);
      if (forms.has(form)) found.add(form);
    }
    const end = start + window;
    if (end >= text.length) return found;
    const rest = (hash - Math.imul(top, text.charCodeAt(start))) | 0;
    hash = (Math.imul(rest, base) + text.charCodeAt(end)) | 0;
  }
}

/** One text for all that a pattern without regard to case takes as equal. */
const folded = (text: string): string => text.toLowerCase().toUpperCase();

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const bytesOf = (encoded: string) => Uint8Array.from(encoded.slice(1).split('%'), (byte) => Number.parseInt(byte, 16));

/** A run of backslashes counts once: a search that began again at each of them would take time by the square of its length. */
const unicodeEscape = /(?<!\\)\\+u([0-9a-f]{4})/gi;

/** Without any escape: what they stand for, and no backslash. */
function plain(text: string): string {
  const decoded = text
    .replace(/(?:%[0-9a-f]{2})+/gi, (bytes) => decoder.decode(bytesOf(bytes)))
    .replace(unicodeEscape, (_, unit: string) => String.fromCharCode(Number.parseInt(unit, 16)));
  return folded(decoded.replaceAll('\\', ''));
}
