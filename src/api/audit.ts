/** Answers about the audit log: who acted on the hub as an operator. */
import * as z from 'zod';
import type { View } from './common.ts';
import { boundsQuery } from './fields.ts';

export const operatorRoles = ['viewer', 'support', 'operator', 'admin'] as const;
export const operatorRole = z.enum(operatorRoles);
/** A partner in its portal may do less than any operator. */
export const callerRole = z.enum(['partner', ...operatorRoles]);

export const auditEntry = z.object({
  n: z.number().describe('counts from 1 without a gap'),
  at: z.string(),
  operator: z.string().describe('hub for what the hub did by itself; the id of a partner in its portal'),
  role: callerRole.nullable(),
  verb: z.string().describe('method and route: POST /parties/{id}/suspend'),
  about: z.string().describe('the path, without its query'),
  reason: z.string().nullable(),
  address: z.string().nullable().describe('network address of the caller'),
  status: z.number().describe('HTTP status of the answer: 403 for an act that the role may not do'),
  correlation_id: z.string().nullable().describe('the events of the act have it too'),
  previous: z.string().describe('digest of the entry before; empty for the first one'),
  digest: z.string().describe('SHA-256, base64url, of all other fields'),
});

export const auditCheck = z.object({
  entries: z.number(),
  first: z.number().nullable(),
  last: z.number().nullable(),
  head: z.string().nullable().describe('digest of the last entry, which the log line of each act has too'),
  broken: z
    .object({ n: z.number(), reason: z.enum(['missing', 'changed']) })
    .nullable()
    .describe('the first entry at which the chain does not hold; null when it is intact'),
});

const part = z.string().min(1).max(200).exactOptional();

export const auditFilter = z.strictObject({
  operator: part.describe('name'),
  verb: part.describe('part of method and route, for example suspend'),
  about: part.describe('part of the path, for example NL-CPO'),
  ...boundsQuery,
});

export type AuditFilter = View<typeof auditFilter>;
export type OperatorRole = (typeof operatorRoles)[number];
export type CallerRole = z.output<typeof callerRole>;
export type AuditEntry = View<typeof auditEntry>;
export type AuditCheck = View<typeof auditCheck>;
