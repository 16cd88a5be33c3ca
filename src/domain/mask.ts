/**
 * Hides what names a person from operators who only read: token uids, contract ids and visual numbers, down to their
 * last characters. Answers of the admin API and messages of the inspector pass through here before a viewer gets them.
 *
 * MASK-1  A name is hidden wherever OCPI or the hub puts one: in fields of tokens, whatever their case, in bodies and
 *     excerpts that are texts of JSON, in paths below `/tokens/`, in keys of token objects, and in addresses of the console
 *     that ask for one.
 * MASK-2  A name that was hidden in one place of a value is hidden in every other text of it.
 * MASK-3  In what a partner says in words, in bodies that are not JSON, and in addresses of the console, every word is
 *     hidden that has the form of a uid or a contract id, unless the value has it as the id of something of the hub.
 * MASK-4  The time grows with the size of the value. A text with too many names, or nested too deeply to be read, is left
 *     out; beyond the names of a value that are looked for, all of its texts are treated as words of a partner.
 */
import { type Found, folded, hidden, maskedName, Names, namesByForm, plainOf, searchOf } from './mask-words.ts';

/** Fields that hold a name, without `_`. An EVSE has a `uid`, too, which names no person. `auth_id` is of OCPI 2.1.1. */
const naming: ReadonlySet<string> = new Set([
  ...['uid', 'tokenuid', 'authid', 'contract', 'contractid', 'visualnumber'],
  // Objects by right.
  ...['token', 'cdrtoken'],
]);
/** A shorter name is hidden only where it is the whole text, since it occurs in others by chance. [MASK-2] */
const replacedFrom = 4;

/** Fields with words of a partner, or of the hub about what a partner sent. [MASK-3] */
const spoken: ReadonlySet<string> = new Set([
  ...['reason', 'excerpt', 'message', 'error', 'note', 'example', 'answer', 'seen', 'summary', 'warnings', 'says'],
]);
const bodies: ReadonlySet<string> = new Set(['body', 'text']);
/** An address of the console with a query, as saved views have; a path of OCPI has more segments. */
const consoleAddress = /^\/[a-z-]*\?/;

