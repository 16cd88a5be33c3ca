/** `ocpi-hub redrive`: puts one delivery back into its lane, or all that a filter finds. */
import { type Command, InvalidArgumentError } from 'commander';
import type { DeliveryView } from '../api/deliveries.ts';
import { kinds, pathOf } from './complete.ts';
import { filterOf } from './list-verb.ts';
import { namesOne, type PutBackFlags, putBack } from './put-back.ts';
import { count, deliveryOptions, instant, oneOf, verb } from './verb.ts';

export const filterOptions = [
  ...deliveryOptions,
  ['--from <instant>', 'accepted from then on: 2026-01-31T12:00:00Z, 2026-01-31, or 2h for two hours ago', instant],
  ['--to <instant>', 'accepted before then', instant],
  ['--from-seq <sequence>', 'from this sequence of the log on', count],
  ['--to-seq <sequence>', 'up to this sequence, inclusive', count],
] as const;

export const putBackOptions = [
  ['--dry-run', 'only count what would be re-driven'],
  ['--rate <per second>', 'deliveries per second, at most (default: 50)', rate],
  ['--force', 'also where the receiver has a newer version of the object'],
  ['-y, --yes', 'do not ask'],
] as const;

export function command(): Command {
  return verb<PutBackFlags & { readonly state?: string }>({
    usage: 'redrive [delivery]',
    summary: 'retry one delivery, or all that match a filter (counted first, then asked)',
    options: [
      [
        '--state <state>',
        'DEAD (default), DELIVERED, DISCARDED or ANY (dead and delivered)',
        oneOf('DEAD', 'DELIVERED', 'DISCARDED', 'ANY'),
      ],
      ...filterOptions,
      ...putBackOptions,
    ],
    examples: [
      'redrive 42-NL-EMS',
      'redrive --receiver NL-EMS --from 2h --dry-run',
      'redrive --receiver NL-EMS --module cdrs --yes',
    ],
    run: async (context, [given], flags) => {
      const filter = { state: flags.state, ...filterOf(filterOptions, flags) };
      const hint = '; --state DEAD selects every dead letter';
      if (!namesOne(given, filter, flags, hint)) return putBack(context, filter, flags);
      const { hub, screen } = context;
      const path = `${await pathOf(hub, kinds.delivery, given)}/redrive`;
      screen.answer(await hub.send<DeliveryView>('POST', path, { force: flags.force === true }), (item) => [
        `${item.id} was re-driven: ocpi-hub deliveries show ${item.id} shows how it goes`,
      ]);
    },
  });
}

function rate(text: string): number {
  const number = Number(text);
  if (!(number >= 0.1 && number <= 1000)) throw new InvalidArgumentError('expected a number from 0.1 to 1000');
  return number;
}
