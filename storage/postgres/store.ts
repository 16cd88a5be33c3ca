/**
 * The PostgreSQL store: implements `contract.ts` for several nodes on one database, of which one at a time holds the
 * log.
 *
 *     options, connect, sessions, settings       which server, how to reach it, and whether its settings are safe
 *     schema, one-log                            tables, and migrations from older versions
 *     write-pipeline, write-parameters, -sql     writes: one function call for everything in the queue
 *     leases, heartbeat, watch                   whether this node holds the log and the database is healthy
 *     session-checks                             whether the log of a server is the one that this node knows
 *     reads, trim, records, backup               the rest of the contract
 *
 * POSTGRES-STORE-1  A commit is answered once PostgreSQL has answered its COMMIT, which is when the disk and a quorum
 *     of standbys have it (CONTRACT-1).
 * POSTGRES-STORE-2  A caller that waits longer than `ANSWER_MS` gets `OutcomeUnknown` when the statement was sent, and `StoreUnavailable`
 *     when it was not and never will be. A later call with the same key shares the outcome that is still awaited.
 * POSTGRES-STORE-3  While the database is unreachable writes are refused at once; they resume without a restart.
 * POSTGRES-STORE-4  A node of several reads nothing while its lease is not renewed: a former primary still answers, and lacks what other
 *     nodes were acknowledged at the next one.
 * POSTGRES-STORE-5  `close` waits `ANSWER_MS` at most for commits, its own included: a standby that is gone confirms none.
 */
import { randomBytes } from 'node:crypto';
import type { Client } from 'pg';
import { type Clock, sleep, withTimeout } from '../../src/kit/clock.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import type * as contract from '../contract.ts';
import { Damaged, Fenced, OutcomeUnknown, StoreUnavailable } from '../contract.ts';
import { writePostgresBackup } from './backup.ts';
import { ask, awayOr, Primary, within } from './connect.ts';
import { Heartbeat } from './heartbeat.ts';
import { type ClusterNode, Leases, patience, type Slowness } from './leases.ts';
import { type PostgresAddress, type PostgresStoreOptions, parsePostgresUrl } from './options.ts';
import { PostgresReads } from './reads.ts';
import { runRewrite } from './rewrite.ts';
import { migrate } from './schema.ts';
import { isWorking, KnownLog } from './session-checks.ts';
import { Sessions } from './sessions.ts';
import { prepareTrim, trimsOf } from './trim.ts';
import { Watch } from './watch.ts';
import { type PreparedCommit, type PreparedSettle, prepareCommit, prepareSettle } from './write-parameters.ts';
import { type Job, WritePipeline } from './write-pipeline.ts';
import { LOG } from './write-sql.ts';

const TTL_MS = 3000;
const ANSWER_MS = 8000;
const LOOK_MS = 100;

/** Opens the store and creates its schema when missing. Rejects, when the database is unreachable with `DatabaseAway`. */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<PostgresStore> {
  const address = parsePostgresUrl(options.url);
  const primary = new Primary(address, options.node);
  try {
    await primary.find();
    const { clock = systemClock, ttlMs = TTL_MS } = options;
    const client = await migrate(primary, address, { clock, mayWait: patience(clock, ttlMs) });
    const store = new PostgresStore(options, { address, primary, sessions: new Sessions(primary, client) });
    await store.start().catch((error: unknown) => store.close().then(() => Promise.reject(error)));
    return store;
  } catch (error) {
    primary.close();
    throw awayOr(error);
  }
}

interface Opened {
  readonly address: PostgresAddress;
  readonly primary: Primary;
  readonly sessions: Sessions;
}

