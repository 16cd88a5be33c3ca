/**
 * Schemas of the requests by which an operator assigns, snoozes or remarks on a case or a group of dead letters.
 */
import { z } from 'zod';
import { bound } from '../api/fields.ts';
import type { TriageChange } from '../domain/triage.ts';

export const assignee = z.string().trim().min(1).max(100).meta({ description: 'name of an operator' });

export const triageBody = z
  .strictObject({
    assignee: assignee.nullable().exactOptional().meta({ description: 'null: nobody' }),
    snooze_until: bound
      .refine((text) => /^\d{4}-/.test(text), 'expected a year of four digits')
      .nullable()
      .exactOptional()
      .meta({ description: 'until then it needs no attention; null: it does at once' }),
    remark: z.string().trim().min(1).max(500).exactOptional(),
  })
  .refine((body) => Object.keys(body).length > 0, 'expected assignee, snooze_until or remark');

export function triageChange({ snooze_until, ...change }: z.output<typeof triageBody>): TriageChange {
  return snooze_until === undefined ? change : { ...change, snoozedUntil: snooze_until };
}
