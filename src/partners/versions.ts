/**
 * Discovers a partner's endpoints from its versions list or, when its credentials point there directly, from its
 * version details; the shape of the answer tells which. [D13] Details in an array of one are read as the details. [D56]
 * Where the form of the token is to be found out, a refusal (401, 403, or a client error with OCPI 2000 to 2002 or no OCPI status) is
 * followed by the other form once. [D58]
 *
 * PARTNERS-VERSIONS-1  A partner gets one sentence for every call without an answer, whether the name did not resolve, the hub
 *     may not call the address, nobody listens there or TLS failed: a partner that could tell these apart could map the
 *     network of the hub. Operators get the reason.
 * PARTNERS-VERSIONS-2  What is listed with http on the host of a partner that is called by https is called by https, too: its token
 *     does not cross the network readable, and a port of http that is closed or redirects would take no delivery.
 * PARTNERS-VERSIONS-3  Such an endpoint takes the roles that a partner of these parties has in the module and that no other
 *     endpoint of the module states. When several endpoints would share several roles, none is guessed.
 */
import { randomUUID } from 'node:crypto';
import { HubError, mayRefuseToken, type Outcome } from '../domain/errors.ts';
import { isModule, modules } from '../domain/modules.ts';
import type { TokenEncoding } from '../domain/partner-settings.ts';
import type { Endpoint, InterfaceRole, PartyRole, Role } from '../domain/party.ts';
import type { Quirk } from '../domain/quirks.ts';
import type { Discovered, Discovering, PartnerClient, PartnerVersions } from '../hub/ports/ports.ts';
import { parsedUrl, secured } from '../kit/url.ts';
import { soleObject } from '../transport/envelope.ts';
import { urlRefusal } from './egress.ts';

export interface PartnerVersionsSettings {
  /** Timeout of each of the two requests, ms. */
  readonly timeoutMs?: number;
  /** Endpoints kept at most; a genuine OCPI server has a few dozen. */
  readonly endpointsMax?: number;
}

/** One discovery. */
interface State {
  readonly partner: Discovering;
  encoding: TokenEncoding;
  /** The other form was not tried yet. */
  mayTurn: boolean;
  readonly quirks: Set<Quirk>;
}

type Fields = Readonly<Record<string, unknown>>;

const version = '2.2.1';
const urlLengthMax = 2048;

