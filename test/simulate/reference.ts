/**
 * What a push must make of an object and who must get it, written from the specification and not from the hub's code: on parsed
 * JSON, field by field. [interface, Locations, Sessions, CDRs; D4, D18, D19, D21, D23, D46]
 */
import type { ObjectChange } from '../../src/domain/object.ts';

export type Json = Record<string, unknown>;

/** Who sent a START_SESSION, and when it was accepted: epoch ms, and the time of day that the hub recorded. */
interface Start {
  readonly emsp: string;
  readonly at: number;
  readonly stamp: string;
}

/** Who is registered and which eMSP is routed to which CPO, at one moment of the log. */
export interface Directory {
  readonly registered: ReadonlySet<string>;
  /** `{emsp}/{cpo}`. */
  readonly routes: ReadonlySet<string>;
  /** CPOs with a COMPATIBILITY period, and its end, epoch ms. [D37] */
  readonly compatible: ReadonlyMap<string, number>;
  /** START_SESSIONs that CPOs accepted, by `{cpo} {what names it} {name}`. */
  readonly starts: ReadonlyMap<string, Start>;
  /** Stream of a session or CDR → its eMSP as stored. */
  readonly viewers: ReadonlyMap<string, string>;
}

export const emptyDirectory: Directory = {
  ...{ registered: new Set(), routes: new Set(), compatible: new Map(), starts: new Map(), viewers: new Map() },
};

export const startKey = (cpo: string, by: 'reference' | 'uid', name: string): string =>
  `${cpo} ${by} ${name.toLowerCase()}`;

/** When an object is looked at, and for how long a command counts. */
export interface Moment {
  readonly at: number;
  readonly compatibilityMs: number;
}

type Owned = Pick<ObjectChange, 'module' | 'owner'> & { readonly stream: string };

const itemsOf = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const sameName = (a: unknown, b: string) => typeof a === 'string' && a.toLowerCase() === b.toLowerCase();

function patched(before: Json, fragment: Json, appended: string | null): Json {
  const after: Json = { ...before };
  for (const [field, value] of Object.entries(fragment)) {
    after[field] =
      field === appended && Array.isArray(value) && Array.isArray(before[field])
        ? withNew(before[field], value)
        : value;
  }
  return after;
}

/** A period that is there already, to the letter, came twice: receivers are idempotent. [interface, Delivery rules 8] */
function withNew(before: readonly unknown[], items: readonly unknown[]): unknown[] {
  const known = new Set(before.map((item) => JSON.stringify(item)));
  return [...before, ...items.filter((item) => !known.has(JSON.stringify(item)))];
}

function replaced(items: readonly Json[], field: string, id: string, item: Json): Json[] {
  const at = items.findIndex((one) => sameName(one[field], id));
  return at < 0 ? [...items, item] : items.map((one, index) => (index === at ? item : one));
}

/** Of two dates as the world writes them, where the later one sorts last. */
const laterOf = (old: unknown, date: string | null) => (date === null || String(old) > date ? old : date);

/** The object after the change; null when the change must be refused as not found. */
export function changed(before: Json | null, change: ObjectChange): Json | null {
  if (change.method === 'DELETE') return before;
  const body = JSON.parse(change.body) as Json;
  if (change.within.length === 0) {
    if (change.method !== 'PATCH') return body;
    return before && patched(before, body, change.module === 'sessions' ? 'charging_periods' : null);
  }
  if (before === null) return null;
  const [evseUid = '', connectorId] = change.within;
  const evses = itemsOf(before.evses);
  const evse = evses.find((one) => sameName(one.uid, evseUid)) ?? null;
  // A change that a partner sends again moves no parent back. [OBJECT-3]
  const moved = (parent: Json) => ({ last_updated: laterOf(parent.last_updated, change.lastUpdated) });
  const item = (old: Json | null, field: string, id: string): Json | null => {
    if (change.method === 'PATCH') return old && patched(old, body, null);
    return field in body ? body : { ...body, [field]: id };
  };
  let next: Json | null;
  if (connectorId === undefined) next = item(evse, 'uid', evseUid);
  else {
    if (evse === null) return null;
    const connectors = itemsOf(evse.connectors);
    const old = connectors.find((one) => sameName(one.id, connectorId)) ?? null;
    const connector = item(old, 'id', connectorId);
    next = connector && { ...evse, connectors: replaced(connectors, 'id', connectorId, connector), ...moved(evse) };
  }
  return next && { ...before, evses: replaced(evses, 'uid', evseUid, next), ...moved(before) };
}

