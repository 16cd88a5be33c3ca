/**
 * Partners and their parties, and the fold of a partner's events. A partner is one credentials relationship and may
 * hold several parties, as platforms do. Routing and ownership are per party; tokens, endpoints and circuits are per
 * partner. [D16]
 */
import { HubError } from './errors.ts';
import { type PartnerSettings, type TokenEncoding, withDefaults } from './partner-settings.ts';
import type { QuirksMet } from './quirks.ts';

export type Role = 'CPO' | 'EMSP';

/**
 * `country_code` and `party_id` in upper case, joined: `NL-TNM`. OCPI compares them case-insensitively, so only
 * `partyKey` makes one.
 */
export type PartyId = string;

export interface BusinessDetails {
  readonly name: string;
  readonly website?: string | undefined;
}

/** One party of a partner, spelled in the case in which the operator assigned it. */
export interface PartyRole {
  readonly role: Role;
  readonly country_code: string;
  readonly party_id: string;
  readonly business_details?: BusinessDetails | undefined;
  /** The partner has registered, and its last credentials do not name this role: its party is not connected. [D30] */
  readonly isUnnamed?: true;
}

/** The credentials of a partner, as it sends them. Its roles may be others than the operator assigned. */
export interface CredentialsBody {
  readonly token: string;
  readonly url: string;
  readonly roles: readonly (Pick<PartyRole, 'country_code' | 'party_id' | 'business_details'> & {
    readonly role: string;
  })[];
}

/** `REGISTERED`: known to the operator, not yet connected (OCPI says PLANNED). [D30] */
export type ConnectionStatus = 'REGISTERED' | 'CONNECTED' | 'OFFLINE' | 'SUSPENDED';

export type InterfaceRole = 'SENDER' | 'RECEIVER';

/**
 * Module, interface role and URL, from version details or set by the operator, whose endpoint takes precedence. [D13]
 */
export interface Endpoint {
  readonly identifier: string;
  readonly role: InterfaceRole;
  readonly url: string;
  readonly source: 'discovered' | 'operator';
}

/**
 * A change of the host of a partner's `url` by a rotation, which may be a takeover with a leaked token. `waiting`: it was
 * refused until an operator confirms it; `confirmed`: the next rotation may make it; `made`: no operator has seen it yet.
 * `from` and `to` are host and port. [D73, D87]
 */
export interface HostChange {
  readonly from: string;
  readonly to: string;
  readonly at: string;
  readonly state: 'waiting' | 'confirmed' | 'made';
}

/** The hub token before the last rotation: valid until the new one is used, at most until `until` (RFC 3339). [D73] */
export interface FormerToken {
  readonly digest: string;
  readonly until: string;
}

/**
 * Read model of one partner. It keeps tokens that the hub issued as SHA-256 digests, and the partner's own token
 * encrypted.
 */
export interface Partner {
  /** `{country_code}-{party_id}` of its first role. */
  readonly id: PartyId;
  readonly roles: readonly PartyRole[];
  readonly status: ConnectionStatus;
  readonly settings: PartnerSettings;
  readonly endpoints: readonly Endpoint[];
  /**
   * The `url` of the partner's credentials: its versions list or version details. Null before its first exchange, and of
   * a partner that is pull only.
   */
  readonly url: string | null;
  readonly initialTokenDigest: string | null;
  /** When the initial token was issued, RFC 3339. Absent in rows of earlier versions: that token does not expire. */
  readonly initialTokenAt?: string;
  readonly hubTokenDigest: string | null;
  /** Absent in rows of earlier versions. */
  readonly hostChange?: HostChange | null;
  /** Absent in rows of earlier versions. */
  readonly formerToken?: FormerToken | null;
  /** Digests of tokens that are no longer valid: used initial tokens, and replaced or revoked hub tokens. [D10] */
  readonly spentDigests: readonly string[];
  /** Encrypted; only `secrets.ts` can open it. */
  readonly partnerToken: string | null;
  /** When the partner was last suspended, RFC 3339: deliveries that were owed before are not sent any more. [D50] */
  readonly suspendedAt: string | null;
  /** RFC 3339. Moves when the status or the roles change. */
  readonly lastUpdated: string;
}

