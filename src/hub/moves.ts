/**
 * Brings back into the hub what is recorded of shards that come, and puts away what runs of shards that go; everything else goes on. A hub
 * begins without any, and one that is alone gains all of them.
 *
 * V1  Nothing of a shard is decided, sent or written here before everything recorded of it is back, nor after it was put away.
 * V2  No other hub writes a shard any more when it comes, and none does yet while it goes.
 * V3  Of what runs of a shard that goes, what ends soon ends. The rest is cut, and the next hub that has it finds it as after a crash.
 * V4  Whatever is the whole hub's, jobs and backups, goes with the shard that is nobody's.
 */
import type { Shard } from '../../storage/contract.ts';
import type { Partner, PartyId } from '../domain/party.ts';
import type { Route } from '../domain/routing.ts';
import { withTimeout } from '../kit/clock.ts';
import { atOnce } from './at-once.ts';
import type { Backups } from './backups.ts';
import type { Commands } from './commands.ts';
import type { Core } from './core.ts';
import type { Deliveries } from './deliveries.ts';
import type { Follower } from './follower.ts';
import type { Jobs } from './jobs.ts';
import type { Notes } from './notes.ts';
import type { Orphans } from './orphans.ts';
import type { PartnerActors } from './partners.ts';
import type { Probes } from './probes.ts';
import type { Pulls } from './pulls.ts';
import type { Registration } from './registration.ts';
import { repairRows } from './repair.ts';
import { type Resends, releaseDue } from './resends.ts';
import type { Retention } from './retention.ts';
import type { SenderLists } from './sender-lists.ts';

/** Actors whose facts are read at the same time. */
const revivedAtOnce = 64;
const duesAtOnce = 16;
/** What was noted is written within so long, or it is sent again. */
const notedMs = 1_000;

export interface Moved {
  readonly deliveries: Deliveries;
  readonly actors: PartnerActors;
  readonly registration: Registration;
  readonly commands: Commands;
  readonly lists: SenderLists;
  readonly pulls: Pulls;
  readonly orphans: Orphans;
  readonly resends: Resends;
  readonly probes: Probes;
  readonly retention: Retention;
  readonly jobs: Jobs;
  readonly backups: Backups;
  readonly notes: Notes;
  readonly follower: Follower | null;
}

export class Moves {
  readonly #core: Core;
  readonly #parts: Moved;
  #isKeeping = false;

  constructor(core: Core, parts: Moved) {
    this.#core = core;
    this.#parts = parts;
  }

