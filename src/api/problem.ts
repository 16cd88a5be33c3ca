/** Refusals of the admin API: problem details, RFC 9457. */
import { z } from 'zod';
import type { View } from './common.ts';

const fieldError = z.object({
  field: z.string().meta({ description: 'body, query or path, then the field: body.roles[0].party_id' }),
  message: z.string(),
});

export const problemDetails = z
  .object({
    type: z.string().meta({ description: 'urn:ocpi-hub:problem:…, one for each status' }),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string().meta({ description: 'what is wrong with this request' }),
    instance: z.string().meta({ description: 'the path that was asked for' }),
    errors: z.array(fieldError).exactOptional().meta({ description: 'each field that was refused' }),
  })
  .meta({ description: 'Problem details, RFC 9457' });

export type FieldError = View<typeof fieldError>;
export type ProblemDetails = View<typeof problemDetails>;
