/**
 * Shared code of the five object modules: checks a push and turns it into an `ObjectChange`, answers lists.
 */
import { HubError } from '../domain/errors.ts';
import { ambiguousName, firstMember, isUnambiguous, items, slice } from '../domain/json-text.ts';
import { isOwned, type ObjectModule } from '../domain/modules.ts';
import {
  type CdrTokenFact,
  decisive,
  decisiveWithin,
  type ObjectChange,
  type ObjectFacts,
  type WholeObject,
} from '../domain/object.ts';
import { keyOf, type PartyId, partyKey } from '../domain/party.ts';
import { beginsWithMark, type Quirk, quirksIn } from '../domain/quirks.ts';
import type { Accepted, Hub, Listed } from '../hub/ports/hub.ts';
import type { JsonBody } from '../transport/body.ts';
import { isWithoutPrev, type Page, readPage } from '../transport/pagination.ts';
import { type Checked, check } from '../transport/types.ts';
import { type CallerRule, pathParty } from './caller.ts';
import type { ListReader } from './list-reads.ts';
import { type Answer, addressOf, done, type Exchange, listed, type OcpiRoute, stored, version } from './route.ts';

/** A body that has passed its module's schema. */
export interface CheckedBody<T> {
  /** The checked view, for reading only; `text` is what is stored. */
  readonly body: T;
  /** The parsed body, to see which fields are present. */
  readonly value: Readonly<Record<string, unknown>>;
  readonly text: string;
  readonly notes: readonly string[];
  /** Habits that show in the request, not in the object as a whole. */
  readonly quirks?: readonly Quirk[];
}

/** Refuses with `notJson` when there is no body, with `invalid` when the body does not match the type. */
export function checkedBody<T extends object>(exchange: Pick<Exchange, 'body'>, type: Checked<T>): CheckedBody<T> {
  const { text, value, names, hasMark } = bodyOf(exchange);
  const { body, notes } = check(type, value);
  if (hasMark) notes.push(`body: ${beginsWithMark}`);
  const decided = decisiveOf(type);
  if (!isUnambiguous(value as object, names, decided)) refuseTwice(text, decided, '');
  if (containers.some((name) => decided.has(name) && Object.hasOwn(value as object, name)))
    refuseTwiceWithin(text, decided, '');
  return { body, notes, text, value: value as Record<string, unknown> };
}

type Named = Pick<Checked<unknown>, 'names'>;

const decisiveNames = new WeakMap<Named, ReadonlySet<string>>();

/** The decisive fields that this type has: a name of another module is a partner's own here. [D17] */
function decisiveOf(type: Named): ReadonlySet<string> {
  const found = decisiveNames.get(type) ?? new Set(type.names?.filter((name) => decisive.has(name)) ?? decisive);
  decisiveNames.set(type, found);
  return found;
}

/** Fields that are objects, or lists of objects, with decisive fields of their own. */
const containers = Object.keys(decisiveWithin);

/**
 * Refuses a JSON text that repeats a decisive field of its type or writes its name in another case, at the top or in an
 * object on whose fields the hub decides. The hub forwards texts unchanged [D17], so a receiver must read the same values
 * as the hub: a second `response_url` would send a CPO's result, with the CPO's token, past the hub; a second `party_id`
 * would turn one CPO's tariff into another's, or bill another eMSP for a session.
 */
export function refuseAmbiguous(text: string, type: Named): void {
  const decided = decisiveOf(type);
  refuseTwice(text, decided, '');
  refuseTwiceWithin(text, decided, '');
}

/** `within` is the prefix of names in the message. */
function refuseTwice(text: string, names: ReadonlySet<string>, within: string): void {
  const name = ambiguousName(text, names);
  if (name !== null) throw new HubError('invalid', { message: `${within}${name}: expected once, in lower case` });
}

/** Each level reads its part of the text once more, up to the object that it looks into. */
function refuseTwiceWithin(text: string, names: ReadonlySet<string>, within: string): void {
  for (const name of containers) {
    // `refuseTwice`, or `isUnambiguous`, has found that there is one at most.
    const [span, own] = [names.has(name) ? firstMember(text, name) : undefined, decisiveWithin[name]];
    if (span === undefined || own === undefined) continue;
    for (const each of text[span.start] === '[' ? items(text, span) : [span]) {
      const part = slice(text, each);
      refuseTwice(part, own, `${within}${name}.`);
      refuseTwiceWithin(part, own, `${within}${name}.`);
    }
  }
}

