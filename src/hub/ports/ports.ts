/**
 * The ports that the hub calls out through, declared by the hub so that it depends on no implementation. `main.ts`
 * plugs in the real ones; tests plug in a simulated clock.
 */
import type { ErrorCode, Outcome, OutcomeClass } from '../../domain/errors.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import type { WholeObject } from '../../domain/object.ts';
import type { TokenEncoding } from '../../domain/partner-settings.ts';
import type { CredentialsBody, Endpoint, PartyId, PartyRole } from '../../domain/party.ts';
import type { Quirk } from '../../domain/quirks.ts';
import type { Clock } from '../../kit/clock.ts';

/**
 * Role of a hub on its store. `alone`: the only hub. `owner`: of several, the one that runs deliveries, watches and
 * timers. `door`: takes requests of partners and leaves all follow-up work to the owner.
 */
export type HubKind = 'alone' | 'owner' | 'door';

/** A party as the routing headers name it. */
export interface HeaderParty {
  readonly country_code: string;
  readonly party_id: string;
}

/** One OCPI request to a partner. */
export interface OutboundCall {
  readonly method: 'GET' | 'PUT' | 'PATCH' | 'POST' | 'DELETE';
  readonly url: string;
  /**
   * The partner's registered URL that contains `url`. Per registered URL the client remembers whether paths of one
   * depth end with a slash; when absent it remembers nothing. [D55]
   */
  readonly endpoint?: string | undefined;
  /** The partner's token in plain text; the client puts it into the header and nowhere else. */
  readonly token: string;
  readonly encoding: TokenEncoding;
  readonly from: HeaderParty | null;
  readonly to: HeaderParty | null;
  readonly requestId: string;
  readonly correlationId: string;
  /** Exactly the bytes to send; null for none. */
  readonly body: string | null;
  /** `body` as bytes, encoded once for a fan-out to many receivers. */
  readonly bytes?: Uint8Array | undefined;
  /** Time-out of the whole exchange, milliseconds. */
  readonly timeoutMs: number;
  /** Size limit of the answer, bytes, where that is less than usual. */
  readonly answerMax?: number | undefined;
  /** A 2xx without a body, or with one that says no more than `OK`, counts as success. */
  readonly emptyOk?: boolean | undefined;
  /**
   * The client may resend at once when a re-used connection closes before the first byte of the answer. Never set for
   * commands.
   */
  readonly resend: boolean;
  /**
   * A delivery. Deliveries have sockets of their own, so that no other call waits behind them; the dispatcher bounds
   * how many are in flight.
   */
  readonly isDelivery?: boolean;
  /** Sent without User-Agent, to learn whether the partner asks for one. */
  readonly isAnonymous?: boolean;
  /** The call depends on no write, so a node that is cut off from the database may still make it. */
  readonly unwritten?: boolean | undefined;
  /**
   * `data` of a success is one object, and this is the member by which it is known: an array with one item counts as
   * that item, an object without an envelope as `data`, and the outcome keeps the text. [D56, D72]
   */
  readonly oneObject?: 'allowed' | 'result' | 'token' | undefined;
  /** The partner on whose behalf the call is made; absent: the hub's own, or a delivery. */
  readonly source?: PartyId | undefined;
  /** To whom the call goes, and for what: for the counts of what the partner makes the hub do. [D70] */
  readonly about?: CallSubject | undefined;
}

export interface CallSubject {
  readonly partner: PartyId;
  readonly module: string;
  /** `{cc}-{pid}/{id}`; null when the call is about no object. */
  readonly object: string | null;
}

/** Sends OCPI requests. A call never throws: every result and every failure is an `Outcome`. */
export interface PartnerClient {
  /** Why the hub never calls this URL, as one sentence; null when it may. A name is judged when it is resolved. */
  refusal(url: string): string | null;
  call(call: OutboundCall): Promise<Outcome>;
}

