/**
 * Re-drives deliveries: puts one delivery, or all that match a filter, back into their lanes.
 * [interface, Delivery rules 6; D53]
 *
 * REDRIVE-1  A re-driven delivery keeps its id, correlation id and recorded attempts; its retry window starts anew.
 * REDRIVE-2  A delivery is stale, and skipped unless forced, when the receiver has or is about to get a newer version.
 *     Changes to parts of a location that do not overlap do not make each other stale.
 * REDRIVE-3  A pending delivery is not re-driven.
 */
import type { DeliveryRow, Range, StoredEvent } from '../../../storage/contract.ts';
import type { DeliveryView } from '../../api/deliveries.ts';
import type { JobView, RedrivePlan } from '../../api/jobs.ts';
import { HubError } from '../../domain/errors.ts';
import { formOf, type ObjectEventData } from '../../domain/events.ts';
import { pairOf } from '../../domain/modules.ts';
import { objectName, sortableDate } from '../../domain/object.ts';
import { keyOf, type PartyId } from '../../domain/party.ts';
import type { Trace } from '../../domain/trace.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { deliveryId, readDeliveryId } from '../delivery/id.ts';
import { type DeliveryMemory, openRows } from '../delivery/outbox-writer.ts';
import { standingOf } from '../delivery/state.ts';
import type { Context } from '../kernel/context.ts';
import type { RedriveFilter, RedriveOptions } from '../ports/operator.ts';
import type { Jobs, StepResult } from './jobs.ts';

interface Candidate {
  readonly event: StoredEvent;
  readonly receiver: PartyId;
  readonly row: DeliveryRow | null;
}

const readBatch = 500;
const sampleMax = 20;

export class Redrive {
  readonly #context: Context;
  readonly #dispatcher: Dispatcher;
  readonly #jobs: Jobs;
  readonly #view: (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>;

