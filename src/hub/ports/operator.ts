/**
 * The interface through which the doors for operators call the hub: their verbs and the views that these return. Those
 * doors may also import `hub.ts` and `actor-view.ts`, and no more of the hub.
 */
import type { AuditCheck, AuditEntry, AuditFilter } from '../../api/audit.ts';
import type { CheckView } from '../../api/checks.ts';
import type { CommandFilter, CommandView } from '../../api/commands.ts';
import type { Page, TriageView } from '../../api/common.ts';
import type {
  DeadGroup,
  DeliveryChange,
  DeliveryFilter,
  DeliveryView,
  Unforwarded,
  UnforwardedFilter,
} from '../../api/deliveries.ts';
import type { EventFilter, EventPage } from '../../api/events.ts';
import type { HistoryRange, HistoryView, MonthlyReport, PartnerHistory } from '../../api/history.ts';
import type { BackupView, HubStatus } from '../../api/hub.ts';
import type { DiscardFilter, DiscardPlan, JobView, RedriveFilter, RedrivePlan } from '../../api/jobs.ts';
import type { OrphanView } from '../../api/orphans.ts';
import type { OverviewTotals, OverviewView } from '../../api/overview.ts';
import type { HandshakeView, PartyView, PortalLink, PortalSession, ProbeView } from '../../api/parties.ts';
import type { ErasureView, SubjectView } from '../../api/persons.ts';
import type { PullFilter, PullView, QuarantineView } from '../../api/pulls.ts';
import type { Reconciliation } from '../../api/reconciliation.ts';
import type { ReportView } from '../../api/report.ts';
import type { RouteExplanation } from '../../api/routes.ts';
import type { TraceView } from '../../api/trace.ts';
import type { WebhookDetail, WebhookRedrive, WebhookSet, WebhookTest, WebhookView } from '../../api/webhooks.ts';
import type { ErrorCode } from '../../domain/errors.ts';
import type { SavedView, Trace } from '../../domain/events.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import type { Webhook } from '../../domain/notification.ts';
import type { PartnerChoices } from '../../domain/partner-settings.ts';
import type { Endpoint, PartyId, PartyRole } from '../../domain/party.ts';
import type { Person } from '../../domain/person.ts';
import type { PulledModule } from '../../domain/pull.ts';
import type { Route } from '../../domain/routing.ts';
import type { DeadGroupName, TriageChange } from '../../domain/triage.ts';
import type { WatchedActor, Watcher } from './actor-view.ts';
import type { HeaderParty } from './ports.ts';

export type { ContactsView } from '../../api/parties.ts';

export type CircuitView = PartyView['circuits'][number];
export type CircuitName = CircuitView['circuit'];

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

export type Order = 'oldest' | 'newest';

export interface RedriveOptions {
  /** Throttle of the re-drive, deliveries per second. */
  readonly ratePerS: number;
  /** Re-drive a delivery even when its receiver has a newer version of the object, or may no longer have it. */
  readonly force: boolean;
  /**
   * Receivers of a replayed event: `then` = the original ones; `now` = those of them to whom the present rules would
   * send it. Undefined: the original ones, of which those that are not routed now are stale.
   */
  readonly routing: 'then' | 'now' | undefined;
}

export interface ReconciliationFilter {
  /** Bounds on `last_updated`, RFC 3339: inclusive, exclusive; `to` absent: until now. */
  readonly from: string;
  readonly to?: string;
  readonly emsp?: PartyId;
  readonly cpo?: PartyId;
  /** Hours that a CPO has to bill a completed session. */
  readonly graceH: number;
  readonly toleranceKwh: number;
}

export interface PageRequest {
  readonly limit: number;
  readonly cursor: string | null;
}