/** Discovers a partner's endpoints. Throws `partnerUnusable`, `versionUnsupported` or `endpointsMissing`. */
export interface PartnerVersions {
  discover(partner: Discovering): Promise<Discovered>;
}

export interface Discovering extends Pick<OutboundCall, 'url' | 'token' | 'encoding' | 'correlationId' | 'about'> {
  /** The other form of the token is tried once when the partner refuses the first. [D58] */
  readonly mayTurn: boolean;
  /** Its parties: endpoints without an interface role take what these leave open. [D74] */
  readonly roles: readonly PartyRole[];
}

export interface Discovered {
  readonly endpoints: Endpoint[];
  /** The form of the token that the partner took. */
  readonly encoding: TokenEncoding;
  /** What was made up for, each once. [D70] */
  readonly quirks: readonly Quirk[];
}

/** Request for the list of a partner that is the sender of a module; `url` is the first page. */
export type ListCall = Pick<
  OutboundCall,
  'url' | 'endpoint' | 'token' | 'encoding' | 'from' | 'to' | 'correlationId' | 'about'
> & {
  /** Ends the wait of a list that is throttled. */
  readonly end: AbortSignal;
  readonly bounds?: ListBounds | undefined;
};

/** How much of a list is read at most, where that is less than usual. */
export interface ListBounds {
  readonly pagesMax: number;
  /** Bytes of a page. */
  readonly answerMax: number;
  /** Bytes of all pages: none is asked for behind the one that reaches them. */
  readonly bytesMax: number;
}

export type PartnerPage =
  | {
      readonly kind: 'page';
      /** The objects' texts, byte for byte. [D17] */
      readonly texts: readonly string[];
      /** Value of `X-Total-Count`; null when the partner does not send it. */
      readonly total: number | null;
      /** `timestamp` of the envelope of the first page; null without one, and of later pages. */
      readonly madeAt: string | null;
      /** What is behind this page if it is the last one: nothing, what the partner does not say, or pages that are not read. */
      readonly behind: 'nothing' | 'unsaid' | 'unread';
      /** What was made up for to get it, each once. [D70] */
      readonly quirks: readonly Quirk[];
    }
  /** Last page of a list that could not be read to its end; `reason` is one sentence for people. */
  | { readonly kind: 'failed'; readonly reason: string };

export interface PartnerLists {
  /** Pages in order, each fetched when the iterator is advanced. Never throws. */
  pages(list: ListCall): AsyncIterator<PartnerPage, void>;
}

/** One page of a list, for a check of it. */
export interface InspectedPage {
  readonly outcome: Outcome;
  /** The objects' texts, byte for byte; none unless the call succeeded. */
  readonly texts: readonly string[];
  /** `X-Total-Count` and `X-Limit`; empty when absent. */
  readonly total: string;
  readonly limit: string;
  /** The target of the link to the next page, as it came; null when there is none. */
  readonly next: string | null;
}

export interface PartnerInspector {
  page(call: OutboundCall): Promise<InspectedPage>;
}

/**
 * Validates JSON text with the schemas that a door uses for a PUT, so that a pull accepts exactly what a push accepts.
 * Throws `invalid`.
 */
export interface ObjectReader {
  read(module: ObjectModule, text: string): WholeObject;
  /** The same for credentials, with the schema of `POST /credentials`. */
  credentials(text: string): CredentialsBody;
}

export interface Secrets {
  /** 256 random bits, base64url. [D8] */
  newToken(): string;
  /** SHA-256 of a token, base64url. */
  digest(token: string): string;
  /** AES-256-GCM under a key that is kept outside the database; it opens for this partner alone. */
  seal(token: string, partner: PartyId): string;
  /** Also opens text that was sealed under a previous key or in a previous format. Throws on another partner's. */
  open(sealed: string, partner: PartyId): string;
  /** Whether the text is sealed under another key, or in another format, than `seal` uses. */
  isStale(sealed: string, partner: PartyId): boolean;
  /** A keyed digest, in place of a name that was erased: the same for every spelling in upper or lower case. */
  pseudonym(name: string): string;
  newId(): string;
}

