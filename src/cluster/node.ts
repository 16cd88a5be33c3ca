/**
 * One node of several on one database. One at a time is the owner and runs the hub; the others stand by, and pass what they are asked on
 * to it.
 *
 *     standby → gaining → owner → (isolated →) standby …        any → leaving
 *
 * NODE-1  Only who holds the lease delivers, and answers what is not anybody's to answer. It is asked by the clock before each call, and looked
 *     at every `lookMs`; what a former owner still writes under its fence is refused.
 * NODE-2  Who becomes the owner serves when everything recorded is back. Until then, and while an owner hands over, requests are held for a
 *     while and not refused.
 * NODE-3  A node that leaves tells its peers first. They hold what comes, and answer when nothing of theirs is under way to it; so nothing is
 *     cut, and nothing is sent to a node that has just ceased to be the owner.
 * NODE-4  Whoever ceased to be the owner against its will becomes it again only under a new token. (LEASES-6)
 * NODE-5  An owner whose lease ended because it does not reach the database goes on, for `isolatedMs` at most, with what needs none: it
 *     answers from memory and asks partners for authorization. It writes nothing and sends nothing else, and ends as soon as the database
 *     answers, whoever is the owner then.
 * NODE-6  Every node that reaches the database is a door: pushes, reads, lists, authorizations and commands are answered where they arrive, with or
 *     without an owner. It tells the owner what it has written, and hears of partners and routes before their change is
 *     acknowledged; both come by the database as well, two seconds later at most.
 */
import type { Seq, StoreHealth } from '../../storage/contract.ts';
import { every, sleep, withTimeout } from '../kit/clock.ts';
import { systemClock as clock } from '../kit/system-clock.ts';
import { Membership } from './membership.ts';
import type { NodeParts, Place, Role, Served } from './node-parts.ts';
import { Pings } from './pings.ts';
import type { Having } from './shared.ts';
import { beginTenure, type Tenure } from './tenure.ts';

const [lookMs, againMs, pokeMs, handOverMs] = [50, 1000, 100, 10_000];
/** So often it is looked how far the log goes, whether or not somebody told; a door that cannot be made is tried again after so long. */
const [headMs, doorAgainMs] = [1000, 10_000];
/** For so long nodes wait for each other's answer when they tell what they wrote. */
const toldMs = 1000;
/** Back-off: after a peer timed out, changes are announced without waiting for answers for so long. */
const unheardMs = 10_000;

/** Who hands over lets deliveries end for so long. They are sent again by the next one, so nobody waits longer for them. */
const deliveryGraceMs = 1000;
/** For so long what an isolated node has in memory may be older than what another owner has. */
const isolatedMs = 60_000;

const since = (begun: number): number => Math.round(clock.monotonic() - begun);

export class HubNode {
  readonly #parts: NodeParts;
  readonly #stopLooking = every(clock, lookMs, () => this.look());
  readonly #membership: Membership;
  #changed: () => void = () => {};
  #tenure: Tenure | null = null;
  /** The hub of this tenure, once everything recorded is back. */
  #served: Served | null = null;
  /** NODE-5. */
  #isolated: { readonly hub: Served; readonly tenure: Tenure; readonly until: number } | null = null;
  #beginning: Promise<void> = Promise.resolve();
  #ending: Promise<void> | null = null;
  #notBefore = 0;
  #owner = '';
  /** What comes from outside waits. */
  #holds = false;
  #role: Role = 'standby';
  #leaving = false;
  /** Another node is about to become the owner. */
  #handsOver = false;
  /** NODE-6. */
  #door: Served | null = null;
  #opening: Promise<void> | null = null;
  #doorNotBefore = 0;
  /** Monotonic milliseconds, like the others. */
  #lookedAt = 0;
  #looking = false;
  #unheardUntil = 0;
  readonly #pings = new Pings((head) => this.#membership.tellOwner(`head/${head}`, toldMs));

  constructor(parts: NodeParts) {
    this.#parts = parts;
    this.#membership = new Membership(parts.store, parts.passing);
    parts.meter.role('standby');
  }

  get role(): Role {
    return this.#role;
  }

  get neighbours(): Membership {
    return this.#membership;
  }

  /** The hub that runs here; null while none does, or not yet. */
  get serving(): Served | null {
    return this.#served;
  }

  /** What every node answers by itself; null while this one cannot. [NODE-6] */
  get door(): Served | null {
    const { store } = this.#parts;
    const isUsable = store.health().state === 'open' && store.isFresh() && store.isFollowed();
    return isUsable ? this.#door : null;
  }

