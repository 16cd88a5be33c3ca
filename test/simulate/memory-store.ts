/**
 * A store in memory for simulated worlds. It answers `storage/contract.ts` and passes the exam of every store; what a disk may do
 * to it (refuse, be slow, leave the outcome open, be away for a while) is decided by its `troubles`.
 *
 * TEST-MEMORY-STORE-1  One batch at a time, in order of arrival; a batch holds what waits.
 * TEST-MEMORY-STORE-2  After a failed write it is `failed` until it was mended; meanwhile it writes nothing and, when dismounted, reads nothing.
 * TEST-MEMORY-STORE-3  A dead store answers nobody: its promises never end.
 */
import {
  type Appended,
  type BackupManifest,
  type Commit,
  Conflict,
  Damaged,
  type DeliveryQuery,
  type DeliveryRow,
  type EventQuery,
  type Fence,
  Fenced,
  type Floor,
  type ListPage,
  type ListQuery,
  OutcomeUnknown,
  type Range,
  type Row,
  type RowKey,
  type Store,
  type StoredEvent,
  type StoreHealth,
  StoreUnavailable,
  smallBody,
  type Trim,
} from '../../storage/contract.ts';
import { checkedCommit, checkedTrim, checkName, textOf } from './memory-checks.ts';
import { compareText, type DiskEvent, type DiskRow, keyOf, type MemoryDisk } from './memory-disk.ts';

/** `refused`: the batch is not on the disk, and that is known at once. `late`: it is, and that is known after the mending. `open`:
 * it is or is not (`isWritten`), and callers are told that nobody knows. */
export type WriteFate =
  | { readonly kind: 'done' }
  | { readonly kind: 'refused' | 'late' | 'open'; readonly isWritten: boolean; readonly mendMs: number };

export interface Troubles {
  now(): number;
  /** Runs `run` when the disk gets to it. */
  later(run: () => void): void;
  after(ms: number, run: () => void): void;
  fate(isCommit: boolean): WriteFate;
  /** Whether the store can be read while it is being mended. */
  isMounted(): boolean;
  isAlive(): boolean;
  /** Named moments at which a process may die. */
  point(name: 'write.before' | 'write.after' | 'read'): void;
  committed(events: readonly DiskEvent[]): void;
  settled(rows: readonly DeliveryRow[], floors: readonly Floor[]): void;
  /** The caller of a commit learns that it is written. */
  acknowledged(first: number, last: number): void;
  /** Called just before the horizon moves. */
  trimmed(upTo: number): void;
}

export const noTroubles: Troubles = {
  now: () => 0,
  later: (run) => queueMicrotask(run),
  after: (_ms, run) => queueMicrotask(run),
  fate: () => ({ kind: 'done' }),
  isMounted: () => true,
  isAlive: () => true,
  point: () => {},
  committed: () => {},
  settled: () => {},
  acknowledged: () => {},
  trimmed: () => {},
};

interface Job {
  readonly write: () => void;
  readonly done: () => void;
  readonly fail: (error: Error) => void;
  readonly isCommit: boolean;
}

const never = () => new Promise<never>(() => {});

export class MemoryStore implements Store {
  readonly #disk: MemoryDisk;
  readonly #troubles: Troubles;
  readonly #fence: Fence;
  readonly #listeners: ((health: StoreHealth) => void)[] = [];
  readonly #flying = new Map<string, Promise<Appended>>();
  #state: StoreHealth['state'] = 'open';
  #waiting: Job[] = [];
  #writing: Promise<void> | null = null;
  #closed = false;

  constructor(disk: MemoryDisk, troubles: Troubles = noTroubles, node = 'simulated') {
    this.#disk = disk;
    this.#troubles = troubles;
    disk.token++;
    this.#fence = { token: disk.token, node };
  }

  held(): Fence | null {
    return this.#closed ? null : this.#fence;
  }

  async append(commit: Commit): Promise<Appended> {
    const appended = await this.#append(commit);
    this.#troubles.acknowledged(appended.first, appended.last);
    return appended;
  }

