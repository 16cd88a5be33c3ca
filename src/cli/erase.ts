/** `ocpi-hub erase`: has a running hub replace what names a person with digests. */
import type { Command } from 'commander';
import type { ErasureView } from '../api/persons.ts';
import { Failure } from './client.ts';
import { type PersonFlags, personOf, personOptions } from './subject.ts';
import { fields, many } from './table.ts';
import { verb } from './verb.ts';

export function command(): Command {
  return verb<PersonFlags & { force?: boolean; dryRun?: boolean; yes?: boolean }>({
    usage: 'erase',
    summary: "remove a person's tokens, and replace the person's names with digests in rows, log and deliveries",
    options: [
      ...personOptions,
      ['--dry-run', 'only count'],
      ['--force', 'also while deliveries are owed: they carry digests then'],
      ['-y, --yes', 'do not ask (without a terminal nobody is asked)'],
    ],
    examples: ['erase --uid 04A1B2C3D4E5F6 --dry-run', 'erase --contract NL-EMS-C00000001-9'],
    run: async ({ hub, screen }, _args, { force = false, dryRun: dry_run = false, yes = false, ...flags }) => {
      const body = { ...personOf(flags), force, dry_run };
      if (!dry_run && !yes && screen.isAnswerable) {
        const { events, rows, tokens } = await hub.send<ErasureView>('POST', '/erase', { ...body, dry_run: true });
        const found = `${many(events, 'event')}, ${many(rows, 'row')} and ${many(tokens, 'token')}`;
        if (!(await screen.ask(`Erase the person from ${found}? Nothing brings the names back.`)))
          throw new Failure('canceled: nothing was erased');
      }
      screen.answer(await hub.send<ErasureView>('POST', '/erase', body), (erasure, page) =>
        fields(page, [
          ['erasure', erasure.id],
          ['state', erasure.state],
          ['events', String(erasure.events)],
          ['rows', String(erasure.rows)],
          ['tokens removed', String(erasure.tokens)],
          ['of', erasure.tokens_of.map(({ emsp, tokens }) => `${emsp} ${tokens}`).join(', ') || null],
          ['deliveries owed', String(erasure.pending)],
          ['digests', erasure.digests.join(', ')],
          ['until a restart in', erasure.until_restart.join(', ') || null],
        ]),
      );
    },
  });
}
