/**
 * The heartbeat of a node: renews its lease, reads the node table, and so detects whether the database is reachable.
 *
 * HEARTBEAT-1  Beats run one at a time, three per lease, on a connection of their own whose commits wait for no
 *     standby. The next beat comes earlier when another node's lease ends before it, to see whether that node renewed.
 * HEARTBEAT-2  A failed beat is repeated at once: the node finds the primary again, reconnects, and checks that
 *     server's settings as at the start. What ended or silenced the former connection may have silenced the pool's, so
 *     these are renewed, too. If the repetition fails, the database is unreachable: every connection is destroyed.
 * HEARTBEAT-3  After the server refused a write or the session for it, nothing is written until a test write of this
 *     node succeeds on that session (CONTRACT-5).
 * HEARTBEAT-4  The observations of `watch.ts` are no part of a beat: they may fail or take long without delaying a
 *     renewal. What they find after a beat failed does not make the database count as reachable.
 * HEARTBEAT-5  A renewal counts once a standby has confirmed a commit made after it (LEASES-2): a former primary that a
 *     failover left behind still takes beats, but no standby confirms them. One confirmation is in flight at a time: a
 *     wait for a standby cannot be cancelled, so each further one would occupy a further session. While confirmations
 *     are missing, all servers are asked whether another one is the primary.
 * HEARTBEAT-6  The session that waits for a confirmation is destroyed when the session of the beats fails, because the
 *     next beat may be on another server, and when two looks in a row find that the server executes nothing for it: the
 *     network has lost the answer.
 */
import type { Client } from 'pg';
import type { Clock } from '../../src/kit/clock.ts';
import { withTimeout } from '../../src/kit/clock.ts';
import type { StoreHealth } from '../contract.ts';
import { StoreUnavailable } from '../contract.ts';
import { acknowledged, ask, destroy, isAlive, kindOf, LAZY, type Primary, within, wordsOf } from './connect.ts';
import type { Leases } from './leases.ts';
import { isWorking, type KnownLog } from './session-checks.ts';
import type { Sessions } from './sessions.ts';
import { mustBeSafe } from './settings.ts';
import type { Watch } from './watch.ts';

const BEATS_IN_LEASE = 3;
const RETRY_MS = 200;
const PAST_END_MS = 20;
const CONFIRM_MS = 5000;
/** A commit that locks no row, so no other commit waits for it. */
const FLUSH = "select pg_logical_emit_message(true, 'ocpi-hub', '')";
const SLOW = "this node's way to the database takes much longer than that of another node";
const UNCONFIRMED = 'commits wait for a standby, and none confirms them';
const RENEWING = 'the lease of this node has run out and is being renewed';
const STANDBYS = "select 1 where current_setting('synchronous_standby_names') <> ''";

const refusalOf = (error: unknown): string => `the database refused a write: ${wordsOf(error)}`;

export interface HeartbeatOptions {
  readonly clock: Clock;
  readonly primary: Primary;
  readonly sessions: Sessions;
  readonly leases: Leases;
  readonly watch: Watch;
  readonly known: KnownLog;
  /** Makes a test write as writes are made. [HEARTBEAT-3] */
  readonly confirm: (timeoutMs: number) => Promise<void>;
  readonly ttlMs: number;
  readonly single: boolean;
  /** Further warnings to report with the health, one sentence each. */
  readonly doubts: () => readonly string[];
  readonly changed: (state: StoreHealth['state'], reason: string | null) => void;
}

