/**
 * The verbs that doors call, and nothing else that they may know of the hub. A refusal is a thrown `HubError`; every promise
 * that resolves after a write resolves when the write is durable.
 */
import type { CommandName } from '../domain/events.ts';
import type { HubObject, ObjectChange, ObjectModule } from '../domain/object.ts';
import type {
  ConnectionStatus,
  Endpoint,
  Partner,
  PartnerSettings,
  PartyId,
  PartyRole,
  Role,
} from '../domain/party.ts';
import type { PulledModule } from '../domain/pull.ts';
import type { Route } from '../domain/routing.ts';
import type { HeaderParty } from './ports.ts';

/** Ids that follow one request through log lines, events and forwards. [D14] */
export interface Trace {
  readonly requestId: string;
  readonly correlationId: string;
}

/** Whose token it is. `spent`: it was valid once; only the 405 rules of credentials still know it. [D9, D10] */
export interface Credential {
  readonly partner: Partner;
  readonly kind: 'hub' | 'initial' | 'spent';
  /** Decoded, as sent. */
  readonly token: string;
}

/** The authenticated party of one request. */
export interface Caller {
  readonly partner: Partner;
  readonly party: PartyRole;
  /** `partyKey` of the party. */
  readonly id: PartyId;
  readonly trace: Trace;
}

export interface CredentialsBody {
  readonly token: string;
  readonly url: string;
  readonly roles: readonly (HeaderParty & {
    readonly role: string;
    readonly business_details?: { name: string; website?: string | undefined } | undefined;
  })[];
}

export interface HubRole extends HeaderParty {
  readonly role: 'HUB';
  readonly business_details: { readonly name: string };
}

/** What the hub gives a partner. */
export interface IssuedCredentials {
  readonly token: string;
  readonly url: string;
  readonly roles: readonly HubRole[];
}

export interface Accepted {
  /** `duplicate`: the same CDR again; nothing was stored. */
  readonly result: 'created' | 'updated' | 'deleted' | 'duplicate';
  /** As stored now; of a deleted one, as it was. */
  readonly object: HubObject;
}

/** A stored object's place in a list: where the next page begins. */
export interface Position {
  readonly upd: string;
  readonly owner: string;
  readonly id: string;
}

export interface ListRequest {
  /** Sortable dates (`sortableDate`): inclusive lower, exclusive upper bound. */
  readonly from?: string;
  readonly to?: string;
  readonly offset: number;
  readonly limit: number;
  readonly after?: Position;
}

export interface Listed<T> {
  readonly items: readonly T[];
  readonly total: number;
  /** Index of the first item in the whole matching list. */
  readonly offset: number;
  /** Position of the last item; null on an empty page. */
  readonly last: Position | null;
}

export interface ClientInfo extends HeaderParty {
  readonly role: Role | 'HUB';
  readonly status: 'CONNECTED' | 'OFFLINE' | 'PLANNED' | 'SUSPENDED';
  readonly last_updated: string;
}

export interface AuthorizeRequest {
  readonly uid: string;
  readonly type: string;
  /** `OCPI-to-*`; null when absent. */
  readonly to: HeaderParty | null;
  /** LocationReferences (toward an eMSP) or the eMSP's body (toward a CPO), as received; null for none. */
  readonly body: string | null;
}

export interface CommandRequest {
  readonly command: CommandName;
  readonly to: HeaderParty | null;
  readonly responseUrl: string;
  readonly locationId: string | null;
  readonly sessionId: string | null;
  readonly reservationId: string | null;
  readonly tokenUid: string | null;
  readonly authorizationReference: string | null;
  /** The body to forward, given the hub's callback URL: all but `response_url` byte for byte. */
  readonly bodyFor: (callbackUrl: string) => string;
}

