/**
 * Reads and writes the OCPI headers: Authorization, routing, request id and correlation id.
 */
import { HubError } from '../domain/errors.ts';
import type { TokenEncoding } from '../domain/partner-settings.ts';
import { memoized } from '../kit/memo.ts';

/** Header fields as Node provides them: names in lower case. */
export type IncomingHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** A party in the routing headers. */
export interface RoutingParty {
  readonly country_code: string;
  readonly party_id: string;
}

const first = (value: string | string[] | undefined): string | undefined => (Array.isArray(value) ? value[0] : value);

/** 1 to 64 printable ASCII characters without spaces. [D8] */
export const isToken = (text: string): boolean => /^[\x21-\x7e]{1,64}$/.test(text);

/**
 * Candidate tokens of an Authorization header, likeliest first: decoded from base64, then unencoded; empty when it has
 * none. The caller takes the first one that is a known token. [D8]
 */
export const authorizationTokens = memoized((header): readonly string[] => {
  const match = /^token +(\S+)\s*$/i.exec(header);
  const sent = match?.[1];
  if (sent === undefined) return [];
  const decoded = /^[A-Za-z0-9+/_-]+={0,2}$/.test(sent) ? Buffer.from(sent, 'base64').toString('utf8').trim() : '';
  return [decoded, sent].filter(isToken);
});

export function writeAuthorization(token: string, encoding: TokenEncoding): string {
  return encoding === 'plain' ? `Token ${token}` : encoded(token);
}

const encoded = memoized((token) => `Token ${Buffer.from(token, 'utf8').toString('base64')}`);

/** Written out: a name that is put together for a look-up makes it several times as slow. */
const routingNames = {
  from: ['ocpi-from-country-code', 'ocpi-from-party-id'],
  to: ['ocpi-to-country-code', 'ocpi-to-party-id'],
} as const;

function routingIn(headers: IncomingHeaders, side: 'from' | 'to'): RoutingParty {
  const [country, party] = routingNames[side];
  return { country_code: readOnce(headers[country]), party_id: readOnce(headers[party]) };
}

/** A header field; of one that a proxy has repeated, which Node joins (`EMS, EMS`), the value that it repeats. */
function readOnce(value: string | string[] | undefined): string {
  const text = first(value)?.trim() ?? '';
  if (!text.includes(',')) return text;
  const [one = '', ...others] = text.split(',').map((part) => part.trim());
  return others.every((other) => other === one) ? one : text;
}

/**
 * The party named by `OCPI-from-*` or `OCPI-to-*`; null when absent. Refuses with `invalid` when one half is missing.
 */
export function readRouting(headers: IncomingHeaders, side: 'from' | 'to'): RoutingParty | null {
  const { country_code, party_id } = routingIn(headers, side);
  if (country_code === '' && party_id === '') return null;
  if (country_code === '' || party_id === '') {
    const missing = country_code === '' ? 'country-code' : 'party-id';
    throw new HubError('invalid', { message: `OCPI-${side}-${missing}: expected string` });
  }
  return { country_code, party_id };
}

/** The routing header fields of a request or an answer. [OCPI 2.2.1, message routing; D15] */
export function writeRouting(from: RoutingParty | null, to: RoutingParty | null): Record<string, string> {
  const fields: Record<string, string> = {};
  if (from) {
    fields['OCPI-from-country-code'] = from.country_code;
    fields['OCPI-from-party-id'] = from.party_id;
  }
  if (to) {
    fields['OCPI-to-country-code'] = to.country_code;
    fields['OCPI-to-party-id'] = to.party_id;
  }
  return fields;
}

/**
 * Routing headers of an answer: from the party that the request was addressed to, else from the hub; to the caller. A
 * party that the hub does not know never sends an answer. [D68]
 */
export function answerRouting(
  request: IncomingHeaders,
  hub: { readonly party: RoutingParty; known(named: RoutingParty): RoutingParty | null },
  caller: RoutingParty,
): Record<string, string> {
  return writeRouting(hub.known(routingIn(request, 'to')) ?? hub.party, caller);
}

/** The id of the hub that makes a call. A hub refuses a request that bears its own. */
export const instanceHeader = 'X-Hub-Instance';
export const requestIdHeader = 'X-Request-ID';
export const correlationIdHeader = 'X-Correlation-ID';

/** The caller's id if usable (1 to 128 printable ASCII characters), else a new one. [D14] */
export function readId(value: string | string[] | undefined): string {
  const sent = first(value)?.trim() ?? '';
  return /^[\x20-\x7e]{1,128}$/.test(sent) ? sent : crypto.randomUUID();
}

/** Input of `writeHeaders`: the header values of a request to a partner. */
export interface OutboundHeaders {
  readonly token: string;
  readonly encoding: TokenEncoding;
  readonly from: RoutingParty | null;
  readonly to: RoutingParty | null;
  readonly requestId: string;
  readonly correlationId: string;
}

/** Header fields of a request to a partner. [D8, D14, D15] */
export function writeHeaders(call: OutboundHeaders): Record<string, string> {
  return {
    Authorization: writeAuthorization(call.token, call.encoding),
    [requestIdHeader]: call.requestId,
    [correlationIdHeader]: call.correlationId,
    ...writeRouting(call.from, call.to),
  };
}
