/**
 * Who gets what: routing rules of eMSP–CPO pairs, and the audience of a catalogue object. [interface, What the service does 2]
 */
import type { HubObject } from './object.ts';
import type { PartyId } from './party.ts';

export interface Route {
  readonly emsp: PartyId;
  readonly cpo: PartyId;
  readonly active: boolean;
}

/** What the rules ask of the present state. */
export interface Directory {
  /** Active routing rule between the two. */
  isRouted(emsp: PartyId, cpo: PartyId): boolean;
  /** Registered eMSPs with an active rule for a CPO, and the other way round, in order of id. */
  emspsOf(cpo: PartyId): readonly PartyId[];
  cposOf(emsp: PartyId): readonly PartyId[];
  isEmsp(party: PartyId): boolean;
  /** Whether its partner has exchanged credentials and not unregistered since: only then is anything owed to it. */
  isRegistered(party: PartyId): boolean;
  /** The hub's own party. */
  readonly hub: PartyId;
}

/** Who is owed a copy of a change, as what, and why nobody when nobody is. */
export interface Audience {
  readonly to: readonly PartyId[];
  /** Those of them who get the whole object as PUT in place of a change that is less, since they may never have had it. [D21, D59] */
  readonly whole: readonly PartyId[];
  readonly reason: string | null;
}

export const nobody = (reason: string): Audience => ({ to: [], whole: [], reason });

/** Tells whether a receiver was owed the whole of an object, and did not miss it. */
function sentTo(before: Pick<HubObject, 'sent' | 'forwarded'> | null): (receiver: PartyId) => boolean {
  if (!before?.sent) return () => before?.forwarded === true;
  const sent = new Set(before.sent);
  return (receiver) => sent.has(receiver);
}

/**
 * Audience of a location, tariff or token: every routed counterpart; of unpublished locations nobody. A DELETE goes to all who were sent it,
 * too. [D62, D82]
 */
export function catalogueAudience(
  directory: Directory,
  before: Pick<HubObject, 'facts' | 'sent' | 'forwarded'> | null,
  after: Pick<HubObject, 'module' | 'owner' | 'facts'>,
  change: 'whole' | 'part' | 'end',
): Audience {
  const wasPublic = before !== null && before.facts.publish !== false;
  const isPublic = after.facts.publish !== false;
  // Going private is itself sent to those who have the public copy, and to nobody else; after that nothing is. [D21]
  if (!isPublic && !wasPublic) return nobody('unpublished');
  const counterparts = after.module === 'tokens' ? directory.cposOf(after.owner) : directory.emspsOf(after.owner);
  const routed = isPublic ? counterparts : counterparts.filter(sentTo(before));
  const had = change === 'end' ? (before?.sent ?? []).filter((id) => directory.isRegistered(id)) : [];
  const to = had.length > 0 ? [...new Set([...routed, ...had])].sort() : routed;
  if (to.length === 0) return nobody(counterparts.length === 0 ? 'no routing rule' : 'unpublished');
  if (change !== 'part') return { to, whole: [], reason: null };
  const appears = before !== null && !wasPublic && isPublic;
  if (appears) return { to, whole: to, reason: null };
  const wasSent = sentTo(before);
  return { to, whole: to.filter((id) => !wasSent(id)), reason: null };
}