/** Present values of gauges that only the metrics endpoint reads. */
export interface Vitals {
  /** Actors of this process alone. */
  readonly actors: HubStatus['actors'];
  /**
   * By partner: deliveries first in their lane that have been due for a minute or more, though neither circuit nor
   * operator holds them back; 1 for a backlog in the log that is not read.
   */
  readonly overdue: Readonly<Record<PartyId, number>>;
  /** Events sent to actors that did not exist, since the start. */
  readonly lost_sends: number;
  /** Armed timers. */
  readonly deadlines: number;
  /** What each party has had stored today, as a share of its quota. */
  readonly quota: Readonly<Record<PartyId, number>>;
  /** Objects of each party, as a share of those that it may have; without a quota, or before they are counted, none. */
  readonly objects: Readonly<Record<PartyId, number>>;
  /** Calls in flight to each partner, as a share of its concurrent deliveries; more when others come on top. */
  readonly calls: Readonly<Record<PartyId, number>>;
  /**
   * For each partner that keeps the log from being trimmed: age of the oldest event that had to stay, seconds. It is
   * the same for all of them.
   */
  readonly log_held_age_s: Readonly<Record<PartyId, number>>;
  /** By how long the oldest event of the log is older than events are kept, though no partner holds it, seconds. */
  readonly retention_lag_s: number;
}

export interface EventRange {
  readonly order: Order;
  /** The range begins after this sequence. */
  readonly after: number;
  /**
   * `next_cursor` of the previous page. Oldest first: the page begins after it, and `after` is ignored. Newest first:
   * the page begins before it.
   */
  readonly cursor: number | null;
  readonly limit: number;
}

export interface EventVerbs {
  events(filter: EventFilter, range: EventRange): Promise<EventPage>;
}

/** Events past the retention period that cannot be trimmed, because they are still owed to a partner. */
export type LogHeld = NonNullable<OverviewTotals['log_held']>;

export interface BackupVerbs {
  /**
   * Resolves once the backup runs. Throws `invalid` where no backup can be made, and `conflict` while another one runs.
   */
  startBackup(directory: string, trace: Trace): Promise<BackupView>;
  backup(id: string): Promise<BackupView>;
  /** When the last backup ended that was made whole, RFC 3339. */
  lastBackup(): Promise<string | null>;
}

export interface PersonVerbs {
  /** Everything that is stored of a person. Throws `invalid` for a name of fewer than 4 characters. */
  subject(person: Person): Promise<SubjectView>;
  /**
   * Replaces the person's names with digests and removes the person's tokens. Throws `conflict` while deliveries are
   * owed (unless forced) or commands run; `unavailable` when the store cannot write: then it may be half done, and is
   * done again.
   */
  erase(person: Person, options: { force: boolean; dryRun: boolean }, trace: Trace): Promise<ErasureView>;
}

/** An act of an operator, or a reading of bodies, with its outcome. */
export type NotedAct = Omit<AuditEntry, 'n' | 'at' | 'previous' | 'digest'>;

export interface AuditVerbs {
  /** Resolves when the entry is durable, or an earlier one of the same `reading`; throws `unavailable` otherwise. */
  noteAct(act: NotedAct, reading?: string): Promise<AuditEntry>;
  /** Reads the whole chain. */
  checkAudit(): Promise<AuditCheck>;
}

export interface WebhookChoices extends Pick<Webhook, 'url' | 'kinds' | 'party' | 'active'> {
  /** Absent: it stays, or the hub makes one. */
  readonly secret?: string;
}

/** The mail is one of the webhooks, with the id `mail`; it can be neither set nor removed. All but `setWebhook` and `webhooks` throw `notFound`. */
export interface WebhookVerbs {
  webhooks(): Promise<WebhookView[]>;
  webhook(id: string): Promise<WebhookDetail>;
  /** Throws `invalid` for a URL that the hub may not call, or a party that no partner has. */
  setWebhook(id: string, choices: WebhookChoices, trace: Trace): Promise<WebhookSet>;
  /** Idempotent: resolves even when there is none. */
  removeWebhook(id: string, trace: Trace): Promise<void>;
  /** Sends a test notification now, beside the queue; resolves with what the receiver answered. */
  testWebhook(id: string): Promise<WebhookTest>;
  /** Owes the dead letters again, and sends all that waits now. */
  redriveWebhook(id: string): Promise<WebhookRedrive>;
}

/** A new partner with the token that it begins with: the hub token when it is pull only. [D89] */
export type AddedParty = { party: PartyView } & ({ initialToken: string } | { hubToken: string });

