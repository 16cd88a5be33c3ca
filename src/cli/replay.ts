/** `ocpi-hub replay`: makes the hub owe again every delivery of a range of the log, delivered or not. */
import type { Command } from 'commander';
import { Failure } from './client.ts';
import { filterOf } from './list-verb.ts';
import { type PutBackFlags, putBack } from './put-back.ts';
import { filterOptions, putBackOptions } from './redrive.ts';
import { oneOf, verb } from './verb.ts';

export function command(): Command {
  return verb<PutBackFlags>({
    usage: 'replay',
    summary: 'owe again what a stretch of the log owed, delivered or dead (counted first, then asked)',
    options: [
      ...filterOptions,
      [
        '--routing <when>',
        'receivers of then (default), or only those of them that are routed now',
        oneOf('then', 'now'),
      ],
      ...putBackOptions,
    ],
    examples: [
      'replay --from-seq 1200 --to-seq 1450 --dry-run',
      'replay --from 2026-01-31T08:00:00Z --to 2026-01-31T09:00:00Z --receiver NL-EMS',
      'replay --from 1h --routing now --yes',
    ],
    run: async (context, _args, flags) => {
      const filter = filterOf(filterOptions, flags);
      const { from_seq, to_seq, from, to } = filter;
      if ([from_seq, to_seq, from, to].every((bound) => bound === undefined)) {
        throw new Failure('say which stretch: --from-seq and --to-seq, or --from and --to', { exitCode: 2 });
      }
      await putBack(context, { state: 'ANY', ...filter }, { routing: 'then', ...flags });
    },
  });
}
