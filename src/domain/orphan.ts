/**
 * The record of an orphan watch or case, folded from its events. It is null after a watch that ended without a case.
 */
import type { OrphanEvent } from './events.ts';
import type { Triage } from './triage.ts';

type Armed = Extract<OrphanEvent, { type: 'orphan.armed' }>['data'];

/** `session`: its id, in the case in which it was first stored. */
export interface OrphanRecord extends Readonly<Armed> {
  readonly state: 'GRACE' | 'OPEN' | 'RESOLVED';
  readonly openedAt: string | null;
  /** When the hub last queried the CPO for the true state; null before that. */
  readonly pulledAt: string | null;
  readonly resolvedAt: string | null;
  readonly note: string | null;
  /** Absent until an operator takes care of the case. */
  readonly triage?: Triage;
}

export function applyToOrphan(record: OrphanRecord | null, event: OrphanEvent, at: string): OrphanRecord | null {
  if (event.type === 'orphan.armed') {
    return { ...event.data, state: 'GRACE', openedAt: null, pulledAt: null, resolvedAt: null, note: null };
  }
  if (record === null) throw new Error(`${event.type} of an orphan watch that was never armed`);
  switch (event.type) {
    case 'orphan.disarmed':
      return null;
    case 'orphan.opened':
      return { ...record, state: 'OPEN', openedAt: at };
    case 'orphan.pulled':
      return { ...record, pulledAt: at, note: event.data.note };
    case 'orphan.triaged':
      return { ...record, triage: event.data.triage };
    case 'orphan.resolved':
      return { ...record, state: 'RESOLVED', resolvedAt: at, note: event.data.note };
  }
}
