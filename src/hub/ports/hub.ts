/**
 * The interface through which doors call the hub. Doors for operators may also import `operator.ts` and
 * `actor-view.ts`; no door may import more of the hub. The hub refuses a request by throwing a `HubError`; the promise
 * of a verb that writes resolves when the write is durable.
 */
import type { ListQuery, Position } from '../../../storage/contract.ts';
import type { CommandName, Trace } from '../../domain/events.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import type { HubObject, ObjectChange } from '../../domain/object.ts';
import type { CredentialsBody, Partner, PartyId, PartyRole, Role } from '../../domain/party.ts';
import type { Quirk } from '../../domain/quirks.ts';
import type { RefusedPush } from '../../domain/report.ts';
import type { IsStale } from '../../kit/stale.ts';
import type { Operations } from './operator.ts';
import type { CallSubject, HeaderParty } from './ports.ts';

/**
 * The partner that a token belongs to, and its kind. `spent`: the token was valid once; only the 405 rules of
 * credentials still use it. [D9, D10]
 */
export interface Credential {
  readonly partner: Partner;
  readonly kind: 'hub' | 'initial' | 'spent';
  /** An initial token that becomes a hub token in a moment: the partner has answered an exchange that the hub began. */
  readonly isSettling?: boolean;
  /** The token as the partner sent it, decoded. */
  readonly token: string;
}

/** The authenticated party of one request. */
export interface Caller {
  readonly partner: Partner;
  readonly party: PartyRole;
  /** `partyKey` of `party`. */
  readonly id: PartyId;
  readonly trace: Trace;
  /**
   * True when nobody waits for the answer any more; checked just before a decision. Absent when the hub itself is the
   * caller.
   */
  readonly isStale?: IsStale;
}

export interface HubRole extends HeaderParty {
  readonly role: 'HUB';
  readonly business_details: { readonly name: string };
}

/** The credentials that the hub answers a partner with. */
export interface IssuedCredentials {
  readonly token: string;
  readonly url: string;
  readonly roles: readonly HubRole[];
}

export interface ObjectQuery {
  readonly module: ObjectModule;
  /** Null when the path does not name an owner: the object is the caller's own, or one of its counterparts'. */
  readonly owner: PartyId | null;
  readonly id: string;
  readonly within: readonly string[];
  readonly tokenType?: string;
  /** The counterpart that `OCPI-to-*` names: no other object is found. [D68] */
  readonly to?: PartyId;
}

export interface Accepted {
  /** `duplicate`: the CDR is stored already, and nothing was written. */
  readonly result: 'created' | 'updated' | 'deleted' | 'duplicate';
  /** The object as stored now; a deleted object as it was before. */
  readonly object: HubObject;
}

/** Bounds on `last_updated` are sortable dates (`sortableDate`). */
export type ListRequest = Pick<ListQuery, 'from' | 'to' | 'offset' | 'limit' | 'size' | 'after'>;

export interface Listed<T> {
  readonly items: readonly T[];
  readonly total: number;
  /** Whether no matching item follows the page. */
  readonly isLast: boolean;
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

/** The party that a command's token names, if any. The hub reads nothing else of the token; the rest is for the CPO. */
export interface TokenParty {
  readonly country_code?: string | null | undefined;
  readonly party_id?: string | null | undefined;
}

export interface CommandRequest {
  readonly command: CommandName;
  readonly to: HeaderParty | null;
  readonly responseUrl: string;
  readonly locationId: string | null;
  /** EVSE, and connector, within the location; absent or empty when the command names none. */
  readonly within?: readonly string[];
  readonly sessionId: string | null;
  readonly reservationId: string | null;
  /** End of the reservation, as received; absent for other commands. */
  readonly expiryDate?: string;
  readonly tokenUid: string | null;
  /** Only for START_SESSION and RESERVE_NOW. */
  readonly tokenParty?: TokenParty | undefined;
  readonly authorizationReference: string | null;
  /** What the door made up for, for the trace. [D70] */
  readonly quirks?: readonly Quirk[];
  /**
   * Makes the body to forward: the received text with the hub's callback URL as `response_url`, otherwise byte for
   * byte.
   */
  readonly bodyFor: (callbackUrl: string) => string;
}

/** `AuthorizationInfo`: the field that the hub reads, and the whole text, which passes through unchanged. [D72] */
export interface AuthorizeAnswer {
  readonly allowed: string;
  readonly text: string;
}

/**
 * `CommandResponse`: the fields that the hub reads, and the whole text, which passes through and always has a
 * `timeout`. [D28, D72]
 */
export interface CommandAnswer {
  readonly result: string;
  /** How long the hub waits for the result, seconds. */
  readonly timeout: number;
  readonly text: string;
}

/** Resolves in a turn of the event loop in which what was read may be changed. */
export type ChangeTurn = (tookMs?: number) => Promise<void>;

/** Reserves memory, in characters, before large bodies are read; rejects with `unavailable` when there is no room. */
export type Reserve = (characters: number) => Promise<ChangeTurn>;

/** Like `Reserve`, for a request that goes on without what it has read: the memory is free again when `read` ends. */
export type Reading = <T>(characters: number, read: () => Promise<T>) => Promise<T>;

/** The verbs of partners, who call them over OCPI. */
export interface Hub {
  readonly publicUrl: string;
  /** The hub's own party. */
  readonly party: HeaderParty;
  /** A party that the hub knows, itself included, in the case in which it was assigned; null for any other. */
  known(named: HeaderParty): HeaderParty | null;

