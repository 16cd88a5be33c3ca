/** `ocpi-hub discard`: gives up one dead letter, or all that a filter finds. */
import type { Command } from 'commander';
import type { DeliveryView } from '../api/deliveries.ts';
import { kinds, pathOf } from './complete.ts';
import { filterOf } from './list-verb.ts';
import { giveUp, namesOne, type PutBackFlags } from './put-back.ts';
import { filterOptions } from './redrive.ts';
import { verb } from './verb.ts';

export function command(): Command {
  return verb<Pick<PutBackFlags, 'dryRun' | 'yes'>>({
    usage: 'discard [delivery]',
    summary: 'give up one dead letter, or all that match a filter (counted first, then asked)',
    options: [...filterOptions, ['--dry-run', 'only count what would be discarded'], ['-y, --yes', 'do not ask']],
    examples: [
      'discard 42-NL-EMS',
      'discard --receiver NL-EMS --module tariffs --class not_found --dry-run',
      'discard --receiver NL-EMS --to 2026-01-31 --yes',
    ],
    run: async (context, [given], flags) => {
      const filter = filterOf(filterOptions, flags);
      if (!namesOne(given, filter, flags)) return giveUp(context, filter, flags);
      const { hub, screen } = context;
      const path = `${await pathOf(hub, kinds.delivery, given)}/discard`;
      screen.answer(await hub.send<DeliveryView>('POST', path), (item) => [
        `${item.id} was discarded; ocpi-hub redrive ${item.id} sends it all the same`,
      ]);
    },
  });
}
