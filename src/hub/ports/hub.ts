/**
 * The verbs that doors call, and nothing else that they may know of the hub. A refusal is a thrown `HubError`; every promise
 * that resolves after a write resolves when the write is durable.
 */
import type { CommandName } from '../../domain/events.ts';
import type { HubObject, ObjectChange, ObjectModule } from '../../domain/object.ts';
import type { Partner, PartyId, PartyRole, Role } from '../../domain/party.ts';
import type { Trace } from '../../domain/trace.ts';
import type { Operations } from './operator.ts';
import type { HeaderParty } from './ports.ts';

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
  /** Whether nobody waits for the answer any more; asked just before something is decided for it. Absent: it is the hub itself. */
  readonly isStale?: () => boolean | Promise<boolean>;
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
  /** No more items once they have so many characters together. */
  readonly size?: number;
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

/** The party that a command's token names, if any: `uid` and the rest are the CPO's to read. */
export interface TokenParty {
  readonly country_code?: string | null | undefined;
  readonly party_id?: string | null | undefined;
}

export interface CommandRequest {
  readonly command: CommandName;
  readonly to: HeaderParty | null;
  readonly responseUrl: string;
  readonly locationId: string | null;
  readonly sessionId: string | null;
  readonly reservationId: string | null;
  readonly tokenUid: string | null;
  /** Of START_SESSION and RESERVE_NOW. */
  readonly tokenParty?: TokenParty | undefined;
  readonly authorizationReference: string | null;
  /** The body to forward, given the hub's callback URL: all but `response_url` byte for byte. */
  readonly bodyFor: (callbackUrl: string) => string;
}

/** `AuthorizationInfo`: what the hub reads of it, and the text in which it passes. [D72] */
export interface AuthorizeAnswer {
  readonly allowed: string;
  readonly text: string;
}

/** `CommandResponse`: what the hub reads of it, and the text in which it passes, with a `timeout`. [D28, D72] */
export interface CommandAnswer {
  readonly result: string;
  /** Seconds for which the hub waits for the result. */
  readonly timeout: number;
  readonly text: string;
}

/** Asked with the characters that are about to be read, when they are many; rejects with `unavailable` when there is no room. */
export type Reserve = (characters: number) => Promise<void>;

/** Verbs of partners, by OCPI. */
export interface Hub {
  readonly publicUrl: string;
  /** The hub's own. */
  readonly party: HeaderParty;

  authenticate(token: string): Credential | null;
  /** When it was last suspended, also when it has registered again since; null: never. */
  suspendedAt(partner: PartyId): string | null;
  /** `read` gives the body, or refuses it. */
  register(credential: Credential, read: () => CredentialsBody, trace: Trace): Promise<IssuedCredentials>;
  rotate(credential: Credential, read: () => CredentialsBody, trace: Trace): Promise<IssuedCredentials>;
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
    reserve: Reserve,
  ): Promise<string>;
  list(caller: Caller, module: ObjectModule, request: ListRequest): Promise<Listed<string>>;

  /** CPO at the charger: asks the eMSP named by `to`; answers AuthorizationInfo. */
  authorizeAtEmsp(caller: Caller, request: AuthorizeRequest): Promise<AuthorizeAnswer>;
  /** eMSP: asks the CPO with the same method and path. */
  authorizeAtCpo(caller: Caller, request: AuthorizeRequest): Promise<AuthorizeAnswer>;

  command(caller: Caller, request: CommandRequest): Promise<CommandAnswer>;
  /** The CPO's asynchronous result; `body` is a raw CommandResult, forwarded as it is. */
  callback(credential: Credential, id: string, body: string, result: string, trace: Trace): Promise<void>;

  readonly operations: Operations;
}
