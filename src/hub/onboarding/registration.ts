/**
 * The OCPI credentials exchange: authentication, registration, token rotation and unregistration of partners.
 * [interface, Credentials 1–8; D8–D13]
 *
 * REGISTRATION-1  An exchange changes nothing unless the hub could read the partner's versions and found the required
 *     endpoints.
 * REGISTRATION-2  The hub stores the tokens that it issues only as digests; a token leaves the hub once, in the answer
 *     that issues it.
 * REGISTRATION-3  A partner has one exchange at a time (`own-exchange.ts`): of two concurrent ones, the second sees
 *     the result of the first.
 * REGISTRATION-4  An exchange calls the partner outside the turn in which the partner's events are recorded, so that no
 *     other event waits for those calls. In that turn it checks its preconditions again: an exchange that was
 *     overtaken, for example by a suspension, changes nothing.
 * REGISTRATION-5  The token that requested a rotation stays valid until the new token is first used, at most 24 h after
 *     the first rotation that it requested: a partner that did not get the answer repeats the request with it. The
 *     first use of the new token ends the old one at once in memory; the event is recorded afterwards, and each later
 *     use retries a failed write. A POST with an initial token ends all earlier tokens at once. [D73]
 * REGISTRATION-6  An initial token that was not used for a successful POST within `HUB_INITIAL_TOKEN_DAYS` is spent.
 *     [D74, D88]
 * REGISTRATION-7  A request from outside the partner's `allow_from` changes nothing: its token does not count as used.
 * REGISTRATION-8  In an exchange that the hub began, the partner may use its token from its answer on. Until the exchange ends, the
 *     hub answers 503, not 401, to what an initial token may not do, also where another node runs the exchange. [D81]
 */
