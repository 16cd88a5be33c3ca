/**
 * A stored OCPI object, and how a push changes it. The core knows only a module, an owner, an id and a body; the door
 * reads the fields of the body that the hub relies on, once, and passes them on as `facts`.
 *
 * OBJECT-1  A PUT or POST stores exactly the text that was received. [D17]
 * OBJECT-2  A PATCH replaces each field that it carries as a whole, but appends to the `charging_periods` of a session.
 *     A period that is already stored is not appended again, because a partner repeats a PATCH whose answer was lost.
 *     Null, or one period without its list, takes no stored period away. [D19; interface, Delivery rules 8] Nor does null
 *     take away a field by whose value the hub decides: it counts as left out.
 * OBJECT-3  An update of an EVSE or connector also moves `last_updated` of its parents, never back: who reads lists by
 *     date would miss what came before. [D18]
 * OBJECT-4  Folding the same pushes in the same order gives the same object, so a projection can be rebuilt from the
 *     log.
 */
import { appendNewItems } from './json-items.ts';
import { atOnce, findItem, members, membersInPieces, setMembers, slice, splice, upsertItem } from './json-text.ts';
import { modules, type ObjectModule } from './modules.ts';
import { type PartyId, type PartyRole, partyKey } from './party.ts';
import type { Quirk } from './quirks.ts';

export type PushMethod = 'PUT' | 'PATCH' | 'POST' | 'DELETE';

/** The party and the uid in a `cdr_token`. */
export interface CdrTokenFact {
  /** Null when the token names no party. [D75] */
  readonly party: PartyId | null;
  readonly uid: string;
}

/** The fields of a body that the hub relies on. The facts of a PATCH have only the fields that it changes. */
export interface ObjectFacts {
  /** Locations. */
  readonly publish?: boolean;
  /** Sessions and CDRs; null when the body has no readable `cdr_token`. */
  readonly cdrToken?: CdrTokenFact | null;
  /** Sessions. */
  readonly status?: string;
  readonly authorizationReference?: string | null;
  /** CDRs: id of the session that the CDR bills. */
  readonly sessionId?: string | null;
  /** Tokens: type, part of the key. */
  readonly tokenType?: string;
}

/** What a change of an object is. */
export interface NamedChange {
  readonly module: ObjectModule;
  readonly method: PushMethod;
  readonly owner: PartyId;
  /** Id in the case in which it was received. The id of a token is its `uid`; its type is in the facts. */
  readonly id: string;
  /** Path below a location: `[]`, `[evse_uid]` or `[evse_uid, connector_id]`. */
  readonly within: readonly string[];
  /** The body's `last_updated` as received; null for DELETE. */
  readonly lastUpdated: string | null;
  readonly facts: ObjectFacts;
}

/** One authenticated, validated push, as a door passes it to the hub. */
export interface ObjectChange extends NamedChange {
  /** The body exactly as received; empty for DELETE. */
  readonly body: string;
  /** Deviations that the door noted for the trace but did not refuse. [D17] */
  readonly warnings?: readonly string[];
  /** Habits of the partner that the object shows as a whole. [D70] */
  readonly quirks?: readonly Quirk[];
  /** The party that `OCPI-to-*` names; absent for none, the hub or the caller. [D68] */
  readonly to?: PartyId;
  /** What `changedBody` gives of the object, where that is known already. */
  readonly after?: string | null;
}

/** A whole object as its owner lists it: the fields that the hub relies on. */
export interface WholeObject extends Pick<PartyRole, 'country_code' | 'party_id'> {
  readonly id: string;
  readonly lastUpdated: string;
  readonly facts: ObjectFacts;
  readonly warnings: readonly string[];
  /** Habits of the partner that the object shows as a whole. */
  readonly quirks: readonly Quirk[];
}

/** The fields of a change that determine the new body. */
export type BodyChange = Pick<ObjectChange, 'module' | 'method' | 'within' | 'lastUpdated' | 'body'>;

