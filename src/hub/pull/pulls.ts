/**
 * Runs the pulls that operators start: reads a CPO's own list of locations or tariffs and stores each object as a push
 * would. [interface, Admin pulls; D51]
 *
 * PULLS-1  A pull that fails is FAILED; the objects stored before the failure stay. Its end is recorded at once or when the
 *     store takes it.
 * PULLS-2  A refused object does not stop the pull: it is counted, and kept in quarantine with the reason.
 * PULLS-3  One pull at a time per partner and module. A pull that a restart cut off is FAILED.
 * PULLS-4  The next pull asks for changes since the second of the start of the last successful one, by the partner's clock where its first
 *     page shows that clock to be behind: `last_updated` is of that clock. After a list with unread pages it asks as that pull did.
 *     Pulled objects are not forwarded unless the operator asked for that.
 * PULLS-5  Only a pull of the whole tariff list deletes, and only tariffs that the list certainly lacks. Tariffs pushed
 *     meanwhile stay, and nothing is deleted when the list may have had gaps. Of several CPOs of one partner, those
 *     of which the list has nothing keep their tariffs: the partner may have listed one CPO alone.
 * PULLS-6  A pull that an operator cancels is FAILED and says so. It asks for no further page, deletes no further tariff, and
 *     leaves a new pull free to start.
 * PULLS-7  Fewer different objects than the total fail a pull: where rows move between pages, as without an order, one that comes on a
 *     second page stands for another that does not come. The next pull asks for the same again. One that a page names twice fails no pull.
 */

import type { Put } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import { instantOf, instantText, secondText } from '../../domain/instant.ts';
import { dateMs, objectKey } from '../../domain/object.ts';
import { keyOf, type Partner, type PartyId } from '../../domain/party.ts';
import {
  applyToPull,
  noCounts,
  type PullCounts,
  type PullEvent,
  type PulledModule,
  type PullRecord,
} from '../../domain/pull.ts';
import { hourMs } from '../../kit/clock.ts';
import { Running } from '../../kit/concurrency.ts';
import type { AcceptPulled } from '../exchange/ingest.ts';
import type { Context } from '../kernel/context.ts';
import { listed, rowData, unlisted } from '../kernel/row-codecs.ts';
import { untilDone } from '../kernel/until-done.ts';
import { type Listed, Quarantine, type RefusedObject } from './quarantine.ts';
import { cpoCaller, type ListOf, nameIn, type ReadPage, type SenderLists, unreadPages } from './sender-lists.ts';

/** Objects of one page that are stored concurrently, so that they share a synced write (group commit). */
const batch = 50;

/** How far behind, ms, the time in a partner's page shows a clock to be: less is the time without its fraction, more is no clock. */
const [lagMin, lagMax] = [1_000, 26 * hourMs];

type PageRead = ReadPage & { readonly kind: 'page' };

/** State of a running pull. */
interface Run {
  record: PullRecord;
  /** What the next pull asks for. [PULLS-4] */
  nextFrom: string;
  readonly list: ListOf;
  counts: PullCounts;
  /** Names of the objects in the list, `{cc}-{pid}/{key}`. */
  readonly listed: Set<string>;
  /** Owners of those. */
  readonly owners: Set<PartyId>;
  /** Objects of the list that an earlier page named. [PULLS-7] */
  repeats: number;
  /** The list has an object without a usable owner or id. */
  nameless: boolean;
  /** `X-Total-Count` of the last page; null when it had none. */
  total: number | null;
  /** Of the last page. */
  behind: PageRead['behind'];
  /** Head of the log before the first page was requested. */
  asOf: ReadPage['asOf'] | null;
  readonly quarantine: Quarantine;
}

/** A pull that can be canceled. */
interface Cancelable {
  readonly end: AbortController;
  /** Who canceled it. */
  operator?: string | undefined;
  done: Promise<void>;
}

const canceled = 'an operator canceled it';
const cutShort = `${unreadPages}: nothing was deleted, and the next pull asks for the same again`;

export class Pulls {
  readonly #context: Context;
  readonly #lists: SenderLists;
  readonly #accept: AcceptPulled;
  /** `{partner}/{module}` of the running pulls. [PULLS-3] */
  readonly #busy = new Set<string>();
  readonly #runs = new Running();
  /** By the id of the pull. */
  readonly #running = new Map<string, Cancelable>();

  constructor(context: Context, lists: SenderLists, accept: AcceptPulled) {
    this.#context = context;
    this.#lists = lists;
    this.#accept = accept;
  }

