/**
 * Re-drives deliveries: puts one delivery, or all that match a filter, back into their lanes; and discards dead letters.
 * [interface, Delivery rules 6; D53]
 *
 * REDRIVE-1  A re-driven delivery keeps its id, correlation id and recorded attempts; its retry window starts again.
 * REDRIVE-2  A delivery is stale, and skipped unless forced, when the receiver has something later, or may no longer have the
 *     object; where later changes would be overwritten, the whole object is sent (`redriven-as.ts`).
 * REDRIVE-3  A pending delivery is not re-driven.
 * REDRIVE-4  The row of a delivery is read once, in the object's turn, and decides everything about the re-drive.
 * REDRIVE-5  Only a dead letter is discarded. It keeps its attempts and why it died, and no filter re-drives it that does
 *     not ask for discarded ones.
 * REDRIVE-6  A receiver for whose module memory has no room from a sender is put aside: a re-drive goes on with the others and
 *     comes back to it, in order.
 * REDRIVE-7  A re-drive is refused as a conflict by a change of the object since it was decided, and decided again (RECORDER-6). The
 *     delivery enters its lane when its event is dispatched: in front of every change that is committed behind it, through any node. It is
 *     sent once its row is written.
 */
import type { DeliveryRow, Range, Seen, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { DeliveryView } from '../../api/deliveries.ts';
import type { DiscardFilter, DiscardPlan, JobView, RedriveFilter, RedrivePlan } from '../../api/jobs.ts';
import { HubError } from '../../domain/errors.ts';
import { deliveryId, type ObjectEventData, readDeliveryId, type Trace } from '../../domain/events.ts';
import { objectName } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import type { DeliveryMemory } from '../delivery/delivery-row.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { laneKey } from '../delivery/lanes.ts';
import { type DeliveryStanding, openRows } from '../delivery/outbox-writer.ts';
import { logPage } from '../delivery/window.ts';
import type { Context } from '../kernel/context.ts';
import { completeSpan } from '../kernel/log-reads.ts';
import type { Recording } from '../kernel/recorder.ts';
import type { RedriveOptions } from '../ports/operator.ts';
import type { Jobs, StepResult } from './jobs.ts';
import { type Candidate, RedriveForms, type Routing } from './redriven-as.ts';

/** The state that a filter asks for. */
type Wanted = NonNullable<RedriveFilter['state']>;

interface Cause {
  /** Id of the job; null for an operator's act on one delivery. */
  readonly job: string | null;
  readonly trace: Trace;
}

interface How extends Cause {
  readonly routing: Routing;
  readonly force: boolean;
  readonly seen: Seen[];
}

/** What is left of a receiver's module, from its first delivery on for whose sender there was no room. [REDRIVE-6] */
type Aside = RedriveFilter & Pick<ObjectEventData, 'module' | 'owner'> & { readonly receiver: PartyId };

/** Why a delivery is not re-driven, or not discarded. */
type Refusal = Extract<StepResult, 'pending' | 'unregistered' | 'stale'> | 'notDead';

const refusals: Readonly<Record<Refusal, (delivery: string, receiver: PartyId) => string>> = {
  pending: (delivery) => `${delivery} is on its way already`,
  unregistered: (_, receiver) => `${receiver} is not registered: nothing can be sent to it`,
  stale: (_, receiver) =>
    `${receiver} has a newer version of this object, or may no longer have it; only an operator may force it`,
  notDead: (delivery) => `${delivery} is not a dead letter`,
};

const sampleMax = 20;
/** Discards a second: each is a commit and no call, so the limit spares the disk. */
const discardsPerS = 1_000;

type View = (event: StoredEvent, receiver: PartyId, standing: DeliveryStanding) => DeliveryView;

export class Redrive {
  readonly #context: Context;
  readonly #dispatcher: Dispatcher;
  readonly #forms: RedriveForms;
  readonly #jobs: Jobs;
  readonly #view: View;
  /** By delivery id, what puts it into its lane when its event is dispatched. [REDRIVE-7] */
  readonly #entering = new Map<string, () => void>();

  constructor(context: Context, dispatcher: Dispatcher, jobs: Jobs, view: View) {
    this.#context = context;
    this.#dispatcher = dispatcher;
    this.#forms = new RedriveForms(context, dispatcher);
    this.#jobs = jobs;
    this.#view = view;
  }

  one(id: string, force: boolean, trace: Trace): Promise<DeliveryView> {
    return this.#one(id, (found, before, seen) =>
      this.#putBack(found, before, { force, routing: undefined, job: null, trace, seen }),
    );
  }

  /** To be called for every event that is dispatched. [REDRIVE-7] */
  follow({ type, data }: StoredEvent): void {
    if (type === 'delivery.redriven') this.#entering.get((data as { delivery: string }).delivery)?.();
  }

  discardOne(id: string, trace: Trace): Promise<DeliveryView> {
    return this.#one(id, (found, before) => this.#discard(found, before, { job: null, trace }));
  }

  async #one(
    id: string,
    act: (found: Candidate, before: DeliveryStanding, seen: Seen[]) => Promise<DeliveryRow | Refusal>,
  ): Promise<DeliveryView> {
    const { seq = 0, receiver = '' } = readDeliveryId(id) ?? {};
    const event = seq ? await this.#context.store.event(seq) : null;
    if (!event) throw new HubError('notFound');
    const result = await this.#inTurn({ event, receiver }, async (before, seen) => {
      if (!event.to.includes(receiver) && !before.row) throw new HubError('notFound');
      return act({ event, receiver }, before, seen);
    });
    if (typeof result === 'string') throw new HubError('conflict', { message: refusals[result](id, receiver) });
    return this.#view(event, receiver, { row: result, state: result.state });
  }

  async plan(
    filter: RedriveFilter,
    { routing, force }: Pick<RedriveOptions, 'routing' | 'force'>,
  ): Promise<RedrivePlan> {
    let [stale, unregistered] = [0, 0];
    /** Lanes to which a whole would go, which contains what follows. [REDRIVEN-AS-3] */
    const wholes = new Set<string>();
    /** Lanes to which something would go. */
    const entered = new Set<string>();
    const plan = await this.#count(filter, routing, async (found) => {
      const lane = laneKey(found.receiver, found.event.stream);
      if (!this.#context.directory.isOwed(found.receiver)) unregistered++;
      else if (wholes.has(lane)) stale++;
      else {
        const as = await this.#forms.of(found, routing, [], entered.has(lane));
        if (as === 'stale') stale++;
        else entered.add(lane);
        if (as === 'whole' && !force) wholes.add(lane);
      }
    });
    return { ...plan, stale, unregistered };
  }

  planDiscard(filter: DiscardFilter): Promise<DiscardPlan> {
    return this.#count(filter, undefined, async () => {});
  }

  async #count(
    filter: RedriveFilter,
    routing: Routing,
    each: (found: Candidate) => Promise<void>,
  ): Promise<DiscardPlan> {
    const byReceiver: Record<PartyId, number> = {};
    const sample: DeliveryView[] = [];
    const bounded = this.#bounded(filter);
    let matched = 0;
    for await (const candidate of this.#candidates(bounded, routing)) {
      const { event, receiver } = candidate;
      const standing = await this.#dispatcher.standing(receiver, event.seq);
      if (!fits(standing, filter)) continue;
      matched++;
      byReceiver[receiver] = (byReceiver[receiver] ?? 0) + 1;
      await each(candidate);
      if (sample.length < sampleMax) sample.push(this.#view(event, receiver, standing));
    }
    return { matched, by_receiver: byReceiver, to_seq: bounded.to_seq, sample };
  }

  /** The filter without what is accepted from now on. */
  #bounded<F extends RedriveFilter>(filter: F): F & { readonly to_seq: Seq } {
    return { ...filter, to_seq: Math.min(filter.to_seq ?? Number.MAX_SAFE_INTEGER, this.#context.store.head()) };
  }

  start(filter: RedriveFilter, { ratePerS, force, routing }: RedriveOptions, trace: Trace): Promise<JobView> {
    const wanted = wantedBy(filter);
    const again = (candidate: Candidate, job: string) =>
      this.#inTurn(candidate, async (before, seen): Promise<StepResult> => {
        // Another re-drive may have put a dead letter back since it was found.
        if (wanted === 'DEAD' && before.state === 'PENDING') return 'pending';
        if (!fits(before, filter)) return 'unmatched';
        if (this.#dispatcher.isFull(candidate.receiver, candidate.event.data as ObjectEventData)) return 'full';
        return resultOf(await this.#putBack(candidate, before, { force, routing, job, trace, seen }));
      });
    const steps = this.#inRounds(filter, routing, again);
    return this.#jobs.start({ kind: 'redrive', receiver: this.#receiverOf(filter), ratePerS, steps }, trace);
  }

  /** [REDRIVE-6] */
  async *#inRounds(
    filter: RedriveFilter,
    routing: Routing,
    act: (one: Candidate, job: string) => Promise<StepResult>,
  ): AsyncIterable<(job: string) => Promise<StepResult>> {
    const bounded = this.#bounded(filter);
    for (let round: RedriveFilter[] = [filter]; round.length > 0; ) {
      const aside = new Map<string, Aside>();
      for (const part of round) {
        for await (const candidate of this.#candidates(part, routing)) {
          const { event, receiver } = candidate;
          const { module, owner } = event.data as ObjectEventData;
          const place = `${receiver} ${module}`;
          yield async (job) => {
            const result = aside.has(place) ? 'unmatched' : await act(candidate, job);
            if (result !== 'full') return result;
            aside.set(place, { ...bounded, receiver, module, owner, from_seq: event.seq });
            return 'unmatched';
          };
          // There is nothing behind it but its like.
          if (aside.has(place) && part.receiver && part.module) break;
        }
      }
      const left = [...aside.values()];
      const isFull = () => left.every((part) => this.#dispatcher.isFull(part.receiver, part));
      if (left.length > 0) yield async () => (isFull() ? 'full' : 'unmatched');
      round = left;
    }
  }

  discard(filter: DiscardFilter, trace: Trace): Promise<JobView> {
    const give = (candidate: Candidate, job: string) =>
      this.#inTurn(candidate, async (before) =>
        fits(before, filter) ? resultOf(await this.#discard(candidate, before, { job, trace })) : 'unmatched',
      );
    const steps = each(this.#candidates(filter), give);
    return this.#jobs.start(
      { kind: 'discard', receiver: this.#receiverOf(filter), ratePerS: discardsPerS, steps },
      trace,
    );
  }

  /** The party or partner that a job is about; throws before the job begins when the partner is unknown. */
  #receiverOf(filter: DiscardFilter): PartyId | null {
    this.#context.directory.receiversOf(filter);
    return filter.receiver ?? filter.partner ?? null;
  }

  /**
   * Serialized with pushes of the object, so that a newer change enters the lane behind the re-driven one, and of two
   * concurrent requests only one re-drives. [REDRIVE-2, REDRIVE-3]
   */
  #inTurn<T>({ event, receiver }: Candidate, work: (before: DeliveryStanding, seen: Seen[]) => Promise<T>): Promise<T> {
    return this.#context.recorder.inTurn(event.stream, async (seen) =>
      work(await this.#dispatcher.standing(receiver, event.seq), seen),
    );
  }

  /** The delivery's new row, or why it is not re-driven. */
  async #putBack(
    { event, receiver }: Candidate,
    { row, state }: DeliveryStanding,
    { force, routing, job, trace, seen }: How,
  ): Promise<DeliveryRow | Refusal> {
    // A job may have waited while the log was trimmed.
    if (event.seq <= this.#context.store.horizon()) return 'stale';
    if (state === 'PENDING') return 'pending';
    if (!this.#context.directory.isOwed(receiver)) return 'unregistered';
    const candidate = { event, receiver };
    const as = force ? 'change' : await this.#forms.of(candidate, routing, seen);
    if (as === 'stale') return 'stale';
    const delivery = deliveryId(receiver, event);
    const entered = new Promise<DeliveryRow>((resolve) => {
      this.#entering.set(delivery, () => {
        this.#entering.delete(delivery);
        resolve(this.#dispatcher.redrive(event, receiver, row, as));
      });
    });
    // Nobody may be waiting for it any more.
    entered.catch(() => {});
    const recorded = await this.#forms
      .noteOf(candidate, as, seen)
      .then((note) => this.#record('delivery.redriven', candidate, { job, trace }, seen, note))
      .catch((error: unknown) => {
        this.#entering.delete(delivery);
        throw error;
      });
    if (as === 'whole') this.#forms.sentWhole(candidate);
    await this.#context.recorder.feed.reached(recorded);
    return entered;
  }

  /** The dead letter's new row, or why it is not discarded. [REDRIVE-5] */
  async #discard(
    found: Candidate,
    { row, state }: DeliveryStanding,
    { job, trace }: Cause,
  ): Promise<DeliveryRow | Refusal> {
    if (row === null || state !== 'DEAD' || found.event.seq <= this.#context.store.horizon()) return 'notDead';
    await this.#record('delivery.discarded', found, { job, trace });
    return this.#dispatcher.discard(row);
  }

  async #record(
    type: 'delivery.redriven' | 'delivery.discarded',
    { event, receiver }: Candidate,
    { job, trace }: Cause,
    seen: readonly Seen[] = [],
    { facts: notes, puts = [] }: Pick<Recording, 'facts' | 'puts'> = { facts: [] },
  ): Promise<Seq> {
    const { recorder } = this.#context;
    const delivery = deliveryId(receiver, event);
    const { owner: sender, module, id } = event.data as ObjectEventData;
    const data = { delivery, receiver, sender, module, object: objectName({ owner: sender, id }), job };
    const facts = [{ stream: `delivery:${delivery}`, event: { type, data }, party: null }, ...notes];
    const { correlationId, ...who } = trace;
    return recorder.record({
      facts,
      puts,
      seen,
      trace: { ...who, correlationId: event.correlationId ?? correlationId },
    });
  }

  #candidates(filter: RedriveFilter, routing?: Routing): AsyncIterable<Candidate> {
    const { from_seq: first = 1, to_seq: upTo = Number.MAX_SAFE_INTEGER } = filter;
    const range = { after: first - 1, upTo };
    const wanted = wantedBy(filter);
    const hasRows = wanted === 'DEAD' || wanted === 'DISCARDED';
    const found = hasRows ? this.#given(wanted, filter, range) : this.#logged(filter, range);
    return this.#matching(found, filter, routing);
  }

  /** Finds dead or discarded letters by the index of open rows, without a scan of the log. */
  async *#given(wanted: DeliveryRow['state'], filter: RedriveFilter, { after, upTo }: Range): AsyncIterable<Candidate> {
    const { store, directory } = this.#context;
    await this.#dispatcher.flushed();
    const receivers = directory.receiversOf(filter) ?? directory.parties();
    for await (const row of openRows(store, receivers, upTo, after + 1)) {
      if (row.state !== wanted) continue;
      const event = await store.event(row.seq);
      if (event) yield { event, receiver: row.dest };
    }
  }

  /** Scans the log of the filter's time for deliveries, in order of the log. Their state is read when each one's turn comes. */
  async *#logged(filter: RedriveFilter, range: Range): AsyncIterable<Candidate> {
    const { store, directory, ports } = this.#context;
    const receivers = directory.receiversOf(filter);
    const span = await completeSpan(store, ports.clock, filter);
    const last = Math.min(range.upTo, span.upTo);
    for (let after = Math.max(range.after, span.after); after < last; ) {
      const events = await store.read({ ...logPage, after });
      if (events.length === 0) return;
      for (const event of events) {
        after = event.seq;
        if (after > last) return;
        for (const receiver of event.to) {
          if (receivers?.has(receiver) ?? true) yield { event, receiver };
        }
      }
    }
  }

  async *#matching(found: AsyncIterable<Candidate>, filter: RedriveFilter, routing: Routing): AsyncIterable<Candidate> {
    for await (const candidate of found)
      if (matches(candidate.event, filter) && (routing !== 'now' || this.#forms.isRouted(candidate))) yield candidate;
  }
}