export function partyKey(countryCode: string, partyId: string): PartyId {
  return `${countryCode}-${partyId}`.toUpperCase();
}

export function keyOf(role: Pick<PartyRole, 'country_code' | 'party_id'>): PartyId {
  return partyKey(role.country_code, role.party_id);
}

/** Names a role of a party, for example `CPO NL-TNM`. */
export const roleName = (role: PartyRole): string => `${role.role} ${keyOf(role)}`;

/** Whether the id of the eMSP or of the CPO contains `part`, a text in upper case; true without one. */
export function namesEither({ emsp, cpo }: { emsp: PartyId; cpo: PartyId }, part: string | undefined): boolean {
  return part === undefined || emsp.includes(part) || cpo.includes(part);
}

/** Whether the eMSP and the CPO are the given ones; an absent one matches any. */
export function isOfPair(
  { emsp, cpo }: { emsp: PartyId; cpo: PartyId },
  wanted: { emsp?: PartyId | undefined; cpo?: PartyId | undefined },
): boolean {
  return (wanted.emsp ?? emsp) === emsp && (wanted.cpo ?? cpo) === cpo;
}

/** The events of a partner in the log; `applyToPartner` folds them. */
export type PartnerEvent =
  | {
      type: 'partner.added';
      data: { id: PartyId; roles: readonly PartyRole[]; settings: PartnerSettings; initialTokenDigest: string };
    }
  | { type: 'partner.initialTokenIssued'; data: { initialTokenDigest: string } }
  | {
      type: 'partner.registered' | 'partner.rotated';
      data: {
        url: string;
        roles: readonly PartyRole[];
        discovered: readonly Endpoint[];
        hubTokenDigest: string;
        partnerToken: string;
        /** The form of the token that the partner took. Absent in events of earlier versions. */
        tokenEncoding?: TokenEncoding;
        /**
         * Of a rotation: the token that requested it, and how long it stays valid. Absent in events of earlier
         * versions.
         */
        formerDigest?: string;
        formerUntil?: string;
        /** Habits that its versions and credentials showed. Absent in events of earlier versions. [D70] */
        quirks?: QuirksMet;
      };
    }
  /** A rotation asked for another host and waits for an operator; or it was made. [D73, D87] */
  | { type: 'partner.hostChangeAsked' | 'partner.hostChanged'; data: { from: string; to: string } }
  /** An operator confirmed a change of host: one that waits may be made, one that was made is settled. */
  | { type: 'partner.hostConfirmed'; data: { from: string; to: string } }
  /** The partner used its new token, which ends the former one. [D73] */
  | { type: 'partner.tokenConfirmed'; data: Record<string, never> }
  /** The hub token of a partner that is pull only, which an operator hands over. [D89] */
  | { type: 'partner.hubTokenIssued'; data: { hubTokenDigest: string } }
  /** The same token, sealed under another key. */
  | { type: 'partner.resealed'; data: { partnerToken: string } }
  | { type: 'partner.suspended' | 'partner.online' | 'partner.offline'; data: { reason: string } }
  | { type: 'partner.changed'; data: { settings: Partial<PartnerSettings>; roles?: readonly PartyRole[] } }
  | { type: 'partner.endpointsSet'; data: { endpoints: readonly Endpoint[] } };

/**
 * Operator-set endpoints come first and so take precedence; discovered ones stay in case the operator withdraws those.
 * [D13]
 */
const ofSource = (partner: Partner, source: Endpoint['source']) =>
  partner.endpoints.filter((endpoint) => endpoint.source === source);

/** Limit of remembered digests: a partner that keeps rotating must not make its record grow without bound. */
export const spentMax = 100;

const spend = (partner: Partner, ...digests: (string | null | undefined)[]): string[] =>
  [...partner.spentDigests, ...digests.filter((digest) => typeof digest === 'string')].slice(-spentMax);

/**
 * An exchange replaces all earlier tokens except the one that requested a rotation: the partner may have to repeat the
 * request with it. When the hub began the exchange, the initial token becomes the hub token. [D81]
 */