/** The verbs of operators. An `id` of a party is the id of its partner. */
export interface Operations
  extends EventVerbs,
    BackupVerbs,
    PersonVerbs,
    AuditVerbs,
    PortalVerbs,
    WebhookVerbs,
    SavedViewVerbs {
  addParty(roles: readonly PartyRole[], settings: Partial<PartnerChoices>, trace: Trace): Promise<AddedParty>;
  parties(): PartyView[];
  /** Throws `notFound`. */
  party(id: string): PartyView;
  /** The token is there when the change made the partner pull only. Throws `conflict` for a registered one. [D89] */
  changeParty(
    id: string,
    settings: Partial<PartnerChoices>,
    businessDetails: { name: string } | undefined,
    trace: Trace,
  ): Promise<{ party: PartyView; hubToken?: string }>;
  /**
   * The hub begins the exchange, with a token that the partner gave. Throws `invalid` for a URL that it may not call,
   * `partnerUnusable`, `versionUnsupported` or `endpointsMissing` for what the partner answers. [D81]
   */
  connect(id: string, invitation: { versionsUrl: string; token: string }, trace: Trace): Promise<PartyView>;
  issueInitialToken(id: string, trace: Trace): Promise<string>;
  /** Confirms a change of host, which `host` may name (`name:port`). Throws `conflict` when there is none. [D87] */
  confirmHost(id: string, host: string | undefined, trace: Trace): Promise<PartyView>;
  setEndpoints(id: string, endpoints: readonly Omit<Endpoint, 'source'>[], trace: Trace): Promise<PartyView>;
  /** The partner has these roles, and no others, from now on. Throws `conflict` for a party of another partner, and while something depends on a role that would go. */
  setRoles(id: string, roles: readonly PartyRole[], trace: Trace): Promise<PartyView>;
  suspend(id: string, trace: Trace): Promise<PartyView>;
  /** Opens a circuit by hand, or closes it and forgets its failures. */
  setCircuit(id: string, circuit: CircuitName, state: 'open' | 'closed', trace: Trace): PartyView;
  /** Queries the partner's versions now. */
  probe(id: string): Promise<ProbeView>;

  routes(): Route[];
  setRoute(emsp: PartyId, cpo: PartyId, active: boolean, trace: Trace): Promise<Route & { released: number }>;
  /** Idempotent: resolves even when the rule does not exist. [D77] */
  removeRoute(emsp: PartyId, cpo: PartyId, trace: Trace): Promise<void>;

  deliveries(filter: DeliveryFilter, page: PageRequest & { readonly order: Order }): Promise<Page<DeliveryView>>;
  delivery(id: string): Promise<DeliveryDetail>;
  /**
   * Re-drives one delivery, dead or delivered; throws `conflict` when it is pending, or when it is stale and not
   * forced.
   */
  redriveOne(id: string, force: boolean, trace: Trace): Promise<DeliveryView>;
  planRedrive(filter: RedriveFilter, options: Pick<RedriveOptions, 'routing' | 'force'>): Promise<RedrivePlan>;
  redrive(filter: RedriveFilter, options: RedriveOptions, trace: Trace): Promise<JobView>;
  /** Gives up a dead letter; throws `conflict` when the delivery is not one. */
  discardOne(id: string, trace: Trace): Promise<DeliveryView>;
  planDiscard(filter: DiscardFilter): Promise<DiscardPlan>;
  /** Gives up the dead letters that match, as a job. */
  discard(filter: DiscardFilter, trace: Trace): Promise<JobView>;
  /** Sends a receiver the current objects of a module that it is entitled to. */
  resync(id: string, module: ObjectModule, trace: Trace): Promise<JobView>;
  job(id: string): Promise<JobView>;
  cancelJob(id: string, trace: Trace): Promise<JobView>;
  /** What a partner does wrong, and what the hub makes up for. Throws `notFound`. */
  report(id: string): Promise<ReportView>;
  /**
   * The story of an object (`{cc}-{pid}/{id}`, or its id alone), a command, an orphan case or a correlation id. Throws
   * `notFound`. `cursor` goes on where the search of the answer before ended.
   */
  trace(key: string, cursor: number | null): Promise<TraceView>;
  explain(from: PartyId, to: PartyId, module: ObjectModule): RouteExplanation;
  /** Newest first. A filtered page may have fewer items than its limit, and a next one all the same. */
  commands(filter: CommandFilter, page: PageRequest): Promise<Page<CommandView>>;
  command(id: string): Promise<CommandView>;
  /**
   * Starts a pull and resolves with its id; throws `conflict` when one runs already or the partner has no such list.
   */
  startPull(
    id: string,
    module: PulledModule,
    asked: { full: boolean; forward: boolean },
    trace: Trace,
  ): Promise<{ id: string }>;
  /** Like `commands`. */
  pulls(filter: PullFilter, page: PageRequest): Promise<Page<PullView>>;
  pull(id: string): Promise<PullView>;
  /** Ends a running pull; resolves with how it ended. Throws `notFound`. */
  cancelPull(id: string, trace: Trace): Promise<PullView>;
  /** Newest first: the last refusal of each object, until a pull finds the object valid. */
  quarantine(page: PageRequest): Promise<Page<QuarantineView>>;
  /** Sessions, then CDRs, each newest first; filtered like `commands`. */
  storedNotForwarded(filter: UnforwardedFilter, page: PageRequest): Promise<Page<Unforwarded>>;
  /** Throws `invalid` when the period has too many sessions or CDRs. */
  reconciliation(filter: ReconciliationFilter): Promise<Reconciliation>;
  /** Of the whole hub. */
  history(range: HistoryRange): Promise<HistoryView>;
  /** Throws `notFound`. */
  partnerHistory(id: string, range: HistoryRange): Promise<PartnerHistory>;
  /** Of a month, for example `2026-10`, UTC. Throws `notFound`. */
  monthlyReport(id: string, month: string): Promise<MonthlyReport>;
  /** Newest first; filtered like `commands`. */
  audit(filter: AuditFilter, page: PageRequest): Promise<Page<AuditEntry>>;
  /** Starts a check of a partner's endpoints; throws `conflict` when one runs already or nothing can be called. */
  startCheck(id: string, write: boolean, trace: Trace): string;
  /** Throws `notFound`. */
  checkOf(id: string): CheckView;
  /** Those that are kept, of one partner or of all, newest first. */
  checks(party: string | null): CheckView[];

  /** Dead letters by receiver, module and class, most first; `assignee` null: of every assignee. */
  deadGroups(assignee: string | null): Promise<DeadGroup[]>;
  /** Throws `notFound` for a group without a dead letter. */
  triageDeadGroup(group: DeadGroupName, change: TriageChange, trace: Trace): Promise<TriageView>;
  /**
   * Open and resolved cases; `assignee` null: of every assignee. A watch in its grace is not a case yet; `state` GRACE
   * lists those. [D77]
   */
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

  /** Rows that changed since the revision `after`; all rows without it, or when the hub has restarted since. */
  overview(after?: string): OverviewView;
  /** Steps of a partner's registration since the hub started. Throws `notFound`. */
  handshake(id: string): HandshakeView;
  status(): HubStatus;
  vitals(): Vitals;

  /** All live actors in their present state. */
  actors(): Iterable<WatchedActor>;
  actor(id: string): WatchedActor | undefined;
  /** Reports every change of an actor until the returned function is called. Without watchers it costs nothing. */
  watch(watcher: Watcher): () => void;
}

