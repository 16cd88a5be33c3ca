/**
 * Finds what belongs to the story of an object beside its own events: the commands, authorizations, CDRs and orphan cases
 * of a session, and the authorizations of a token; and the ends and re-drives of the deliveries of both. [D78]
 *
 * TRACE-RELATED-1  One answer searches a bounded part of the log [LOG-WALK-1]; its cursor says where the next one goes on.
 */
import type { Range, Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import {
  type CommandNamed,
  deliveryId,
  type HubEvent,
  type ObjectEventData,
  type OrphanNamed,
} from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Limit } from '../../kit/concurrency.ts';
import { logSpan, moved } from '../kernel/log-span.ts';
import { LogWalk } from './log-walk.ts';

/** Longest time from a command to the first event of its session, ms. */
const beforeMs = 3_600_000;
/** Longest time from an event that names only the token to the first event of its session, ms. */
const soonMs = 600_000;
/** Longest time from the last event of a session to its CDR or the end of its case, ms. */
const afterMs = 48 * 3_600_000;

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
