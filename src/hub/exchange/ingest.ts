/**
 * Ingest of objects that partners push: one durable write stores the object together with the receivers that are owed a
 * delivery of it.
 *
 * INGEST-1  A success answer means that the event, the object and every owed delivery are durable.
 * INGEST-2  A refused push changes nothing.
 * INGEST-3  The new state of an object depends only on its stored state and the push, so it can be rebuilt from the
 *     log.
 * INGEST-4  Pulled objects take the same path, and never overwrite a push that arrived while the pulled page was in
 *     flight.
 * INGEST-5  A push whose caller no longer waits changes nothing: the caller may have pushed a newer state since.
 * INGEST-6  Memory for a large stored object is reserved before it is read, however small the push, and its change is worked out in
 *     other turns than the one in which it was read, in pieces (TURNS-5).
 */
import { type Put, type Seen, type Seq, smallBody } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import { charactersOf, type ObjectEventData } from '../../domain/events.ts';
import { applyToObject } from '../../domain/fold.ts';
import { instantText } from '../../domain/instant.ts';
import { isOwned, modules } from '../../domain/modules.ts';
import {
  changedInPieces,
  type HubObject,
  lastUpdatedOf,
  type ObjectChange,
  objectKey,
  objectName,
  sameJson,
  sortableDate,
  streamOf,
} from '../../domain/object.ts';
import { ownedAudience, owningEmsp, toWarnings } from '../../domain/ownership.ts';
import type { PartyId, PartyRole } from '../../domain/party.ts';
import { erasedAs } from '../../domain/person.ts';
import { metBy, type Quirk, quirksWarnedOf } from '../../domain/quirks.ts';
import { catalogueAudience, type Directory, notRoutedTo } from '../../domain/routing.ts';
import { dayMs } from '../../kit/clock.ts';
import { inTurns } from '../../kit/turns.ts';
import type { Context } from '../kernel/context.ts';
import type { ObjectQuota, Quota } from '../kernel/quota.ts';
import type { Fact } from '../kernel/recorder.ts';
import {
  billedKey,
  billedPut,
  goneOf,
  objectFromRow,
  objectPut,
  ownerPut,
  readEnded,
  readObject,
  readSmallObject,
  rowSeen,
} from '../kernel/row-codecs.ts';
import type { PartnerReports } from '../partners/reports.ts';
import type { Accepted, Caller, Reserve } from '../ports/hub.ts';
import type { CallSubject } from '../ports/ports.ts';
import { initiatorOf } from './attribution.ts';
import { instrument } from './instrument.ts';
import type { OrphanCases } from './orphan-cases.ts';
import { owedRequests } from './owed-requests.ts';

/** Origin of a change that the hub pulled from a list of its owner. */
export interface Pulled {
  /** Head of the log before the page was requested: an object that was stored later may be newer than the page. */
  readonly asOf: Seq;
  readonly forward: boolean;
}

export interface Taken {
  /** `unchanged`: nothing was stored. */
  readonly result: Accepted['result'] | 'unchanged';
  readonly object: HubObject;
}

export type AcceptPulled = (caller: Caller, change: ObjectChange, pulled: Pulled) => Promise<Taken>;

interface Decision {
  readonly data: ObjectEventData;
  readonly to: readonly PartyId[];
}

const eventTypes = {
  PUT: 'object.put',
  POST: 'object.put',
  PATCH: 'object.patched',
  DELETE: 'object.deleted',
} as const;

/** Fields in which a CDR that is posted again may differ. [D63] */
const dated = new Set(['last_updated']);
/** Those that a CPO may repair, too, as long as the CDR was never forwarded. [D22] */
const repairable = new Set([...dated, 'cdr_token']);

const notForwarded = 'pulled without forward';

