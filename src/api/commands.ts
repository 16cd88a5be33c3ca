/** Answers about commands of eMSPs. */
import * as z from 'zod';
import { commandNames } from '../domain/events.ts';
import type { View } from './common.ts';
import { boundsQuery, filter, pairFilter, pairQuery } from './fields.ts';

export const commandState = z.enum([
  ...(['forwarding', 'awaiting', 'relaying', 'relayed', 'relayFailed', 'rejected', 'silent'] as const),
]);

export const commandName = z.enum(commandNames);

export const command = z.object({
  id: z.string(),
  command: commandName,
  emsp: z.string(),
  cpo: z.string(),
  state: commandState.describe('relayFailed: the last result could not be returned to the eMSP'),
  result: z.string().nullable(),
  reason: z.string().nullable().describe('why the hub rejected it or could not relay its result'),
  /** Id of the session that the command stops; null when it names none. */
  session: z.string().nullable(),
  at: z.string(),
});

/** `from` and `to` bound `at`. [D93] */
export const commandFilter = z.strictObject({
  ...pairQuery,
  party: pairFilter,
  state: commandState.exactOptional(),
  command: commandName.exactOptional(),
  session: filter.describe('that it stops: {cc}-{pid}/{id}, or the id alone'),
  uid: filter.describe('of the token that it names, in either case'),
  ...boundsQuery,
});

export type CommandFilter = View<typeof commandFilter>;
export type CommandView = View<typeof command>;
