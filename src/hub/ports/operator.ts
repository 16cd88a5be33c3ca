/**
 * The verbs of operators, and what they are shown. Doors for operators know nothing else of the hub.
 */
import type { CommandName } from '../../domain/events.ts';
import type { ObjectModule } from '../../domain/object.ts';
import type { ConnectionStatus, Endpoint, PartnerSettings, PartyId, PartyRole } from '../../domain/party.ts';
import type { PulledModule } from '../../domain/pull.ts';
import type { Route } from '../../domain/routing.ts';
import type { Trace } from '../../domain/trace.ts';
import type { WatchedActor, Watcher } from './actor-view.ts';
import type { BackupVerbs } from './backup-view.ts';
import type { EventVerbs } from './event-view.ts';
import type { OverviewVerbs } from './overview-view.ts';
import type { HeaderParty } from './ports.ts';

/** For the doors, which may import no other file of the hub. */
export type { EventFilter, EventPage, EventRange, EventView } from './event-view.ts';

export type CircuitName = 'sync' | 'async';

export interface CircuitView {
  readonly circuit: CircuitName;
  readonly state: 'closed' | 'open' | 'halfOpen';
  readonly failures: number;
  /** RFC 3339, when an open circuit lets a call through again. */
  readonly until: string | null;
}

/** A partner as operators see it; never a token. */
export interface PartyView {
  readonly id: PartyId;
  readonly status: ConnectionStatus;
  readonly roles: readonly PartyRole[];
  readonly url: string | null;
  readonly endpoints: readonly Endpoint[];
  readonly settings: PartnerSettings;
  readonly circuits: readonly CircuitView[];
  readonly queue: { readonly depth: number; readonly oldest_age_s: number | null; readonly dead: number };
  readonly last_contact: string | null;
  readonly last_updated: string;
}

export interface DeliveryView {
  /** `{seq}-{receiver}`, see `id.ts`. */
  readonly id: string;
  readonly state: 'PENDING' | 'DELIVERED' | 'DEAD';
  readonly receiver: PartyId;
  readonly sender: PartyId;
  readonly module: ObjectModule;
  /** `{cc}-{pid}/{id}`. */
  readonly object: string;
  readonly method: string;
  readonly seq: number;
  readonly correlation_id: string | null;
  readonly accepted_at: string;
  readonly due_at: string | null;
  /** How it ended, or how its last attempt did; null before any. */
  readonly class: string | null;
  readonly reason: string | null;
  readonly attempts: readonly {
    readonly at: string;
    readonly duration_ms: number;
    readonly http_status: number | null;
    readonly ocpi_status: number | null;
    readonly class: string;
    readonly excerpt: string;
  }[];
}

/** One delivery with what is sent, for those who look at that one. */
export interface DeliveryDetail extends DeliveryView {
  /** The request as it would go out now: the body of then, the address of the present. */
  readonly request: {
    readonly method: string;
    /** Null: the receiver has no endpoint for the module at present. */
    readonly url: string | null;
    readonly from: HeaderParty | null;
    readonly to: HeaderParty | null;
    readonly body: string | null;
  };
  readonly change: DeliveryChange | null;
}

/** What a delivery changes for its receiver: the whole object as it has it, and as it then has it. */
export interface DeliveryChange {
  /** By the last delivery before it that arrived; null when none did, or when the object was deleted by it. */
  readonly before: { readonly seq: number; readonly at: string; readonly body: string | null } | null;
  /** Null: deleted. */
  readonly after: string | null;
}

/** Dead letters that ended alike. */
export interface DeadGroup {
  readonly receiver: PartyId;
  readonly module: string;
  readonly class: string;
  readonly count: number;
  /** Instants of acceptance or last re-drive, RFC 3339. */
  readonly oldest_at: string;
  readonly newest_at: string;
  /** One of them. */
  readonly sample: string;
}

export interface DeliveryFilter {
  readonly state?: 'PENDING' | 'DELIVERED' | 'DEAD';
  readonly receiver?: PartyId;
  readonly module?: string;
  readonly object?: string;
  /** RFC 3339 bounds on `accepted_at`, inclusive and exclusive. */
  readonly from?: string;
  readonly to?: string;
}

export interface RedriveFilter extends Omit<DeliveryFilter, 'state'> {
  /** Which deliveries; `DEAD` when absent. `ANY` = dead and delivered: a replay. [D53] */
  readonly state?: 'DEAD' | 'DELIVERED' | 'ANY';
  /** Inclusive bounds on the sequence. */
  readonly from_seq?: number;
  readonly to_seq?: number;
}

export interface RedriveOptions {
  /** Deliveries put back per second at most. */
  readonly ratePerS: number;
  /** Also where the receiver has a newer version of the object already. */
  readonly force: boolean;
  /** Whom a replayed event is owed to: the receivers of then, or of these those that would get it now. */
  readonly routing: 'then' | 'now';
}