export interface HubObject {
  readonly module: ObjectModule;
  readonly owner: PartyId;
  /** Lower-case id (for tokens with the type), unique per module and owner. [D12] */
  readonly key: string;
  /** Id in the case in which it was first stored. */
  readonly id: string;
  /** `last_updated` of the body, as text. */
  readonly lastUpdated: string;
  readonly facts: ObjectFacts;
  readonly body: string;
  /** Owning eMSP of a session or CDR; null without a usable `cdr_token`. */
  readonly viewer: PartyId | null;
  /** Why the last stored change was not forwarded; null when it was. [D23] */
  readonly reason: string | null;
  /** Whether a delivery of the object was ever owed to any receiver. */
  readonly forwarded: boolean;
  /**
   * Receivers that were owed the whole object, in order of id, without those that it never reached. When absent: a
   * session or CDR was sent to its eMSP if it was `forwarded`; any other object, which an earlier version stored and
   * forwarded, counts as sent to every receiver that is owed a change. [D59, D82]
   */
  readonly sent?: readonly PartyId[];
  /**
   * Of those in `sent`, the ones that a later change passed by, or did not reach: the next part goes to them as a whole.
   * In order of id; absent for none, and for sessions and CDRs, whose receiver is taken out of `sent` instead.
   */
  readonly outdated?: readonly PartyId[];
  /**
   * Its owner has deleted it, and those in `sent` still have it, because nothing was owed to them then. It has no body, and
   * is stored only until its end was sent to all of them. [RESENDS-5]
   */
  readonly ended?: true;
}

/** Name of an object for operators: `{cc}-{pid}/{id}`. */
export function objectName(object: Pick<HubObject, 'owner' | 'id'>): string {
  return `${object.owner}/${object.id}`;
}

export interface Named {
  readonly owner: PartyId;
  readonly id: string;
  /** `{cc}-{pid}/{id}`. */
  readonly name: string;
}

/** Owner and id that a parsed object states, even when the rest is invalid; null when they are missing or unusable. */
export function namedIn(value: unknown): Named | null {
  if (typeof value !== 'object' || value === null) return null;
  const { country_code, party_id, id } = value as Record<string, unknown>;
  if (!isName(country_code) || !isName(party_id) || !isName(id)) return null;
  const owner = partyKey(country_code, party_id);
  return { owner, id, name: objectName({ owner, id }) };
}

const isName = (value: unknown): value is string => typeof value === 'string' && /^[\x20-\x7e]{1,39}$/.test(value);

/** The session whose undelivered updates a CDR follows; null for any other object. */
export function followedSession({ module, facts }: Pick<HubObject, 'module' | 'facts'>): string | null {
  return modules[module].isImmutable ? (facts.sessionId?.toLowerCase() ?? null) : null;
}

/** The later one of two dates as they were received; the second where they are equal, or one of them is none. */
export function laterDate(before: string | null, now: string | null): string | null {
  const [old, next] = [before && sortableDate(before), now && sortableDate(now)];
  return now === null || (old && next && old > next) ? before : now;
}

/** Types of a token. */
export const tokenTypes = ['AD_HOC_USER', 'APP_USER', 'OTHER', 'RFID'] as const;

/** Type of a token; RFID when the partner gave none. */
export const typeOf = ({ tokenType = 'RFID' }: ObjectFacts): string => tokenType;

export function objectKey(module: ObjectModule, id: string, facts: ObjectFacts): string {
  const key = id.toLowerCase();
  return modules[module].isKeyedByType ? `${key}/${typeOf(facts)}` : key;
}

/** Name of the event stream, and of the lane, of an object. */
export function streamOf(module: ObjectModule, owner: PartyId, key: string): string {
  return `${module}/${owner}/${key}`;
}

/** Key of an object, taken from the name of its stream. */
export const keyIn = ({ stream }: { readonly stream: string }): string => stream.split('/').slice(2).join('/');

/**
 * Fast path for nearly all dates: UTC, on a day that exists in its month in any year, so no calendar check is needed.
 */
const plainDate =
  /^\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.(\d+))?Z?$/;

/** Java leaves out seconds of 0, and PHP and Java the colon of the offset. */
const isoDate = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d+))?)?(?:[Zz]|([+-]\d\d)(?::?(\d\d))?)?$/;
const rfcDate = /^[\d-]{10}[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)?$/;

/** Whether a date that `sortableDate` takes has a form of RFC 3339, but for a blank in place of the T. */
export const isRfcDate = (text: string): boolean => rfcDate.test(text);

/** Whether a date has the form in which nearly all are written: `sortableDate` takes it, and needs no calendar. */
export const isPlainDate = (text: string): boolean => plainDate.test(text);

/**
 * Normalizes a date to sortable text: UTC, nine digits of fraction, no zone designator. Undefined when the text is no date with
 * a time of ISO 8601, as the interface has it, of which RFC 3339 lacks some forms; a blank may stand for the T. [D31, D71]
 */