  constructor(
    context: Context,
    dispatcher: Dispatcher,
    jobs: Jobs,
    view: (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>,
  ) {
    this.#context = context;
    this.#dispatcher = dispatcher;
    this.#jobs = jobs;
    this.#view = view;
  }

  async one(id: string, force: boolean, trace: Trace): Promise<DeliveryView> {
    const { seq = 0, receiver = '' } = readDeliveryId(id) ?? {};
    const event = seq ? await this.#context.store.event(seq) : null;
    const row = event && (await this.#dispatcher.row(receiver, seq));
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
    const again = (candidate: Candidate, job: string) => this.#again(candidate, force, job, trace);
    const candidates = this.#candidates(filter, routing);
    async function* steps() {
      for await (const candidate of candidates) yield (job: string) => again(candidate, job);
    }
    return this.#jobs.start({ kind: 'redrive', receiver: filter.receiver ?? null, ratePerS, steps: steps() }, trace);
  }

  /**
   * Serialized with pushes of the object, so that a newer change enters the lane behind the re-driven one, and of two
   * concurrent requests only one re-drives. [REDRIVE-2, REDRIVE-3]
   */
  #again({ event, receiver }: Candidate, force: boolean, job: string | null, trace: Trace): Promise<StepResult> {
    return this.#context.recorder.inTurn(event.stream, async () => {
      const row = await this.#dispatcher.row(receiver, event.seq);
      return this.#putBack({ event, receiver, row }, force, job, trace);
    });
  }

  async #putBack(
    { event, receiver, row }: Candidate,
    force: boolean,
    job: string | null,
    trace: Trace,
  ): Promise<StepResult> {
    const { recorder } = this.#context;
    const isOnItsWay = row ? row.state === 'PENDING' : this.#dispatcher.isPending(receiver, event.seq);
    if (isOnItsWay && event.to.includes(receiver)) return 'pending';
    if (!this.#context.directory.isRegistered(receiver)) return 'unregistered';
    if (job !== null && this.#dispatcher.scheduler.isFull(receiver)) return 'full';
    if (!force && (await this.#isStale({ event, receiver, row }))) return 'stale';
    const delivery = deliveryId(receiver, event);
    const { correlationId } = event.correlationId === null ? trace : { correlationId: event.correlationId };
    const change = event.data as ObjectEventData;
    const of = { delivery, receiver, sender: change.owner, module: change.module, object: objectName(change) };
    const fact = { type: 'delivery.redriven' as const, data: { ...of, job } };
    const facts = [{ stream: `delivery:${delivery}`, event: fact, party: null }];
    await recorder.record({ facts, trace: { correlationId }, at: recorder.instant() });
    const attempts = (row?.data as DeliveryMemory | undefined)?.attempts ?? [];
    await this.#dispatcher.again(event, receiver, attempts, row?.state === 'DEAD');
    return 'queued';
  }

  /**
   * Whether a later, overlapping, newer (`last_updated`) change is delivered to the receiver or pending. [REDRIVE-2]
   */
  async #isStale({ event, receiver }: Candidate): Promise<boolean> {
    const own = event.data as ObjectEventData;
    for (const later of await this.#context.store.history(event.stream, event.seq)) {
      if (!later.to.includes(receiver)) continue;
      const row = await this.#dispatcher.row(receiver, later.seq);
      const data = later.data as ObjectEventData;
      if (
        row?.state !== 'DEAD' &&
        touches(reach(data, receiver), reach(own, receiver)) &&
        isNewer(data.lastUpdated, own.lastUpdated)
      )
        return true;
    }
    return false;
  }

  #candidates(filter: RedriveFilter, routing: RedriveOptions['routing']): AsyncIterable<Candidate> {
    const { state = 'DEAD', from_seq: first = 1, to_seq: upTo = Number.MAX_SAFE_INTEGER } = filter;
    const range = { after: first - 1, upTo };
    const found = state === 'DEAD' ? this.#dead(filter, range) : this.#logged(filter, range, state, routing);
    return matching(found, filter);
  }

  /** Reads dead letters from their rows, without a scan of the log. */
  async *#dead(filter: RedriveFilter, { after, upTo }: Range): AsyncIterable<Candidate> {
    const { store, directory } = this.#context;
    await this.#dispatcher.flushed();
    const receivers = filter.receiver
      ? [filter.receiver]
      : [...directory.partners()].flatMap(({ roles }) => roles.map(keyOf));
    for await (const row of openRows(store, new Set(receivers))) {
      if (row.state !== 'DEAD' || row.seq <= after || row.seq > upTo) continue;
      const event = await store.event(row.seq);
      if (event) yield { event, receiver: row.dest, row };
    }
  }

  /** Scans the log for delivered (and, for `ANY`, dead) deliveries, in order of the log. */
  async *#logged(
    filter: RedriveFilter,
    { after: before, upTo }: Range,
    state: 'DELIVERED' | 'ANY',
    routing: RedriveOptions['routing'],
  ): AsyncIterable<Candidate> {
    const { store } = this.#context;
    const last = Math.min(upTo, store.head());
    for (let after = before; after < last; ) {
      const events = await store.read({ after, limit: readBatch });
      if (events.length === 0) return;
      for (const event of events) {
        after = event.seq;
        if (after > last) return;
        for (const receiver of this.#receivers(event, routing)) {
          if (filter.receiver && receiver !== filter.receiver) continue;
          const { row, state: now } = await standingOf(this.#dispatcher, receiver, event.seq);
          if (now === 'DELIVERED' || (state === 'ANY' && now === 'DEAD')) yield { event, receiver, row };
        }
      }
    }
  }

  #receivers(event: StoredEvent, routing: RedriveOptions['routing']): readonly PartyId[] {
    if (routing === 'then' || event.to.length === 0) return event.to;
    const { owner, module } = event.data as ObjectEventData;
    const { directory } = this.#context;
    return event.to.filter((receiver) => {
      const { emsp, cpo } = pairOf(module, owner, receiver);
      return directory.isRouted(emsp, cpo);
    });
  }
}

/** Path of the part of a location that a change sends to a receiver; empty for the whole object. */
const reach = (data: ObjectEventData, receiver: PartyId): readonly string[] =>
  formOf(data, receiver) === 'whole' ? [] : data.within;

/** Whether one path contains the other, so that the changes overlap. */
function touches(one: readonly string[], other: readonly string[]): boolean {
  return one.every((id, depth) => (other[depth] ?? id).toLowerCase() === id.toLowerCase());
}

function isNewer(later: string | null, own: string | null): boolean {
  // A DELETE has no `last_updated`: it is newer than every earlier change, and every later change is newer than it.
  if (later === null || own === null) return true;
  return (sortableDate(later) ?? later) > (sortableDate(own) ?? own);
}

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
