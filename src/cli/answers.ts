/**
 * Types of the admin API's answers, reduced to the fields that the command line prints. Field names are those on the
 * wire.
 */

export interface Page<T> {
  readonly items: readonly T[];
  readonly next_cursor: string | null;
}

export interface Attempt {
  readonly at: string;
  readonly duration_ms: number;
  readonly http_status: number | null;
  readonly ocpi_status: number | null;
  readonly class: string;
  readonly excerpt: string;
}

export interface Delivery {
  readonly id: string;
  readonly state: 'PENDING' | 'DELIVERED' | 'DEAD';
  readonly receiver: string;
  readonly sender: string;
  readonly module: string;
  readonly object: string;
  readonly method: string;
  readonly seq: number;
  readonly correlation_id: string | null;
  readonly accepted_at: string;
  readonly due_at: string | null;
  readonly class: string | null;
  readonly reason: string | null;
  readonly attempts: readonly Attempt[];
}

export interface DeadGroup {
  readonly receiver: string;
  readonly module: string;
  readonly class: string;
  readonly count: number;
  readonly oldest_at: string;
  readonly newest_at: string;
  readonly sample: string;
}

export interface EventItem {
  readonly seq: number;
  readonly at: string;
  readonly type: string;
  readonly about: string;
  readonly parties: readonly string[];
  readonly party: string | null;
  readonly object: string | null;
  readonly correlation_id: string | null;
  readonly by: string;
  readonly data: unknown;
}

export interface EventPage extends Page<EventItem> {
  /** Highest sequence that the hub scanned for this page; the next page starts behind it. */
  readonly last_seq: number;
}

export interface Trace {
  readonly key: string;
  readonly kind: 'object' | 'correlation';
  readonly steps: readonly TraceStep[];
}

export interface TraceStep extends Omit<EventItem, 'about' | 'parties' | 'by' | 'data'> {
  readonly summary: string;
  readonly not_forwarded: string | null;
  readonly warnings: readonly string[];
  readonly deliveries: readonly Delivery[];
}

export interface Plan {
  readonly matched: number;
  readonly by_receiver: Readonly<Record<string, number>>;
  readonly stale: number;
  readonly sample: readonly Delivery[];
}

export interface Job {
  readonly id: string;
  readonly kind: string;
  readonly state: 'RUNNING' | 'DONE' | 'CANCELED' | 'INTERRUPTED' | 'FAILED';
  readonly matched: number;
  readonly queued: number;
  readonly skipped_stale: number;
  readonly skipped_pending: number;
  readonly skipped_unregistered: number;
  readonly started_at: string;
  readonly ended_at: string | null;
  readonly error: string | null;
}

export interface Pull {
  readonly id: string;
  readonly party: string;
  readonly module: string;
  readonly state: 'RUNNING' | 'DONE' | 'FAILED';
  readonly pages: number;
  readonly received: number;
  readonly stored: number;
  readonly unchanged: number;
  readonly invalid: number;
  readonly deleted: number;
  readonly error?: string;
  readonly note: string | null;
  readonly started_at: string;
  readonly ended_at: string | null;
}

export interface Orphan {
  readonly id: string;
  readonly kind: string;
  readonly state: 'GRACE' | 'OPEN' | 'RESOLVED';
  readonly session: string;
  readonly cpo: string;
  readonly emsp: string;
  readonly opened_at: string | null;
  readonly pulled_at: string | null;
  readonly resolved_at: string | null;
  readonly note: string | null;
}

export interface Endpoint {
  readonly identifier: string;
  readonly role: 'SENDER' | 'RECEIVER';
  readonly url: string;
  readonly source: 'discovered' | 'operator';
}

export interface Party {
  readonly id: string;
  readonly status: 'REGISTERED' | 'CONNECTED' | 'OFFLINE' | 'SUSPENDED';
  readonly roles: readonly {
    readonly role: string;
    readonly country_code: string;
    readonly party_id: string;
    readonly business_details?: { readonly name: string };
  }[];
  readonly url: string | null;
  readonly endpoints: readonly Endpoint[];
  readonly settings: Readonly<Record<string, string | boolean | null>>;
  readonly circuits: readonly {
    readonly circuit: string;
    readonly state: string;
    readonly failures: number;
    readonly until: string | null;
  }[];
  readonly queue: { readonly depth: number; readonly oldest_age_s: number | null; readonly dead: number };
  readonly last_contact: string | null;
  readonly last_updated: string;
}

export interface Route {
  readonly emsp: string;
  readonly cpo: string;
  readonly active: boolean;
}

/** Answer to setting a routing rule: how many kept sessions and CDRs it released. */
export interface Released {
  readonly released: number;
}

export interface Explanation {
  readonly from: string;
  readonly to: string;
  readonly module: string;
  readonly delivers: boolean;
  readonly conditions: readonly { readonly holds: boolean; readonly because: string }[];
}

export interface CommandItem {
  readonly id: string;
  readonly command: string;
  readonly emsp: string;
  readonly cpo: string;
  readonly state: string;
  readonly result: string | null;
  readonly at: string;
}

export interface StoredNotForwarded {
  readonly module: string;
  readonly object: string;
  readonly cpo: string;
  readonly reason: string;
  readonly at: string;
}

export interface Status {
  readonly version: string;
  readonly uptime_s: number;
  readonly ready: boolean;
  readonly store: { readonly state: string; readonly reason: string | null };
  readonly sequence: number;
  readonly actors: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly backlog: { readonly depth: number; readonly oldest_age_s: number | null };
}

export interface Cluster {
  readonly store: 'level' | 'postgres';
  readonly role: string;
  readonly lease_s: number | null;
  readonly head: number;
  readonly database: {
    readonly clock_ahead_ms: number;
    readonly oldest_transaction: { readonly since: string; readonly who: string } | null;
  } | null;
  readonly nodes: readonly ClusterNode[];
}

export interface ClusterNode {
  readonly name: string;
  readonly url: string | null;
  readonly alive: boolean;
  readonly reached: 'itself' | 'another' | 'stranger' | 'nobody' | null;
  readonly owner: boolean;
  readonly answering: boolean;
}