export function sortableDate(text: string): string | undefined {
  const plain = plainDate.exec(text);
  if (plain) return `${text.slice(0, 10)}T${text.slice(11, 19)}.${(plain[1] ?? '').slice(0, 9).padEnd(9, '0')}`;
  const match = isoDate.exec(text);
  if (!match) return undefined;
  const [, day, minute, second = '00', fraction = '', hours, minutes = '00'] = match;
  const time = `${minute}:${second}`;
  const instant = new Date(`${day}T${time}${hours === undefined ? 'Z' : `${hours}:${minutes}`}`);
  if (Number.isNaN(instant.getTime())) return undefined;
  // Date turns a day that does not exist (31 April) into one of the next month, so the day is rejected unless it
  // survives the round trip.
  const wall = new Date(`${day}T${time}Z`);
  if (Number.isNaN(wall.getTime()) || wall.toISOString().slice(0, 10) !== day) return undefined;
  const utc = instant.toISOString();
  // An offset may move the date beyond four-digit years, whose text would not sort.
  return /^\d/.test(utc) ? `${utc.slice(0, 19)}.${fraction.slice(0, 9).padEnd(9, '0')}` : undefined;
}

/** Epoch ms of a date that `sortableDate` takes; NaN for any other text. */
export const dateMs = (text: string): number => Date.parse(`${sortableDate(text)}Z`);

const ofToken: ReadonlySet<string> = new Set(['country_code', 'party_id', 'uid', 'type', 'contract_id']);
/** Objects, or arrays of objects, on whose fields the hub decides, too: of a body, and within those (connectors of an EVSE). */
export const decisiveWithin: Readonly<Record<string, ReadonlySet<string>>> = {
  cdr_token: ofToken,
  token: ofToken,
  evses: new Set(['uid', 'status', 'last_updated', 'connectors']),
  connectors: new Set(['id', 'last_updated']),
  roles: new Set(['role', 'country_code', 'party_id']),
};

/** Fields on whose values the hub decides, in any body. */
export const decisive: ReadonlySet<string> = new Set([
  ...['country_code', 'party_id', 'id', 'uid', 'type', 'status', 'publish', 'last_updated', 'contract_id', 'role'],
  ...['response_url', 'location_id', 'session_id', 'reservation_id', 'url', 'result', 'authorization_reference'],
  ...['charging_periods', ...Object.keys(decisiveWithin)],
]);

/** A fragment without `last_updated` moves it to `lastUpdated`, its arrival. `append`: the field whose items are appended. */
function* patchText(
  text: string,
  fragment: string,
  lastUpdated: string | null,
  append?: string | null,
): Generator<void, string> {
  const values = new Map<string, string>(lastUpdated === null ? [] : [['last_updated', JSON.stringify(lastUpdated)]]);
  const present = yield* membersInPieces(text);
  for (const [key, span] of yield* membersInPieces(fragment)) {
    const value = slice(fragment, span);
    if (value === 'null' && decisive.has(key)) continue;
    const old = key === append ? present.get(key) : undefined;
    const isGrowing = old !== undefined && text[old.start] === '[';
    values.set(key, isGrowing ? yield* appendNewItems(slice(text, old), listOf(value)) : value);
  }
  return setMembers(text, values, present);
}

/** The text of a list, or of one item without it, as a list; any other value has no items. */
function listOf(text: string): string {
  if (text.startsWith('[')) return text;
  return text.startsWith('{') ? `[${text}]` : '[]';
}

/**
 * Puts an EVSE or connector (for PATCH: its fields) into a location and sets `last_updated` of its parents. [OBJECT-3]
 */
function changeWithin(body: string, change: BodyChange): string | null {
  const [evseUid = '', connectorId] = change.within;
  const moved = (parent: string): string => {
    const present = members(parent);
    const last = laterDate(dateIn(parent, present), change.lastUpdated);
    return setMembers(parent, new Map([['last_updated', JSON.stringify(last)]]), present);
  };
  const asItem = (old: string | null, idField: string, id: string): string | null => {
    if (change.method !== 'PATCH') {
      const own = members(change.body).get(idField);
      const isNamed = own !== undefined && slice(change.body, own) !== 'null';
      return isNamed ? change.body : setMembers(change.body, new Map([[idField, JSON.stringify(id)]]));
    }
    return old === null ? null : atOnce(patchText(old, change.body, change.lastUpdated));
  };
  const evseSpan = findItem(body, 'evses', 'uid', evseUid);
  const oldEvse = evseSpan ? slice(body, evseSpan) : null;
  let evse: string | null;
  if (connectorId === undefined) evse = asItem(oldEvse, 'uid', evseUid);
  else {
    if (oldEvse === null) return null;
    const span = findItem(oldEvse, 'connectors', 'id', connectorId);
    const connector = asItem(span ? slice(oldEvse, span) : null, 'id', connectorId);
    evse = connector === null ? null : moved(upsertItem(oldEvse, 'connectors', connector, span));
  }
  return evse === null ? null : moved(upsertItem(body, 'evses', evse, evseSpan));
}

/**
 * The body after a change; null when the target of the change does not exist: a PATCH never creates, an EVSE needs its
 * location, a connector its EVSE. [D4, D46]
 */
