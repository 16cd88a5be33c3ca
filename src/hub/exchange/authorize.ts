/**
 * Forwards real-time token authorization while the driver waits: one attempt, no retry.
 * [interface, Token authorization; D25, D43, D44]
 */
import { type ErrorCode, HubError } from '../../domain/errors.ts';
import { objectKey } from '../../domain/object.ts';
import { below, endpointOf, type PartyId, partyKey } from '../../domain/party.ts';
import { enumValue, metBy, type Quirk, type QuirksMet } from '../../domain/quirks.ts';
import { withTimeout } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import type { Quota } from '../kernel/quota.ts';
import type { WriteCoalescer } from '../kernel/recorder.ts';
import { peekObject, readObject } from '../kernel/row-codecs.ts';
import type { PartnerReports } from '../partners/reports.ts';
import type { AuthorizeAnswer, AuthorizeRequest, Caller } from '../ports/hub.ts';
import type { HeaderParty } from '../ports/ports.ts';
import { instrument } from './instrument.ts';
import { callPartner, type Failure, failureOf, type SyncCall, unambiguousText } from './sync-calls.ts';

/** The two directions of an authorize, and how they differ. */
const directions = {
  toEmsp: { side: 'eMSP', role: 'EMSP', interfaceRole: 'SENDER', method: 'POST' },
  toCpo: { side: 'CPO', role: 'CPO', interfaceRole: 'RECEIVER', method: 'PUT' },
} as const;

type Direction = keyof typeof directions;

const refusals: Record<Failure, ErrorCode> = {
  timeout: 'authorizeTimeout',
  unavailable: 'authorizeUnavailable',
  unauthorized: 'authorizeUnauthorized',
  notFound: 'authorizeNotFound',
  rejected: 'authorizeRejected',
  unusable: 'authorizeIncomplete',
};

const answers: ReadonlySet<unknown> = new Set(['ALLOWED', 'BLOCKED', 'EXPIRED', 'NO_CREDIT', 'NOT_ALLOWED', 'UNKNOWN']);

/** Limit of the look-up of a uid, ms: a store that hangs must not keep a driver waiting, as an authorize needs nothing else of it. */
const lookUpMs = 250;

/** Stream of the authorizations of an eMSP's tokens, or, with `noEmsp`, of those that were for no known one. */
export const authorizeStream = (emsp: PartyId): string => `authorize:${emsp}`;
export const noEmsp = 'unknown';

/** The habit of an authorize that names no eMSP. */
const unaddressed = 'authorize-to-hub';

/** The party that `OCPI-to-*` names; null when absent, or when it names the hub or the caller. [D5] */
export function addressee(context: Context, caller: Caller, to: HeaderParty | null): PartyId | null {
  if (!to) return null;
  const id = partyKey(to.country_code, to.party_id);
  return id === context.directory.hub || id === caller.id ? null : id;
}

