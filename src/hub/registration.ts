/**
 * The credentials exchange. [interface, Credentials 1–8; D8–D13]
 *
 * G1  Nothing changes unless the partner's versions could be read and hold what is needed.
 * G2  A token is stored as a digest alone; it leaves the hub once, in the answer that issues it.
 * G3  Exchanges of one partner run in turn: of two at once, the second meets the result of the first.
 */
import type { Store } from '../../storage/contract.ts';
import { HubError } from '../domain/errors.ts';
import {
  applyToPartner,
  isRegistered,
  keyOf,
  type Partner,
  type PartnerEvent,
  type PartyId,
  type PartyRole,
} from '../domain/party.ts';
import type { Trace } from '../domain/trace.ts';
import { type Core, partnerPut } from './core.ts';
import { Handshakes } from './handshakes.ts';
import type { Credential, CredentialsBody, IssuedCredentials } from './hub.ts';
import type { HandshakeView } from './overview-view.ts';
import { type PartnerActors, partnerStream } from './partners.ts';

export class Registration {
  readonly #core: Core;
  readonly #handshakes: Handshakes;
  readonly #actors: PartnerActors;
  readonly #suspended: (partner: Partner) => void;

  /** `suspended` is told when a partner's deliveries end. */
  constructor(core: Core, actors: PartnerActors, suspended: (partner: Partner) => void) {
    this.#core = core;
    this.#handshakes = new Handshakes(core.ports.clock);
    this.#actors = actors;
    this.#suspended = suspended;
  }

  authenticate(token: string): Credential | null {
    const { state, ports } = this.#core;
    const owner = state.tokenOwner(ports.secrets.digest(token));
    if (!owner) return null;
    if (owner.kind === 'hub') state.touched(owner.partner.id, ports.clock.now());
    if (owner.kind === 'initial') this.#handshakes.note(owner.partner.id, 'called');
    return { ...owner, token };
  }

  credentialsOf(credential: Credential): IssuedCredentials {
    return this.#issued(credential.token);
  }

