/**
 * Traces an object or a request through the log: what arrived, what the hub decided and why, which receivers are owed
 * it, every attempt, and the reason in a sentence when nothing was forwarded.
 */
import type { Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import type { DeliveryView } from '../../api/deliveries.ts';
import type { RouteExplanation } from '../../api/routes.ts';
import type { TraceStep, TraceView } from '../../api/trace.ts';
import { HubError } from '../../domain/errors.ts';
import type { CommandEvent, HubEvent, ObjectEventData, OrphanKind } from '../../domain/events.ts';
import { isOwned, moduleNames, modules, type ObjectModule } from '../../domain/modules.ts';
import { objectKey, objectName, streamOf } from '../../domain/object.ts';
import type { keptReasons } from '../../domain/ownership.ts';
import { endpointOf, isRegistered, type PartyId } from '../../domain/party.ts';
import { type Quirk, type QuirksMet, quirks } from '../../domain/quirks.ts';
import type { RefusedRecord } from '../../domain/report.ts';
import { notRoutedTo } from '../../domain/routing.ts';
import { subjectOf } from '../../domain/subject.ts';
import { Limit } from '../../kit/concurrency.ts';
import { authorizeStream, noEmsp } from '../exchange/authorize.ts';
import type { Context } from '../kernel/context.ts';
import { isName } from '../kernel/row-codecs.ts';
import { type PartnerReports, refusalsOf, refusedStream } from '../partners/reports.ts';
import { candidatesFor, endsOf, refusedAs, relatedTo, typesOf } from './trace-related.ts';

/** Of the own events of an object or a request, the newest are shown: so many at most. */
const eventsMax = 10_000;
/** Deliveries of those events together: more would take too much memory. */
const deliveriesMax = 10_000;
/** Authorizations that are read at most for those of one token, an equal share of each eMSP's newest. */
const authorizationsRead = 20_000;
/** Deliveries that one trace looks up at the same time. */
const lookedUpAtOnce = 64;

type Reason =
  | (typeof keptReasons)[number]
  | 'pull only'
  | 'no routing rule'
  | 'not subscribed'
  | typeof notRoutedTo
  | 'unpublished'
  | 'pulled without forward';

/** Sentences for the domain's reasons why a change is owed to no receiver. [D23] */
const reasons: Readonly<Record<Reason, string>> = {
  'no routing rule': 'no active routing rule lets it through to anybody',
  'not subscribed': 'no routed eMSP has a receiver for the module: they read the list of the hub',
  [notRoutedTo]: 'its OCPI-to names a party that no active routing rule lets it through to',
  unpublished: 'the location has publish: false, so only its owner may see it',
  'cdr_token missing': 'it has no usable cdr_token, so nobody is known to own it',
  'cdr_token names no party': 'its cdr_token has no country_code and party_id, so nobody is known to own it',
  'names the hub': 'its cdr_token names the hub instead of the eMSP that owns it',
  'unknown eMSP': 'its cdr_token names a party that is not an eMSP of this hub',
  'not routed': 'its cdr_token names an eMSP that has no active routing rule with this CPO',
  'receiver not registered': 'the eMSP that owns it was not registered then',
  'pull only': 'its receiver is pull only: the hub never calls it, and it reads the lists of the hub',
  'pulled without forward': 'it was stored without being forwarded, as the operator asked',
};

type ViewDelivery = (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>;

/** `cursor`: only what goes on from the `next_cursor` of the answer before. Throws `notFound`. */
export async function traceOf(
  context: Context,
  reports: Pick<PartnerReports, 'flushAll'>,
  { key: asked, cursor }: { key: string; cursor: Seq | null },
  view: ViewDelivery,
): Promise<TraceView> {
  await reports.flushAll();
  const none = { asked, key: asked, candidates: [], steps: [], has_older: false, next_cursor: null };
  let key = asked;
  let own = isName(key) ? await (isObjectKey(key) ? objectEvents : requestEvents)(context, key) : [];
  if (own.length === 0 && !isObjectKey(key) && isName(key)) {
    const { candidates, isWhole } = await candidatesFor(context, key);
    const keys = new Set(candidates.map((candidate) => candidate.key));
    if (keys.size > 1) return { ...none, kind: 'candidates', candidates: [...candidates] };
    if (keys.size === 0 && !isWhole) throw unknown(context, key, 'locations and tokens');
    [key = asked] = keys;
    if (keys.size === 1) own = await objectEvents(context, key);
  }
  if (own.length === 0 && isName(key)) own = await authorizationsOf(context, key);
  if (own.length === 0 && isName(key)) {
    const { streams, candidates, isWhole } = await refusedAs(context, key);
    if (candidates.length > 1) return { ...none, kind: 'candidates', candidates };
    if (candidates.length === 0 && !isWhole) throw unknown(context, key, 'refused pushes');
    key = candidates[0]?.key ?? key;
    own = await recentOf(context.store, streams);
  }
  if (own.length === 0) throw unknown(context, key);
  const events = newestOf(own);
  const has_older = own.length > events.length;
  const lookUps = new Limit(lookedUpAtOnce);
  const viewInTurn: ViewDelivery = (event, receiver) => lookUps.run(() => view(event, receiver));
  if (!isObjectKey(key)) return { ...none, kind: 'correlation', steps: await stepsOf(events, viewInTurn), has_older };
  const { events: related, rest } = await relatedTo(context.store, events, cursor);
  const found = cursor === null ? [...events, ...related] : related;
  const ends = await endsOf(context.store, found, { lookUps, limit: eventsMax });
  const inOrder = [...found, ...ends].sort((a, b) => a.seq - b.seq);
  const next_cursor = rest === null ? null : String(rest);
  return { ...none, key, kind: 'object', steps: await stepsOf(inOrder, viewInTurn), has_older, next_cursor };
}

const isObjectKey = (key: string): boolean => /^[A-Za-z]{2}-[A-Za-z0-9]{1,3}\/./.test(key);

/** `unsearched`: of what more is stored than was searched. */
function unknown({ store }: Context, key: string, unsearched?: string): HubError {
  const horizon = store.horizon();
  const searched = unsearched ? `; not all ${unsearched} were searched for it` : '';
  const older = horizon > 0 ? `; events up to ${horizon} are older than what is kept` : '';
  return new HubError('notFound', { message: `nothing is known of ${key}${searched}${older}` });
}

/** The newest events within both limits, at least one. */
function newestOf(events: readonly StoredEvent[]): readonly StoredEvent[] {
  let deliveries = 0;
  const isBeyond = ({ to }: StoredEvent, index: number) => {
    deliveries += to.length;
    return deliveries > deliveriesMax || events.length - index > eventsMax;
  };
  return events.slice(Math.min(events.findLastIndex(isBeyond) + 1, events.length - 1));
}

const stepsOf = (events: readonly StoredEvent[], view: ViewDelivery): Promise<TraceStep[]> =>
  Promise.all(events.map((event) => stepOf(event, view)));

/** Newest events of a correlation id; when there are none, of the command or orphan case with this id. */
async function requestEvents({ store }: Context, key: string): Promise<StoredEvent[]> {
  const found = await store.correlated(key, eventsMax + 1);
  return found.length > 0 ? found : recentOf(store, [`command:${key}`, `orphan:${key}`]);
}

/** The newest events of these streams, oldest first: one more than `eventsMax` when there are more. */
async function recentOf(store: Store, streams: readonly string[]): Promise<StoredEvent[]> {
  let found: StoredEvent[] = [];
  for (const stream of streams) {
    found = [...found, ...(await store.recent(stream, eventsMax + 1))].sort((a, b) => a.seq - b.seq);
    found = found.slice(-eventsMax - 1);
  }
  return found;
}

async function objectEvents(context: Context, key: string): Promise<StoredEvent[]> {
  const { store } = context;
  const slash = key.indexOf('/');
  const owner = key.slice(0, slash).toUpperCase();
  const id = key.slice(slash + 1);
  const streams = moduleNames.flatMap((module) =>
    typesOf(module).map((tokenType) => streamOf(module, owner, objectKey(module, id, { tokenType }))),
  );
  const refused = await refusedPushes(context, owner, `${owner}/${id}`.toLowerCase());
  return recentOf(store, [...streams, ...refused]);
}

/** Streams of the refused pushes of an object, which its owner sent. */
async function refusedPushes(context: Context, owner: PartyId, object: string): Promise<string[]> {
  const partner = context.directory.partnerOf(owner);
  const rows = partner ? await refusalsOf(context, partner.id) : [];
  const ofObject = rows.filter(({ data }) => (data as RefusedRecord).object?.toLowerCase() === object);
  return ofObject.map((row) => refusedStream(row.owner, row.id));
}

/** The newest authorizations of a token that no eMSP pushed, by its uid or as `{cc}-{pid}/{uid}`: what else is known of it. [D78] */
async function authorizationsOf({ store, directory }: Context, key: string): Promise<StoredEvent[]> {
  const uid = key.slice(isObjectKey(key) ? key.indexOf('/') + 1 : 0).toLowerCase();
  const known = [...directory.parties()].filter((party) => directory.party(party, 'EMSP'));
  const emsps = isObjectKey(key) ? [key.slice(0, key.indexOf('/')).toUpperCase()] : [...known, noEmsp];
  const limit = Math.max(1, Math.floor(authorizationsRead / emsps.length));
  const found: StoredEvent[] = [];
  for (const emsp of emsps) {
    for (const event of await store.recent(authorizeStream(emsp), limit))
      if ((event.data as { uid: string }).uid.toLowerCase() === uid) found.push(event);
  }
  return found.sort((a, b) => a.seq - b.seq);
}

async function stepOf(event: StoredEvent, view: ViewDelivery): Promise<TraceStep> {
  const { at, type, party, correlationId: correlation_id } = event;
  const data = event.type.startsWith('object.') ? (event.data as ObjectEventData) : null;
  const refused = event.type === 'push.refused' ? (event.data as RefusedRecord) : null;
  return {
    seq: event.seq,
    at,
    type,
    about: subjectOf(event, () => []).about,
    party,
    correlation_id,
    module: (data ?? refused)?.module ?? null,
    object: refused ? refused.object : data && objectName(data),
    summary: summaryOf(event),
    // A reason that only another version knows has no sentence here.
    not_forwarded: data?.reason ? (reasons[data.reason as Reason] ?? data.reason) : null,
    warnings: [...(data?.warnings ?? []), ...unsubscribed(data)],
    quirks: quirksOf(event),
    deliveries: await Promise.all(event.to.map((receiver) => view(event, receiver))),
  };
}

/** The habits that the hub made up for in this step, with the sentence of each. [D70] */
function quirksOf({ data: of }: StoredEvent): TraceStep['quirks'] {
  const data = (of ?? {}) as { readonly quirks?: QuirksMet } & Partial<Pick<ObjectEventData, 'unsubscribed'>>;
  const parties = new Map<Quirk, PartyId[]>();
  const met = Object.entries(data.quirks ?? {}).flatMap(([party, names]) => names.map((name) => ({ party, name })));
  const unsubscribed = (data.unsubscribed ?? []).map((party) => ({ party, name: 'not-subscribed' as const }));
  for (const { party, name } of [...met, ...unsubscribed]) parties.set(name, [...(parties.get(name) ?? []), party]);
  // A name that only another version knows has no sentence here.
  return [...parties].map(([quirk, of]) => ({ quirk, parties: of, says: quirks[quirk] ?? '' }));
}

/** Says to whom nothing is owed although it is routed. [D60] */
function unsubscribed(data: ObjectEventData | null): string[] {
  const parties = data?.unsubscribed ?? [];
  return parties.length === 0 ? [] : [`not sent to ${parties.join(', ')}: no ${data?.module} receiver`];
}

/** One sentence that says what happened. */
function summaryOf(stored: StoredEvent): string {
  const event = { type: stored.type, data: stored.data } as HubEvent;
  switch (event.type) {
    case 'object.put':
    case 'object.patched':
    case 'object.deleted': {
      const { by, method, module, id, within } = event.data;
      const object = `${module} ${[id, ...within].join('/')}`;
      const owedTo = stored.to.length === 0 ? 'no receiver' : `owed to ${stored.to.join(', ')}`;
      const isPulled = by === 'hub' && stored.party !== null;
      if (isPulled && method === 'DELETE')
        return `the list of ${stored.party}, which the hub pulled, lacks ${object}: deleted, ${owedTo}`;
      if (isPulled) return `the hub pulled ${object} from ${stored.party}: stored, ${owedTo}`;
      return `${stored.party ?? 'the hub'} sent ${method} ${object}: stored, ${owedTo}`;
    }
    case 'object.base':
      return `${event.data.module} ${event.data.id} stood so; what had made it is older than what is kept`;
    case 'object.resent': {
      const { by, module, id, method } = event.data;
      const what = `${method === modules[module].whole ? '' : 'the end of '}${module} ${id}`;
      return by === 'hub'
        ? `${what} was kept for ${stored.to.join(', ')}, and was sent when it registered`
        : `${what} was sent to ${stored.to.join(', ')} as an operator asked`;
    }
    case 'object.missed': {
      const { by, module, id, receiver = 'a receiver' } = event.data;
      const what = by
        ? `${module} ${id} was put back for ${receiver}`
        : `a change of ${module} ${id} never reached ${receiver}`;
      return `${what}: the next one goes to it as a whole`;
    }
    case 'push.refused': {
      const { method, path, reason, count } = event.data;
      return `${stored.party} sent ${method} ${path}: refused${count > 1 ? `, ${count} times so far` : ''}: ${reason}`;
    }
    case 'command.requested':
      return `${event.data.emsp} asked for ${event.data.command} at ${event.data.cpo}`;
    case 'token.authorized':
      return `${event.data.from} asked ${event.data.to || 'nobody'} to authorize a token: ${event.data.allowed}, ${event.data.outcome}`;
    case 'delivery.dead':
      return `the delivery ${event.data.delivery} is dead: ${event.data.class}, ${event.data.reason}`;
    case 'delivery.redriven':
      return `the delivery ${event.data.delivery} was put back into its lane`;
    case 'delivery.discarded':
      return `the dead letter ${event.data.delivery} was discarded`;
    case 'orphan.armed':
      return `the hub awaits ${awaited[event.data.kind]} of session ${event.data.session} until ${event.data.graceEndsAt}`;
    case 'orphan.disarmed':
      return `no orphan case: ${event.data.reason}`;
    case 'orphan.opened':
      return `an orphan case was opened: ${event.data.kind ? `${awaited[event.data.kind]} did not come` : 'what was awaited did not come'}`;
    case 'orphan.pulled':
      return `the CPO was asked: ${event.data.note}`;
    case 'orphan.resolved':
      return `the orphan case was resolved: ${event.data.note}`;
    default:
      return event.type.startsWith('command.') ? commandSummary(event as CommandEvent) : stored.type.replace('.', ' ');
  }
}

const awaited: Readonly<Record<OrphanKind, string>> = {
  stop_without_complete: 'the end',
  complete_without_cdr: 'the CDR',
};

function commandSummary({ type, data }: CommandEvent): string {
  const words: Record<string, unknown> = data;
  const what = type.slice('command.'.length).replace(/([A-Z])/g, (letter) => ` ${letter.toLowerCase()}`);
  return ['the command:', what, words.result, words.reason].filter(Boolean).join(' ');
}

/** Explains routing: every condition for a delivery of a module from one party to another, and whether it holds. */
export function explain({ directory }: Context, from: PartyId, to: PartyId, module: ObjectModule): RouteExplanation {
  const sender = from.toUpperCase();
  const receiver = to.toUpperCase();
  const senderRole = modules[module].owner;
  const receiverRole = senderRole === 'CPO' ? 'EMSP' : 'CPO';
  const [emsp, cpo] = senderRole === 'CPO' ? [receiver, sender] : [sender, receiver];
  const partner = directory.partnerOf(receiver);
  const endpoint = partner && endpointOf(partner, module, 'RECEIVER');
  const condition = (holds: boolean, yes: string, no: string) => ({ holds, because: holds ? yes : no });
  const conditions = [
    condition(
      directory.party(sender, senderRole) !== undefined,
      `${sender} is known as ${senderRole}`,
      `${sender} is not known as ${senderRole}, and only such a party sends ${module}`,
    ),
    condition(
      directory.party(receiver, receiverRole) !== undefined,
      `${receiver} is known as ${receiverRole}`,
      `${receiver} is not known as ${receiverRole}, and only such a party receives ${module}`,
    ),
    condition(
      directory.isRouted(emsp, cpo),
      `an active routing rule joins ${emsp} and ${cpo}`,
      `no active routing rule joins ${emsp} and ${cpo}`,
    ),
    condition(
      partner !== undefined && isRegistered(partner),
      `${receiver} has exchanged credentials`,
      `${receiver} has not exchanged credentials, or has unregistered: nothing is owed to it`,
    ),
    ...(partner?.settings.pull_only
      ? [condition(false, '', `${receiver} is pull only: it reads lists, and nothing is owed to it`)]
      : []),
    condition(
      endpoint !== undefined,
      `${receiver} receives ${module} at ${endpoint?.url} (${endpoint?.source})`,
      isOwned(module) || module === 'tokens'
        ? `${receiver} has no RECEIVER endpoint for ${module}: deliveries would be dead at once`
        : `${receiver} has no RECEIVER endpoint for ${module}: it is not subscribed, and nothing is owed to it`,
    ),
    condition(
      partner?.settings.paused !== true,
      'deliveries to it are not paused',
      `deliveries to ${receiver} are paused by an operator and wait`,
    ),
  ];
  return { from: sender, to: receiver, module, delivers: conditions.every(({ holds }) => holds), conditions };
}
