/** Schemas of requests that several nouns of the admin API share: ids, instants, pages, and filters of lists. */
import * as z from 'zod';
import { outcomeClasses } from '../domain/errors.ts';
import { moduleNames } from '../domain/modules.ts';
import type { TriageChange } from '../domain/triage.ts';
import { instant } from './common.ts';

/** A party id such as `NL-TNM`, in upper or lower case. */
export const partyId = z
  .string()
  .regex(/^[A-Za-z]{2}-[A-Za-z0-9]{1,3}$/, 'expected {country_code}-{party_id}, for example NL-TNM')
  .toUpperCase()
  .describe('{country_code}-{party_id}, for example NL-TNM');

/** An id in a path. Any text is valid; an unknown id is 404. */
export const anyId = z.string().min(1).max(512);

/** A partner's id in a path. */
export const partnerId = anyId.toUpperCase().describe('{country_code}-{party_id} of the first role');

/** Parameters of the paths of one thing, and of one partner. */
export const idParams = z.strictObject({ id: anyId });
export const partnerParams = z.strictObject({ id: partnerId });

export const partnerFilter = partnerId.exactOptional().describe('a partner, by any of its parties');

/** A bound on recorded instants, converted to their form: UTC with milliseconds, which compares as text. */
export const bound = instant.transform((text) => new Date(text).toISOString());

const text = z.string().min(1).max(512);

/** A parameter of a query, null when it is absent. */
export const orNull = <T extends z.ZodType>(schema: T) => schema.optional().transform((value) => value ?? null);

/** Sequence of an event. */
export const sequence = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** Query of every list. */
export const pageQuery = {
  limit: z.coerce.number().int().min(1).max(1000).default(100).describe('items per page'),
  cursor: orNull(z.string().min(1).max(4096)).describe('next_cursor of the page before'),
};

/** A filter by exact value. */
export const filter = text.exactOptional();

/** A filter by an object. An id alone would match nothing. */
export const objectFilter = text
  .regex(/^[^/]+\/./, 'expected {cc}-{pid}/{id}, for example NL-CPO/101')
  .exactOptional()
  .describe('{cc}-{pid}/{id}');

/** Filters by time; the list says of which instant. */
export const boundsQuery = {
  from: bound.exactOptional().describe('RFC 3339, inclusive'),
  to: bound.exactOptional().describe('RFC 3339, exclusive'),
};

export const classFilter = z.enum(outcomeClasses).exactOptional();

export const moduleFilter = z.enum(moduleNames).exactOptional();

export const orderQuery = z.enum(['oldest', 'newest']).describe('which come first');

/** Filters by one party in its role. */
export const pairQuery = { emsp: partyId.exactOptional(), cpo: partyId.exactOptional() };

/** A filter of things between an eMSP and a CPO. */
export const pairFilter = text.toUpperCase().exactOptional().describe('id of the eMSP or the CPO, or a part of it');

// Schemas of the requests by which an operator assigns, snoozes or remarks on a case or a group of dead letters.

export const assignee = z.string().trim().min(1).max(100).describe('name of an operator');

export const triageBody = z
  .strictObject({
    assignee: assignee.nullable().exactOptional().describe('null: nobody'),
    snooze_until: bound
      .refine((text) => /^\d{4}-/.test(text), 'expected a year of four digits')
      .nullable()
      .exactOptional()
      .describe('until then it needs no attention; null: it does at once'),
    remark: z.string().trim().min(1).max(500).exactOptional(),
  })
  .refine((body) => Object.keys(body).length > 0, 'expected assignee, snooze_until or remark');

export function triageChange({ snooze_until, ...change }: z.output<typeof triageBody>): TriageChange {
  return snooze_until === undefined ? change : { ...change, snoozedUntil: snooze_until };
}