/** Saved views: addresses of the console under a name. */
export interface SavedViewVerbs {
  savedViews(): Promise<SavedView[]>;
  /** Replaces a view of the same name. Throws `conflict` when there are too many. */
  saveView(name: string, path: string, trace: Trace): Promise<SavedView>;
  /** Idempotent: resolves even when there is none. */
  removeView(id: string, trace: Trace): Promise<void>;
}

// How partners get into their portal.

export interface PortalVerbs {
  /** A link into the portal of a partner. Throws `notFound`, and `conflict` for one that is suspended. */
  portalLink(id: PartyId, hours: number): PortalLink;
  /** The session that a link opens; null when the link opens nothing any more. `link` is the fragment of its URL. */
  openPortal(link: string): PortalSession | null;
  /** Whose session a token is; null when it has ended. */
  portalPartner(token: string): PartyId | null;
  /** Throws `quotaExceeded` when the partner has used up its quota of the day. [QUOTA-6] */
  portalAct(partner: PartyId): void;
  /** Counts an initial token that the partner issues to itself; throws `quotaExceeded`. [PORTAL-ACCESS-3] */
  portalToken(partner: PartyId): void;
  /** Counts the characters that are written of an act; false, and nothing is counted, when the quota is used up. */
  portalNoted(partner: PartyId, characters: number): boolean;
  /** Counts an act that was refused. */
  portalRefused(partner: PartyId, code: ErrorCode): void;
}
