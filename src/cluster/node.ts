/**
 * One node of several on one database. It owns the parties of its shards, and passes what it is asked of others to the nodes that own
 * them. A store of one shard has one owner; the others stand by.
 *
 *     standby → gaining → owner → (isolated →) standby …        any → leaving
 *
 * N1  Only who holds the lease of a shard answers requests of its parties and sends anything to them. It is asked by the clock before
 *     each call, and looked at every `lookMs`; what a former owner still writes is refused by its fence.
 * N2  Who gains shards serves when everything recorded is back. Until then, and while an owner hands over, requests are held for a
 *     while and not refused.
 * N3  A node that leaves tells its peers first. They hold what comes, and answer when nothing of theirs is under way to it; so nothing is
 *     cut, and nothing is sent to a node that has just ceased to be the owner.
 * N4  Whoever ceased to be the owner against its will becomes it again only under a new token. (Q7)
 * N5  An owner whose lease ended because it does not reach the database goes on, for `isolatedMs` at most, with what needs none: it
 *     answers from memory and asks partners for authorization. It writes nothing and sends nothing else, and ends as soon as the database
 *     answers, whoever is the owner then.
 * N6  Shards come into the hub and go from it while it runs on, some at a time, and only what is asked of their parties waits. One node at a
 *     time gives away what another one should have. A node of several begins its hub before it has any shard.
 */
import type { Fence, Shard, StoreHealth } from '../../storage/contract.ts';
import { every, sleep } from '../kit/clock.ts';
import { systemClock as clock, nextTurn } from '../kit/system-clock.ts';
import { Neighbours } from './neighbours.ts';
import { type Homes, type NodeParts, type Place, type Role, type Served, shardsOf } from './node-parts.ts';
import { beginTenure, type Tenure } from './tenure.ts';
import { handOverMs, leaseGone, lookMs, since, soon } from './waits.ts';

const [againMs, pokeMs, readyMs] = [1000, 100, 2000];
/** Who hands over lets deliveries end for so long. They are sent again by the next one, so nobody waits longer for them. */
const deliveryGraceMs = 1000;
const givenAtOnce = 16;
const none: ReadonlySet<Shard> = new Set();
/** For so long what an isolated node has in memory may be older than what another owner has. */
const isolatedMs = 60_000;

export class HubNode {
  readonly #parts: NodeParts;
  readonly #stopLooking = every(clock, lookMs, () => this.look());
  readonly #neighbours: Neighbours;
  #changed: () => void = () => {};
  #tenure: Tenure | null = null;
  #served: Served | null = null;
  /** It has had a shard. */
  #isServing = false;
  /** Of a store of one shard: what the hub read when it began holds under this token alone. */
  #begunUnder: number | undefined;
  /** N5. */
  #isolated: { readonly hub: Served; readonly tenure: Tenure; readonly until: number } | null = null;
  #beginning: Promise<void> = Promise.resolve();
  #ending: Promise<void> | null = null;
  #notBefore = 0;
  #owners = '';
  #homes: Homes | null = null;
  #moving: Promise<void> | null = null;
  /** Shards that the hub is about to give, and such as are neither here nor away. */
  #going = none;
  #between = none;
  /** What comes from outside waits. */
  #holds = false;
  #role: Role = 'standby';
  #leaving = false;
  /** Another node is about to become the owner. */
  #handsOver = false;

  constructor(parts: NodeParts) {
    this.#parts = parts;
    this.#neighbours = new Neighbours(parts.store, parts.passing);
    parts.meter.role('standby');
  }

  get role(): Role {
    return this.#role;
  }

  get neighbours(): Neighbours {
    return this.#neighbours;
  }

  /** Called whenever a request may go elsewhere than before. */
  onChanged(listener: () => void): void {
    this.#changed = listener;
  }

  /** Of the hub here, or of the last one. */
  get homes(): Homes | null {
    return this.#homes;
  }