const wantedBy = ({ state = 'DEAD' }: RedriveFilter): Wanted => state;

/** Whether a delivery has the state and the class that a filter asks for; `ANY` asks for dead and delivered ones. */
function fits({ state, row }: DeliveryStanding, filter: RedriveFilter): boolean {
  const wanted = wantedBy(filter);
  const isWanted = wanted === 'ANY' ? state === 'DEAD' || state === 'DELIVERED' : state === wanted;
  return isWanted && (filter.class === undefined || (row?.data as DeliveryMemory | undefined)?.class === filter.class);
}

const resultOf = (result: DeliveryRow | Refusal): StepResult => {
  if (typeof result !== 'string') return 'queued';
  return result === 'notDead' ? 'unmatched' : result;
};

async function* each(found: AsyncIterable<Candidate>, act: (one: Candidate, job: string) => Promise<StepResult>) {
  for await (const candidate of found) yield (job: string) => act(candidate, job);
}

function matches(event: StoredEvent, filter: RedriveFilter): boolean {
  const data = event.data as ObjectEventData;
  return (
    (!filter.from || event.at >= filter.from) &&
    (!filter.to || event.at < filter.to) &&
    (!filter.sender || data.owner === filter.sender) &&
    (!filter.module || data.module === filter.module) &&
    (!filter.object || objectName(data).toLowerCase() === filter.object.toLowerCase())
  );
}
