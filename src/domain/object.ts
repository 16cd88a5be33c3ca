/**
 * A stored OCPI object and how a push changes it. The core knows a module, an owner, an id and a body; what the hub relies on
 * inside a body is read once by the door and travels beside it as `facts`.
 *
 * OBJECT-1  A PUT or POST stores exactly the text that came. [D17]
 * OBJECT-2  A PATCH replaces the fields it carries, whole; `charging_periods` of a session are appended. One that is there already is
 *     not appended again: a PATCH may come twice when its answer was lost. [D19; interface, Delivery rules 8]
 * OBJECT-3  An EVSE or connector update moves `last_updated` of its parents. [D18]
 * OBJECT-4  Folding the same pushes in the same order gives the same object, so a projection can be rebuilt from the log.
 */
import { appendNewItems, findItem, members, setMembers, slice, splice, upsertItem } from './json-text.ts';
import type { PartyId } from './party.ts';

export type ObjectModule = 'locations' | 'tariffs' | 'sessions' | 'cdrs' | 'tokens';
export type PushMethod = 'PUT' | 'PATCH' | 'POST' | 'DELETE';

/** The party named by a `cdr_token`, and its uid. */
export interface CdrTokenFact {
  readonly party: PartyId;
  readonly uid: string;
}

/** What the hub relies on in a body. A PATCH carries only those it changes. */
export interface ObjectFacts {
  /** Locations. */
  readonly publish?: boolean;
  /** Sessions and CDRs; null when the body has none that can be read. */
  readonly cdrToken?: CdrTokenFact | null;
  /** Sessions. */
  readonly status?: string;
  readonly authorizationReference?: string | null;
  /** CDRs: the session it bills. */
  readonly sessionId?: string | null;
  /** Tokens: type, part of the key. */
  readonly tokenType?: string;
}

/** What a door hands over: one authenticated, validated push. */
export interface ObjectChange {
  readonly module: ObjectModule;
  readonly method: PushMethod;
  readonly owner: PartyId;
  /** In the case in which it came. A token's is `uid` alone; its type stands in the facts. */
  readonly id: string;
  /** Below a location: `[]`, `[evse_uid]` or `[evse_uid, connector_id]`. */
  readonly within: readonly string[];
  /** The body's `last_updated` as it came; null for DELETE. */
  readonly lastUpdated: string | null;
  readonly facts: ObjectFacts;
  /** Exactly the text that was received; empty for DELETE. */
  readonly body: string;
  /** What the door noted and did not refuse, for the trace. [D17] */
  readonly warnings?: readonly string[];
}

/** What of a change decides the body. */
export type BodyChange = Pick<ObjectChange, 'module' | 'method' | 'within' | 'lastUpdated' | 'body'>;

export interface HubObject {
  readonly module: ObjectModule;
  readonly owner: PartyId;
  /** Lower-cased id (tokens: with their type), unique per module and owner. [D12] */
  readonly key: string;
  /** In the case in which it was first stored. */
  readonly id: string;
  /** The body's own, as text. */
  readonly lastUpdated: string;
  readonly facts: ObjectFacts;
  readonly body: string;
  /** Owning eMSP of a session or CDR; null without a usable `cdr_token`. */
  readonly viewer: PartyId | null;
  /** Why it was not forwarded when it was last stored; null when it was. [D23] */
  readonly reason: string | null;
  /** Whether a delivery of it was ever owed to anyone. */
  readonly forwarded: boolean;
  /**
   * Receivers that were owed it whole, in order of id, without those whom it never reached. Absent: of a session or CDR its eMSP has it if
   * it was forwarded; of anything else that an earlier version stored and forwarded, each receiver that is owed a change. [D59, D82]
   */
  readonly sent?: readonly PartyId[];
}

/** `{cc}-{pid}/{id}`, the name of an object for operators. */
export function objectName(object: Pick<HubObject, 'owner' | 'id'>): string {
  return `${object.owner}/${object.id}`;
}

export function objectKey(module: ObjectModule, id: string, facts: ObjectFacts): string {
  const key = id.toLowerCase();
  return module === 'tokens' ? `${key}/${facts.tokenType ?? 'RFID'}` : key;
}

/** The event stream, and the lane, of an object. */
export function streamOf(module: ObjectModule, owner: PartyId, key: string): string {
  return `${module}/${owner}/${key}`;
}

/** The form in which nearly all dates come, valid without asking the calendar: UTC, a day that its month has in any year. */
const plainDate =
  /^\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.(\d+))?Z?$/;

