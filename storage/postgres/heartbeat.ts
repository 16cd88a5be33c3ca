/**
 * Renews the node's lease, sees the other nodes, and so knows whether the database is there.
 *
 * HEARTBEAT-1  One beat at a time, three in a lease, on a connection of its own that waits for no standby; and one as soon as another node
 *     is dead if it does not renew.
 * HEARTBEAT-2  A beat that fails is made again at once on a new connection: servers are looked for anew, and the settings of the one that is
 *     found are checked like at the start. When that fails too, the database is away and every connection is let go.
 * HEARTBEAT-3  After the server refused a write, nothing is written until a write of our own has ended well (CONTRACT-5).
 * HEARTBEAT-4  What is watched besides (`watch.ts`) is no part of a beat: it may fail or take long, and the lease is renewed. What it
 *     finds when a beat has failed meanwhile does not make the database one that is there.
 * HEARTBEAT-5  A renewal counts once a standby has confirmed what was written behind it (LEASES-2). A primary that a failover left behind still
 *     takes beats, and no standby confirms them. One confirmation is under way at a time: a wait for a standby cannot be cancelled, and each
 *     further session would wait beside it. While none comes all servers are asked whether another one is the primary.
 */
import type { Client } from 'pg';
import type { Clock } from '../../src/kit/clock.ts';
import { withTimeout } from '../../src/kit/clock.ts';
import type { StoreHealth } from '../contract.ts';
import { StoreUnavailable } from '../contract.ts';
import { acknowledged, destroy, isAlive, type Primary, type Sessions, within, wordsOf } from './connect.ts';
import type { Leases } from './leases.ts';
import { mustBeSafe } from './settings.ts';
import type { Watch } from './watch.ts';
import { CONFIRM } from './write-parameters.ts';

const BEATS_IN_LEASE = 3;
const RETRY_MS = 200;
const PAST_END_MS = 20;
const CONFIRM_MS = 5000;
/** A commit with nothing in it that another one could wait for. */
const FLUSH = "select pg_logical_emit_message(true, 'ocpi-hub', '')";
const UNCONFIRMED = 'commits wait for a standby, and none confirms them';

export interface HeartbeatOptions {
  readonly clock: Clock;
  readonly primary: Primary;
  readonly sessions: Sessions;
  readonly leases: Leases;
  readonly watch: Watch;
  readonly ttlMs: number;
  readonly single: boolean;
  /** Sentences that stand among the warnings. */
  readonly doubts: () => readonly string[];
  readonly changed: (state: StoreHealth['state'], reason: string | null) => void;
}

export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #client: Client | null = null;
  #timer: unknown = null;
  #beating: Promise<void> | null = null;
  #warning: string | null = null;
  #refusal: string | null = null;
  #damage: string | null = null;
  #confirming = false;
  /** Waits for a standby with each commit. [HEARTBEAT-5] */
  #flusher: Client | null = null;
  #flushing: Promise<void> | null = null;
  #stopped = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** The first beat. Rejects with what is wrong. */
  async start(): Promise<void> {
    await this.#beat();
    this.#schedule(this.#options.ttlMs / BEATS_IN_LEASE);
  }

  /** A beat now, or the one that goes on; resolves when it has ended, well or not. */
  poke(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    this.#options.clock.clearTimeout(this.#timer);
    this.#beating ??= this.#run();
    return this.#beating;
  }

  /** HEARTBEAT-3. */
  refused(error: Error): void {
    this.#refusal = `the database refused a write: ${wordsOf(error)}`;
    this.#tell();
    void this.#confirm();
  }

  /** What was found damaged stays so until somebody has looked: writes end, reads go on. (CONTRACT-8) */
  damaged(error: Error): void {
    this.#damage = `the database is damaged: ${wordsOf(error)}`;
    this.#tell();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#options.clock.clearTimeout(this.#timer);
    if (this.#client !== null) destroy(this.#client);
    if (this.#flusher !== null) destroy(this.#flusher);
    await this.#beating;
  }

  #schedule(waitMs: number): void {
    this.#options.clock.clearTimeout(this.#timer);
    this.#timer = this.#stopped ? null : this.#options.clock.setTimeout(() => void this.poke(), waitMs);
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { primary, leases, watch, ttlMs, changed } = this.#options;
    let wait = ttlMs / BEATS_IN_LEASE;
    try {
      await this.#beat().catch((error: unknown) => (this.#stopped ? Promise.reject(error) : this.#beat()));
      if (this.#refusal !== null) void this.#confirm();
      wait = Math.min(wait, leases.firstEnd() + PAST_END_MS);
    } catch (error) {
      primary.drop();
      watch.forget();
      if (!this.#stopped) changed('failed', wordsOf(error));
      wait = RETRY_MS;
    }
    this.#beating = null;
    this.#schedule(wait);
  }

  async #beat(): Promise<void> {
    const { leases, ttlMs, clock, primary } = this.#options;
    try {
      this.#client ??= await this.#connected();
      if (!isAlive(this.#client)) throw new StoreUnavailable('the connection to the database ended');
      await within(this.#client, ttlMs, leases.beat(this.#client));
      this.#flushing ??= this.#flush().finally(() => (this.#flushing = null));
      if (!leases.isFresh()) await withTimeout(clock, ttlMs / BEATS_IN_LEASE, this.#flushing);
      if (!leases.isFresh() && (await primary.isLeftBehind())) {
        primary.drop();
        throw new StoreUnavailable('another database server has become the primary');
      }
    } catch (error) {
      if (this.#client !== null) destroy(this.#client);
      this.#client = null;
      leases.interrupted();
      throw error;
    }
    this.#tell();
    void this.#watched();
  }

  /** Never rejects: a confirmation that failed is asked for anew by the next beat. [HEARTBEAT-5] */
  async #flush(): Promise<void> {
    const { primary, leases } = this.#options;
    const renewal = leases.lastRenewal();
    try {
      this.#flusher ??= await primary.connect();
      await acknowledged(this.#flusher, () => this.#flusher?.query(FLUSH));
      leases.confirmed(renewal);
    } catch {
      if (this.#flusher !== null) destroy(this.#flusher);
      this.#flusher = null;
    }
  }

  /** After a beat that failed there is no client. [HEARTBEAT-4] */
  async #watched(): Promise<void> {
    if ((await this.#options.watch.look()) && this.#client !== null) this.#tell();
  }

  async #connected(): Promise<Client> {
    const { primary, sessions, single, ttlMs } = this.#options;
    await primary.find();
    this.#warning = await sessions.use((client) => within(client, ttlMs, mustBeSafe(client, single)));
    return primary.connect('lazy');
  }

  #tell(): void {
    if (this.#stopped) return;
    if (this.#damage !== null) this.#options.changed('quarantined', this.#damage);
    else if (this.#refusal !== null) this.#options.changed('failed', this.#refusal);
    else if (!this.#options.leases.isFresh()) this.#options.changed('failed', UNCONFIRMED);
    else this.#options.changed('open', this.#warnings());
  }

  #warnings(): string | null {
    const warnings = [this.#warning ?? [], this.#options.doubts(), this.#options.watch.warnings()].flat();
    return warnings.length === 0 ? null : warnings.join('; ');
  }

  async #confirm(): Promise<void> {
    if (this.#confirming) return;
    this.#confirming = true;
    try {
      await this.#options.sessions.use((client) => within(client, CONFIRM_MS, client.query(CONFIRM)));
      this.#refusal = null;
      this.#tell();
    } catch (error) {
      // Said until it is over; the next beat tries again.
      this.#refusal = wordsOf(error);
    } finally {
      this.#confirming = false;
    }
  }
}
