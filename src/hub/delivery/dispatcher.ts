/**
 * Dispatches deliveries (store and forward): offers what the outbox owes to the receivers, and lets them send in turn.
 *
 * DISPATCHER-1  The log is the outbox: after any crash every owed delivery is found there again. Memory holds a bounded
 *     window of it.
 * DISPATCHER-2  A delivery is shown as DELIVERED only when its receiver has accepted it.
 * DISPATCHER-3  The hub makes no attempt while the partner is paused, and none of a module while its circuit is open.
 *     None is made while the store takes too few of the ends of earlier ones. [OUTBOX-WRITER-4]
 * DISPATCHER-4  Partners are served round-robin, so one partner's backlog does not raise the latency of others.
 * DISPATCHER-5  At most `begunMax` deliveries begin in one turn of the event loop, and fewer with large bodies: pushes to many
 *     receivers do not hold up what a driver waits for until all of them are sent.
 */
import { type DeliveryRow, type Seq, type StoredEvent, smallBody } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { ObjectEventData } from '../../domain/events.ts';
import { moduleNames } from '../../domain/modules.ts';
import { keyOf, type Partner, type PartyId } from '../../domain/party.ts';
import type { Replacer } from '../../domain/person.ts';
import type { DeadGroupName } from '../../domain/triage.ts';
import { Limit, mapLimit } from '../../kit/concurrency.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Context } from '../kernel/context.ts';
import { courierActor } from '../partners/partner-actors.ts';
import type { PartnerReports } from '../partners/reports.ts';
import { Attempts } from './attempts.ts';
import { LagTurns, lagOf, type Measured } from './backpressure.ts';
import type { DeadGroupCount } from './dead-counts.ts';
import type { DeliveryMemory, RedrivenAs } from './delivery-row.ts';
import type { Backlog, Desk } from './desk.ts';
import { Erasures } from './erasures.ts';
import { FairScheduler } from './fair-scheduler.ts';
import type { Lane } from './lanes.ts';
import { type DeliveryStanding, OutboxWriter, rowsOf } from './outbox-writer.ts';
import { Receiver } from './receiver.ts';
import { Wholes } from './wholes.ts';
import { logPage } from './window.ts';

/** Receivers whose rows a restart reads concurrently. */
const openedAtOnce = 16;
/** Pages of backlogs that are read concurrently; each may take `logPage.size` characters of memory. */
const pagesAtOnce = 8;
/**
 * Deliveries that begin in one turn of the event loop, each with up to 64 KiB of body: they take a few ms. Fewer make the turns of a busy hub
 * more than they save. [DISPATCHER-5]
 */
const begunMax = 64;
/** Interval, ms, at which floors of idle receivers are written. A longer one makes a restart read more of the log. */
const idleFloorsMs = 60_000;
/** How long the lag of one partner is kept, ms, and of how many receivers it is the median: hundreds of partners ask while the hub is busy. */
const lagKeptMs = 1_000;
const lagReceiversMax = 16;
/** The same of the lag of all, which the hub looks at ten times a second: further receivers have their turn in the next looks. */
const lagOfAllReceiversMax = 64;

const nothingOwed: Backlog = { depth: 0, oldestAt: null, dead: 0, delivered: 0, behind: false };

export class Dispatcher {
  readonly wholes: Wholes;
  readonly #context: Context;
  readonly #writer: OutboxWriter;
  readonly #scheduler: FairScheduler<Receiver>;
  readonly #attempts: Attempts;
  readonly #erasures: Erasures;
  readonly #desk: Desk<Receiver>;
  readonly #receivers = new Map<PartyId, Receiver>();
  /** By each party of the partner. */
  readonly #byParty = new Map<PartyId, Receiver>();
  #cleared: (group: DeadGroupName) => void = () => {};
  /** What has begun in this turn of the event loop. [DISPATCHER-5] */
  #begun = 0;
  /** Starts no further attempt. */
  #isDraining = false;
  readonly #lagTurns = new LagTurns<Receiver>();
  /** By partner that was asked for. */
  #lags = { since: Number.NEGATIVE_INFINITY, ms: new Map<PartyId, number>() };

