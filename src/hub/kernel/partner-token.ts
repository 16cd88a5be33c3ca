/**
 * Opens the sealed token of a partner. On several nodes another one may have sealed it under a key that this node lacks:
 * then the hub makes no call, and the node is notified.
 */
import { HubError } from '../../domain/errors.ts';
import type { Partner } from '../../domain/party.ts';
import type { HubPorts } from '../ports/ports.ts';

/** Null when the partner has no token, or the keys of this node do not open it. */
export function openToken(ports: HubPorts, { id, partnerToken }: Partner): string | null {
  if (partnerToken === null) return null;
  try {
    return ports.secrets.open(partnerToken, id);
  } catch (error) {
    ports.log.error({ err: error, partyId: id }, 'the token of a partner cannot be opened');
    ports.unopened?.();
    return null;
  }
}

/** The token to call the partner with. Throws `conflict` when there is none, or the keys of this node do not open it. */
export function tokenFor(ports: HubPorts, partner: Partner): string {
  const token = openToken(ports, partner);
  if (token === null) throw new HubError('conflict', { message: `the hub cannot open the token of ${partner.id}` });
  return token;
}
