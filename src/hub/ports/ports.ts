/**
 * What the hub needs from outside, declared where it is used. `main.ts` plugs the real ones in; tests plug in a simulated clock.
 */
import type { Outcome, OutcomeClass } from '../../domain/errors.ts';
import type { ObjectFacts, ObjectModule } from '../../domain/object.ts';
import type { Endpoint, TokenEncoding } from '../../domain/party.ts';
import type { Clock } from '../../kit/clock.ts';

/**
 * What a hub is on its store: the only one; the one of several that delivers, watches and waits; or a door, which takes what partners ask and
 * leaves to the owner what follows from it.
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
   * The partner's own URL that `url` lies at or below. The client remembers for it whether paths of one depth end with a slash; absent:
   * it remembers nothing. [D55]
   */
  readonly endpoint?: string | undefined;
  /** The partner's token in the clear; it goes into the header and nowhere else. */
  readonly token: string;
  readonly encoding: TokenEncoding;
  readonly from: HeaderParty | null;
  readonly to: HeaderParty | null;
  readonly requestId: string;
  readonly correlationId: string;
  /** Exactly the bytes to send; null for none. */
  readonly body: string | null;
  /** The same as bytes, where it goes to many and was made into them once. */
  readonly bytes?: Uint8Array | undefined;
  /** Limit of the whole exchange, milliseconds. */
  readonly timeoutMs: number;
  /** A 2xx without a body counts as success. */
  readonly emptyOk: boolean;
  /** May be sent again at once when a re-used connection was closed before any byte of the answer. Never for commands. */
  readonly resend: boolean;
  /** A delivery, whose sender bounds how many are in flight: it goes over sockets of its own, so that no other call waits behind it. */
  readonly isDelivery?: boolean;
  /** It stands on nothing that was written: whoever may not write now may still make it. */
  readonly unwritten?: boolean;
  /** `data` of a success is one object: an array of one counts as that object, and the outcome keeps its text. [D56, D72] */
  readonly oneObject?: boolean | undefined;
}

/** Whatever comes back becomes an Outcome: a call never throws. */
export interface PartnerClient {
  call(call: OutboundCall): Promise<Outcome>;
}

/** What a partner's versions tell. Refuses with `partnerUnusable`, `versionUnsupported` or `endpointsMissing`. */
export interface PartnerVersions {
  discover(partner: {
    url: string;
    token: string;
    encoding: TokenEncoding;
    correlationId: string;
  }): Promise<Endpoint[]>;
}

/** The list of a partner that is the sender of a module; `url` is its first page. */
export type ListCall = Pick<OutboundCall, 'url' | 'endpoint' | 'token' | 'encoding' | 'from' | 'to' | 'correlationId'>;

export type PartnerPage =
  | {
      readonly kind: 'page';
      /** The objects' texts, byte for byte. [D17] */
      readonly texts: readonly string[];
      /** Of `X-Total-Count`; null when the partner does not say. */
      readonly total: number | null;
    }
  /** The last one of a list that could not be read to its end; `reason` is one sentence for people. */
  | { readonly kind: 'failed'; readonly reason: string };

export interface PartnerLists {
  /** Pages in order, each asked for when it is wanted. Never throws. */
  pages(list: ListCall): AsyncIterator<PartnerPage, void>;
}

/** What the hub relies on in a whole object. */
export interface WholeObject extends HeaderParty {
  readonly id: string;
  readonly lastUpdated: string;
  readonly facts: ObjectFacts;
  readonly warnings: readonly string[];
}

/** Reads JSON text as the object's own door reads a PUT of it, so that a pull takes what a push takes. Refuses with `invalid`. */
export interface ObjectReader {
  read(module: ObjectModule, text: string): WholeObject;
}

export interface Secrets {
  /** 256 random bits, base64url. [D8] */
  newToken(): string;
  /** SHA-256 of a token, base64url. */
  digest(token: string): string;
  /** AES-256-GCM under the key outside the database. */
  seal(text: string): string;
  /** Also what was sealed under a previous key. */
  open(sealed: string): string;
  /** Whether it is sealed under another key than `seal` uses. */
  isStale(sealed: string): boolean;
  newId(): string;
}

export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Calls that somebody waits for, by what they carry. `name` is the direction of an authorize, or the command. */
export type ForwardKind = 'authorize' | 'command' | 'command result';

/**
 * Where the hub tells what it measured. Every text is one of a known, short list: never an id of an object, never what a partner
 * made up. Called on the way of every request, so it must be cheap and must not throw.
 */
export interface Meter {
  /** A change came to its end: `created`, `updated`, `deleted`, `duplicate`, `unchanged`, or the code of its refusal. */
  ingested(source: 'push' | 'pull', module: string, method: string, result: string): void;
  /** It was stored and is owed to nobody. */
  notForwarded(module: string, reason: string): void;
  /** One durable write: how long it took, and how many waited for the disk when it began, itself included. */
  committed(seconds: number, waiting: number): void;
  /** One try at a delivery. */
  attempted(module: string, outcome: OutcomeClass, seconds: number): void;
  /** A delivery ended: seconds since its acceptance (or since an operator put it back), and how. */
  deliveryEnded(module: string, outcome: OutcomeClass, seconds: number): void;
  /** A call ended as `outcome` says: what was answered, or the code of the refusal. */
  forwarded(kind: ForwardKind, name: string, outcome: string, seconds: number): void;
  actorFailed(kind: string, end: 'restarted' | 'quarantined'): void;
  /** A fact that nobody waits for was not written. */
  unrecorded(type: string): void;
}

/** Measures nothing. */
export const noMeter: Meter = {
  ingested: () => {},
  notForwarded: () => {},
  committed: () => {},
  attempted: () => {},
  deliveryEnded: () => {},
  forwarded: () => {},
  actorFailed: () => {},
  unrecorded: () => {},
};

/** Settings the hub itself obeys; `config.ts` says unit, source and consequence of each. */
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
  /** How far back a START_SESSION may lie that a session goes back to, hours. [D37] */
  readonly compatibilityWindowH: number;
  readonly probeIntervalS: number;
  readonly offlineAfterS: number;
  readonly orphanGraceS: number;
  readonly orphanSweepS: number;
  /** A session COMPLETED without a CDR for so long becomes a case; 0 = never. [D36] */
  readonly orphanCdrAfterS: number;
  /** How long events are kept; 0 = for ever. */
  readonly eventsKeepDays: number;
}

export interface HubPorts {
  readonly clock: Clock;
  /** Uniform in 0…1, for jitter. */
  readonly random: () => number;
  readonly client: PartnerClient;
  readonly versions: PartnerVersions;
  readonly lists: PartnerLists;
  readonly reader: ObjectReader;
  readonly secrets: Secrets;
  readonly log: Log;
  readonly meter: Meter;
  /**
   * Characters of bodies in flight to partners that are held in memory, and as many of fresh ones that wait; beyond it they are read
   * again from the log.
   */
  readonly bodiesMax: number;
  /** Deliveries in flight to all partners together. */
  readonly inFlightMax: number;
  /** Deliveries of one partner in memory; the rest stays in the log. */
  readonly windowMax: number;
  /** Turns of the event loop so far. */
  readonly turn: () => number;
}
