/**
 * Routing rules of eMSP–CPO pairs, and the audience (recipients) of a location, tariff or token.
 * [interface, What the service does 2]
 */
import { isOwned, modules, type ObjectModule, pairOf } from './modules.ts';
import type { HubObject } from './object.ts';
import type { PartyId } from './party.ts';

export interface Route {
  readonly emsp: PartyId;
  readonly cpo: PartyId;
  readonly active: boolean;
}

/** The present state of partners and routes that the rules query. */
export interface Directory {
  /** Whether there is an active routing rule for the pair. */
  isRouted(emsp: PartyId, cpo: PartyId): boolean;
  /** Registered eMSPs with an active rule for a CPO, and registered CPOs for an eMSP, in order of id. */
  emspsOf(cpo: PartyId): readonly PartyId[];
  cposOf(emsp: PartyId): readonly PartyId[];
  isEmsp(party: PartyId): boolean;
  /** Whether the party's partner has a hub token: it has not unregistered since it got one. */
  isRegistered(party: PartyId): boolean;
  /** Whether the party's partner is owed deliveries: it is registered, and not pull only. [D89] */
  isOwed(party: PartyId): boolean;
  /** Whether the party's partner has a receiver for the module. */
  receives(party: PartyId, module: ObjectModule): boolean;
  /** The hub's own party. */
  readonly hub: PartyId;
}

/** The receivers of a change and the form that they get; `reason` says why, when there are none. */
export interface Audience {
  readonly to: readonly PartyId[];
  /**
   * Receivers that get the whole object as PUT instead of a partial change, because they may never have had it, or miss an
   * earlier change of it. [D21, D59]
   */
  readonly whole: readonly PartyId[];
  readonly reason: string | null;
  /** Routed eMSPs without a receiver for the module: they read its list if they want it. [D60] */
  readonly unsubscribed?: readonly PartyId[];
}

/** The reason when `OCPI-to-*` names a party that no active routing rule joins to the owner. [D68] */
export const notRoutedTo = 'OCPI-to not routed';

export const nobody = (reason: string): Audience => ({ to: [], whole: [], reason });

/** Whether an active routing rule joins the owner of an object and a receiver. */
export function isJoined(
  directory: Pick<Directory, 'isRouted'>,
  module: ObjectModule,
  owner: PartyId,
  receiver: PartyId,
): boolean {
  const { emsp, cpo } = pairOf(module, owner, receiver);
  return directory.isRouted(emsp, cpo);
}

/** Makes a predicate: whether a receiver was owed the whole object and did not miss it. */
function sentTo(before: Pick<HubObject, 'sent' | 'forwarded'> | null): (receiver: PartyId) => boolean {
  if (!before?.sent) return () => before?.forwarded === true;
  const sent = new Set(before.sent);
  return (receiver) => sent.has(receiver);
}

/**
 * Audience of a location, tariff or token: every routed counterpart, or the one that `named` says, but nobody for an
 * unpublished location. A DELETE also goes to all receivers that the object was sent to. [D62, D68, D82]
 *
 * What ends an object, or makes a location private, goes to all who have it: the hub keeps one copy for all of them. An
 * eMSP whose routing rule has ended gets no body any more, so it does not hear that a location is private. [D21]
 */
export function catalogueAudience(
  directory: Directory,
  before: Pick<HubObject, 'facts' | 'sent' | 'outdated' | 'forwarded'> | null,
  after: Pick<HubObject, 'module' | 'owner' | 'facts'>,
  change: 'whole' | 'part' | 'end',
  named?: PartyId,
): Audience {
  const wasPublic = before !== null && before.facts.publish !== false;
  const isPublic = after.facts.publish !== false;
  // The change that makes a location private goes only to receivers that have the public copy; later changes go to
  // nobody. [D21]
  if (!isPublic && !wasPublic) return nobody('unpublished');
  const everyone =
    modules[after.module].owner === 'CPO' ? directory.emspsOf(after.owner) : directory.cposOf(after.owner);
  const isNarrowed = named !== undefined && isPublic && change !== 'end';
  const counterparts = isNarrowed ? everyone.filter((id) => id === named) : everyone;
  const owed = counterparts.filter((id) => directory.isOwed(id));
  const routed = isPublic ? owed : owed.filter(sentTo(before));
  const had = change === 'end' ? (before?.sent ?? []).filter((id) => directory.isOwed(id)) : [];
  const all = had.length > 0 ? [...new Set([...routed, ...had])].sort() : routed;
  if (all.length === 0 && owed.length === 0 && counterparts.length > 0) return nobody('pull only');
  if (isNarrowed && all.length === 0) return nobody(notRoutedTo);
  if (all.length === 0) return nobody(counterparts.length === 0 ? 'no routing rule' : 'unpublished');
  const { to, ...rest } = subscribers(directory, after.module, all);
  if (to.length === 0) return { ...nobody('not subscribed'), ...rest };
  if (change !== 'part') return { to, whole: [], reason: null, ...rest };
  const appears = before !== null && !wasPublic && isPublic;
  if (appears) return { to, whole: to, reason: null, ...rest };
  const wasSent = sentTo(before);
  // What is private now goes to nobody as a whole. [D21]
  const isOutdated = (id: PartyId) => isPublic && before?.outdated?.includes(id) === true;
  return { to, whole: to.filter((id) => !wasSent(id) || isOutdated(id)), reason: null, ...rest };
}

/** Whether the module is a catalogue for which the eMSP has no endpoint: it reads the list of the hub. [D60] */
export const isUnsubscribed = (directory: Pick<Directory, 'receives'>, module: ObjectModule, emsp: PartyId): boolean =>
  modules[module].owner === 'CPO' && !isOwned(module) && !directory.receives(emsp, module);

/** Receivers of a catalogue or of tokens, without the eMSPs that are not subscribed. [D60] */
function subscribers(
  directory: Directory,
  module: ObjectModule,
  all: readonly PartyId[],
): Pick<Audience, 'to' | 'unsubscribed'> {
  const isOut = (id: PartyId) => isUnsubscribed(directory, module, id);
  if (!all.some(isOut)) return { to: all };
  return { to: all.filter((id) => !isOut(id)), unsubscribed: all.filter(isOut) };
}
