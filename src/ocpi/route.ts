/**
 * Types of the OCPI modules: the route table, the request as a handler sees it, and the answers. Modules do not depend
 * on the HTTP server; `server.ts` registers their routes.
 */
import { Readable } from 'node:stream';
import type { WholeObject } from '../domain/object.ts';
import type { InterfaceRole, PartyRole } from '../domain/party.ts';
import type { Caller, Credential, Hub, Listed, Reading, Reserve } from '../hub/ports/hub.ts';
import type { JsonBody } from '../transport/body.ts';
import { dataText, doneText, listText } from '../transport/envelope.ts';
import type { RoutingParty } from '../transport/headers.ts';
import { type Page, type PageLimits, pageHeaders } from '../transport/pagination.ts';
import { success } from '../transport/status-codes.ts';
import type { CallerRule, Onboarding } from './caller.ts';
import type { Budget } from './limits.ts';
import type { ListReads } from './list-reads.ts';

export const version = '2.2.1';

/** Size limit of a request body of which the route says nothing else, bytes. [D38] */
export const bodyMax = 1024 * 1024;

export type Method = 'GET' | 'PUT' | 'PATCH' | 'POST' | 'DELETE';

export interface OcpiRoute {
  readonly method: Method;
  /** Path below `/ocpi`, e.g. `/2.2.1/tariffs/:country_code/:party_id/:id`. */
  readonly path: string;
  /** Who may call the route, and as which of its parties. */
  readonly by: CallerRule;
  readonly budget: Budget;
  /** Size limit of the body, bytes; absent: the constant `bodyMax`. */
  readonly bodyMax?: number;
  /** Absent: tokens other than hub tokens are refused. [D9, D10] */
  readonly onboarding?: Onboarding;
  /** A driver waits at a charger for the answer: under overload the request is refused last. */
  readonly isAwaited?: true;
  /** OCPI has no such route: it is served because partners use it, and no refusal names it as the form to use. */
  readonly isLenient?: true;
  readonly handle: (hub: Hub, exchange: Exchange) => Answer | Promise<Answer>;
}

/** One OCPI module: its identifier, the interface roles in which the hub offers it, its routes. */
export interface OcpiModule {
  readonly identifier: string;
  readonly roles: readonly InterfaceRole[];
  readonly routes: readonly OcpiRoute[];
  /**
   * Reads a whole object of a partner's list by the schema of a push; refuses with `invalid`. Absent: the module is
   * never pulled.
   */
  readonly readWhole?: (value: unknown, text: string) => WholeObject;
}

/** One authenticated request. */
export interface Exchange {
  readonly credential: Credential;
  readonly caller: Caller;
  /** Path parameters, decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  /** Null when the request has no body. */
  readonly body: JsonBody | null;
  /** `OCPI-to-*`; null when absent, or when it names the hub or the caller itself. [D5] Refuses with `invalid`. */
  readonly to: () => RoutingParty | null;
  /** Whether `OCPI-to-*` names the hub. Refuses with `invalid`. */
  readonly isToHub: () => boolean;
  /** Whether `OCPI-from-*` names a party of another partner, or the hub. */
  readonly isFromOther: () => boolean;
  /** The parties for which the caller may speak: all of its partner's, or the one that `OCPI-from-*` names. */
  readonly parties: () => readonly PartyRole[];
  readonly pages: PageLimits;
  readonly reads: ListReads;
  /** The time of day now, RFC 3339. */
  readonly arrivedAt: () => string;
  /** Reserves memory before a large read. */
  readonly reserve: Reserve;
  /** Reserves memory while a large read runs; counts nothing against the caller's rate, since the object is another party's. */
  readonly reading: Reading;
}

export interface Answer {
  readonly http: number;
  readonly ocpi: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Readable;
  /** Characters of a streamed body. */
  readonly size?: number;
}

/** Success without data. */
export function done(http = 200, headers: Record<string, string> = {}): Answer {
  return { http, ocpi: success, headers, body: doneText() };
}

/** Success with stored text as data, byte for byte. */
export function stored(text: string): Answer {
  const made = dataText(text);
  if (typeof made === 'string') return { http: 200, ocpi: success, headers: {}, body: made };
  const body = Readable.from(made.pieces, { objectMode: false });
  return { http: 200, ocpi: success, headers: { 'Content-Length': String(made.bytes) }, body, size: text.length };
}

/** Success with a value as data. */
export function data(value: unknown): Answer {
  return stored(JSON.stringify(value));
}

/** A page of stored texts; `url` is the list's absolute URL. */
export function listed(url: string, page: Page, found: Listed<string>): Answer {
  const text = listText(found.items);
  const { total, isLast, last } = found;
  return {
    http: 200,
    ocpi: success,
    headers: pageHeaders(url, page, { count: found.items.length, total, isLast, last }),
    body: typeof text === 'string' ? text : Readable.from(text, { objectMode: false }),
    size: found.items.reduce((sum, item) => sum + item.length, 0),
  };
}

/** Absolute URL of a path below `/ocpi/2.2.1`. [D33] */
export function addressOf(hub: Pick<Hub, 'publicUrl'>, path: string): string {
  return `${hub.publicUrl.replace(/\/+$/, '')}/ocpi/${version}${path}`;
}
