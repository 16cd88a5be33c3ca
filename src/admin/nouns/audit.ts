/**
 * Routes `/audit`: who acted on the hub, and whether the log of it is whole.
 */
import { z } from 'zod';
import { auditCheck, auditEntry } from '../../api/audit.ts';
import { listOf } from '../../api/common.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { boundsQuery, pageQuery } from '../fields.ts';
import { type AdminRoute, route } from '../route.ts';

const part = z.string().min(1).max(200).exactOptional();

export function audit(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/audit',
      role: 'admin',
      summary: 'List the acts of operators, newest first',
      query: z.strictObject({
        operator: part.meta({ description: 'name' }),
        verb: part.meta({ description: 'part of method and route, for example suspend' }),
        about: part.meta({ description: 'part of the path, for example NL-CPO' }),
        ...boundsQuery,
        ...pageQuery,
      }),
      answer: listOf(auditEntry),
      run: ({ query: { limit, cursor, ...filter } }) => operations.audit(filter, { limit, cursor }),
    }),
    route({
      method: 'GET',
      path: '/audit/check',
      role: 'admin',
      summary: 'Check that no entry of the audit log is missing or changed',
      answer: auditCheck,
      run: () => operations.checkAudit(),
    }),
  ];
}