export const changedBody = (before: string | null, change: BodyChange): string | null =>
  atOnce(changedInPieces(before, change));

/** The same in pieces, as far as the body is changed at its top. */
export function* changedInPieces(before: string | null, change: BodyChange): Generator<void, string | null> {
  if (change.within.length > 0) return before === null ? null : changeWithin(before, change);
  if (change.method !== 'PATCH') return change.body;
  if (before === null) return null;
  return yield* patchText(before, change.body, change.lastUpdated, modules[change.module].appends);
}

/** The lists below a location, and the field that names an item of them. */
const steps = [
  ['evses', 'uid'],
  ['connectors', 'id'],
] as const;

/** The stored texts along a path below a location, up to the first that is missing; the location itself comes first. */
function textsAlong(body: string, within: readonly string[]): string[] {
  const found = [body];
  for (const [depth, id] of within.entries()) {
    const [text = '', step] = [found[depth], steps[depth]];
    const span = step ? findItem(text, step[0], step[1], id) : null;
    if (!span) break;
    found.push(slice(text, span));
  }
  return found;
}

/** The stored text of an EVSE or connector of a location; for an empty path the location itself. */
export function readWithin(body: string, within: readonly string[]): string | null {
  return textsAlong(body, within)[within.length] ?? null;
}

/**
 * A path below a location with the ids in the case in which they are stored, and as given where they are not. What is
 * replaced has the id that its new text has, which is the one that was given. [D12, D18]
 */
export function storedWithin(
  body: string | null,
  { method, within }: Pick<ObjectChange, 'method' | 'within'>,
): readonly string[] {
  const named = method === 'PATCH' ? within : within.slice(0, -1);
  // Most bodies are written without blanks, and have the id as it is given: only others are looked through.
  const isAsGiven = (id: string, depth: number) =>
    id.toLowerCase() === id.toUpperCase() || body?.includes(`"${steps[depth]?.[1]}":${JSON.stringify(id)}`);
  if (body === null || named.every(isAsGiven)) return within;
  const [, ...texts] = textsAlong(body, named);
  return within.map((id, depth) => {
    const [text, step] = [texts[depth], steps[depth]];
    const span = text !== undefined && step && members(text).get(step[1]);
    return span ? String(JSON.parse(slice(text, span))) : id;
  });
}

/** `last_updated` of an object, or of its EVSE or connector; null when there is none. */
export function lastUpdatedOf({ body, lastUpdated }: HubObject, within: readonly string[]): string | null {
  if (within.length === 0) return lastUpdated;
  const part = readWithin(body, within);
  return part && dateIn(part);
}

function dateIn(text: string, present = members(text)): string | null {
  const span = present.get('last_updated');
  const date: unknown = span && JSON.parse(slice(text, span));
  return typeof date === 'string' ? date : null;
}

/** Replaces the value of one top-level field and keeps everything else byte for byte. */
export function replaceField(text: string, field: string, value: string): string {
  const span = members(text).get(field);
  return span ? splice(text, [{ span, value: JSON.stringify(value) }]) : text;
}

/** Ids, which compare in any case: of an object, and of those of its members that name others. [D12] */
const namesOthers: ReadonlySet<string> = new Set(['cdr_token', 'cdr_location', 'tariffs']);
const caseless: ReadonlySet<string> = new Set(['country_code', 'party_id', 'id', 'uid', 'contract_id', 'session_id']);

/**
 * Whether two JSON values say the same, ignoring the top-level fields in `except`. A field that is null or an empty list
 * says no more than one that is left out, two notations of a date say the same, and so do ids in another case.
 */
export function sameJson(a: unknown, b: unknown, except: ReadonlySet<string> = new Set(), hasIds = true): boolean {
  if (a === b) return true;
  if (typeof a === 'string' && typeof b === 'string') return isSameDate(a, b);
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const said = (object: object) =>
    Object.entries(object).filter(([key, value]) => !except.has(key) && (Array.isArray(object) || !isNothing(value)));
  const left = said(a);
  const right = new Map(said(b));
  const isSaid = ([key, value]: readonly [string, unknown]) => {
    const other = right.get(key);
    const isId = hasIds && caseless.has(key) && typeof value === 'string' && typeof other === 'string';
    if (isId) return value.toLowerCase() === other.toLowerCase();
    return right.has(key) && sameJson(value, other, undefined, hasIds && (Array.isArray(a) || namesOthers.has(key)));
  };
  return left.length === right.size && left.every(isSaid);
}

const isNothing = (value: unknown) => value === null || (Array.isArray(value) && value.length === 0);

function isSameDate(a: string, b: string): boolean {
  const date = sortableDate(a);
  return date !== undefined && date === sortableDate(b);
}
