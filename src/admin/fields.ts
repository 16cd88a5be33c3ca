/**
 * Schemas that several nouns of the admin API share: ids, dates, pages, deliveries.
 */
import { z } from 'zod';

/** A party id such as `NL-TNM`, in upper or lower case. */
export const partyId = z
  .string()
  .regex(/^[A-Za-z]{2}-[A-Za-z0-9]{1,3}$/, 'expected {country_code}-{party_id}, for example NL-TNM')
  .toUpperCase()
  .meta({ description: '{country_code}-{party_id}, for example NL-TNM' });

/** An id in a path. Any text is valid; an unknown id is 404. */
export const anyId = z.string().min(1).max(512);

/** A partner's id in a path. */
export const partnerId = anyId.toUpperCase().meta({ description: '{country_code}-{party_id} of the first role' });

export const instant = z.iso.datetime({ offset: true, error: 'expected an RFC 3339 date-time with Z or an offset' });

/** A bound on recorded instants, converted to their form: UTC with milliseconds, which compares as text. */
export const bound = instant.transform((text) => new Date(text).toISOString());

const text = z.string().min(1).max(512);

/** Query of every list. */
export const pageQuery = {
  limit: z.coerce.number().int().min(1).max(1000).default(100).meta({ description: 'items per page' }),
  cursor: z.string().min(1).max(4096).nullable().default(null).meta({ description: 'next_cursor of the page before' }),
};

/** A filter by exact value. */
export const filter = text.exactOptional();

export const role = z.enum(['CPO', 'EMSP']);
export const interfaceRole = z.enum(['SENDER', 'RECEIVER']);

/** The answer of every list. */
export function listOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item), next_cursor: z.string().nullable() });
}

export const deliveryState = z.enum(['PENDING', 'DELIVERED', 'DEAD']);

/** A delivery with every attempt. */
export const delivery = z.object({
  id: z.string(),
  state: deliveryState,
  receiver: z.string(),
  sender: z.string(),
  module: z.string(),
  object: z.string().meta({ description: '{cc}-{pid}/{id}' }),
  method: z.string(),
  seq: z.number(),
  correlation_id: z.string().nullable(),
  accepted_at: z.string(),
  due_at: z.string().nullable(),
  class: z.string().nullable().meta({ description: 'how it ended, or how its last attempt did' }),
  reason: z.string().nullable(),
  attempts: z.array(
    z.object({
      at: z.string(),
      duration_ms: z.number(),
      http_status: z.number().nullable(),
      ocpi_status: z.number().nullable(),
      class: z.string(),
      excerpt: z.string(),
    }),
  ),
});
