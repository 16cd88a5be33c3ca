/**
 * Finds what belongs to the story of an object beside its own events: the commands, authorizations, CDRs and orphan cases
 * of a session, and the authorizations of a token; and the ends and re-drives of the deliveries of both. [D78]
 *
 * TRACE-RELATED-1  One answer searches a bounded part of the log [LOG-WALK-1]; its cursor says where the next one goes on.
 * TRACE-RELATED-2  What is inside objects, and of what the refused pushes are, has no index: one search reads at most `rowsMax` rows of
 *     a module, or of refused pushes, for it.
 */

import type { Range, Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import type { TraceCandidate } from '../../api/trace.ts';
import {
  type CommandNamed,
  deliveryId,
  type HubEvent,
  type ObjectEventData,
  type OrphanNamed,
} from '../../domain/events.ts';
import { moduleNames, modules, type ObjectModule } from '../../domain/modules.ts';
import { objectKey, objectName, tokenTypes } from '../../domain/object.ts';
import { keyOf, type PartyId } from '../../domain/party.ts';
import type { RefusedRecord } from '../../domain/report.ts';
import { hourMs, minuteMs } from '../../kit/clock.ts';
import type { Limit } from '../../kit/concurrency.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Context } from '../kernel/context.ts';
import { logSpan, moved } from '../kernel/log-reads.ts';
import { objectFromRow, ownersOf, readObject } from '../kernel/row-codecs.ts';
import { refusedStream } from '../partners/reports.ts';
import { LogWalk } from './log-walk.ts';

/** Longest time from a command to the first event of its session, ms. */
const beforeMs = hourMs;
/** Longest time from an event that names only the token to the first event of its session, ms. */
const soonMs = 10 * minuteMs;
/** Longest time from the last event of a session to its CDR or the end of its case, ms. */
const afterMs = 48 * hourMs;

export interface Related {
  readonly events: readonly StoredEvent[];
  /** Sequence at which the search goes on; null at its end. */
  readonly rest: Seq | null;
}

/** What the object's own events name; ids in lower case. */
interface Names {
  readonly owner: PartyId;
  readonly sessions: ReadonlySet<string>;
  readonly references: ReadonlySet<string>;
  readonly uids: ReadonlySet<string>;
  readonly isToken: boolean;
  /** When a use of the token belongs to the story: RFC 3339, inclusive. */
  readonly usedFrom: string;
  readonly usedTo: string;
}

/** `cursor`: the `rest` of the answer before. */
export async function relatedTo(store: Store, own: readonly StoredEvent[], cursor: Seq | null): Promise<Related> {
  const changes = own.filter(({ type }) => type.startsWith('object.'));
  const [first, last] = [changes[0], changes.at(-1)];
  if (!first || !last) return { events: [], rest: null };
  const names = namesIn(changes, first, last);
  if (!names) return { events: [], rest: null };
  // A token is used long after it was pushed, and its latest use matters most.
  const order = names.isToken ? 'newest' : 'oldest';
  const to = names.isToken ? {} : { to: moved(last.at, afterMs) };
  const span = await logSpan(store, { from: moved(first.at, -beforeMs), ...to });
  const range: Range =
    order === 'newest'
      ? { after: span.after, upTo: Math.min(span.upTo, cursor ?? span.upTo) }
      : { after: Math.max(span.after, (cursor ?? 0) - 1), upTo: span.upTo };
  const known = new Set(own.map(({ seq }) => seq));
  const walk = new LogWalk(store, [range], order, (event) => !known.has(event.seq) && belongs(event, names));
  const events: StoredEvent[] = [];
  for (let event = await walk.next(); event !== null; event = await walk.next()) events.push(event);
  const starts = events.filter((event) => event.type === 'command.requested' && !namesSession(event));
  for (const { stream, seq } of starts) events.push(...(await store.history(stream, seq)));
  return { events: events.sort((a, b) => a.seq - b.seq), rest: walk.rest };
}

/** What became of the deliveries of these events, however much later: each has a stream of its own. */
export async function endsOf(
  store: Pick<Store, 'recent'>,
  events: readonly StoredEvent[],
  { lookUps, limit }: { readonly lookUps: Limit; readonly limit: number },
): Promise<StoredEvent[]> {
  const ids = events.flatMap((event) => event.to.map((receiver) => deliveryId(receiver, event)));
  const ends = ids.map((id) => lookUps.run(() => store.recent(`delivery:${id}`, limit)));
  return (await Promise.all(ends)).flat();
}

/** Null when the story of such an object has no other events. */
function namesIn(events: readonly StoredEvent[], first: StoredEvent, last: StoredEvent): Names | null {
  const changes = events.map(({ data }) => data as ObjectEventData);
  const lower = (texts: readonly (string | null | undefined)[]) =>
    new Set(texts.flatMap((text) => (text ? [text.toLowerCase()] : [])));
  const of = (module: string) => changes.filter((one) => one.module === module);
  const [sessions, cdrs, tokens] = [of('sessions'), of('cdrs'), of('tokens')];
  const facts = [...sessions, ...cdrs].map((one) => one.facts);
  const names: Names = {
    owner: (first.data as ObjectEventData).owner,
    sessions: lower([...sessions.map(({ id }) => id), ...cdrs.map((cdr) => cdr.facts.sessionId)]),
    references: lower(facts.map(({ authorizationReference }) => authorizationReference)),
    uids: lower([...facts.map(({ cdrToken }) => cdrToken?.uid), ...tokens.map(({ id }) => id)]),
    isToken: tokens.length > 0,
    usedFrom: tokens.length > 0 ? '' : moved(first.at, -soonMs),
    usedTo: tokens.length > 0 ? '\uffff' : last.at,
  };
  return names.sessions.size + names.uids.size === 0 ? null : names;
}

const namesSession = ({ data }: StoredEvent): boolean => Boolean((data as CommandNamed).sessionId);

/** Whether an event belongs to the story; of a START_SESSION only the first, since the others do not name its token. */
function belongs({ type, at, data }: StoredEvent, names: Names): boolean {
  const { owner, sessions, references, uids } = names;
  const has = (set: ReadonlySet<string>, text: string | null | undefined) => set.has(text?.toLowerCase() ?? '');
  const event = { type, data } as HubEvent;
  const isUse = (uid: string | null) => has(uids, uid) && at >= names.usedFrom && at <= names.usedTo;
  if (event.type === 'command.requested') {
    const { cpo, command, authorizationReference, tokenUid, sessionId } = event.data;
    if (cpo !== owner) return false;
    if (has(sessions, sessionId)) return true;
    return command === 'START_SESSION' && isSame(references, authorizationReference, isUse(tokenUid));
  }
  if (type.startsWith('command.')) {
    const { cpo, sessionId } = data as CommandNamed;
    return cpo === owner && has(sessions, sessionId);
  }
  if (type.startsWith('orphan.')) {
    const { cpo, session } = data as OrphanNamed;
    return cpo === owner && has(sessions, session);
  }
  if (event.type === 'token.authorized') {
    const { uid, from, to } = event.data;
    return (from === owner || to === owner) && isUse(uid);
  }
  if (!type.startsWith('object.')) return false;
  const { module, owner: whose, id, facts } = data as ObjectEventData;
  return whose === owner && has(sessions, module === 'sessions' ? id : facts.sessionId);
}

/** By the reference where the session has one, else by the token. */
const isSame = (references: ReadonlySet<string>, reference: string | null, isTheToken: boolean): boolean =>
  references.size > 0 ? references.has(reference?.toLowerCase() ?? '') : isTheToken;

// Finds the objects that an operator means by an id alone: that of any object or EVSE, an `evse_id`, or a contract id.
// [D78]

/** [TRACE-RELATED-2] */
const rowsMax = 20_000;
/** Rows between two turns of the event loop. */
const piece = 500;
/** Objects that are listed at most. */
const candidatesMax = 100;

/** Types by which the objects of a module are keyed beside their ids. */
export const typesOf = (module: ObjectModule): readonly string[] => (modules[module].isKeyedByType ? tokenTypes : ['']);

export interface ById {
  readonly candidates: readonly TraceCandidate[];
  /** False when a module has more rows than were read, so that there may be others. */
  readonly isWhole: boolean;
}

/** Objects with this id; when there are none, those in which it names an EVSE or a contract. */
export async function candidatesFor(context: Context, id: string): Promise<ById> {
  const found = (await Promise.all(moduleNames.map((module) => withId(context, module, id)))).flat();
  if (found.length > 0) return { candidates: found.slice(0, candidatesMax), isWhole: found.length <= candidatesMax };
  const locations = await inside(context, 'locations', id, evseNames);
  const tokens = await inside(context, 'tokens', id, ({ contract_id }) => [contract_id]);
  return {
    candidates: [...locations.candidates, ...tokens.candidates],
    isWhole: locations.isWhole && tokens.isWhole,
  };
}

/** Refused pushes of objects that were never stored, by whichever partner, with this name or this id alone. [TRACE-RELATED-2] */
export async function refusedAs({ store }: Context, key: string) {
  const wanted = key.toLowerCase();
  const found = new Map<string, TraceCandidate>();
  const streams: string[] = [];
  let read = 0;
  let isWhole = true;
  for await (const { owner, id, data } of store.scan('refused')) {
    isWhole = read < rowsMax;
    if (!isWhole) break;
    read += 1;
    if (read % piece === 0) await nextTurn();
    const { object, module } = data as RefusedRecord;
    const name = object?.toLowerCase();
    if (object === null || module === null || (name !== wanted && !name?.endsWith(`/${wanted}`))) continue;
    found.set(`${module} ${name}`, { module, key: object });
    streams.push(refusedStream(owner, id));
  }
  return { streams, candidates: [...found.values()].slice(0, candidatesMax), isWhole };
}

async function withId(context: Context, module: ObjectModule, id: string): Promise<TraceCandidate[]> {
  const { store } = context;
  const owners = modules[module].isFoundById ? await ownersOf(store, module, id) : ownersIn(context, module);
  const keys = owners.flatMap((owner) =>
    typesOf(module).map((tokenType) => ({ owner, key: objectKey(module, id, { tokenType }) })),
  );
  const objects = await Promise.all(keys.map(({ owner, key }) => readObject(store, module, owner, key)));
  return objects.flatMap((object) => (object ? [{ module, key: objectName(object) }] : []));
}

function ownersIn({ directory }: Context, module: ObjectModule): PartyId[] {
  const all = [...directory.partners()].flatMap(({ roles }) => roles);
  return all.filter(({ role }) => role === modules[module].owner).map(keyOf);
}

/** Objects of a module whose body has this text as one of its `names`, in any case of letters. */
async function inside(
  { store }: Context,
  module: ObjectModule,
  id: string,
  names: (body: Record<string, unknown>) => unknown[],
): Promise<ById> {
  const wanted = id.toLowerCase();
  const candidates: TraceCandidate[] = [];
  let read = 0;
  for await (const row of store.scan(module)) {
    if (read === rowsMax || candidates.length === candidatesMax) return { candidates, isWhole: false };
    read += 1;
    if (read % piece === 0) await nextTurn();
    if (!row.body?.toLowerCase().includes(wanted)) continue;
    const isNamed = names(JSON.parse(row.body)).some((name) => String(name).toLowerCase() === wanted);
    if (isNamed) candidates.push({ module, key: objectName(objectFromRow(row)) });
  }
  return { candidates, isWhole: true };
}

function evseNames({ evses }: Record<string, unknown>): unknown[] {
  return Array.isArray(evses) ? evses.flatMap((evse) => [evse?.uid, evse?.evse_id]) : [];
}
