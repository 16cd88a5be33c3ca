/**
 * Connections to the primary of a group of PostgreSQL servers: finds it, opens sessions, and translates driver errors.
 *
 * CONNECT-1  Before a connection is used, its server is asked whether it is the primary. When several servers claim it,
 *     the one with the highest timeline is the primary: a failover left the others behind, also while that one is away. Once
 *     another is found, every session with the one before ends.
 * CONNECT-2  No statement has a server-side time-out: the server answers a cancelled wait for a standby with success. A
 *     caller that waits too long destroys the connection, and asks on another one whether the statement took effect.
 * CONNECT-3  A connection that failed is never used again.
 * CONNECT-4  The server ends a transaction for whose locks other nodes wait when its node is silent between two of its
 *     statements, and a session whose machine is gone.
 * CONNECT-5  A pooler is refused: what a session set, or prepared, would hold for statements of others, and not for its own.
 */
import { Client, type ClientConfig, type QueryConfig, type QueryResult } from 'pg';
import { every } from '../../src/kit/clock.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import { Damaged, StoreUnavailable } from '../contract.ts';
import type { PostgresAddress } from './options.ts';

/** How a session commits; `lazy`: the server answers before the commit is on disk. */
export type Durability = 'flushed' | 'lazy';

const CONNECT_MS = 1500;
/**
 * A time-out is checked `LOOKS` times, and each check counts at most `STOP_PART` of it as elapsed: a pause of this
 * process must not pass for silence of the server.
 */
const LOOKS = 15;
const STOP_PART = 1 / 3;
const KEEP_ALIVE_MS = 5000;
const INT8 = 20;

const types: NonNullable<ClientConfig['types']> = {
  // Sequences stay below 2^53; everything else comes as text or as the caller casts it.
  getTypeParser: (oid: number) => (oid === INT8 || oid === 23 || oid === 21 ? Number : oid === 16 ? isTrue : asText),
};
const isTrue = (text: string): boolean => text === 't';
const asText = (text: string): string => text;

/**
 * Start-up options, so that defaults of a role or database apply to no statement, the first included. [CONNECT-2]
 * Without sequential scans the planner looks up rows by key, also while tables are small. No statement is long enough for
 * several processes.
 */
const OPTIONS = Object.entries({
  statement_timeout: 0,
  lock_timeout: 0,
  idle_in_transaction_session_timeout: 0,
  idle_session_timeout: 0,
  // Ignored on a Unix socket. [CONNECT-4]
  tcp_keepalives_idle: 5,
  tcp_keepalives_interval: 2,
  tcp_keepalives_count: 3,
  // For an answer that is not taken, which keepalives do not see; ms.
  tcp_user_timeout: 10_000,
  client_min_messages: 'notice',
  jit: 'off',
  default_transaction_isolation: 'read\\ committed',
  enable_seqscan: 'off',
  max_parallel_workers_per_gather: 0,
})
  .map(([name, value]) => `-c ${name}=${value}`)
  .join(' ');
/** Switches off a time-out of PostgreSQL 17, which earlier versions would refuse as a start-up option. */
const SESSION =
  "select set_config('transaction_timeout', '0', false) where current_setting('transaction_timeout', true) is not null;";
export const LAZY = 'set synchronous_commit = off;';
const SERVER = 'select pg_is_in_recovery() as standby, pg_backend_pid() as pid';
const POOLED =
  'a connection pooler is between this node and the database: a node needs sessions of its own, so HUB_STORE must name the server itself';
/** A plan with merges reads whole indexes. */
const FOR_WRITES = 'set enable_mergejoin = off;';

/** No server can be asked now, or none takes writes: a later try may succeed without a change of settings. */
export class DatabaseAway extends StoreUnavailable {}

/** What a server said of itself, on a session that stays open. */
interface Found {
  readonly host: PostgresAddress['hosts'][number];
  readonly client: Client;
  /** Of a primary; 0 for a standby. */
  readonly timeline: number;
}

/** 0 for a standby, and for one that did not answer. */
const timelineOf = (each: PromiseSettledResult<Found>): number =>
  each.status === 'fulfilled' ? each.value.timeline : 0;

export class Primary {
  readonly #address: PostgresAddress;
  readonly #name: string;
  readonly #all = new Set<Client>();
  #host: PostgresAddress['hosts'][number] | null = null;
  /** The session that found the primary, for the next that connects. */
  #spare: Client | null = null;
  /** The highest that a server claimed. [CONNECT-1] */
  #timeline = 0;
  #closed = false;

  constructor(address: PostgresAddress, name: string) {
    this.#address = address;
    this.#name = name;
  }

