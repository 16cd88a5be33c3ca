/**
 * Exports and erases the data of one person, who is given by a token's uid or by a contract id.
 *
 * PERSONS-1  Erasing replaces the uids, contract ids and visual numbers of the person's tokens with keyed digests: in
 *     the log, in rows, in what is remembered of deliveries, in the reports of this node. Nothing else of a session or CDR changes, so lists, totals
 *     and the verification of the log hold.
 * PERSONS-2  A token itself is removed, with an event that names its digest only. The event of the erasure has digests
 *     only.
 * PERSONS-3  Erasing is refused while a command of the person runs, and, unless forced, while a delivery is owed.
 * PERSONS-4  Each object is rewritten in its own turn and in one write. A row whose key names the person is renamed in one write with
 *     every event that says of its commit that it wrote that row. Erasing again after a crash or an error ends what
 *     was begun, because digests depend only on names and key.
 * PERSONS-5  By uid, other tokens of the same contract keep their data; by contract all of its tokens are erased.
 */
import type { Row, RowKey, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { EventView } from '../../api/events.ts';
import type { ErasureView, SubjectView } from '../../api/persons.ts';
import type { CommandRecord } from '../../domain/command.ts';
import { HubError } from '../../domain/errors.ts';
import { isModule, modules, type ObjectModule } from '../../domain/modules.ts';
import { streamOf } from '../../domain/object.ts';
import { nameMin, type Person, type Replacer, replacerOf, type TokenNames, tokensIn } from '../../domain/person.ts';
import type { Trace } from '../../domain/trace.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { Context } from '../kernel/context.ts';
import { billedKind, ownersKind } from '../kernel/row-codecs.ts';
import type { PartnerReports } from '../partners/reports.ts';
import type { PersonVerbs } from '../ports/operator.ts';
import { removalOf } from './removal.ts';

/** Modules whose objects name tokens. */
const personal: readonly ObjectModule[] = ['tokens', 'sessions', 'cdrs'];
/** Kinds of the index rows of these objects. */
const indexKinds = [...personal.filter((module) => modules[module].isFoundById).map(ownersKind), billedKind];
/** Kinds of rows, besides objects and their indexes, in which a name may stand. */
const otherKinds = [
  ...['commands', 'starts:uid', 'starts:reference', 'reservations', 'reservations:made', 'quarantine'],
  ...['jobs', 'orphans', 'pulls', 'refused', 'reports', 'triage', 'views'],
];
/** Streams of facts that name no person: searching them would only replace equal texts of others. */
const impersonal = /^(?:locations\/|tariffs\/|partner:|route:|backup:|erasure:)/;
/** Limits of a page of the log, so that requests are served between two pages. */
const pageEvents = 200;
const pageCharacters = 1 << 19;
/** Events of different streams, or rows, that are rewritten in one write. */
const unitEvents = 64;
/** Rounds of searching and rewriting: pushes that arrive meanwhile may bring a name again. */
const roundsMax = 3;
const runningStates: ReadonlySet<CommandRecord['state']> = new Set(['forwarding', 'awaiting', 'relaying']);

interface Found {
  readonly uids: ReadonlySet<string>;
  readonly contracts: ReadonlySet<string>;
  readonly replacer: Replacer;
  readonly digests: readonly string[];
  /** Events to rewrite, by stream, with the number of those that contain a name. */
  readonly events: ReadonlyMap<string, readonly Seq[]>;
  readonly named: number;
  /** Rows that contain a name, by the stream of their object; other rows under the empty stream. */
  readonly rows: ReadonlyMap<string, readonly RowKey[]>;
  /** Events that name a row which is renamed, by `nameOf` the row. */
  readonly touching: ReadonlyMap<
    string,
    { readonly key: RowKey; readonly stream: string; readonly seqs: readonly Seq[] }
  >;
  readonly tokens: number;
  readonly pending: number;
  readonly commands: number;
}

export class Persons implements PersonVerbs {
  readonly #context: Context;
  readonly #dispatcher: Dispatcher;
  readonly #reports: Pick<PartnerReports, 'flushAll'>;
  readonly #shown: (event: StoredEvent) => EventView;
  #erasing: Promise<unknown> | null = null;
  #closed = false;

  /** `shown`: an event as operators see it. */
  constructor(
    context: Context,
    dispatcher: Dispatcher,
    reports: Pick<PartnerReports, 'flushAll'>,
    shown: (event: StoredEvent) => EventView,
  ) {
    this.#context = context;
    this.#dispatcher = dispatcher;
    this.#reports = reports;
    this.#shown = shown;
  }

  async subject(person: Person): Promise<SubjectView> {
    const { store } = this.#context;
    const { uids, contracts, events: found, rows: keys } = await this.#find(person);
    const wanted = new Set([...found.values()].flat());
    const events: SubjectView['events'][number][] = [];
    for await (const event of this.#log()) {
      if (wanted.has(event.seq)) events.push({ ...this.#shown(event), body: event.body });
    }
    const rows = await Promise.all([...keys.values()].flat().map((key) => store.get(key)));
    return {
      uids: [...uids],
      contracts: [...contracts],
      events,
      rows: rows.flatMap((row) => (row ? [shownRow(row)] : [])),
    };
  }

  async erase(person: Person, options: { force: boolean; dryRun: boolean }, trace: Trace): Promise<ErasureView> {
    if (this.#erasing) throw new HubError('conflict', { message: 'another erasure is running' });
    const erasing = this.#erase(person, options, trace).finally(() => {
      this.#erasing = null;
    });
    this.#erasing = erasing;
    return erasing;
  }

  /** Stops a running erasure after the present page or object. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#erasing?.catch(() => {});
  }

  async #erase(person: Person, { force, dryRun }: { force: boolean; dryRun: boolean }, trace: Trace) {
    const { recorder, ports, store } = this.#context;
    await this.#dispatcher.flushed();
    const found = await this.#find(person);
    const { digests, named: events, tokens, pending } = found;
    const rows = [...found.rows.values()].flat().length;
    const id = ports.secrets.newId();
    const view = { id, at: recorder.instant(), digests, events, rows, tokens, pending, until_restart: [] };
    if (dryRun) return { ...view, state: 'PLANNED' as const };
    if (found.commands > 0)
      throw new HubError('conflict', { message: `${found.commands} commands of this person have not ended yet` });
    if (pending > 0 && !force) {
      const message = `${pending} deliveries of this person's data are still owed and would carry digests`;
      throw new HubError('conflict', { message });
    }
    await this.#rewriteAll(person, found);
    const removed = await this.#removeTokens(found, trace);
    const until_restart = [...(await store.reclaim(found.replacer.finds))];
    const erased: ErasureView = { ...view, tokens: removed, until_restart, state: 'DONE' };
    await recorder.record({
      facts: [{ stream: `erasure:${id}`, event: { type: 'person.erased', data: erased }, party: null }],
      trace,
      at: erased.at,
    });
    ports.log.info({ erasure: id, events, rows, tokens: removed }, 'the data of a person was erased');
    return erased;
  }

  async #rewriteAll(person: Person, found: Found): Promise<void> {
    // Deliveries in memory, and those that come meanwhile, are attempted now and later.
    const ended = this.#dispatcher.beginErasure(found.replacer);
    try {
      await this.#dispatcher.flushed();
      for (let round = 1, left = found; left.named > 0 || left.rows.size > 0; round += 1) {
        await this.#rewrite(left);
        if (round === roundsMax) break;
        left = await this.#find(person, found);
      }
    } finally {
      ended(this.#context.store.head());
    }
  }

  /** [PERSONS-4] */
  async #rewrite({ events, rows, touching, replacer }: Found): Promise<void> {
    const { store, recorder } = this.#context;
    const write = async (seqs: readonly Seq[], keys: readonly RowKey[]): Promise<void> => {
      const fence = store.held();
      if (this.#closed || !fence) throw new HubError('unavailable', { retryAfterS: 1 });
      const renamed = new Set(keys.map(nameOf));
      const key = (row: RowKey) => (renamed.has(nameOf(row)) ? renamedKey(row, replacer) : row);
      const heads = new Set([...renamed].flatMap((name) => touching.get(name)?.seqs ?? []));
      for (const seq of seqs) heads.delete(seq);
      await store.rewrite({ fence, events: seqs, heads: [...heads], rows: keys, key, text: replacer.inText });
      await nextTurn();
    };
    const keys = new Map([...rows].map(([stream, all]) => [stream, new Map(all.map((key) => [nameOf(key), key]))]));
    for (const [name, { key, stream }] of touching) {
      keys.set(stream, (keys.get(stream) ?? new Map<string, RowKey>()).set(name, key));
    }
    const isObject = (stream: string): boolean => isModule(stream.slice(0, stream.indexOf('/')));
    for (const stream of new Set([...events.keys(), ...keys.keys()])) {
      if (isObject(stream))
        await recorder.inTurn(stream, () => write(events.get(stream) ?? [], [...(keys.get(stream)?.values() ?? [])]));
    }
    const others = [...events].flatMap(([stream, seqs]) => (isObject(stream) ? [] : seqs));
    for (let from = 0; from < others.length; from += unitEvents) await write(others.slice(from, from + unitEvents), []);
    const otherRows = [...(keys.get('')?.values() ?? [])];
    for (let from = 0; from < otherRows.length; from += unitEvents)
      await write([], otherRows.slice(from, from + unitEvents));
  }

  /** [PERSONS-2] */
  async #removeTokens({ uids }: Found, trace: Trace): Promise<number> {
    const { store, recorder, ports } = this.#context;
    const digests = new Set([...uids].map((uid) => ports.secrets.pseudonym(uid)));
    const rows: Row[] = [];
    for await (const row of store.scan('tokens'))
      if (digests.has(row.id.slice(0, row.id.lastIndexOf('/')))) rows.push(row);
    for (const row of rows) {
      const { fact, puts } = removalOf(row, 'erased', 'operator');
      await recorder.record({ facts: [fact], puts, trace, at: recorder.instant() });
    }
    return rows.length;
  }

  /** `before`: what an earlier round knew; its names are kept, because those links may be replaced by now. */
  async #find(person: Person, before?: Pick<Found, 'uids' | 'contracts' | 'replacer' | 'digests'>): Promise<Found> {
    await this.#reports.flushAll();
    const known = before ?? (await this.#known(person));
    const { uids, replacer } = known;
    const contract = person.contract?.toLowerCase();
    const isTheirs = (token: TokenNames): boolean =>
      (token.uid !== undefined && uids.has(token.uid.toLowerCase())) ||
      (contract !== undefined && token.contract?.toLowerCase() === contract);
    const streams = new Set<string>();
    const others = new Set<string>();
    const billed = new Map<string, string>();
    for await (const { stream, tokens, touched } of this.#objects(replacer)) {
      (tokens.some(isTheirs) ? streams : others).add(stream);
      for (const key of touched) if (key.kind === billedKind) billed.set(nameOf(key), stream);
    }
    /** The stream in whose write a row is renamed, empty for those of no object; null for a row that keeps its name. */
    const renamedWith = (key: RowKey): string | null => {
      if (otherKinds.includes(key.kind)) return '';
      const stream = objectOf(key);
      if (stream === null || streams.has(stream)) return stream;
      // A CDR of a session that the hub does not have.
      const isOnlyBilled = key.kind === billedKind && !others.has(stream) && streams.has(billed.get(nameOf(key)) ?? '');
      return isOnlyBilled ? '' : null;
    };
    const isInKey = ({ owner, id }: RowKey) => replacer.finds(owner) || replacer.finds(id);
    const events = new Map<string, Seq[]>();
    const touching = new Map<string, { key: RowKey; stream: string; seqs: Seq[] }>();
    const counts = { named: 0, pending: 0, tokens: 0, commands: 0 };
    for await (const event of this.#log()) {
      let isTouching = false;
      for (const key of event.touched ?? []) {
        const stream = isInKey(key) ? renamedWith(key) : null;
        if (stream === null) continue;
        isTouching = true;
        const known = touching.get(nameOf(key)) ?? { key, stream, seqs: [] };
        touching.set(nameOf(key), known);
        known.seqs.push(event.seq);
      }
      const isObject = streams.has(event.stream);
      const isOthers =
        !isObject &&
        (impersonal.test(event.stream) || personal.some((module) => event.stream.startsWith(`${module}/`)));
      const isNamed =
        isTouching ||
        (!isOthers &&
          [event.stream, event.correlationId ?? '', JSON.stringify(event.data), event.body ?? ''].some(replacer.finds));
      if (isNamed) counts.named += 1;
      if (isOthers || (!isNamed && !(isObject && event.to.length > 0))) continue;
      events.set(event.stream, [...(events.get(event.stream) ?? []), event.seq]);
      if (isObject) counts.pending += await this.#owed(event);
    }
    const rows = new Map<string, RowKey[]>();
    for (const kind of [...personal, ...indexKinds, ...otherKinds]) {
      for await (const row of this.#context.store.scan(kind)) {
        const stream = renamedWith(row);
        if (stream === null) continue;
        if (![row.owner, row.id, JSON.stringify(row.data), row.body ?? ''].some(replacer.finds)) continue;
        rows.set(stream, [...(rows.get(stream) ?? []), { kind, owner: row.owner, id: row.id }]);
        if (kind === 'tokens') counts.tokens += 1;
        if (kind === 'commands' && runningStates.has((row.data as CommandRecord).state)) counts.commands += 1;
      }
    }
    return { ...known, events, rows, touching, ...counts };
  }

  /** All names of the person: those of the tokens that have the given one. [PERSONS-5] */
  async #known(person: Person) {
    const { secrets } = this.#context.ports;
    const [uid, contract] = [person.uid?.toLowerCase(), person.contract?.toLowerCase()];
    const given = [uid, contract].filter((name) => name !== undefined);
    if (given.some(({ length }) => length < nameMin)) {
      const message = `a name of fewer than ${nameMin} characters cannot be told from other text`;
      throw new HubError('invalid', { message });
    }
    const uids = new Set(uid === undefined ? [] : [uid]);
    const contracts = new Set(contract === undefined ? [] : [contract]);
    const visuals = new Set<string>();
    for await (const { tokens } of this.#objects(replacerOf(given, secrets.pseudonym))) {
      for (const token of tokens) {
        const [tokenUid, tokenContract] = [token.uid?.toLowerCase(), token.contract?.toLowerCase()];
        const isTheirs = tokenUid !== undefined && tokenUid === uid;
        if (!isTheirs && (tokenContract === undefined || tokenContract !== contract)) continue;
        for (const [names, name] of [
          [uids, tokenUid],
          [contracts, tokenContract],
          [visuals, token.visual?.toLowerCase()],
        ] as const)
          if (name !== undefined && name.length >= nameMin) names.add(name);
      }
    }
    const names = new Set([...uids, ...contracts, ...visuals]);
    const replacer = replacerOf(names, secrets.pseudonym);
    return { uids, contracts, replacer, digests: [...names].map(secrets.pseudonym) };
  }

  /** The tokens in every stored object and event of one in which the replacer finds something. */
  async *#objects(
    replacer: Replacer,
  ): AsyncIterable<{ stream: string; tokens: readonly TokenNames[]; touched: readonly RowKey[] }> {
    for (const module of personal) {
      for await (const row of this.#context.store.scan(module)) {
        if (![row.id, JSON.stringify(row.data), row.body ?? ''].some(replacer.finds)) continue;
        yield {
          stream: streamOf(module, row.owner, row.id),
          tokens: tokensIn(module === 'tokens', row.data, row.body),
          touched: [],
        };
      }
    }
    for await (const { stream, type, data, body, touched = [] } of this.#log()) {
      if (!type.startsWith('object.') || !personal.some((module) => stream.startsWith(`${module}/`))) continue;
      if (![stream, JSON.stringify(data), body ?? ''].some(replacer.finds)) continue;
      yield { stream, tokens: tokensIn(stream.startsWith('tokens/'), data, body), touched };
    }
  }

  /** The whole log, kept events included. */
  async *#log(): AsyncIterable<StoredEvent> {
    for (let after: Seq = 0; ; ) {
      if (this.#closed) throw new HubError('unavailable', { retryAfterS: 1 });
      const query = { after, limit: pageEvents, size: pageCharacters, kept: true, withTouched: true } as const;
      const page = await this.#context.store.read(query);
      yield* page;
      const last = page.at(-1);
      if (!last) return;
      after = last.seq;
      await nextTurn();
    }
  }

  /** How many deliveries of an event are still owed. */
  async #owed({ seq, to }: StoredEvent): Promise<number> {
    if (seq <= this.#context.store.horizon()) return 0;
    const standings = await Promise.all(to.map((receiver) => this.#dispatcher.standing(receiver, seq)));
    return standings.filter(({ state }) => state === 'PENDING').length;
  }
}

const nameOf = ({ kind, owner, id }: RowKey): string => JSON.stringify([kind, owner, id]);

const renamedKey = ({ kind, owner, id }: RowKey, { inName }: Replacer): RowKey => ({
  kind,
  owner: inName(owner),
  id: inName(id),
});

/** The stream of the object that a row is, or to which an index row leads; null for other rows. */
function objectOf({ kind, owner, id }: RowKey): string | null {
  if (kind === billedKind) return streamOf('sessions', owner, id);
  const module = personal.find((one) => kind === one || kind === ownersKind(one));
  if (module === undefined) return null;
  return kind === module ? streamOf(module, owner, id) : streamOf(module, id, owner);
}

const shownRow = ({ kind, owner, id, data, body }: Row): SubjectView['rows'][number] => ({
  kind,
  owner,
  id,
  data,
  body,
});