import type { HandshakeView, PartyView } from '../../api/parties.ts';
import { HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import {
  acceptedRoles,
  alreadyRegistered,
  type CredentialsBody,
  isRegistered,
  type Partner,
  type PartnerEvent,
  type PartyId,
} from '../../domain/party.ts';
import { metBy } from '../../domain/quirks.ts';
import { dayMs } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import { partnerStream } from '../kernel/directory.ts';
import type { Quota } from '../kernel/quota.ts';
import type { Resends } from '../maintain/resends.ts';
import type { PartnerActors } from '../partners/partner-actors.ts';
import type { Credential, IssuedCredentials } from '../ports/hub.ts';
import type { Discovered } from '../ports/ports.ts';
import { LostAnswers } from './lost-answers.ts';
import { ExchangeQueue, type Invitation, ownExchange } from './own-exchange.ts';
import {
  HostChanges,
  type PartnerEvents,
  type PartnerRecording,
  partnerRecorder,
  type RecordPartner,
} from './partner-recorder.ts';
import { RegistrationLog } from './registration-log.ts';
import { TokenUses } from './token-uses.ts';

/** How long a token stays valid after the rotation that it requested, ms. [REGISTRATION-5] */
const formerTokenMs = dayMs;

type FormerToken = NonNullable<Partner['formerToken']>;

type Refuse = (partner: Partner, kind: Credential['kind']) => void;

export class Registration {
  readonly #context: Context;
  readonly #handshakes: RegistrationLog;
  readonly #actors: PartnerActors;
  readonly #suspended: (partner: Partner) => void;
  readonly #resends: Pick<Resends, 'dueAfter' | 'registered'>;
  readonly #quota: Pick<Quota, 'check' | 'spend'>;
  readonly #exchanges: ExchangeQueue;
  readonly uses: TokenUses;
  readonly lost: LostAnswers;
  readonly hosts: HostChanges;
  readonly recordPartner: RecordPartner;
  /** For each partner, the digest of the latest rotated token that it has used. */
  readonly #used = new Map<PartyId, string>();
  readonly #formerEnds = new WeakMap<FormerToken, number>();
  /** Digests of the tokens of exchanges that the hub began, from the partner's answer to the end. [REGISTRATION-8] */
  readonly settling = new Set<string>();
  /** Partners for whom the first use of a new token is being recorded. */
  readonly #confirming = new Set<PartyId>();

  /** `suspended` is called after a partner's suspension is recorded, to end its deliveries. */
  constructor(
    context: Context,
    actors: PartnerActors,
    suspended: (partner: Partner) => void,
    resends: Pick<Resends, 'dueAfter' | 'registered'>,
    quota: Pick<Quota, 'check' | 'spend'>,
  ) {
    this.#quota = quota;
    this.#context = context;
    this.#exchanges = new ExchangeQueue(context.recorder, context.ports.clock);
    this.uses = new TokenUses(context);
    this.lost = new LostAnswers(context, this.uses);
    this.recordPartner = partnerRecorder(context, actors);
    this.hosts = new HostChanges(context, this.recordPartner, quota);
    this.#handshakes = new RegistrationLog(context.ports.clock);
    this.#actors = actors;
    this.#suspended = suspended;
    this.#resends = resends;
  }

  authenticate(token: string, address: string): Credential | null {
    const { directory, ports } = this.#context;
    const digest = ports.secrets.digest(token);
    const owner = this.#ownerOf(digest);
    if (!owner) return null;
    if (!this.uses.mayCall(owner.partner, address)) return null;
    if (owner.kind !== 'spent') this.uses.used(owner.partner, digest, address);
    if (owner.kind === 'hub') {
      directory.touched(owner.partner.id, ports.clock.now());
      this.#use(owner.partner, digest);
    }
    if (owner.kind !== 'initial') return { token, ...owner };
    this.#handshakes.note(owner.partner.id, 'called');
    return { token, ...owner, isSettling: this.settling.has(digest) };
  }

  isExchanging(partner: PartyId): boolean {
    return this.#exchanges.has(partner);
  }

  credentialsOf(credential: Credential): IssuedCredentials {
    return this.#issued(credential.token);
  }

  /**
   * `read` throws when the body is not valid credentials. It runs inside `watched`, so that operators see that failure,
   * too.
   */
  register(credential: Credential, read: () => CredentialsBody, trace: Trace): Promise<IssuedCredentials> {
    return this.#exchanges.run(credential.partner.id, async () => {
      const { id } = this.#inForce(credential, refuseRegistered);
      return this.#handshakes.watched(id, 'received', async () =>
        this.#exchange(credential, 'partner.registered', refuseRegistered, read(), trace),
      );
    });
  }

  /** The hub begins the exchange, with a token that the partner gave to the operator. [D81] */
  connect(partner: Partner, invitation: Invitation, trace: Trace): Promise<void> {
    const { recorder, directory, ports } = this.#context;
    const { secrets } = ports;
    const stream = partnerStream(partner.id);
    const present = () => directory.partner(partner.id) ?? partner;
    const hubToken = secrets.newToken();
    const hubTokenDigest = secrets.digest(hubToken);
    const issue = () =>
      recorder.inTurn(stream, async () => {
        const event = { type: 'partner.initialTokenIssued', data: { initialTokenDigest: hubTokenDigest } } as const;
        await this.recordPartner(present(), [event], trace);
        return this.#issued(hubToken);
      });
    const steps = { issue, answered: () => void this.settling.add(hubTokenDigest) };
    const connected = this.#exchanges.run(partner.id, () =>
      this.#handshakes.watched(partner.id, 'begun', async () => {
        const { credentials, ...found } = await ownExchange(this.#context, present(), invitation, steps, trace);
        await recorder.inTurn(stream, () => {
          const known = present();
          if (known.initialTokenDigest !== hubTokenDigest)
            throw new HubError('conflict', { message: 'the partner was suspended, or got another token, meanwhile' });
          const roles = acceptedRoles(known, credentials);
          const partnerToken = secrets.seal(credentials.token, known.id);
          const data = { ...exchangeData(partner.id, credentials, found, partnerToken), hubTokenDigest, roles };
          return this.#settle(known, [{ type: 'partner.registered', data }], trace);
        });
      }),
    );
    return connected.finally(() => this.settling.delete(hubTokenDigest));
  }

  /** A hub token for a partner that is pull only, and the event that issues it. [D89] */
  newHubToken(): { hubToken: string; event: PartnerEvent } {
    const { secrets } = this.#context.ports;
    const hubToken = secrets.newToken();
    return { hubToken, event: { type: 'partner.hubTokenIssued', data: { hubTokenDigest: secrets.digest(hubToken) } } };
  }

  rotate(credential: Credential, read: () => CredentialsBody, trace: Trace): Promise<IssuedCredentials> {
    return this.#exchanges.run(credential.partner.id, async () => {
      const { settings } = this.#inForce(credential, refuseUnregistered);
      if (settings.pull_only) throw new HubError('notRegistered');
      return this.#exchange(credential, 'partner.rotated', refuseUnregistered, read(), trace);
    });
  }

  /** When the partner's initial token expires, hub time; null when it has none, or one that does not expire. */
  initialTokenEnd({ initialTokenDigest, initialTokenAt }: Partner): number | null {
    const { settings, ports } = this.#context;
    if (initialTokenDigest === null || initialTokenAt === undefined || settings.initialTokenDays === 0) return null;
    return ports.clock.steady(Date.parse(initialTokenAt)) + settings.initialTokenDays * dayMs;
  }

  /** The partner's tokens and requests that were refused, as operators see them. */
  tokensOf(partner: Partner): Pick<PartyView, 'tokens' | 'refused_from'> {
    const { initialTokenDigest: initial, hubTokenDigest: hub, formerToken } = partner;
    return this.uses.of(partner.id, { hub, former: formerToken?.digest ?? null, initial });
  }

  /** Steps of a partner's registration since the hub started. */
  handshake(partnerId: PartyId): HandshakeView {
    const steps = this.#handshakes.of(partnerId);
    return { versions_url: versionsUrl(this.#context.settings.publicUrl), steps };
  }

  unregister(credential: Credential, trace: Trace): Promise<void> {
    return this.#context.recorder.inTurn(partnerStream(credential.partner.id), () =>
      this.suspend(this.#inForce(credential, refuseUnregistered), 'unregistered by the partner', trace),
    );
  }

  async suspend(partner: Partner, reason: string, trace: Trace): Promise<void> {
    const dispatched = this.#suspended;
    await this.recordPartner(partner, [{ type: 'partner.suspended', data: { reason } }], trace, { dispatched });
  }

  /** Records whether probes reach the partner, in its turn and only when that changes its status. */
  async recordReachable(partnerId: PartyId, isReachable: boolean): Promise<void> {
    const { recorder, directory } = this.#context;
    await recorder.inTurn(partnerStream(partnerId), async () => {
      const partner = directory.partner(partnerId);
      if (partner?.status !== (isReachable ? 'OFFLINE' : 'CONNECTED')) return;
      const type = isReachable ? ('partner.online' as const) : ('partner.offline' as const);
      const reason = reachable(partner, isReachable);
      await this.recordPartner(partner, [{ type, data: { reason } }], null);
    });
  }

  #ownerOf(digest: string): Pick<Credential, 'partner' | 'kind'> | null {
    const owner = this.#context.directory.tokenOwner(digest);
    if (!owner) return null;
    const { partner, kind } = owner;
    if (kind === 'initial') return { partner, kind: this.#isExpired(partner) ? 'spent' : kind };
    return { partner, kind: kind === 'former' ? this.#formerKind(partner) : kind };
  }

  /** [REGISTRATION-6] */
  #isExpired(partner: Partner): boolean {
    const end = this.initialTokenEnd(partner);
    return end !== null && this.#context.ports.clock.now() >= end;
  }

  #formerKind({ id, hubTokenDigest, formerToken }: Partner): 'hub' | 'spent' {
    const isGood = formerToken && this.#context.ports.clock.now() < this.#endOf(formerToken);
    return isGood && this.#used.get(id) !== hubTokenDigest ? 'hub' : 'spent';
  }

  /** When a former token ends, in hub time: at most `formerTokenMs` after it was first asked for. [CLOCK-4] */
  #endOf(former: FormerToken): number {
    const known = this.#formerEnds.get(former);
    if (known !== undefined) return known;
    const end = this.#context.ports.clock.steady(Date.parse(former.until) - formerTokenMs) + formerTokenMs;
    this.#formerEnds.set(former, end);
    return end;
  }

  /**
   * The token that requests a rotation, and its expiry: a repeated request with it does not extend the expiry.
   * [REGISTRATION-5]
   */
  #formerOf({ formerToken }: Partner, formerDigest: string) {
    const { clock } = this.#context.ports;
    const until = instantText(clock.stamp(clock.now() + formerTokenMs));
    return { formerDigest, formerUntil: formerToken?.digest === formerDigest ? formerToken.until : until };
  }

  /** The first use of a new token ends the former one. [REGISTRATION-5] */
  #use({ id, hubTokenDigest, formerToken }: Partner, digest: string): void {
    if (!formerToken || digest !== hubTokenDigest) return;
    const { recorder, directory, ports } = this.#context;
    this.#used.set(id, digest);
    if (this.#confirming.has(id)) return;
    this.#confirming.add(id);
    const confirmed = recorder.inTurn(partnerStream(id), async () => {
      const partner = directory.partner(id);
      if (!partner?.formerToken || partner.hubTokenDigest !== digest) return;
      // Unfenced, because the first use may come in at a door.
      await this.recordPartner(partner, [{ type: 'partner.tokenConfirmed', data: {} }], null, { unfenced: true });
    });
    confirmed
      .catch((error: unknown) =>
        ports.log.warn(
          { err: error, partyId: id },
          'could not record the first use of a rotated token; the next use retries',
        ),
      )
      .finally(() => this.#confirming.delete(id));
  }

  /**
   * The present state of the partner; throws when its token was revoked, or is not of the right kind, since the request
   * came in.
   */
  #inForce(credential: Credential, refuse: Refuse): Partner {
    const owner = this.#ownerOf(this.#context.ports.secrets.digest(credential.token));
    if (!owner) throw new HubError('invalidToken');
    refuse(owner.partner, owner.kind);
    return owner.partner;
  }

  async #exchange(
    credential: Credential,
    type: 'partner.registered' | 'partner.rotated',
    refuse: Refuse,
    body: CredentialsBody,
    trace: Trace,
  ): Promise<IssuedCredentials> {
    const { ports, recorder } = this.#context;
    const { secrets } = ports;
    const before = this.#inForce(credential, refuse);
    this.#quota.check(before.id);
    const roles = acceptedRoles(before, body);
    const { url, token } = body;
    const { correlationId } = trace;
    if (type === 'partner.rotated')
      await recorder.inTurn(partnerStream(before.id), () =>
        this.hosts.mayMove(this.#inForce(credential, refuse), url, trace),
      );
    const { token_encoding: encoding, token_encoding_auto: mayTurn = false } = before.settings;
    const about = { partner: before.id, module: 'versions', object: null };
    const found = await ports.versions.discover({ url, token, correlationId, roles, encoding, mayTurn, about });
    const hubToken = secrets.newToken();
    const hubTokenDigest = secrets.digest(hubToken);
    const issued = { ...exchangeData(before.id, body, found, secrets.seal(token, before.id)), hubTokenDigest };
    await recorder.inTurn(partnerStream(before.id), async () => {
      const partner = this.#inForce(credential, refuse);
      const data = { ...issued, roles: acceptedRoles(partner, body) };
      if (type === 'partner.registered') {
        this.lost.answered(partner.id, hubTokenDigest);
        return this.#settle(partner, [{ type, data }], trace, { late: 'answer' });
      }
      const former = this.#formerOf(partner, secrets.digest(credential.token));
      const rotated = { type, data: { ...data, ...former } } as const;
      const move = this.hosts.move(partner, url);
      const dispatched = () => move && this.hosts.made(partner.id, move);
      await this.#settle(partner, move ? [move, rotated] : [rotated], trace, { late: 'answer', dispatched });
    });
    return this.#issued(hubToken);
  }

  /** Records the end of an exchange, in the turn of the partner, and sends what was kept for it. */
  async #settle(
    partner: Partner,
    events: PartnerEvents,
    trace: Trace,
    { late = 'refuse', dispatched: also = () => {} }: Pick<PartnerRecording, 'late' | 'dispatched'> = {},
  ): Promise<void> {
    const due = this.#resends.dueAfter(partner);
    const dispatched = (changed: Partner) => {
      // A routing rule may have been set during this write. A kill at this point leaves that release to the next
      // `PUT /routes`.
      const isReleased = due.length > 0 || this.#resends.dueAfter(partner).length > 0;
      if (isReleased) this.#resends.registered(partner.id, trace);
      this.#actors.connected(partner.id);
      also(changed);
    };
    await this.recordPartner(partner, events, trace, { due, dispatched, late });
    this.#quota.spend(partner.id, JSON.stringify(events).length);
  }

  #issued(token: string): IssuedCredentials {
    const { publicUrl, countryCode, partyId, name } = this.#context.settings;
    const role = { role: 'HUB', country_code: countryCode, party_id: partyId, business_details: { name } } as const;
    return { token, url: versionsUrl(publicUrl), roles: [role] };
  }
}