  /** `read` refuses what is not a body of credentials: that too is told to who watches. */
  register(credential: Credential, read: () => CredentialsBody, trace: Trace): Promise<IssuedCredentials> {
    return this.#inTurn(credential, async (partner, kind) => {
      if (kind !== 'initial') throw new HubError(isRegistered(partner) ? 'alreadyRegistered' : 'invalidToken');
      if (isRegistered(partner)) throw new HubError('alreadyRegistered');
      return this.#handshakes.watched(partner.id, async () =>
        this.#exchange(partner, 'partner.registered', read(), trace),
      );
    });
  }

  rotate(credential: Credential, read: () => CredentialsBody, trace: Trace): Promise<IssuedCredentials> {
    return this.#inTurn(credential, async (partner, kind) => {
      refuseUnregistered(partner, kind);
      return this.#exchange(partner, 'partner.rotated', read(), trace);
    });
  }

  /** How a partner's registration went of late. */
  handshake(partnerId: PartyId): HandshakeView {
    const steps = this.#handshakes.of(partnerId);
    return { versions_url: versionsUrl(this.#core.settings.publicUrl), steps };
  }

  unregister(credential: Credential, trace: Trace): Promise<void> {
    return this.#inTurn(credential, async (partner, kind) => {
      refuseUnregistered(partner, kind);
      await this.suspend(partner, 'unregistered by the partner', trace);
    });
  }

  async suspend(partner: Partner, reason: string, trace: Trace): Promise<void> {
    await this.recordPartner(partner, { type: 'partner.suspended', data: { reason } }, trace);
    this.#suspended(partner);
  }

  /** What its probes found, recorded in turn and only when it is news. */
  async recordReachable(partnerId: PartyId, isReachable: boolean): Promise<void> {
    const { recorder, state } = this.#core;
    await recorder.inTurn(partnerStream(partnerId), async () => {
      const partner = state.partner(partnerId);
      if (partner?.status !== (isReachable ? 'OFFLINE' : 'CONNECTED')) return;
      const type = isReachable ? ('partner.online' as const) : ('partner.offline' as const);
      const reason = isReachable ? 'a probe succeeded' : 'probes keep failing';
      await this.recordPartner(partner, { type, data: { reason } }, null);
    });
  }

  /**
   * Seals anew, partner by partner, what stands under a previous key. Each is one commit, so a kill at any moment leaves tokens
   * that the keys of this start open, and the next start goes on.
   */
  async reseal(partners: Iterable<Partner>): Promise<void> {
    const { recorder, state, ports } = this.#core;
    const { isStale, open, seal } = ports.secrets;
    let count = 0;
    for (const { id } of partners) {
      await recorder.inTurn(partnerStream(id), async () => {
        const partner = state.partner(id);
        if (!partner?.partnerToken || !isStale(partner.partnerToken)) return;
        const data = { partnerToken: seal(open(partner.partnerToken)) };
        await this.recordPartner(partner, { type: 'partner.resealed', data }, null);
        count++;
      });
    }
    if (count > 0)
      ports.log.info({ count }, 'partner tokens were sealed anew; HUB_SECRET_KEY_PREVIOUS is not needed any more');
  }

  /** Records a fact of a partner's life, applies it and tells its actor. */
  async recordPartner(before: Partner | null, event: PartnerEvent, trace: Trace | null): Promise<Partner> {
    const { recorder, state, supervisor, peers } = this.#core;
    const at = recorder.instant();
    const partner = applyToPartner(before, event, at);
    const stream = partnerStream(partner.id);
    const facts = [{ stream, event, party: partner.id }];
    const seq = await recorder.record({ shardOf: partner.id, facts, puts: [partnerPut(partner)], trace, at });
    state.applyPartner(partner);
    if (event.type === 'partner.added') this.#actors.start(partner);
    else supervisor.send(stream, { type: event.type, at: Date.parse(at), seq });
    await peers?.tell();
    return partner;
  }

  /** The credential as it stands when its turn has come: an exchange before it may have spent the token. */
  #inTurn<T>(credential: Credential, work: (partner: Partner, kind: Credential['kind']) => Promise<T>): Promise<T> {
    const { recorder, state, ports } = this.#core;
    return recorder.inTurn(partnerStream(credential.partner.id), async () => {
      const owner = state.tokenOwner(ports.secrets.digest(credential.token));
      if (!owner) throw new HubError('invalidToken');
      return work(owner.partner, owner.kind);
    });
  }

  async #exchange(
    partner: Partner,
    type: 'partner.registered' | 'partner.rotated',
    body: CredentialsBody,
    trace: Trace,
  ): Promise<IssuedCredentials> {
    const { ports } = this.#core;
    const roles = acceptedRoles(partner, body);
    const { url, token } = body;
    const { correlationId } = trace;
    const encoding = partner.settings.token_encoding;
    const discovered = await ports.versions.discover({ url, token, encoding, correlationId });
    const hubToken = ports.secrets.newToken();
    const hubTokenDigest = ports.secrets.digest(hubToken);
    const data = { url, roles, discovered, hubTokenDigest, partnerToken: ports.secrets.seal(token) };
    await this.recordPartner(partner, { type, data }, trace);
    this.#actors.connected(partner.id);
    return this.#issued(hubToken);
  }

  #issued(token: string): IssuedCredentials {
    const { publicUrl, countryCode, partyId, name } = this.#core.settings;
    const role = { role: 'HUB', country_code: countryCode, party_id: partyId, business_details: { name } } as const;
    return { token, url: versionsUrl(publicUrl), roles: [role] };
  }
}

/** What in a store the keys of this start have to open. */
export async function sealedTokens(store: Store): Promise<{ partner: PartyId; text: string }[]> {
  const found: { partner: PartyId; text: string }[] = [];
  for await (const { data } of store.scan('partners')) {
    const { id, partnerToken } = data as Partner;
    if (partnerToken !== null) found.push({ partner: id, text: partnerToken });
  }
  return found;
}

const versionsUrl = (publicUrl: string) => `${publicUrl}/ocpi/versions`;

/** PUT and DELETE need a token that is in force; what the others meet depends on whether the partner is registered. [D9, D10] */
function refuseUnregistered(partner: Partner, kind: Credential['kind']): void {
  if (kind === 'hub') return;
  if (kind === 'spent' && isRegistered(partner)) throw new HubError('invalidToken');
  throw new HubError('notRegistered');
}

/** The assigned roles with the business details of the body; a role that was not assigned is refused. [D12] */
function acceptedRoles(partner: Partner, body: CredentialsBody): PartyRole[] {
  const named = new Map(body.roles.map((role) => [`${role.role.toUpperCase()} ${keyOf(role)}`, role]));
  const roles = partner.roles.map((assigned) => {
    const key = `${assigned.role} ${keyOf(assigned)}`;
    const details = named.get(key)?.business_details ?? assigned.business_details;
    named.delete(key);
    return { ...assigned, business_details: details };
  });
  const [unassigned] = named.keys();
  if (unassigned)
    throw new HubError('invalid', { message: `roles: ${unassigned} was not assigned by the hub operator` });
  return roles;
}
