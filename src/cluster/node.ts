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
 * N6  A hub has the shards that it began with. When there are more, or some should be another node's, it ends in good order as one that
 *     leaves, and the next one begins with what is left. One node at a time does so.
 */
import type { Fence, Shard, StoreHealth } from '../../storage/contract.ts';
import type { Homes, NodeParts, Place, Role, Served, SharedStore } from './node-parts.ts';
import type { Target } from './passing.ts';
import { peersPath } from './peers.ts';
import { beginTenure, type Tenure } from './tenure.ts';

const lookMs = 50;
/** After a start that failed. */
const againMs = 1000;
const handOverMs = 10_000;
const pokeMs = 100;
/** A hub that hands over lets deliveries end for so long. They are sent again by the next one, so nobody waits longer for them. */
const deliveryGraceMs = 1000;
/** For so long what an isolated node has in memory may be older than what another owner has. */
const isolatedMs = 60_000;

/** A peer that said that it hands over, and nothing since, is asked again after so long. */
const leaverMs = 15_000;

export class HubNode {
  readonly #parts: NodeParts;
  readonly #looking: NodeJS.Timeout;
  /** Owners that have said that they leave. */
  readonly #leavers = new Map<string, number>();
  #changed: () => void = () => {};
  #tenure: Tenure | null = null;
  #served: Served | null = null;
  /** N5. */
  #isolated: { readonly hub: Served; readonly tenure: Tenure; readonly until: number } | null = null;
  #beginning: Promise<void> = Promise.resolve();
  #ending: Promise<void> | null = null;
  #notBefore = 0;
  #owners = '';
  #homes: Homes | null = null;
  #moving: Promise<void> | null = null;
  /** What comes from outside waits. */
  #holds = false;
  #role: Role = 'standby';
  #leaving = false;
  /** Another node is about to become the owner. */
  #handsOver = false;

  constructor(parts: NodeParts) {
    this.#parts = parts;
    parts.meter.role('standby');
    this.#looking = setInterval(() => this.look(), lookMs);
  }

