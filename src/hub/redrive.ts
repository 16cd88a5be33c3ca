/**
 * Puts deliveries back into their lanes: one, or all that a filter finds; and sends a receiver the present objects anew.
 * [interface, Delivery rules 6; D53]
 *
 * S1  A re-driven delivery keeps its id and correlation id; its attempts stay on record, its window starts anew.
 * S2  What the receiver has, or is about to get, in a newer version is not sent over it, unless forced. Parts of a location that
 *     do not touch each other are no versions of each other.
 * S3  What is on its way is left alone.
 */
import type { DeliveryRow, Range, StoredEvent } from '../../storage/contract.ts';
import { HubError } from '../domain/errors.ts';
import type { ObjectEventData } from '../domain/events.ts';
import { type HubObject, type ObjectModule, objectName, sortableDate, streamOf } from '../domain/object.ts';
import { keyOf, type PartyId } from '../domain/party.ts';
import type { Trace } from '../domain/trace.ts';
import { atHome } from './asked.ts';
import { type Core, objectFromRow, readObject } from './core.ts';
import type { Deliveries } from './deliveries.ts';
import { type DeliveryName, deliveryId, readDeliveryId } from './delivery-id.ts';
import type { Jobs, StepResult } from './jobs.ts';
import { between } from './log-order.ts';
import type { DeliveryView, JobView, RedriveFilter, RedriveOptions, RedrivePlan } from './operator.ts';
import { type DeliveryMemory, openRows } from './outbox.ts';
import { owedWhole } from './pushes.ts';

interface AgainOptions {
  readonly force: boolean;
  readonly job: string;
  readonly trace: Trace;
}

interface ResendOptions extends Pick<HubObject, 'module' | 'owner' | 'key'> {
  readonly receiver: PartyId;
  readonly trace: Trace;
}

interface Candidate {
  readonly event: StoredEvent;
  readonly receiver: PartyId;
  readonly row: DeliveryRow | null;
}

const readBatch = 500;
const sampleMax = 20;
const resyncPerS = 500;

export class Redrive {
  readonly #core: Core;
  readonly #deliveries: Deliveries;
  readonly #jobs: Jobs;
  readonly #view: (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>;

