/** `ocpi-hub deliveries`: prints deliveries, open and ended, with every attempt. */
import type { Command } from 'commander';
import type { TriageView } from '../api/common.ts';
import { type Attempt, type DeadGroup, type DeliveryView, deliveryState } from '../api/deliveries.ts';
import type { Colour } from '../kit/paint.ts';
import { kinds, pathOf } from './complete.ts';
import { listVerb } from './list-verb.ts';
import { age, type Column, fields, type Page, plain, span, table, when } from './table.ts';
import { assignedColumn, assigneeOption, type TriageFlags, triageLine, triageOf, triageOptions } from './triage.ts';
import { deliveryOptions, eitherOf, noun, oneOf, timeOptions, verb } from './verb.ts';

export const stateColours: Readonly<Record<DeliveryView['state'], Colour>> = {
  PENDING: 'yellow',
  DELIVERED: 'green',
  DEAD: 'red',
  DISCARDED: 'dim',
};
const stateColour = ({ state }: DeliveryView) => stateColours[state];

const columns: readonly Column<DeliveryView>[] = [
  { title: 'id', of: ({ id }) => id },
  { title: 'state', of: ({ state }) => state, colour: stateColour },
  { title: 'receiver', of: ({ receiver }) => receiver },
  { title: 'what', of: ({ method, module }) => `${method} ${module}` },
  { title: 'object', of: ({ object }) => object, shrinksTo: 16 },
  { title: 'tries', of: ({ attempts }) => attempts.length, align: 'right' },
  { title: 'accepted', of: ({ accepted_at }, now) => when(accepted_at, now), shrinksTo: 20 },
  { title: 'next or why', of: whatNext, shrinksTo: 12 },
];

const deadColumns: readonly Column<DeadGroup>[] = [
  { title: 'receiver', of: ({ receiver }) => receiver },
  { title: 'module', of: ({ module }) => module },
  { title: 'class', of: (group) => group.class },
  { title: 'count', of: ({ count }) => count, align: 'right' },
  { title: 'oldest', of: ({ oldest_at }, now) => when(oldest_at, now) },
  { title: 'newest', of: ({ newest_at }, now) => when(newest_at, now) },
  { title: 'one of them', of: ({ sample }) => sample },
  assignedColumn,
];

const attemptColumns: readonly Column<Attempt>[] = [
  { title: 'at', of: ({ at }, now) => when(at, now) },
  { title: 'took', of: ({ duration_ms }) => `${duration_ms} ms`, align: 'right' },
  { title: 'http', of: ({ http_status }) => http_status, align: 'right' },
  { title: 'ocpi', of: ({ ocpi_status }) => ocpi_status, align: 'right' },
  { title: 'class', of: (attempt) => attempt.class },
  { title: 'answer', of: ({ excerpt }) => excerpt, shrinksTo: 12 },
];

export function command(): Command {
  return noun('deliveries', 'what is and was owed to receivers, and every attempt', [
    listVerb<DeliveryView, { state?: string }>({
      summary: 'list deliveries by when they were accepted, newest first',
      options: [
        ['--state <state>', eitherOf.format(deliveryState.options), oneOf(...deliveryState.options)],
        ...deliveryOptions,
        ...timeOptions,
        ['--order <order>', 'which come first: oldest or newest (default: newest)', oneOf('oldest', 'newest')],
      ],
      examples: [
        'deliveries',
        'deliveries list --state DEAD --receiver NL-EMS --from 2h',
        'deliveries --json --limit 500',
      ],
      path: '/deliveries',
      limit: 50,
      columns,
      whenEmpty: ({ state }) => noneOf(state),
    }),
    verb<{ assignee?: string }>({
      usage: 'dead',
      summary: 'count dead letters by receiver, module and class',
      options: [assigneeOption],
      examples: ['deliveries dead', 'deliveries dead --assignee ann', 'deliveries dead --json'],
      run: async ({ hub, screen }, _args, { assignee }) => {
        const { items } = await hub.get<{ items: DeadGroup[] }>('/dead-letters', { assignee });
        const none =
          assignee === undefined ? 'There are no dead letters.' : `No dead letter is assigned to ${assignee}.`;
        screen.list({ items, next_cursor: null }, deadColumns, none);
      },
    }),
    verb<TriageFlags>({
      usage: 'triage <receiver> <module> <class>',
      summary: 'assign or snooze a group of dead letters, or remark on it',
      options: triageOptions,
      examples: ['deliveries triage NL-EMS cdrs timeout --assign ann --snooze 2d'],
      run: async ({ hub, screen }, group, flags) => {
        const path = group.map(encodeURIComponent).join('/');
        const body = triageOf(flags);
        screen.answer(await hub.send<TriageView>('POST', `/dead-letters/${path}/triage`, body), (item, { now }) => [
          `${group.join(' ')}: ${triageLine(item, now) || 'nobody'}`,
        ]);
      },
    }),
    verb({
      usage: 'show <id>',
      summary: 'show a delivery with every attempt; the beginning of its id suffices',
      examples: ['deliveries show 42-NL-EMS', 'deliveries show 42', 'deliveries show 42 --json'],
      run: async ({ hub, screen }, [given = '']) => {
        screen.answer(await hub.get<DeliveryView>(await pathOf(hub, kinds.delivery, given)), delivery);
      },
    }),
  ]);
}

export function delivery(item: DeliveryView, page: Page): string[] {
  const { now, paint } = page;
  const about = fields(page, [
    ['delivery', paint('bold', item.id)],
    ['state', paint(stateColour(item), item.state)],
    ['what', `${item.method} ${item.module} ${plain(item.object)}`],
    ['from, to', `${item.sender} → ${item.receiver}`],
    ['accepted', when(item.accepted_at, now)],
    ['next attempt', item.state === 'PENDING' ? nextOf(item, now) : null],
    ['reason', item.reason && plain(item.reason)],
    ['correlation id', item.correlation_id],
  ]);
  const hint =
    item.state === 'DEAD'
      ? ['', `ocpi-hub redrive ${item.id} puts it back, ocpi-hub discard ${item.id} gives it up.`]
      : [];
  return [...about, '', ...attempts(item, page), ...hint];
}

function attempts({ attempts, state }: DeliveryView, page: Page): string[] {
  return attempts.length > 0 ? table(attemptColumns, attempts, page) : [untried[state]];
}

const untried: Readonly<Record<DeliveryView['state'], string>> = {
  PENDING: 'There was no attempt yet.',
  DELIVERED: 'It arrived; its attempts are no longer kept.',
  DEAD: 'It was never sent.',
  DISCARDED: 'It was never sent.',
};

function whatNext({ state, reason, due_at, attempts }: DeliveryView, now: number): string {
  if (state === 'DELIVERED') return '';
  if (state === 'DEAD' || state === 'DISCARDED') return reason ?? '';
  if (due_at === null) return attempts.length === 0 ? 'not tried yet' : 'not tried since its re-drive';
  return Date.parse(due_at) < now ? `due for ${span((now - Date.parse(due_at)) / 1000)}` : `again ${age(due_at, now)}`;
}

function nextOf({ due_at }: DeliveryView, now: number): string {
  if (due_at === null) return 'in its turn, once the circuit is closed and the partner not paused';
  const isHeld = Date.parse(due_at) < now;
  return `${when(due_at, now)}${isHeld ? ', waiting while the circuit is open or the partner paused' : ''}`;
}

function noneOf(state: string | undefined): string {
  const what = state === undefined ? 'delivery' : `${state} delivery`;
  return `No ${what} matches. ocpi-hub trace {object} says why nothing was forwarded, ocpi-hub routes list who is routed.`;
}