const inText = /"((?:token_?)?uid|auth_?id|contract_?id|visual_?number)"\s*:\s*(?:"([^"]+)|(-?\d[\d.e+-]*))/gi;
const inPath = /\/tokens\/(?:[A-Za-z]{2}\/[A-Za-z0-9]{1,3}\/)?([^/?#\s"\\]+)/g;
/** Of an address of the console that is about tokens: the id of the object that it asks for. */
const inQuery = /[?&](?:key|object)=(?:[A-Za-z]{2}-[A-Za-z0-9]{1,3}\/)?([^&#\s"\\]+)/g;
const inKey = /^(?:tokens?:)?[A-Z]{2}-[A-Z0-9]{1,3}\/(.+)$/i;
/** Fields whose value is the key of an object, beside a `module` or in a tally of one. */
const keys: ReadonlySet<string> = new Set(['object', 'key', 'stream', 'about', 'id']);
const ids: ReadonlySet<string> = new Set([
  ...keys,
  ...['correlation_id', 'delivery', 'session', 'cdr', 'sample', 'pull'],
]);

type Kind = 'spoken' | 'body' | 'id' | 'other';

function kindOf(field: string, text: string): Kind {
  if (spoken.has(field) || (field === 'path' && consoleAddress.test(text))) return 'spoken';
  if (bodies.has(field)) return 'body';
  return ids.has(field) ? 'id' : 'other';
}

const tooMany = 'left out: too many names';
const tooDeep = 'left out: nested too deeply';
/** Deeper than any object of OCPI or answer of the hub; the walk takes a frame of the stack for each level. */
const depthMax = 100;
/** Characters of the names of a text. [MASK-4] */
const ofTextMax = 8192;
/** Characters of texts after which a step ends. */
const ofStep = 65_536;

/** The value with every name hidden; texts, arrays and objects are copied, all else stays. */
export function masked(value: unknown): unknown {
  for (const steps = masking(value); ; ) {
    const { done, value: shown } = steps.next();
    if (done === true) return shown;
  }
}

/** As `masked`, in steps that are short for the event loop. */
export function* masking(value: unknown): Generator<undefined, unknown> {
  const names = new Names();
  const texts = new Map<string, Set<Kind>>();
  /** Parts of ids, which are no names by their form. */
  const own = new Set<string>();
  walk(value, whole, names, (text, { field }) => {
    const kind = kindOf(field, text);
    texts.set(text, (texts.get(text) ?? new Set()).add(kind));
    if (kind === 'id') for (const part of folded(text).split('/')) own.add(part);
  });
  let length = 0;
  const isEnough = (text: string): boolean => {
    length = (length < ofStep ? length : 0) + text.length;
    return length >= ofStep;
  };
  const isJson = new Set<string>();
  const out = new Map<string, string>();
  for (const text of texts.keys()) {
    const found = new Names(ofTextMax);
    const read = readText(text, found, 0);
    if (read === 'json') isJson.add(text);
    if (read === 'deep') out.set(text, tooDeep);
    for (const name of found.all) names.add(name);
    if (found.isFull || (names.isFull && found.all.size > 0)) out.set(text, tooMany);
    if (isEnough(text)) yield;
  }
  yield;
  const isSomeOut = names.isFull || out.size > 0;
  const search = searchOf(names, replacedFrom);
  const byForm: Record<Kind, (text: string) => boolean> = {
    spoken: () => true,
    body: (text) => !isJson.has(text),
    id: () => false,
    other: () => isSomeOut,
  };
  const shown = new Map<string, Map<Kind, string>>();
  for (const [text, kinds] of texts) {
    const made = new Map<Kind, string>();
    for (const kind of kinds) made.set(kind, out.get(text) ?? hiddenIn(text, search, byForm[kind](text) ? own : null));
    shown.set(text, made);
    if (isEnough(text)) yield;
  }
  yield;
  return replaced(value, whole, (text, { field }) =>
    names.all.has(folded(text)) ? maskedName(text) : (shown.get(text)?.get(kindOf(field, text)) ?? text),
  );
}

/** Where a value is. */
interface Place {
  readonly field: string;
  /** Within `evses`, where a `uid` names no person. */
  readonly isEvse: boolean;
  /** Beside `module: tokens`, or in a tally of one, which is named `tokens issuer`. */
  readonly isToken: boolean;
  readonly depth: number;
}

const whole: Place = { field: '', isEvse: false, isToken: false, depth: 0 };

function within(value: object, { field: of, isEvse, depth }: Place, field: string): Place {
  if (Array.isArray(value)) return { field: of, isEvse, isToken: false, depth: depth + 1 };
  const isToken = ('module' in value && value.module === 'tokens') || of.startsWith('tokens ');
  return { field, isEvse: isEvse || field === 'evses', isToken, depth: depth + 1 };
}

/** The name that the value of a field is, or that is at its end; undefined when there is none. */
function nameIn(value: unknown, { field, isEvse, isToken }: Place): string | undefined {
  const text = typeof value === 'number' ? String(value) : value;
  if (typeof text !== 'string' || text === '') return undefined;
  const plain = field.replaceAll(/[_-]/g, '').toLowerCase();
  if (naming.has(plain) && !(plain === 'uid' && isEvse)) return text;
  return keys.has(field) && (isToken || /^tokens?:/.test(text)) ? inKey.exec(text)?.[1] : undefined;
}

/** Adds the names in fields and visits the other texts; false when a value is nested too deeply, or a text says so. */
function walk(value: unknown, place: Place, names: Names, visit: (text: string, place: Place) => unknown): boolean {
  const name = nameIn(value, place);
  if (name !== undefined) names.add(name);
  else if (typeof value === 'string') return visit(value, place) !== false;
  if (typeof value !== 'object' || value === null) return true;
  if (place.depth >= depthMax) return false;
  let isRead = true;
  for (const [field, inner] of Object.entries(value)) {
    isRead = walk(inner, within(value, place, field), names, visit) && isRead;
  }
  return isRead;
}

function replaced(value: unknown, place: Place, shown: (text: string, place: Place) => string): unknown {
  const name = nameIn(value, place);
  if (name !== undefined) return String(value).slice(0, -name.length) + maskedName(name);
  if (typeof value === 'string') return shown(value, place);
  if (typeof value !== 'object' || value === null) return value;
  if (place.depth >= depthMax) return tooDeep;
  const fields = Object.entries(value).map(
    ([field, inner]) => [field, replaced(inner, within(value, place, field), shown)] as const,
  );
  return Array.isArray(value) ? fields.map(([, inner]) => inner) : Object.fromEntries(fields);
}

/** Adds the names in a text. */
function readText(text: string, names: Names, depth: number): 'json' | 'words' | 'deep' {
  const plain = plainOf(text).text;
  for (const [, name = ''] of plain.matchAll(inPath)) if (name !== 'authorize') names.add(name);
  if (consoleAddress.test(plain) && /[?&]module=tokens(?:&|$)/.test(plain))
    for (const [, name = ''] of plain.matchAll(inQuery)) names.add(name);
  const json = /^\s*[[{]/.test(text) ? parsed(text) : undefined;
  const isEvse = plain.includes('evses');
  for (const [, field = '', name, digits] of plain.matchAll(inText)) {
    // A number loses its last digits when it is parsed.
    if (json === undefined || digits !== undefined) {
      if (!(isEvse && /^uid$/i.test(field))) names.add(name ?? digits ?? '');
    }
  }
  if (json === undefined) return 'words';
  const place = { ...whole, depth };
  const inner = (each: string) => !/^\s*[[{]/.test(each) || readText(each, names, depth + 1) !== 'deep';
  return walk(json, place, names, inner) ? 'json' : 'deep';
}

function hiddenIn(text: string, search: (text: string) => Found[], own: ReadonlySet<string> | null): string {
  const plain = plainOf(text);
  const found = search(folded(plain.text));
  if (own === null) return hidden(text, plain, found);
  return hidden(text, plain, found.concat(namesByForm(plain.text, (word) => own.has(word))));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