/** The eMSP that an object names in its `cdr_token`; null when it names none that can be read. */
function namedEmsp(object: Json): string | null {
  const token = object.cdr_token as { country_code?: string; party_id?: string } | null | undefined;
  return token?.country_code && token.party_id ? `${token.country_code}-${token.party_id}`.toUpperCase() : null;
}

/** The owning eMSP of a session or CDR: one that exists and is routed; else, while its CPO is in COMPATIBILITY, who started it. */
export function viewerOf(
  directory: Directory,
  emsps: ReadonlySet<string>,
  owned: Owned,
  object: Json,
  moment: Moment,
): string | null {
  const isRouted = (emsp: string | null) => emsp !== null && directory.routes.has(`${emsp}/${owned.owner}`);
  const named = namedEmsp(object);
  if (named !== null && emsps.has(named) && isRouted(named)) return named;
  const until = directory.compatible.get(owned.owner);
  const starter = until !== undefined && moment.at < until ? starterOf(directory, owned, object, moment) : null;
  return isRouted(starter) ? starter : null;
}

/** Whose it is already, or its session's, or who sent the command that fits. [interface, Sessions 3; D37] */
function starterOf(
  { viewers, starts }: Directory,
  { owner, stream, module }: Owned,
  object: Json,
  { at, compatibilityMs }: Moment,
): string | null {
  const own = viewers.get(stream);
  if (own !== undefined) return own;
  const session =
    module === 'cdrs' ? viewers.get(`sessions/${owner}/${String(object.session_id).toLowerCase()}`) : null;
  if (session) return session;
  const token = object.cdr_token as { country_code?: string; party_id?: string; uid?: string } | null | undefined;
  const names = [
    ['reference', object.authorization_reference],
    ['uid', token?.country_code && token.party_id ? token.uid : null],
  ] as const;
  for (const [by, name] of names) {
    const start = name ? starts.get(startKey(owner, by, String(name))) : undefined;
    if (start && at - start.at <= compatibilityMs) return start.emsp;
  }
  return null;
}

/** Whom a change is owed to. */
export function audienceOf(
  directory: Directory,
  emsps: ReadonlySet<string>,
  owned: Owned,
  before: Json | null,
  after: Json,
  moment: Moment,
  sent: ReadonlySet<string> = new Set(),
): string[] {
  const { module, owner } = owned;
  const isOwed = (party: string) => directory.registered.has(party);
  if (module === 'sessions' || module === 'cdrs') {
    const viewer = viewerOf(directory, emsps, owned, after, moment);
    return viewer !== null && isOwed(viewer) ? [viewer] : [];
  }
  const wasPublic = before !== null && before.publish !== false;
  if (after.publish === false && !wasPublic) return [];
  return [...directory.routes].flatMap((route) => {
    const [emsp = '', cpo = ''] = route.split('/');
    const [own, other] = module === 'tokens' ? [emsp, cpo] : [cpo, emsp];
    // Who was not sent it is not told that it goes private. [D21]
    const isTold = after.publish !== false || sent.has(other);
    return own === owner && isOwed(other) && isTold ? [other] : [];
  });
}

export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  const [left, right] = [Object.entries(a), b as Json];
  return (
    left.length === Object.keys(right).length && left.every(([key, value]) => key in right && same(value, right[key]))
  );
}
