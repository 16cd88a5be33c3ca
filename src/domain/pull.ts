/** The record of a pull, folded from its events. [interface, Admin pulls; D51] */
import type { PartyId } from './party.ts';

export type PulledModule = 'locations' | 'tariffs';

export interface PullCounts {
  readonly pages: number;
  /** Objects on these pages. */
  readonly received: number;
  readonly stored: number;
  /** Objects that were already stored with the same text, or that their owner pushed meanwhile. */
  readonly unchanged: number;
  readonly invalid: number;
  /** Tariffs deleted because the full list no longer contains them. */
  readonly deleted: number;
}

export const noCounts: PullCounts = { pages: 0, received: 0, stored: 0, unchanged: 0, invalid: 0, deleted: 0 };

export interface PullRecord extends PullCounts {
  readonly id: string;
  /** The partner whose list is read. */
  readonly party: PartyId;
  readonly module: PulledModule;
  readonly full: boolean;
  readonly forward: boolean;
  /** Lower bound on `last_updated`, RFC 3339; null when the whole list is read. */
  readonly dateFrom: string | null;
  readonly state: 'RUNNING' | 'DONE' | 'FAILED';
  /** Why it failed. */
  readonly error: string | null;
  /** Remark for operators on a finished pull. */
  readonly note: string | null;
  readonly startedAt: string;
  readonly endedAt: string | null;
}

/** An object that a pull refused; the event also carries its text as received. */
export interface QuarantineRecord {
  readonly pull: string;
  readonly party: PartyId;
  readonly module: PulledModule;
  /** `{cc}-{pid}/{id}`; null when the text does not contain it. */
  readonly object: string | null;
  readonly reason: string;
}

export type PullEvent =
  | { type: 'pull.started'; data: Pick<PullRecord, 'id' | 'party' | 'module' | 'full' | 'forward' | 'dateFrom'> }
  | { type: 'pull.progressed'; data: PullCounts }
  | { type: 'pull.done'; data: PullCounts & { note: string | null } }
  /** Without counts when a restart cut the pull off: they are lost then. */
  | { type: 'pull.failed'; data: Partial<PullCounts> & { error: string } };

export function applyToPull(record: PullRecord | null, event: PullEvent, at: string): PullRecord {
  if (event.type === 'pull.started') {
    return { ...event.data, ...noCounts, state: 'RUNNING', error: null, note: null, startedAt: at, endedAt: null };
  }
  if (record === null) throw new Error(`${event.type} of a pull that was never started`);
  switch (event.type) {
    case 'pull.progressed':
      return { ...record, ...event.data };
    case 'pull.done':
      return { ...record, ...event.data, state: 'DONE', endedAt: at };
    case 'pull.failed':
      return { ...record, ...event.data, state: 'FAILED', endedAt: at };
  }
}