  /** `isExchanging`: whether an exchange of credentials of the partner is in progress. */
  constructor(context: Context, reports: Pick<PartnerReports, 'used'>, isExchanging: (partner: PartyId) => boolean) {
    const { recorder, store, ports } = context;
    this.#context = context;
    const { clock, log, windowMax } = ports;
    const upTo = () => recorder.feed.upTo;
    this.#writer = new OutboxWriter({ store, clock, log, rowsMax: windowMax }, upTo, () => this.#dispatch());
    this.#scheduler = new FairScheduler(ports);
    this.wholes = new Wholes(context, this);
    this.#erasures = new Erasures(() => store.horizon());
    this.#attempts = new Attempts(context, this.#scheduler, this.wholes, reports, this.#erasures, isExchanging);
    const pump = (receiver: Receiver) => {
      this.#scheduler.giveTurn(receiver);
      this.#dispatch();
    };
    const cleared = (group: DeadGroupName) => this.#cleared(group);
    const pages = new Limit(pagesAtOnce);
    const counts = new Limit(1);
    const { notes } = this.wholes;
    const [writer, scheduler, erasures] = [this.#writer, this.#scheduler, this.#erasures];
    this.#desk = { context, writer, scheduler, erasures, notes, pages, counts, pump, cleared };
  }

  /** Rebuilds the lanes from floors, rows and log. Must end before the first delivery is sent. */
  async recover(): Promise<void> {
    const { store, recorder, directory } = this.#context;
    const floors = new Map((await store.floors()).map(({ dest, seq }) => [dest, seq]));
    await mapLimit([...directory.partners()], openedAtOnce, async ({ id, roles }) => {
      const parties = [...new Set(roles.map(keyOf))];
      for (const party of parties) this.#receiverOf(party);
      await this.#receivers.get(id)?.open(new Map(parties.map((party) => [party, floors.get(party) ?? 0])));
    });
    await this.#scan(recorder.feed.upTo);
  }

  /** Advances the floors of idle receivers every `idleFloorsMs`, so that a restart reads little of the log. */
  keepIdleFloors(): void {
    const { timers, ports } = this.#context;
    timers.arm('idle-floors', ports.clock.now() + idleFloorsMs, () => {
      for (const receiver of this.#receivers.values()) receiver.window.touch();
      this.keepIdleFloors();
    });
  }

  /** Offers a committed event to each receiver that it is owed to. */
  offer(event: StoredEvent): void {
    for (const party of event.to) this.#receiverOf(party)?.offer(party, event);
  }

  /** Starts the floors of new parties at the head of the log: they are owed nothing of the past. */
  addParties(parties: readonly PartyId[]): void {
    for (const party of parties) this.#receiverOf(party)?.window.addParty(party);
  }

  /** Forgets parties that no partner holds any more and to which nothing is owed. */
  removeParties(parties: readonly PartyId[]): void {
    for (const party of parties) {
      this.#byParty.get(party)?.window.removeParty(party);
      this.#byParty.delete(party);
    }
  }

  /** Whether a delivery to a party waits or is a dead letter; throws `unavailable` while the store takes no delivery state. */
  async owes(party: PartyId): Promise<boolean> {
    if (this.#byParty.get(party)?.window.isOwed(party)) return true;
    await this.#writer.flushed();
    for await (const { state } of rowsOf(this.#context.store, { dest: party, rows: 'open', fromSeq: 0 }))
      if (state !== 'DISCARDED') return true;
    return false;
  }

  /** Sends what the partner's courier, its circuits and the global limit allow now. */
  pump(partnerId: PartyId): void {
    const receiver = this.#receivers.get(partnerId);
    if (!receiver) return;
    for (const module of moduleNames) receiver.noteHeld(module);
    this.#desk.pump(receiver);
  }

  /** Ends every delivery that waits for a suspended partner as a dead letter with that reason. [D50] */
  suspend({ id }: Partner): void {
    this.#context.supervisor.send(courierActor(id), { type: 'suspend' });
    this.#receivers.get(id)?.releaseAll();
    this.pump(id);
  }

  /** Depth, age and counts of a partner's queue. */
  backlog(partnerId: PartyId): Backlog {
    return this.#receivers.get(partnerId)?.backlog ?? nothingOwed;
  }

  /** Deliveries of a partner first in their lane that were due before an instant (hub time, ms) and are not blocked. */
  overdue(partnerId: PartyId, before: number): number {
    return this.#receivers.get(partnerId)?.overdue(before) ?? 0;
  }

  /** Whether memory has no more room for deliveries of a sender's module to the partner that holds the party. */
  isFull(party: PartyId, { module, owner }: Pick<ObjectEventData, 'module' | 'owner'>): boolean {
    return this.#receiverOf(party)?.window.isFull(module, owner) ?? false;
  }

  /** Forwarding lag, ms: how long deliveries wait for the hub itself, all or those from one partner; 0 while the dispatcher stops. */
  lagMs(from: PartyId | null): number {
    const { clock, turn } = this.#context.ports;
    if (this.#isDraining) return 0;
    const now = clock.now();
    const all = this.#receivers.values();
    if (from === null) return lagOf(measured(this.#lagTurns.of(all), null), turn(), now, lagOfAllReceiversMax);
    if (now - this.#lags.since >= lagKeptMs) this.#lags = { since: now, ms: new Map() };
    const { ms } = this.#lags;
    const own = ms.get(from) ?? lagOf(measured(all, from), turn(), now, lagReceiversMax);
    ms.set(from, own);
    return own;
  }

  /** Whether a delivery that has no row is still going to be sent. */
  isPending(party: PartyId, seq: Seq): boolean {
    return seq > this.#context.recorder.feed.upTo || (this.#byParty.get(party)?.window.isPending(party, seq) ?? true);
  }

  /** State of a delivery, and its row, including one that is not written yet. [DISPATCHER-2] */
  async standing(party: PartyId, seq: Seq): Promise<DeliveryStanding> {
    // Before the row: a delivery that ends gets its row before it stops being pending.
    const isPending = this.isPending(party, seq);
    const row = this.#writer.unwritten(party, seq) ?? (await this.#context.store.delivery(party, seq));
    return { row, state: row?.state ?? (isPending ? 'PENDING' : 'DELIVERED') };
  }

  /** Puts a delivery back into its lane at once; `before`: its present row. Survives a kill once it resolves, with the new row. */
  async redrive(event: StoredEvent, party: PartyId, before: DeliveryRow | null, as: RedrivenAs): Promise<DeliveryRow> {
    const receiver = this.#receiverOf(party);
    if (!receiver) throw new HubError('notFound');
    return receiver.redrive(event, party, before, as);
  }

  /** Gives up a dead letter; survives a kill once it resolves, with its new row. `before`: its present row. */
  async discard(before: DeliveryRow): Promise<DeliveryRow> {
    const receiver = this.#receiverOf(before.dest);
    if (!receiver) throw new HubError('notFound');
    return receiver.discard(before);
  }

  /** Stops counting a dead letter that a trim of the log removed. */
  forget(row: DeliveryRow): void {
    this.#receiverOf(row.dest)?.forget(row);
  }

  hasDead(party: PartyId): boolean {
    return (this.#receiverOf(party)?.backlog.dead ?? 0) > 0;
  }

  /**
   * Has the row of a dead letter no longer owe its note. False, and nothing is written, when `isSame` says after the row was
   * read that an operator has had it replaced since. [MISSED-NOTES-1]
   */
  async noted(party: PartyId, seq: Seq, isSame: () => boolean): Promise<boolean> {
    const receiver = this.#receiverOf(party);
    const { row } = await this.standing(party, seq);
    if (!isSame()) return false;
    const { unnoted, ...data } = (row?.data ?? {}) as Partial<DeliveryMemory>;
    // What was read may name a person who is erased meanwhile: then the next start notes it once more.
    if (!receiver || !row || !unnoted || this.#erasures.mayDiffer(seq)) return true;
    this.#writer.remember(receiver.window.progressNow(party), { ...row, data });
    return true;
  }

  /** Dead letters of a group. */
  deadIn(group: DeadGroupName): number {
    return this.#byParty.get(group.receiver)?.dead.of(group) ?? 0;
  }

  /** Of all partners. */
  deadGroups(): DeadGroupCount[] {
    return [...this.#receivers.values()].flatMap(({ dead }) => [...dead.groups()]);
  }

  /** Has a function called when the last dead letter of a group is none any more. */
  onCleared(cleared: (group: DeadGroupName) => void): void {
    this.#cleared = cleared;
  }

  /** Keeps names out of what is written from now on of deliveries in memory; the result ends it. [ERASURES-1] */
  beginErasure(replacer: Replacer): (upTo: Seq) => void {
    const ended = this.#erasures.begin(replacer);
    this.wholes.forget();
    return (upTo) => {
      ended(upTo);
      this.wholes.forget();
    };
  }

  unwritten(): readonly DeliveryRow[] {
    return this.#writer.unwrittenRows();
  }

  /** Resolves when the store holds the row of every delivery that ended before this call; throws `unavailable` when it takes none in time. */
  flushed(): Promise<void> {
    return this.#writer.flushed();
  }

  /** Ends every wait for rows that the store does not let succeed now. [OUTBOX-WRITER-3] */
  giveUp(): void {
    this.#writer.giveUp();
  }

  /** Starts no further attempt; resolves when the calls in flight have ended, at the latest after `graceMs`. */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    await Promise.all([...this.#receivers.values()].map((receiver) => receiver.drain(graceMs)));
  }

  /** Waits for the calls in flight without a limit, and writes their rows and all floors. */
  async close(): Promise<void> {
    this.#isDraining = true;
    await Promise.all([...this.#receivers.values()].map((receiver) => receiver.close()));
    await this.wholes.notes.close();
    await this.#writer.close();
  }

  /** The receiver of the partner that holds a party, created on first use; undefined when no partner holds it. */
  #receiverOf(party: PartyId): Receiver | undefined {
    const known = this.#byParty.get(party);
    if (known) return known;
    const partner = this.#context.directory.partnerOf(party);
    if (!partner) return undefined;
    const receiver = this.#receivers.get(partner.id) ?? new Receiver(this.#desk, partner.id);
    this.#receivers.set(partner.id, receiver);
    this.#byParty.set(party, receiver);
    return receiver;
  }

  /** Reads the log once for all receivers, from the lowest cursor of the parties that are not behind. */
  async #scan(head: Seq): Promise<void> {
    const receivers = [...this.#receivers.values()];
    const lowest = () => Math.min(head, ...receivers.map(({ window }) => window.lowestCursor ?? head));
    for (let after = lowest(); after < head; after = Math.max(after, lowest())) {
      const events = await this.#context.store.read({ ...logPage, after });
      // Other nodes have written since: the commit feed hands those events on after recovery.
      const own = events.filter(({ seq }) => seq <= head);
      for (const event of own) this.offer(event);
      after = own.at(-1)?.seq ?? head;
    }
    for (const receiver of receivers) receiver.window.scanned();
  }

  #dispatch(): void {
    while (this.#begun < begunMax && !this.#isDraining && !this.#scheduler.isFull && !this.#writer.isFull) {
      const receiver = this.#scheduler.nextTurn();
      if (!receiver) return;
      const { allowed, lanes } = receiver;
      const slots = this.#scheduler.slots(receiver, allowed);
      const lane = receiver.next(slots);
      if (!lane) {
        // Lanes wait and the courier allows them to go: only the global limit may block this receiver.
        if (lanes.busy < allowed && lanes.busy < lanes.size) this.#scheduler.keepBack(receiver, { slots, allowed });
        continue;
      }
      this.#scheduler.giveTurn(receiver);
      if (!receiver.waitsForSession(lane)) this.#fly(receiver, lane);
    }
  }

  /** What was put back is written before it goes: null when it is; false when the hub ends meanwhile. [REDRIVE-7] */
  #written({ items: [head] }: Lane): Promise<boolean> | null {
    if (!head?.isRedriven || head.tries > 0 || !this.#writer.unwritten(head.receiver, head.seq)) return null;
    return this.#writer.written().then(
      () => !this.#isDraining,
      () => false,
    );
  }

  /** Counts what begins; the next turn goes on. `size`: characters of the body. [DISPATCHER-5] */
  #count(size: number): void {
    if (this.#begun === 0) {
      void nextTurn().then(() => {
        this.#begun = 0;
        this.#dispatch();
      });
    }
    this.#begun += 1 + Math.floor(size / smallBody);
  }

  #fly(receiver: Receiver, lane: Lane): void {
    const size = lane.items[0]?.size ?? 0;
    this.#count(size);
    const flight = this.#scheduler.begin(receiver, size);
    const make = () => this.#attempts.make(flight, lane);
    const written = this.#written(lane);
    const made = written === null ? make() : written.then((isWritten) => (isWritten ? make() : undefined));
    void made.then(() => {
      this.#scheduler.end(flight);
      this.#dispatch();
      receiver.window.readOn();
    });
  }
}

function* measured(receivers: Iterable<Receiver>, from: PartyId | null): Iterable<Measured> {
  for (const receiver of receivers) yield receiver.measured(from);
}
