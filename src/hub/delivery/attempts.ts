/**
 * Attempts deliveries: sends the request that the event owes, and decides from the outcome whether the delivery is done, is
 * retried or becomes a dead letter.
 *
 * ATTEMPTS-1  A transient failure blocks its own lane only; a final one frees the lane. No delivery is dropped without a
 *     row that says so and why.
 * ATTEMPTS-2  A bug of the hub during an attempt is retried on the same schedule and not reported to the breaker.
 * ATTEMPTS-3  A refusal (401, 403, or a client error with OCPI 2000 to 2002 or no OCPI status) of a call whose token is no longer the partner's, or may soon not be
 *     because an exchange of the partner is in progress, is retried: it may say nothing about the delivery. For the breaker the partner
 *     answered, as with any refusal.
 * ATTEMPTS-4  What was owed before the routing rule of its two parties ended is not sent while there is none: it is a dead letter. The end
 *     of an object is sent, and what an operator re-drives after the rule ended. [interface, What the service does 2] [D62]
 */
import type { StoredEvent } from '../../../storage/contract.ts';
import { faultOf, mayRefuseToken, type Outcome, type OutcomeClass } from '../../domain/errors.ts';
import { attemptOf, deliveryId, type ObjectEventData } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import { pairOf } from '../../domain/modules.ts';
import { objectName } from '../../domain/object.ts';
import { endpointOf, type PartyId } from '../../domain/party.ts';
import type { Quirk } from '../../domain/quirks.ts';
import { isExpired, type RetryRules, verdict } from '../../domain/retry.ts';
import { isJoined, type Route } from '../../domain/routing.ts';
import { hourMs } from '../../kit/clock.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Context } from '../kernel/context.ts';
import { openToken, routeStream } from '../kernel/directory.ts';
import type { Recorder } from '../kernel/recorder.ts';
import type { PartnerReports } from '../partners/reports.ts';
import type { OutboundCall } from '../ports/ports.ts';
import { callOf, subjectOf, type Target } from './delivery-request.ts';
import type { Item } from './delivery-row.ts';
import type { Erasures } from './erasures.ts';
import type { FairScheduler, Flight } from './fair-scheduler.ts';
import type { Lane } from './lanes.ts';
import type { Receiver } from './receiver.ts';
import { asDelivered, isToHeal, type Sent, type Wholes } from './wholes.ts';

/** Back-off of a lane, ms, after an attempt failed by a bug of the hub and its end could not be noted either. */
const faultMs = 60_000;
const suspended = 'suspended';

/** Why a delivery is a dead letter without a call. */
interface Unsent {
  readonly class: OutcomeClass;
  readonly reason: string;
}

/** What is known of an attempt before its call. */
interface Prepared {
  readonly item: Item;
  readonly event: StoredEvent;
  readonly sent: Sent;
  readonly target: Target;
}

interface Attempt {
  readonly item: Item;
  /** The delivery as it is sent. */
  readonly head: Item;
  readonly event: StoredEvent;
  readonly call: OutboundCall;
}

export class Attempts {
  readonly #context: Context;
  readonly #scheduler: FairScheduler<Receiver>;
  readonly #wholes: Wholes;
  readonly #rules: RetryRules;
  readonly #reports: Pick<PartnerReports, 'used'>;
  readonly #erasures: Erasures;
  readonly #isExchanging: (partner: PartyId) => boolean;