function exchanged(partner: Partner, event: Extract<PartnerEvent, { type: 'partner.registered' | 'partner.rotated' }>) {
  const { hubTokenDigest, formerDigest, formerUntil: until } = event.data;
  const { settings } = partner;
  const { tokenEncoding: token_encoding = settings.token_encoding } = event.data;
  const begins = event.type === 'partner.registered';
  const earlier = [partner.formerToken?.digest, partner.hubTokenDigest, begins ? partner.initialTokenDigest : null];
  return {
    ...(settings.token_encoding_auto && { settings: { ...settings, token_encoding } }),
    hubTokenDigest,
    hostChange: begins ? null : (partner.hostChange ?? null),
    formerToken: formerDigest && until ? { digest: formerDigest, until } : null,
    initialTokenDigest: begins ? null : partner.initialTokenDigest,
    spentDigests: spend(partner, ...earlier.filter((digest) => digest !== formerDigest && digest !== hubTokenDigest)),
  };
}

type HostEvent = Extract<PartnerEvent, { data: { from: string; to: string } }>;

function hostChangeAfter({ hostChange }: Partner, { type, data }: HostEvent, at: string): HostChange | null {
  if (type === 'partner.hostChangeAsked') return { ...data, at, state: 'waiting' };
  const isSame = hostChange?.to === data.to;
  if (type === 'partner.hostConfirmed')
    return isSame && hostChange.state === 'made' ? null : { ...data, at, state: 'confirmed' };
  return isSame && hostChange.state === 'confirmed' ? null : { ...data, at, state: 'made' };
}

/** Host and port of a URL: another port is another host. [D87] */
export function hostOf(url: string): string {
  const { protocol, hostname, port } = new URL(url);
  return `${hostname.replace(/\.$/, '')}:${port || (protocol === 'https:' ? '443' : '80')}`;
}

/**
 * The partner after an event; `partner` is null before `partner.added`. Any other event of a partner that was never
 * added is a bug.
 */
export function applyToPartner(partner: Partner | null, event: PartnerEvent, at: string): Partner {
  if (event.type === 'partner.added') {
    const { id, roles, settings, initialTokenDigest } = event.data;
    return {
      id,
      roles,
      settings: withDefaults(settings),
      initialTokenDigest,
      initialTokenAt: at,
      status: 'REGISTERED',
      endpoints: [],
      url: null,
      hubTokenDigest: null,
      spentDigests: [],
      partnerToken: null,
      suspendedAt: null,
      lastUpdated: at,
    };
  }
  if (partner === null) throw new Error(`${event.type} of a partner that was never added`);
  switch (event.type) {
    case 'partner.initialTokenIssued':
      return {
        ...partner,
        initialTokenDigest: event.data.initialTokenDigest,
        initialTokenAt: at,
        spentDigests: spend(partner, partner.initialTokenDigest),
      };
    case 'partner.registered':
    case 'partner.rotated':
      return {
        ...partner,
        url: event.data.url,
        roles: event.data.roles,
        endpoints: [...ofSource(partner, 'operator'), ...event.data.discovered],
        ...exchanged(partner, event),
        partnerToken: event.data.partnerToken,
        status: 'CONNECTED',
        lastUpdated: at,
      };
    case 'partner.hostChangeAsked':
    case 'partner.hostChanged':
    case 'partner.hostConfirmed':
      return { ...partner, hostChange: hostChangeAfter(partner, event, at) };
    case 'partner.tokenConfirmed':
      return { ...partner, formerToken: null, spentDigests: spend(partner, partner.formerToken?.digest) };
    case 'partner.hubTokenIssued':
      return {
        ...partner,
        url: null,
        hubTokenDigest: event.data.hubTokenDigest,
        initialTokenDigest: null,
        spentDigests: spend(partner, partner.hubTokenDigest, partner.initialTokenDigest),
        status: 'CONNECTED',
        lastUpdated: at,
      };
    case 'partner.resealed':
      return { ...partner, partnerToken: event.data.partnerToken };
    case 'partner.suspended':
      return {
        ...partner,
        status: 'SUSPENDED',
        hubTokenDigest: null,
        formerToken: null,
        hostChange: null,
        initialTokenDigest: null,
        partnerToken: null,
        spentDigests: spend(partner, partner.formerToken?.digest, partner.hubTokenDigest, partner.initialTokenDigest),
        suspendedAt: at,
        lastUpdated: partner.status === 'SUSPENDED' ? partner.lastUpdated : at,
      };
    case 'partner.online':
    case 'partner.offline':
      return { ...partner, status: event.type === 'partner.online' ? 'CONNECTED' : 'OFFLINE', lastUpdated: at };
    case 'partner.changed':
      return {
        ...partner,
        settings: { ...partner.settings, ...event.data.settings },
        roles: event.data.roles ?? partner.roles,
        lastUpdated: event.data.roles ? at : partner.lastUpdated,
      };
    case 'partner.endpointsSet':
      return { ...partner, endpoints: [...event.data.endpoints, ...ofSource(partner, 'discovered')] };
  }
}

