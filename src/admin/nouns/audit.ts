/** Routes `/audit`: who acted on the hub, and whether the log of it is whole. */
import { auditCheck, auditEntry, auditFilter } from '../../api/audit.ts';
import { listOf } from '../../api/common.ts';
import { pageQuery } from '../../api/fields.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

export function audit(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/audit',
      role: 'admin',
      summary: 'List the acts of operators, newest first',
      query: auditFilter.extend(pageQuery),
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