  constructor(
    context: Context,
    scheduler: FairScheduler<Receiver>,
    wholes: Wholes,
    reports: Pick<PartnerReports, 'used'>,
    erasures: Erasures,
    isExchanging: (partner: PartyId) => boolean,
  ) {
    const { settings } = context;
    this.#isExchanging = isExchanging;
    this.#context = context;
    this.#scheduler = scheduler;
    this.#wholes = wholes;
    this.#reports = reports;
    this.#erasures = erasures;
    this.#rules = {
      scheduleS: settings.retryScheduleS,
      jitter: settings.retryJitter,
      windowMs: settings.retryWindowH * hourMs,
      windowCdrMs: settings.retryWindowCdrH * hourMs,
    };
  }

  /** Attempts the head of a busy lane; never rejects. [ATTEMPTS-2] */
  async make(flight: Flight<Receiver>, lane: Lane): Promise<void> {
    try {
      const prepared = this.#prepare(flight, lane);
      const attempt = prepared instanceof Promise ? await prepared : prepared;
      if (attempt === null) return;
      const outcome = await this.#context.ports.client.call(attempt.call);
      const rest = this.#ended(flight.sender, lane, attempt, outcome);
      if (rest) await rest;
    } catch (error) {
      this.#failed(flight.sender, lane, error);
    }
  }

  #failed(receiver: Receiver, lane: Lane, error: unknown): void {
    const { log, clock } = this.#context.ports;
    log.error({ err: error, lane: lane.key }, 'could not attempt a delivery');
    const isBusy = () => lane.state === 'busy';
    if (!isBusy()) return;
    try {
      const [item] = lane.items;
      if (item) this.#applyOutcome(receiver, lane, item, faultOf(error));
    } catch (again) {
      // Settling failed, too: the row stays as it was, and the lane goes on after `faultMs`.
      log.error({ err: again, lane: lane.key }, 'could not settle a delivery');
      if (isBusy()) receiver.hold(lane, clock.now() + faultMs);
    }
  }

  /** What to send now; null when nothing is, and the lane was dealt with. */
  #prepare(flight: Flight<Receiver>, lane: Lane): Attempt | null | Promise<Attempt | null> {
    const [first] = lane.items;
    if (!first) throw new Error(`lane ${lane.key} was taken while empty`);
    const item = this.#erasures.item(first);
    const target = this.#targetOf(item);
    if ('reason' in target) return this.#buryUnsent(flight, lane, item, target.class, target.reason);
    if (isExpired(this.#rules, { module: item.module, since: item.since, at: this.#context.ports.clock.now() })) {
      return this.#buryUnsent(flight, lane, item, 'expired', 'expired before it could be sent');
    }
    const event = this.#erasures.mayDiffer(item.seq) ? null : item.event;
    const sent = event && this.#mayGo(item, event) ? this.#wholes.formAtOnce(item, event) : null;
    if (event && sent) return this.#attemptOf(flight, lane, { item, event, sent, target });
    return this.#prepareLater(flight, lane, item, event);
  }

  /** The same for a delivery of which something has to be read. `kept`: its event; null: to be read from the log. */
  async #prepareLater(
    flight: Flight<Receiver>,
    lane: Lane,
    item: Item,
    kept: StoredEvent | null,
  ): Promise<Attempt | null> {
    const event = kept ?? (await this.#context.store.event(item.seq));
    if (!event) {
      this.#bury(flight.sender, lane, item, 'expired', 'no longer in the log');
      return null;
    }
    if (!this.#mayGo(item, event) && (await this.#hasParted(item, event)))
      return this.#buryUnsent(flight, lane, item, 'not_found', 'no routing rule');
    const sent = await this.#wholes.formFor(item, event);
    if (!sent) return this.#buryUnsent(flight, lane, item, 'not_found', 'no whole object to send');
    // The partner may have been suspended, or have registered with another URL, while this was read.
    const target = this.#targetOf(item);
    if ('reason' in target) return this.#buryUnsent(flight, lane, item, target.class, target.reason);
    return this.#attemptOf(flight, lane, { item, event, sent, target });
  }

  #mayGo({ form, module, receiver }: Item, event: StoredEvent): boolean {
    return form === 'end' || isJoined(this.#context.directory, module, ownerOf(event), receiver);
  }

  #attemptOf(flight: Flight<Receiver>, lane: Lane, { item, event, sent, target }: Prepared): Attempt | null {
    const receiver = flight.sender;
    const { owed, head } = sent;
    if (head !== item) {
      receiver.replace(lane, head);
      this.#scheduler.resize(flight, head.size);
    }
    // An operator paused the partner, or a circuit opened, while this was read.
    if (receiver.mayGo(item.module))
      return { item, head, event, call: callOf(this.#context, target, item, event, owed) };
    receiver.hold(lane, this.#context.ports.clock.now());
    return null;
  }

  /** The call has ended; a promise when something has to be read for what follows. */
  #ended(receiver: Receiver, lane: Lane, attempt: Attempt, outcome: Outcome): void | Promise<void> {
    const { item, head, event, call } = attempt;
    this.#context.ports.log.info(attemptLine(item, event, outcome), 'delivery attempt');
    receiver.attempted(item.module, outcome);
    const isOutdated = mayRefuseToken(outcome) && this.#isOutdated(receiver, call.token);
    const met = isOutdated ? asOutdated(outcome) : outcome;
    if (!isToHeal(head, met)) return this.#settle(receiver, lane, attempt, outcome, met, false);
    return this.#wholes
      .formFor({ ...head, asWhole: true }, event)
      .then((whole) => this.#settle(receiver, lane, attempt, outcome, met, whole !== null));
  }

  /** `met`: what the outcome counts as for the delivery. */
  #settle(
    receiver: Receiver,
    lane: Lane,
    { item, head, event }: Attempt,
    outcome: Outcome,
    met: Outcome,
    isHealed: boolean,
  ): void {
    const { directory, ports, breakerFeed, contacts } = this.#context;
    this.#applyOutcome(receiver, lane, head, met, isHealed);
    contacts.called(receiver.partnerId, outcome, {
      what: item.module,
      delivery: deliveryId(item.receiver, event),
    });
    const source = directory.partnerOf(item.sender)?.id ?? item.sender;
    breakerFeed.report(receiver.partnerId, item.module, outcome, ports.clock.now(), source, lane.key);
    receiver.noteHeld(item.module);
  }

  #targetOf({ receiver, module, owedAt }: Item): Target | Unsent {
    const { directory } = this.#context;
    const partner = directory.partnerOf(receiver);
    if (!partner || directory.isSuspendedSince(partner, owedAt)) return { class: 'auth_error', reason: suspended };
    const endpoint = endpointOf(partner, module, 'RECEIVER');
    return endpoint ? { partner, url: endpoint.url } : { class: 'not_found', reason: 'no receiver endpoint' };
  }

  /** Whether the rule of its two parties, which has ended, joined them when it was owed. [ATTEMPTS-4] */
  async #hasParted({ module, receiver, owedAt }: Item, event: StoredEvent): Promise<boolean> {
    const { emsp, cpo } = pairOf(module, ownerOf(event), receiver);
    const last = (await this.#context.store.history(routeStream(emsp, cpo), owedAt)).at(-1);
    // Another node may have set it again a moment ago.
    return last !== undefined && !(last.data as Route).active;
  }

  /** [ATTEMPTS-3] */
  #isOutdated({ partnerId }: Receiver, token: string): boolean {
    const { directory, ports } = this.#context;
    const partner = directory.partner(partnerId);
    return this.#isExchanging(partnerId) || (partner !== undefined && openToken(ports, partner) !== token);
  }

  /** `isHealed`: there is a whole object to send in place of a part that was refused. */
  #applyOutcome(receiver: Receiver, lane: Lane, item: Item, outcome: Outcome, isHealed = false): void {
    const { ports, directory } = this.#context;
    const { traffic } = this.#context.contacts;
    const at = ports.clock.now();
    const { module, since } = item;
    const partner = directory.partnerOf(item.receiver);
    const mayRetry = !partner || !directory.isSuspendedSince(partner, item.owedAt);
    // The receiver may lack the object of a part: the whole follows, once. [D59]
    const healed = mayRetry && isHealed ? partner : undefined;
    const met = asDelivered(item, outcome);
    const isKnownCdr = module === 'cdrs' && met !== outcome;
    const quirks: Quirk[] = healed ? ['patch-refused'] : isKnownCdr ? ['known-cdr'] : [];
    const attempt = attemptOf(outcome, instantText(ports.clock.stamp(at)), quirks);
    const tried = this.#erasures.item({ ...item, attempts: [...item.attempts, attempt], tries: item.tries + 1 });
    ports.meter.attempted(module, outcome.class, outcome.durationMs / 1000);
    if (partner) this.#reports.used(subjectOf(partner, tried), quirks);
    if (healed) {
      traffic.failed(receiver.partnerId);
      return receiver.retry(lane, { ...tried, asWhole: true }, at, at);
    }
    const next = verdict(this.#rules, {
      module,
      outcome: met,
      attempts: tried.tries,
      since,
      at,
      random: ports.random(),
    });
    if (next.kind === 'delivered') traffic.delivered(receiver.partnerId, outcome.durationMs);
    else traffic.failed(receiver.partnerId);
    if (next.kind === 'retry' && mayRetry) {
      receiver.retry(lane, tried, at, next.dueAt);
    } else if (next.kind === 'retry') {
      this.#bury(receiver, lane, tried, 'auth_error', suspended);
    } else if (next.kind === 'delivered') {
      receiver.delivered(lane, tried);
      this.#wholes.arrived(item);
      ports.meter.deliveryEnded(module, 'delivered', (at - since) / 1000);
    } else if (next.class === 'expired') {
      this.#bury(receiver, lane, tried, 'expired', `expired; the last attempt met: ${outcome.message}`);
    } else this.#bury(receiver, lane, tried, next.class, outcome.message);
  }

  /** Yields to the event loop first: a backlog that ends at once must not block it. */
  async #buryUnsent(
    { sender }: Flight<Receiver>,
    lane: Lane,
    item: Item,
    outcomeClass: OutcomeClass,
    reason: string,
  ): Promise<null> {
    await nextTurn();
    this.#bury(sender, lane, item, outcomeClass, reason);
    return null;
  }

  #bury(receiver: Receiver, lane: Lane, owed: Item, outcomeClass: OutcomeClass, why: string): void {
    const { recorder, ports } = this.#context;
    const item = this.#erasures.item(owed);
    const reason = this.#erasures.text(item.seq, why);
    receiver.died(lane, item, { class: outcomeClass, reason });
    ports.meter.deliveryEnded(item.module, outcomeClass, (ports.clock.now() - item.since) / 1000);
    // The log already has the suspension of the partner, and the rows say the rest: no event per delivery.
    if (reason !== suspended) noteDead(recorder, item, outcomeClass, reason);
    this.#wholes.missed(item);
  }
}