  /** The same, waited for while the first hub is made; null when it takes too long. */
  async homesSoon(timeoutMs: number): Promise<Homes | null> {
    await soon(() => this.#homes !== null, timeoutMs);
    return this.#homes;
  }

  /** The hub that runs here, with whatever shards; null before it has had any. */
  get serving(): Served | null {
    return this.#isServing ? this.#served : null;
  }

  /** Resolves when shards that come now would not wait for others. */
  async ready(): Promise<void> {
    await this.#beginning;
    await this.#moving;
  }

  place(isHop: boolean, shard: Shard): Place {
    const { store, passing } = this.#parts;
    const isOurs = this.#tenure?.shards.has(shard) ?? false;
    const isHeld = this.#holds || this.#going.has(shard);
    const isBack = !this.#between.has(shard);
    if (this.#served !== null && isOurs && isBack && (!isHeld || isHop)) return { kind: 'here', hub: this.#served };
    if (isBack && this.#isolated?.tenure.shards.has(shard)) return { kind: 'here', hub: this.#isolated.hub };
    if (isOurs || store.held(shard) !== null) return { kind: 'wait' };
    const areMoving = this.#neighbours.areMoving || this.#moving !== null;
    const owner = store.owner(shard);
    if (owner === null || owner.id === store.id) {
      return { kind: this.#handsOver || areMoving || this.#tenure !== null ? 'wait' : 'nowhere' };
    }
    // Of two nodes one hears first that the other has taken over: what it passes on may come before the other knows it.
    if (isHop) return { kind: areMoving ? 'wait' : 'nowhere' };
    if (this.#neighbours.holds(owner.id, shard)) return { kind: 'wait' };
    if (owner.url === null || passing === null) return { kind: 'nowhere' };
    return { kind: 'peer', target: { id: owner.id, url: owner.url } };
  }

  /** Whether a hub that served under a tenure goes on without it. [N5] */
  isIsolated(tenure: Tenure): boolean {
    return this.#isolated?.tenure === tenure;
  }

  healthChanged(health: StoreHealth): void {
    this.#tenure?.healthChanged(health);
    this.look();
  }

  /** Compares what the store holds with what runs here. Never throws. */
  look(): void {
    const { store } = this.#parts;
    const lost = this.#tenure?.lost() ?? [];
    if (this.#tenure !== null && lost.length > 0) this.#dropLost(this.#tenure, lost);
    if (this.#isolated !== null && (store.isFresh() || clock.monotonic() > this.#isolated.until)) this.#endIsolation();
    this.#begin();
    this.#neighbours.forgetSilent();
    const owners = shardsOf(store).map((shard) => store.owner(shard)?.id ?? '');
    const signature = owners.join();
    if (signature === this.#owners) return;
    this.#owners = signature;
    const alive = new Set(owners.filter((id) => id !== ''));
    if (alive.size > 0) this.#neighbours.keepOnly(alive);
    this.#changed();
  }

  /** Begins where nothing runs, and has shards come and go where something does. [N6] */
  #begin(): void {
    const { store } = this.#parts;
    if (this.#leaving || this.#isolated !== null || this.#moving !== null || this.#ending !== null) return;
    if (clock.monotonic() < this.#notBefore) return;
    const [hub, tenure, fences] = [this.#served, this.#tenure, store.fences()];
    if (tenure === null) {
      if (fences.length > 0 || (store.shards > 1 && store.isFresh())) this.#start();
      return;
    }
    if (hub === null) return;
    // Somebody else had it meanwhile, and nobody told this hub what was recorded.
    if (store.shards === 1 && fences.some(({ token }) => token !== this.#begunUnder)) return this.#lose();
    const come = fences.filter(({ shard }) => !tenure.shards.has(shard));
    const surplus = this.#neighbours.areMoving ? [] : store.surplus().slice(0, givenAtOnce);
    if (come.length > 0) this.#move(this.#gain(hub, tenure, come));
    else if (surplus.length > 0) this.#move(this.#give(hub, tenure, surplus));
  }

  /** Resolves when requests are answered, or after a while. */
  settled(timeoutMs: number): Promise<void> {
    return soon(() => ['here', 'peer'].includes(this.place(false, 0).kind), timeoutMs);
  }

  /** An owner hands shards over (null: all that it has): resolves when nothing of theirs is under way to it from here. [N3] */
  async handsOver(nodeId: string, shards: ReadonlySet<Shard> | null): Promise<void> {
    this.#neighbours.handsOver(nodeId, shards);
    await this.#parts.landed(nodeId, shards);
  }

  /** One that handed shards over has its others again. */
  async isBack(nodeId: string, shards: ReadonlySet<Shard>): Promise<void> {
    await this.#parts.store.poke();
    this.#neighbours.isBack(nodeId, shards);
    this.#changed();
  }

  /** Hands everything over. [N3] */
  async leave(): Promise<void> {
    const { store, passing, log, idle } = this.#parts;
    const begun = clock.monotonic();
    const told = (what: string) => log.info({ afterMs: since(begun) }, `leaving: ${what}`);
    this.#leaving = true;
    await this.#moving;
    if (this.#isolated !== null) this.#endIsolation();
    this.#become('leaving');
    await this.#beginning;
    const former = new Set(this.#tenure?.shards ?? []);
    await this.#served?.calm(former, deliveryGraceMs);
    this.#holds = true;
    this.#handsOver = true;
    const served = this.#served;
    if (served !== null) {
      // Also those that have just come.
      await store.poke();
      await this.#neighbours.tell(`leaving/${encodeURIComponent(store.id)}`);
      told('nothing comes from peers any more');
      await idle(null);
      this.#between = former;
      told('no request is under way');
      // It may have been lost meanwhile, and is stopped then.
      if (this.#served === served) await served.give(former);
      told('the hub has given everything');
    }
    const isOurs = this.#served !== null;
    this.#served = null;
    this.#tenure?.end();
    this.#tenure = null;
    if (await leaseGone(this.#parts)) {
      told('the lease is handed over');
      await this.#neighbours.tell('look');
      await this.#untilTaken(former);
      told('another node answers');
    }
    if (isOurs) await served?.close(0);
    await this.#ending;
    this.#handsOver = false;
    this.#changed();
    passing?.endUpgrades();
  }

  async #untilTaken(shards: ReadonlySet<Shard>): Promise<void> {
    const isWaited = (shard: Shard) => this.#neighbours.all().length > 0 && this.place(false, shard).kind === 'wait';
    for (const until = clock.monotonic() + handOverMs; clock.monotonic() < until && [...shards].some(isWaited); ) {
      await sleep(clock, pokeMs);
      await this.#parts.store.poke();
      this.look();
    }
  }

  close(): void {
    this.#stopLooking();
    this.#parts.passing?.close();
  }

  /** A hub without any shard. */
  #start(): void {
    const { store, serve, log } = this.#parts;
    const tenure = beginTenure(store);
    this.#tenure = tenure;
    this.#begunUnder = store.fences()[0]?.token;
    if (store.fences().length > 0) this.#become('gaining');
    this.#beginning = (async () => {
      try {
        const served = await serve(tenure);
        if (this.#tenure !== tenure) return await served.close(0);
        this.#served = served;
        this.#homes = served.homes;
      } catch (error) {
        log.error({ err: error }, 'a hub could not begin here');
        this.#notBefore = clock.monotonic() + againMs;
        if (this.#tenure === tenure) this.#lose();
      }
    })().finally(() => this.look());
  }

  #move(work: Promise<void>): void {
    this.#moving = work.finally(() => {
      this.#moving = null;
      this.#changed();
      this.look();
    });
  }

  /** [N2] Never rejects. */
  async #gain(hub: Served, tenure: Tenure, fences: readonly Fence[]): Promise<void> {
    const { log, meter } = this.#parts;
    const begun = clock.monotonic();
    const shards = new Set(fences.map(({ shard }) => shard));
    this.#between = shards;
    tenure.join(fences);
    log.info({ shards: shards.size, tenure: fences[0]?.token }, 'this node takes over');
    try {
      await hub.gain(shards);
      if (this.#tenure !== tenure) return;
      this.#isServing = true;
      meter.tookOver();
      log.info({ shards: shards.size, afterMs: since(begun) }, 'this node is the owner');
      this.#become(this.#leaving ? 'leaving' : 'owner');
    } catch (error) {
      log.error({ err: error }, 'this node could not take over');
      this.#notBefore = clock.monotonic() + againMs;
      this.#drop(hub, tenure, shards);
    } finally {
      this.#between = none;
    }
    void this.#neighbours.tell('look');
  }

  /** N6. Never rejects. */
  async #give(hub: Served, tenure: Tenure, surplus: readonly Shard[]): Promise<void> {
    const { store, log, idle } = this.#parts;
    const [begun, shards] = [clock.monotonic(), new Set(surplus)];
    const what = `${encodeURIComponent(store.id)}/${surplus.join()}`;
    let isAway = false;
    try {
      await this.#neighbours.tell('ready', readyMs);
      await hub.calm(shards, deliveryGraceMs);
      const held = clock.monotonic();
      await store.poke();
      await this.#neighbours.tell(`giving/${what}`);
      this.#going = shards;
      await idle(shards);
      if (this.#tenure !== tenure) return;
      this.#between = shards;
      isAway = true;
      await hub.give(shards);
      tenure.drop(shards);
      await store.release(surplus);
      log.info({ given: shards.size, afterMs: since(begun), heldMs: since(held) }, 'shards were handed over');
    } catch (error) {
      log.error({ err: error }, 'shards could not be handed over; trying again');
      this.#notBefore = clock.monotonic() + againMs;
      if (isAway) this.#drop(hub, tenure, shards);
    } finally {
      if (!isAway) hub.wake(shards);
      [this.#going, this.#between] = [none, none];
      void this.#neighbours.tell('look').then(() => this.#neighbours.tell(`back/${what}`));
    }
  }

  /** Those shards alone are put away, as long as the fences of others stand: all have one lease, which may have run out during the look. */
  #dropLost(tenure: Tenure, lost: readonly Shard[]): void {
    const [hub, { store, log }] = [this.#served, this.#parts];
    const isMoving = lost.some((shard) => this.#between.has(shard) || this.#going.has(shard));
    if (hub === null || isMoving || !store.isFresh() || lost.length === [...tenure.shards].length) return this.#lose();
    log.warn({ shards: lost.length }, 'shards were taken from this node');
    this.#drop(hub, tenure, new Set(lost));
  }

  #drop(hub: Served, tenure: Tenure, shards: ReadonlySet<Shard>): void {
    const isHere = this.#tenure === tenure;
    tenure.drop(shards);
    for (const shard of isHere ? shards : none) this.#parts.store.giveUp(shard);
    if (isHere && this.#parts.store.shards === 1) this.#lose();
    else hub.drop(shards);
  }

  /** At once nothing more is sent or written here; what runs is then stopped, or isolated. [N1, N5] */
  #lose(): void {
    const { store, log } = this.#parts;
    const [hub, tenure, isServing] = [this.#served, this.#tenure, this.#isServing];
    tenure?.end();
    this.#tenure = null;
    this.#served = null;
    for (const shard of tenure?.shards ?? []) store.giveUp(shard);
    this.#isServing = false;
    if (hub !== null && tenure !== null && isServing && !this.#leaving && !store.isFresh()) {
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
    this.#ending = this.#stopped(hub).finally(() => {
      this.#ending = null;
      this.look();
    });
  }

  /** Never rejects. */
  async #stopped(served: Served | null): Promise<void> {
    // After the end of the try above, so that it is seen there that the tenure is over.
    await nextTurn();
    await this.#beginning;
    await this.#moving;
    await served
      ?.close(0)
      .catch((error: unknown) => this.#parts.log.error({ err: error }, 'a hub could not be stopped in good order'));
  }

  #become(role: Role): void {
    this.#role = role;
    this.#parts.meter.role(role);
    this.#changed();
  }
}
