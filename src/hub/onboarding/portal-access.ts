/**
 * Ways of a partner into its portal: a link that an operator makes, and the session that the link opens.
 *
 * PORTAL-ACCESS-1  Both are sealed texts, each for one partner until it expires, and neither opens as the other: any node opens them, and
 *     nothing of them is stored.
 * PORTAL-ACCESS-2  A partner that is suspended gets in by neither, nor after it has come back by one from before. No clock decides that.
 * PORTAL-ACCESS-3  A partner issues `tokensMax` initial tokens to itself within an hour: each is an event of its stream, which a start
 *     reads whole. Each process counts for itself, and operators issue as many as they want.
 */
import { HubError } from '../../domain/errors.ts';
import { expiring } from '../../domain/expiring.ts';
import { instantText } from '../../domain/instant.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import { hourMs } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import type { Quota } from '../kernel/quota.ts';
import type { PortalVerbs } from '../ports/operator.ts';

const sessionMs = 8 * hourMs;
/** [PORTAL-ACCESS-3] */
const tokensMax = 10;

interface Pass {
  readonly partner: PartyId;
  /** When the partner had been suspended last. [PORTAL-ACCESS-2] */
  readonly suspendedAt: string | null;
}

export function portalAccess(
  { directory, ports, settings }: Context,
  quota: Pick<Quota, 'hasRoom' | 'check' | 'spend'>,
): PortalVerbs {
  const { clock, secrets } = ports;
  const now = () => clock.wall();
  /** When each partner issued its last initial tokens, hub time, oldest first. */
  const issuedBy = new Map<PartyId, readonly number[]>();
  const read = (value: unknown): Pass => {
    const { partner, suspendedAt } = value as Pass;
    return { partner: String(partner), suspendedAt };
  };
  const links = expiring(read, 'portal link', secrets, now);
  const sessions = expiring(read, 'portal session', secrets, now);
  /** [PORTAL-ACCESS-2] */
  const admitted = (pass: Pass | null): Partner | null => {
    const partner = pass && directory.partner(pass.partner);
    const isGood = partner && partner.status !== 'SUSPENDED' && partner.suspendedAt === pass.suspendedAt;
    return isGood ? partner : null;
  };
  const passOf = ({ id: partner, suspendedAt }: Partner): Pass => ({ partner, suspendedAt });
  return {
    portalLink(id, hours) {
      const partner = directory.partner(id);
      if (!partner) throw new HubError('notFound');
      if (partner.status === 'SUSPENDED') throw new HubError('conflict', { message: `${partner.id} is suspended` });
      const expires_at = instantText(now() + hours * hourMs);
      return {
        url: `${settings.publicUrl}/portal/#${links.seal(passOf(partner), hours * hourMs)}`,
        expires_at,
      };
    },
    openPortal(link) {
      const partner = admitted(links.open(link));
      if (partner === null) return null;
      return {
        token: sessions.seal(passOf(partner), sessionMs),
        partner: partner.id,
        ends_at: instantText(now() + sessionMs),
      };
    },
    portalPartner: (token) => admitted(sessions.open(token))?.id ?? null,
    portalAct: (partner) => quota.check(partner),
    portalToken(partner) {
      const at = clock.now();
      const issued = (issuedBy.get(partner) ?? []).filter((one) => one > at - hourMs);
      const [oldest = at] = issued;
      if (issued.length >= tokensMax) {
        const message = `${partner} has issued ${tokensMax} initial tokens within an hour`;
        throw new HubError('quotaExceeded', { message, retryAfterS: (oldest + hourMs - at) / 1000 });
      }
      issuedBy.set(partner, [...issued, at]);
    },
    portalNoted(partner, characters) {
      const hasRoom = quota.hasRoom(partner);
      if (hasRoom) quota.spend(partner, characters);
      return hasRoom;
    },
    portalRefused: (partner, code) => ports.meter.refused(partner, 'portal', code),
  };
}