/** What an event of an exchange holds of the partner's credentials and versions. */
function exchangeData(id: PartyId, { url }: CredentialsBody, found: Discovered, partnerToken: string) {
  const { endpoints, encoding, quirks } = found;
  return { url, discovered: endpoints, tokenEncoding: encoding, partnerToken, ...metBy(id, quirks) };
}

/** Why a partner is online or offline, as its event says. */
function reachable({ settings }: Partner, isReachable: boolean): string {
  if (settings.pull_only) return isReachable ? 'it called the hub' : 'it has stopped calling the hub';
  return isReachable ? 'a probe succeeded' : 'probes keep failing';
}

const versionsUrl = (publicUrl: string) => `${publicUrl}/ocpi/versions`;

/** POST needs an initial token; a registered partner may use one, too, and then registers again. [D9, D73] */
function refuseRegistered(partner: Partner, kind: Credential['kind']): void {
  if (kind !== 'initial') throw isRegistered(partner) ? alreadyRegistered(partner, kind) : new HubError('invalidToken');
}

/**
 * PUT and DELETE need a valid hub token; the refusal of any other token depends on whether the partner is registered.
 * [D9, D10]
 */
function refuseUnregistered(partner: Partner, kind: Credential['kind']): void {
  if (kind === 'hub') return;
  if (kind === 'spent' && isRegistered(partner)) throw new HubError('invalidToken');
  throw new HubError('notRegistered');
}