export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Kinds of synchronous forwards. The `name` in `Meter.forwarded` is the direction of an authorize, or the command. */
export type ForwardKind = 'authorize' | 'command' | 'command result';

/**
 * Receives the hub's measurements. Every text argument comes from a short, fixed list, never from a partner or an
 * object id: otherwise the label cardinality of the metrics is unbounded. Every request calls it, so it must be cheap
 * and must not throw.
 */
export interface Meter {
  /**
   * A change was handled; `result` is `created`, `updated`, `deleted`, `duplicate`, `unchanged`, or the code of the
   * refusal.
   */
  ingested(source: 'push' | 'pull', module: string, method: string, result: string): void;
  /** A change was stored and is owed to no receiver. */
  notForwarded(module: string, reason: string): void;
  /** A push was refused with this code. */
  refused(partner: PartyId, module: string, code: ErrorCode): void;
  /** A change of a partner met this many warnings. */
  warned(partner: PartyId, module: string, warnings: number): void;
  /** The hub made up for a habit of a partner. */
  used(partner: PartyId, module: string, quirk: Quirk): void;
  /** One durable write: its duration, and how many writes were in flight when it began, itself included. */
  committed(seconds: number, waiting: number): void;
  /** One attempt at a delivery. */
  attempted(module: string, outcome: OutcomeClass, seconds: number): void;
  /** A delivery ended: its outcome, and the seconds since its acceptance or last re-drive. */
  deliveryEnded(module: string, outcome: OutcomeClass, seconds: number): void;
  /** A synchronous forward ended; `outcome` is the answer, or the code of the refusal. */
  forwarded(kind: ForwardKind, name: string, outcome: string, seconds: number): void;
  /** A rotation changed the host of a partner's `url`, or was refused because it would. [D73] */
  hostChanged(end: 'made' | 'waiting'): void;
  actorFailed(kind: string, end: 'restarted' | 'quarantined'): void;
  /** A fact that no caller waits for could not be written. */
  unrecorded(type: NotedType): void;
}

/** Events that no caller waits for: what `Recorder.note` takes, and reports of refused pushes. */
export const notedTypes = [
  'token.authorized',
  'circuit.opened',
  'circuit.closed',
  'quota.warned',
  'push.refused',
  'delivery.dead',
  'actor.quarantined',
] as const;
export type NotedType = (typeof notedTypes)[number];

/** A notification for a webhook. The client signs it by Standard Webhooks; the secret appears nowhere else. */
export interface PostedNotification {
  readonly url: string;
  /** `whsec_` and base64, in plain text. */
  readonly secret: string;
  /** The same at every attempt. */
  readonly id: string;
  readonly body: string;
  /** Time-out of the whole exchange, milliseconds. */
  readonly timeoutMs: number;
}

/** What a receiver of notifications answered. */
export interface Receipt {
  readonly isTaken: boolean;
  /** Null when no answer came, and for mail. */
  readonly httpStatus: number | null;
  /** One sentence, or the beginning of the answer. */
  readonly answer: string;
}

export interface Mail {
  readonly subject: string;
  readonly text: string;
}

/** How operators are notified; no call of it throws. */
export interface Telling {
  post(notification: PostedNotification): Promise<Receipt>;
  /** Null when no mail is configured. */
  readonly mail: { readonly to: readonly string[]; send(mail: Mail): Promise<Receipt> } | null;
  /** Of the file system of the data directory, bytes; null when there is none. */
  disk(): Promise<{ readonly free: number; readonly size: number } | null>;
  /** Base of the links to the console, without a trailing slash; empty when the hub does not know it. */
  consoleUrl(): string;
}

