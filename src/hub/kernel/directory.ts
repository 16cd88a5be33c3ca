/**
 * In-memory directory of partners, parties, tokens and routes, so that a request is authenticated and routed without a
 * read of the store. It loads the rows at start and then folds the events of the log, those of other nodes included. A partner's own token
 * is sealed in it; `openToken` opens it.
 */
import type { Put, RowKey, Seen, Seq, StoredEvent } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import { withDefaults } from '../../domain/partner-settings.ts';
import type { Partner, PartnerEvent, PartyId, PartyRole } from '../../domain/party.ts';
import { applyToPartner, endpointOf, isOwed, isRegistered, keyOf, partyKey } from '../../domain/party.ts';
import type { Directory, Route } from '../../domain/routing.ts';
import type { Credential } from '../ports/hub.ts';
import type { HubPorts } from '../ports/ports.ts';

/**
 * Version row of the directory: every change of partners or routes writes it, so that a decision can state which
 * version it read. [RECORDER-5]
 */
export const directoryKey: RowKey = { kind: 'directory', owner: '', id: 'last' };
export const directoryPut: Put = { ...directoryKey, shelf: null, upd: '', data: null, body: null };

interface PartyEntry {
  readonly partnerId: PartyId;
  readonly party: PartyRole;
}

/**
 * The counterparts of a party. Sorted on the next read, not on each insert: a party may have as many routes as there
 * are parties.
 */
interface Ends {
  ids: PartyId[];
  isSorted: boolean;
}

function link(links: Map<PartyId, Ends>, from: PartyId, to: PartyId): void {
  const ends = links.get(from);
  if (!ends) links.set(from, { ids: [to], isSorted: true });
  else if (ends.isSorted) links.set(from, { ids: [...ends.ids, to], isSorted: false });
  else ends.ids.push(to);
}

function unlink(links: Map<PartyId, Ends>, from: PartyId, to: PartyId): void {
  const { ids = [], isSorted = true } = links.get(from) ?? {};
  const rest = ids.filter((id) => id !== to);
  if (rest.length > 0) links.set(from, { ids: rest, isSorted });
  else links.delete(from);
}

/** Kind of a token; a `former` token stays valid until its successor is used or its time is over. */
type TokenKind = Credential['kind'] | 'former';

/** Stream of a partner's events, and the id of its actor. */
export const partnerStream = (id: PartyId): string => `partner:${id}`;
/** The partner in the id of its stream or of one of its actors. */
export const partnerIdIn = (actor: string): PartyId => actor.slice(actor.indexOf(':') + 1);

export const routeKey = (emsp: PartyId, cpo: PartyId): string => `${emsp}/${cpo}`;
/** Event stream of a routing rule. */
export const routeStream = (emsp: PartyId, cpo: PartyId): string => `route:${routeKey(emsp, cpo)}`;

export class PartnerDirectory implements Directory {
  readonly hub: PartyId;
  readonly #partners = new Map<PartyId, Partner>();
  /** For each partner, the sequence of the event that wrote its row. */
  readonly #writtenBy = new Map<PartyId, Seq>();
  /** Sequence of the last change of any partner or route. */
  #last: Seq | null = null;
  readonly #parties = new Map<PartyId, PartyEntry[]>();
  readonly #tokens = new Map<string, { partnerId: PartyId; kind: TokenKind }>();
  readonly #routes = new Map<string, Route>();
  /** Counterparts over active routes, by eMSP and by CPO: a party with both roles has an entry in each. */
  readonly #cpos = new Map<PartyId, Ends>();
  readonly #emsps = new Map<PartyId, Ends>();
  readonly #lastContact = new Map<PartyId, number>();
  /** For each partner that was suspended, the sequence of the last time. */
  readonly #suspendedBy = new Map<PartyId, Seq>();

  constructor(hub: { countryCode: string; partyId: string }) {
    this.hub = partyKey(hub.countryCode, hub.partyId);
  }

