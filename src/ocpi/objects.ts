/**
 * What the five object modules share: a push becomes an `ObjectChange`, a read answers stored text, a list a page.
 */
import { HubError } from '../domain/errors.ts';
import { ambiguousName, isUnambiguous } from '../domain/json-text.ts';
import type { CdrTokenFact, ObjectChange, ObjectFacts, ObjectModule, PushMethod } from '../domain/object.ts';
import { partyKey } from '../domain/party.ts';
import type { Accepted, Hub } from '../hub/ports/hub.ts';
import type { JsonBody } from '../transport/json-body.ts';
import { readPage } from '../transport/pagination.ts';
import { type Checked, check } from '../transport/types.ts';
import { type Answer, addressOf, type Exchange, listed, type WholeObject } from './route.ts';

/** A body that was checked against its module's schema. */
export interface CheckedBody<T> {
  /** The checked view: read it, never store it. */
  readonly body: T;
  /** As it was parsed, for fields whose presence counts. */
  readonly value: Readonly<Record<string, unknown>>;
  readonly text: string;
  readonly notes: readonly string[];
}

/** Refuses with `notJson` when there is no body, with `invalid` when it is not what the type says. */
export function checkedBody<T extends object>(exchange: Pick<Exchange, 'body'>, type: Checked<T>): CheckedBody<T> {
  const { text, value, names } = bodyOf(exchange);
  const { body, notes } = check(type, value);
  if (!isUnambiguous(value as object, names, decisive)) refuseAmbiguous(text);
  return { body, notes, text, value: value as Record<string, unknown> };
}

/** What the hub decides by, in any body. */
const decisive: ReadonlySet<string> = new Set([
  ...['country_code', 'party_id', 'id', 'uid', 'type', 'cdr_token', 'status', 'publish', 'last_updated'],
  ...['response_url', 'token', 'location_id', 'session_id', 'reservation_id', 'url', 'roles', 'result'],
]);

/**
 * A text passes through as it came [D17], so whoever gets it must read in it what the hub read: a second `response_url` would
 * send a CPO's result, with the CPO's token, past the hub, a second `party_id` make one CPO's tariff another's. `within`: what
 * stands before a name in the message.
 */
export function refuseAmbiguous(text: string, names: ReadonlySet<string> = decisive, within = ''): void {
  const name = ambiguousName(text, names);
  if (name !== null) throw new HubError('invalid', { message: `${within}${name}: expected once, in lower case` });
}

export function bodyOf({ body }: Pick<Exchange, 'body'>): JsonBody {
  if (body === null) throw new HubError('notJson', { message: 'Body is missing' });
  return body;
}

/** Ids in the path and in the body name the same object, in whatever case; refuses with `invalid`. [D18] */
export function sameIds(
  path: Readonly<Record<string, string | undefined>>,
  body: Readonly<Record<string, unknown>>,
): void {
  for (const [field, inPath = ''] of Object.entries(path)) {
    const inBody = body[field];
    if (typeof inBody === 'string' && inBody.toLowerCase() !== inPath.toLowerCase()) {
      throw new HubError('invalid', { message: `${field}: expected ${JSON.stringify(inPath)}, as in the path` });
    }
  }
}

/** An id of the path that will name something; refuses with `invalid`, also what would climb out of a receiver's URL. */
export function pathId(params: Readonly<Record<string, string>>, name: string, max = 36): string {
  const id = params[name] ?? '';
  if (/^[\x20-\x7e]+$/.test(id) && id.length <= max && id !== '.' && id !== '..') return id;
  throw new HubError('invalid', { message: `${name}: expected 1 to ${max} printable ASCII characters` });
}

export interface Push {
  readonly module: ObjectModule;
  readonly method: PushMethod;
  readonly id: string;
  readonly within?: readonly string[];
  readonly facts: ObjectFacts;
}

/** Hands a checked push to the hub, in the name of the caller, who owns the object. */
export function accept(
  hub: Hub,
  exchange: Exchange,
  push: Push,
  { body, text, notes }: CheckedBody<{ last_updated: string }>,
): Promise<Accepted> {
  const change: ObjectChange = {
    module: push.module,
    method: push.method,
    owner: exchange.caller.id,
    id: push.id,
    within: push.within ?? [],
    lastUpdated: body.last_updated,
    facts: push.facts,
    body: text,
    warnings: notes,
  };
  return hub.accept(exchange.caller, change);
}

/** A whole object that came in a partner's list, as a push of it would be read. */
export function wholeObject<T extends { country_code: string; party_id: string; id: string; last_updated: string }>(
  type: Checked<T>,
  factsOf: (body: T, value: Readonly<Record<string, unknown>>) => ObjectFacts,
) {
  return (value: unknown): WholeObject => {
    const { body, notes } = check(type, value);
    const { country_code, party_id, id, last_updated: lastUpdated } = body;
    const facts = factsOf(body, value as Record<string, unknown>);
    return { country_code, party_id, id, lastUpdated, facts, warnings: notes };
  };
}

/** Answers a list of stored objects. */
export async function answerList(
  hub: Hub,
  exchange: Exchange,
  module: ObjectModule,
  demands: { dateFrom?: boolean } = {},
): Promise<Answer> {
  const page = readPage(exchange.query, exchange.pages, demands);
  const found = await hub.list(exchange.caller, module, page.request);
  return listed(addressOf(hub, `/${module}`), page, found);
}

/**
 * Who a `cdr_token` names. One of another shape is no error: the session or CDR is stored all the same, and not
 * forwarded. [interface, Sessions 2]
 */
export function cdrTokenFact(value: unknown): CdrTokenFact | null {
  if (typeof value !== 'object' || value === null) return null;
  const { country_code: countryCode, party_id: partyId, uid } = value as Record<string, unknown>;
  if (typeof countryCode !== 'string' || typeof partyId !== 'string') return null;
  return { party: partyKey(countryCode, partyId), uid: typeof uid === 'string' ? uid : '' };
}
