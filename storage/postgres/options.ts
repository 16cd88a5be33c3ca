/** What a PostgreSQL store is opened with. */
import type { Clock } from '../../src/kit/clock.ts';
import type * as contract from '../contract.ts';
import type { Sealing } from '../level/backup-keys.ts';
import type { OnPoint } from '../level/leveldb.ts';

export interface PostgresStoreOptions {
  readonly url: string;
  /** Display name of this node. */
  readonly node: string;
  /** Where peers reach this node. */
  readonly nodeUrl?: string | null;
  /**
   * The only node: opening waits for the log, and rejects when another node keeps renewing its lease. Default: true.
   */
  readonly sole?: boolean;
  readonly ttlMs?: number;
  /** Clock for leases and waits. Default: the system clock. */
  readonly clock?: Clock;
  readonly answerMs?: number;
  /** What is wrong with how other nodes reach this one. */
  readonly doubts?: () => readonly string[];
  readonly gained?: (fence: contract.Fence) => void;
  readonly lost?: () => void;
  readonly onPoint?: OnPoint;
  /** Absent or null: backups are not sealed. */
  readonly sealing?: Sealing | null;
}