  /**
   * Resolves with the id once the start is durable. `conflict`: such a pull runs already, or the list cannot be read.
   */
  async start(
    partner: Partner,
    module: PulledModule,
    asked: { full: boolean; forward: boolean },
    trace: Trace,
  ): Promise<string> {
    const { store, ports } = this.#context;
    const refusal = this.#lists.refusal(partner, module);
    if (refusal !== null) throw new HubError('conflict', { message: refusal });
    const name = `${partner.id}/${module}`;
    if (this.#busy.has(name))
      throw new HubError('conflict', { message: `${module} of ${partner.id} are being pulled` });
    this.#busy.add(name);
    try {
      const last = await rowData<LastRun>(store, lastKey(partner.id, module));
      const dateFrom = asked.full ? null : (last?.startedAt ?? null);
      const { forward } = asked;
      const data = { id: ports.secrets.newId(), party: partner.id, module, full: dateFrom === null, forward, dateFrom };
      const record = await this.#record(null, { type: 'pull.started', data }, trace);
      const query = dateFrom === null ? '' : `date_from=${encodeURIComponent(secondText(instantOf(dateFrom)))}`;
      const running: Cancelable = { end: new AbortController(), done: Promise.resolve() };
      const list = { partner, module, query, trace, end: running.end.signal };
      this.#running.set(record.id, running);
      running.done = this.#run(record, list, running, () => this.#busy.delete(name)).finally(() =>
        this.#running.delete(record.id),
      );
      this.#runs.add(running.done);
      return record.id;
    } catch (error) {
      this.#busy.delete(name);
      throw error;
    }
  }

  /** Resolves when the pull has ended, or does not run. [PULLS-6] */
  async cancel(id: string, { operator }: Trace): Promise<void> {
    const running = this.#running.get(id);
    if (!running) return;
    running.operator ??= operator;
    running.end.abort(canceled);
    await running.done;
  }

  /** Marks pulls that a restart cut off as FAILED, at once or when the store takes it. [PULLS-3] */
  async recover(): Promise<void> {
    for await (const row of this.#context.store.scan('pulls')) {
      const record = row.data as PullRecord;
      if (record.state !== 'RUNNING') continue;
      const end = { type: 'pull.failed', data: { error: 'the hub was restarted meanwhile' } } as const;
      await this.#recordEnd(record, end, null);
    }
  }

  /** Resolves when no pull runs. Close the lists first: running pulls then end as FAILED. */
  ended(): Promise<void> {
    return this.#runs.ended();
  }

  /** Calls `over` before it records the end, so that a client that has read the end can start the next pull. */
  async #run(record: PullRecord, list: ListOf, running: Cancelable, over: () => void): Promise<void> {
    const { ports } = this.#context;
    const run: Run = {
      record,
      nextFrom: record.startedAt,
      list,
      counts: noCounts,
      listed: new Set(),
      owners: new Set(),
      repeats: 0,
      nameless: false,
      total: null,
      behind: 'unsaid',
      asOf: null,
      quarantine: new Quarantine(this.#context, record, list.trace),
    };
    let end: PullEvent;
    try {
      end = await this.#readAll(run);
    } catch (error) {
      ports.log.error({ err: error, pull: record.id }, 'a pull failed');
      const message = error instanceof HubError ? error.message : 'the hub met an error of its own; its log says more';
      end = { type: 'pull.failed', data: { ...run.counts, error: message } };
    }
    over();
    const last = { startedAt: run.nextFrom };
    const isWhole = end.type === 'pull.done' && run.behind !== 'unread';
    const puts = isWhole ? [lastPut(record.party, record.module, last)] : [];
    const { operator = list.trace.operator } = running;
    await this.#recordEnd(run.record, end, { ...list.trace, ...(operator && { operator }) }, puts);
  }

