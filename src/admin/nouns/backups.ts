/**
 * Routes `/backup` and `/backups/{id}`: back up the running store into a directory of the hub's machine.
 * [interface, Admin backup]
 */
import * as z from 'zod';
import { idParams } from '../../api/fields.ts';
import { backup } from '../../api/hub.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

const target = z
  .string()
  .min(1)
  .max(4096)
  .describe("absolute, on the hub's machine; empty or not there yet, outside the data directory");

export function backups(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'POST',
      path: '/backup',
      role: 'admin',
      summary: 'Back the store up into a directory while the hub runs; progress at /backups/{id}',
      status: 202,
      body: z.strictObject({ directory: target }),
      answer: backup,
      run: ({ body: { directory }, trace }) => operations.startBackup(directory, trace),
    }),
    route({
      method: 'GET',
      path: '/backups/{id}',
      summary: 'Show how a backup goes',
      params: idParams,
      answer: backup,
      run: ({ params: { id } }) => operations.backup(id),
    }),
  ];
}