/** Settings that the hub itself uses; `config/config.ts` documents the unit, source and effect of each. */
export interface HubSettings {
  readonly publicUrl: string;
  readonly countryCode: string;
  readonly partyId: string;
  readonly name: string;
  readonly commandTimeoutMs: number;
  readonly commandResultWindowS: number;
  readonly authorizeTimeoutMs: number;
  readonly callbackTimeoutMs: number;
  readonly deliveryTimeoutMs: number;
  readonly retryScheduleS: readonly number[];
  readonly retryJitter: number;
  readonly retryWindowH: number;
  readonly retryWindowCdrH: number;
  readonly deliveryConcurrency: number;
  readonly circuitFailures: number;
  readonly circuitOpenMs: number;
  /** Maximum age of the START_SESSION that a session may be attributed to, hours. [D37] */
  readonly compatibilityWindowH: number;
  readonly probeIntervalS: number;
  readonly offlineAfterS: number;
  readonly orphanGraceS: number;
  readonly orphanSweepS: number;
  /** A session that is COMPLETED without a CDR for this long becomes an orphan case, seconds; 0 = never. [D36] */
  readonly orphanCdrAfterS: number;
  /** A connected CPO that has pushed nothing for this long is silent, hours; 0 = never. */
  readonly silentAfterH: number;
  /** Age of the oldest undelivered delivery of a partner from which on operators are notified, seconds; 0 = never. */
  readonly notifyBacklogS: number;
  /** Share of the disk that is free below which operators are notified, percent; 0 = never. */
  readonly notifyDiskPercent: number;
  /** A rotation that changes the host of `url` waits for an operator. [D73] */
  readonly confirmHostChange: boolean;
  /** How long an initial token can be used, days; 0 = for ever. [D88] */
  readonly initialTokenDays: number;
  /** What a party may have stored within a day, MB; 0 = without limit. */
  readonly quotaMbPerDay: number;
  /** Objects that a party may have stored; 0: no limit. */
  readonly objectsPerParty: number;
  /** Retention of events, days; 0 = for ever. */
  readonly eventsKeepDays: number;
  /** How long objects are kept after their last update, days; 0 = for ever. */
  readonly sessionsKeepDays: number;
  readonly cdrsKeepDays: number;
  readonly tokensKeepDays: number;
  /** How long entries of the audit log are kept, days; 0 = for ever. */
  readonly auditKeepDays: number;
}

/** What a door noted of the tokens of a partner since its last message. */
export interface TokenUse {
  readonly party: PartyId;
  /** Of the token that was used; empty: requests from outside `allow_from`, which were refused. */
  readonly digest: string;
  /** Of the last one. */
  readonly address: string;
  readonly ageMs: number;
  readonly count: number;
}

export interface HubPorts {
  readonly clock: Clock;
  /** Uniform random number in 0…1, for jitter. */
  readonly random: () => number;
  readonly client: PartnerClient;
  readonly versions: PartnerVersions;
  readonly lists: PartnerLists;
  readonly inspector: PartnerInspector;
  readonly reader: ObjectReader;
  readonly secrets: Secrets;
  /** The token of a partner did not open: another node may have sealed it under a key that this one lacks. */
  readonly unopened?: () => void;
  /** Asks the owner whether it settles the exchange of this initial token; true also when it does not answer. Of a door alone. [REGISTRATION-8] */
  readonly isSettling?: (digest: string) => Promise<boolean>;
  /** Tells the owner. Of a door alone. */
  readonly tellUse?: (use: TokenUse) => void;
  /** Absent: nobody is notified of anything. */
  readonly telling?: Telling;
  readonly log: Log;
  readonly meter: Meter;
  /** Whether an address lies within one of the networks, CIDR. */
  readonly isWithin: (networks: readonly string[], address: string) => boolean;
  /**
   * Memory limit for bodies in flight to partners, in characters, and the same limit again for bodies of fresh
   * deliveries that wait. Beyond it the bodies are read again from the log.
   */
  readonly bodiesMax: number;
  /** Limit of deliveries in flight to all partners together. */
  readonly inFlightMax: number;
  /** Limit of one partner's deliveries in memory; the rest of its backlog stays in the log. */
  readonly windowMax: number;
  /** Number of turns of the event loop so far. */
  readonly turn: () => number;
}