export function authorize(
  context: Context,
  coalescer: WriteCoalescer,
  reports: Pick<PartnerReports, 'used'>,
  quota: Pick<Quota, 'hasRoom' | 'spend'>,
) {
  const { directory, recorder, settings, ports, store } = context;

  /**
   * The eMSP that an authorize to the hub means: the only routed one that pushed this token, else the only routed one.
   * Null when none is routed; refuses when several are meant.
   */
  async function tokenOwner(caller: Caller, { uid, type }: AuthorizeRequest): Promise<PartyId | null> {
    reports.used({ partner: caller.partner.id, module: 'tokens', object: null }, [unaddressed]);
    const emsps = directory.emspsOf(caller.id);
    const key = objectKey('tokens', uid, { tokenType: type });
    const owners: PartyId[] = [];
    for (const owner of emsps) if (await readObject(store, 'tokens', owner, key)) owners.push(owner);
    const [only, second] = owners.length > 0 ? owners : emsps;
    if (second === undefined) return only ?? null;
    throw new HubError('invalid', { message: 'OCPI-to-party-id: expected the eMSP that owns the token' });
  }

  /**
   * The receiver; null when it is unknown or no routing rule allows the pair, which the hub answers with NOT_ALLOWED,
   * not with an error.
   */
  async function receiver(direction: Direction, caller: Caller, request: AuthorizeRequest): Promise<PartyId | null> {
    const named = addressee(context, caller, request.to);
    const { role } = directions[direction];
    if (named === null && direction === 'toEmsp') return tokenOwner(caller, request);
    if (named === null) {
      // Toward a CPO, a missing addressee means the only routed CPO. [D43]
      const [only, second] = directory.counterparts(caller.id, 'EMSP');
      if (only === undefined) return null;
      if (second === undefined) return only;
      throw new HubError('invalid', { message: 'OCPI-to-country-code, OCPI-to-party-id: required' });
    }
    const [emsp, cpo] = role === 'EMSP' ? [named, caller.id] : [caller.id, named];
    return directory.party(named, role) && directory.isRouted(emsp, cpo) ? named : null;
  }

  /** The uid in the case in which its eMSP stored it: eMSPs may compare it by case, and readers of cards do not know theirs. [D12] */
  async function storedUid(owner: PartyId, { uid, type }: AuthorizeRequest): Promise<string> {
    if (uid.toLowerCase() === uid.toUpperCase()) return uid;
    const key = objectKey('tokens', uid, { tokenType: type });
    const known = peekObject(store, 'tokens', owner, key);
    if (known !== undefined) return known?.id ?? uid;
    const token = readObject(store, 'tokens', owner, key).catch(() => null);
    return (await withTimeout(ports.clock, lookUpMs, token)) ? ((await token)?.id ?? uid) : uid;
  }

  async function forward(direction: Direction, caller: Caller, request: AuthorizeRequest): Promise<AuthorizeAnswer> {
    const to = await receiver(direction, caller, request);
    if (to === null) {
      note(direction, caller, request, null, { allowed: 'NOT_ALLOWED', outcome: 'no routing rule' });
      return { allowed: 'NOT_ALLOWED', text: '{"allowed":"NOT_ALLOWED"}' };
    }
    const { side, role, interfaceRole, method } = directions[direction];
    const partner = directory.partnerOf(to);
    const endpoint = partner && endpointOf(partner, 'tokens', interfaceRole);
    const refuse = (code: ErrorCode, met?: readonly Quirk[]) => {
      note(direction, caller, request, to, { allowed: 'UNKNOWN', outcome: code, ...metBy(to, met) });
      return new HubError(code, { side, data: { allowed: 'UNKNOWN' } });
    };
    if (!partner || !endpoint) throw refuse('authorizeNoEndpoint');
    const { country_code, party_id } = caller.party;
    const uid = await storedUid(direction === 'toCpo' ? caller.id : to, request);
    const segments = direction === 'toCpo' ? [country_code, party_id, uid] : [uid];
    const call: SyncCall = {
      what: 'token authorize',
      circuit: 'sync',
      module: 'tokens',
      method,
      endpoint: endpoint.url,
      url: below(endpoint.url, [...segments, 'authorize'], `type=${encodeURIComponent(request.type)}`),
      source: caller.partner.id,
      from: caller.party,
      to: directory.party(to, role) ?? null,
      body: request.body,
      timeoutMs: settings.authorizeTimeoutMs,
      unwritten: true,
      oneObject: 'allowed',
    };
    const outcome = await callPartner(context, partner, call, caller.trace);
    const failure = failureOf(outcome);
    const { quirks } = outcome;
    if (failure) throw refuse(refusals[failure], quirks);
    const allowed = enumValue((outcome.data as { allowed?: unknown } | null | undefined)?.allowed);
    const text = unambiguousText(outcome, 'allowed');
    if (!answers.has(allowed) || text === null) throw refuse('authorizeIncomplete', quirks);
    note(direction, caller, request, to, { allowed: String(allowed), outcome: 'answered', ...metBy(to, quirks) });
    return { allowed: String(allowed), text };
  }

  /** Records the authorization for the trace; the caller does not wait for the write. */
  function note(
    direction: Direction,
    caller: Caller,
    request: AuthorizeRequest,
    to: PartyId | null,
    { quirks: met, ...answer }: { allowed: string; outcome: string; quirks?: QuirksMet },
  ): void {
    // [QUOTA-5]
    if (!quota.hasRoom(caller.id)) return ports.meter.unrecorded('token.authorized');
    quota.spend(caller.id, 0);
    const emsp = direction === 'toEmsp' ? (to ?? noEmsp) : caller.id;
    const isToHub = direction === 'toEmsp' && addressee(context, caller, request.to) === null;
    const quirks: QuirksMet = { ...met, ...(isToHub && metBy(caller.id, [unaddressed]).quirks) };
    const named = { direction, uid: request.uid, from: caller.id, to: to ?? '', ...answer };
    const data = Object.keys(quirks).length > 0 ? { ...named, quirks } : named;
    coalescer.add({
      stream: authorizeStream(emsp),
      event: { type: 'token.authorized', data },
      party: caller.id,
      correlationId: caller.trace.correlationId,
      at: recorder.instant(),
    });
  }

  const counted = (direction: Direction) => (caller: Caller, request: AuthorizeRequest) =>
    instrument(
      () => forward(direction, caller, request),
      ({ allowed }) => allowed,
      (outcome, seconds) => ports.meter.forwarded('authorize', direction, outcome, seconds),
    );

  return { authorizeAtEmsp: counted('toEmsp'), authorizeAtCpo: counted('toCpo') };
}