  constructor(
    core: Core,
    deliveries: Deliveries,
    jobs: Jobs,
    view: (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>,
  ) {
    this.#core = core;
    this.#deliveries = deliveries;
    this.#jobs = jobs;
    this.#view = view;
  }

  async one(id: string, force: boolean, trace: Trace): Promise<DeliveryView> {
    const { shard = 0, seq = 0, receiver = '' } = readDeliveryId(id) ?? {};
    const event = seq ? await this.#core.store.event(shard, seq) : null;
    const row = event && (await this.#deliveries.row(receiver, event.shard, event.seq));
    if (!event || (!event.to.includes(receiver) && !row)) throw new HubError('notFound');
    const result = await this.#again({ event, receiver, row }, force, null, trace);
    if (result === 'pending') throw new HubError('conflict', { message: `${id} is on its way already` });
    if (result === 'unregistered') {
      throw new HubError('conflict', { message: `${receiver} is not registered: nothing can be sent to it` });
    }
    if (result === 'stale') {
      throw new HubError('conflict', {
        message: `${receiver} has a newer version of this object; use force to send it`,
      });
    }
    return this.#view(event, receiver);
  }

  async plan(filter: RedriveFilter, { routing }: Pick<RedriveOptions, 'routing'>): Promise<RedrivePlan> {
    const byReceiver: Record<PartyId, number> = {};
    const sample: DeliveryView[] = [];
    let [matched, stale] = [0, 0];
    for await (const candidate of this.#candidates(filter, routing)) {
      matched++;
      byReceiver[candidate.receiver] = (byReceiver[candidate.receiver] ?? 0) + 1;
      if (await this.#isStale(candidate)) stale++;
      if (sample.length < sampleMax) sample.push(await this.#view(candidate.event, candidate.receiver));
    }
    return { matched, by_receiver: byReceiver, stale, sample };
  }

  start(filter: RedriveFilter, { ratePerS, force, routing }: RedriveOptions, trace: Trace): Promise<JobView> {
    const again = (candidate: Candidate, job: string) => this.#againAt(candidate, force, job, trace);
    const candidates = this.#candidates(filter, routing);
    async function* steps() {
      for await (const candidate of candidates) yield (job: string) => again(candidate, job);
    }
    return this.#jobs.start({ kind: 'redrive', shardOf: filter.receiver ?? '', ratePerS, steps: steps() }, trace);
  }

  /** The present objects of a module that a partner's parties are entitled to, each as an event of its own. */
  resync(partnerId: PartyId, module: ObjectModule, trace: Trace): Promise<JobView> {
    const partner = this.#core.state.partner(partnerId.toUpperCase());
    if (!partner) throw new HubError('notFound');
    const resend = ({ module: of, owner, key }: HubObject, receiver: PartyId): Promise<StepResult> => {
      const resent = { module: of, owner, key, receiver, trace };
      return atHome(this.#core, owner, 'resend', resent, () => this.resend(resent));
    };
    const objects = this.#entitled.bind(this);
    async function* steps() {
      for (const party of partner?.roles ?? []) {
        const receiver = keyOf(party);
        for await (const object of objects(receiver, party.role, module)) yield () => resend(object, receiver);
      }
    }
    return this.#jobs.start({ kind: 'resync', shardOf: partner.id, ratePerS: resyncPerS, steps: steps() }, trace);
  }

  /** Where the receiver lives. */
  async #againAt(candidate: Candidate, force: boolean, job: string, trace: Trace): Promise<StepResult> {
    const { event, receiver } = candidate;
    const { shard, seq } = event;
    const asked = { shard, seq, receiver, force, job, trace };
    return atHome(this.#core, receiver, 'again', asked, () => this.#again(candidate, force, job, trace));
  }

  /** One step of a job that runs elsewhere. */
  async againFor({ shard, seq, receiver, force, job, trace }: DeliveryName & AgainOptions): Promise<StepResult> {
    const event = await this.#core.store.event(shard, seq);
    return event ? this.#again({ event, receiver, row: null }, force, job, trace) : 'stale';
  }

  /** In turn with pushes of the object, so that what is newer enters the lane behind it, and two who ask put it back once. [S2, S3] */
  #again({ event, receiver }: Candidate, force: boolean, job: string | null, trace: Trace): Promise<StepResult> {
    return this.#core.recorder.inTurn(event.stream, async () => {
      const row = await this.#deliveries.row(receiver, event.shard, event.seq);
      return this.#putBack({ event, receiver, row }, force, job, trace);
    });
  }

  async #putBack(
    { event, receiver, row }: Candidate,
    force: boolean,
    job: string | null,
    trace: Trace,
  ): Promise<StepResult> {
    const { recorder } = this.#core;
    const isOnItsWay = row ? row.state === 'PENDING' : this.#deliveries.isPending(receiver, event.shard, event.seq);
    if (isOnItsWay && event.to.includes(receiver)) return 'pending';
    if (!this.#core.state.isRegistered(receiver)) return 'unregistered';
    if (job !== null && this.#deliveries.queues.isFull(receiver)) return 'full';
    if (!force && (await this.#isStale({ event, receiver, row }))) return 'stale';
    const delivery = deliveryId(receiver, event);
    const { correlationId } = event.correlationId === null ? trace : { correlationId: event.correlationId };
    const fact = { type: 'delivery.redriven' as const, data: { delivery, receiver, job } };
    const facts = [{ stream: `delivery:${delivery}`, event: fact, party: null }];
    await recorder.record({ shardOf: receiver, facts, trace: { correlationId }, at: recorder.instant() });
    const attempts = (row?.data as DeliveryMemory | undefined)?.attempts ?? [];
    await this.#deliveries.again(event, receiver, attempts, row?.state === 'DEAD');
    return 'queued';
  }

  /** Whether a later change of the same, newer by `last_updated`, has reached the receiver or is on its way. [S2] */
  async #isStale({ event, receiver }: Candidate): Promise<boolean> {
    const own = event.data as ObjectEventData;
    for (const later of await this.#core.store.history(event.shard, event.stream, event.seq)) {
      if (!later.to.includes(receiver)) continue;
      const row = await this.#deliveries.row(receiver, later.shard, later.seq);
      const data = later.data as ObjectEventData;
      if (row?.state !== 'DEAD' && touches(data, own) && isNewer(data.lastUpdated, own.lastUpdated)) return true;
    }
    return false;
  }

  #candidates(filter: RedriveFilter, routing: RedriveOptions['routing']): AsyncIterable<Candidate> {
    const { state = 'DEAD', from_seq: first, to_seq: last } = filter;
    const range = between(this.#core.store, first, last);
    const found = state === 'DEAD' ? this.#dead(filter, range) : this.#logged(filter, range, state, routing);
    return matching(found, filter);
  }

  /** Dead letters have rows, so the log need not be searched for them. */
  async *#dead(filter: RedriveFilter, range: Range | null): AsyncIterable<Candidate> {
    const { store, state } = this.#core;
    await this.#deliveries.flushed();
    const receivers = filter.receiver
      ? [filter.receiver]
      : [...state.partners()].flatMap(({ roles }) => roles.map(keyOf));
    for await (const row of openRows(this.#core, new Set(receivers))) {
      if (row.state !== 'DEAD' || (range && !holds(range, row))) continue;
      const event = await store.event(row.shard, row.seq);
      if (event) yield { event, receiver: row.dest, row };
    }
  }

  /** In the order of the log, one shard after the other. */
  async *#logged(
    filter: RedriveFilter,
    range: Range | null,
    state: 'DELIVERED' | 'ANY',
    routing: RedriveOptions['routing'],
  ): AsyncIterable<Candidate> {
    for (const [shard, head] of await this.#core.store.heads()) {
      const own = range ?? { shard, after: 0, upTo: head };
      const upTo = Math.min(own.upTo, head);
      if (own.shard === shard) yield* this.#loggedIn({ ...own, upTo }, filter, state, routing);
    }
  }

  async *#loggedIn(
    { shard, after: before, upTo: last }: Range,
    filter: RedriveFilter,
    state: 'DELIVERED' | 'ANY',
    routing: RedriveOptions['routing'],
  ): AsyncIterable<Candidate> {
    const { store } = this.#core;
    for (let after = before; after < last; ) {
      const events = await store.read({ shard, after, limit: readBatch });
      if (events.length === 0) return;
      for (const event of events) {
        after = event.seq;
        if (after > last) return;
        for (const receiver of this.#receivers(event, routing)) {
          if (filter.receiver && receiver !== filter.receiver) continue;
          const row = await this.#deliveries.row(receiver, shard, event.seq);
          const now = row?.state ?? ((await this.#deliveries.awaits(receiver, event)) ? 'PENDING' : 'DELIVERED');
          if (now === 'DELIVERED' || (state === 'ANY' && now === 'DEAD')) yield { event, receiver, row };
        }
      }
    }
  }

  #receivers(event: StoredEvent, routing: RedriveOptions['routing']): readonly PartyId[] {
    if (routing === 'then' || event.to.length === 0) return event.to;
    const { owner, module } = event.data as ObjectEventData;
    const { state } = this.#core;
    return event.to.filter((receiver) =>
      module === 'tokens' ? state.isRouted(owner, receiver) : state.isRouted(receiver, owner),
    );
  }

  async *#entitled(receiver: PartyId, role: 'CPO' | 'EMSP', module: ObjectModule): AsyncIterable<HubObject> {
    const { store, state } = this.#core;
    const isOwned = module === 'sessions' || module === 'cdrs';
    if ((role === 'CPO') !== (module === 'tokens')) return;
    const shelves = isOwned ? [receiver] : state.counterparts(receiver, role);
    for (let after: { upd: string; owner: string; id: string } | undefined; ; ) {
      const { rows } = await store.list({
        kind: module,
        shelves,
        offset: 0,
        limit: readBatch,
        ...(after && { after }),
      });
      for (const object of rows.map(objectFromRow)) {
        // A session or CDR stands on its eMSP's shelf for good; it flows only as long as a rule lets it.
        if (!isOwned || state.isRouted(receiver, object.owner)) yield object;
      }
      after = rows.at(-1);
      if (rows.length < readBatch) return;
    }
  }

  #isEntitled(receiver: PartyId, { module, owner, viewer, facts }: HubObject): boolean {
    const { state } = this.#core;
    if (module === 'tokens') return state.isRouted(owner, receiver);
    const isTheirs = module === 'sessions' || module === 'cdrs' ? viewer === receiver : facts.publish !== false;
    return isTheirs && state.isRouted(receiver, owner);
  }

  /** In turn with pushes of the same object, so that what is sent anew is never older than what was sent before. */
  resend({ module, owner, key, receiver, trace }: ResendOptions): Promise<StepResult> {
    const { recorder, state, store } = this.#core;
    const stream = streamOf(module, owner, key);
    return recorder.inTurn(stream, async () => {
      const object = await readObject(store, module, owner, key);
      const party = state.party(owner);
      if (!state.isRegistered(receiver)) return 'unregistered';
      // It may have been deleted, hidden, or become another's since the list was read.
      if (!object || !party || !this.#isEntitled(receiver, object)) return 'stale';
      const { id, lastUpdated, facts, viewer, body } = object;
      const owed = owedWhole(party, object);
      const plain = { module, method: owed.method, owner, id, within: [], lastUpdated, facts, viewer } as const;
      const event = { type: 'object.resent' as const, data: { ...plain, owed, reason: null, warnings: [] } };
      const fact = { stream, event, party: null, to: [receiver], body };
      await recorder.record({ shardOf: owner, facts: [fact], trace, at: recorder.instant() });
      return 'queued';
    });
  }
}

/** Whether one change is of the whole or of a part of what the other is of. */
function touches({ within: one }: ObjectEventData, { within: other }: ObjectEventData): boolean {
  return one.every((id, depth) => (other[depth] ?? id).toLowerCase() === id.toLowerCase());
}

function isNewer(later: string | null, own: string | null): boolean {
  // A DELETE has no date: whatever came after it, and it after whatever, counts as newer.
  if (later === null || own === null) return true;
  return (sortableDate(later) ?? later) > (sortableDate(own) ?? own);
}

const holds = ({ shard, after, upTo }: Range, row: DeliveryRow): boolean =>
  row.shard === shard && row.seq > after && row.seq <= upTo;

async function* matching(found: AsyncIterable<Candidate>, filter: RedriveFilter): AsyncIterable<Candidate> {
  for await (const candidate of found) if (matches(candidate.event, filter)) yield candidate;
}

function matches(event: StoredEvent, filter: RedriveFilter): boolean {
  const data = event.data as ObjectEventData;
  return (
    (!filter.from || event.at >= filter.from) &&
    (!filter.to || event.at < filter.to) &&
    (!filter.module || data.module === filter.module) &&
    (!filter.object || objectName(data).toLowerCase() === filter.object.toLowerCase())
  );
}
