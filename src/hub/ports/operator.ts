/**
 * The interface through which the doors for operators call the hub: their verbs and the views that these return. Those
 * doors may import nothing else of the hub.
 */
import type { CommandName } from '../../domain/events.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import type { ConnectionStatus, Endpoint, PartnerSettings, PartyId, PartyRole } from '../../domain/party.ts';
import type { PulledModule } from '../../domain/pull.ts';
import type { Route } from '../../domain/routing.ts';
import type { Trace } from '../../domain/trace.ts';
import type { WatchedActor, Watcher } from './actor-view.ts';
import type { BackupVerbs } from './backup-view.ts';
import type { EventVerbs } from './event-view.ts';
import type { OverviewVerbs } from './overview-view.ts';
import type { HeaderParty } from './ports.ts';

/** Re-exported because doors may import no other file of the hub. */
export type { EventFilter, EventPage, EventRange, EventView } from './event-view.ts';

export type CircuitName = 'sync' | 'async';

export interface CircuitView {
  readonly circuit: CircuitName;
  readonly state: 'closed' | 'open' | 'halfOpen';
  readonly failures: number;
  /** RFC 3339: when an open circuit becomes half-open and lets a call through; null in the other states. */
  readonly until: string | null;
}

/** A partner as operators see it; it contains no token. */
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
  /** Outcome class of the delivery, or of its last attempt so far; null before the first attempt. */
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

/** A delivery with its request and change, for the view of a single one. */
export interface DeliveryDetail extends DeliveryView {
  /** The request as it would be sent now: the body as accepted, the receiver's present address. */
  readonly request: {
    readonly method: string;
    /** Null when the receiver has no endpoint for the module at present. */
    readonly url: string | null;
    readonly from: HeaderParty | null;
    readonly to: HeaderParty | null;
    readonly body: string | null;
  };
  readonly change: DeliveryChange | null;
}

/** The effect of a delivery on its receiver: the receiver's whole object before and after the delivery. */
export interface DeliveryChange {
  /**
   * State after the last earlier delivery that arrived; null when none arrived, or when that one deleted the object.
   */
  readonly before: { readonly seq: number; readonly at: string; readonly body: string | null } | null;
  /** Null when the delivery deletes the object. */
  readonly after: string | null;
}

/** Dead letters with the same receiver, module and outcome class. */
export interface DeadGroup {
  readonly receiver: PartyId;
  readonly module: string;
  readonly class: string;
  readonly count: number;
  /** Oldest and newest time of acceptance or last re-drive, RFC 3339. */
  readonly oldest_at: string;
  readonly newest_at: string;
  /** Id of one delivery of the group. */
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
  /** State of the deliveries to send again; `DEAD` when absent. `ANY` = dead and delivered, which is a replay. [D53] */
  readonly state?: 'DEAD' | 'DELIVERED' | 'ANY';
  /** Inclusive bounds on the sequence. */
  readonly from_seq?: number;
  readonly to_seq?: number;
}

export interface RedriveOptions {
  /** Throttle of the re-drive, deliveries per second. */
  readonly ratePerS: number;
  /** Re-drive a delivery even when its receiver already has a newer version of the object. */
  readonly force: boolean;
  /**
   * Receivers of a replayed event: `then` = the original ones; `now` = those of them to whom the present rules would
   * send it.
   */
  readonly routing: 'then' | 'now';
}

export interface RedrivePlan {
  readonly matched: number;
  readonly by_receiver: Readonly<Record<PartyId, number>>;
  /** Matched deliveries that would be skipped, because the receiver has a newer version of the object. */
  readonly stale: number;
  /** The first matched deliveries. */
  readonly sample: readonly DeliveryView[];
}

/** A long-running operation that an operator started: a re-drive, replay or resync. */
export interface JobView {
  readonly id: string;
  readonly kind: 'redrive' | 'resync';
  /** `INTERRUPTED`: the hub was restarted. Deliveries that were queued stay queued; start a new job for the rest. */
  readonly state: 'RUNNING' | 'DONE' | 'CANCELED' | 'INTERRUPTED' | 'FAILED';
  readonly matched: number;
  /** Deliveries that were put back into their lanes. */
  readonly queued: number;
  readonly skipped_stale: number;
  readonly skipped_pending: number;
  /** Deliveries skipped because their receiver is suspended or never registered. */
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
  /** The step as one sentence. */
  readonly summary: string;
  /**
   * Why the change was forwarded to nobody, as one sentence; null when it was forwarded or there was nothing to
   * forward.
   */
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
  /** Every condition as a sentence, and whether it holds; a delivery needs all of them. */
  readonly conditions: readonly { readonly holds: boolean; readonly because: string }[];
}

export interface CommandView {
  readonly id: string;
  readonly command: CommandName;
  readonly emsp: PartyId;
  readonly cpo: PartyId;
  /** State of the command's machine: forwarding, rejected, awaiting, relaying, relayed, silent. */
  readonly state: string;
  readonly result: string | null;
  /** Why the hub rejected the command, or could not relay its result. */
  readonly reason: string | null;
  /** Id of the session that the command stops; null when it names none. */
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
  /** When the hub last queried the CPO for the true state. */
  readonly pulled_at: string | null;
  readonly resolved_at: string | null;
  readonly note: string | null;
}