/** A date as sortable text: UTC, nine digits of fraction, no designator. Undefined when it is not RFC 3339. [D31] */
export function sortableDate(text: string): string | undefined {
  const plain = plainDate.exec(text);
  if (plain) return `${text.slice(0, 19)}.${(plain[1] ?? '').slice(0, 9).padEnd(9, '0')}`;
  const match = /^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|z|[+-]\d\d:\d\d)?$/.exec(text);
  if (!match) return undefined;
  const [, day, time, fraction = '', zone] = match;
  const instant = new Date(`${day}T${time}${zone === undefined || zone === 'z' ? 'Z' : zone}`);
  if (Number.isNaN(instant.getTime())) return undefined;
  // A day that does not exist (31 April) is read by Date as the next month's: refuse what does not come back the same.
  const wall = new Date(`${day}T${time}Z`);
  if (Number.isNaN(wall.getTime()) || wall.toISOString().slice(0, 10) !== day) return undefined;
  const utc = instant.toISOString();
  // An offset may lead out of the years that four digits hold; their text would not sort.
  return /^\d/.test(utc) ? `${utc.slice(0, 19)}.${fraction.slice(0, 9).padEnd(9, '0')}` : undefined;
}

function patchText(text: string, fragment: string, append: string | null): string {
  const values = new Map<string, string>();
  const present = members(text);
  for (const [key, span] of members(fragment)) {
    const value = slice(fragment, span);
    const old = key === append ? present.get(key) : undefined;
    const bothArrays = old !== undefined && text[old.start] === '[' && value.startsWith('[');
    values.set(key, bothArrays ? appendNewItems(slice(text, old), value) : value);
  }
  return setMembers(text, values);
}

/** Puts `item` (or, as a fragment, its fields) at `path` below a location and moves the parents' `last_updated`. */
function changeWithin(body: string, change: BodyChange): string | null {
  const [evseUid = '', connectorId] = change.within;
  const moved = new Map([['last_updated', JSON.stringify(change.lastUpdated)]]);
  const asItem = (old: string | null, idField: string, id: string): string | null => {
    if (change.method !== 'PATCH') {
      return members(change.body).has(idField)
        ? change.body
        : setMembers(change.body, new Map([[idField, JSON.stringify(id)]]));
    }
    return old === null ? null : patchText(old, change.body, null);
  };
  const evseSpan = findItem(body, 'evses', 'uid', evseUid);
  const oldEvse = evseSpan ? slice(body, evseSpan) : null;
  let evse: string | null;
  if (connectorId === undefined) evse = asItem(oldEvse, 'uid', evseUid);
  else {
    if (oldEvse === null) return null;
    const span = findItem(oldEvse, 'connectors', 'id', connectorId);
    const connector = asItem(span ? slice(oldEvse, span) : null, 'id', connectorId);
    evse =
      connector === null ? null : setMembers(upsertItem(oldEvse, 'connectors', 'id', connectorId, connector), moved);
  }
  return evse === null ? null : setMembers(upsertItem(body, 'evses', 'uid', evseUid, evse), moved);
}

/**
 * The body after a change; null when the change needs something that is not there (PATCH never creates, an EVSE needs its
 * location, a connector its EVSE). [D4, D46]
 */
export function changedBody(before: string | null, change: BodyChange): string | null {
  if (change.within.length > 0) return before === null ? null : changeWithin(before, change);
  if (change.method !== 'PATCH') return change.body;
  if (before === null) return null;
  return patchText(before, change.body, change.module === 'sessions' ? 'charging_periods' : null);
}

/** The EVSE or connector of a location, as stored text; the location itself for an empty path. */
export function readWithin(body: string, within: readonly string[]): string | null {
  const steps = [
    ['evses', 'uid'],
    ['connectors', 'id'],
  ] as const;
  let text = body;
  for (const [depth, id] of within.entries()) {
    const step = steps[depth];
    const span = step ? findItem(text, step[0], step[1], id) : null;
    if (!span) return null;
    text = slice(text, span);
  }
  return text;
}

/** The text with the value of one own field replaced, everything else byte for byte as it was. */
export function replaceField(text: string, field: string, value: string): string {
  const span = members(text).get(field);
  return span ? splice(text, [{ span, value: JSON.stringify(value) }]) : text;
}

/** Whether two JSON values are the same apart from some fields at the top. */
export function sameJson(a: unknown, b: unknown, except: ReadonlySet<string> = new Set()): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const left = Object.entries(a).filter(([key]) => !except.has(key));
  const right = new Map(Object.entries(b).filter(([key]) => !except.has(key)));
  return left.length === right.size && left.every(([key, value]) => right.has(key) && sameJson(value, right.get(key)));
}