/** `CommandResponse` as the CPO gave it, `timeout` in seconds filled in. */
export interface CommandAnswer {
  readonly result: string;
  readonly timeout: number;
  readonly message?: unknown;
}

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
  /** `{seq}-{receiver}`. */
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
  readonly started_at: string;
  readonly ended_at: string | null;
  readonly error: string | null;
}

export interface TraceStep {
  readonly seq: number;
  readonly at: string;
  readonly type: string;
  readonly party: PartyId | null;
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

export interface EventView {
  readonly seq: number;
  readonly at: string;
  readonly type: string;
  readonly party: PartyId | null;
  readonly object: string | null;
  readonly correlation_id: string | null;
  readonly data: unknown;
}

export interface EventFilter {
  readonly type?: string;
  readonly party?: string;
  readonly object?: string;
  readonly correlation_id?: string;
}

export interface CommandView {
  readonly id: string;
  readonly command: CommandName;
  readonly emsp: PartyId;
  readonly cpo: PartyId;
  /** State of its machine: forwarding, rejected, awaiting, relaying, relayed, silent. */
  readonly state: string;
  readonly result: string | null;
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

/** Verbs of partners, by OCPI. */
export interface Hub {
  readonly publicUrl: string;

  authenticate(token: string): Credential | null;
  register(credential: Credential, body: CredentialsBody, trace: Trace): Promise<IssuedCredentials>;
  rotate(credential: Credential, body: CredentialsBody, trace: Trace): Promise<IssuedCredentials>;
  unregister(credential: Credential, trace: Trace): Promise<void>;
  /** The credentials that the hub gave this partner, with the token it sent. [D11] */
  credentialsOf(credential: Credential): IssuedCredentials;

  clientInfo(request: ListRequest): Listed<ClientInfo>;

  /** Accept → record → decide who is owed what; delivering follows by itself. */
  accept(caller: Caller, change: ObjectChange): Promise<Accepted>;
  /** Text of an object, or of a part of a location, as stored; `notFound` when the caller may not see it. [D20, D47] */
  read(
    caller: Caller,
    query: { module: ObjectModule; owner: PartyId | null; id: string; within: readonly string[]; tokenType?: string },
  ): Promise<string>;
  list(caller: Caller, module: ObjectModule, request: ListRequest): Promise<Listed<string>>;

  /** CPO at the charger: asks the eMSP named by `to`; answers AuthorizationInfo. */
  authorizeAtEmsp(caller: Caller, request: AuthorizeRequest): Promise<unknown>;
  /** eMSP: asks the CPO with the same method and path. */
  authorizeAtCpo(caller: Caller, request: AuthorizeRequest): Promise<unknown>;

  command(caller: Caller, request: CommandRequest): Promise<CommandAnswer>;
  /** The CPO's asynchronous result; `body` is a raw CommandResult, forwarded as it is. */
  callback(credential: Credential, id: string, body: string, result: string, trace: Trace): Promise<void>;

  readonly operations: Operations;
}

/** Verbs of operators. Parties are named by the id of their partner. */
export interface Operations {
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
  /** Asks the partner for its versions now. */
  probe(id: string): Promise<{ status: 'reachable' | 'unreachable'; latency_ms: number; error?: string }>;

  routes(): Route[];
  setRoute(emsp: PartyId, cpo: PartyId, active: boolean, trace: Trace): Promise<Route>;
  removeRoute(emsp: PartyId, cpo: PartyId, trace: Trace): Promise<void>;

  /** Newest first. */
  deliveries(filter: DeliveryFilter, page: PageRequest): Promise<Page<DeliveryView>>;
  delivery(id: string): Promise<DeliveryView>;
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
  /** Oldest first, behind sequence `after`. */
  events(
    filter: EventFilter,
    after: number,
    limit: number,
  ): Promise<{ items: EventView[]; next_cursor: string | null }>;
  /** Newest first. */
  commands(page: PageRequest): Promise<Page<CommandView>>;
  command(id: string): Promise<CommandView>;
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
}
