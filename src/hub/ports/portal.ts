/** How partners get into their portal. */
import type { PortalLink, PortalSession } from '../../api/parties.ts';
import type { ErrorCode } from '../../domain/errors.ts';
import type { PartyId } from '../../domain/party.ts';

export interface PortalVerbs {
  /** A link into the portal of a partner. Throws `notFound`, and `conflict` for one that is suspended. */
  portalLink(id: PartyId, hours: number): PortalLink;
  /** The session that a link opens; null when the link opens nothing any more. `link` is the fragment of its URL. */
  openPortal(link: string): PortalSession | null;
  /** Whose session a token is; null when it has ended. */
  portalPartner(token: string): PartyId | null;
  /** Throws `quotaExceeded` when the partner has used up its quota of the day. [QUOTA-6] */
  portalAct(partner: PartyId): void;
  /** Counts an initial token that the partner issues to itself; throws `quotaExceeded`. [PORTAL-ACCESS-3] */
  portalToken(partner: PartyId): void;
  /** Counts the characters that are written of an act; false, and nothing is counted, when the quota is used up. */
  portalNoted(partner: PartyId, characters: number): boolean;
  /** Counts an act that was refused. */
  portalRefused(partner: PartyId, code: ErrorCode): void;
}