export function partnerVersions(client: PartnerClient, settings: PartnerVersionsSettings = {}): PartnerVersions {
  const { timeoutMs = 10_000, endpointsMax = 100 } = settings;

  const ask = ({ token, correlationId }: Discovering, url: string, encoding: TokenEncoding): Promise<Outcome> =>
    client.call({
      method: 'GET',
      url,
      endpoint: url,
      token,
      encoding,
      correlationId,
      from: null,
      to: null,
      requestId: randomUUID(),
      body: null,
      timeoutMs,
      resend: true,
    });

  async function fetchData(state: State, url: string, what: string): Promise<unknown> {
    let outcome = await ask(state.partner, url, state.encoding);
    if (mayRefuseToken(outcome) && state.mayTurn) {
      const encoding = state.encoding === 'base64' ? 'plain' : 'base64';
      const again = await ask(state.partner, url, encoding);
      state.mayTurn = false;
      if (!mayRefuseToken(again)) {
        outcome = again;
        state.encoding = encoding;
      }
    }
    for (const quirk of outcome.quirks ?? []) state.quirks.add(quirk);
    if (outcome.class === 'delivered') return outcome.data;
    const failed = (why: string) => `Cannot fetch the ${what}: ${why}`;
    const inside = failed(outcome.message);
    // [PARTNERS-VERSIONS-1]
    const message = outcome.httpStatus === null ? failed('the hub got no answer') : inside;
    throw new HubError('partnerUnusable', { message, inside });
  }

  async function discover(partner: Discovering): Promise<Discovered> {
    const { mayTurn, encoding: first } = partner;
    const state: State = { partner, encoding: first, mayTurn, quirks: new Set() };
    let answer = await fetchData(state, partner.url, 'versions');
    const { quirks } = state;
    if (Array.isArray(answer) && !isDetails(soleObject(answer)))
      answer = await fetchData(state, calledAt(detailsUrl(answer), state), `version details of ${version}`);
    else quirks.add('details-url');
    const details = soleObject(answer);
    const { encoding } = state;
    if (details !== answer) quirks.add('array-of-one');
    if (encoding === 'plain') quirks.add('plain-token');
    const endpoints = readDetails(details, endpointsMax, state);
    if (endpoints.some(({ url }) => url.endsWith('/'))) quirks.add('trailing-slash');
    return { endpoints, encoding, quirks: [...quirks] };
  }

  return { discover };
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isDetails = (value: unknown): boolean => isFields(value) && 'endpoints' in value;

function isWebUrl(value: unknown): value is string {
  const url = typeof value === 'string' && value.length <= urlLengthMax ? parsedUrl(value) : null;
  return url !== null && urlRefusal(url) === null;
}

const usableUrl = 'an absolute http or https URL without a password';

const isOurVersion = (value: unknown) => typeof value === 'string' && value.trim() === version;

function detailsUrl(list: readonly unknown[]): string {
  const entry = list.filter(isFields).find((one) => isOurVersion(one.version));
  if (entry === undefined) {
    throw new HubError('versionUnsupported', { message: `The versions of the partner do not include ${version}` });
  }
  if (!isWebUrl(entry.url)) throw unusable(`the url of version ${version}: expected ${usableUrl}`);
  return entry.url;
}

/** [PARTNERS-VERSIONS-2] */
function calledAt(url: string, { partner, quirks }: State): string {
  const https = secured(url, partner.url);
  if (https !== null) quirks.add('http-url');
  return https ?? url;
}

function readDetails(details: unknown, endpointsMax: number, state: State): Endpoint[] {
  const { partner, quirks } = state;
  if (!isFields(details) || !Array.isArray(details.endpoints)) {
    throw unusable('neither a versions list nor version details came back');
  }
  if (!isOurVersion(details.version ?? version)) {
    throw new HubError('versionUnsupported', {
      message: `The version details of the partner are not those of ${version}`,
    });
  }
  const endpoints = new Map<string, Endpoint>();
  const listed = details.endpoints.map(readEndpoint).filter((endpoint) => endpoint !== null);
  if (listed.length < details.endpoints.length) quirks.add('unusable-endpoint');
  if (details.endpoints.some(hasFragment)) quirks.add('url-fragment');
  const opened = openRoles(listed, partner.roles);
  if (details.endpoints.some(hasLowRole)) quirks.add('lower-case');
  if (opened.length > 0) quirks.add('no-endpoint-role');
  for (const { identifier, url, role } of [...listed, ...opened]) {
    const key = `${identifier}/${role}`;
    if (role === null || endpoints.has(key) || endpoints.size >= endpointsMax) continue;
    endpoints.set(key, { identifier, role, url: calledAt(url, state), source: 'discovered' });
  }
  const found = [...endpoints.values()];
  if (!found.some((endpoint) => endpoint.identifier === 'credentials')) {
    const lack = 'The version details of the partner lack the credentials module';
    const unread = details.endpoints.length - listed.length;
    const why = `${unread} of ${details.endpoints.length} endpoints lack a usable identifier, role or url (${usableUrl})`;
    throw new HubError('endpointsMissing', { message: unread === 0 ? lack : `${lack}: ${why}` });
  }
  return found;
}

/** One endpoint; null when malformed, so that one bad entry does not invalidate the others. */
function readEndpoint(entry: unknown): ListedEndpoint | null {
  if (!isFields(entry) || typeof entry.identifier !== 'string' || typeof entry.url !== 'string') return null;
  // A fragment is no part of what is requested, and a path behind it would be none either.
  const url = entry.url.trim().replace(/#.*$/s, '');
  if (!isWebUrl(url)) return null;
  const identifier = entry.identifier.trim().toLowerCase();
  if (!/^[a-z0-9_.-]{1,64}$/.test(identifier)) return null;
  const role = readRole(entry.role, identifier);
  return role === undefined ? null : { identifier, role, url };
}

const hasFragment = (entry: unknown) => isFields(entry) && typeof entry.url === 'string' && entry.url.includes('#');
const hasLowRole = (entry: unknown) => isFields(entry) && typeof entry.role === 'string' && /[a-z]/.test(entry.role);

/**
 * The interface role; null when there is none, undefined when it is malformed. For credentials it has no meaning, and
 * many partners omit it. [OCPI version_information_endpoint]
 */
function readRole(value: unknown, identifier: string): InterfaceRole | null | undefined {
  const role = typeof value === 'string' ? value.trim().toUpperCase() : (value ?? '');
  if (role === 'SENDER' || role === 'RECEIVER') return role;
  if (identifier === 'credentials') return 'SENDER';
  return role === '' ? null : undefined;
}

const unusable = (why: string) => new HubError('partnerUnusable', { message: `Cannot use the versions: ${why}` });

// Interface roles of endpoints that come without one: some partners list a module once and leave its role out. [D74]

/** An endpoint as the partner lists it; `role` is null when it has none. */
export interface ListedEndpoint {
  readonly identifier: string;
  readonly role: InterfaceRole | null;
  readonly url: string;
}

/** Modules without stored objects, by the role of their sender. The hub sends `hubclientinfo`. */
const senders: Readonly<Record<string, Role | 'HUB'>> = {
  commands: 'EMSP',
  chargingprofiles: 'EMSP',
  hubclientinfo: 'HUB',
};

/** The endpoints that had no role, with those that they take: none, one or both. */
export function openRoles(
  listed: readonly ListedEndpoint[],
  parties: readonly Pick<PartyRole, 'role'>[],
): (ListedEndpoint & { readonly role: InterfaceRole })[] {
  const byModule = new Map<string, ListedEndpoint[]>();
  for (const endpoint of listed) {
    const same = byModule.get(endpoint.identifier);
    if (same) same.push(endpoint);
    else byModule.set(endpoint.identifier, [endpoint]);
  }
  return [...byModule].flatMap(([identifier, all]) => {
    const without = all.filter(({ role }) => role === null);
    const stated = new Set(all.map(({ role }) => role));
    const open = rolesIn(identifier, parties).filter((role) => !stated.has(role));
    if (without.length > 1 && open.length > 1) return [];
    return without.flatMap((endpoint) => open.map((role) => ({ ...endpoint, role })));
  });
}

/** The interface roles that a partner of these parties has in a module; none when the hub does not know the module. */
function rolesIn(identifier: string, parties: readonly Pick<PartyRole, 'role'>[]): InterfaceRole[] {
  const sender = isModule(identifier) ? modules[identifier].owner : senders[identifier];
  if (sender === undefined) return [];
  return [...new Set(parties.map(({ role }) => (role === sender ? 'SENDER' : 'RECEIVER')))];
}