  /** The version of the directory, for a decision that reads partners or routes. [RECORDER-5] */
  get seen(): Seen {
    return { seq: this.#last, ...directoryKey };
  }

  /** The version of a partner's row, for a change that was decided on this state of the partner. */
  seenOf(id: PartyId): Seen {
    return { kind: 'partners', owner: id, id, seq: this.#writtenBy.get(id) ?? null };
  }

  /** Sets the version of the directory: the sequence of the event that wrote the row `directoryKey`. */
  isAsOf(seq: Seq | null): void {
    this.#last = seq;
  }

  /** Folds the next event of the log. An event whose effect the row already held when it was loaded changes nothing. */
  follow({ seq, stream, type, at, data }: StoredEvent): void {
    if (type === 'row.rebuilt') return this.#rebuilt(data as RowKey, seq);
    if (type === 'route.set' || type === 'route.removed') this.applyRoute(data as Route, type === 'route.removed');
    else if (!type.startsWith('partner.')) return;
    else {
      const id = stream.slice(stream.indexOf(':') + 1);
      if (type === 'partner.suspended') this.suspendedBy(id, seq);
      this.#followPartner(id, { type, data } as PartnerEvent, at, seq);
    }
    this.#last = Math.max(this.#last ?? 0, seq);
  }

  applyPartner(stored: Partner, seq: Seq = 0): void {
    // [PARTNER-SETTINGS-1]
    const partner = { ...stored, settings: withDefaults(stored.settings) };
    const before = this.#partners.get(partner.id);
    if (before) this.#forget(before);
    this.#partners.set(partner.id, partner);
    this.#writtenBy.set(partner.id, seq);
    for (const party of partner.roles) {
      const entries = this.#parties.get(keyOf(party)) ?? [];
      this.#parties.set(keyOf(party), [...entries, { partnerId: partner.id, party }]);
    }
    for (const digest of partner.spentDigests) this.#tokens.set(digest, { partnerId: partner.id, kind: 'spent' });
    const set = (digest: string | null | undefined, kind: TokenKind) =>
      digest && this.#tokens.set(digest, { partnerId: partner.id, kind });
    set(partner.initialTokenDigest, 'initial');
    set(partner.formerToken?.digest, 'former');
    set(partner.hubTokenDigest, 'hub');
  }

  applyRoute(route: Route, removed = false): void {
    const key = routeKey(route.emsp, route.cpo);
    const wasActive = this.#routes.get(key)?.active === true;
    if (removed) this.#routes.delete(key);
    else this.#routes.set(key, route);
    const isActive = route.active && !removed;
    if (isActive === wasActive) return;
    const change = isActive ? link : unlink;
    change(this.#cpos, route.emsp, route.cpo);
    change(this.#emsps, route.cpo, route.emsp);
  }

  partner(id: PartyId): Partner | undefined {
    return this.#partners.get(id);
  }

  /** The partner that an operator names by its id, in any case of letters; throws `notFound`. */
  known(id: string): Partner {
    const partner = this.#partners.get(id.toUpperCase());
    if (!partner) throw new HubError('notFound');
    return partner;
  }

  partners(): Iterable<Partner> {
    return this.#partners.values();
  }

  /** The parties of all partners. */
  parties(): ReadonlySet<PartyId> {
    return new Set([...this.partners()].flatMap(({ roles }) => roles.map(keyOf)));
  }

  /** The partner that holds a party. A country_code and party_id belong to one partner alone. [D41] */
  partnerOf(party: PartyId): Partner | undefined {
    const entry = this.#parties.get(party)?.[0];
    return entry && this.#partners.get(entry.partnerId);
  }

  /**
   * The receivers that a filter selects; null for all. A partner is named by any of its parties and stands for all of
   * them; throws `notFound` for an unknown one.
   */
  receiversOf({ receiver, partner }: { receiver?: PartyId; partner?: PartyId }): ReadonlySet<PartyId> | null {
    if (partner === undefined) return receiver === undefined ? null : new Set([receiver]);
    const own = this.partnerOf(partner)?.roles.map(keyOf);
    if (!own) throw new HubError('notFound', { message: `there is no partner ${partner}` });
    return new Set(own.filter((party) => party === (receiver ?? party)));
  }

  /** A party in one of its roles, spelled in the case in which the operator assigned it. */
  party(id: PartyId, role?: PartyRole['role']): PartyRole | undefined {
    return this.#parties.get(id)?.find((entry) => role === undefined || entry.party.role === role)?.party;
  }

  tokenOwner(digest: string): { partner: Partner; kind: TokenKind } | null {
    const found = this.#tokens.get(digest);
    const partner = found && this.#partners.get(found.partnerId);
    return found && partner ? { partner, kind: found.kind } : null;
  }

  isRouted(emsp: PartyId, cpo: PartyId): boolean {
    return this.#routes.get(routeKey(emsp, cpo))?.active === true;
  }

  /** Counterparts of a party over its active routing rules in one of its roles, registered or not, in order of id. */
  counterparts(party: PartyId, role: PartyRole['role']): readonly PartyId[] {
    const ends = (role === 'EMSP' ? this.#cpos : this.#emsps).get(party);
    if (!ends) return [];
    if (!ends.isSorted) ends.ids = [...ends.ids].sort();
    ends.isSorted = true;
    return ends.ids;
  }

  emspsOf(cpo: PartyId): readonly PartyId[] {
    return this.counterparts(cpo, 'CPO').filter((id) => this.isRegistered(id));
  }

  cposOf(emsp: PartyId): readonly PartyId[] {
    return this.counterparts(emsp, 'EMSP').filter((id) => this.isRegistered(id));
  }

  isEmsp(party: PartyId): boolean {
    return this.party(party, 'EMSP') !== undefined;
  }

  isRegistered(party: PartyId): boolean {
    const partner = this.partnerOf(party);
    return partner !== undefined && isRegistered(partner);
  }

  isOwed(party: PartyId): boolean {
    const partner = this.partnerOf(party);
    return partner !== undefined && isOwed(partner);
  }

  receives(party: PartyId, module: ObjectModule): boolean {
    const partner = this.partnerOf(party);
    return partner !== undefined && endpointOf(partner, module, 'RECEIVER') !== undefined;
  }

  route(emsp: PartyId, cpo: PartyId): Route | undefined {
    return this.#routes.get(routeKey(emsp, cpo));
  }

  routes(): Route[] {
    return [...this.#routes.values()];
  }

  /** The event with this sequence suspended a partner. */
  suspendedBy(id: PartyId, seq: Seq): void {
    this.#suspendedBy.set(id, Math.max(seq, this.#suspendedBy.get(id) ?? 0));
  }

  /**
   * Whether the partner is not registered, or was suspended after it was owed something at this sequence: what is owed
   * before a suspension is not sent, even after a new registration. No clock decides that. [D50]
   */
  isSuspendedSince({ id, partnerToken }: Partner, seq: Seq): boolean {
    return partnerToken === null || seq < (this.#suspendedBy.get(id) ?? 0);
  }

  /** Records an authenticated call of a partner as a sign of life. [D34] */
  touched(partnerId: PartyId, at: number): void {
    this.#lastContact.set(partnerId, at);
  }

  lastContact(partnerId: PartyId): number | null {
    return this.#lastContact.get(partnerId) ?? null;
  }

  #followPartner(id: PartyId, event: PartnerEvent, at: string, seq: Seq): void {
    if (seq <= (this.#writtenBy.get(id) ?? 0)) return;
    this.applyPartner(applyToPartner(this.#partners.get(id) ?? null, event, at), seq);
  }

  /** A rebuilt row has the same content: only the sequence that wrote it changes. */
  #rebuilt({ kind, id }: RowKey, seq: Seq): void {
    if (kind === 'partners') this.#writtenBy.set(id, seq);
    if (kind === directoryKey.kind) this.#last = seq;
  }

  #forget(partner: Partner): void {
    for (const party of partner.roles) {
      const rest = (this.#parties.get(keyOf(party)) ?? []).filter((entry) => entry.partnerId !== partner.id);
      if (rest.length > 0) this.#parties.set(keyOf(party), rest);
      else this.#parties.delete(keyOf(party));
    }
    const { initialTokenDigest, hubTokenDigest, formerToken, spentDigests } = partner;
    for (const digest of [initialTokenDigest, hubTokenDigest, formerToken?.digest, ...spentDigests]) {
      if (digest) this.#tokens.delete(digest);
    }
  }
}

/**
 * Opens the sealed token of a partner; null when it has none, or the keys of this node do not open it. On several nodes another one may
 * have sealed it under a key that this node lacks: then the hub makes no call, and the node is notified.
 */
export function openToken(ports: HubPorts, { id, partnerToken }: Partner): string | null {
  if (partnerToken === null) return null;
  try {
    return ports.secrets.open(partnerToken, id);
  } catch (error) {
    ports.log.error({ err: error, partyId: id }, 'the token of a partner cannot be opened');
    ports.unopened?.();
    return null;
  }
}

/** The token to call the partner with. Throws `conflict` when there is none, or the keys of this node do not open it. */
export function tokenFor(ports: HubPorts, partner: Partner): string {
  const token = openToken(ports, partner);
  if (token === null) throw new HubError('conflict', { message: `the hub cannot open the token of ${partner.id}` });
  return token;
}