export class PostgresStore extends PostgresReads implements contract.Store {
  /** Identifies this start of this process; equals `ClusterNode.id`. */
  readonly id: string;
  readonly #options: PostgresStoreOptions;
  readonly #clock: Clock;
  readonly #trim: ReturnType<typeof trimsOf>;
  readonly #opened: Opened;
  readonly #sessions: Sessions;
  readonly #pipeline: WritePipeline;
  readonly #leases: Leases;
  readonly #heartbeat: Heartbeat;
  readonly #watch: Watch;
  readonly #log: KnownLog;
  /** POSTGRES-STORE-2: commits in flight, by idempotency key. */
  readonly #flying = new Map<string, { readonly job: Job; readonly answer: Promise<contract.Appended> }>();
  readonly #listeners: ((health: contract.StoreHealth) => void)[] = [];
  #state: contract.StoreHealth['state'] = 'failed';
  #reason: string | null = 'not opened yet';
  #turn = 0;
  #closed = false;

  constructor(options: PostgresStoreOptions, opened: Opened) {
    super((read) => this.#read(read));
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#trim = trimsOf(this.#clock);
    this.#opened = opened;
    this.#sessions = opened.sessions;
    const { node, nodeUrl = null, ttlMs = TTL_MS, gained = () => {}, lost = () => {}, doubts = () => [] } = options;
    const { primary, sessions, address } = opened;
    this.id = `${node}/${randomBytes(6).toString('hex')}`;
    this.#pipeline = this.#newLane();
    this.#log = new KnownLog((error) => {
      this.#leases.giveUp();
      this.#pipeline.abandon(error);
    });
    this.#leases = new Leases({
      clock: this.#clock,
      id: this.id,
      name: node,
      url: nodeUrl,
      ttlMs,
      lost,
      gained: (fence, head, horizon) => {
        this.#log.begins({ head, horizon });
        gained(fence);
      },
      drained: () => this.#pipeline.drained(),
      seen: (head, horizon) => this.#log.seen(head, horizon),
      durably: (work) => sessions.use(work),
      isDoubtful: () => doubts().length > 0 || this.#heartbeat.isRefused,
    });
    const changed = (state: contract.StoreHealth['state'], reason: string | null) => this.#set(state, reason);
    this.#watch = new Watch(this.#clock, (look) => sessions.use((client) => within(client, ttlMs, look(client))));
    this.#heartbeat = new Heartbeat({
      clock: this.#clock,
      primary,
      sessions,
      leases: this.#leases,
      watch: this.#watch,
      known: this.#log,
      confirm: (timeoutMs) => this.#pipeline.confirm(timeoutMs),
      ttlMs,
      single: address.single,
      doubts: () => [...doubts(), ...(options.notices?.() ?? [])],
      changed,
    });
  }

  /** Called by `openPostgresStore` only. */
  async start(): Promise<void> {
    const { sole = true, ttlMs = TTL_MS } = this.#options;
    if (sole) await this.#leases.beAlone(this.#opened.address.shown);
    await this.#heartbeat.start();
    await this.#pipeline.open();
    const mayWait = patience(this.#clock, ttlMs);
    // The first beat takes a free log; a killed node's log becomes free when its lease expires.
    while (sole && this.#leases.kept() === null) {
      if (!mayWait()) throw new StoreUnavailable('the log could not be taken over from a dead node');
      await sleep(this.#clock, LOOK_MS);
      await this.#heartbeat.poke();
    }
  }

  /** What the database has lost since this node started; what was made from the log before must be made again. */
  losses(): readonly string[] {
    return this.#log.losses;
  }

  held(): contract.Fence | null {
    return this.#closed ? null : this.#leases.held();
  }

  /** The node that holds the log, as far as this node knows; null when there is none. */
  owner(): ClusterNode | null {
    return this.#leases.owner();
  }

  nodes(): readonly ClusterNode[] {
    return this.#leases.nodes();
  }

  /** Clock skew and open transactions; null while unknown. */
  sight(): contract.Sight | null {
    return this.#watch.sight;
  }

  /** Beats at once: for when a peer reports that it released the log. */
  poke(): Promise<void> {
    return this.#heartbeat.poke();
  }

  /** Whether the lease is still valid by this node's own clock. */
  isFresh(): boolean {
    return this.#leases.isFresh();
  }

  /** Whether this node could serve if it held the log: only then may a slow owner leave it to this one. Default: false. */
  offer(isAble: boolean): void {
    this.#leases.offer(isAble);
  }

  /** How slow this node's way to the database is beside that of another live node; null when it is not. */
  slowness(): Slowness | null {
    return this.#leases.slowness();
  }

  /** Reads the head of the log from the database. Rejects when the database is unreachable. */
  async look(): Promise<void> {
    const [log] = await this.#read((client) =>
      ask<{ head: contract.Seq }>(client, 'head', `select head from ${LOG} l`),
    );
    this.#log.seen(log?.head ?? 0, 0);
  }

  /** Another node reports this head. */
  sees(head: contract.Seq): void {
    this.#log.seen(head, 0);
  }

  /** Whether every live node reads what others write. A node of an earlier version does not, and may hold the log. */
  isFollowed(): boolean {
    return this.nodes().every(({ alive, follows }) => follows || !alive);
  }

  /** From now on refuses writes under the present fence; this node may hold the log again under a later one. */
  giveUp(): void {
    this.#leases.giveUp();
  }

  /** Flushes the queue and hands the log over; `owner` follows the next owner. Rejects when the database is unreachable. */
  async leave(): Promise<void> {
    if (this.#state !== 'open') throw new StoreUnavailable(this.#reason ?? this.#state);
    // Writes under the fence finish before the lease is released; writes without a fence go on.
    await this.#leases.leave();
  }

  async append(commit: contract.Commit): Promise<contract.Appended> {
    const { fence, idem } = commit;
    this.#checkFence(fence);
    const flying = this.#flying.get(idem);
    if (flying !== undefined) return { ...(await this.#patient(flying)), replayed: true };
    this.#writable();
    const pushed = this.#push(fence, prepareCommit(commit), null);
    this.#flying.set(idem, pushed);
    const forget = () => void this.#flying.delete(idem);
    pushed.answer.then(forget, forget);
    const appended = await this.#patient(pushed);
    if (!appended.replayed) this.#log.has({ seq: appended.last, at: commit.events.at(-1)?.at ?? '' });
    return appended;
  }

  async settle(
    fence: contract.Fence,
    rows: readonly contract.DeliveryRow[],
    floors: readonly contract.Floor[],
  ): Promise<void> {
    this.#checkFence(fence);
    this.#writable();
    await this.#patient(this.#push(fence, null, prepareSettle(rows, floors)));
  }

  async trim(trim: contract.Trim): Promise<void> {
    this.#checkFence(trim.fence);
    this.#writable();
    const kept = prepareTrim(trim);
    await this.#sessions.use((client) => this.#trim(client, trim, kept));
    this.#pipeline.flushed();
    this.#log.seen(0, trim.upTo);
  }

  async rewrite(rewrite: contract.Rewrite): Promise<void> {
    this.#checkFence(rewrite.fence);
    this.#writable();
    await this.#sessions.use((client) => runRewrite(client, rewrite));
    this.#pipeline.flushed();
  }

  /** The files are the server's: VACUUM FULL removes former versions from its tables, and its WAL ages out. */
  async reclaim(): Promise<readonly string[]> {
    return [];
  }

  override async read(query: contract.EventQuery): Promise<contract.StoredEvent[]> {
    const events = await super.read(query);
    this.#log.has(events.at(-1));
    return events;
  }

  head(): contract.Seq {
    return this.#log.head;
  }

  horizon(): contract.Seq {
    return this.#log.horizon;
  }

  backup(directory: string, options: contract.BackupOptions = {}): Promise<contract.BackupManifest> {
    if (this.#closed) return Promise.reject(new StoreUnavailable('closed'));
    const { sealing = null } = this.#options;
    return this.#sessions.use((client) => writePostgresBackup(client, directory, { ...options, sealing }));
  }

  health(): contract.StoreHealth {
    return { state: this.#state, reason: this.#reason, damagedRows: [], head: this.#log.head };
  }

  onHealth(listener: (health: contract.StoreHealth) => void): void {
    this.#listeners.push(listener);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const isThere = this.#state === 'open';
    if (!isThere) this.#pipeline.stop();
    // A lease that cannot be handed over expires.
    const finished = this.#pipeline.idle().then(() => (isThere ? this.#leases.leave() : undefined));
    await withTimeout(this.#clock, ANSWER_MS, finished).catch(ignore);
    this.#pipeline.stop();
    await this.#heartbeat.stop();
    this.#opened.primary.close();
    this.#set('closed', 'closed');
  }

  #newLane(): WritePipeline {
    const { primary } = this.#opened;
    const { onPoint = () => {} } = this.#options;
    return new WritePipeline({
      clock: this.#clock,
      connect: async (durability) => {
        const client = await primary.connect(durability, true);
        // [SESSION-CHECKS-3]
        while (!(await this.#log.check(client))) if (this.#closed) throw new StoreUnavailable('closed');
        return client;
      },
      turn: () => ++this.#turn,
      isWorking: (other) => this.#sessions.use((client) => isWorking(client, other)),
      written: (head) => this.#log.seen(head, 0),
      refused: (error) => this.#heartbeat.refused(error),
      gone: () => void this.#heartbeat.poke(),
      point: onPoint,
    });
  }

  #push(fence: contract.Fence | null, commit: PreparedCommit | null, settle: PreparedSettle | null) {
    const size = (commit?.size ?? 0) + (settle?.size ?? 0);
    let job: Job | null = null;
    const answer = new Promise<contract.Appended>((resolve, reject) => {
      const done = (appended: contract.Appended | null) => resolve(appended ?? NOTHING);
      job = { fence, commit, settle, size, sent: false, withdrawn: false, done, fail: reject };
      this.#pipeline.push(job);
    });
    // Prevents an unhandled rejection: a caller that timed out no longer awaits the answer.
    answer.catch(ignore);
    return { job: job as unknown as Job, answer };
  }

  /** POSTGRES-STORE-2. */
  async #patient({ job, answer }: { job: Job; answer: Promise<contract.Appended> }): Promise<contract.Appended> {
    if (await withTimeout(this.#clock, this.#options.answerMs ?? ANSWER_MS, answer)) return answer;
    if (job.sent) throw new OutcomeUnknown('the database does not answer');
    job.withdrawn = true;
    const error = new StoreUnavailable('the database does not answer');
    job.fail(error);
    throw error;
  }

  #checkFence(fence: contract.Fence | null): void {
    if (this.#closed) throw new StoreUnavailable('closed');
    if (fence === null) return this.#checkFollowed();
    const { token, node } = fence;
    const held = this.#leases.kept();
    if (held === null || token !== held.token || node !== held.node) {
      const holder = held === null ? 'not held here' : `held by ${held.node} with token ${held.token}`;
      throw new Fenced(`the log is ${holder}, not by ${node} with ${token}`);
    }
  }

  #checkFollowed(): void {
    if (!this.isFollowed()) throw new StoreUnavailable('a node of a version that writes alone is still there');
  }

  #writable(): void {
    if (this.#state !== 'open') throw new StoreUnavailable(this.#reason ?? this.#state);
    this.#leases.mustBeFresh();
  }

  async #read<T>(read: (client: Client) => Promise<T>): Promise<T> {
    if (this.#closed) throw new StoreUnavailable('closed');
    if (this.#options.sole === false) this.#leases.mustBeFresh();
    try {
      return await this.#sessions.read(read);
    } catch (error) {
      if (error instanceof Damaged) this.#heartbeat.damaged(error);
      throw error;
    }
  }

  #set(state: contract.StoreHealth['state'], reason: string | null): void {
    if (this.#state === 'closed' || (this.#state === state && this.#reason === reason)) return;
    this.#state = state;
    this.#reason = reason;
    const health = this.health();
    // Deferred, so that a listener can neither re-enter this method nor throw into it.
    for (const listener of this.#listeners) queueMicrotask(() => listener(health));
  }
}

const NOTHING: contract.Appended = { first: 0, last: 0, replayed: false };
const ignore = (): void => {};
