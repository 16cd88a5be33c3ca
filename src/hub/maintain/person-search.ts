/**
 * Finds the records of one person: the objects, other rows and events that name a token of the person, and the rows whose keys do.
 *
 * PERSON-SEARCH-1  Only an eMSP's own tokens say which uids a contract has, for that eMSP alone. A person by contract is the tokens
 *     with that contract, and the objects that state it; a session or CDR is of a token when it has the token's uid and its `cdr_token`, or else its viewer,
 *     is the token's eMSP. A person by uid is the tokens and objects with that uid, of any eMSP unless one is named.
 * PERSON-SEARCH-2  By uid, other tokens of the same contract keep their data; by contract all of its tokens are the person's.
 * PERSON-SEARCH-3  What a session, a CDR or a refused push states beside the person's name leads to no other record. It is replaced with the person's names,
 *     unless it is a name in a token of somebody else.
 * PERSON-SEARCH-4  A command, an authorization or what follows from one is the person's when it has one of the names, and, for a uid
 *     of certain eMSPs, when it is of one of these or names no eMSP.
 */
import type { RowKey, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { CommandRecord } from '../../domain/command.ts';
import { HubError } from '../../domain/errors.ts';
import { modules, type ObjectModule } from '../../domain/modules.ts';
import { streamOf } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import {
  type Emsps,
  emspsIn,
  type IsTheirs,
  isAmong,
  type Naming,
  nameMin,
  type Person,
  type Replacer,
  replacerOf,
  type TokenNames,
  theirs,
  tokensIn,
  tokensRefused,
} from '../../domain/person.ts';
import type { RefusedRecord } from '../../domain/report.ts';
import { unlessAborted } from '../../kit/concurrency.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { Context } from '../kernel/context.ts';
import { billedKind, endedKind, ownersKind } from '../kernel/row-codecs.ts';
import type { PartnerReports } from '../partners/reports.ts';
import { historyKinds } from './history.ts';
import { rowKinds } from './row-rebuild.ts';

/** Modules whose objects name tokens. */
const personal: readonly ObjectModule[] = ['tokens', 'sessions', 'cdrs'];
/** Kinds of the index rows of these objects. */
const indexKinds = [...personal.filter((module) => modules[module].isFoundById).map(ownersKind), billedKind];
/** Kinds of rows that name no person. */
export const impersonalKinds: readonly string[] = [
  ...['locations', ownersKind('locations'), 'tariffs', endedKind('tariffs'), ...historyKinds],
  ...['partners', 'directory', 'routes', 'webhooks', 'audit', 'backups'],
];
/** All others, besides objects and their indexes: a name may stand in them. */
export const otherKinds = rowKinds.filter((kind) => ![...personal, ...indexKinds, ...impersonalKinds].includes(kind));
/** Streams of facts that name no person: searching them would only replace equal texts of others. */
const impersonal = /^(?:locations\/|tariffs\/|partner:|route:|backup:|erasure:)/;
/** Limits of a page of the log, so that requests are served between two pages. */
const pageEvents = 200;
const pageCharacters = 1 << 19;
/** Work between two turns of the event loop. */
const turnMs = 10;
const runningStates: ReadonlySet<CommandRecord['state']> = new Set(['forwarding', 'awaiting', 'relaying']);

interface Known {
  /** Of the person's own tokens, and the given one: the eMSPs of each uid. [PERSON-SEARCH-1] */
  readonly emspsOf: ReadonlyMap<string, Emsps>;
  readonly linked: ReadonlySet<string>;
  readonly contracts: ReadonlySet<string>;
  readonly replacer: Replacer;
  /** Finds the names that are the person's at an eMSP; null: that is not known. [PERSON-SEARCH-4] */
  readonly at: (emsp: PartyId | null) => Replacer;
  readonly digests: readonly string[];
}

export interface Found extends Known {
  /** Events to rewrite, by stream, with the number of those that contain a name. */
  readonly events: ReadonlyMap<string, readonly Seq[]>;
  readonly named: number;
  /** Rows that contain a name, by the stream of their object; other rows under the empty stream. */
  readonly rows: ReadonlyMap<string, readonly RowKey[]>;
  /** Events that name a row which is renamed, by `nameOf` the row. */
  readonly touching: ReadonlyMap<string, Touching>;
  /** Number of tokens that an erasure removes, by eMSP. */
  readonly tokens: ReadonlyMap<PartyId, number>;
  readonly pending: number;
  readonly commands: number;
}

interface Touching {
  readonly key: RowKey;
  readonly stream: string;
  readonly seqs: Seq[];
}

/** A stored object, or an event of one, in which a name stands. */
interface Named extends Naming {
  readonly stream: string;
  readonly tokens: readonly TokenNames[];
  readonly touched: readonly RowKey[];
}

export class PersonSearch {
  readonly #context: Context;
  readonly #dispatcher: Dispatcher;
  readonly #reports: Pick<PartnerReports, 'flushAll'>;
  readonly #ending: AbortSignal;
  /** When the present turn of the event loop began, at the earliest; monotonic ms. */
  #begun = Number.NEGATIVE_INFINITY;

  /** `ending` ends every search. */
  constructor(
    context: Context,
    dispatcher: Dispatcher,
    reports: Pick<PartnerReports, 'flushAll'>,
    ending: AbortSignal,
  ) {
    this.#context = context;
    this.#dispatcher = dispatcher;
    this.#reports = reports;
    this.#ending = ending;
  }

  /** `before`: what an earlier round knew; its names are kept, because those links may be replaced by now. */
  async find(person: Person, before?: Known): Promise<Found> {
    await this.#reports.flushAll();
    const known = before ?? (await this.#known(person));
    const { replacer, at } = known;
    const isTheirs = theirs(person, known.emspsOf);
    const streams = new Set<string>();
    const others = new Set<string>();
    const billed = new Map<string, string>();
    for await (const { stream, touched, ...named } of this.#objects(replacer)) {
      (named.tokens.some((token) => isTheirs(token, named)) ? streams : others).add(stream);
      for (const key of touched) if (key.kind === billedKind) billed.set(nameOf(key), stream);
    }
    const foreign = new Set<string>();
    for (const kind of otherKinds) {
      for await (const row of this.#context.store.scan(kind)) {
        await this.#turn();
        const texts = [row.owner, row.id, JSON.stringify(row.data), row.body ?? ''];
        if (texts.some(replacer.finds) && !texts.some(at(emspOfRow(row)).finds)) foreign.add(nameOf(row));
      }
    }
    /** The stream in whose write a row is renamed, empty for those of no object; null for a row that keeps its name. */
    const renamedWith = (key: RowKey): string | null => {
      if (otherKinds.includes(key.kind)) return foreign.has(nameOf(key)) ? null : '';
      const stream = objectOf(key);
      if (stream === null || streams.has(stream)) return stream;
      // A CDR of a session that the hub does not have.
      const isOnlyBilled = key.kind === billedKind && !others.has(stream) && streams.has(billed.get(nameOf(key)) ?? '');
      return isOnlyBilled ? '' : null;
    };
    const events = new Map<string, Seq[]>();
    const touching = new Map<string, Touching>();
    const counts = { named: 0, pending: 0, commands: 0 };
    for await (const event of this.log()) {
      let isTouching = false;
      for (const key of event.touched ?? []) {
        const stream = replacer.finds(key.owner) || replacer.finds(key.id) ? renamedWith(key) : null;
        if (stream === null) continue;
        isTouching = true;
        const known = touching.get(nameOf(key)) ?? { key, stream, seqs: [] };
        touching.set(nameOf(key), known);
        known.seqs.push(event.seq);
      }
      const isObject = streams.has(event.stream);
      const isOthers = !isObject && (impersonal.test(event.stream) || isPersonal(event.stream));
      const isNamed = !isOthers && (isObject ? replacer : at(emspOfEvent(event))).findsAny(textsOf(event));
      if (isNamed || isTouching) counts.named += 1;
      if (isOthers || (!isNamed && !(isObject && event.to.length > 0))) continue;
      const seqs = events.get(event.stream) ?? [];
      events.set(event.stream, seqs);
      seqs.push(event.seq);
      if (isObject) counts.pending += await this.#owed(event);
    }
    const rows = new Map<string, RowKey[]>();
    const tokens = new Map<PartyId, number>();
    for (const kind of [...personal, ...indexKinds, ...otherKinds]) {
      for await (const row of this.#context.store.scan(kind)) {
        await this.#turn();
        const stream = renamedWith(row);
        if (stream === null) continue;
        if (![row.owner, row.id, JSON.stringify(row.data), row.body ?? ''].some(replacer.finds)) continue;
        const known = rows.get(stream) ?? [];
        rows.set(stream, known);
        known.push({ kind, owner: row.owner, id: row.id });
        if (kind === 'tokens') tokens.set(row.owner, (tokens.get(row.owner) ?? 0) + 1);
        if (kind === 'commands' && runningStates.has((row.data as CommandRecord).state)) counts.commands += 1;
      }
    }
    return { ...known, events, rows, touching, tokens, ...counts };
  }

  /** All names of the person. [PERSON-SEARCH-1, PERSON-SEARCH-2, PERSON-SEARCH-3] */
  async #known(person: Person): Promise<Known> {
    const { secrets } = this.#context.ports;
    const { party } = person;
    const [uid, contract] = [person.uid?.toLowerCase(), person.contract?.toLowerCase()];
    const given = [uid, contract].filter((name) => name !== undefined);
    if (given.some(({ length }) => length < nameMin)) {
      const message = `a name of fewer than ${nameMin} characters cannot be told from other text`;
      throw new HubError('invalid', { message });
    }
    const emspsOf = new Map<string, Emsps>(uid === undefined ? [] : [[uid, party === null ? null : new Set([party])]]);
    const isTheirs = theirs(person, emspsOf);
    const linked = new Set(uid === undefined ? [] : [uid]);
    const contracts = new Set(contract === undefined ? [] : [contract]);
    const own = new Map<string, Emsps>(emspsOf);
    if (contract !== undefined) own.set(contract, party === null ? null : new Set([party]));
    const stated = { uids: new Map<string, Emsps>(), others: new Map<string, Emsps>() };
    const statedContracts = new Set<string>();
    for await (const named of this.#objects(replacerOf(given, secrets.pseudonym))) {
      for (const token of named.tokens) {
        if (!isTheirs(token, named)) continue;
        const [name, at, visual] = [token.uid, token.contract, token.visual].map(usable);
        const isOwn = named.module === 'tokens';
        const emsps = isOwn ? [named.owner] : emspsIn(token, named);
        if (isOwn && name !== undefined) {
          linked.add(name);
          widen(emspsOf, name, emsps);
        }
        if (at !== undefined) (isOwn ? contracts : statedContracts).add(at);
        if (name !== undefined) widen(isOwn ? own : stated.uids, name, emsps);
        for (const other of [at, visual]) if (other !== undefined) widen(isOwn ? own : stated.others, other, emsps);
      }
    }
    await this.#withoutOthers(stated, isTheirs);
    for (const [name, emsps] of [...stated.uids, ...stated.others]) {
      if (own.has(name)) continue;
      own.set(name, emsps);
      if (statedContracts.has(name)) contracts.add(name);
    }
    const names = [...own.keys()];
    const replacer = replacerOf(names, secrets.pseudonym);
    const known = new Map<PartyId, Replacer>();
    const at = (emsp: PartyId | null): Replacer => {
      if (emsp === null) return replacer;
      const those = names.filter((name) => isAmong(own.get(name) ?? null, emsp));
      const one = known.get(emsp) ?? (those.length === names.length ? replacer : replacerOf(those, secrets.pseudonym));
      known.set(emsp, one);
      return one;
    };
    return { emspsOf, linked, contracts, replacer, at, digests: names.map(secrets.pseudonym) };
  }

  /** Removes from stated names those of somebody else's tokens. [PERSON-SEARCH-3] */
  async #withoutOthers({ uids, others }: Stated, isTheirs: IsTheirs): Promise<void> {
    const names = [...uids.keys(), ...others.keys()];
    if (names.length === 0) return;
    for await (const named of this.#stored(
      'tokens',
      replacerOf(names, (name) => name),
    )) {
      for (const token of named.tokens) {
        if (isTheirs(token, named)) continue;
        for (const name of [token.contract, token.visual]) others.delete(name?.toLowerCase() ?? '');
        const uid = token.uid?.toLowerCase() ?? '';
        if (uids.get(uid)?.has(named.owner)) uids.delete(uid);
      }
    }
  }

  /** The tokens in every stored object and event of one in which the replacer finds something. */
  async *#objects(replacer: Replacer): AsyncIterable<Named> {
    const viewers = new Map<string, readonly PartyId[]>();
    for (const module of personal) {
      for await (const named of this.#stored(module, replacer)) {
        viewers.set(named.stream, named.viewers);
        yield named;
      }
    }
    for await (const event of this.log()) {
      const { stream, type, data, body, to, touched = [] } = event;
      if (type === 'push.refused' && replacer.findsAny(textsOf(event))) yield refusedIn(event);
      if (!type.startsWith('object.') || !isPersonal(stream)) continue;
      if (!replacer.findsAny([stream, JSON.stringify(data), body ?? ''])) continue;
      const [module, owner] = stream.split('/') as [ObjectModule, PartyId];
      const tokens = tokensIn(module === 'tokens', data, body);
      yield { stream, module, owner, tokens, viewers: viewers.get(stream) ?? to, touched };
    }
  }

  async *#stored(module: ObjectModule, replacer: Replacer): AsyncIterable<Named> {
    for await (const { owner, id, data, body } of this.#context.store.scan(module)) {
      await this.#turn();
      if (!replacer.findsAny([id, JSON.stringify(data), body ?? ''])) continue;
      const { viewer } = data as { viewer?: PartyId | null };
      const tokens = tokensIn(module === 'tokens', data, body);
      yield {
        stream: streamOf(module, owner, id),
        module,
        owner,
        tokens,
        viewers: viewer ? [viewer] : [],
        touched: [],
      };
    }
  }

  /** The whole log, kept events included. */
  async *log(): AsyncIterable<StoredEvent> {
    for (let after: Seq = 0; ; ) {
      const query = { after, limit: pageEvents, size: pageCharacters, kept: true, withTouched: true } as const;
      const page = await unlessAborted(this.#ending, () => this.#context.store.read(query));
      for (const event of page) {
        await this.#turn();
        yield event;
      }
      const last = page.at(-1);
      if (!last) return;
      after = last.seq;
      await nextTurn();
    }
  }

  /** Gives way to requests after `turnMs` of work. */
  async #turn(): Promise<void> {
    const { clock } = this.#context.ports;
    if (clock.monotonic() - this.#begun < turnMs) return;
    await nextTurn();
    this.#ending.throwIfAborted();
    this.#begun = clock.monotonic();
  }

  /** How many deliveries of an event are still owed. */
  async #owed({ seq, to }: StoredEvent): Promise<number> {
    if (seq <= this.#context.store.horizon()) return 0;
    const standings = await Promise.all(to.map((receiver) => this.#dispatcher.standing(receiver, seq)));
    return standings.filter(({ state }) => state === 'PENDING').length;
  }
}

/** Names that sessions and CDRs state, and at which eMSPs. */
interface Stated {
  readonly uids: Map<string, Emsps>;
  readonly others: Map<string, Emsps>;
}

/** A name in lower case; undefined for one that is too short. */
const usable = (name: string | undefined): string | undefined =>
  name !== undefined && name.length >= nameMin ? name.toLowerCase() : undefined;

function widen(names: Map<string, Emsps>, name: string, emsps: readonly PartyId[]): void {
  const before = names.get(name);
  if (before !== null) names.set(name, new Set([...(before ?? []), ...emsps]));
}

/** What a refused push or command names is only stated, as by a session: it was never a token of its eMSP. */
function refusedIn({ stream, data, body }: StoredEvent): Named {
  const { module, object, partner } = data as RefusedRecord;
  const owner = object?.slice(0, object.indexOf('/')) ?? partner;
  const viewers = module === 'tokens' || module === null ? [owner] : [];
  return { stream, module: 'sessions', owner, tokens: tokensRefused(module, body), viewers, touched: [] };
}

const isPersonal = (stream: string): boolean => personal.some((module) => stream.startsWith(`${module}/`));

const textsOf = ({ stream, correlationId, data, body }: StoredEvent): string[] => [
  ...[stream, correlationId ?? '', JSON.stringify(data), body ?? ''],
];

/** The eMSP of whose token a record of no object is; null when it does not say. [PERSON-SEARCH-4] */
function emspOf(data: unknown, body: string | null): PartyId | null {
  const { emsp } = (data ?? {}) as { emsp?: unknown };
  if (typeof emsp === 'string') return emsp;
  return tokensIn(false, data, body).find(({ party }) => party !== undefined)?.party ?? null;
}

const emspOfRow = ({ kind, owner, data, body }: RowKey & Pick<StoredEvent, 'data' | 'body'>): PartyId | null =>
  kind === 'reservations' ? owner : emspOf(data, body);

function emspOfEvent({ stream, data, body }: StoredEvent): PartyId | null {
  const asked = /^authorize:(.*)$/.exec(stream)?.[1];
  return asked ?? emspOf(data, body);
}

export const nameOf = ({ kind, owner, id }: RowKey): string => JSON.stringify([kind, owner, id]);

/** The stream of the object that a row is, or to which an index row leads; null for other rows. */
function objectOf({ kind, owner, id }: RowKey): string | null {
  if (kind === billedKind) return streamOf('sessions', owner, id);
  const module = personal.find((one) => kind === one || kind === ownersKind(one));
  if (module === undefined) return null;
  return kind === module ? streamOf(module, owner, id) : streamOf(module, id, owner);
}