export function ingest(
  context: Context,
  orphans: Pick<OrphanCases, 'sessionStored' | 'cdrStored'>,
  reports: Pick<PartnerReports, 'warned' | 'unsubscribed' | 'used'>,
  quota: Pick<Quota, 'check' | 'spend'>,
  objects: ObjectQuota,
) {
  const { store, directory, recorder } = context;
  const { ports } = context;
  const { meter } = ports;

  async function accept(caller: Caller, pushed: ObjectChange, reserve: Reserve): Promise<Accepted> {
    const { module, owner, id, method } = pushed;
    refuseDotSegments(pushed);
    quota.check(caller.id);
    const key = objectKey(module, id, pushed.facts);
    const stream = streamOf(module, owner, key);
    return recorder.inTurnUnlessInDoubt(stream, async (seen) => {
      // The push may have waited for its turn. [INGEST-5]
      const stale = caller.isStale?.();
      if (stale && (await stale)) throw new HubError('unavailable', { retryAfterS: 1 });
      const found = await readSmallObject(store, module, owner, key, seen);
      const before = typeof found === 'number' ? await readLarge(pushed, key, found, reserve, seen) : found;
      if (before === null && method !== 'DELETE') await objects.check(owner);
      const change = before && isLong(before, pushed) ? await changed(before, pushed, reserve) : pushed;
      const decided = await decision(caller, change, before, seen);
      // The caller may have been suspended since its request was authenticated; a repeated decision sees that.
      if (!directory.isRegistered(caller.id)) throw new HubError('invalidToken');
      const { role } = caller.party;
      if (!hasRole(caller)) throw new HubError(role === 'CPO' ? 'cpoOnly' : 'emspOnly');
      if (before && isDecidedCdr(before, change, decided, ports.secrets.pseudonym)) {
        const isRedated = change.lastUpdated !== before.lastUpdated;
        reports.used(subjectOf(caller, change), [
          ...(change.quirks ?? []),
          ...(isRedated ? ['cdr-again' as const] : []),
        ]);
        return { result: 'duplicate', object: before };
      }
      return commitChange(caller, change, before, decided, stream, seen);
    });
  }

  /** [INGEST-6] */
  async function readLarge(change: ObjectChange, key: string, size: number, reserve: Reserve, seen: Seen[]) {
    const { module, owner } = change;
    const changeTurn = await reserve(size);
    const before = await readObject(store, module, owner, key, seen);
    if (!isPart(change)) await changeTurn();
    return before;
  }

  /** The change with its result, worked out in pieces, each in a turn of its own. [INGEST-6] */
  async function changed(before: HubObject, change: ObjectChange, reserve: Reserve): Promise<ObjectChange> {
    const changeTurn = await reserve(0);
    return { ...change, after: await inTurns(changedInPieces(before.body, change), changeTurn) };
  }

  /** Stores an object from a list of its owner, unless the same or a newer state is stored. [INGEST-4, D51, D52] */
  async function acceptPulled(caller: Caller, change: ObjectChange, pulled: Pulled): Promise<Taken> {
    refuseDotSegments(change);
    const key = objectKey(change.module, change.id, change.facts);
    const stream = streamOf(change.module, change.owner, key);
    return recorder.inTurn<Taken>(stream, async (seen) => {
      const row = await rowSeen(store, { kind: change.module, owner: change.owner, id: key }, seen);
      const before = row && objectFromRow(row);
      if (row && before && row.seq > pulled.asOf && !isNewer(change, before)) {
        return { result: 'unchanged', object: before };
      }
      const found = await decision(caller, change, before, seen);
      if (!hasRole(caller)) throw new HubError('invalid', { message: `it belongs to ${caller.id}` });
      const decided = byHub(pulled.forward ? found : withheld(found));
      if (before && isDecidedCdr(before, change, decided, ports.secrets.pseudonym))
        return { result: 'unchanged', object: before };
      // The same text again is stored only when it is owed to a receiver now and its last change was not forwarded.
      const isOwed = before?.reason !== null && decided.to.length > 0;
      if (before?.body === change.body && !isOwed) return { result: 'unchanged', object: before };
      return commitChange(caller, change, before, decided, stream, seen);
    });
  }

  /** No object is stored of a role that an operator has removed since, even if another partner has its party now. */
  const hasRole = ({ id, party: { role }, partner }: Caller): boolean =>
    directory.partnerOf(id)?.id === partner.id && directory.party(id, role) !== undefined;

  async function decision(
    caller: Caller,
    change: ObjectChange,
    before: HubObject | null,
    seen: Seen[],
  ): Promise<Decision> {
    const initiator = isOwned(change.module) ? await initiatorOf(context, change, before, seen) : null;
    seen.push(directory.seen);
    const decided = decide(directory, caller.party, change, before, initiator);
    return isAhead(change, ports.clock.wall())
      ? warned(decided, `last_updated ${change.lastUpdated} is more than a day ahead`)
      : decided;
  }

  async function commitChange(
    caller: Caller,
    change: ObjectChange,
    before: HubObject | null,
    { data: decided, to }: Decision,
    stream: string,
    seen: Seen[],
  ): Promise<Accepted> {
    const shown = shownBy(change, decided);
    const data = { ...decided, ...metBy(change.owner, [...shown, ...quirksWarnedOf(decided.warnings)]) };
    const event = { type: eventTypes[change.method], data };
    const key = objectKey(change.module, change.id, change.facts);
    const ended = before ? null : await readEnded(store, change.module, change.owner, key, seen);
    const { body } = change;
    const state = applyToObject(before ?? ended, { type: event.type, data, body, to, after: change.after });
    const after = state?.ended ? null : state;
    const object = change.method === 'DELETE' ? before : after;
    if (!object) throw new HubError('notFound');
    refuseOvergrown(object);
    const fact = { stream, event, to };
    const written = record(caller, fact, change, before ?? ended, state, seen);
    if ((before === null) === (after === null)) await written;
    else await objects.changed(change.owner, after ? 1 : -1, written);
    quota.spend(caller.id, charactersOf({ body: change.body, data }) + (after?.body.length ?? 0));
    if (data.reason !== null) meter.notForwarded(data.module, data.reason);
    reports.warned(caller.partner.id, data.module, data.warnings, objectName(data));
    reports.used(subjectOf(caller, change), shown);
    reports.unsubscribed(data.unsubscribed ?? [], data.module, objectName(data));
    if (after?.module === 'sessions') orphans.sessionStored(before, after, caller.trace);
    if (after?.module === 'cdrs') orphans.cdrStored(after, caller.trace);
    return { result: after === null ? 'deleted' : before ? 'updated' : 'created', object };
  }

  /** `before` and `after`: of a deleted object, what is stored of it. */
  function record(
    caller: Caller,
    fact: Pick<Fact, 'stream' | 'event' | 'to'>,
    { module, owner, body }: ObjectChange,
    before: HubObject | null,
    after: HubObject | null,
    seen: readonly Seen[],
  ): Promise<Seq> {
    const key = (after ?? before)?.key ?? '';
    const puts: Put[] = after ? [objectPut(after)] : [];
    if (before && (!after || before.ended !== after.ended)) puts.push(goneOf(before));
    if (before === null && modules[module].isFoundById) puts.push(ownerPut(module, key, owner));
    if (after?.module === 'cdrs' && after.facts.sessionId)
      puts.push(billedPut(billedKey(owner, after.facts.sessionId)));
    const { trace } = caller;
    const facts = [{ party: caller.id, body, ...fact }];
    return recorder.record({ facts, puts, seen, unfenced: true, trace });
  }

  /** Wraps a verb so that the meter counts the result of each change. */
  function counted<T extends Taken, Rest extends unknown[]>(
    source: 'push' | 'pull',
    take: (caller: Caller, change: ObjectChange, ...rest: Rest) => Promise<T>,
  ) {
    return (caller: Caller, change: ObjectChange, ...rest: Rest) =>
      instrument(
        () => take(caller, change, ...rest),
        ({ result }) => result,
        (result) => meter.ingested(source, change.module, change.method, result),
      );
  }

  return { accept: counted('push', accept), acceptPulled: counted('pull', acceptPulled) };
}