export function bodyOf({ body }: Pick<Exchange, 'body'>): JsonBody {
  if (body === null) throw new HubError('notJson', { message: 'Body is missing' });
  return body;
}

/** Refuses with `invalid` when an id in the body differs from that in the path, ignoring case. [D18] */
export function sameIds(
  path: Readonly<Record<string, string | undefined>>,
  body: Readonly<Record<string, unknown>>,
): void {
  for (const [field, inPath = ''] of Object.entries(path)) {
    const inBody = body[field];
    if (typeof inBody === 'string' && inBody.toLowerCase() !== inPath.toLowerCase()) {
      // The sentence is logged, and a uid is not. [MASK-1]
      const expected = field === 'uid' ? 'that' : `${JSON.stringify(inPath)}, as`;
      throw new HubError('invalid', { message: `${field}: expected ${expected} in the path` });
    }
  }
}

/** Characters of an id in a path, but of a CDR's. */
const idMax = 36;

/**
 * An id from the path that names a new object; refuses with `invalid`, including `.` and `..`, which would escape a
 * receiver's URL.
 */
export function pathId(params: Readonly<Record<string, string>>, name: string, max = idMax): string {
  const id = params[name] ?? '';
  if (/^[\x20-\x7e]+$/.test(id) && id.length <= max && id !== '.' && id !== '..') return id;
  throw new HubError('invalid', { message: `${name}: expected 1 to ${max} printable ASCII characters` });
}

export type Push = Pick<ObjectChange, 'module' | 'method' | 'id' | 'facts'> & Partial<Pick<ObjectChange, 'within'>>;

/**
 * The counterpart that `OCPI-to-*` names. Half of a party names none; `notes` says so, which nobody reads of a GET.
 * [D68]
 */
function addressed(exchange: Pick<Exchange, 'to'>): { to?: PartyId; notes: readonly string[] } {
  try {
    const named = exchange.to();
    return named ? { to: keyOf(named), notes: [] } : { notes: [] };
  } catch (error) {
    if (error instanceof HubError) return { notes: [String(error.detail.message)] };
    throw error;
  }
}

/**
 * The body of a PATCH, from a partner that may leave `last_updated` out: the time of arrival stands in for it in the
 * checked view, and the text stays as it came.
 */
export function checkedPatch<T extends object>(exchange: Exchange, type: Checked<T>): CheckedBody<T> {
  const { body, caller } = exchange;
  const { patch_without_last_updated: rule } = caller.partner.settings;
  const value = body?.value;
  const date = (value as { last_updated?: unknown } | null)?.last_updated ?? null;
  const isDated = typeof value !== 'object' || value === null || date !== null;
  if (rule !== 'accept' || body === null || isDated || Array.isArray(value)) return checkedBody(exchange, type);
  const dated = { ...body, value: { ...value, last_updated: exchange.arrivedAt() } };
  const checked = checkedBody({ body: dated }, type);
  return { ...checked, notes: [...checked.notes, 'last_updated: missing'], quirks: ['patch-without-date'] };
}

/** Passes a checked push to the hub; the caller owns the object. */
export function accept(
  hub: Hub,
  exchange: Exchange,
  push: Push,
  { body, value, text, notes, quirks = [] }: CheckedBody<{ last_updated: string }>,
): Promise<Accepted> {
  const { to, notes: half } = addressed(exchange);
  // A push of a location, tariff or token is for all.
  const isToHub = isOwned(push.module) && half.length === 0 && exchange.isToHub();
  const change: ObjectChange = {
    module: push.module,
    method: push.method,
    owner: exchange.caller.id,
    id: push.id,
    within: push.within ?? [],
    lastUpdated: body.last_updated,
    facts: push.facts,
    body: text,
    warnings: [...notes, ...half],
    quirks: [...quirks, ...quirksIn(value), ...(isToHub ? ['to-hub' as const] : [])],
    ...(to !== undefined && { to }),
  };
  return hub.accept(exchange.caller, change, exchange.reserve);
}

/** Takes pushes of the object that a path names by owner and id, the latter under `idName`; the caller owns it. */
export function pushOf<T extends { last_updated: string }>(
  module: ObjectModule,
  method: 'PUT' | 'PATCH',
  type: Checked<T>,
  factsOf: (checked: CheckedBody<T>, exchange: Exchange) => ObjectFacts,
  idName = 'id',
) {
  return async (hub: Hub, exchange: Exchange): Promise<Answer> => {
    const id = pathId(exchange.params, idName);
    const checked = method === 'PATCH' ? checkedPatch(exchange, type) : checkedBody(exchange, type);
    sameIds({ [idName]: id, ...pathParty(exchange.params) }, checked.value);
    await accept(hub, exchange, { module, method, id, facts: factsOf(checked, exchange) }, checked);
    return done();
  };
}

