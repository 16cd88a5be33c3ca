/**
 * The habits of partners that can be rehearsed with `ocpi-hub partner`: how a partner departs from OCPI 2.2.1, or does
 * what OCPI leaves open; by which name its report counts that; what heals it, and where OCPI says so.
 */

export interface Habit {
  /** The name of the quirk in the partner's report. */
  readonly counted: string;
  /** What the partner does. */
  readonly does: string;
  /** The setting of the partner that heals it; null when the hub makes up for it without one. */
  readonly heals: string | null;
  /** Where OCPI 2.2.1 says otherwise, or what follows from what it does not say. */
  readonly source: string;
}

const transport = 'transport_and_format';

export const habits = {
  'trailing-slash': {
    counted: 'trailing-slash',
    does: 'its URLs end with a slash, and it knows none without',
    heals: null,
    source: 'version_information_endpoint, Endpoint: the url is used as it is',
  },
  'redirect-slash': {
    counted: 'slash-redirect',
    does: 'redirects to the same URL with a slash at its end',
    heals: null,
    source: `${transport}, JSON / HTTP implementation guide: a request is answered at its URL`,
  },
  array: {
    counted: 'array-of-one',
    does: 'answers an array of one object in place of the object',
    heals: null,
    source: `${transport}, Response format: data is an object or an array, as the request says`,
  },
  'plain-token': {
    counted: 'plain-token',
    does: 'takes its token only as it is, not in base64',
    heals: 'token_encoding: auto',
    source: `${transport}, Authorization header: the token is encoded in base64`,
  },
  'needs-user-agent': {
    counted: 'needs-user-agent',
    does: 'answers 403 to requests without a User-Agent',
    heals: null,
    source: `${transport}, Request format: no User-Agent is asked for`,
  },
  gzip: {
    counted: 'gzip',
    does: 'answers in gzip, which was not asked for',
    heals: null,
    source: 'RFC 9110, Accept-Encoding: identity rules other encodings out',
  },
  'no-link': {
    counted: 'no-link',
    does: 'lists more objects than a page has, and links to no next page',
    heals: null,
    source: `${transport}, Pagination: Link has the URL of the next page`,
  },
  'bad-link': {
    counted: 'bad-link',
    does: 'links to a next page with what is no URL',
    heals: null,
    source: `${transport}, Pagination: Link has the URL of the next page`,
  },
  'foreign-link': {
    counted: 'foreign-link',
    does: 'links to a next page at another host, to which its token may not go',
    heals: null,
    source: `${transport}, Pagination: Link has the URL of the next page`,
  },
  'patch-404': {
    counted: 'patch-refused',
    does: 'answers PATCH with 404',
    heals: null,
    source: `${transport}, PATCH: a receiver that has the object takes it`,
  },
  'patch-405': {
    counted: 'patch-refused',
    does: 'answers PATCH with 405',
    heals: null,
    source: `${transport}, PATCH: a receiver that has the object takes it`,
  },
  'text-status': {
    counted: 'status-code-text',
    does: 'answers status_code as text',
    heals: null,
    source: `${transport}, Response format: status_code is an int`,
  },
  'bare-response': {
    counted: 'raw-answer',
    does: 'answers a command without an envelope',
    heals: null,
    source: `${transport}, Response format: the CommandResponse is the data of an envelope`,
  },
  'byte-order-mark': {
    counted: 'byte-order-mark',
    does: 'begins JSON with a byte order mark',
    heals: null,
    source: 'RFC 8259, section 8.1: JSON begins without one',
  },
  'no-role': {
    counted: 'no-role',
    does: 'leaves the role of its endpoints out',
    heals: null,
    source: 'version_information_endpoint, Endpoint: role is required',
  },
  'empty-2xx': {
    counted: 'empty-2xx',
    does: 'answers pushes with 2xx and no body',
    heals: 'empty_2xx_ok: true',
    source: `${transport}, Response format: every answer is an envelope`,
  },
  'not-subscribed': {
    counted: 'not-subscribed',
    does: 'has no receiver for locations or tariffs',
    heals: null,
    source: 'version_information_endpoint, Endpoint: it is not sent what it has no endpoint for',
  },
  'details-url': {
    counted: 'details-url',
    does: 'gives the URL of its version details in its credentials, not of its versions',
    heals: null,
    source: 'credentials, Credentials object: url is the versions endpoint',
  },
  'enveloped-result': {
    counted: 'enveloped-callback',
    does: 'sends the result of a command in an envelope',
    heals: null,
    source: 'mod_commands, CommandResult: it is the body of the request',
  },
  'blank-date': {
    counted: 'blank-date',
    does: 'writes a blank between date and time',
    heals: null,
    source: 'types, DateTime: RFC 3339 with T',
  },
  'lower-case': {
    counted: 'lower-case',
    does: 'writes enumerations in lower case',
    heals: null,
    source: 'types, enum: values are as they are listed',
  },
  nulls: {
    counted: 'nulls',
    does: 'sends null for whatever is optional',
    heals: null,
    source: `${transport}, No data available: null or left out mean the same`,
  },
  'early-cdr': {
    counted: 'early-cdr',
    does: 'posts a CDR before a routing rule lets it pass',
    heals: null,
    source: 'mod_cdrs: a CDR may be sent at any time',
  },
  'cdr-again': {
    counted: 'cdr-again',
    does: 'posts a CDR again with a new last_updated',
    heals: null,
    source: 'mod_cdrs: a CDR cannot be changed',
  },
  'to-hub': {
    counted: 'to-hub',
    does: 'names the hub in OCPI-to',
    heals: null,
    source: `${transport}, Message routing: OCPI-to names the receiver`,
  },
  'token-without-party': {
    counted: 'token-without-party',
    does: 'sends commands with a token that names no party',
    heals: null,
    source: 'mod_tokens, Token: country_code and party_id are required',
  },
  'patch-without-date': {
    counted: 'patch-without-date',
    does: 'sends PATCH without last_updated',
    heals: 'patch_without_last_updated: accept',
    source: 'mod_sessions, PATCH: last_updated is required',
  },
  'first-link': {
    counted: 'first-link',
    does: 'takes the first link of a list for the next page',
    heals: 'link_prev: false',
    source: `${transport}, Pagination: rel="next" tells the next page`,
  },
  'strict-modules': {
    counted: 'strict-modules',
    does: 'refuses version details with a module that it does not know',
    heals: 'hidden_modules: [hubclientinfo]',
    source: 'version_information_endpoint, ModuleID: further identifiers are allowed',
  },
  'authorize-to-hub': {
    counted: 'authorize-to-hub',
    does: 'asks the hub itself to authorize, not an eMSP',
    heals: 'authorize_to_hub: resolve',
    source: `${transport}, Message routing: OCPI-to names the receiver`,
  },
} as const satisfies Readonly<Record<string, Habit>>;
