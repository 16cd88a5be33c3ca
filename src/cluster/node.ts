/**
 * One node of several on one database: decides whether the owner's hub or a door runs here. One node at a time is the
 * owner; the others answer what a door can, and pass the rest on to the owner.
 *
 *     standby → gaining → owner → (isolated →) standby …        any → leaving
 *
 * NODE-1  Only the lease holder delivers, and answers requests that a door cannot. The lease is checked by the clock
 *     before each call, and every `rolePollMs`; the store refuses a former owner's writes under its fencing token.
 * NODE-2  A new owner serves once everything recorded is restored. Until then, and during a handover, requests are held
 *     for a bounded time, not refused at once.
 * NODE-3  A leaving owner notifies its peers first. They hold new requests, and answer once none of theirs is in flight
 *     to it. So no request is cut, and none is sent to a node that has just ceased to be the owner.
 * NODE-4  A node that lost ownership involuntarily regains it only under a new fencing token. (LEASES-6)
 * NODE-5  An owner whose lease expired because it cannot reach the database goes on for `isolatedMs` at most with what
 *     needs no database: it answers from memory and asks partners for authorizations. It writes nothing, sends
 *     nothing else, and stops as soon as the database answers, whichever node is the owner then.
 * NODE-6  Every node that reaches the database is a door: it answers pushes, reads, lists, authorizations and commands
 *     itself, with or without an owner. It notifies the owner of its writes, and the owner notifies it of a change of
 *     partners or routes before acknowledging it. Both also poll the database, so a lost notification costs one second
 *     at most.
 * NODE-7  An owner whose way to the database is slow beside another node's hands over and goes on as a door: every
 *     delivery takes several of its trips. It does so once in `yieldAgainMs` at most.
 */
import type { Seq, StoreHealth } from '../../storage/contract.ts';
import { every, sleep, withTimeout } from '../kit/clock.ts';
import { systemClock as clock } from '../kit/system-clock.ts';
import { changeNotice, HeadPoll, Pings } from './announcements.ts';
import { closed, Doorway } from './doorway.ts';
import { keptMs as isolatedMs, KnownOwner, Membership } from './membership.ts';
import type { NodeParts, Place, Role, Served, Slowness } from './node-parts.ts';
import { beginTenure, type Having, type Tenure } from './tenure.ts';

const rolePollMs = 100;
const retryMs = 1000;
const takeoverPollMs = 100;
/** Longest wait for the release of the lease, and then for the next owner to answer. */
const handOverMs = 10_000;
/** Interval between two handovers of a slow owner at least. [NODE-7] */
const yieldAgainMs = 600_000;
/** Grace of deliveries in flight at a handover. The next owner repeats the rest, so a longer wait gains nothing. */
const deliveryGraceMs = 1000;

const since = (begun: number): number => Math.round(clock.monotonic() - begun);

export class HubNode {
  /** NODE-6. */
  readonly doorway: Doorway;
  readonly #parts: NodeParts;
  readonly #stopLooking = every(clock, rolePollMs, () => this.look());
  readonly #membership: Membership;
  #changed: () => void = () => {};
  #tenure: Tenure | null = null;
  /** The hub of this tenure, once it has restored everything recorded. */
  #served: Served | null = null;
  /** NODE-5. */
  #isolated: { readonly hub: Served; readonly tenure: Tenure; readonly until: number } | null = null;
  #beginning: Promise<void> = Promise.resolve();
  #ending: Promise<void> | null = null;
  #notBefore = 0;
  #owner = '';
  /** Requests of clients are held, not answered by the hub here; those that a peer passed on are answered. */
  #holds = false;
  #role: Role = 'standby';
  #leaving = false;
  /** NODE-7. */
  #yielding: Promise<void> | null = null;
  #yieldNotBefore = 0;
  /** This node hands over: while no owner is known, requests wait for the next one. */
  #handsOver = false;
  readonly #known: KnownOwner;
  readonly #head: HeadPoll;
  readonly #written: Having['appended'];
  readonly #pings = new Pings((head) => this.#membership.pingOwner(`head/${head}`));

