/**
 * Reads one page of a partner's list with all that a check looks at: the objects' texts and the headers of pagination.
 */
import type { InspectedPage, OutboundCall, PartnerInspector } from '../hub/ports/ports.ts';
import { envelopeItems } from '../transport/envelope.ts';
import type { Client } from './client.ts';
import { nextLink } from './pull.ts';

export function partnerInspector(client: Pick<Client, 'read'>): PartnerInspector {
  async function page(call: OutboundCall): Promise<InspectedPage> {
    const { outcome, text, headers } = await client.read(call);
    const header = (name: string) => [headers[name] ?? []].flat().join(', ');
    const texts = outcome.class === 'delivered' ? envelopeItems(text) : [];
    return {
      outcome,
      texts,
      total: header('x-total-count'),
      limit: header('x-limit'),
      next: nextLink(header('link')),
    };
  }
  return { page };
}