  async #readAll(run: Run): Promise<PullEvent> {
    const { partner } = run.list;
    const pages = this.#lists.read(run.list);
    const { directory } = this.#context;
    await run.quarantine.load();
    for (let page = await pages.next(); page !== null; page = await pages.next()) {
      if (page.kind === 'failed') return { type: 'pull.failed', data: { ...run.counts, error: page.reason } };
      if (directory.partner(partner.id)?.partnerToken == null) {
        return { type: 'pull.failed', data: { ...run.counts, error: 'the partner was suspended meanwhile' } };
      }
      await this.#takePage(run, page);
      run.total = page.total;
      run.behind = page.behind;
    }
    const others = run.counts.received - run.repeats;
    if (run.total !== null && others < run.total) {
      const error = `${others} of ${run.total}: the list names ${run.repeats} more than once`;
      return { type: 'pull.failed', data: { ...run.counts, error } };
    }
    const isCatalogue = run.list.module === 'tariffs' && run.record.full;
    const note = run.behind === 'unread' ? cutShort : isCatalogue ? await this.#deleteUnlisted(run) : null;
    if (run.list.end?.aborted) return { type: 'pull.failed', data: { ...run.counts, error: canceled } };
    return { type: 'pull.done', data: { ...run.counts, note } };
  }

  async #takePage(run: Run, page: PageRead): Promise<void> {
    const { texts } = page;
    run.asOf ??= page.asOf;
    const { pages, received } = run.counts;
    if (pages === 0) run.nextFrom = begunAt(run.record.startedAt, page.madeAt);
    const counts = { ...run.counts, pages: pages + 1, received: received + texts.length };
    const released: Put[] = [];
    const named = new Set<string>();
    for (let from = 0; from < texts.length; from += batch) {
      const objects = texts.slice(from, from + batch).map((text, index): Listed => {
        return { text, name: nameIn(text), place: received + from + index };
      });
      const taken = await Promise.all(
        objects.map(async (object) => {
          return { object, outcome: await this.#lists.take(run.list, object.text, page, run.record.forward) };
        }),
      );
      const refused: RefusedObject[] = [];
      for (const { object, outcome } of taken) {
        if (object.name) {
          const name = listedName(object.name.owner, object.name.id);
          if (run.listed.has(name)) run.repeats++;
          named.add(name);
          run.owners.add(object.name.owner);
        } else run.nameless = true;
        const { result } = outcome;
        counts[result === 'refused' ? 'invalid' : result === 'unchanged' ? 'unchanged' : 'stored']++;
        if (outcome.result === 'refused') refused.push({ ...object, reason: outcome.reason });
        else released.push(...[run.quarantine.released(object)].filter((put) => put !== null));
      }
      await run.quarantine.keep(refused);
    }
    for (const name of named) run.listed.add(name);
    run.counts = counts;
    run.record = await this.#record(run.record, { type: 'pull.progressed', data: counts }, run.list.trace, released);
  }

  /** Deletes stored tariffs that the list lacks; resolves with the reason when it must not, else null. [PULLS-5] */
  async #deleteUnlisted(run: Run): Promise<string | null> {
    const { partner, module, trace } = run.list;
    if (run.nameless) return 'nothing was deleted: an object of the list did not say which one it is';
    if (run.behind !== 'nothing') return 'nothing was deleted: the list did not say where it ends';
    if (run.total !== null && run.total > run.listed.size) {
      return `nothing was deleted: ${run.listed.size} objects came, but X-Total-Count is ${run.total}`;
    }
    const owners = partner.roles.filter(({ role }) => role === 'CPO').map(keyOf);
    const isListed = (owner: PartyId) => owners.length === 1 || run.owners.has(owner);
    for (const owner of owners.filter(isListed)) {
      const gone: string[] = [];
      for await (const { id } of this.#context.store.scan(module, owner)) {
        if (!run.listed.has(listedName(owner, id))) gone.push(id);
      }
      for (const id of gone) {
        if (run.list.end?.aborted) return null;
        if (await this.#deleteOne(run, owner, id, trace)) run.counts = oneMore(run.counts);
      }
    }
    const unlisted = owners.filter((owner) => !isListed(owner));
    return unlisted.length === 0 ? null : `nothing of ${unlisted.join(', ')} was deleted: the list has no tariff of it`;
  }

  async #deleteOne(run: Run, owner: PartyId, id: string, trace: Trace): Promise<boolean> {
    const caller = cpoCaller(run.list.partner, owner, trace);
    if (!caller) return false;
    const tariff = { module: 'tariffs', owner, id, within: [], facts: {} } as const;
    const change = { ...tariff, method: 'DELETE', lastUpdated: null, body: '' } as const;
    const { forward } = run.record;
    try {
      return (await this.#accept(caller, change, { asOf: run.asOf ?? 0, forward })).result === 'deleted';
    } catch (error) {
      // The CPO deleted it in the meantime.
      if (error instanceof HubError && error.code === 'notFound') return false;
      throw error;
    }
  }

  /** Resolves when the store took it or refused the first attempt. [PULLS-1] */
  #recordEnd(before: PullRecord, end: PullEvent, trace: Trace | null, others: readonly Put[] = []): Promise<void> {
    const { log } = this.#context.ports;
    return untilDone(
      this.#context,
      () => this.#record(before, end, trace, others),
      (err) => log.error({ err, pull: before.id }, 'could not record the end of a pull; retrying'),
    );
  }

  async #record(
    before: PullRecord | null,
    event: PullEvent,
    trace: Trace | null,
    others: readonly Put[] = [],
  ): Promise<PullRecord> {
    const { recorder } = this.#context;
    const at = recorder.instant();
    const record = applyToPull(before, event, at);
    const { id, party } = record;
    const puts = [pullRow(record), ...others];
    await recorder.record({ facts: [{ stream: `pull:${id}`, event, party }], puts, trace, at });
    return record;
  }
}

interface LastRun {
  /** Start of the last successful pull, RFC 3339. [PULLS-4] */
  readonly startedAt: string;
}

/** The start of a pull, or the time that its first page states where that is earlier. [PULLS-4] */
function begunAt(startedAt: string, madeAt: string | null): string {
  const at = dateMs(madeAt ?? '');
  const lag = instantOf(startedAt) - at;
  return lag > lagMin && lag < lagMax ? instantText(at) : startedAt;
}

const oneMore = (counts: PullCounts): PullCounts => ({ ...counts, deleted: counts.deleted + 1 });

const listedName = (owner: PartyId, id: string) => `${owner}/${objectKey('tariffs', id, {})}`;

const lastKey = (party: PartyId, module: PulledModule) => ({ kind: 'pulls:last', owner: party, id: module });
const lastPut = (party: PartyId, module: PulledModule, data: LastRun): Put => unlisted(lastKey(party, module), data);

export function pullRow(record: PullRecord): Put {
  return listed('pulls', record.id, record.startedAt, record);
}
