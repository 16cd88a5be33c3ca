/**
 * `ocpi-hub status`: prints the hub's state at a glance, and the sessions and CDRs that are stored and not forwarded.
 */
import type { Command } from 'commander';
import type { Unforwarded } from '../api/deliveries.ts';
import type { HubStatus } from '../api/hub.ts';
import { keptReasons } from '../domain/ownership.ts';
import { listVerb } from './list-verb.ts';
import { type Column, fields, type Page, span, when } from './table.ts';
import { eitherOf, noun, oneOf, verb } from './verb.ts';

const columns: readonly Column<Unforwarded>[] = [
  { title: 'object', of: ({ module, object }) => `${module} ${object}`, shrinksTo: 20 },
  { title: 'CPO', of: ({ cpo }) => cpo },
  { title: 'eMSP', of: ({ emsp, names }) => emsp ?? names ?? '' },
  { title: 'reason', of: ({ reason }) => reason, shrinksTo: 16 },
  { title: 'at', of: ({ at }, now) => when(at, now) },
];

export function command(): Command {
  return noun('status', 'the hub at a glance', [
    verb({
      usage: 'show',
      summary: 'show version, store, backlog and actors',
      examples: ['status', 'status --json'],
      run: async ({ hub, screen }) => screen.answer(await hub.get<HubStatus>('/status'), status),
    }),
    listVerb<Unforwarded>({
      usage: 'not-forwarded',
      summary: 'list sessions and CDRs that are stored and not forwarded until that is repaired, with the reason',
      options: [
        ['--cpo <party>', 'of this CPO, for example NL-CPO'],
        ['--reason <reason>', eitherOf.format(keptReasons), oneOf(...keptReasons)],
      ],
      examples: ['status not-forwarded', 'status not-forwarded --cpo NL-CPO --reason "not routed"'],
      path: '/stored-not-forwarded',
      limit: 50,
      columns,
      whenEmpty: () => 'Every stored session and CDR was forwarded, or is of an eMSP that is pull only.',
    }),
  ]);
}

function status(
  { version, uptime_s, ready, store, clock_step, sequence, backlog, actors }: HubStatus,
  page: Page,
): string[] {
  const { paint } = page;
  const oldest = backlog.oldest_age_s === null ? '' : `, the oldest for ${span(backlog.oldest_age_s)}`;
  const isWell = ready && store.state === 'open';
  return fields(page, [
    ['hub', `${version}, up for ${span(uptime_s)}`],
    ['accepting', paint(isWell ? 'green' : 'red', ready ? 'yes' : 'no')],
    ['store', [store.state, store.reason].filter(Boolean).join(': ')],
    ...(!clock_step ? [] : [['wall clock', movedBy(clock_step)] as const]),
    ['sequence', String(sequence)],
    ['backlog', `${backlog.depth} waiting${oldest}`],
    ...Object.entries(actors).map(([kind, states]) => [kind, countsOf(states)] as const),
  ]);
}

function movedBy({ seconds, ago_s }: NonNullable<HubStatus['clock_step']>): string {
  return `moved ${seconds > 0 ? 'forward' : 'back'} by ${span(Math.abs(seconds))}, ${span(ago_s)} ago`;
}

function countsOf(states: Readonly<Record<string, number>>): string {
  return Object.entries(states)
    .map(([state, number]) => `${number} ${state}`)
    .join(', ');
}
