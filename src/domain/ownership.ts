/**
 * Ownership of sessions and CDRs: the eMSP that the `cdr_token` names, or the reason why there is no owning eMSP.
 * [interface, Sessions 1–5; D23]
 */
import type { HubObject, ObjectFacts } from './object.ts';
import type { PartyId } from './party.ts';
import { type Audience, type Directory, nobody } from './routing.ts';

/** Why a session or CDR belongs to no eMSP. */
export const unownedReasons = [
  'cdr_token missing',
  'cdr_token names no party',
  'names the hub',
  'unknown eMSP',
  'not routed',
] as const;

/** Why a session or CDR that has an owning eMSP is kept for it. */
export const notRegistered = 'receiver not registered';

/** Why a session or CDR is stored and not forwarded until that is repaired. Who is pull only reads it in a list. [D23, D89] */
export const keptReasons = [...unownedReasons, notRegistered] as const;

export type Ownership =
  | { readonly viewer: PartyId }
  | { readonly viewer: null; readonly reason: (typeof unownedReasons)[number] };

/**
 * The owning eMSP. `initiator` is the eMSP whose accepted START_SESSION matches, if the CPO's COMPATIBILITY period is
 * active; it counts only when the `cdr_token` itself names no usable eMSP. [interface, Sessions 3 and 4; D37]
 */
export function owningEmsp(
  directory: Directory,
  owner: PartyId,
  facts: ObjectFacts,
  initiator: PartyId | null = null,
): Ownership {
  const named = namedEmsp(directory, owner, facts);
  const mayInherit = named.viewer === null && initiator !== null && directory.isRouted(initiator, owner);
  return mayInherit ? { viewer: initiator } : named;
}

/** The warning about an `OCPI-to-*` that names another party than the `cdr_token`, which decides. [D68] */
export function toWarnings(named: PartyId | undefined, { viewer }: Ownership): string[] {
  if (named === undefined || named === viewer) return [];
  return [`OCPI-to-party-id: ${named} is not the eMSP of the cdr_token`];
}

function namedEmsp(directory: Directory, owner: PartyId, facts: ObjectFacts): Ownership {
  const named = facts.cdrToken;
  if (!named) return { viewer: null, reason: 'cdr_token missing' };
  if (named.party === null) return { viewer: null, reason: 'cdr_token names no party' };
  if (named.party === directory.hub) return { viewer: null, reason: 'names the hub' };
  if (!directory.isEmsp(named.party)) return { viewer: null, reason: 'unknown eMSP' };
  if (!directory.isRouted(named.party, owner)) return { viewer: null, reason: 'not routed' };
  return { viewer: named.party };
}

/**
 * Audience of a session or CDR. An eMSP that did not have the object before gets the whole object instead of a
 * fragment.
 */
export function ownedAudience(
  directory: Directory,
  before: Pick<HubObject, 'viewer' | 'forwarded' | 'reason' | 'sent'> | null,
  ownership: Ownership,
  isFragment: boolean,
): Audience {
  if (ownership.viewer === null) return nobody(ownership.reason);
  if (!directory.isRegistered(ownership.viewer)) return nobody(notRegistered);
  if (!directory.isOwed(ownership.viewer)) return nobody('pull only');
  const { viewer } = ownership;
  const isMissed = before?.sent?.includes(viewer) === false;
  const isNew =
    before !== null && (before.viewer !== viewer || !before.forwarded || before.reason !== null || isMissed);
  const to = [viewer];
  return { to, whole: isNew && isFragment ? to : [], reason: null };
}
