/**
 * What the receivers of a dispatcher share, and what they report to it.
 */
import type { DeadGroupName } from '../../domain/triage.ts';
import type { Limit } from '../../kit/concurrency.ts';
import type { Context } from '../kernel/context.ts';
import type { Erasures } from './erasures.ts';
import type { FairScheduler, Sender } from './fair-scheduler.ts';
import type { MissedNotes } from './missed-notes.ts';
import type { OutboxWriter } from './outbox-writer.ts';

/** What all receivers share. */
export interface Desk<Receiver extends Sender> {
  readonly context: Context;
  readonly writer: OutboxWriter;
  readonly scheduler: FairScheduler<Receiver>;
  readonly erasures: Pick<Erasures, 'text'>;
  readonly notes: Pick<MissedNotes, 'add' | 'ended' | 'replaced'>;
  /** Bounds the pages of backlogs that are in memory at the same time. */
  readonly pages: Limit;
  /** One page at a time is counted, beside those: no delivery waits for it. [WINDOW-5] */
  readonly counts: Limit;
  /** Sends what the receiver's courier and the global limit allow now. */
  readonly pump: (receiver: Receiver) => void;
  /** The last dead letter of a group is none any more. */
  readonly cleared: (group: DeadGroupName) => void;
}

export interface Backlog {
  /** Deliveries that wait, in memory and in the log. */
  readonly depth: number;
  /** Start of the earliest retry window, hub time, ms; null when memory holds no delivery. */
  readonly oldestAt: number | null;
  readonly dead: number;
  /** Since the start of the process. */
  readonly delivered: number;
  /** The log holds more that is not counted yet: soon after a restart. */
  readonly behind: boolean;
}
