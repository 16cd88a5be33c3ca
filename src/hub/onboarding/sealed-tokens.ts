/**
 * Partner tokens as they are stored: sealed under the hub's secret key for one partner, and sealed again after that key was
 * replaced or the format has changed; and all that is sealed in a store, of webhooks too.
 */
import type { Store } from '../../../storage/contract.ts';
import { sealedFor, type Webhook } from '../../domain/notification.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import { partnerStream } from '../kernel/directory.ts';
import type { Registration } from './registration.ts';

/** The sealed partner tokens and secrets of webhooks of a store, which the keys of this start must be able to open. */
export async function sealedTexts(store: Store): Promise<{ partner: PartyId; text: string }[]> {
  const found: { partner: PartyId; text: string }[] = [];
  for await (const { data } of store.scan('partners')) {
    const { id, partnerToken } = data as Partner;
    if (partnerToken !== null) found.push({ partner: id, text: partnerToken });
  }
  for await (const { data } of store.scan('webhooks')) {
    const { id, sealedSecret } = data as Webhook;
    found.push({ partner: sealedFor(id), text: sealedSecret });
  }
  return found;
}

/**
 * Re-seals the partner tokens that are sealed under a previous key or in a previous format, in one commit per partner. A kill at any moment
 * leaves tokens that the keys of this start can open, and the next start continues.
 */
export async function reseal(
  { recorder, directory, ports }: Context,
  registration: Pick<Registration, 'recordPartner'>,
  partners: Iterable<Partner>,
): Promise<void> {
  const { isStale, open, seal } = ports.secrets;
  let count = 0;
  for (const { id } of partners) {
    await recorder.inTurn(partnerStream(id), async () => {
      const partner = directory.partner(id);
      if (!partner?.partnerToken || !isStale(partner.partnerToken, id)) return;
      const data = { partnerToken: seal(open(partner.partnerToken, id), id) };
      await registration.recordPartner(partner, [{ type: 'partner.resealed', data }], null);
      count++;
    });
  }
  if (count > 0)
    ports.log.info({ count }, 'partner tokens were sealed again; HUB_SECRET_KEY_PREVIOUS is not needed any more');
}