  get role(): Role {
    return this.#role;
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
    const until = performance.now() + timeoutMs;
    while (this.#homes === null && performance.now() < until)
      await new Promise((resolve) => setTimeout(resolve, lookMs));
    return this.#homes;
  }

  /** The hub that runs here, with whatever shards. */
  get serving(): Served | null {
    return this.#served;
  }

  place(isHop: boolean, shard: Shard): Place {
    const { store, passing } = this.#parts;
    const isOurs = this.#tenure?.shards.has(shard) ?? false;
    if (this.#served !== null && isOurs && (!this.#holds || isHop)) return { kind: 'here', hub: this.#served };
    if (this.#isolated?.tenure.shards.has(shard)) return { kind: 'here', hub: this.#isolated.hub };
    if (isOurs || (this.#served !== null && store.held(shard) !== null)) return { kind: 'wait' };
    // Of two nodes one hears first that the other has taken over: what it passes on may come before the other knows it.
    if (isHop) return { kind: this.#leavers.size > 0 || this.#moving !== null ? 'wait' : 'nowhere' };
    const owner = store.owner(shard);
    if (owner === null || owner.id === store.id) {
      return { kind: this.#handsOver || this.#leavers.size > 0 || this.#tenure !== null ? 'wait' : 'nowhere' };
    }
    if (this.#leavers.has(owner.id)) return { kind: 'wait' };
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
    if (this.#tenure !== null && !this.#tenure.isWhole()) this.#lose();
    const now = performance.now();
    if (this.#isolated !== null && (store.isFresh() || now > this.#isolated.until)) this.#endIsolation();
    this.#begin();
    for (const [leaver, since] of this.#leavers) if (now - since > leaverMs) this.#leavers.delete(leaver);
    const owners = shardsOf(store).map((shard) => store.owner(shard)?.id ?? '');
    const signature = owners.join();
    if (signature === this.#owners) return;
    this.#owners = signature;
    const alive = new Set(owners.filter((id) => id !== ''));
    if (alive.size > 0) {
      for (const leaver of this.#leavers.keys()) if (!alive.has(leaver)) this.#leavers.delete(leaver);
      this.#parts.passing?.keepOnly(alive);
    }
    this.#changed();
  }

  /** Begins where nothing runs, or anew where what runs has other shards than it should have. [N6] */
  #begin(): void {
    const { store } = this.#parts;
    if (this.#leaving || this.#isolated !== null || this.#moving !== null || this.#ending !== null) return;
    if (performance.now() < this.#notBefore) return;
    const fences = store.fences();
    if (this.#tenure === null && fences.length > 0) this.#gain(fences);
    else if (this.#served !== null && this.#leavers.size === 0) {
      const isMore = fences.length > (this.#tenure?.shards.size ?? 0);
      if (isMore || (store.shards > 1 && store.surplus().length > 0)) this.#move();
    }
  }

  /** Resolves when requests are answered, or after a while. */
  async settled(timeoutMs: number): Promise<void> {
    const until = performance.now() + timeoutMs;
    const isOpen = () => this.serving !== null || ['here', 'peer'].includes(this.place(false, 0).kind);
    while (!isOpen() && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, lookMs));
  }

  /** An owner leaves: resolves when nothing from here is under way to it. [N3] */
  async leaves(nodeId: string): Promise<void> {
    this.#leavers.set(nodeId, performance.now());
    await this.#parts.passing?.landed(nodeId);
  }

  /** One that handed shards over has its others again. */
  async isBack(nodeId: string): Promise<void> {
    await this.#parts.store.poke();
    this.#leavers.delete(nodeId);
    this.#changed();
  }

  /** Hands everything over. [N3] */
  async leave(): Promise<void> {
    const { store, passing, log, idle } = this.#parts;
    const begun = performance.now();
    const told = (what: string) => log.info({ afterMs: Math.round(performance.now() - begun) }, `leaving: ${what}`);
    this.#leaving = true;
    await this.#moving;
    this.#holds = true;
    this.#handsOver = true;
    if (this.#isolated !== null) this.#endIsolation();
    this.#become('leaving');
    await this.#beginning;
    const former = [...(this.#tenure?.shards ?? [])];
    if (this.#served !== null) {
      // Also those that have just come.
      await store.poke();
      await this.#tellPeers(`leaving/${encodeURIComponent(store.id)}`);
      told('nothing comes from peers any more');
      await idle();
      told('no request is under way');
      const served = this.#served;
      this.#served = null;
      await served?.close(deliveryGraceMs);
      told('the hub is closed');
    }
    this.#tenure?.end();
    this.#tenure = null;
    await this.#ending;
    if (await this.#handedOver()) {
      told('the lease is handed over');
      await this.#tellPeers('look');
      await this.#untilTaken(former);
      told('another node answers');
    }
    this.#handsOver = false;
    this.#changed();
    passing?.endUpgrades();
  }

  /** False when the database is away: then the lease runs out by itself. */
  async #handedOver(): Promise<boolean> {
    const { store, log } = this.#parts;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('the database does not answer')), handOverMs);
    });
    try {
      await Promise.race([store.leave(), late]);
      return true;
    } catch (error) {
      log.warn({ err: error }, 'the lease could not be handed over');
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  async #untilTaken(shards: readonly Shard[]): Promise<void> {
    const until = performance.now() + handOverMs;
    const isWaited = () => shards.some((shard) => this.place(false, shard).kind === 'wait');
    while (this.peers().length > 0 && performance.now() < until && isWaited()) {
      await new Promise((resolve) => setTimeout(resolve, pokeMs));
      await this.#parts.store.poke();
      this.look();
    }
  }

  close(): void {
    clearInterval(this.#looking);
    this.#parts.passing?.close();
  }

  #gain(fences: readonly Fence[]): void {
    const { store, serve, log, meter } = this.#parts;
    const tenure = beginTenure(store, fences);
    const told = { shards: fences.length, tenure: fences[0]?.token };
    this.#tenure = tenure;
    this.#become('gaining');
    log.info(told, 'this node takes over');
    this.#beginning = (async () => {
      try {
        const served = await serve(tenure);
        if (!tenure.isWhole()) return await served.close(0);
        this.#served = served;
        this.#homes = served.homes;
        meter.tookOver();
        this.#become(this.#leaving ? 'leaving' : 'owner');
        log.info(told, 'this node is the owner');
        void this.#tellPeers('look');
      } catch (error) {
        log.error({ err: error }, 'this node could not take over');
        this.#notBefore = performance.now() + againMs;
        if (this.#tenure === tenure) this.#lose();
      }
    })();
  }

  #move(): void {
    const { store, log } = this.#parts;
    this.#moving = this.#moved()
      .catch((error: unknown) => {
        log.error({ err: error }, 'shards could not be handed over; trying again');
        this.#notBefore = performance.now() + againMs;
      })
      .finally(() => {
        this.#moving = null;
        this.#holds = this.#leaving;
        this.#handsOver = this.#leaving;
        void this.#tellPeers(`back/${encodeURIComponent(store.id)}`);
        this.#changed();
      });
  }

  /** N6. */
  async #moved(): Promise<void> {
    const { store, log, idle } = this.#parts;
    const tenure = this.#tenure;
    const begun = performance.now();
    this.#holds = true;
    this.#handsOver = true;
    this.#become('gaining');
    await store.poke();
    await this.#tellPeers(`leaving/${encodeURIComponent(store.id)}`);
    await idle();
    // It was lost meanwhile, and everything is as after a loss.
    if (this.#tenure !== tenure || tenure === null) return;
    const served = this.#served;
    this.#served = null;
    await served?.close(deliveryGraceMs);
    if (this.#tenure !== tenure) return;
    tenure.end();
    this.#tenure = null;
    const surplus = store.surplus();
    if (surplus.length > 0) await store.release(surplus);
    void this.#tellPeers('look');
    const fences = store.fences();
    if (fences.length > 0 && !this.#leaving) {
      this.#gain(fences);
      await this.#beginning;
    }
    log.info({ given: surplus.length, afterMs: Math.round(performance.now() - begun) }, 'shards were handed over');
  }

  /** At once nothing more is sent or written here; what runs is then stopped, or isolated. [N1, N5] */
  #lose(): void {
    const { store, log } = this.#parts;
    const [hub, tenure] = [this.#served, this.#tenure];
    tenure?.end();
    this.#tenure = null;
    this.#served = null;
    for (const shard of tenure?.shards ?? []) store.giveUp(shard);
    if (hub !== null && tenure !== null && !this.#leaving && !store.isFresh()) {
      this.#isolated = { hub, tenure, until: performance.now() + isolatedMs };
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
    await new Promise((resolve) => setImmediate(resolve));
    await this.#beginning;
    await served
      ?.close(0)
      .catch((error: unknown) => this.#parts.log.error({ err: error }, 'a hub could not be stopped in good order'));
  }

  #become(role: Role): void {
    this.#role = role;
    this.#parts.meter.role(role);
    this.#changed();
  }

  /** Whether another node says that it is the owner. */
  async hasOtherOwner(timeoutMs: number): Promise<boolean> {
    const { passing } = this.#parts;
    const path = `${peersPath}owns`;
    const answers = await Promise.all(this.peers().map((peer) => passing?.ask(peer, 'GET', path, timeoutMs)));
    return answers.includes(200);
  }

  /** Where the owner of a shard is reached; null when it is this node or not known. */
  ownerOf(shard: Shard): Target | null {
    const { store } = this.#parts;
    const owner = store.owner(shard);
    return owner === null || owner.id === store.id || owner.url === null ? null : { id: owner.id, url: owner.url };
  }

  /** Other nodes that live. */
  peers(): Target[] {
    const { store } = this.#parts;
    return store
      .nodes()
      .flatMap(({ id, url, alive }) => (alive && id !== store.id && url !== null ? [{ id, url }] : []));
  }

  async #tellPeers(what: string): Promise<void> {
    const { passing } = this.#parts;
    const path = `${peersPath}${what}`;
    await Promise.all(this.peers().map((peer) => passing?.ask(peer, 'POST', path, handOverMs)));
  }
}

const shardsOf = (store: SharedStore): Shard[] => Array.from({ length: store.shards }, (_, shard) => shard);