export interface RedrivePlan {
  readonly matched: number;
  readonly by_receiver: Readonly<Record<PartyId, number>>;
  /** How many of them would be skipped, because the receiver has a newer version of the object. */
  readonly stale: number;
  /** The first of them. */
  readonly sample: readonly DeliveryView[];
}

/** Long work of an operator: a re-drive, replay or resync. */
export interface JobView {
  readonly id: string;
  readonly kind: 'redrive' | 'resync';
  /** `INTERRUPTED`: the hub was restarted; what was put back is put back, the rest can be asked for again. */
  readonly state: 'RUNNING' | 'DONE' | 'CANCELED' | 'INTERRUPTED' | 'FAILED';
  readonly matched: number;
  /** Put back into their lanes. */
  readonly queued: number;
  readonly skipped_stale: number;
  readonly skipped_pending: number;
  /** The receiver is suspended or never registered: nothing can be sent to it. */
  readonly skipped_unregistered: number;
  readonly started_at: string;
  readonly ended_at: string | null;
  readonly error: string | null;
}

export interface TraceStep {
  readonly seq: number;
  readonly at: string;
  readonly type: string;
  readonly party: PartyId | null;
  readonly module: ObjectModule | null;
  readonly object: string | null;
  readonly correlation_id: string | null;
  /** What happened, in a sentence. */
  readonly summary: string;
  /** Why it was forwarded to nobody, in a sentence; null when it was, or when there was nothing to forward. */
  readonly not_forwarded: string | null;
  readonly warnings: readonly string[];
  readonly deliveries: readonly DeliveryView[];
}

export interface TraceView {
  readonly key: string;
  readonly kind: 'object' | 'correlation';
  /** Oldest first. */
  readonly steps: readonly TraceStep[];
}

export interface RouteExplanation {
  readonly from: PartyId;
  readonly to: PartyId;
  readonly module: string;
  readonly delivers: boolean;
  /** Each condition in a sentence, and whether it holds; delivery needs all of them. */
  readonly conditions: readonly { readonly holds: boolean; readonly because: string }[];
}

export interface CommandView {
  readonly id: string;
  readonly command: CommandName;
  readonly emsp: PartyId;
  readonly cpo: PartyId;
  /** State of its machine: forwarding, rejected, awaiting, relaying, relayed, silent. */
  readonly state: string;
  readonly result: string | null;
  /** Why the hub rejected it, or could not relay its result. */
  readonly reason: string | null;
  /** Id of the session that it stops, null when it names none. */
  readonly session: string | null;
  readonly at: string;
}

export interface OrphanView {
  readonly id: string;
  readonly kind: string;
  readonly state: 'GRACE' | 'OPEN' | 'RESOLVED';
  /** `{cc}-{pid}/{id}`. */
  readonly session: string;
  readonly cpo: PartyId;
  readonly emsp: PartyId;
  readonly opened_at: string | null;
  /** When the CPO was last asked for the true state. */
  readonly pulled_at: string | null;
  readonly resolved_at: string | null;
  readonly note: string | null;
}

/** A pull of a CPO's own list. [interface, Admin pulls] */
export interface PullView {
  readonly id: string;
  /** Id of the partner. */
  readonly party: PartyId;
  readonly module: PulledModule;
  readonly state: 'RUNNING' | 'DONE' | 'FAILED';
  /** The whole list was asked for. */
  readonly full: boolean;
  readonly forward: boolean;
  /** RFC 3339; null when the whole list was asked for. */
  readonly date_from: string | null;
  readonly pages: number;
  readonly received: number;
  readonly stored: number;
  readonly unchanged: number;
  readonly invalid: number;
  readonly deleted: number;
  /** Why it failed. */
  readonly error?: string;
  readonly note: string | null;
  readonly started_at: string;
  readonly ended_at: string | null;
}

/** An object that a pull refused. */
export interface QuarantineView {
  readonly party: PartyId;
  readonly module: PulledModule;
  /** `{cc}-{pid}/{id}`; null when it does not say. */
  readonly object: string | null;
  readonly reason: string;
  /** Id of the pull. */
  readonly pull: string;
  readonly at: string;
  /** As it came; the first 65,536 characters. */
  readonly text: string;
}

/** One page of an operators' list, newest or oldest first as the list says. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly next_cursor: string | null;
}

export interface PageRequest {
  readonly limit: number;
  readonly cursor: string | null;
}

export interface HubStatus {
  readonly version: string;
  readonly uptime_s: number;
  readonly ready: boolean;
  readonly store: { readonly state: string; readonly reason: string | null };
  readonly sequence: number;
  /** kind → state → count. */
  readonly actors: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly backlog: { readonly depth: number; readonly oldest_age_s: number | null };
}

