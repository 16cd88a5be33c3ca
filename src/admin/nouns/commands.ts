/**
 * Routes `/commands`: commands of eMSPs and their progress.
 */
import { z } from 'zod';
import { commandNames } from '../../domain/events.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { anyId, listOf, pageQuery } from '../fields.ts';
import { type AdminRoute, route } from '../route.ts';

const command = z.object({
  id: z.string(),
  command: z.enum(commandNames),
  emsp: z.string(),
  cpo: z.string(),
  state: z.string(),
  result: z.string().nullable(),
  reason: z.string().nullable().meta({ description: 'why the hub rejected it or could not relay its result' }),
  session: z.string().nullable(),
  at: z.string(),
});

export function commands(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/commands',
      role: 'viewer',
      summary: 'List commands, newest first',
      query: z.strictObject(pageQuery),
      answer: listOf(command),
      run: ({ query }) => operations.commands(query),
    }),
    route({
      method: 'GET',
      path: '/commands/{id}',
      role: 'viewer',
      summary: 'Show a command',
      params: z.strictObject({ id: anyId }),
      answer: command,
      run: ({ params: { id } }) => operations.command(id),
    }),
  ];
}