  /** The owner learns of what a door has written. */
  readonly writtenAtDoor: Having['appended'] = (_commit, { last }) => {
    if (this.#served === null) this.#pings.written(last);
    else this.#served.follow(last);
  };

  /** A node that wrote has told how far the log goes. */
  follow(seq: Seq): void {
    this.#parts.store.sees(seq);
    this.#served?.follow(seq);
  }

  /** Partners or routes have changed: resolves when the door here goes by it. */
  async directoryChanged(seq: Seq): Promise<void> {
    // One that is being opened may have read what was before.
    await this.#opening;
    await this.#door?.followed(seq);
  }

  /** What somebody should see to while everything goes on; null when there is nothing. */
  get warning(): string | null {
    const { state, reason } = this.#parts.store.health();
    return state === 'open' ? reason : null;
  }

  /** Called whenever a request may go elsewhere than before. */
  onChanged(listener: () => void): void {
    this.#changed = listener;
  }

  place(isHop: boolean): Place {
    const { store, passing } = this.#parts;
    if (this.#served !== null && (!this.#holds || isHop)) return { kind: 'here', hub: this.#served };
    if (this.#isolated !== null) return { kind: 'here', hub: this.#isolated.hub };
    if (this.#tenure !== null || store.held() !== null) return { kind: 'wait' };
    const { areLeaving } = this.#membership;
    const owner = store.owner();
    if (owner === null || owner.id === store.id) return { kind: this.#handsOver || areLeaving ? 'wait' : 'nowhere' };
    // Of two nodes one hears first that the other has taken over: what it passes on may come before the other knows it.
    if (isHop) return { kind: areLeaving ? 'wait' : 'nowhere' };
    if (this.#membership.isLeaving(owner.id)) return { kind: 'wait' };
    if (owner.url === null || passing === null) return { kind: 'nowhere' };
    return { kind: 'peer', target: { id: owner.id, url: owner.url } };
  }

  /**
   * Whether the hub of a tenure may call partners when the call rests on no write, as an authorization does: it is isolated, or it serves and the
   * end of its lease has not been noticed yet (at most `lookMs`). [NODE-5]
   */
  mayCallUnwritten(tenure: Tenure): boolean {
    return this.#isolated?.tenure === tenure || (this.#served !== null && this.#tenure === tenure);
  }

  healthChanged(health: StoreHealth): void {
    this.#tenure?.healthChanged(health);
    this.look();
  }

  /** Compares what the store holds with what runs here. Never throws. */
  look(): void {
    const { store } = this.#parts;
    if (this.#tenure !== null && !this.#tenure.isHeld()) this.#lose();
    if (this.#isolated !== null && (store.isFresh() || clock.monotonic() > this.#isolated.until)) this.#endIsolation();
    this.#begin();
    this.#lookAtDoor();
    this.#lookAtLog();
    this.#membership.forgetSilent();
    const owner = store.owner()?.id ?? '';
    if (owner === this.#owner) return;
    this.#owner = owner;
    if (owner !== '') this.#membership.keepOnly(owner);
    this.#changed();
  }

  /** Resolves when requests are answered, or after a while. */
  async settled(timeoutMs: number): Promise<void> {
    const isSettled = () => this.door !== null || ['here', 'peer'].includes(this.place(false).kind);
    for (const until = clock.monotonic() + timeoutMs; !isSettled() && clock.monotonic() < until; ) {
      await sleep(clock, lookMs);
    }
  }

  /** An owner hands over: resolves when nothing is under way to it from here. [NODE-3] */
  async handsOver(nodeId: string): Promise<void> {
    this.#membership.handsOver(nodeId);
    await this.#parts.landed();
  }

  /** Hands over. [NODE-3] */
  async leave(): Promise<void> {
    const { store, passing, log, idle } = this.#parts;
    const begun = clock.monotonic();
    const told = (what: string) => log.info({ afterMs: since(begun) }, `leaving: ${what}`);
    this.#leaving = true;
    if (this.#isolated !== null) this.#endIsolation();
    this.#become('leaving');
    await this.#beginning;
    await this.#served?.calm(deliveryGraceMs);
    this.#holds = true;
    this.#handsOver = true;
    if (this.#served !== null) {
      // Also those that have just come.
      await store.poke();
      await this.#membership.tell(`leaving/${encodeURIComponent(store.id)}`);
      told('nothing comes from peers any more');
      await idle();
      told('no request is under way');
      // It may have been lost meanwhile, and is stopped then.
      const hub = this.#served;
      this.#served = null;
      await this.#closeHub(hub);
      told('the hub has written what it knows');
    }
    this.#tenure?.end();
    this.#tenure = null;
    if (await this.#leaseGone()) {
      told('the lease is handed over');
      await this.#membership.tell('look');
      await this.#untilTaken();
      told('another node answers');
    }
    await this.#ending;
    this.#handsOver = false;
    this.#changed();
    passing?.endUpgrades();
  }

  async close(): Promise<void> {
    this.#stopLooking();
    this.#leaving = true;
    // One that is being made may wait for the database.
    await withTimeout(clock, againMs, this.#opening ?? Promise.resolve());
    await this.#closeDoor();
    this.#parts.passing?.close();
  }

  #closeDoor(): Promise<void> {
    const door = this.#door;
    this.#door = null;
    return this.#closeHub(door);
  }

  #lookAtDoor(): void {
    const { store } = this.#parts;
    const now = clock.monotonic();
    // An owner of an earlier version does not say that partners and routes have changed.
    if (!store.isFollowed()) return void this.#closeDoor();
    const isTime = now >= this.#doorNotBefore && store.health().state === 'open';
    if (this.#door !== null || this.#leaving || !isTime) return;
    this.#opening ??= this.#openDoor().finally(() => (this.#opening = null));
  }

  #lookAtLog(): void {
    const { store } = this.#parts;
    const now = clock.monotonic();
    const isNeeded = this.#door !== null || this.#served !== null;
    if (!isNeeded || this.#looking || now < this.#lookedAt + headMs) return;
    this.#lookedAt = now;
    this.#looking = true;
    const follow = () => {
      this.#looking = false;
      this.#served?.follow(store.head());
      this.#door?.follow(store.head());
    };
    // When the database is away the health of the store says so.
    store.look().then(follow, follow);
  }

  /** Never rejects. */
  async #openDoor(): Promise<void> {
    const { makeDoor, log } = this.#parts;
    let door: Served | null = null;
    try {
      door = await makeDoor();
      // An owner tells the nodes that it knows: from now on it knows this one.
      await this.#membership.tell('look', toldMs);
      await door.recover();
      if (this.#leaving || !this.#parts.store.isFollowed()) return await this.#closeHub(door);
      this.#door = door;
      this.#changed();
    } catch (error) {
      log.error({ err: error }, 'this node cannot answer by itself and passes on what it is asked; trying again');
      this.#doorNotBefore = clock.monotonic() + doorAgainMs;
      await this.#closeHub(door);
    }
  }

  /** A change of partners and routes is acknowledged when all doors go by it, or after a second. [NODE-6] */
  readonly #written: Having['appended'] = async (commit, { last }) => {
    if (!this.#parts.isForDoors(commit)) return;
    const here = withTimeout(clock, toldMs, this.#door?.followed(last) ?? Promise.resolve());
    const told = Promise.all([here, this.#membership.tell(`directory/${last}`, toldMs)]);
    if (clock.monotonic() < this.#unheardUntil) return;
    const begun = clock.monotonic();
    await told;
    // Many changes in a row do not each wait for a node that does not answer.
    if (clock.monotonic() - begun >= toldMs) this.#unheardUntil = clock.monotonic() + unheardMs;
  };

  /** False when the database is away: then the lease runs out by itself. */
  async #leaseGone(): Promise<boolean> {
    const { store, log } = this.#parts;
    try {
      if (await withTimeout(clock, handOverMs, store.leave())) return true;
      throw new Error('the database does not answer');
    } catch (error) {
      log.warn({ err: error }, 'the lease could not be handed over');
      return false;
    }
  }

  async #untilTaken(): Promise<void> {
    const isWaited = () => this.#membership.all().length > 0 && this.place(false).kind === 'wait';
    for (const until = clock.monotonic() + handOverMs; clock.monotonic() < until && isWaited(); ) {
      await sleep(clock, pokeMs);
      await this.#parts.store.poke();
      this.look();
    }
  }

  /** Where the log is held and no hub is there. */
  #begin(): void {
    if (this.#leaving || this.#tenure !== null || this.#isolated !== null || this.#ending !== null) return;
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
      this.#notBefore = clock.monotonic() + againMs;
      if (this.#tenure === tenure) this.#lose();
    }
    if (hub === null || isOver()) return this.#closeHub(hub);
    this.#served = hub;
    meter.tookOver();
    log.info({ afterMs: since(begun) }, 'this node is the owner');
    this.#become(this.#leaving ? 'leaving' : 'owner');
    void this.#membership.tell('look');
  }

  /** At once nothing more is sent or written here; what runs is then stopped, or isolated. [NODE-1, NODE-5] */
  #lose(): void {
    const { store, log } = this.#parts;
    const [hub, tenure] = [this.#served, this.#tenure];
    tenure?.end();
    this.#tenure = null;
    this.#served = null;
    // It may be held again already, under another token.
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
    this.#parts.log.warn({}, 'this node answers from memory no more');
    this.#stop(hub);
  }

  #stop(hub: Served | null): void {
    this.#become(this.#leaving ? 'leaving' : 'standby');
    this.#ending = Promise.all([this.#beginning, this.#closeHub(hub)]).then(() => {
      this.#ending = null;
      this.look();
    });
  }

  /** Never rejects. */
  async #closeHub(hub: Served | null): Promise<void> {
    await hub
      ?.close(0)
      .catch((error: unknown) => this.#parts.log.error({ err: error }, 'a hub could not be stopped in good order'));
  }

  #become(role: Role): void {
    this.#role = role;
    this.#parts.meter.role(role);
    this.#changed();
  }
}
