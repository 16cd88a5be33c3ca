/** Routes `/commands`: commands of eMSPs and their progress. */
import { command, commandFilter } from '../../api/commands.ts';
import { listOf } from '../../api/common.ts';
import { idParams, pageQuery } from '../../api/fields.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

export function commands(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/commands',
      summary: 'List commands, newest first; from and to bound `at`',
      query: commandFilter.extend(pageQuery),
      answer: listOf(command),
      run: ({ query: { limit, cursor, ...filter } }) => operations.commands(filter, { limit, cursor }),
    }),
    route({
      method: 'GET',
      path: '/commands/{id}',
      summary: 'Show a command',
      params: idParams,
      answer: command,
      run: ({ params: { id } }) => operations.command(id),
    }),
  ];
}
