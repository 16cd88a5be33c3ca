/**
 * What a node observes in the database besides its lease: clock skew, and the oldest open transaction. An open
 * transaction, even a read-only one (`pg_dump`), keeps the database from cleaning up, so that it grows.
 *
 * WATCH-1  Observes every 10 s, once at a time, on one of the store's read sessions: a heartbeat neither waits for it
 *     nor fails with it.
 * WATCH-2  A clock difference that the round trip to the database can explain counts as 0.
 * WATCH-3  The server shows when a transaction began only for sessions of the same user, unless the user has the role
 *     `pg_read_all_stats`. VACUUM holds nothing back and is ignored. What a standby (`hot_standby_feedback`) or a
 *     replication slot holds back is not observed.
 */
import type { Client } from 'pg';
import type { Clock } from '../../src/kit/clock.ts';
import type { OpenTransaction, Sight } from '../contract.ts';
import { ask, wordsOf } from './connect.ts';

const everyMs = 10_000;
/** Clock skew: the warning begins above the first and ends below the second (hysteresis). */
const [skewMaxMs, skewEndMs] = [1_000, 800];
const oldMs = 300_000;

const LOOK = `select extract(epoch from now) * 1000 as at, extract(epoch from oldest.since) * 1000 as since, oldest.who
  from clock_timestamp() now left join lateral (
    select xact_start as since, format('%s of user %s, pid %s', coalesce(nullif(application_name, ''), backend_type), usename, pid) as who
      from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and coalesce(backend_xmin, backend_xid) is not null
        and backend_type <> 'autovacuum worker' and pid not in (select pid from pg_stat_progress_vacuum)
    union all
    select prepared, format('prepared transaction %s', gid) from pg_prepared_xacts where database = current_database()
    order by since limit 1) oldest on true`;

/** Instants as epoch ms. */
interface Row {
  readonly at: string;
  readonly since: string | null;
  readonly who: string;
}

type Use = <T>(work: (client: Client) => Promise<T>) => Promise<T>;

export class Watch {
  readonly #clock: Clock;
  readonly #use: Use;
  #sight: Sight | null = null;
  #problem: string | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isLooking = false;
  #isSkewed = false;

  constructor(clock: Clock, use: Use) {
    this.#clock = clock;
    this.#use = use;
  }

  /** Null before the first observation, after a failed one, and after the database was unreachable. */
  get sight(): Sight | null {
    return this.#sight;
  }

  /**
   * Observes when 10 s have passed; resolves with whether it did. Never rejects: a failure becomes a warning. [WATCH-1]
   */
  async look(): Promise<boolean> {
    const now = this.#clock.monotonic();
    if (this.#isLooking || now < this.#lookedAt + everyMs) return false;
    this.#lookedAt = now;
    this.#isLooking = true;
    try {
      this.#sight = await this.#use((client) => this.#seen(client));
      this.#problem = null;
    } catch (error) {
      this.#sight = null;
      this.#problem = `the database's clock and open transactions cannot be looked at: ${wordsOf(error)}`;
    } finally {
      this.#isLooking = false;
    }
    const ahead = Math.abs(this.#sight?.clockAheadMs ?? 0);
    this.#isSkewed = ahead > (this.#isSkewed ? skewEndMs : skewMaxMs);
    return true;
  }

  /** The database is unreachable: the next successful beat observes again. */
  forget(): void {
    this.#sight = null;
    this.#problem = null;
    this.#lookedAt = Number.NEGATIVE_INFINITY;
  }

  /** Warnings for the operator, one sentence each; the text stays the same while the condition lasts. */
  warnings(): string[] {
    return this.#problem === null ? warningsOf(this.#sight, this.#isSkewed) : [this.#problem];
  }

  async #seen(client: Client): Promise<Sight> {
    const sent = this.#clock.wall();
    const [row] = (await ask<Row>(client, 'watch', LOOK)) as [Row];
    const received = this.#clock.wall();
    const at = Number(row.at);
    return { clockAheadMs: aheadOf(at, sent, received), oldest: oldestOf(row, at) };
  }
}

function oldestOf({ since, who }: Row, at: number): OpenTransaction | null {
  if (since === null) return null;
  const begun = Number(since);
  return { since: new Date(begun).toISOString(), ms: Math.max(0, at - begun), who };
}

/** Clock difference, ms: how far `at` is outside the interval from `sent` to `received`. [WATCH-2] */
const aheadOf = (at: number, sent: number, received: number): number => at - Math.min(Math.max(at, sent), received);

/** `/readyz` shows these warnings to callers without a token, so they name no database session. */
export function warningsOf(sight: Sight | null, isSkewed: boolean): string[] {
  if (sight === null) return [];
  const { clockAheadMs, oldest } = sight;
  const warnings: string[] = [];
  if (isSkewed) {
    warnings.push(`the database's clock is more than a second ${clockAheadMs > 0 ? 'ahead of' : 'behind'} this node's`);
  }
  if (oldest !== null && oldest.ms > oldMs) {
    warnings.push(`a transaction keeps the database from cleaning up since ${oldest.since}`);
  }
  return warnings;
}