const ownerOf = ({ data }: StoredEvent): PartyId => (data as ObjectEventData).owner;

const asOutdated = (refused: Outcome): Outcome => ({
  ...refused,
  class: 'unavailable',
  message: `${refused.message} to a token that was being replaced`,
});

/** Fields of the log line of an attempt. */
function attemptLine(item: Item, { correlationId }: StoredEvent, outcome: Outcome) {
  return {
    partyId: item.receiver,
    module: item.module,
    objectKey: item.stream,
    attempt: item.tries + 1,
    deliveryId: deliveryId(item.receiver, item),
    outcome: outcome.class,
    durationMs: Math.round(outcome.durationMs),
    correlationId,
  };
}

/** Records `delivery.dead` in the event log. */
function noteDead(recorder: Recorder, item: Item, outcomeClass: OutcomeClass, reason: string): void {
  const delivery = deliveryId(item.receiver, item);
  const { receiver, sender, module, id } = item;
  const object = objectName({ owner: sender, id });
  const data = { delivery, receiver, sender, module, object, class: outcomeClass, reason };
  recorder.note({
    facts: [{ stream: `delivery:${delivery}`, event: { type: 'delivery.dead', data }, party: null }],
    trace: item.correlationId === null ? null : { correlationId: item.correlationId },
  });
}
