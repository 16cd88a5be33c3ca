/**
 * `ocpi-hub orphans`: prints and closes orphan cases: sessions that were stopped and never completed, or completed and
 * never billed.
 */
import type { Command } from 'commander';
import type { OrphanView } from '../api/orphans.ts';
import type { Colour } from '../kit/paint.ts';
import { kinds, pathOf } from './complete.ts';
import { listVerb } from './list-verb.ts';
import { type Column, fields, type Page, when } from './table.ts';
import { assignedColumn, assigneeOption, type TriageFlags, triageLine, triageOf, triageOptions } from './triage.ts';
import { noun, oneOf, verb } from './verb.ts';

const colours: Readonly<Record<OrphanView['state'], Colour>> = { GRACE: 'yellow', OPEN: 'red', RESOLVED: 'green' };

const columns: readonly Column<OrphanView>[] = [
  { title: 'id', of: ({ id }) => id },
  { title: 'state', of: ({ state }) => state, colour: ({ state }) => colours[state] },
  { title: 'kind', of: ({ kind }) => kind },
  { title: 'session', of: ({ session }) => session, shrinksTo: 16 },
  { title: 'eMSP', of: ({ emsp }) => emsp },
  { title: 'opened', of: ({ opened_at }, now) => when(opened_at, now), shrinksTo: 20 },
  { title: 'note', of: ({ note }) => note, shrinksTo: 12 },
  assignedColumn,
];

interface ListFlags {
  readonly assignee?: string;
  readonly state?: OrphanView['state'];
}

function whenEmpty({ assignee, state }: ListFlags): string {
  if (assignee !== undefined) return `No orphan case is assigned to ${assignee}.`;
  if (state === 'GRACE') return 'No stopped session is in its grace period.';
  return 'No orphan case matches. ocpi-hub orphans list --state GRACE lists stopped sessions in their grace period.';
}

export function command(): Command {
  return noun('orphans', 'sessions that did not end as they should', [
    listVerb<OrphanView, ListFlags>({
      summary: 'list orphan cases, oldest first',
      options: [
        [
          '--state <state>',
          'OPEN or RESOLVED (default: both), or GRACE: stopped sessions that are no cases yet',
          oneOf('GRACE', 'OPEN', 'RESOLVED'),
        ],
        assigneeOption,
      ],
      examples: ['orphans', 'orphans list --state OPEN', 'orphans list --state GRACE'],
      path: '/orphans',
      limit: 100,
      columns,
      whenEmpty,
    }),
    verb({
      usage: 'pull <id>',
      summary: 'query the CPO of an open case again',
      examples: ['orphans pull 7f3a'],
      run: async ({ hub, screen }, [given = '']) => {
        const found = await hub.send<OrphanView>('POST', `${await pathOf(hub, kinds.orphan, given)}/pull`);
        screen.answer(found, ({ cpo, session }) => [
          `${cpo} is queried about ${session}: ocpi-hub orphans list shows the result`,
        ]);
      },
    }),
    verb<TriageFlags>({
      usage: 'triage <id>',
      summary: 'assign or snooze an open case, or remark on it',
      options: triageOptions,
      examples: ['orphans triage 7f3a --assign ann --snooze 4h --remark "the CPO looks into it"'],
      run: async ({ hub, screen }, [given = ''], flags) => {
        const body = triageOf(flags);
        const path = `${await pathOf(hub, kinds.orphan, given)}/triage`;
        screen.answer(await hub.send<OrphanView>('POST', path, body), orphan);
      },
    }),
    verb<{ note?: string }>({
      usage: 'resolve <id>',
      summary: 'close an open case by hand; changes no session',
      options: [['--note <text>', 'why it may be closed']],
      examples: ['orphans resolve 7f3a --note "settled with the CPO by telephone"'],
      run: async ({ hub, screen }, [given = ''], { note }) => {
        const path = `${await pathOf(hub, kinds.orphan, given)}/resolve`;
        screen.answer(await hub.send<OrphanView>('POST', path, { note }), orphan);
      },
    }),
  ]);
}

function orphan(item: OrphanView, page: Page): string[] {
  const { paint, now } = page;
  return fields(page, [
    ['case', paint('bold', item.id)],
    ['state', paint(colours[item.state], item.state)],
    ['kind', item.kind],
    ['session', item.session],
    ['CPO, eMSP', `${item.cpo}, ${item.emsp}`],
    ['opened', when(item.opened_at, now)],
    ['last queried', when(item.pulled_at, now)],
    ['resolved', when(item.resolved_at, now)],
    ['note', item.note],
    ['taken care of by', triageLine(item.triage, now)],
  ]);
}