  /** `address`: where the request comes from. Null for no valid token, or when the partner may not call from there. */
  authenticate(token: string, address: string): Credential | null;
  /**
   * Resolves when it knows every partner and token that is in the log by now, to whether it has learned of a change;
   * throws `unavailable` while it cannot, or while another node settles the exchange of the credential that was refused.
   */
  caughtUp(refused?: Credential | null): Promise<boolean>;
  /** When the partner was last suspended, even if it has registered again since; null when never. */
  suspendedAt(partner: PartyId): string | null;
  /** `read` returns the validated body or throws a refusal. */
  register(credential: Credential, read: () => CredentialsBody, trace: Trace): Promise<IssuedCredentials>;
  rotate(credential: Credential, read: () => CredentialsBody, trace: Trace): Promise<IssuedCredentials>;
  unregister(credential: Credential, trace: Trace): Promise<void>;
  /** The hub's credentials for this partner, with the token that the partner sent. [D11] */
  credentialsOf(credential: Credential): IssuedCredentials;

  clientInfo(request: ListRequest): Listed<ClientInfo>;

  /** Decides who is owed the change, records it and resolves; delivery follows asynchronously. */
  accept(caller: Caller, change: ObjectChange, reserve: Reserve): Promise<Accepted>;
  /** Notes that a push was refused; `body` is null when none was read. [D69] */
  refused(push: RefusedPush, body: string | null, trace: Pick<Trace, 'correlationId'>, party?: PartyId): void;
  /** Notes what a door made up for in a request of a partner. [D70] */
  used(about: CallSubject, quirks: readonly Quirk[]): void;
  /** Notes what a body of a partner that is no object has wrong and was taken all the same. [D70] */
  warned(about: CallSubject, warnings: readonly string[]): void;
  /**
   * The stored text of an object, or of a part of a location; throws `notFound` when the caller may not see it.
   * [D20, D47]
   */
  read(caller: Caller, query: ObjectQuery, reserve: Reserve): Promise<string>;
  /** `to`: only objects between the caller and this counterpart. [D68] */
  list(caller: Caller, module: ObjectModule, request: ListRequest, to?: PartyId): Promise<Listed<string>>;

  /** For a CPO with a driver at the charger: queries the eMSP that `to` names. */
  authorizeAtEmsp(caller: Caller, request: AuthorizeRequest): Promise<AuthorizeAnswer>;
  /** For an eMSP: queries the CPO with the same method and path. */
  authorizeAtCpo(caller: Caller, request: AuthorizeRequest): Promise<AuthorizeAnswer>;

  command(caller: Caller, request: CommandRequest, reading: Reading): Promise<CommandAnswer>;
  /** The CPO's asynchronous result; `body` is a raw CommandResult and is relayed unchanged. */
  callback(
    credential: Credential,
    id: string,
    body: string,
    result: string,
    trace: Trace,
    quirks?: readonly Quirk[],
  ): Promise<void>;

  readonly operations: Operations;
}
