/**
 * Routes `/commands`: commands of eMSPs and their progress.
 */
import { z } from 'zod';
import { command, commandName, commandState } from '../../api/commands.ts';
import { listOf } from '../../api/common.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { anyId, boundsQuery, filter, pageQuery, pairFilter, pairQuery } from '../fields.ts';
import { type AdminRoute, route } from '../route.ts';

export function commands(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/commands',
      summary: 'List commands, newest first; from and to bound `at`',
      query: z.strictObject({
        ...pairQuery,
        party: pairFilter,
        state: commandState.exactOptional(),
        command: commandName.exactOptional(),
        session: filter.meta({ description: 'that it stops: {cc}-{pid}/{id}, or the id alone' }),
        ...boundsQuery,
        ...pageQuery,
      }),
      answer: listOf(command),
      run: ({ query: { limit, cursor, ...filter } }) => operations.commands(filter, { limit, cursor }),
    }),
    route({
      method: 'GET',
      path: '/commands/{id}',
      summary: 'Show a command',
      params: z.strictObject({ id: anyId }),
      answer: command,
      run: ({ params: { id } }) => operations.command(id),
    }),
  ];
}