export function isRegistered(partner: Partner): boolean {
  return partner.hubTokenDigest !== null;
}

/** Whether deliveries are owed to the partner: it is registered, and not pull only. [D89] */
export function isOwed(partner: Partner): boolean {
  return isRegistered(partner) && !partner.settings.pull_only;
}

/**
 * The roles that the operator assigned, with the business details of the body, and which of them it leaves out; throws
 * when the body names any other role. [D12]
 */
export function acceptedRoles(partner: Partner, body: CredentialsBody): PartyRole[] {
  const named = new Map(body.roles.map((role) => [`${role.role.toUpperCase()} ${keyOf(role)}`, role]));
  const roles = partner.roles.map((assigned) => {
    const { role, country_code, party_id } = assigned;
    const key = `${role} ${keyOf(assigned)}`;
    const business_details = named.get(key)?.business_details ?? assigned.business_details;
    const isNamed = named.delete(key);
    return { role, country_code, party_id, business_details, ...(!isNamed && { isUnnamed: true as const }) };
  });
  const [unassigned] = named.keys();
  if (unassigned)
    throw new HubError('invalid', { message: `roles: ${unassigned} was not assigned by the hub operator` });
  return roles;
}

/** Refuses a POST of a registered partner. A partner whose token is used up may have lost the answer with the hub token. [D6, D9] */
export function alreadyRegistered({ id }: Pick<Partner, 'id'>, kind: 'hub' | 'spent'): HubError {
  if (kind === 'hub') return new HubError('alreadyRegistered');
  const lost = `if that answer was lost, the hub operator issues a new initial token: ocpi-hub parties initial-token ${id}`;
  const message = `Already registered: use the token that the hub answered, PUT with it replaces it; ${lost}`;
  return new HubError('alreadyRegistered', { message });
}

export function endpointOf(partner: Partner, identifier: string, role: InterfaceRole): Endpoint | undefined {
  // Rows of earlier versions have what an operator set in capitals.
  return partner.endpoints.find((one) => one.identifier.toLowerCase() === identifier && one.role === role);
}

/** A module URL with segments below it, percent-encoded; a query of the registered URL is kept. */
export function below(moduleUrl: string, segments: readonly string[], query = ''): string {
  return within(moduleUrl, segments.map((segment) => `/${encodeURIComponent(segment)}`).join(''), query);
}

/**
 * Appends a path and a query to a module URL. Without a path the URL keeps its form, with or without a trailing slash;
 * before a path there is exactly one slash. A query of the module URL is kept and comes first. [D55]
 */
export function within(moduleUrl: string, tail: string, query = ''): string {
  const mark = moduleUrl.indexOf('?');
  const path = mark < 0 ? moduleUrl : moduleUrl.slice(0, mark);
  const ownQuery = mark < 0 ? '' : moduleUrl.slice(mark + 1);
  const queries = ownQuery && query ? `${ownQuery}&${query}` : ownQuery || query;
  const base = tail !== '' ? withoutLastSlashes(path) : path;
  return `${base}${tail}${queries && `?${queries}`}`;
}

/** Without the slashes at its end. A regular expression would search a run of slashes within it once for each of them. */
export function withoutLastSlashes(path: string): string {
  let end = path.length;
  while (path[end - 1] === '/') end--;
  return path.slice(0, end);
}
