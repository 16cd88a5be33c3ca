/**
 * The part of `Operations` by which operators handle orphan cases and groups of dead letters, and keep saved views
 * (addresses of the console under a name).
 */

import type { TriageView } from '../../api/common.ts';
import type { DeadGroup } from '../../api/deliveries.ts';
import type { OrphanView } from '../../api/orphans.ts';
import type { SavedView, Trace } from '../../domain/events.ts';
import type { DeadGroupName, TriageChange } from '../../domain/triage.ts';

export interface SavedViewVerbs {
  savedViews(): Promise<SavedView[]>;
  /** Replaces a view of the same name. Throws `conflict` when there are too many. */
  saveView(name: string, path: string, trace: Trace): Promise<SavedView>;
  /** Idempotent: resolves even when there is none. */
  removeView(id: string, trace: Trace): Promise<void>;
}

/** `assignee` null: not filtered by assignee. */
export interface MatterVerbs {
  /** Dead letters by receiver, module and class, most first. */
  deadGroups(assignee: string | null): Promise<DeadGroup[]>;
  /** Throws `notFound` for a group without a dead letter. */
  triageDeadGroup(group: DeadGroupName, change: TriageChange, trace: Trace): Promise<TriageView>;
  /** Open and resolved cases. A watch in its grace is not a case yet; `state` GRACE lists those. [D77] */
  orphans(state: string | null, assignee: string | null): Promise<OrphanView[]>;
  /**
   * Queries the CPO of an open case again; the note of the case gets the result. Throws `conflict` when the case is not
   * open.
   */
  pullOrphan(id: string, trace: Trace): Promise<OrphanView>;
  /** Throws `conflict` when the case is not open. */
  triageOrphan(id: string, change: TriageChange, trace: Trace): Promise<OrphanView>;
  /** Closes an open case by hand. */
  resolveOrphan(id: string, note: string | null, trace: Trace): Promise<OrphanView>;
}