/** Reads a whole object from a partner's list by the same schema as a push. */
export function wholeObject<T extends { country_code: string; party_id: string; id: string; last_updated: string }>(
  type: Checked<T>,
  factsOf: (body: T, value: Readonly<Record<string, unknown>>) => ObjectFacts,
) {
  return (value: unknown, text: string): WholeObject => {
    const { body, notes } = check(type, value);
    refuseAmbiguous(text, type);
    const { country_code, party_id, id, last_updated: lastUpdated } = body;
    const facts = factsOf(body, value as Record<string, unknown>);
    return { country_code, party_id, id, lastUpdated, facts, warnings: notes, quirks: quirksIn(value as object) };
  };
}

export interface ListRequest {
  readonly reader: ListReader;
  readonly page: Page;
}

/** Reads the query of a list; refuses with `invalid`. */
export function listRequest(exchange: Exchange, module: string, demands: { dateFrom?: boolean } = {}): ListRequest {
  const { caller, query, pages, reads } = exchange;
  const read = readPage(query, pages, demands);
  const reader = { partner: caller.partner.id, party: caller.id, to: addressed(exchange).to, module };
  return { reader, page: reads.continued(reader, read) };
}

/** Answers a page of a list, and counts what the hub made up for, and the settings of the caller that made it what it is, or would help it. [D70] */
export function listedFor(
  hub: Hub,
  { caller, reads }: Exchange,
  { reader, page }: ListRequest,
  found: Listed<string>,
): Answer {
  const { module, partner } = reader;
  const used: Quirk[] = [];
  const goesBack = reads.answered(reader, page, { ...found, count: found.items.length });
  if (goesBack || isWithoutPrev(page, found)) used.push('first-link');
  if (page.continues === 'limits') used.push('own-limit');
  if (caller.partner.settings.pull_only) used.push('pull-only');
  hub.used({ partner, module, object: null }, used);
  return listed(addressOf(hub, `/${module}`), page, found);
}

/** The list of a module's stored objects. */
export const listRoute = (module: ObjectModule, by: CallerRule, demands: { dateFrom?: boolean } = {}): OcpiRoute => ({
  method: 'GET',
  path: `/${version}/${module}`,
  by,
  budget: `list:${module}`,
  async handle(hub, exchange) {
    const asked = listRequest(exchange, module, demands);
    const found = await hub.list(exchange.caller, module, asked.page.request, asked.reader.to);
    return listedFor(hub, exchange, asked, found);
  },
});

/** Text of a stored object, or of a part of a location. */
export function readText(hub: Hub, exchange: Exchange, query: Parameters<Hub['read']>[1]): Promise<string> {
  const { to } = addressed(exchange);
  return hub.read(exchange.caller, { ...query, ...(to !== undefined && { to }) }, exchange.reserve);
}

/** Answers with it. */
export async function answerObject(...of: Parameters<typeof readText>): Promise<Answer> {
  return stored(await readText(...of));
}

/** Answers the object that a path names by owner and id. */
export const readOf = (module: ObjectModule) => (hub: Hub, exchange: Exchange) => {
  const { params } = exchange;
  return answerObject(hub, exchange, { module, owner: keyOf(pathParty(params)), id: params.id ?? '', within: [] });
};

/** Nothing by which the hub decides is longer. */
const factMax = 255;

/**
 * A text that becomes a fact; null when it is none, or longer than any that the hub could find again. Facts are stored beside
 * the body, in the event and in the row.
 */
export const textFact = (value: unknown): string | null =>
  typeof value === 'string' && value.length <= factMax ? value : null;

/**
 * The party and uid that a `cdr_token` names; null when it is no object. That is no error: the session or CDR is
 * stored and not forwarded. [interface, Sessions 2]
 */
export function cdrTokenFact(value: unknown): CdrTokenFact | null {
  if (typeof value !== 'object' || value === null) return null;
  const { country_code, party_id, uid } = value as Record<string, unknown>;
  const [country, party] = [textFact(country_code), textFact(party_id)];
  return country !== null && party !== null
    ? { party: partyKey(country, party), uid: textFact(uid) ?? '' }
    : { party: null, uid: '' };
}