export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #client: Client | null = null;
  /** Whether the server of `#client` has the log that this node knows. [SESSION-CHECKS-3] */
  #isKnown = false;
  /** The primary was found when the store was opened; a beat that failed looks again. [HEARTBEAT-2] */
  #isFound = true;
  #timer: unknown = null;
  #beating: Promise<void> | null = null;
  #warning: string | null = null;
  #refusal: string | null = null;
  #damage: string | null = null;
  #confirming = false;
  /** The session of `#flush`; each of its commits waits for a standby. [HEARTBEAT-5] */
  #flusher: Client | null = null;
  #flushing: Promise<void> | null = null;
  /** Why the last confirmation failed; null when it did not. */
  #unflushed: string | null = null;
  /** Whether commits wait for standbys, as the last beat without a valid lease found. */
  #areStandbys = false;
  /** The session of `#flush`, when the last look found its server idle while its answer was awaited. [HEARTBEAT-6] */
  #suspect: Client | null = null;
  #stopped = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Makes the first beat, and schedules the next. Rejects with the cause when that beat fails. */
  async start(): Promise<void> {
    await this.#beat();
    this.#schedule(this.#options.ttlMs / BEATS_IN_LEASE);
  }

  /** Starts a beat now, unless one is in flight; resolves when the beat has ended, successful or not. */
  poke(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    this.#options.clock.clearTimeout(this.#timer);
    this.#beating ??= this.#run();
    return this.#beating;
  }

  /** Whether the server refuses writes of this node, as far as it knows. [HEARTBEAT-3] */
  get isRefused(): boolean {
    return this.#refusal !== null;
  }

  /** HEARTBEAT-3. */
  refused(error: Error): void {
    this.#refusal = refusalOf(error);
    this.#tell();
    void this.#confirm();
  }

  /** Until the node restarts, damage stays reported and writes are refused, so that an operator looks. (CONTRACT-8) */
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
    const { primary, sessions, leases, watch, ttlMs, changed } = this.#options;
    let wait = ttlMs / BEATS_IN_LEASE;
    try {
      await this.#beat().catch(async (error: unknown) => {
        if (this.#stopped) throw error;
        await this.#beat();
        sessions.renew();
      });
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
    const { leases, ttlMs, clock, primary, known } = this.#options;
    try {
      this.#client ??= await this.#connected();
      if (!isAlive(this.#client)) throw new StoreUnavailable('the connection to the database ended');
      this.#isKnown ||= await known.check(this.#client);
      await within(this.#client, ttlMs, leases.beat(this.#client));
      this.#flushing ??= this.#flush().finally(() => (this.#flushing = null));
      if (!leases.isFresh()) await withTimeout(clock, ttlMs / BEATS_IN_LEASE, this.#flushing);
      if (!leases.isFresh() && (await primary.isLeftBehind())) {
        primary.drop();
        throw new StoreUnavailable('another database server has become the primary');
      }
      if (!leases.isFresh()) await within(this.#client, ttlMs, this.#lookForReasons(this.#client));
    } catch (error) {
      if (this.#client !== null) destroy(this.#client);
      if (this.#flusher !== null) destroy(this.#flusher);
      this.#client = null;
      this.#isFound = false;
      leases.interrupted();
      throw error;
    }
    this.#tell();
    void this.#watched();
  }

  /** Never rejects: the next beat repeats a failed confirmation. [HEARTBEAT-5] */
  async #flush(): Promise<void> {
    const { primary, leases } = this.#options;
    const renewal = leases.lastRenewal();
    try {
      // A beat that failed destroyed it.
      if (this.#flusher !== null && !isAlive(this.#flusher)) this.#flusher = null;
      const flusher = this.#flusher ?? (await primary.connect());
      this.#flusher = flusher;
      await acknowledged(flusher, () => flusher.query(FLUSH));
      leases.confirmed(renewal);
      this.#unflushed = null;
    } catch (error) {
      this.#unflushed = wordsOf(error);
      if (this.#flusher !== null) destroy(this.#flusher);
      this.#flusher = null;
    }
  }

  /** Why the lease is not renewed, although the server answers. */
  async #lookForReasons(client: Client): Promise<void> {
    this.#areStandbys = (await ask(client, 'standbys', STANDBYS)).length > 0;
    await this.#lookAtFlusher(client);
  }

  /** [HEARTBEAT-6] */
  async #lookAtFlusher(client: Client): Promise<void> {
    const flusher = this.#flusher;
    if (flusher === null || (await isWorking(client, flusher))) this.#suspect = null;
    else if (this.#suspect === flusher) destroy(flusher);
    else this.#suspect = flusher;
  }

  /** A failed beat leaves `#client` null: then nothing is reported. [HEARTBEAT-4] */
  async #watched(): Promise<void> {
    if ((await this.#options.watch.look()) && this.#client !== null) this.#tell();
  }

  async #connected(): Promise<Client> {
    const { primary, single, ttlMs } = this.#options;
    if (!this.#isFound) await primary.find();
    this.#isFound = true;
    const client = await primary.connect();
    try {
      this.#warning = await within(client, ttlMs, mustBeSafe(client, single));
      await within(client, ttlMs, client.query(LAZY));
      this.#isKnown = false;
      return client;
    } catch (error) {
      destroy(client);
      throw error;
    }
  }

  #tell(): void {
    if (this.#stopped) return;
    if (this.#damage !== null) this.#options.changed('quarantined', this.#damage);
    else if (this.#refusal !== null) this.#options.changed('failed', this.#refusal);
    else if (!this.#options.leases.isFresh()) this.#options.changed('failed', this.#unconfirmed());
    else this.#options.changed('open', this.#warnings());
  }

  #unconfirmed(): string {
    if (this.#areStandbys) return UNCONFIRMED;
    return this.#unflushed === null ? RENEWING : `${RENEWING}: ${this.#unflushed}`;
  }

  #warnings(): string | null {
    const { doubts, leases, watch, known } = this.#options;
    const slow = leases.slowness() === null ? [] : [SLOW];
    const warnings = [this.#warning ?? [], known.losses, doubts(), slow, watch.warnings()].flat();
    return warnings.length === 0 ? null : warnings.join('; ');
  }

  async #confirm(): Promise<void> {
    if (this.#confirming) return;
    this.#confirming = true;
    try {
      await this.#options.confirm(CONFIRM_MS);
      this.#refusal = null;
      this.#tell();
    } catch (error) {
      // Report the latest cause; the next beat tries again.
      this.#refusal = kindOf(error) === 'refused' ? refusalOf(error) : wordsOf(error);
      this.#tell();
    } finally {
      this.#confirming = false;
    }
  }
}
