/**
 * The habits of partners that can be rehearsed with `ocpi-hub partner`: how a partner departs from OCPI 2.2.1, or does
 * what OCPI leaves open; by which name its report counts that; what heals it, and where OCPI says so.
 */
import { isInForce, isPreset, type PartnerChoices, type QuirkSource, type SettingName } from './partner-settings.ts';

export interface Habit {
  /** The name of the quirk in the partner's report. */
  readonly counted: string;
  /** What the partner does. */
  readonly does: string;
  /** The setting of the partner that heals it; absent when the hub makes up for it without one. */
  readonly heals?: Readonly<Partial<PartnerChoices>>;
  /** What heals it without another exchange of credentials. */
  readonly healsAtOnce?: Readonly<Partial<PartnerChoices>>;
  /** What OCPI 2.2.1 says, or what follows from what it leaves open. */
  readonly expected: string;
  /** Where it says so. */
  readonly source: string;
}

const transport = 'transport_and_format';

export const habits = {
  'trailing-slash': {
    counted: 'trailing-slash',
    does: 'its URLs end with a slash, and it knows none without',
    expected: 'the url is used as it is',
    source: 'version_information_endpoint, Endpoint',
  },
  'redirect-slash': {
    counted: 'slash-redirect',
    does: 'redirects to the same URL with a slash at its end',
    expected: 'a request is answered at its URL',
    source: `${transport}, JSON / HTTP implementation guide`,
  },
  array: {
    counted: 'array-of-one',
    does: 'answers an array of one object in place of the object',
    expected: 'data is an object or an array, as the request says',
    source: `${transport}, Response format`,
  },
  'plain-token': {
    counted: 'plain-token',
    does: 'takes its token only as it is, not in base64',
    heals: { token_encoding: 'auto' },
    healsAtOnce: { token_encoding: 'plain' },
    expected: 'the token is encoded in base64',
    source: `${transport}, Authorization header`,
  },
  'needs-user-agent': {
    counted: 'needs-user-agent',
    does: 'answers 403 to requests without a User-Agent',
    expected: 'no User-Agent is asked for',
    source: `${transport}, Request format`,
  },
  gzip: {
    counted: 'gzip',
    does: 'answers in gzip, which was not asked for',
    expected: 'identity rules other encodings out',
    source: 'RFC 9110, Accept-Encoding',
  },
  'no-link': {
    counted: 'no-next-link',
    does: 'lists more objects than a page has, and links to no next page',
    expected: 'Link has the URL of the next page',
    source: `${transport}, Pagination`,
  },
  'bad-link': {
    counted: 'unreadable-next-link',
    does: 'links to a next page with what is no URL',
    expected: 'Link has the URL of the next page',
    source: `${transport}, Pagination`,
  },
  'foreign-link': {
    counted: 'foreign-next-link',
    does: 'links to a next page at another host, to which its token may not go',
    expected: 'Link has the URL of the next page',
    source: `${transport}, Pagination`,
  },
  'patch-404': {
    counted: 'patch-refused',
    does: 'answers PATCH with 404',
    expected: 'a receiver that has the object takes it',
    source: `${transport}, PATCH`,
  },
  'patch-405': {
    counted: 'patch-refused',
    does: 'answers PATCH with 405',
    expected: 'a receiver that has the object takes it',
    source: `${transport}, PATCH`,
  },
  'text-status': {
    counted: 'status-code-text',
    does: 'answers status_code as text',
    expected: 'status_code is an int',
    source: `${transport}, Response format`,
  },
  'bare-response': {
    counted: 'raw-answer',
    does: 'answers a command without an envelope',
    expected: 'the CommandResponse is the data of an envelope',
    source: `${transport}, Response format`,
  },
  'byte-order-mark': {
    counted: 'byte-order-mark',
    does: 'begins JSON with a byte order mark',
    expected: 'JSON begins without one',
    source: 'RFC 8259, section 8.1',
  },
  'no-role': {
    counted: 'no-endpoint-role',
    does: 'leaves the role of its endpoints out',
    expected: 'role is required',
    source: 'version_information_endpoint, Endpoint',
  },
  'empty-2xx': {
    counted: 'empty-2xx',
    does: 'answers pushes with 2xx and no body',
    heals: { empty_2xx_ok: true },
    expected: 'every answer is an envelope',
    source: `${transport}, Response format`,
  },
  'not-subscribed': {
    counted: 'not-subscribed',
    does: 'has no receiver for locations or tariffs',
    expected: 'it is not sent what it has no endpoint for',
    source: 'version_information_endpoint, Endpoint',
  },
  'details-url': {
    counted: 'details-url',
    does: 'gives the URL of its version details in its credentials, not of its versions',
    expected: 'url is the versions endpoint',
    source: 'credentials, Credentials object',
  },
  'enveloped-result': {
    counted: 'enveloped-callback',
    does: 'sends the result of a command in an envelope',
    expected: 'it is the body of the request',
    source: 'mod_commands, CommandResult',
  },
  'double-slash': {
    counted: 'double-slash',
    does: 'writes two slashes in the paths of its requests',
    expected: 'the url is used as it is',
    source: 'version_information_endpoint, Endpoint',
  },
  'blank-date': {
    counted: 'blank-date',
    does: 'writes a blank between date and time',
    expected: 'RFC 3339 with T',
    source: 'types, DateTime',
  },
  'iso-date': {
    counted: 'iso-date',
    does: 'writes the offset of dates without its colon, as +0000',
    expected: 'RFC 3339 with Z',
    source: 'types, DateTime',
  },
  'lower-case': {
    counted: 'lower-case',
    does: 'writes enumerations in lower case',
    expected: 'values are as they are listed',
    source: 'types, enum',
  },
  nulls: {
    counted: 'nulls',
    does: 'sends null for whatever is optional',
    expected: 'null or left out mean the same',
    source: `${transport}, No data available`,
  },
  'early-cdr': {
    counted: 'early-cdr',
    does: 'posts a CDR before a routing rule lets it pass',
    expected: 'a CDR may be sent at any time',
    source: 'mod_cdrs',
  },
  'cdr-again': {
    counted: 'cdr-again',
    does: 'posts a CDR again with a new last_updated',
    expected: 'a CDR cannot be changed',
    source: 'mod_cdrs',
  },
  'cdr-path': {
    counted: 'cdr-path',
    does: 'posts a CDR to a path with its party and its id',
    expected: 'a CDR is posted to the URL of the module',
    source: 'mod_cdrs, POST method',
  },
  'to-hub': {
    counted: 'to-hub',
    does: 'names the hub in OCPI-to',
    expected: 'OCPI-to names the receiver',
    source: `${transport}, Message routing`,
  },
  'foreign-sender': {
    counted: 'foreign-sender',
    does: 'names the hub in OCPI-from of the result of a command',
    expected: 'OCPI-from names the sender',
    source: `${transport}, Message routing`,
  },
  'token-without-party': {
    counted: 'token-without-party',
    does: 'sends commands with a token that names no party',
    expected: 'country_code and party_id are required',
    source: 'mod_tokens, Token',
  },
  'patch-without-date': {
    counted: 'patch-without-date',
    does: 'sends PATCH without last_updated',
    heals: { patch_without_last_updated: 'accept' },
    expected: 'last_updated is required',
    source: 'mod_sessions, PATCH',
  },
  'first-link': {
    counted: 'first-link',
    does: 'takes the first link of a list for the next page',
    heals: { link_prev: false },
    expected: 'rel="next" tells the next page',
    source: `${transport}, Pagination`,
  },
  'strict-modules': {
    counted: 'strict-modules',
    does: 'refuses version details with a module that it does not know',
    heals: { hidden_modules: ['hubclientinfo'] },
    expected: 'further identifiers are allowed',
    source: 'version_information_endpoint, ModuleID',
  },
  'authorize-to-hub': {
    counted: 'authorize-to-hub',
    does: 'asks the hub itself to authorize, not an eMSP',
    heals: { authorize_to_hub: 'resolve' },
    expected: 'OCPI-to names the receiver',
    source: `${transport}, Message routing`,
  },
} as const satisfies Readonly<Record<string, Habit>>;

const byCounted = new Map<string, Habit>(Object.values(habits).map((habit) => [habit.counted, habit]));

/** The habit that a report counts by this name. */
export const habitCounted = (name: string): Habit | undefined => byCounted.get(name);

/** The settings in force that make up for the habit; null when none do. */
export function healedBy(
  { heals, healsAtOnce }: Habit,
  settings: PartnerChoices,
): Readonly<Partial<PartnerChoices>> | null {
  return [heals, healsAtOnce].find((choices) => choices && isInForce(choices, settings)) ?? null;
}

/** Whether a setting that an operator chose makes up for the habit. */
export function isSet(habit: Habit, settings: PartnerChoices): boolean {
  const chosen = Object.entries(healedBy(habit, settings) ?? {});
  return chosen.some(([name, value]) => !isPreset(name as SettingName, value));
}

/** Who makes up for what a report counts by this name. */
export function sourceOf(counted: string, settings: PartnerChoices): QuirkSource {
  const habit = habitCounted(counted);
  const isChosen = habit ? isSet(habit, settings) : counted === 'pull-only';
  return isChosen ? 'operator' : 'learnt';
}
