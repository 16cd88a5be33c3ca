/**
 * What pages that show every partner at once, or watch one connect, are told.
 */
import type { ConnectionStatus, PartyId, Role } from '../../domain/party.ts';

type CircuitState = 'closed' | 'open' | 'halfOpen';

export interface HandshakeStep {
  /** RFC 3339. */
  readonly at: string;
  /** `called`: its initial token was used. `received`: it sent its credentials, and its versions are read. */
  readonly step: 'called' | 'received' | 'failed' | 'connected';
  /** Why it failed, in words. */
  readonly reason: string | null;
}

/** A partner at a glance. */
export interface OverviewRow {
  readonly id: PartyId;
  /** Of all its parties. */
  readonly parties: readonly PartyId[];
  readonly names: readonly string[];
  readonly roles: readonly Role[];
  readonly status: ConnectionStatus;
  readonly paused: boolean;
  readonly sync: CircuitState;
  readonly async: CircuitState;
  /** Deliveries that wait in memory. */
  readonly depth: number;
  /** More wait in the log. */
  readonly behind: boolean;
  /** RFC 3339: since when the oldest of them is owed, or was last put back. */
  readonly oldest_at: string | null;
  readonly dead: number;
  /** What should have gone out a minute ago or more, though nothing holds it back. */
  readonly overdue: number;
  /** Since the hub started. */
  readonly delivered: number;
}

/** Events that are too old to be kept and stay, because they are still owed. */
export interface LogHeld {
  /** RFC 3339: the oldest of them. */
  readonly since: string;
  /** Partners to whom they are owed. */
  readonly by: readonly PartyId[];
}

export interface OverviewTotals {
  readonly partners: number;
  /** Commands that are under way, by state. */
  readonly commands: Readonly<Record<string, number>>;
  /** Sessions that are watched for their end or their CDR. */
  readonly watches: number;
  readonly open_cases: number;
  /** Actors that were given up. */
  readonly quarantined: readonly { readonly actor: string; readonly error: string | null }[];
  readonly store: { readonly state: string; readonly reason: string | null };
  /** As the last trimming found it, which is hourly; null when nothing is held back. */
  readonly log_held: LogHeld | null;
}

export interface HandshakeView {
  /** Where the partner begins. */
  readonly versions_url: string;
  /** Oldest first, since the hub started. */
  readonly steps: readonly HandshakeStep[];
}

export interface OverviewView {
  /** To be said next time. */
  readonly revision: string;
  /** All partners, not those alone that have changed. */
  readonly full: boolean;
  /** RFC 3339, by the hub's clock. */
  readonly at: string;
  readonly rows: readonly OverviewRow[];
  readonly totals: OverviewTotals;
}

export interface OverviewVerbs {
  /** Rows that have changed since a revision that it gave; all without one, or when it is of another start. */
  overview(after?: string): OverviewView;
  /** How the registration of a partner went since the hub started. Throws `notFound`. */
  handshake(id: string): HandshakeView;
}
