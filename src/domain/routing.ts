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
  /** The change as it came, or the whole object as PUT for receivers that may never have had it. [D21] */
  readonly as: 'change' | 'whole';
  readonly reason: string | null;
}

export const nobody = (reason: string): Audience => ({ to: [], as: 'change', reason });

/** Audience of a location, tariff or token: every routed counterpart; of unpublished locations nobody. */
export function catalogueAudience(
  directory: Directory,
  before: Pick<HubObject, 'facts'> | null,
  after: Pick<HubObject, 'module' | 'owner' | 'facts'>,
  isFragment: boolean,
): Audience {
  const wasPublic = before !== null && before.facts.publish !== false;
  const isPublic = after.facts.publish !== false;
  // Going private is itself told to those who have the public copy; after that nothing is. [D21]
  if (!isPublic && !wasPublic) return nobody('unpublished');
  const to = after.module === 'tokens' ? directory.cposOf(after.owner) : directory.emspsOf(after.owner);
  if (to.length === 0) return nobody('no routing rule');
  const appears = before !== null && !wasPublic && isPublic;
  return { to, as: appears && isFragment ? 'whole' : 'change', reason: null };
}
