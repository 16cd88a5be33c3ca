/**
 * Views for the pages that show all partners at once, or follow the registration of one.
 */
import type { ConnectionStatus, PartyId, Role } from '../../domain/party.ts';

type CircuitState = 'closed' | 'open' | 'halfOpen';

export interface HandshakeStep {
  /** RFC 3339. */
  readonly at: string;
  /**
   * `called`: the partner used its initial token. `received`: it sent its credentials, and the hub reads its versions.
   */
  readonly step: 'called' | 'received' | 'failed' | 'connected';
  /** Why the registration failed, in words; null for the other steps. */
  readonly reason: string | null;
}

/** One partner as a row of the overview. */
export interface OverviewRow {
  readonly id: PartyId;
  /** All parties of the partner. */
  readonly parties: readonly PartyId[];
  readonly names: readonly string[];
  readonly roles: readonly Role[];
  readonly status: ConnectionStatus;
  readonly paused: boolean;
  readonly sync: CircuitState;
  readonly async: CircuitState;
  /** Backlog in memory, in deliveries. */
  readonly depth: number;
  /** True when the log holds more of the backlog than memory does. */
  readonly behind: boolean;
  /** RFC 3339: when the oldest delivery of the backlog was accepted or last re-driven. */
  readonly oldest_at: string | null;
  readonly dead: number;
  /**
   * Lanes whose next delivery is at least a minute overdue although neither the circuit nor an operator holds it back.
   */
  readonly overdue: number;
  /** Deliveries that succeeded since the hub started. */
  readonly delivered: number;
}

/** Events past the retention period that cannot be trimmed, because they are still owed to a partner. */
export interface LogHeld {
  /** RFC 3339: time of the oldest of these events. */
  readonly since: string;
  /** Partners to whom these events are owed. */
  readonly by: readonly PartyId[];
}

export interface OverviewTotals {
  readonly partners: number;
  /** Open commands by state. */
  readonly commands: Readonly<Record<string, number>>;
  /** Sessions that the hub watches for their end or their CDR. */
  readonly watches: number;
  readonly open_cases: number;
  /** Actors that the supervisor no longer restarts. */
  readonly quarantined: readonly { readonly actor: string; readonly error: string | null }[];
  readonly store: { readonly state: string; readonly reason: string | null };
  /** Result of the last trim, which runs hourly; null when no event is held back. */
  readonly log_held: LogHeld | null;
}

export interface HandshakeView {
  /** The hub's versions URL, where a partner starts its registration. */
  readonly versions_url: string;
  /** Oldest first, since the hub started. */
  readonly steps: readonly HandshakeStep[];
}

export interface OverviewView {
  /** Pass it as `after` in the next request. */
  readonly revision: string;
  /** True when `rows` has all partners; false when it has only those that changed. */
  readonly full: boolean;
  /** RFC 3339, by the hub's clock. */
  readonly at: string;
  readonly rows: readonly OverviewRow[];
  readonly totals: OverviewTotals;
}

export interface OverviewVerbs {
  /** Rows that changed since the revision `after`; all rows without it, or when the hub has restarted since. */
  overview(after?: string): OverviewView;
  /** Steps of a partner's registration since the hub started. Throws `notFound`. */
  handshake(id: string): HandshakeView;
}