/** Whether a change is put together with what is stored, and takes long: with a large object always. [INGEST-6] */
const isLong = (before: HubObject, change: ObjectChange): boolean =>
  isPart(change) && before.body.length + change.body.length > smallBody;

const isPart = ({ method, within }: ObjectChange): boolean =>
  method === 'PATCH' || (method !== 'DELETE' && within.length > 0);

const subjectOf = ({ partner }: Caller, change: ObjectChange): CallSubject => {
  return { partner: partner.id, module: change.module, object: objectName(change) };
};

/** The habits that the change shows, beside those of which it has a warning. */
function shownBy({ quirks = [] }: ObjectChange, { module, reason, by }: ObjectEventData): readonly Quirk[] {
  const isEarly = module === 'cdrs' && reason === 'not routed' && by === undefined;
  return isEarly ? [...quirks, 'early-cdr'] : quirks;
}

const withheld = ({ data }: Decision): Decision => ({
  to: [],
  data: { ...data, owed: null, reason: data.reason ?? notForwarded },
});

const warned = ({ to, data }: Decision, warning: string): Decision => ({
  to,
  data: { ...data, warnings: [...data.warnings, warning] },
});

/** A clock that is ahead makes every later change look old. [D75] */
function isAhead({ lastUpdated }: ObjectChange, now: number): boolean {
  const date = (lastUpdated && sortableDate(lastUpdated)) ?? '';
  // Nearly every date is past, and only one that is not needs the text of tomorrow, which is no text of the present second.
  return date > instantText(now) && date > instantText(now + dayMs);
}