  /** Remembers the primary among all servers. If none is, throws StoreUnavailable with what each said. [CONNECT-1] */
  async find(): Promise<void> {
    const found = await this.#timelines();
    const newest = Math.max(1, this.#timeline, ...found.map(timelineOf));
    const best = found.find((each) => timelineOf(each) === newest);
    const { host = null, client = null } = best?.status === 'fulfilled' ? best.value : {};
    const isSame = host === this.#host && newest === this.#timeline;
    for (const each of found) if (each.status === 'fulfilled' && each !== best) destroy(each.value.client);
    if (this.#spare !== null) destroy(this.#spare);
    if (!isSame) for (const other of this.#all) if (other !== client) destroy(other);
    [this.#spare, this.#host, this.#timeline] = [client, host, newest];
    if (host !== null) return;
    const isWaited = found.every((each) => each.status === 'fulfilled' || isAway(each.reason));
    const said = found.map((each, i) => {
      const server = this.#address.hosts[i];
      const role = `is ${timelineOf(each) ? `the primary of timeline ${timelineOf(each)}, and timeline ${newest} has followed` : 'a standby'}`;
      return `${server?.host}:${server?.port} ${each.status === 'rejected' ? wordsOf(each.reason) : role}`;
    });
    const Unavailable = isWaited ? DatabaseAway : StoreUnavailable;
    throw new Unavailable(`no database server takes writes: ${said.join('; ')}`);
  }

  /** Whether a server claims to be the primary with a higher timeline than the highest known one. */
  async isLeftBehind(): Promise<boolean> {
    const found = await this.#timelines();
    for (const each of found) if (each.status === 'fulfilled') destroy(each.value.client);
    const [before, newest] = [this.#timeline, Math.max(...found.map(timelineOf))];
    this.#timeline = Math.max(before, newest);
    return newest > before;
  }

  /** Opens a session on the remembered primary. */
  async connect(durability: Durability = 'flushed', forWrites = false): Promise<Client> {
    if (this.#closed) throw new StoreUnavailable('closed');
    if (this.#host === null) throw new StoreUnavailable('the database is unreachable');
    const spare = this.#spare;
    this.#spare = null;
    const client = spare !== null && isAlive(spare) ? spare : await this.#open(this.#host);
    try {
      const lazy = durability === 'lazy' ? LAZY : '';
      const path = `set search_path = "${this.#address.schema}";`;
      const settings = `${SESSION} ${forWrites ? FOR_WRITES : ''} ${lazy} ${path}`;
      await within(client, CONNECT_MS, client.query(settings));
      const asked = client.query<{ standby: boolean; pid: number }>(SERVER);
      const { rows } = await within(client, CONNECT_MS, asked);
      if (rows[0]?.standby !== false) throw new StoreUnavailable('the database server became a standby');
      if (rows[0].pid !== pidOf(client)) throw new StoreUnavailable(POOLED);
      if (this.#closed) throw new StoreUnavailable('closed');
      return client;
    } catch (error) {
      destroy(client);
      throw error;
    }
  }

  /** Forgets the primary and destroys every connection at once; statements in flight reject. */
  drop(): void {
    this.#host = null;
    this.#spare = null;
    for (const client of this.#all) destroy(client);
  }

  close(): void {
    this.#closed = true;
    this.drop();
  }

  async #open({ host, port }: PostgresAddress['hosts'][number]): Promise<Client> {
    const { user, password, database, ssl } = this.#address;
    const client = new Client({
      host,
      port,
      user,
      password,
      database,
      types,
      ssl,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      application_name: `ocpi-hub ${this.#name}`.slice(0, 63),
      options: OPTIONS,
    });
    // The error also rejects the statement in flight; without a listener it would end the process.
    client.on('error', () => {});
    client.once('end', () => this.#all.delete(client));
    this.#all.add(client);
    try {
      await within(client, CONNECT_MS, client.connect());
      return client;
    } catch (error) {
      this.#all.delete(client);
      destroy(client);
      throw state(error) === '08P01' ? new StoreUnavailable(`${wordsOf(error)}: ${POOLED}`, { cause: error }) : error;
    }
  }

  #timelines(): Promise<PromiseSettledResult<Found>[]> {
    return Promise.allSettled(this.#address.hosts.map((host) => this.#timelineOf(host)));
  }

  async #timelineOf(host: PostgresAddress['hosts'][number]): Promise<Found> {
    const client = await this.#open(host);
    try {
      const { rows } = await within(
        client,
        CONNECT_MS,
        client.query<{ name: string | null }>(
          'select case when pg_is_in_recovery() then null else pg_walfile_name(pg_current_wal_lsn()) end as name',
        ),
      );
      return { host, client, timeline: Number.parseInt(rows[0]?.name?.slice(0, 8) ?? '0', 16) };
    } catch (error) {
      destroy(client);
      throw error;
    }
  }
}

export const isAlive = (client: Client): boolean => {
  const { stream } = client.connection;
  return !stream.destroyed && stream.writable;
};

/** Begins a transaction that locks the log or its schema over several round trips. [CONNECT-4] */
export const beginLocking = (client: Client): Promise<unknown> =>
  client.query("begin; set local idle_in_transaction_session_timeout = '5s'");

/** The process that serves a session, as the server said when it began. */
export const pidOf = (client: Client): number => (client as unknown as { processID: number }).processID;

/** Sends the server nothing: a statement in flight goes on there. */
export function destroy(client: Client): void {
  client.connection.stream.destroy();
}

/** Resolves with the answer; after `timeoutMs` destroys the connection and rejects. See `LOOKS`. */
export async function within<T>(client: Client, timeoutMs: number, answer: Promise<T>): Promise<T> {
  let left = timeoutMs;
  let lookedAt = systemClock.monotonic();
  const look = () => {
    const now = systemClock.monotonic();
    left -= Math.min(now - lookedAt, timeoutMs * STOP_PART);
    lookedAt = now;
    if (left <= 0) destroy(client);
  };
  const stop = every(systemClock, timeoutMs / LOOKS, look);
  try {
    return await answer;
  } catch (error) {
    throw left > 0 ? error : new Error('timeout expired', { cause: error });
  } finally {
    stop();
  }
}

/**
 * Detects a cancelled wait for a standby: PostgreSQL then answers the commit with success, and warns that the commit
 * may exist on this server only. The text of the warning depends on the server's language, so only its code counts.
 */
export function noticesOf(client: Client): { cancelled(): boolean; end(): void } {
  let warned = false;
  const listener = ({ code }: { code?: string | undefined }): void => {
    if (code === '01000') warned = true;
  };
  client.on('notice', listener);
  return { cancelled: () => warned, end: () => void client.off('notice', listener) };
}

/** Rejects when the statement's wait for a standby was cancelled, too. */
export async function acknowledged(client: Client, statement: () => Promise<unknown> | undefined): Promise<void> {
  const notices = noticesOf(client);
  try {
    await statement();
    if (notices.cancelled()) throw new StoreUnavailable('the wait for a standby was cancelled');
  } finally {
    notices.end();
  }
}

/** Runs a named statement, which each session prepares once. */
export async function ask<Row extends object>(
  client: Client,
  name: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const config: QueryConfig = { name, text, values: [...values] };
  const { rows }: QueryResult<Row> = await client.query<Row>(config);
  return rows;
}

/** SQL state of a statement that waited for a lock longer than its `lock_timeout`. */
export const LOCKED = '55P03';

const state = (error: unknown): string => {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : '';
};

/**
 * What an error means for the statement. `data`: refused for its values; `damage`: stored data is corrupt; `again`:
 * serialization failure or deadlock, so a retry may succeed; `gone`: connection or server lost; `refused`: any other.
 */
export function kindOf(error: unknown): 'data' | 'damage' | 'again' | 'refused' | 'gone' {
  const code = state(error);
  if (error instanceof TypeError) return 'data';
  if (code === '' || /^(08|57P)/.test(code) || code === '25006') return 'gone';
  if (code === 'XX001' || code === 'XX002') return 'damage';
  if (/^(22|23|54|21)/.test(code)) return 'data';
  if (code === '40001' || code === '40P01') return 'again';
  return 'refused';
}

/** Maps errors of the driver to errors of the contract; our own pass unchanged. */
export function translated(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const kind = kindOf(error);
  if (kind === 'damage') return new Damaged(error.message);
  if (state(error) === '' && !isOfTheNetwork(error)) return error;
  return new StoreUnavailable(`the database: ${wordsOf(error)}`, { cause: error });
}

const GONE_CODES = /^(ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|EAI_|ENOTFOUND)/;
const GONE_WORDS = /^(Connection terminated|Client has encountered|Client was closed|timeout (expired|exceeded))/;

function isOfTheNetwork(error: Error): boolean {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const isConnect = 'syscall' in error && error.syscall === 'connect';
  return isConnect || GONE_CODES.test(code) || GONE_WORDS.test(error.message) || error instanceof AggregateError;
}

/** Codes of a server that starts, stops, or has no room or sessions left; 08P01 is a pooler's. [CONNECT-5] */
const AWAY_CODES = /^(08(?!P01)|53|57P)/;

/** Whether an error, or a cause of it, tells of a server that is away, and not of settings. */
const isAway = (error: unknown): boolean =>
  error instanceof Error &&
  (error instanceof DatabaseAway || isOfTheNetwork(error) || AWAY_CODES.test(state(error)) || isAway(error.cause));

/** `DatabaseAway` for such an error, else the error. */
export const awayOr = (error: unknown): unknown =>
  isAway(error) && !(error instanceof DatabaseAway) ? new DatabaseAway(wordsOf(error), { cause: error }) : error;

export function wordsOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return wordsOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