  /** What every hub knows, whichever shards it has. To be awaited before anything comes. */
  async begin(): Promise<void> {
    const { store, state, recorder, peers } = this.#core;
    const { deliveries, follower } = this.#parts;
    if (peers) {
      // Before anything is read: what comes later is followed.
      for (const [shard, head] of await store.heads()) recorder.followAt(shard, head);
    } else {
      for (const [shard, head] of Object.entries(store.health().heads)) recorder.startAt(Number(shard), head);
      if (this.#isWhole()) await repairRows(this.#core);
    }
    recorder.onCommitted((event) => deliveries.owed(event));
    for await (const row of store.scan('partners')) state.applyPartner(row.data as Partner);
    for await (const row of store.scan('routes')) state.applyRoute(row.data as Route);
    follower?.start();
  }

  /** What is done now and then, once anything is here. */
  #keep(): void {
    if (this.#isKeeping) return;
    this.#isKeeping = true;
    const { deliveries, retention, orphans } = this.#parts;
    retention.schedule();
    if (!this.#isWhole()) return;
    deliveries.intake.keep();
    orphans.scheduleSweep();
  }

  /** Resolves when everything recorded of these shards is back. */
  async gain(shards: ReadonlySet<Shard>): Promise<void> {
    const { store, state, recorder, ports, shards: ours } = this.#core;
    const { deliveries, actors, registration, commands, pulls, orphans, resends, probes, follower } = this.#parts;
    // The last that others recorded there. [V2]
    await follower?.caughtUp();
    for (const shard of shards) recorder.startAt(shard, recorder.dispatchedTo(shard));
    ours.come(shards);
    // A damaged log is read and served, and nothing is written or sent until it was restored.
    const isWhole = this.#isWhole();
    const isTheirs = this.#livesIn(shards);
    if (isWhole) await deliveries.intake.recover(shards);
    const partners = [...state.partners()].filter(({ id }) => isTheirs(id));
    await atOnce(partners, revivedAtOnce, (partner) => actors.revive(partner));
    // Where nobody lives nothing is recorded that waits for anything.
    const homes = new Set(partners.map(({ id }) => store.shardOf(id)));
    const open: string[] = [];
    const releases: string[] = [];
    await atOnce(homes, duesAtOnce, async (shard) => {
      for (const { key } of await store.due(shard)) {
        if (key.startsWith(commandDue)) open.push(key.slice(commandDue.length));
        if (key.startsWith(releaseDue)) releases.push(key.slice(releaseDue.length));
      }
    });
    await commands.recover(open, isWhole);
    if (isWhole && homes.size > 0) await pulls.recover(isTheirs);
    if (homes.size > 0) await orphans.recover(homes, isWhole);
    // A store that cannot write now is no reason not to begin: the previous keys still open what they sealed.
    if (store.health().state === 'open') {
      await registration
        .reseal(partners)
        .catch((error: unknown) => ports.log.error({ err: error }, 'could not seal all tokens anew'));
    }
    for (const { id } of partners) probes.watch(id);
    ours.stay(shards);
    if (isWhole) resends.recover(releases);
    this.#keep();
    const counts = { shards: shards.size, partners: partners.length, commands: open.length };
    ports.log.info(counts, 'recovered');
  }

  /** Sends no more deliveries to parties of these shards; resolves when what is in flight to them has ended, or after a while. */
  async calm(shards: ReadonlySet<Shard>, graceMs: number): Promise<void> {
    await this.#parts.deliveries.calm(this.#livesIn(shards), graceMs);
  }

  /** They do not go after all. */
  wake(shards: ReadonlySet<Shard>): void {
    this.#parts.deliveries.wake(this.#livesIn(shards));
  }

  /** Ends what runs of these shards and writes what is known of it. No request of their parties is under way any more. [V3] */
  async give(shards: ReadonlySet<Shard>): Promise<void> {
    const { recorder, store, ports, shards: ours } = this.#core;
    const { deliveries, lists, pulls, jobs, backups, notes } = this.#parts;
    const isTheirs = this.#livesIn(shards);
    if (shards.has(store.shardOf(''))) {
      await jobs.close();
      await backups.close();
    }
    ours.go(shards);
    lists.cut(isTheirs);
    await pulls.ended(isTheirs);
    // What was gathered is written under the fences that go.
    notes.handOver();
    await recorder.endAt(shards);
    const noted = deliveries.intake
      .noted(shards)
      .catch((error: unknown) => ports.log.warn({ err: error }, 'could not note how far deliveries have come'));
    await withTimeout(ports.clock, notedMs, noted);
    this.drop(shards);
  }

  /** Puts away what runs of these shards, at once. */
  drop(shards: ReadonlySet<Shard>): void {
    const { recorder, state, shards: ours } = this.#core;
    const { deliveries, actors, commands, orphans, probes, retention } = this.#parts;
    const isTheirs = this.#livesIn(shards);
    void recorder.endAt(shards);
    commands.forget(isTheirs);
    orphans.forget(isTheirs);
    for (const { id } of state.partners()) {
      if (!isTheirs(id)) continue;
      probes.unwatch(id);
      actors.stop(id);
    }
    deliveries.forget(shards, isTheirs);
    retention.forget(shards);
    ours.gone(shards);
  }

  #isWhole(): boolean {
    return this.#core.store.health().state !== 'quarantined';
  }

  #livesIn(shards: ReadonlySet<Shard>): (party: PartyId) => boolean {
    const { store } = this.#core;
    return (party) => shards.has(store.shardOf(party));
  }
}

const commandDue = 'command:';
