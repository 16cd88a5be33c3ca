/**
 * `ocpi-hub discard`: gives up one dead letter, or all that a filter finds.
 */
import type { Command } from 'commander';
import type { DeliveryView } from '../api/deliveries.ts';
import { complete, kinds } from './complete.ts';
import { giveUp, namesOne } from './put-back.ts';
import { type FilterFlags, filterOf, filterOptions } from './redrive.ts';
import { verb } from './verb.ts';

interface DiscardFlags extends FilterFlags {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

export function command(): Command {
  return verb<DiscardFlags>({
    usage: 'discard [delivery]',
    summary: 'give up one dead letter, or all that match a filter (counted first, then asked)',
    options: [...filterOptions, ['--dry-run', 'only count what would be discarded'], ['-y, --yes', 'do not ask']],
    examples: [
      'discard 42-NL-EMS',
      'discard --receiver NL-EMS --module tariffs --class not_found --dry-run',
      'discard --receiver NL-EMS --to 2026-01-31 --yes',
    ],
    run: async (context, [given], flags) => {
      const filter = filterOf(flags);
      if (!namesOne(given, filter, flags)) return giveUp(context, filter, flags);
      const { hub, screen } = context;
      const id = await complete(hub, kinds.delivery, given);
      screen.answer(await hub.send<DeliveryView>('POST', `/deliveries/${encodeURIComponent(id)}/discard`), (item) => [
        `${item.id} was discarded; ocpi-hub redrive ${item.id} sends it all the same`,
      ]);
    },
  });
}
