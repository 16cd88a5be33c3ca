/** How partners get into their portal. */
import type { PortalLink, PortalSession } from '../../api/portal.ts';
import type { PartyId } from '../../domain/party.ts';

export interface PortalVerbs {
  /** A link into the portal of a partner. Throws `notFound`, and `conflict` for one that is suspended. */
  portalLink(id: PartyId, hours: number): PortalLink;
  /** The session that a link opens; null when the link opens nothing any more. `link` is the fragment of its URL. */
  openPortal(link: string): PortalSession | null;
  /** Whose session a token is; null when it has ended. */
  portalPartner(token: string): PartyId | null;
}
