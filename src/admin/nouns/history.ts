/** Routes `/history` and `/parties/{id}/history`, and the monthly report of a partner. */
import * as z from 'zod';
import { partnerParams } from '../../api/fields.ts';
import { historyRange, monthlyReport, partnerHistory, history as wholeHistory } from '../../api/history.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

const month = z
  .string()
  .regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'expected a month, for example 2026-10')
  .describe('for example 2026-10, UTC');

export function history(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/history',
      summary: 'Show what passed through the hub, by minute or by hour',
      query: historyRange,
      answer: wholeHistory,
      rows: 'points',
      run: ({ query: range }) => operations.history(range),
    }),
    route({
      method: 'GET',
      path: '/parties/{id}/history',
      summary: 'Show what passed between the hub and a partner, by minute or by hour',
      params: partnerParams,
      query: historyRange,
      answer: partnerHistory,
      rows: 'points',
      run: ({ params: { id }, query: range }) => operations.partnerHistory(id, range),
    }),
    route({
      method: 'GET',
      path: '/parties/{id}/report/{month}',
      summary: 'Show the report of a month: what passed between the hub and a partner each day',
      params: partnerParams.extend({ month }),
      answer: monthlyReport,
      rows: 'days',
      run: ({ params: chosen }) => operations.monthlyReport(chosen.id, chosen.month),
    }),
  ];
}