  constructor(parts: NodeParts) {
    this.#parts = parts;
    this.#known = new KnownOwner(parts.store);
    this.#membership = new Membership(parts.store, parts.passing);
    this.doorway = new Doorway(parts, this.#membership, {
      changed: () => this.#changed(),
      isLeaving: () => this.#leaving,
    });
    this.#written = changeNotice(parts.isForDoors, this.#membership, () => this.doorway.door);
    this.#head = new HeadPoll(parts.store, () => {
      for (const one of [this.#served, this.doorway.door]) one?.follow(parts.store.head());
    });
    parts.meter.role('standby');
  }

  get role(): Role {
    return this.#role;
  }

  get neighbours(): Membership {
    return this.#membership;
  }

  /** The owner's hub on this node; null while there is none, or it has not recovered yet. */
  get serving(): Served | null {
    return this.#served;
  }

  /** This node's door; null while it may not answer. [NODE-6] */
  get door(): Served | null {
    const isUsable = this.#known.isReached() && this.#parts.store.isFollowed();
    return isUsable ? this.doorway.door : null;
  }

  /** After a write of the door here: notifies the owner, here or on a peer. */
  readonly writtenAtDoor: Having['appended'] = (_commit, { last }) => {
    if (this.#served === null) this.#pings.written(last);
    else this.#served.follow(last);
  };

  /** A peer that wrote reports that the log goes up to `seq`. */
  follow(seq: Seq): void {
    this.#parts.store.sees(seq);
    this.#served?.follow(seq);
  }

  /** What the operator should mend, also while this node can pass requests on all the same; null when there is nothing. */
  get warning(): string | null {
    const { state, reason } = this.#parts.store.health();
    return state === 'closed' ? null : reason;
  }

  /** Registers the listener that runs whenever the place of a request may have changed. */
  onChanged(listener: () => void): void {
    this.#changed = listener;
  }

  place(isHop: boolean): Place {
    const { store, passing } = this.#parts;
    if (this.#served !== null && (!this.#holds || isHop)) return { kind: 'here', hub: this.#served };
    if (this.#isolated !== null) return { kind: 'here', hub: this.#isolated.hub };
    if (this.#tenure !== null || store.held() !== null) return { kind: 'wait' };
    const { areLeaving } = this.#membership;
    const owner = this.#known.now();
    if (owner === null || owner.id === store.id) return { kind: this.#handsOver || areLeaving ? 'wait' : 'nowhere' };
    // A peer may learn before this node does that this node is the owner, and pass a request on early.
    if (isHop) return { kind: areLeaving ? 'wait' : 'nowhere' };
    if (this.#membership.isLeaving(owner.id)) return { kind: 'wait' };
    if (owner.url === null || passing === null) return { kind: 'nowhere' };
    return { kind: 'peer', target: { id: owner.id, url: owner.url } };
  }

  /**
   * Whether the hub of a tenure may make a call that depends on no write, like an authorization: it is isolated, or it
   * serves and this node has not noticed yet that its lease expired (`rolePollMs` at most). [NODE-5]
   */
  mayCallUnwritten(tenure: Tenure): boolean {
    return this.#isolated?.tenure === tenure || (this.#served !== null && this.#tenure === tenure);
  }

  healthChanged(health: StoreHealth): void {
    this.#tenure?.healthChanged(health);
    this.look();
  }

  /** Compares the lease with what runs here, and starts or stops hub and door accordingly. Never throws. */
  look(): void {
    const { store } = this.#parts;
    if (this.#tenure !== null && !this.#tenure.isHeld()) this.#lose();
    // Not before the door can answer.
    if (this.#isolated !== null && (this.#known.isReached() || clock.monotonic() > this.#isolated.until))
      this.#endIsolation();
    this.#begin();
    store.offer(this.doorway.door !== null && !this.#leaving);
    this.#lookAtTrips();
    this.doorway.look();
    if (this.doorway.door !== null || this.#served !== null) this.#head.look();
    this.#membership.forgetSilent();
    const owner = this.#known.now()?.id ?? '';
    if (owner === this.#owner) return;
    this.#owner = owner;
    if (owner !== '') this.#membership.keepOnly(owner);
    this.#changed();
  }

  /**
   * Resolves when this node can answer requests or pass them on and has tried to open its door, or when its settings do
   * not fit, or after `timeoutMs`.
   */
  async settled(timeoutMs: number): Promise<void> {
    const canAnswer = () => this.door !== null || ['here', 'peer'].includes(this.place(false).kind);
    const isSettled = () => this.doorway.fault !== null || (!this.doorway.isOpening && canAnswer());
    this.look();
    for (const until = clock.monotonic() + timeoutMs; !isSettled() && clock.monotonic() < until; ) {
      await sleep(clock, rolePollMs);
    }
  }

  /** A peer hands over: resolves when no request passed on from here is in flight, or after a timeout. [NODE-3] */
  async handsOver(nodeId: string): Promise<void> {
    this.#membership.handsOver(nodeId);
    await this.#parts.landed();
  }

  /** Leaves the cluster; the owner hands over. [NODE-3] */
  async leave(): Promise<void> {
    const { passing } = this.#parts;
    const report = this.#telling('leaving');
    this.#leaving = true;
    if (this.#isolated !== null) this.#endIsolation();
    this.#become('leaving');
    await this.#yielding;
    await this.#beginning;
    await this.#endService(report);
    if (await this.#leaseGone()) await this.#takenOver(report, () => true);
    await this.#ending;
    this.#handsOver = false;
    this.#changed();
    passing?.endUpgrades();
  }

  /** Logs the steps of what begins now. */
  #telling(what: string): (step: string) => void {
    const begun = clock.monotonic();
    return (step) => this.#parts.log.info({ afterMs: since(begun) }, `${what}: ${step}`);
  }

  /** Ends the tenure here while requests wait for the next owner. [NODE-3] */
  async #endService(report: (what: string) => void): Promise<void> {
    const { store, idle } = this.#parts;
    await this.#served?.drain(deliveryGraceMs);
    this.#holds = true;
    this.#handsOver = true;
    if (this.#served !== null) {
      // Reads the node table again, so that peers that have just started are notified, too.
      await store.poke();
      await this.#membership.tell(`leaving/${encodeURIComponent(store.id)}`);
      report('peers have ended their requests to this node, or timed out');
      await idle();
      report('requests in flight have ended, or timed out');
      // The lease may have been lost meanwhile: then this is null, and `#stop` closes the hub.
      const hub = this.#served;
      this.#served = null;
      await closed(hub, this.#parts.log);
      report('the hub is closed and its state is written');
    }
    this.#tenure?.end();
    this.#tenure = null;
  }

  /** The lease is released: resolves when another node answers, when `goesOn` ends, or after a timeout. */
  async #takenOver(report: (what: string) => void, goesOn: () => boolean): Promise<void> {
    const { store } = this.#parts;
    report('the lease is released');
    await this.#membership.tell('look');
    const areOthers = () => this.#membership.all().length > 0;
    const isWaited = () => goesOn() && areOthers() && this.place(false).kind === 'wait' && store.held() === null;
    for (const until = clock.monotonic() + handOverMs; clock.monotonic() < until && isWaited(); ) {
      await sleep(clock, takeoverPollMs);
      await store.poke();
      this.look();
    }
    report('another node answers');
  }

  /** [NODE-7] */
  #lookAtTrips(): void {
    if (this.#served === null || this.#leaving || clock.monotonic() < this.#yieldNotBefore) return;
    const slowness = this.#parts.store.slowness();
    if (slowness === null) return;
    this.#yieldNotBefore = clock.monotonic() + yieldAgainMs;
    this.#yielding = this.#yield(slowness).finally(() => (this.#yielding = null));
  }

  /** Never rejects. */
  async #yield(slowness: Slowness): Promise<void> {
    const { store, log } = this.#parts;
    const report = this.#telling('handing over');
    log.warn(slowness, "this node hands over: its way to the database takes much longer than another node's");
    try {
      await this.#endService(report);
      if (this.#isolated !== null) return;
      if (!this.#leaving) this.#become('standby');
      store.giveUp();
      // The first beat starts to release the lease, the second one sees that it did.
      await store.poke();
      await this.#takenOver(report, () => !this.#leaving);
      await this.#ending;
    } catch (error) {
      log.error({ err: error }, 'handing over failed');
    } finally {
      this.#holds = false;
      this.#handsOver = false;
      this.#changed();
    }
  }

  async close(): Promise<void> {
    this.#stopLooking();
    this.#leaving = true;
    await this.doorway.close();
    this.#parts.passing?.close();
  }

  /** Releases the lease. False when the database is unreachable: then the lease expires. */
  async #leaseGone(): Promise<boolean> {
    const { store, log } = this.#parts;
    try {
      if (await withTimeout(clock, handOverMs, store.leave())) return true;
      throw new Error('the database does not answer');
    } catch (error) {
      log.warn({ err: error }, 'could not release the lease; it expires');
      return false;
    }
  }

  /** Starts a takeover when this node holds the lease and runs no hub. */
  #begin(): void {
    const isBusy = this.#isolated !== null || this.#ending !== null || this.#yielding !== null;
    if (this.#leaving || this.#tenure !== null || isBusy) return;
    const { store } = this.#parts;
    const fence = store.held();
    if (fence === null || clock.monotonic() < this.#notBefore) return;
    this.#tenure = beginTenure(store, fence, this.#written);
    this.#become('gaining');
    this.#beginning = this.#takeOver(this.#tenure);
  }

  /** [NODE-2] Never rejects. */
  async #takeOver(tenure: Tenure): Promise<void> {
    const { serve, meter, log } = this.#parts;
    const begun = clock.monotonic();
    log.info({ tenure: tenure.token }, 'this node takes over');
    const isOver = () => this.#tenure !== tenure || !tenure.isHeld();
    let hub: Served | null = null;
    try {
      hub = await serve(tenure);
      if (!isOver()) await hub.recover();
    } catch (error) {
      log.error({ err: error }, 'this node could not take over');
      this.doorway.failed(error);
      this.#notBefore = clock.monotonic() + retryMs;
      if (this.#tenure === tenure) this.#lose();
    }
    if (hub === null || isOver()) return closed(hub, this.#parts.log);
    this.#served = hub;
    meter.tookOver();
    log.info({ afterMs: since(begun) }, 'this node is the owner');
    this.#become(this.#leaving ? 'leaving' : 'owner');
    void this.#membership.tell('look');
  }

  /** Ends the tenure: from now on the hub sends and writes nothing; it is then isolated or stopped. [NODE-1, NODE-5] */
  #lose(): void {
    const { store, log } = this.#parts;
    const [hub, tenure] = [this.#served, this.#tenure];
    tenure?.end();
    this.#tenure = null;
    this.#served = null;
    // The store may already hold the lease again, under another token: that one must not be given up.
    if ((store.held()?.token ?? tenure?.token) === tenure?.token) store.giveUp();
    if (hub !== null && tenure !== null && !this.#leaving && !store.isFresh()) {
      this.#isolated = { hub, tenure, until: clock.monotonic() + isolatedMs };
      log.warn({}, 'this node does not reach the database: it is not the owner any more, and answers from memory');
      return this.#become('isolated');
    }
    log.warn({}, 'this node is not the owner any more');
    this.#stop(hub);
  }

  #endIsolation(): void {
    const hub = this.#isolated?.hub ?? null;
    this.#isolated = null;
    this.#parts.log.warn({}, 'the isolation ended; this node answers nothing from memory any more');
    this.#stop(hub);
  }

  #stop(hub: Served | null): void {
    this.#become(this.#leaving ? 'leaving' : 'standby');
    this.#ending = Promise.all([this.#beginning, closed(hub, this.#parts.log)]).then(() => {
      this.#ending = null;
      this.look();
    });
  }

  #become(role: Role): void {
    this.#role = role;
    this.#parts.meter.role(role);
    this.#changed();
  }
}
