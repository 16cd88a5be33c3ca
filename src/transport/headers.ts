/**
 * OCPI's own headers, read and written: Authorization, routing, request and correlation ids.
 */
import { HubError } from '../domain/errors.ts';
import type { TokenEncoding } from '../domain/party.ts';

/** Header fields as Node gives them: names in lower case. */
export type IncomingHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** A party as the routing headers name it. */
export interface RoutingParty {
  readonly country_code: string;
  readonly party_id: string;
}

const first = (value: string | string[] | undefined): string | undefined => (Array.isArray(value) ? value[0] : value);

/** 1 to 64 printable ASCII characters without spaces. [D8] */
export const isToken = (text: string): boolean => /^[\x21-\x7e]{1,64}$/.test(text);

/**
 * Tokens that an Authorization header may mean, likeliest first: decoded from base64, then as it stands; empty when it
 * holds none. Whoever knows the tokens takes the first that is one. [D8]
 */
export function authorizationTokens(header = ''): readonly string[] {
  let tokens = knownHeaders.get(header);
  if (tokens === undefined) {
    tokens = tokensIn(header);
    if (header.length <= knownLengthMax) {
      if (knownHeaders.size >= knownMax) knownHeaders.clear();
      knownHeaders.set(header, tokens);
    }
  }
  return tokens;
}

/** Every request bears one, and the same partners call again and again. */
const knownHeaders = new Map<string, readonly string[]>();
const knownLengthMax = 128;
const knownMax = 4_000;

function tokensIn(header: string): string[] {
  const match = /^token +(\S+)\s*$/i.exec(header);
  const sent = match?.[1];
  if (sent === undefined) return [];
  const decoded = /^[A-Za-z0-9+/_-]+={0,2}$/.test(sent) ? Buffer.from(sent, 'base64').toString('utf8').trim() : '';
  return [decoded, sent].filter(isToken);
}

export function writeAuthorization(token: string, encoding: TokenEncoding): string {
  if (encoding === 'plain') return `Token ${token}`;
  let written = written64.get(token);
  if (written === undefined) {
    if (written64.size >= knownMax) written64.clear();
    written = `Token ${Buffer.from(token, 'utf8').toString('base64')}`;
    written64.set(token, written);
  }
  return written;
}

/** Every call to a partner bears one, and tokens are few. */
const written64 = new Map<string, string>();

const routingIn = (headers: IncomingHeaders, side: 'from' | 'to'): RoutingParty => ({
  country_code: first(headers[`ocpi-${side}-country-code`])?.trim() ?? '',
  party_id: first(headers[`ocpi-${side}-party-id`])?.trim() ?? '',
});

/** The party named by `OCPI-from-*` or `OCPI-to-*`; null when absent. One half alone refuses with `invalid`. */
export function readRouting(headers: IncomingHeaders, side: 'from' | 'to'): RoutingParty | null {
  const { country_code, party_id } = routingIn(headers, side);
  if (country_code === '' && party_id === '') return null;
  if (country_code === '' || party_id === '') {
    const missing = country_code === '' ? 'country-code' : 'party-id';
    throw new HubError('invalid', { message: `OCPI-${side}-${missing}: expected string` });
  }
  return { country_code, party_id };
}

/** Header fields by which a request or an answer says from whom and to whom it goes. [OCPI 2.2.1, message routing; D15] */
function writeRouting(from: RoutingParty | null, to: RoutingParty | null): Record<string, string> {
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
 * Routing of the answer to a request: from the party that it was addressed to, else from the hub, to its caller. What names no party that
 * could be one is not repeated.
 */
export function answerRouting(
  request: IncomingHeaders,
  hub: RoutingParty,
  caller: RoutingParty,
): Record<string, string> {
  const named = routingIn(request, 'to');
  const isParty = /^[a-z]{2}$/i.test(named.country_code) && /^[a-z0-9]{1,3}$/i.test(named.party_id);
  return writeRouting(isParty ? named : hub, caller);
}

export const requestIdHeader = 'X-Request-ID';
export const correlationIdHeader = 'X-Correlation-ID';

/** The caller's id where it is usable (1 to 128 printable ASCII characters), else a new one. [D14] */
export function readId(value: string | string[] | undefined): string {
  const sent = first(value)?.trim() ?? '';
  return /^[\x20-\x7e]{1,128}$/.test(sent) ? sent : crypto.randomUUID();
}

/** What a request of ours needs to say, whatever its body. */
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
