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
 * PERSONS-5  The last search comes after a change of the row `directory` behind the rewrites: a decision of another node that has read a
 *     name before them is refused and made again (RECORDER-5), and doors have written the reports that they held in memory.
 */
import type { Row, RowKey, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { EventView } from '../../api/events.ts';
import type { ErasureView, SubjectView } from '../../api/persons.ts';
import { HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import { isModule } from '../../domain/modules.ts';
import { isAmong, type Person, type Replacer } from '../../domain/person.ts';
import { unlessAborted } from '../../kit/concurrency.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { Context } from '../kernel/context.ts';
import { directoryKey } from '../kernel/directory.ts';
import type { PartnerReports } from '../partners/reports.ts';
import type { PersonVerbs } from '../ports/operator.ts';
import { removalOf } from './expiry.ts';
import { type Found, nameOf, PersonSearch } from './person-search.ts';
import type { Retention } from './retention.ts';

/** Events of different streams, or rows, that are rewritten in one write. */
const unitEvents = 64;
/** Rounds of searching and rewriting: pushes that arrive meanwhile may bring a name again. */
const roundsMax = 3;

export class Persons implements PersonVerbs {
  readonly #context: Context;
  readonly #dispatcher: Dispatcher;
  readonly #retention: Pick<Retention, 'between'>;
  readonly #shown: (event: StoredEvent) => EventView;
  readonly #search: PersonSearch;
  #erasing: Promise<unknown> | null = null;
  readonly #ending = new AbortController();

  /** `shown`: an event as operators see it. */
  constructor(
    context: Context,
    dispatcher: Dispatcher,
    reports: Pick<PartnerReports, 'flushAll'>,
    retention: Pick<Retention, 'between'>,
    shown: (event: StoredEvent) => EventView,
  ) {
    this.#context = context;
    this.#dispatcher = dispatcher;
    this.#retention = retention;
    this.#shown = shown;
    this.#search = new PersonSearch(context, dispatcher, reports, this.#ending.signal);
  }

  async subject(person: Person): Promise<SubjectView> {
    const { store } = this.#context;
    const { linked, contracts, events: found, rows: keys } = await this.#search.find(person);
    const wanted = new Set([...found.values()].flat());
    const events: SubjectView['events'][number][] = [];
    for await (const event of this.#search.log()) {
      if (wanted.has(event.seq)) events.push({ ...this.#shown(event), body: event.body });
    }
    const rows = await Promise.all([...keys.values()].flat().map((key) => store.get(key)));
    return {
      uids: [...linked],
      contracts: [...contracts],
      events,
      rows: rows.flatMap((row) => (row ? [shownRow(row)] : [])),
    };
  }

  async erase(person: Person, options: { force: boolean; dryRun: boolean }, trace: Trace): Promise<ErasureView> {
    if (this.#erasing) throw new HubError('conflict', { message: 'another erasure is running' });
    const erase = () => this.#erase(person, options, trace);
    const erasing = this.#retention.between(erase).finally(() => {
      this.#erasing = null;
    });
    this.#erasing = erasing;
    return erasing;
  }

  /** Stops a running erasure after the present page or object. It waits no longer for the store. */
  async close(): Promise<void> {
    this.#ending.abort(new HubError('unavailable', { retryAfterS: 1 }));
    await this.#erasing?.catch(() => {});
  }

  async #erase(person: Person, { force, dryRun }: { force: boolean; dryRun: boolean }, trace: Trace) {
    const { recorder, ports, store } = this.#context;
    await this.#dispatcher.flushed();
    const found = await this.#search.find(person);
    const { digests, named: events, tokens: ofEmsp, pending } = found;
    const tokens_of = [...ofEmsp].map(([emsp, tokens]) => ({ emsp, tokens }));
    const tokens = tokens_of.reduce((sum, one) => sum + one.tokens, 0);
    const rows = [...found.rows.values()].flat().length;
    const id = ports.secrets.newId();
    const view = { id, at: recorder.instant(), digests, events, rows, tokens, tokens_of, pending, until_restart: [] };
    if (dryRun) return { ...view, state: 'PLANNED' as const };
    if (found.commands > 0)
      throw new HubError('conflict', { message: `${found.commands} commands of this person have not ended yet` });
    if (pending > 0 && !force) {
      const message = `${pending} deliveries of this person's data are still owed and would carry digests`;
      throw new HubError('conflict', { message });
    }
    await this.#rewriteAll(person, found);
    const removed = await this.#removeTokens(found, trace);
    const until_restart = [...(await unlessAborted(this.#ending.signal, () => store.reclaim(found.replacer.finds)))];
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
      for (let round = 1, left = found; ; round += 1) {
        await this.#rewrite(left);
        await this.#renewDecisions();
        if (round === roundsMax) break;
        left = await this.#search.find(person, found);
        if (left.named === 0 && left.rows.size === 0) break;
      }
    } finally {
      ended(this.#context.store.head());
      this.#context.contacts.rewrite(found.replacer.inName);
    }
  }

  /** [PERSONS-5] */
  async #renewDecisions(): Promise<void> {
    const { recorder } = this.#context;
    const { kind, owner, id } = directoryKey;
    const fact = {
      stream: `repair:${kind}`,
      event: { type: 'row.rebuilt', data: { kind, owner, id } },
      party: null,
    } as const;
    await recorder.recordDirectory({ facts: [fact], trace: null });
  }

  /** [PERSONS-4] */
  async #rewrite({ events, rows, touching, replacer }: Found): Promise<void> {
    const { store, recorder } = this.#context;
    const write = async (seqs: readonly Seq[], keys: readonly RowKey[]): Promise<void> => {
      const fence = store.held();
      if (!fence) throw new HubError('unavailable', { retryAfterS: 1 });
      const renamed = new Set(keys.map(nameOf));
      const key = (row: RowKey) => (renamed.has(nameOf(row)) ? renamedKey(row, replacer) : row);
      const heads = new Set([...renamed].flatMap((name) => touching.get(name)?.seqs ?? []));
      for (const seq of seqs) heads.delete(seq);
      const rewrite = { fence, events: seqs, heads: [...heads], rows: keys, key, text: replacer.inText };
      await unlessAborted(this.#ending.signal, () => store.rewrite(rewrite));
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
  async #removeTokens({ emspsOf }: Found, trace: Trace): Promise<number> {
    const { store, recorder, ports } = this.#context;
    const emspsOfDigest = new Map([...emspsOf].map(([uid, emsps]) => [ports.secrets.pseudonym(uid), emsps]));
    const rows: Row[] = [];
    for await (const row of store.scan('tokens')) {
      const emsps = emspsOfDigest.get(row.id.slice(0, row.id.lastIndexOf('/')));
      if (emsps !== undefined && isAmong(emsps, row.owner)) rows.push(row);
    }
    for (const row of rows) {
      const { fact, puts } = removalOf(row, 'erased', 'operator');
      await recorder.record({ facts: [fact], puts, trace });
    }
    return rows.length;
  }
}

const renamedKey = ({ kind, owner, id }: RowKey, { inName }: Replacer): RowKey => ({
  kind,
  owner: inName(owner),
  id: inName(id),
});

const shownRow = ({ kind, owner, id, data, body }: Row): SubjectView['rows'][number] => ({
  kind,
  owner,
  id,
  data,
  body,
});
