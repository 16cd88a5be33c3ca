/** `ocpi-hub subject`: prints everything that a running hub stores of a person, as JSON. */
import type { Command } from 'commander';
import type { SubjectView } from '../api/persons.ts';
import { Failure } from './client.ts';
import { verb } from './verb.ts';

export interface PersonFlags {
  readonly uid?: string;
  readonly contract?: string;
  readonly party?: string;
}

export const personOptions = [
  ['--uid <uid>', 'uid of a token of the person'],
  ['--contract <id>', 'contract id of the person: all of its tokens'],
  ['--party <id>', 'only tokens of this eMSP, and what concerns these'],
] as const;

export function personOf({ uid, contract, party }: PersonFlags): object {
  if (uid === undefined && contract === undefined)
    throw new Failure('expected --uid, --contract or both', { exitCode: 2 });
  return { uid, contract, party };
}

export function command(): Command {
  return verb<PersonFlags>({
    usage: 'subject',
    summary: 'print everything that is stored of a person, as JSON',
    options: personOptions,
    examples: ['subject --uid 04A1B2C3D4E5F6 > subject.json', 'subject --contract NL-EMS-C00000001-9'],
    run: async ({ hub, screen }, _args, flags) => {
      screen.answer(await hub.send<SubjectView>('POST', '/subject', personOf(flags)), (found) =>
        JSON.stringify(found, null, 2).split('\n'),
      );
    },
  });
}