  async #append(commit: Commit): Promise<Appended> {
    if (!this.#troubles.isAlive()) return never();
    this.#checkFence(commit.fence);
    this.#mounted();
    const known = this.#disk.commits.get(commit.idem);
    if (known) return { ...known, replayed: true };
    const flying = this.#flying.get(commit.idem);
    if (flying) return { ...(await flying), replayed: true };
    this.#writable();
    const checked = checkedCommit(commit);
    let written: Appended | null = null;
    let conflict: Conflict | null = null;
    const flight = new Promise<Appended>((resolve, reject) => {
      this.#push({
        isCommit: true,
        write: () => {
          const stale = this.#disk.stale(checked);
          conflict = stale ? new Conflict(stale, this.#disk.head) : null;
          if (conflict) return;
          const { first, last, written: events } = this.#disk.commit(checked);
          written = { first, last, replayed: false };
          this.#troubles.committed(events);
        },
        done: () => (conflict ? reject(conflict) : written && resolve(written)),
        fail: reject,
      });
    });
    this.#flying.set(commit.idem, flight);
    try {
      return await flight;
    } finally {
      this.#flying.delete(commit.idem);
    }
  }

  async settle(fence: Fence, rows: readonly DeliveryRow[], floors: readonly Floor[]): Promise<void> {
    if (!this.#troubles.isAlive()) return never();
    this.#checkFence(fence);
    this.#writable();
    const checked = rows.map((row) => ({ ...row, data: textOf(row.data) }));
    return new Promise((resolve, reject) => {
      const write = () => {
        this.#disk.settle(checked, floors, this.#troubles.now());
        this.#troubles.settled(rows, floors);
      };
      this.#push({ isCommit: false, write, done: resolve, fail: reject });
    });
  }

  async floors(): Promise<Floor[]> {
    await this.#read();
    return [...this.#disk.floors.values()].sort((a, b) => compareText(a.dest, b.dest));
  }

  async deliveries({ dest, rows, fromSeq = 0, toSeq, limit }: DeliveryQuery): Promise<DeliveryRow[]> {
    await this.#read(dest);
    const found: DeliveryRow[] = [];
    for (const row of this.#disk.deliveries.values()) {
      const isWanted = row.dest === dest && (row.state === 'DELIVERED') === (rows === 'DELIVERED');
      if (isWanted && row.seq >= fromSeq && row.seq <= (toSeq ?? row.seq)) found.push(parsed(row));
    }
    return found.sort((a, b) => a.seq - b.seq).slice(0, limit);
  }

  async delivery(dest: string, seq: number): Promise<DeliveryRow | null> {
    await this.#read(dest);
    const row = this.#disk.deliveries.get(keyOf(dest, String(seq)));
    return row ? parsed(row) : null;
  }

  async event(seq: number): Promise<StoredEvent | null> {
    await this.#read();
    const event = seq > this.#disk.horizon ? this.#disk.events.get(seq) : undefined;
    return event ? parsed(event) : null;
  }

  async read({ after, limit, size = Number.POSITIVE_INFINITY, to, withTouched }: EventQuery): Promise<StoredEvent[]> {
    await this.#read(to ?? '');
    const found: StoredEvent[] = [];
    let room = size;
    const from = Math.max(after, this.#disk.horizon) + 1;
    for (let seq = from; seq <= this.#disk.head && found.length < limit && room > 0; seq++) {
      const event = this.#disk.events.get(seq);
      if (!event || (to !== undefined && !event.to.includes(to))) continue;
      const one = parsed(event);
      found.push(withTouched ? { ...one, touched: this.#disk.touched.get(seq) ?? [] } : one);
      room -= (one.body?.length ?? 0) + (JSON.stringify(one.data)?.length ?? 0);
    }
    return found;
  }

  async ranges(ranges: readonly Range[]): Promise<StoredEvent[]> {
    await this.#read();
    const events = ranges.flatMap(({ after, upTo }) => {
      const from = Math.max(after, this.#disk.horizon) + 1;
      const end = Math.min(upTo, this.#disk.head);
      return this.#events(Array.from({ length: Math.max(0, end - from + 1) }, (_, index) => from + index));
    });
    return withoutBodies(events).sort((a, b) => a.seq - b.seq);
  }

  async history(stream: string, after = 0, limit = Number.POSITIVE_INFINITY): Promise<StoredEvent[]> {
    await this.#read(stream);
    return this.#events((this.#disk.streams.get(stream) ?? []).filter((seq) => seq > after).slice(0, limit));
  }

  async kept(streams: readonly string[]): Promise<StoredEvent[]> {
    await this.#read(...streams);
    return this.#events(streams.flatMap((stream) => this.#disk.keptOf(stream)));
  }

  async recent(stream: string, limit: number): Promise<StoredEvent[]> {
    await this.#read(stream);
    return this.#newest(this.#disk.streams.get(stream) ?? [], limit);
  }

  async correlated(correlationId: string, limit = Number.POSITIVE_INFINITY): Promise<StoredEvent[]> {
    await this.#read(correlationId);
    return this.#newest(this.#disk.correlations.get(correlationId) ?? [], limit);
  }

  head(): number {
    return this.#disk.head;
  }

  horizon(): number {
    return this.#disk.horizon;
  }

  async trim({ fence, ...asked }: Trim): Promise<void> {
    if (!this.#troubles.isAlive()) return never();
    this.#checkFence(fence);
    this.#writable();
    const trim = checkedTrim(asked);
    this.#disk.refuse(trim);
    return new Promise((resolve, reject) => {
      const write = () => {
        this.#troubles.trimmed(trim.upTo);
        this.#disk.trim(trim);
      };
      this.#push({ isCommit: true, write, done: resolve, fail: reject });
    });
  }

  async rewrite(): Promise<void> {
    throw new StoreUnavailable('nothing is erased from a simulated store');
  }

  async reclaim(): Promise<readonly string[]> {
    return [];
  }

  async backup(): Promise<BackupManifest> {
    throw new StoreUnavailable('a simulated store is not backed up');
  }

  async get({ kind, owner, id }: RowKey): Promise<Row | null> {
    await this.#read(kind, owner, id);
    if (this.#disk.damaged.has(keyOf(kind, owner, id))) throw new Damaged(keyOf(kind, owner, id));
    const row = this.#disk.rows.get(kind)?.get(keyOf(owner, id));
    return row ? parsed(row) : null;
  }

  async getSmall(key: RowKey): Promise<Row | number | null> {
    return (await this.size([key])) || this.get(key);
  }

  async size(keys: readonly RowKey[]): Promise<number> {
    const lengths = keys.map(
      ({ kind, owner, id }) => this.#disk.rows.get(kind)?.get(keyOf(owner, id))?.body?.length ?? 0,
    );
    return lengths.filter((length) => length > smallBody).reduce((sum, length) => sum + length, 0);
  }

  async list(query: ListQuery): Promise<ListPage> {
    await this.#read();
    const { kind, shelves, owner, from, to, limit, after } = query;
    const matching = [...(this.#disk.rows.get(kind)?.values() ?? [])]
      .filter((row) => owner === undefined || row.owner === owner)
      .filter(({ shelf, upd }) => shelf !== null && shelves.includes(shelf) && inside(upd, from, to))
      .sort(byPlace);
    const offset = after ? matching.filter((row) => byPlace(row, after) <= 0).length : query.offset;
    const rows = matching.slice(offset, offset + limit).map(parsed);
    return { rows, total: matching.length, isLast: offset + rows.length >= matching.length };
  }

  async *scan(kind: string, owner?: string): AsyncIterable<Row> {
    await this.#read(kind, owner ?? '');
    const rows = [...(this.#disk.rows.get(kind)?.values() ?? [])].filter(
      (row) => owner === undefined || row.owner === owner,
    );
    yield* rows.sort((a, b) => compareText(a.owner, b.owner) || compareText(a.id, b.id)).map(parsed);
  }

  async count(kind: string, owner: string): Promise<number> {
    await this.#read(kind, owner);
    return [...(this.#disk.rows.get(kind)?.values() ?? [])].filter((row) => row.owner === owner).length;
  }

  async due(): Promise<{ key: string; at: string }[]> {
    await this.#read();
    const due = [...this.#disk.due].map(([key, at]) => ({ key, at }));
    return due.sort((a, b) => compareText(a.at, b.at) || compareText(a.key, b.key));
  }

  health(): StoreHealth {
    const reason = this.#state === 'failed' ? 'a write failed' : this.#state === 'closed' ? 'closed' : null;
    const damagedRows = [...this.#disk.damaged.values()].map(({ kind, owner, id }) => ({ kind, owner, id }));
    return { state: this.#state, reason, damagedRows, head: this.#disk.head };
  }

  onHealth(listener: (health: StoreHealth) => void): void {
    this.#listeners.push(listener);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#writing;
    this.#set('closed');
  }

  #newest(seqs: readonly number[], limit: number): StoredEvent[] {
    return withoutBodies(this.#events(seqs.slice(Math.max(0, seqs.length - limit))));
  }

  #events(seqs: readonly number[]): StoredEvent[] {
    return seqs.flatMap((seq) => {
      const event = this.#disk.events.get(seq);
      return event ? [parsed(event)] : [];
    });
  }

  #push(job: Job): void {
    this.#waiting.push(job);
    this.#writing ??= new Promise((resolve) => this.#troubles.later(() => this.#writeAll(resolve)));
  }

  /** TEST-MEMORY-STORE-1. */
  #writeAll(resolve: () => void): void {
    if (!this.#troubles.isAlive()) return;
    const jobs = this.#waiting.splice(0);
    if (this.#state === 'failed') for (const job of jobs) job.fail(new StoreUnavailable('a write failed'));
    else this.#write(jobs);
    if (!this.#troubles.isAlive()) return;
    if (this.#waiting.length > 0) this.#troubles.later(() => this.#writeAll(resolve));
    else {
      this.#writing = null;
      resolve();
    }
  }

  #write(jobs: readonly Job[]): void {
    this.#troubles.point('write.before');
    if (!this.#troubles.isAlive()) return;
    const fate = this.#troubles.fate(jobs.some(({ isCommit }) => isCommit));
    if (fate.kind === 'done' || fate.isWritten) for (const job of jobs) job.write();
    this.#troubles.point('write.after');
    if (!this.#troubles.isAlive()) return;
    if (fate.kind === 'done') for (const job of jobs) job.done();
    else this.#fail(jobs, fate.kind, fate.isWritten, fate.mendMs);
  }

  /** TEST-MEMORY-STORE-2. */
  #fail(jobs: readonly Job[], kind: 'refused' | 'late' | 'open', isWritten: boolean, mendMs: number): void {
    this.#set('failed');
    const error = kind === 'open' ? new OutcomeUnknown('a write failed') : new StoreUnavailable('a write failed');
    if (kind !== 'late') for (const job of jobs) job.fail(error);
    this.#troubles.after(mendMs, () => {
      if (!this.#troubles.isAlive()) return;
      this.#set('open');
      // What a failed settle wrote does not matter: it is settled again.
      if (kind === 'late') for (const job of jobs) isWritten && job.isCommit ? job.done() : job.fail(error);
    });
  }

  #set(state: StoreHealth['state']): void {
    if (this.#state === 'closed' || this.#state === state) return;
    this.#state = state;
    const health = this.health();
    for (const listener of this.#listeners) queueMicrotask(() => listener(health));
  }

  #checkFence(fence: Fence | null): void {
    if (this.#closed) throw new StoreUnavailable('closed');
    const held = this.#fence;
    if (fence !== null && (fence.token !== held.token || fence.node !== held.node))
      throw new Fenced('another holds the log');
  }

  #writable(): void {
    if (this.#state !== 'open') throw new StoreUnavailable(`the store is ${this.#state}`);
  }

  #mounted(): void {
    if (this.#closed || (this.#state === 'failed' && !this.#troubles.isMounted()))
      throw new StoreUnavailable(`the store is ${this.#state}`);
  }

  async #read(...names: readonly string[]): Promise<void> {
    this.#troubles.point('read');
    if (!this.#troubles.isAlive()) return never();
    this.#mounted();
    for (const name of names) checkName(name);
  }
}

const withoutBodies = (events: readonly StoredEvent[]) => events.map((event) => ({ ...event, body: null }));

function byPlace(a: Pick<DiskRow, 'upd' | 'owner' | 'id'>, b: Pick<DiskRow, 'upd' | 'owner' | 'id'>): number {
  return compareText(a.upd, b.upd) || compareText(a.owner, b.owner) || compareText(a.id, b.id);
}

const inside = (upd: string, from?: string, to?: string) =>
  (from === undefined || compareText(upd, from) >= 0) && (to === undefined || compareText(upd, to) < 0);

function parsed<T extends { readonly data: string }>(record: T): Omit<T, 'data'> & { data: unknown } {
  return { ...record, data: JSON.parse(record.data) as unknown };
}