/** The hub acted, not the owner of the object: it pulled the object. */
const byHub = ({ to, data }: Decision): Decision => ({ to, data: { ...data, by: 'hub' } });

/** Whether a change has a later `last_updated` than the stored object; a DELETE has none and is never newer. */
function isNewer({ lastUpdated }: ObjectChange, before: HubObject): boolean {
  const [now, old] = [lastUpdated && sortableDate(lastUpdated), sortableDate(before.lastUpdated)];
  return Boolean(now && old && now > old);
}

/** `.` and `..` as a path segment would climb out of the receiver's module URL. */
function refuseDotSegments(change: ObjectChange): void {
  for (const segment of [change.id, ...change.within]) {
    if (segment === '.' || segment === '..')
      throw new HubError('invalid', { message: `id: '${segment}' is not usable` });
  }
}

/** Fragments, EVSEs and connectors make an object grow, and each of them costs as much as the whole object. [D76] */
function refuseOvergrown({ module, body }: HubObject): void {
  const { bytesMax } = modules[module];
  // No character has more bytes than this; most bodies need no count.
  if (body.length * 3 <= bytesMax || Buffer.byteLength(body) <= bytesMax) return;
  throw new HubError('invalid', { message: `${module}: expected an object of at most ${bytesMax} bytes` });
}

/** Decides the owning eMSP of a change, its receivers, and the form that each receiver gets. */
function decide(
  directory: Directory,
  owner: PartyRole,
  change: ObjectChange,
  before: HubObject | null,
  initiator: PartyId | null,
): Decision {
  const { module, method, within, lastUpdated } = change;
  const kind = method === 'DELETE' ? 'end' : method === 'PATCH' || within.length > 0 ? 'part' : 'whole';
  const facts = kind === 'whole' ? change.facts : { ...before?.facts, ...change.facts };
  const ownership = isOwned(module) ? owningEmsp(directory, change.owner, facts, initiator) : null;
  const audience = ownership
    ? ownedAudience(directory, before, ownership, kind === 'part')
    : catalogueAudience(directory, before, { module, owner: change.owner, facts }, kind, change.to);
  const data: ObjectEventData = {
    module,
    method,
    owner: change.owner,
    id: before?.id ?? change.id,
    within,
    lastUpdated,
    facts: change.facts,
    viewer: ownership?.viewer ?? null,
    ...owedRequests(owner, change, before, audience),
    reason: audience.reason,
    ...(audience.unsubscribed && { unsubscribed: audience.unsubscribed }),
    ...(change.to === audience.to[0] && audience.to.length === 1 && { addressed: change.to }),
    warnings: [
      ...(change.warnings ?? []),
      ...(ownership ? toWarnings(change.to, ownership) : []),
      ...(audience.reason === notRoutedTo ? [`OCPI-to-party-id: ${change.to} is not routed, so nobody gets it`] : []),
      ...warningsOf(before && lastUpdatedOf(before, within), change.lastUpdated),
    ],
  };
  return { data, to: audience.to };
}

/**
 * Order of arrival decides, so an object with an older date is still stored; the warning makes it visible to support.
 * [D46]
 */
function warningsOf(before: string | null, lastUpdated: string | null): string[] {
  const [old, now] = [before && sortableDate(before), lastUpdated && sortableDate(lastUpdated)];
  return old && now && now < old ? [`last_updated ${lastUpdated} is older than the stored ${before}`] : [];
}

/**
 * Whether a pushed CDR needs no write. CDRs are immutable: the same content, apart from `last_updated`, is a duplicate,
 * and different content is refused. A CDR that was never forwarded may be repaired, and a duplicate of it is stored
 * when it is owed to a receiver by now. One whose person was erased is compared as erased. [D22, D63]
 */
function isDecidedCdr(
  before: HubObject,
  change: ObjectChange,
  { to }: Decision,
  pseudonym: (name: string) => string,
): boolean {
  if (!modules[change.module].isImmutable) return false;
  const isSame = (except: ReadonlySet<string>) =>
    before.body === change.body ||
    sameJson(JSON.parse(before.body), JSON.parse(erasedAs(before.body, change.body, pseudonym)), except);
  if (isSame(dated)) return before.forwarded || to.length === 0;
  if (!before.forwarded && isSame(repairable)) return false;
  throw new HubError('invalid', { message: 'CDR already exists' });
}
