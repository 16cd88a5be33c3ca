/**
 * What the hub keeps in memory: partners, parties, tokens and routes, folded from what was recorded. It begins with the rows and follows
 * the log, with the events of other nodes.
 */
import type { RowKey, Seen, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Partner, PartnerEvent, PartyId, PartyRole } from '../../domain/party.ts';
import { applyToPartner, isRegistered, keyOf, partyKey } from '../../domain/party.ts';
import type { Directory, Route } from '../../domain/routing.ts';
import type { Credential } from '../ports/hub.ts';
import { directoryKey } from './directory-row.ts';

interface PartyEntry {
  readonly partnerId: PartyId;
  readonly party: PartyRole;
}

/** Put in order when they are next asked for: a party may have as many routes as there are parties. */
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

/** What a token is; `former` still works unless its successor was used or its time is over. */
type TokenKind = Credential['kind'] | 'former';

export const routeKey = (emsp: PartyId, cpo: PartyId): string => `${emsp}/${cpo}`;

export class PartnerDirectory implements Directory {
  readonly hub: PartyId;
  readonly #partners = new Map<PartyId, Partner>();
  /** Sequences of the events that wrote their rows. */
  readonly #writtenBy = new Map<PartyId, Seq>();
  /** Of the last change of all. */
  #last: Seq | null = null;
  readonly #parties = new Map<PartyId, PartyEntry[]>();
  readonly #tokens = new Map<string, { partnerId: PartyId; kind: TokenKind }>();
  readonly #routes = new Map<string, Route>();
  /** The other ends of active routes, by eMSP and by CPO: a party that is both has two sides. */
  readonly #cpos = new Map<PartyId, Ends>();
  readonly #emsps = new Map<PartyId, Ends>();
  readonly #lastContact = new Map<PartyId, number>();

  constructor(hub: { countryCode: string; partyId: string }) {
    this.hub = partyKey(hub.countryCode, hub.partyId);
  }

  /** For a decision that rests on what stands here. [RECORDER-5] */
  get seen(): Seen {
    return { ...directoryKey, seq: this.#last };
  }

  /** For a change of a partner that was decided on what it is here. */
  seenOf(id: PartyId): Seen {
    return { kind: 'partners', owner: id, id, seq: this.#writtenBy.get(id) ?? null };
  }

  /** What stands here is as of the event that wrote `directoryKey`. */
  isAsOf(seq: Seq | null): void {
    this.#last = seq;
  }

  /** An event of the log, in its turn. One that a row held already when it was read changes nothing. */
  follow({ seq, stream, type, at, data }: StoredEvent): void {
    if (type === 'row.rebuilt') return this.#rebuilt(data as RowKey, seq);
    if (type === 'route.set' || type === 'route.removed') this.applyRoute(data as Route, type === 'route.removed');
    else if (!type.startsWith('partner.')) return;
    else this.#followPartner(stream.slice(stream.indexOf(':') + 1), { type, data } as PartnerEvent, at, seq);
    this.#last = Math.max(this.#last ?? 0, seq);
  }

  applyPartner(partner: Partner, seq: Seq = 0): void {
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

  /** How many partners there are; none ever goes. */
  get count(): number {
    return this.#partners.size;
  }

  partners(): Iterable<Partner> {
    return this.#partners.values();
  }

  /** The partner that holds a party. A country_code and party_id belong to one partner alone. [D41] */
  partnerOf(party: PartyId): Partner | undefined {
    const entry = this.#parties.get(party)?.[0];
    return entry && this.#partners.get(entry.partnerId);
  }

  /** A party in one of its roles, in the case in which it was assigned. */
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

  /** The other ends of a party's active rules in one of its roles, registered or not, in order of id. */
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

  route(emsp: PartyId, cpo: PartyId): Route | undefined {
    return this.#routes.get(routeKey(emsp, cpo));
  }

  routes(): Route[] {
    return [...this.#routes.values()];
  }

  /** Any authenticated call is a sign of life. [D34] */
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

  /** A row that was made again from the log says what it said. */
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