/** A pull: the hub reads a CPO's own list of locations or tariffs. [interface, Admin pulls] */
export interface PullView {
  readonly id: string;
  /** Id of the partner. */
  readonly party: PartyId;
  readonly module: PulledModule;
  readonly state: 'RUNNING' | 'DONE' | 'FAILED';
  /** The pull reads the whole list. */
  readonly full: boolean;
  readonly forward: boolean;
  /** Lower bound on `last_updated`, RFC 3339; null when the pull reads the whole list. */
  readonly date_from: string | null;
  readonly pages: number;
  readonly received: number;
  readonly stored: number;
  readonly unchanged: number;
  readonly invalid: number;
  readonly deleted: number;
  /** Why the pull failed. */
  readonly error?: string;
  readonly note: string | null;
  readonly started_at: string;
  readonly ended_at: string | null;
}

/** An object that a pull refused because it is invalid. */
export interface QuarantineView {
  readonly party: PartyId;
  readonly module: PulledModule;
  /** `{cc}-{pid}/{id}`; null when the text does not contain it. */
  readonly object: string | null;
  readonly reason: string;
  /** Id of the pull. */
  readonly pull: string;
  readonly at: string;
  /** The object's text as received, its first 65,536 characters. */
  readonly text: string;
}

/** One page of a list for operators; the verb that returns it defines the order. */
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

/** Present values of gauges that only the metrics endpoint reads. */
export interface Vitals {
  /** Actors of this process alone. */
  readonly actors: HubStatus['actors'];
  /**
   * By partner: lanes whose next delivery is a minute or more overdue, though neither circuit nor operator holds it.
   */
  readonly overdue: Readonly<Record<PartyId, number>>;
  /** Events sent to actors that did not exist, since the start. */
  readonly lost_sends: number;
  /** Armed timers. */
  readonly deadlines: number;
  /**
   * For each partner that keeps the log from being trimmed: age of the oldest event that had to stay, seconds. It is
   * the same for all of them.
   */
  readonly log_held_age_s: Readonly<Record<PartyId, number>>;
}

/** The verbs of operators. An `id` of a party is the id of its partner. */
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
  /** Queries the partner's versions now. */
  probe(id: string): Promise<{ status: 'reachable' | 'unreachable'; latency_ms: number; error?: string }>;

  routes(): Route[];
  setRoute(emsp: PartyId, cpo: PartyId, active: boolean, trace: Trace): Promise<Route & { released: number }>;
  /** Idempotent: resolves even when the rule does not exist. [D77] */
  removeRoute(emsp: PartyId, cpo: PartyId, trace: Trace): Promise<void>;

  /** Newest first. */
  deliveries(filter: DeliveryFilter, page: PageRequest): Promise<Page<DeliveryView>>;
  delivery(id: string): Promise<DeliveryDetail>;
  /** Dead letters by receiver, module and class, most first. */
  deadGroups(): Promise<DeadGroup[]>;
  /**
   * Re-drives one delivery, dead or delivered; throws `conflict` when it is pending, or when it is stale and not
   * forced.
   */
  redriveOne(id: string, force: boolean, trace: Trace): Promise<DeliveryView>;
  planRedrive(filter: RedriveFilter, options: Pick<RedriveOptions, 'routing'>): Promise<RedrivePlan>;
  redrive(filter: RedriveFilter, options: RedriveOptions, trace: Trace): Promise<JobView>;
  /** Sends a receiver the current objects of a module that it is entitled to. */
  resync(id: string, module: ObjectModule, trace: Trace): Promise<JobView>;
  job(id: string): Promise<JobView>;
  cancelJob(id: string): Promise<JobView>;
  /** All steps of an object (`{cc}-{pid}/{id}`) or of a correlation id. */
  trace(key: string): Promise<TraceView>;
  explain(from: PartyId, to: PartyId, module: string): RouteExplanation;
  /** Newest first. */
  commands(page: PageRequest): Promise<Page<CommandView>>;
  command(id: string): Promise<CommandView>;
  /** Open and resolved cases. A watch in its grace is not a case yet; `state` GRACE lists those. [D77] */
  orphans(state: string | null): Promise<OrphanView[]>;
  /**
   * Queries the CPO of an open case again; the note of the case gets the result. Throws `conflict` when the case is not
   * open.
   */
  pullOrphan(id: string, trace: Trace): Promise<OrphanView>;
  /** Closes an open case by hand. */
  resolveOrphan(id: string, note: string | null, trace: Trace): Promise<OrphanView>;
  /**
   * Starts a pull and resolves with its id; throws `conflict` when one runs already or the partner has no such list.
   */
  startPull(
    id: string,
    module: PulledModule,
    asked: { full: boolean; forward: boolean },
    trace: Trace,
  ): Promise<{ id: string }>;
  /** Newest first. */
  pulls(page: PageRequest): Promise<Page<PullView>>;
  pull(id: string): Promise<PullView>;
  /** Newest first: the last refusal of each object, until a pull finds the object valid. */
  quarantine(page: PageRequest): Promise<Page<QuarantineView>>;
  storedNotForwarded(
    page: PageRequest,
  ): Promise<Page<{ module: string; object: string; cpo: PartyId; reason: string; at: string }>>;
  status(): HubStatus;
  vitals(): Vitals;

  /** All live actors in their present state. */
  actors(): Iterable<WatchedActor>;
  actor(id: string): WatchedActor | undefined;
  /**
   * Reports every change of an actor to the watcher until the returned function is called. Without watchers it costs
   * nothing.
   */
  watch(watcher: Watcher): () => void;
}
