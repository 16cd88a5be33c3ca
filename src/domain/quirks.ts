/**
 * Habits of partners that OCPI does not foresee and that the hub makes up for. Each use is counted once per call, by
 * partner and module, and the report of the partner shows it with the sentence. [D70]
 */

export const quirks = {
  'not-subscribed': 'it has no receiver of this module: nothing is owed to it, and it reads the list',
  gzip: 'it compresses its answers, although the hub asks for none',
  'byte-order-mark': 'what it sends begins with a byte order mark',
  'not-utf8': 'its answers are not in UTF-8: they are read in the character set that they state, or as Windows-1252',
  'unasked-continue': 'its server says 100 Continue before an answer, although the hub asks for none',
  'url-fragment': 'URLs of its version details have a fragment, which is dropped',
  'http-url': 'its versions list http on the host where it is called by https: they are read as https',
  'status-code-text': 'its answers have the status_code as text',
  'timeout-text': 'the timeout of its answers to commands is a text, which is read as the number',
  'array-of-one': 'it answers an array of one object in place of the object',
  'raw-answer': 'it answers without an envelope',
  'empty-2xx': 'it answers a success without a body',
  'slash-redirect': 'its server knows only the other form of the path, with or without a slash at the end',
  'plain-token': 'it takes its token only as it is, not in base64',
  'unusable-endpoint':
    'its version details have endpoints that cannot be called, as with a relative URL: they count as absent',
  'no-endpoint-role': 'its version details leave out interface roles; the module and its own roles decide',
  'patch-refused': 'it refuses a PATCH; the whole object follows as a PUT',
  'double-slash': 'it writes slashes in a row in the paths of its requests, which count as one',
  'trailing-slash': 'its URLs end with a slash, which they keep',
  'details-url': 'the url of its credentials is that of its version details',
  'needs-user-agent': 'it refuses requests without a User-Agent, which the hub always sends',
  nulls: 'it sends null for whatever is optional, which counts as absent',
  'patch-without-date': 'its PATCH has no last_updated: the time of its arrival stands in for the date',
  'authorize-to-hub': 'it sends authorize without OCPI-to, or to the hub: the hub finds the eMSP',
  'no-next-link': 'its list has more rows and no link to them; the hub goes on by offset',
  'unreadable-next-link': 'the next link of its list cannot be read; the hub goes on by offset',
  'foreign-next-link': 'the next link of its list leads to another origin; the hub goes on by offset',
  'refused-next-link': 'it refuses the next link of its own list; the hub goes on by offset',
  'list-without-data': 'it leaves out the data of an answer whose list is empty',
  'enveloped-callback': 'it puts the result of a command into an envelope',
  'early-cdr': 'it posts CDRs before a routing rule lets them pass: the hub keeps them until one does',
  'cdr-again': 'it posts a CDR again with another last_updated, which counts as a duplicate',
  'known-cdr': 'it refuses a CDR that it has: one that may have arrived before counts as delivered',
  'cdr-path': 'it posts a CDR to a path with its party, where OCPI has the URL of the module alone',
  'to-hub': 'it names the hub in OCPI-to where one party is meant: the hub finds that party',
  'foreign-sender':
    'it names another party in OCPI-from of the result of a command: its token and the command decide whose it is',
  'blank-date': 'it writes a blank between date and time, which is read as T',
  'iso-date':
    'it writes dates of ISO 8601 in a form that RFC 3339 lacks, as without seconds or without the colon of an offset',
  'lower-case': 'it writes values of enumerations in lower case, which are read as if in upper case',
  'token-without-party': 'the token of its commands names no party: it counts as a token of the sender',
  'first-link':
    'it takes the first link of a list for the next page: link_prev: false leaves out the one to the page before',
  'own-limit':
    'it adds the limit that it asks for to the offset, although X-Limit is lower: the next page follows the last all the same',
  'strict-modules': 'it refuses version details with modules that it does not know: it is not offered these',
  'pull-only': 'it has no server: nothing is sent to it, and it reads the lists',
} as const satisfies Readonly<Record<string, string>>;

export type Quirk = keyof typeof quirks;

/** How the warning ends that a value of an enumeration would be known in upper case. [D17] */
export const notUpperCase = 'expected upper case';
/** How the warnings end of a blank in a date, of other forms of a date, and of a byte order mark. [D71] */
export const blankInDate = 'expected T between date and time';
export const notRfcDate = 'expected the form 2026-01-02T03:04:05Z of RFC 3339';
export const beginsWithMark = 'begins with a byte order mark';

const warnedOf: readonly (readonly [end: string, Quirk])[] = [
  [notUpperCase, 'lower-case'],
  [blankInDate, 'blank-date'],
  [notRfcDate, 'iso-date'],
  [beginsWithMark, 'byte-order-mark'],
];

/** The habit that a warning about a field is a case of; undefined when it is none. */
export const quirkOf = (warning: string): Quirk | undefined => warnedOf.find(([end]) => warning.endsWith(end))?.[1];

/** The habits that warnings are cases of, each once. */
export function quirksWarnedOf(warnings: readonly string[]): Quirk[] {
  return [...new Set(warnings.map(quirkOf).filter((quirk) => quirk !== undefined))];
}

/** What the hub made up for in one step of an exchange, by the id of the party whose habit it is; each habit once. */
export type QuirksMet = Readonly<Record<string, readonly Quirk[]>>;

/** As a field of an event or an attempt, which has none when nothing was made up for. */
export function metBy(party: string, names: readonly Quirk[] = []): { readonly quirks?: QuirksMet } {
  return names.length === 0 ? {} : { quirks: { [party]: [...new Set(names)] } };
}

/** A value of an enumeration as the hub decides on it: texts pass on as they came. [D17] */
export const enumValue = (value: unknown): unknown => (typeof value === 'string' ? value.toUpperCase() : value);

/** Whether it is a text that stands for a number of seconds. */
export const isDigits = (value: unknown): value is string => typeof value === 'string' && /^ *\d{1,9} *$/.test(value);

/** Nulls in one object from which on they count as a habit; OCPI allows each of them. */
const nullsMin = 3;

/** The habits that an object shows as a whole, wherever it comes from. */
export function quirksIn(object: object): Quirk[] {
  let nulls = 0;
  for (const value of Object.values(object)) if (value === null) nulls++;
  return nulls >= nullsMin ? ['nulls'] : [];
}

export const isQuirk = (name: string): name is Quirk => Object.hasOwn(quirks, name);