/** What only measuring asks for, as it stands now. */
export interface Vitals {
  /** Of this process alone. */
  readonly actors: HubStatus['actors'];
  /** By partner: what should have gone out a minute ago or more, though neither its circuit nor an operator holds it back. */
  readonly overdue: Readonly<Record<PartyId, number>>;
  /** Sends to actors that were not there, since the start; waits that are armed. */
  readonly lost_sends: number;
  readonly deadlines: number;
  /** By partner that holds the log back: age of the oldest event that stays. */
  readonly log_held_age_s: Readonly<Record<PartyId, number>>;
}

/** Verbs of operators. Parties are named by the id of their partner. */
export interface Operations extends OverviewVerbs, EventVerbs, BackupVerbs {
  addParty(
    roles: readonly PartyRole[],
    settings: Partial<PartnerSettings>,
    trace: Trace,
  ): Promise<{ party: PartyView; initialToken: string }>;
  parties(): PartyView[];
  /** Throws `notFound`. */
  party(id: string): PartyView;
  changeParty(
    id: string,
    settings: Partial<PartnerSettings>,
    businessDetails: { name: string } | undefined,
    trace: Trace,
  ): Promise<PartyView>;
  issueInitialToken(id: string, trace: Trace): Promise<string>;
  setEndpoints(id: string, endpoints: readonly Omit<Endpoint, 'source'>[], trace: Trace): Promise<PartyView>;
  suspend(id: string, trace: Trace): Promise<PartyView>;
  /** Opens a circuit by hand, or closes it and forgets its failures. */
  setCircuit(id: string, circuit: CircuitName, state: 'open' | 'closed'): PartyView;
  /** Asks the partner for its versions now. */
  probe(id: string): Promise<{ status: 'reachable' | 'unreachable'; latency_ms: number; error?: string }>;

  routes(): Route[];
  setRoute(emsp: PartyId, cpo: PartyId, active: boolean, trace: Trace): Promise<Route & { released: number }>;
  /** Resolves also when there is no such rule. [D77] */
  removeRoute(emsp: PartyId, cpo: PartyId, trace: Trace): Promise<void>;

  /** Newest first. */
  deliveries(filter: DeliveryFilter, page: PageRequest): Promise<Page<DeliveryView>>;
  delivery(id: string): Promise<DeliveryDetail>;
  /** Dead letters by receiver, module and class, most first. */
  deadGroups(): Promise<DeadGroup[]>;
  /** Puts one delivery back, whatever its state; `conflict` when it is on its way already or stale and not forced. */
  redriveOne(id: string, force: boolean, trace: Trace): Promise<DeliveryView>;
  planRedrive(filter: RedriveFilter, options: Pick<RedriveOptions, 'routing'>): Promise<RedrivePlan>;
  redrive(filter: RedriveFilter, options: RedriveOptions, trace: Trace): Promise<JobView>;
  /** Sends a receiver the current objects of a module that it is entitled to. */
  resync(id: string, module: ObjectModule, trace: Trace): Promise<JobView>;
  job(id: string): Promise<JobView>;
  cancelJob(id: string): Promise<JobView>;
  /** The whole story of an object (`{cc}-{pid}/{id}`) or of a correlation id. */
  trace(key: string): Promise<TraceView>;
  explain(from: PartyId, to: PartyId, module: string): RouteExplanation;
  /** Newest first. */
  commands(page: PageRequest): Promise<Page<CommandView>>;
  command(id: string): Promise<CommandView>;
  /** Cases, open and resolved; watches in their grace are no cases yet, and come when that state is asked for. [D77] */
  orphans(state: string | null): Promise<OrphanView[]>;
  /** Asks the CPO of an open case again; what comes of it stands in its note. Refuses with `conflict` when it is not open. */
  pullOrphan(id: string, trace: Trace): Promise<OrphanView>;
  /** Closes an open case by hand. */
  resolveOrphan(id: string, note: string | null, trace: Trace): Promise<OrphanView>;
  /** Resolves with the id of a pull that runs from now on; `conflict` when one runs or the partner has no such list. */
  startPull(
    id: string,
    module: PulledModule,
    asked: { full: boolean; forward: boolean },
    trace: Trace,
  ): Promise<{ id: string }>;
  /** Newest first. */
  pulls(page: PageRequest): Promise<Page<PullView>>;
  pull(id: string): Promise<PullView>;
  /** Newest first: of each object the last refusal, until a pull finds it good. */
  quarantine(page: PageRequest): Promise<Page<QuarantineView>>;
  storedNotForwarded(
    page: PageRequest,
  ): Promise<Page<{ module: string; object: string; cpo: PartyId; reason: string; at: string }>>;
  status(): HubStatus;
  vitals(): Vitals;

  /** Every live actor as it stands. */
  actors(): Iterable<WatchedActor>;
  actor(id: string): WatchedActor | undefined;
  /** Tells of every change until the function that it returns is called. Costs nothing while nobody watches. */
  watch(watcher: Watcher): () => void;
}
